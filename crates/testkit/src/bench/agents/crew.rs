//! A crew of scripted agents under one host, each in a folder of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::Target;
use crate::wire::Connection;

/// How long one call waits for an agent, below what a reply may take; and how often it is repeated.
const WAIT_MS: u64 = 50_000;
const WAITS_MAX: usize = 6;

pub(super) struct Crew {
    connection: Connection,
    program: PathBuf,
    folder: TempDir,
    members: Vec<(String, PathBuf)>,
}

impl Crew {
    pub(super) async fn begin(target: &Target, countersign: &Path) -> Result<Self> {
        Ok(Self {
            connection: target.connect().await?,
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
            let spawned = self.connection.call("host.spawn_agent", &params).await?;
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
        self.connection.call("host.prompt_agent", &params).await?;
        Ok(())
    }

    pub(super) async fn interrupt(&mut self, index: usize) -> Result<()> {
        let params = json!({ "agent_id": self.id(index) });
        self.connection
            .call("host.interrupt_agent", &params)
            .await?;
        Ok(())
    }

    /// Waits until nobody has anything to do.
    pub(super) async fn rest(&mut self) -> Result<()> {
        for index in 0..self.len() {
            self.one_rests(index).await?;
        }
        Ok(())
    }

    pub(super) async fn one_rests(&mut self, index: usize) -> Result<()> {
        let found = self.wait_idle(index).await?;
        let state = &found["agents"][0]["state"];
        ensure!(
            found["reached"] == true && state == "idle",
            "an agent should be idle: {found:.500}"
        );
        Ok(())
    }

    /// Ends everybody.
    pub(super) async fn leave(&mut self) -> Result<()> {
        for index in 0..self.len() {
            let params = json!({ "agent_id": self.id(index) });
            self.connection.call("host.kill_agent", &params).await?;
            self.wait_idle(index).await?;
        }
        Ok(())
    }

    async fn wait_idle(&mut self, index: usize) -> Result<Value> {
        let params = json!({ "agent_id": self.id(index), "timeout_ms": WAIT_MS });
        let mut found = Value::Null;
        for _ in 0..WAITS_MAX {
            found = self.connection.call("host.wait_agents", &params).await?;
            if found["reached"] == true {
                break;
            }
        }
        Ok(found)
    }

    /// What an agent said, put together, and in how many rows that is stored.
    pub(super) async fn said(&mut self, index: usize) -> Result<(String, u64)> {
        let (mut said, mut rows, mut after) = (String::new(), 0, Value::Null);
        loop {
            let params = json!({ "agent_id": self.id(index), "after": after, "limit": 50 });
            let page = self.connection.call("host.transcript", &params).await?;
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
}
