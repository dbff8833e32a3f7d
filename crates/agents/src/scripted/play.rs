//! One session of the scripted agent: its turns, step by step.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::watch;

use super::script::{Ask, OptionKind, Placement, Script, Step, Terminal, Tool};
use super::wire::Wire;

/// What is written at a time when updates are streamed: as much as a pipe holds.
const FLOOD_WRITE_BYTES: usize = 64 * 1024;

/// What the prompt is answered with.
type Answer = Result<Value, (i64, String)>;

/// Whether the turn goes on. An end without an answer is silence.
enum Flow {
    Next,
    End(Option<Answer>),
}

pub(super) struct Stage {
    wire: Arc<Wire>,
    session: String,
    cwd: String,
    script: Script,
    cancelled: watch::Sender<bool>,
    running: AtomicBool,
}

impl Stage {
    pub(super) fn new(wire: Arc<Wire>, session: String, cwd: String, script: Script) -> Self {
        Self {
            wire,
            session,
            cwd,
            script,
            cancelled: watch::Sender::new(false),
            running: AtomicBool::new(false),
        }
    }

    pub(super) fn cancel(&self) {
        if !self.script.ignore_cancel {
            self.cancelled.send_replace(true);
        }
    }

    /// Refuses while a turn runs.
    pub(super) fn begin_turn(&self) -> bool {
        let begins = !self.running.swap(true, Ordering::SeqCst);
        if begins {
            self.cancelled.send_replace(false);
        }
        begins
    }

    /// Plays a turn. Without an answer the prompt stays unanswered.
    pub(super) async fn play(&self, params: &Value) -> Option<Answer> {
        let text = prompt_text(params);
        self.remember(Some(&text)).await;
        let flow = match steps_of(&self.script, &text) {
            Ok(steps) => self.steps(&steps).await,
            Err(error) => Flow::End(Some(Err((-32602, format!("bad script: {error}"))))),
        };
        let answer = match flow {
            Flow::End(answer) => answer,
            Flow::Next if *self.cancelled.borrow() => Some(stop("cancelled")),
            Flow::Next => Some(stop("end_turn")),
        };
        if answer.is_some() {
            self.running.store(false, Ordering::SeqCst);
        }
        answer
    }

    fn steps<'a>(&'a self, steps: &'a [Step]) -> Pin<Box<dyn Future<Output = Flow> + Send + 'a>> {
        Box::pin(async move {
            for step in steps {
                if let Flow::End(answer) = self.step(step).await {
                    return Flow::End(answer);
                }
            }
            Flow::Next
        })
    }

    async fn step(&self, step: &Step) -> Flow {
        match step {
            Step::Say(text) => self.say(text).await,
            Step::Think(text) => self.chunk("agent_thought_chunk", text).await,
            Step::Plan(steps) => self.plan(steps).await,
            Step::Usage { used, size, cost } => self.usage(*used, *size, *cost).await,
            Step::Mode(mode) => {
                let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": mode});
                self.update(&update).await;
            }
            Step::Update(update) => self.update(update).await,
            Step::Tool(tool) => self.tool(tool).await,
            Step::Ask(ask) => return self.ask(ask).await,
            Step::Parallel(asks) => return self.parallel(asks).await,
            Step::Terminal(terminal) => self.terminal(terminal).await,
            Step::Write { path, content } => {
                let params = json!({"path": path, "content": content});
                self.call_and_say("fs/write_text_file", params).await;
            }
            Step::Read { path } => {
                self.call_and_say("fs/read_text_file", json!({"path": path}))
                    .await;
            }
            Step::Run(command) => self.run(command).await,
            Step::SleepMs(ms) => return self.sleep(Duration::from_millis(*ms)).await,
            Step::Updates { count, bytes } => self.flood(*count, *bytes).await,
            Step::Call {
                method,
                params,
                notification,
            } => self.call(method, params, *notification).await,
            rude => return self.rude(rude).await,
        }
        Flow::Next
    }

    async fn rude(&self, step: &Step) -> Flow {
        match step {
            Step::Raw(text) => self.wire.write(text.as_bytes()).await,
            Step::RawBytes(bytes) => self.wire.write(bytes).await,
            Step::HugeLine(bytes) => self.say(&"x".repeat(*bytes)).await,
            Step::HalfFrame => {
                self.wire
                    .write(br#"{"jsonrpc":"2.0","method":"session/upd"#)
                    .await;
                return self.exit(0).await;
            }
            Step::Exit(code) => return self.exit(*code).await,
            Step::Abort => {
                let me = rustix::process::getpid();
                let killed = rustix::process::kill_process(me, rustix::process::Signal::KILL);
                return self.exit(if killed.is_ok() { 0 } else { 1 }).await;
            }
            Step::Silence => return self.silence().await,
            Step::Error { code, message } => {
                return Flow::End(Some(Err((*code, message.clone()))));
            }
            Step::Stop(reason) => return Flow::End(Some(stop(reason))),
            _ => {}
        }
        Flow::Next
    }

    /// Nothing more comes of the turn: the whole agent ends.
    async fn exit(&self, code: u8) -> Flow {
        self.wire.end(code);
        std::future::pending().await
    }

    /// Until the turn is cancelled, if ever.
    async fn silence(&self) -> Flow {
        let mut cancelled = self.cancelled.subscribe();
        match cancelled.wait_for(|cancelled| *cancelled).await {
            Ok(_) => Flow::End(Some(stop("cancelled"))),
            Err(_) => Flow::End(None),
        }
    }

    async fn sleep(&self, time: Duration) -> Flow {
        tokio::select! {
            flow = self.silence() => flow,
            () = tokio::time::sleep(time) => Flow::Next,
        }
    }

    async fn update(&self, update: &Value) {
        let params = json!({"sessionId": self.session, "update": update});
        self.wire.notify("session/update", &params).await;
    }

    async fn chunk(&self, kind: &str, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(&json!({"sessionUpdate": kind, "content": content}))
            .await;
    }

    pub(super) async fn say(&self, text: &str) {
        self.chunk("agent_message_chunk", text).await;
    }

    pub(super) async fn replay(&self, text: &str) {
        self.chunk("user_message_chunk", text).await;
        self.say("as I said before").await;
    }

    async fn plan(&self, steps: &[(String, String)]) {
        let entries = steps.iter().map(
            |(content, status)| json!({"content": content, "status": status, "priority": "medium"}),
        );
        let entries: Vec<Value> = entries.collect();
        self.update(&json!({"sessionUpdate": "plan", "entries": entries}))
            .await;
    }

    async fn usage(&self, used: u64, size: u64, cost: Option<f64>) {
        let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
        if let Some(amount) = cost {
            update["cost"] = json!({"amount": amount, "currency": "USD"});
        }
        self.update(&update).await;
    }

    /// Many lines in one write, so that the pipe is the only brake.
    async fn flood(&self, count: u64, bytes: usize) {
        let text = "x".repeat(bytes);
        let mut lines = String::new();
        for number in 0..count {
            let content = json!({"type": "text", "text": format!("{number} {text}\n")});
            let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
            let params = json!({"sessionId": self.session, "update": update});
            let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
            lines.push_str(&line.to_string());
            lines.push('\n');
            if lines.len() > FLOOD_WRITE_BYTES {
                self.wire.write(lines.as_bytes()).await;
                lines.clear();
            }
        }
        self.wire.write(lines.as_bytes()).await;
    }

    async fn tool(&self, tool: &Tool) {
        self.update(&tool_call(tool, "tool_call", "pending")).await;
        self.finish(tool, tool.ends.as_deref()).await;
    }

    async fn finish(&self, tool: &Tool, status: Option<&str>) {
        let Some(status) = status else {
            return;
        };
        let content = json!({"type": "content", "content": {"type": "text", "text": tool.output}});
        let update = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": tool.call,
            "status": status,
            "content": [content],
        });
        self.update(&update).await;
    }

    async fn parallel(&self, asks: &[Ask]) -> Flow {
        let mut waits = Vec::new();
        for ask in asks {
            waits.push((ask, self.request_permission(ask).await));
        }
        for (ask, (id, response)) in waits {
            let response = response.await.unwrap_or_default();
            if let Flow::End(answer) = self.answered(ask, &id, &response).await {
                return Flow::End(answer);
            }
        }
        Flow::Next
    }

    async fn ask(&self, ask: &Ask) -> Flow {
        let (id, mut response) = self.request_permission(ask).await;
        let response = match ask.withdraw_after_ms {
            None => response.await,
            Some(ms) => {
                tokio::select! {
                    response = &mut response => response,
                    () = tokio::time::sleep(Duration::from_millis(ms)) => {
                        self.wire.notify("$/cancel_request", &json!({"requestId": id})).await;
                        response.await
                    }
                }
            }
        };
        self.answered(ask, &id, &response.unwrap_or_default()).await
    }

    async fn request_permission(
        &self,
        ask: &Ask,
    ) -> (Value, tokio::sync::oneshot::Receiver<Value>) {
        let tool = &ask.tool;
        let empty = Tool {
            input: json!({}),
            title: "Tool".to_owned(),
            ..tool.clone()
        };
        match ask.placement {
            Placement::Before => self.update(&tool_call(tool, "tool_call", "pending")).await,
            Placement::Filled => {
                self.update(&tool_call(&empty, "tool_call", "pending"))
                    .await;
                self.update(&tool_call(tool, "tool_call_update", "pending"))
                    .await;
            }
            Placement::InRequest | Placement::After | Placement::Never => {}
        }
        let mut call = match ask.placement {
            Placement::InRequest => tool_call(tool, "", "pending"),
            _ => json!({"toolCallId": tool.call}),
        };
        if let Some(call) = call.as_object_mut() {
            call.remove("sessionUpdate");
        }
        let params = json!({
            "sessionId": self.session,
            "toolCall": call,
            "options": options(&ask.options),
        });
        let id = ask.id.clone().unwrap_or_else(|| self.wire.next_id());
        let response = self
            .wire
            .request(&id, "session/request_permission", &params)
            .await;
        if ask.placement == Placement::After {
            self.update(&tool_call(tool, "tool_call", "pending")).await;
        }
        (id, response)
    }

    async fn answered(&self, ask: &Ask, id: &Value, response: &Value) -> Flow {
        let option = response.pointer("/result/outcome/optionId");
        let option = option.and_then(Value::as_str);
        if ask.echo {
            let outcome = &response["result"];
            self.say(&format!("{id} was answered: {outcome}")).await;
        }
        let (status, steps) = match option {
            Some(option) if option.starts_with("allow") => ("completed", &ask.on_allow),
            Some(_) => ("failed", &ask.on_deny),
            None => ("failed", &ask.on_cancel),
        };
        let flow = self.steps(steps).await;
        let status = ask.tool.ends.as_deref().unwrap_or(status);
        self.finish(&ask.tool, Some(status).filter(|status| *status != "never"))
            .await;
        flow
    }

    async fn send(&self, method: &str, mut params: Value) -> Value {
        params["sessionId"] = json!(self.session);
        let id = self.wire.next_id();
        let response = self.wire.request(&id, method, &params).await;
        response.await.unwrap_or_default()
    }

    async fn call_and_say(&self, method: &str, params: Value) -> Value {
        let response = self.send(method, params).await;
        let what = match response.get("result") {
            Some(result) => format!("{method}: {result}"),
            None => format!("{method} failed: {}", response["error"]),
        };
        self.say(&what).await;
        response
    }

    async fn call(&self, method: &str, params: &Value, notification: bool) {
        if notification {
            self.wire.notify(method, params).await;
        } else {
            let params = if params.is_object() {
                params.clone()
            } else {
                json!({})
            };
            self.call_and_say(method, params).await;
        }
    }

    async fn terminal(&self, terminal: &Terminal) {
        let env = terminal.env.iter();
        let env: Vec<Value> = env
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let mut params = json!({"command": terminal.command, "args": terminal.args, "env": env});
        if let Some(cwd) = &terminal.cwd {
            params["cwd"] = json!(cwd);
        }
        if let Some(limit) = terminal.output_byte_limit {
            params["outputByteLimit"] = json!(limit);
        }
        let created = self.call_and_say("terminal/create", params).await;
        let Some(id) = created.pointer("/result/terminalId").cloned() else {
            return;
        };
        let named = || json!({"terminalId": id});
        if terminal.kill {
            self.call_and_say("terminal/kill", named()).await;
        }
        self.call_and_say("terminal/wait_for_exit", named()).await;
        self.call_and_say("terminal/output", named()).await;
        if !terminal.keep {
            self.call_and_say("terminal/release", named()).await;
        }
    }

    async fn run(&self, command: &str) {
        let ran = Command::new("sh")
            .args(["-c", command])
            .current_dir(&self.cwd)
            .stdin(std::process::Stdio::null())
            .output()
            .await;
        match ran {
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stdout);
                self.say(&format!("ran: {}", text.trim_end())).await;
            }
            Err(error) => self.say(&format!("could not run: {error}")).await,
        }
    }

    /// Adds a prompt to what a later process can go on with.
    pub(super) async fn remember(&self, prompt: Option<&str>) {
        let Some(file) = file_of(self.script.state.as_deref(), &self.session) else {
            return;
        };
        let mut history = recall(self.script.state.as_deref(), &self.session)
            .await
            .unwrap_or_default();
        history.extend(prompt.map(str::to_owned));
        if let Err(error) = tokio::fs::write(&file, json!(history).to_string()).await {
            tracing::error!(%error, "could not remember the session");
        }
    }
}

/// What was said to a session, if there is one.
pub(super) async fn recall(state: Option<&Path>, session: &str) -> Option<Vec<String>> {
    let text = tokio::fs::read_to_string(file_of(state, session)?)
        .await
        .ok()?;
    serde_json::from_str(&text).ok()
}

fn file_of(state: Option<&Path>, session: &str) -> Option<PathBuf> {
    let is_plain = session
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-');
    state
        .filter(|_| is_plain)
        .map(|folder| folder.join(format!("{session}.json")))
}

fn prompt_text(params: &Value) -> String {
    let blocks = params["prompt"].as_array();
    let texts = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

fn steps_of(script: &Script, prompt: &str) -> Result<Vec<Step>, serde_json::Error> {
    let within = prompt.split_once("<script>");
    let within = within.and_then(|(_, rest)| rest.split_once("</script>"));
    match (within, &script.steps) {
        (Some((steps, _)), _) => serde_json::from_str(steps),
        (None, Some(steps)) => Ok(steps.clone()),
        (None, None) => Ok(vec![Step::Say(format!("You said: {prompt}"))]),
    }
}

fn stop(reason: &str) -> Answer {
    Ok(json!({"stopReason": reason}))
}

fn tool_call(tool: &Tool, kind: &str, status: &str) -> Value {
    let locations: Vec<Value> = tool
        .locations
        .iter()
        .map(|path| json!({"path": path}))
        .collect();
    let mut call = json!({
        "sessionUpdate": kind,
        "toolCallId": tool.call,
        "title": tool.title,
        "kind": tool.kind,
        "status": status,
        "rawInput": tool.input,
        "locations": locations,
    });
    if let Some(name) = &tool.name {
        call["name"] = json!(name);
    }
    call
}

fn options(kinds: &[OptionKind]) -> Vec<Value> {
    let polite = [OptionKind::AllowOnce, OptionKind::RejectOnce];
    let kinds = if kinds.is_empty() { &polite } else { kinds };
    let options = kinds.iter().map(|kind| {
        let (id, kind) = match kind {
            OptionKind::AllowOnce => ("allow", "allow_once"),
            OptionKind::AllowAlways => ("allow-always", "allow_always"),
            OptionKind::RejectOnce => ("reject", "reject_once"),
            OptionKind::RejectAlways => ("reject-always", "reject_always"),
        };
        json!({"optionId": id, "kind": kind, "name": id})
    });
    options.collect()
}
