//! An editor that notes when each line came.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::now;

/// What is not answered in this time never will be.
const PATIENCE: Duration = Duration::from_mins(1);
/// Lines that may wait to be looked at.
const LINES_MAX: usize = 100_000;

/// A line, and when it was read.
type TimedLine = (Duration, String);

/// `countersign acp` with a scripted agent, and the pipes to it. It ends with this.
pub(super) struct BenchEditor {
    child: Child,
    input: ChildStdin,
    lines: Receiver<TimedLine>,
    next_id: u64,
}

impl BenchEditor {
    pub(super) fn start(countersign: &Path, home: &Path) -> Result<Self> {
        let agent = format!("'{}' demo agent", countersign.display());
        let mut child = Command::new(countersign)
            .args(["acp", "--command", &agent])
            .env("COUNTERSIGN_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().context("a pipe")?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in output.lines() {
                let (Ok(line), Ok(at)) = (line, now()) else {
                    return;
                };
                if sender.send((at, line)).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            input,
            lines,
            next_id: 0,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn initialize(&mut self) -> Result<()> {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        self.request("initialize", &params)?;
        self.response(&mut Vec::new())?;
        Ok(())
    }

    /// Begins a session, and gives its id.
    pub(super) fn open(&mut self, folder: &Path) -> Result<String> {
        let params = json!({ "cwd": folder, "mcpServers": [] });
        self.request("session/new", &params)?;
        let opened = self.response(&mut Vec::new())?;
        let session = opened["sessionId"].as_str();
        Ok(session.context("a session has an id")?.to_owned())
    }

    /// Has the agent do these steps, denies what it asks, and gives every line until the turn ended.
    pub(super) fn prompt_until_end(
        &mut self,
        session: &str,
        steps: &Value,
    ) -> Result<Vec<(Duration, Value)>> {
        let text = format!("<script>{steps}</script>");
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.request("session/prompt", &params)?;
        let mut lines = Vec::new();
        self.response(&mut lines)?;
        Ok(lines)
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<()> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.input.write_all(format!("{message}\n").as_bytes())?)
    }

    /// The result of the newest request; keeps what comes before it.
    fn response(&mut self, before: &mut Vec<(Duration, Value)>) -> Result<Value> {
        loop {
            let (at, line) = self.lines.recv_timeout(PATIENCE)?;
            let mut line: Value = serde_json::from_str(&line)?;
            if line["method"] == "session/request_permission" {
                let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "deny" } });
                self.send(&json!({ "jsonrpc": "2.0", "id": line["id"], "result": outcome }))?;
            } else if line.get("method").is_none() {
                ensure!(
                    line["id"] == self.next_id && line.get("error").is_none(),
                    "{line}"
                );
                return Ok(line["result"].take());
            }
            before.push((at, line));
        }
    }
}

impl Drop for BenchEditor {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
