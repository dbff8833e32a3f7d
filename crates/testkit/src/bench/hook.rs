//! How long a hook takes from its start to a verdict of the rules: beside the start of a program that does
//! nothing, and beside the same ask over a connection that is open already.
//!
//! The bench itself is the session here, so the host takes it for an agent: it may ask and no more.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::client::{Connection, Frame};
use super::hosts::{Host, Store};
use super::measure::Latencies;
use super::report::{Metric, Row};

/// Hooks that are measured, in turns with what they are compared with.
const ROUNDS: usize = 300;
/// Rounds before that, which fill caches.
const WARM_UP: usize = 20;

const COMMAND: &str = "git status --short";

/// One row each for a bare start, the hook, and the ask alone.
pub async fn run(countersign: &Path) -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    std::fs::write(
        home.path().join("rules.toml"),
        "allow = [\"Bash(git status:*)\"]\n",
    )?;
    let folder = home.path().to_owned();
    let host = Host::start_in(Store::Sqlite, countersign, home)?;
    let mut connection = Connection::open(&host.target()?).await?;
    let mut seen: [Latencies; 3] = Default::default();
    for round in 0..WARM_UP + ROUNDS {
        let mut bare = Command::new("true");
        let taken = [
            start(&mut bare, "")?.1,
            hook(countersign, &folder, round)?,
            ask(&mut connection).await?,
        ];
        if round >= WARM_UP {
            for (latencies, taken) in seen.iter_mut().zip(taken) {
                latencies.record(taken);
            }
        }
    }
    let cases = [
        "a program that does nothing",
        "the hook",
        "the ask, over an open connection",
    ];
    Ok(cases
        .into_iter()
        .zip(seen)
        .map(|(case, seen)| to_row(case, seen))
        .collect())
}

fn to_row(case: &str, mut seen: Latencies) -> Row {
    let mut row = Row::new("hook", case);
    row.set_if_known(Metric::P50Ms, seen.percentile_ms(500));
    row.set_if_known(Metric::P99Ms, seen.percentile_ms(990));
    row
}

/// What a program says, and how long that took from its start to its end.
fn start(command: &mut Command, input: &str) -> Result<(Vec<u8>, std::time::Duration)> {
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

fn hook(countersign: &Path, home: &Path, round: usize) -> Result<std::time::Duration> {
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

async fn ask(connection: &mut Connection) -> Result<std::time::Duration> {
    let params = json!({
        "action": COMMAND, "tool": "Bash", "input": { "command": COMMAND }, "cwd": "/tmp",
        "agent_id": "claude-bench",
    });
    let reply = connection
        .call("host.request_approval", &params, |_| {})
        .await?;
    let row = Frame::parse(&reply.text)?.into_result()?;
    ensure!(row.get().contains("\"allowed\""), "the ask was not allowed");
    Ok(reply.elapsed)
}
