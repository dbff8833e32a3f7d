//! What the scripted agent wants of the host, and what it does without it.

use serde_json::{Value, json};
use tokio::process::Command;

use super::script::ScriptedTerminal;
use super::session::ScriptSession;

impl ScriptSession {
    async fn send(&self, method: &str, mut params: Value) -> Value {
        params["sessionId"] = json!(self.session);
        let id = self.wire.next_id();
        let response = self.wire.request(&id, method, &params).await;
        response.await.unwrap_or_default()
    }

    pub(super) async fn call_and_say(&self, method: &str, params: Value) -> Value {
        let response = self.send(method, params).await;
        let what = match response.get("result") {
            Some(result) if self.is_quiet() => result["output"].as_str().map(str::to_owned),
            Some(result) => Some(format!("{method}: {result}")),
            None => Some(format!("{method} failed: {}", response["error"])),
        };
        if let Some(what) = what {
            self.say(&what).await;
        }
        response
    }

    pub(super) async fn call(&self, method: &str, params: &Value, notification: bool) {
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

    pub(super) async fn terminal(&self, terminal: &ScriptedTerminal) {
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
        let named = json!({"terminalId": id});
        if terminal.kill {
            self.call_and_say("terminal/kill", named.clone()).await;
        }
        self.call_and_say("terminal/wait_for_exit", named.clone())
            .await;
        self.call_and_say("terminal/output", named.clone()).await;
        if !terminal.keep {
            self.call_and_say("terminal/release", named).await;
        }
    }

    pub(super) async fn run(&self, command: &str) {
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
}
