//! A host with many agents and many open asks.

use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::bench::Target;
use crate::wire::{Connection, Frame};

/// Requests in flight, so that they share flushes of the disk.
const BATCH: usize = 50;

/// Agents and asks, which stay as long as this does.
pub(super) struct Crowd {
    pub(super) filled_at: Instant,
    _connection: JoinSet<Result<()>>,
}

impl Crowd {
    /// Registers agents, and asks in the name of each in turn.
    pub(super) async fn fill(target: &Target, agents: u64, asks: u64) -> Result<Self> {
        let mut connection = target.connect().await?;
        let rows = (0..agents).map(|number| {
            let name = format!("agent-{number}");
            json!({ "id": name, "name": name, "kind": "bench", "project": "/srv/app" })
        });
        call_all(&mut connection, "host.register_agent", rows.collect()).await?;
        let rows = (0..asks).map(|number| {
            let agent = (agents > 0).then(|| format!("agent-{}", number % agents.max(1)));
            ask(number, agent.as_deref())
        });
        call_all(&mut connection, "host.request_approval", rows.collect()).await?;
        let filled_at = Instant::now();
        // Agents and asks end with their connection, which is lost if nobody answers its pings.
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            loop {
                connection.receive().await?;
            }
        });
        Ok(Self {
            filled_at,
            _connection: reading,
        })
    }
}

fn ask(number: u64, agent: Option<&str>) -> Value {
    let command = format!("cargo test --package part-{number} -- --nocapture");
    json!({
        "action": command, "tool": "Bash", "input": { "command": command }, "agent_id": agent,
        "system_level": agent.is_none(), "timeout_ms": 3_600_000,
    })
}

async fn call_all(connection: &mut Connection, method: &str, params: Vec<Value>) -> Result<()> {
    for batch in params.chunks(BATCH) {
        for params in batch {
            connection.feed(method, params).await?;
        }
        connection.flush().await?;
        for _ in batch {
            let reply = connection.receive().await?;
            let result = Frame::parse(&reply)?.into_result();
            result.with_context(|| format!("`{method}` failed"))?;
        }
    }
    Ok(())
}
