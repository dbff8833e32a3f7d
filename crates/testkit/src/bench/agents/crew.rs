//! A crew of scripted agents under one host, each in a folder of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::PATIENCE;
use crate::bench::{Connection, Frame, Target};

pub(super) struct Crew {
    connection: Connection,
    program: PathBuf,
    folder: TempDir,
    members: Vec<(String, PathBuf)>,
}

impl Crew {
    pub(super) async fn begin(target: &Target, countersign: &Path) -> Result<Self> {
        Ok(Self {
            connection: Connection::open(target).await?,
            program: countersign.canonicalize()?,
            folder: tempfile::tempdir()?,
            members: Vec::new(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.members.iter().map(|(_, folder)| folder.as_path())
    }

    /// Starts more agents, and waits until they are ready.
    pub(super) async fn hire(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let name = format!("agent-{}", self.members.len());
            let folder = self.folder.path().join(&name);
            std::fs::create_dir(&folder)?;
            let params = json!({
                "name": name, "cwd": folder, "command": [self.program, "demo", "agent"], "prompt": "hello",
            });
            let spawned = self.call("host.spawn_agent", &params).await?;
            let id = spawned["id"].as_str().context("an agent has an id")?;
            self.members.push((id.to_owned(), folder));
        }
        self.rest().await
    }

    /// Gives everybody the same to do.
    pub(super) async fn all_do(&mut self, steps: &Value) -> Result<()> {
        for index in 0..self.len() {
            self.one_does(index, steps).await?;
        }
        Ok(())
    }

    pub(super) async fn one_does(&mut self, index: usize, steps: &Value) -> Result<()> {
        let message = format!("<script>{steps}</script>");
        let params = json!({ "agent_id": self.id(index), "message": message });
        self.call("host.prompt_agent", &params).await?;
        Ok(())
    }

    pub(super) async fn interrupt(&mut self, index: usize) -> Result<()> {
        let params = json!({ "agent_id": self.id(index) });
        self.call("host.interrupt_agent", &params).await?;
        Ok(())
    }

    /// Waits until nobody has anything to do.
    pub(super) async fn rest(&mut self) -> Result<()> {
        let all: Vec<usize> = (0..self.len()).collect();
        for index in all {
            self.one_rests(index).await?;
        }
        Ok(())
    }

    pub(super) async fn one_rests(&mut self, index: usize) -> Result<()> {
        let wait = PATIENCE.as_millis();
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        let params = json!({ "agent_id": self.id(index), "timeout_ms": wait });
        let found = self.call("host.wait_idle", &params).await?;
        let state = &found["agents"][0]["state"];
        ensure!(
            found["idle"] == true && state == "idle",
            "an agent should be idle: {found:.500}"
        );
        Ok(())
    }

    /// Ends everybody.
    pub(super) async fn leave(&mut self) -> Result<()> {
        for index in 0..self.len() {
            let params = json!({ "agent_id": self.id(index) });
            self.call("host.kill_agent", &params).await?;
            let wait = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
            let params = json!({ "agent_id": self.id(index), "timeout_ms": wait });
            self.call("host.wait_idle", &params).await?;
        }
        Ok(())
    }

    /// What an agent said, put together, and in how many rows that is stored.
    pub(super) async fn said(&mut self, index: usize) -> Result<(String, u64)> {
        let (mut said, mut rows, mut after) = (String::new(), 0, Value::Null);
        loop {
            let params = json!({ "agent_id": self.id(index), "after": after, "limit": 50 });
            let page = self.call("host.transcript", &params).await?;
            for part in page["parts"].as_array().into_iter().flatten() {
                rows += 1;
                let entries = part["entries"].as_array().into_iter().flatten();
                for entry in entries.filter(|entry| entry["type"] == "assistant") {
                    said.push_str(entry["text"].as_str().unwrap_or_default());
                }
            }
            if page["more"] == false {
                return Ok((said, rows));
            }
            after = page["next"].clone();
        }
    }

    fn id(&self, index: usize) -> &str {
        self.members.get(index).map_or("", |(id, _)| id)
    }

    async fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let reply = self.connection.call(method, params, |_| {}).await?;
        let result = Frame::parse(&reply.text)?.into_result();
        let result = result.with_context(|| format!("`{method}` failed"))?;
        Ok(serde_json::from_str(result.get())?)
    }
}
