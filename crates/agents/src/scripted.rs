//! The scripted agent: a real ACP agent that does what a script says, rude things included.
//!
//! It speaks plain JSON by hand and shares nothing with [`crate::acp`], so that the two can disagree.
//! A script comes from a file, or from the prompt between `<script>` and `</script>`; without
//! either it answers politely. If it is given a folder for its sessions, a later process can
//! resume them.

mod ask;
mod ask_many;
mod host_calls;
mod script;
mod session;
mod stdio;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio_util::task::TaskTracker;

pub use script::{
    AgentScript, AskMany, AskPlacement, OptionKind, ScriptStep, ScriptedAsk, ScriptedTerminal,
    ScriptedTool,
};

use session::ScriptSession;
use wire::ScriptedWire;

/// Plays a script until the other side closes the pipe, or the script ends it. Gives the exit code.
pub async fn run(
    script: AgentScript,
    stdin: impl AsyncRead + Unpin + Send + 'static,
    stdout: impl AsyncWrite + Unpin + Send + 'static,
) -> u8 {
    let wire = Arc::new(ScriptedWire::new(stdout, script.string_ids));
    let mut agent = ScriptedAgent {
        script,
        wire: wire.clone(),
        stage: None,
        turns: TaskTracker::new(),
        sessions: 0,
    };
    // A host must bear a response that it never asked for.
    if agent.script.response_before_request {
        wire.send(&json!({"jsonrpc": "2.0", "id": 4711, "result": {}}))
            .await;
    }
    let mut lines = BufReader::new(stdin).split(b'\n');
    loop {
        tokio::select! {
            code = wire.ended() => return code,
            line = lines.next_segment() => match line {
                Ok(Some(line)) => agent.handle_line(&line).await,
                _ if agent.script.ignore_eof => return wire.ended().await,
                _ => return 0,
            },
        }
    }
}

/// The entry of the program: the script's file is named with `--script FILE`, the folder for
/// sessions by `SCRIPTED_AGENT_STATE`. Gives the exit code.
pub async fn run_with_arguments(arguments: impl Iterator<Item = String>) -> u8 {
    let arguments: Vec<String> = arguments.collect();
    let mut script = match arguments.as_slice() {
        [] => AgentScript::default(),
        [flag, file] if flag == "--script" => {
            let text = tokio::fs::read_to_string(file).await.unwrap_or_default();
            match AgentScript::parse(&text) {
                Ok(script) => script,
                Err(error) => {
                    tracing::error!(%error, file, "could not read the script");
                    return 2;
                }
            }
        }
        _ => return 2,
    };
    script.state = std::env::var_os("SCRIPTED_AGENT_STATE").map(PathBuf::from);
    run(script, stdio::input(), stdio::output()).await
}

struct ScriptedAgent {
    script: AgentScript,
    wire: Arc<ScriptedWire>,
    stage: Option<Arc<ScriptSession>>,
    turns: TaskTracker,
    sessions: u32,
}

impl ScriptedAgent {
    async fn handle_line(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let id = message.get("id").cloned();
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => {
                let params = message.get("params").cloned().unwrap_or_default();
                self.take_request(method, id, params).await;
            }
            (Some("session/cancel"), None) => {
                if let Some(stage) = &self.stage {
                    stage.cancel();
                }
            }
            (None, Some(id)) => self.wire.take_response(&id, message),
            _ => {}
        }
    }

    async fn take_request(&mut self, method: &str, id: Value, params: Value) {
        let answer = match method {
            "initialize" => Ok(self.initialized()),
            "session/new" => self.open(&params, None).await,
            "session/load" | "session/resume" => {
                let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
                self.resume_session(&params, session, method == "session/load")
                    .await
            }
            "session/set_mode" => self.set_mode(&params),
            "session/set_config_option" => Ok(json!({"configOptions": []})),
            // Answered when the turn ends.
            "session/prompt" => return self.prompt(id, params).await,
            _ => Err((-32601, "Method not found".to_owned())),
        };
        self.wire.answer(&id, answer).await;
    }

    fn initialized(&self) -> Value {
        let script = &self.script;
        let mut sessions = json!({});
        if script.can_resume {
            sessions["resume"] = json!({});
        }
        json!({
            "protocolVersion": script.protocol,
            "agentCapabilities": {
                "loadSession": script.can_load,
                "promptCapabilities": {"image": true, "embeddedContext": true},
                "sessionCapabilities": sessions,
            },
            "agentInfo": {"name": "scripted-agent", "version": env!("CARGO_PKG_VERSION")},
            "authMethods": if script.wants_login { json!([{"id": "key", "name": "A key"}]) } else { json!([]) },
        })
    }

    fn set_mode(&self, params: &Value) -> Result<Value, (i64, String)> {
        let mode = params["modeId"].as_str().unwrap_or_default();
        if self.script.modes.iter().any(|one| one == mode) {
            Ok(json!({}))
        } else {
            Err((-32602, format!("Invalid params: no mode {mode}")))
        }
    }

    async fn open(
        &mut self,
        params: &Value,
        known: Option<String>,
    ) -> Result<Value, (i64, String)> {
        if self.script.wants_login {
            return Err((-32000, "Authentication required".to_owned()));
        }
        self.sessions += 1;
        let new = format!("scripted-{}-{}", std::process::id(), self.sessions);
        let session = known.unwrap_or(new);
        let cwd = params["cwd"].as_str().unwrap_or("/").to_owned();
        let stage =
            ScriptSession::new(self.wire.clone(), session.clone(), cwd, self.script.clone());
        let stage = Arc::new(stage);
        if self.script.update_before_session {
            stage.say("before the session").await;
        }
        stage.remember(None).await;
        self.stage = Some(stage);
        let mut result = json!({"sessionId": session});
        if let Some(mode) = self.script.modes.first() {
            let modes = self.script.modes.iter();
            let modes: Vec<Value> = modes
                .map(|mode| json!({"id": mode, "name": mode}))
                .collect();
            result["modes"] = json!({"currentModeId": mode, "availableModes": modes});
        }
        Ok(result)
    }

    async fn resume_session(
        &mut self,
        params: &Value,
        session: String,
        replays: bool,
    ) -> Result<Value, (i64, String)> {
        let Some(history) = session::recall(self.script.state.as_deref(), &session).await else {
            return Err((-32002, "Resource not found".to_owned()));
        };
        let mut result = self.open(params, Some(session)).await?;
        if let (Some(stage), true) = (&self.stage, replays) {
            for text in history {
                stage.replay(&text).await;
            }
        }
        if let Some(fields) = result.as_object_mut() {
            // The protocol's response to a load or a resume has no session id.
            fields.remove("sessionId");
        }
        Ok(result)
    }

    /// The turn is played beside the reading of lines: an agent hears while it works.
    async fn prompt(&mut self, id: Value, params: Value) {
        let Some(stage) = self.stage.clone() else {
            let refusal = Err((-32602, "no session".to_owned()));
            return self.wire.answer(&id, refusal).await;
        };
        if !stage.begin_turn(&id) {
            let refusal = Err((-32600, "a turn runs already".to_owned()));
            return self.wire.answer(&id, refusal).await;
        }
        self.turns.spawn(async move { stage.play(&params).await });
    }
}
