//! One session of the scripted agent: its turns, step by step.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::script::{AgentScript, ScriptStep, ScriptedTool};
use super::wire::ScriptedWire;

/// What is written at a time when updates are streamed: as much as a pipe holds.
const FLOOD_WRITE_BYTES: usize = 64 * 1024;

/// What the prompt is answered with.
type PromptAnswer = Result<Value, (i64, String)>;

/// Whether the turn continues. An end without an answer is silence.
pub(super) enum TurnFlow {
    Next,
    End(Option<PromptAnswer>),
}

pub(super) struct ScriptSession {
    pub(super) wire: Arc<ScriptedWire>,
    pub(super) session: String,
    pub(super) cwd: String,
    script: AgentScript,
    cancelled: watch::Sender<bool>,
    /// The prompt that is to be answered, while a turn runs.
    prompt: Mutex<Option<Value>>,
}

impl ScriptSession {
    pub(super) fn new(
        wire: Arc<ScriptedWire>,
        session: String,
        cwd: String,
        script: AgentScript,
    ) -> Self {
        Self {
            wire,
            session,
            cwd,
            script,
            cancelled: watch::Sender::new(false),
            prompt: Mutex::new(None),
        }
    }

    pub(super) fn cancel(&self) {
        if !self.script.ignore_cancel {
            self.cancelled.send_replace(true);
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Refuses while a turn runs.
    pub(super) fn begin_turn(&self, id: &Value) -> bool {
        let mut prompt = self.prompt.lock().unwrap_or_else(PoisonError::into_inner);
        if prompt.is_some() {
            return false;
        }
        *prompt = Some(id.clone());
        // A cancellation that was meant for the turn before must not end this one.
        self.cancelled.send_replace(false);
        true
    }

    /// Answers the prompt, once. The next one may come before this answer is written.
    async fn answer(&self, answer: PromptAnswer) {
        let prompt = self
            .prompt
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(id) = prompt {
            self.wire.answer(&id, answer).await;
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.script.quiet
    }

    /// Plays a turn, and answers the prompt unless the script is silent.
    pub(super) async fn play(&self, params: &Value) {
        let text = prompt_text(params);
        self.remember(Some(&text)).await;
        let flow = match steps_of(&self.script, &text) {
            Ok(steps) => self.steps(&steps).await,
            Err(error) => TurnFlow::End(Some(Err((-32602, format!("bad script: {error}"))))),
        };
        match flow {
            TurnFlow::End(None) => {}
            TurnFlow::End(Some(answer)) => self.answer(answer).await,
            TurnFlow::Next if self.is_cancelled() => self.answer(Ok(stop("cancelled"))).await,
            TurnFlow::Next => self.answer(Ok(stop("end_turn"))).await,
        }
    }

    pub(super) fn steps<'a>(
        &'a self,
        steps: &'a [ScriptStep],
    ) -> Pin<Box<dyn Future<Output = TurnFlow> + Send + 'a>> {
        Box::pin(async move {
            for step in steps {
                if let TurnFlow::End(answer) = self.step(step).await {
                    return TurnFlow::End(answer);
                }
            }
            TurnFlow::Next
        })
    }

    async fn step(&self, step: &ScriptStep) -> TurnFlow {
        match step {
            ScriptStep::Say(text) => self.say(text).await,
            ScriptStep::Think(text) => self.chunk("agent_thought_chunk", text).await,
            ScriptStep::Plan(steps) => self.plan(steps).await,
            ScriptStep::Usage { used, size, cost } => self.usage(*used, *size, *cost).await,
            ScriptStep::Mode(mode) => {
                let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": mode});
                self.update(&update).await;
            }
            ScriptStep::Update(update) => self.update(update).await,
            ScriptStep::Tool(tool) => self.tool(tool).await,
            ScriptStep::Ask(ask) => return self.ask(ask).await,
            ScriptStep::Parallel(asks) => return self.parallel(asks).await,
            ScriptStep::AskMany(many) => return self.ask_many(many).await,
            ScriptStep::Terminal(terminal) => self.terminal(terminal).await,
            ScriptStep::Write { path, content } => {
                let params = json!({"path": path, "content": content});
                self.call_and_say("fs/write_text_file", params).await;
            }
            ScriptStep::Read { path } => {
                self.call_and_say("fs/read_text_file", json!({"path": path}))
                    .await;
            }
            ScriptStep::Run(command) => self.run(command).await,
            ScriptStep::SleepMs(ms) => return self.sleep(Duration::from_millis(*ms)).await,
            ScriptStep::Updates { count, bytes } => self.flood(*count, *bytes).await,
            ScriptStep::Call {
                method,
                params,
                notification,
            } => self.call(method, params, *notification).await,
            rude => return self.rude(rude).await,
        }
        TurnFlow::Next
    }

    async fn rude(&self, step: &ScriptStep) -> TurnFlow {
        match step {
            ScriptStep::Raw(text) => {
                let text = text.replace("{session}", &self.session);
                self.wire.write(text.as_bytes()).await;
            }
            ScriptStep::RawBytes(bytes) => self.wire.write(bytes).await,
            ScriptStep::HugeLine(bytes) => self.say(&"x".repeat(*bytes)).await,
            ScriptStep::HalfFrame => {
                self.wire
                    .write(br#"{"jsonrpc":"2.0","method":"session/upd"#)
                    .await;
                return self.exit(0).await;
            }
            ScriptStep::Exit(code) => return self.exit(*code).await,
            ScriptStep::Abort => {
                let me = rustix::process::getpid();
                let killed = rustix::process::kill_process(me, rustix::process::Signal::KILL);
                return self.exit(u8::from(killed.is_err())).await;
            }
            ScriptStep::Silence => return self.silence().await,
            ScriptStep::Error { code, message } => {
                return TurnFlow::End(Some(Err((*code, message.clone()))));
            }
            ScriptStep::Stop(reason) => return TurnFlow::End(Some(Ok(stop(reason)))),
            ScriptStep::StopEarly(reason) => self.answer(Ok(stop(reason))).await,
            _ => {}
        }
        TurnFlow::Next
    }

    /// Nothing more comes of the turn: the whole agent ends.
    async fn exit(&self, code: u8) -> TurnFlow {
        self.wire.end(code);
        std::future::pending().await
    }

    /// Until the turn is cancelled, if ever.
    async fn silence(&self) -> TurnFlow {
        let mut cancelled = self.cancelled.subscribe();
        match cancelled.wait_for(|cancelled| *cancelled).await {
            Ok(_) => TurnFlow::End(Some(Ok(stop("cancelled")))),
            Err(_) => TurnFlow::End(None),
        }
    }

    pub(super) async fn sleep(&self, time: Duration) -> TurnFlow {
        tokio::select! {
            flow = self.silence() => flow,
            () = tokio::time::sleep(time) => TurnFlow::Next,
        }
    }

    pub(super) async fn update(&self, update: &Value) {
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

    async fn tool(&self, tool: &ScriptedTool) {
        self.update(&tool_call(tool, "tool_call", "pending")).await;
        self.finish(tool, tool.ends.as_deref()).await;
    }

    pub(super) async fn finish(&self, tool: &ScriptedTool, status: Option<&str>) {
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

    /// Adds a prompt to what a later process can resume.
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
    // The session id comes from the host and becomes a file name.
    let is_plain = session
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-');
    state
        .filter(|_| is_plain)
        .map(|folder| folder.join(format!("{session}.json")))
}

fn prompt_text(params: &Value) -> String {
    let blocks = params["prompt"].as_array();
    let texts = blocks.into_iter().flatten().map(block_text);
    texts.collect::<Vec<_>>().join("\n")
}

/// A text as it is, and what any other block is.
fn block_text(block: &Value) -> String {
    if let Some(text) = block["text"].as_str() {
        return text.to_owned();
    }
    let kind = block["type"].as_str().unwrap_or_default();
    let resource = &block["resource"];
    match kind {
        "resource" => format!("[resource {}]", text_or_empty(&resource["text"])),
        "image" => format!(
            "[image {} {}]",
            text_or_empty(&block["mimeType"]),
            text_or_empty(&block["data"])
        ),
        kind => format!("[{kind} {}]", text_or_empty(&block["uri"])),
    }
}

fn text_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn steps_of(script: &AgentScript, prompt: &str) -> Result<Vec<ScriptStep>, serde_json::Error> {
    let within = prompt.split_once("<script>");
    let within = within.and_then(|(_, rest)| rest.split_once("</script>"));
    match (within, &script.steps) {
        (Some((steps, _)), _) => serde_json::from_str(steps),
        (None, Some(steps)) => Ok(steps.clone()),
        (None, None) => Ok(vec![ScriptStep::Say(format!("You said: {prompt}"))]),
    }
}

fn stop(reason: &str) -> Value {
    json!({"stopReason": reason})
}

pub(super) fn tool_call(tool: &ScriptedTool, kind: &str, status: &str) -> Value {
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
