//! How long a hook takes from its start to a verdict of the rules: beside the start of a program that does
//! nothing, and beside the same ask over a connection that is open already.
//!
//! The bench itself is the session here, so the host takes it for an agent: it may ask and no more.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::hosts::MeasuredHost;
use super::measure::Latencies;
use super::report::{Report, Row};
use crate::wire::Connection;

/// Hooks that are measured, in turns with what they are compared with.
const ROUNDS: usize = 300;
/// Rounds before that, which fill caches.
const WARM_UP: usize = 20;

const COMMAND: &str = "git status --short";
const CASES: [&str; 3] = [
    "a program that does nothing",
    "the hook",
    "the ask, over an open connection",
];

/// One row for each of the cases.
pub async fn run(countersign: &Path) -> Result<Report> {
    let home = tempfile::tempdir()?;
    let rules = "allow = [\"Bash(git status:*)\"]\n";
    std::fs::write(home.path().join("rules.toml"), rules)?;
    let folder = home.path().to_owned();
    let host = MeasuredHost::start_in(countersign, home).await?;
    let mut connection = host.target()?.connect().await?;
    let mut seen: [Latencies; 3] = Default::default();
    for round in 0..WARM_UP + ROUNDS {
        let taken = [
            start(&mut Command::new("true"), "")?.1,
            hook(countersign, &folder, round)?,
            ask(&mut connection).await?,
        ];
        if round >= WARM_UP {
            for (latencies, taken) in seen.iter_mut().zip(taken) {
                latencies.record(taken);
            }
        }
    }
    let mut rows = Vec::new();
    for (case, latencies) in CASES.into_iter().zip(&seen) {
        let mut row = Row::new("hook", case);
        row.set_latencies_ms(latencies);
        rows.push(row);
    }
    let mut report = Report::default();
    report.add(rows);
    Ok(report)
}

/// What a program prints, and how long it took from its start to its end.
fn start(command: &mut Command, input: &str) -> Result<(Vec<u8>, Duration)> {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does nothing does not read either.
        drop(stdin.write_all(input.as_bytes()));
    }
    let output = child.wait_with_output()?;
    Ok((output.stdout, began.elapsed()))
}

fn hook(countersign: &Path, home: &Path, round: usize) -> Result<Duration> {
    let event = json!({
        "session_id": "bench", "cwd": "/tmp", "permission_mode": "default", "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": { "command": COMMAND }, "tool_use_id": format!("t{round}"),
    });
    let mut hook = Command::new(countersign);
    hook.args(["hook", "claude", "--timeout", "60"])
        .env("COUNTERSIGN_HOME", home);
    let (said, taken) = start(&mut hook, &event.to_string())?;
    let said: Value = serde_json::from_slice(&said).context("the hook said no JSON")?;
    let decision = &said["hookSpecificOutput"]["permissionDecision"];
    ensure!(decision == "allow", "the hook said {said}");
    Ok(taken)
}

async fn ask(connection: &mut Connection) -> Result<Duration> {
    let params = json!({
        "action": COMMAND, "tool": "Bash", "input": { "command": COMMAND }, "cwd": "/tmp",
        "agent_id": "claude-bench",
    });
    let began = Instant::now();
    let row = connection.call("host.request_approval", &params).await?;
    ensure!(row["state"] == "allowed", "the ask was not allowed: {row}");
    Ok(began.elapsed())
}
