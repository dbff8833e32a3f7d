//! An editor, as far as tests need one: it starts `countersign acp` and speaks to it.
//!
//! Every line that it gets is checked against the protocol's schema, also those that no test looks at.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use countersign_testkit::doors::acp::AgentLineCheck;
use serde_json::{Value, json};

use crate::host::{PATIENCE, command};
use crate::managed::{PROGRAM, script};
use crate::scene::Scene;

/// Longer than an allow must take to be a person's.
pub(crate) const READING: Duration = Duration::from_millis(400);

/// Lines that a test may leave unread.
const LINES_MAX: usize = 100_000;

pub(crate) struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// What came and was not looked at yet.
    seen: VecDeque<Value>,
    check: AgentLineCheck,
    next_id: u64,
}

impl Editor {
    /// With the scripted agent for new sessions.
    pub(crate) fn start(scene: &Scene) -> Self {
        Self::start_with(scene, &scripted(scene))
    }

    pub(crate) fn start_with(scene: &Scene, arguments: &[&str]) -> Self {
        let mut command = command(scene.host.home());
        command.arg("acp").args(arguments);
        let mut editor = Self::launch(command);
        editor.initialize(&json!({}));
        editor
    }

    /// Starts the program and says nothing yet.
    pub(crate) fn launch(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in output.lines() {
                let message = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            seen: VecDeque::new(),
            check: AgentLineCheck::default(),
            next_id: 0,
        }
    }

    pub(crate) fn initialize(&mut self, capabilities: &Value) -> Value {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        self.ok("initialize", &params)
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.check.note_client_line(message);
        let mut line = message.to_string();
        line.push('\n');
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
    }

    /// Sends a request and gives its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Answers a request of the other side.
    pub(crate) fn answer(&mut self, request: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// The response to a request; what comes before it is kept.
    pub(crate) fn response(&mut self, id: u64) -> Value {
        self.take("a response", |message| {
            message["id"] == id && message.get("method").is_none()
        })
    }

    pub(crate) fn ok(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        let mut response = self.response(id);
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].take()
    }

    pub(crate) fn error(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        let mut response = self.response(id);
        assert!(response.get("result").is_none(), "{method}: {response}");
        response["error"].take()
    }

    /// The first message that fits, of those that came and those that will.
    pub(crate) fn take(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.seen.iter().position(&fits) {
            return self.seen.remove(place).unwrap();
        }
        loop {
            let message = match self.lines.recv_timeout(PATIENCE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("waited too long for {what}; there was {:?}", self.seen)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it ended before {what}; there was {:?}", self.seen)
                }
            };
            self.check.check_agent_line(&message).unwrap();
            if fits(&message) {
                return message;
            }
            self.seen.push_back(message);
        }
    }

    /// The next request of the other side.
    pub(crate) fn asked(&mut self, method: &str) -> Value {
        self.take(method, |message| {
            message["method"] == method && message.get("id").is_some()
        })
    }

    /// The next notification.
    pub(crate) fn told(&mut self, method: &str) -> Value {
        self.take(method, |message| {
            message["method"] == method && message.get("id").is_none()
        })
    }

    /// The next update of a kind.
    pub(crate) fn update(&mut self, kind: &str) -> Value {
        let mut message = self.take(kind, |message| {
            message["params"]["update"]["sessionUpdate"] == kind
        });
        message["params"]["update"].take()
    }

    /// What was said so far in chunks of a kind, and forgets it.
    pub(crate) fn said(&mut self, kind: &str) -> String {
        let mut text = String::new();
        self.seen.retain(|message| {
            let update = &message["params"]["update"];
            let is_chunk = update["sessionUpdate"] == kind;
            if is_chunk {
                text.push_str(update["content"]["text"].as_str().unwrap());
            }
            !is_chunk
        });
        text
    }

    /// Everything that came and was not looked at.
    pub(crate) fn rest(&self) -> impl Iterator<Item = &Value> {
        self.seen.iter()
    }

    /// A new session in the scene's folder.
    pub(crate) fn open(&mut self, scene: &Scene) -> String {
        let params = json!({ "cwd": scene.folder(), "mcpServers": [] });
        let opened = self.ok("session/new", &params);
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a script to the agent and gives the id of the request.
    pub(crate) fn prompt(&mut self, session: &str, steps: &Value) -> u64 {
        self.prompt_text(session, &script(steps))
    }

    pub(crate) fn prompt_text(&mut self, session: &str, text: &str) -> u64 {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.request("session/prompt", &params)
    }

    /// How a prompt ended.
    pub(crate) fn stop_reason(&mut self, prompt: u64) -> String {
        let response = self.response(prompt);
        let reason = response["result"]["stopReason"].as_str();
        reason.unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    /// Chooses an option, as a person does who has read it first.
    pub(crate) fn choose(&mut self, request: &Value, option: &str) {
        std::thread::sleep(READING);
        self.choose_at_once(request, option);
    }

    /// Attaches to an agent with what it said so far, and gives the answer.
    pub(crate) fn load(&mut self, scene: &Scene, session: &str) -> Value {
        let params = json!({ "sessionId": session, "cwd": scene.folder(), "mcpServers": [] });
        self.ok("session/load", &params)
    }

    pub(crate) fn choose_at_once(&mut self, request: &Value, option: &str) {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.answer(request, &outcome);
    }

    /// Closes the input and waits for the end.
    pub(crate) fn close(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }

    /// Ends the program as a crash of the editor would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.input.take());
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
        if !std::thread::panicking() {
            for message in &self.lines {
                self.check.check_agent_line(&message).unwrap();
            }
        }
    }
}

/// The arguments for new sessions with the scripted agent, which keeps its sessions in the scene's folder.
pub(crate) fn scripted(scene: &Scene) -> [&'static str; 2] {
    let state = scene.folder();
    let mark = format!("SCENE_MARK={}", scene.mark());
    let line = format!(
        "env 'SCRIPTED_AGENT_STATE={}' '{mark}' '{PROGRAM}' demo agent",
        state.display()
    );
    ["--command", Box::leak(line.into_boxed_str())]
}
