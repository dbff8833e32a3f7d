//! A long transcript: how soon its end is there and how quickly one pages back; and an agent that floods while
//! somebody reads along and works in the inbox.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::crowd::Crowd;
use super::pty_screen::PtyScreen;
use super::{QUIET, Screens, memory_row};
use crate::bench::hosts::MeasuredHost;
use crate::bench::measure::{Latencies, Process, to_megabytes, to_number};
use crate::bench::report::{Metric, Report, Row};
use crate::wire::Connection;

const LINES: u64 = 100_000;
const LINE_BYTES: usize = 60;
/// Screens that open the long transcript, and pages that each goes back.
const OPENED: usize = 10;
const PAGES: usize = 5;
const PAGE_UP: &str = "\x1b[5~";
/// Longer than the measurement takes, however fast the host reads it.
const FLOOD_LINES: u64 = 600_000;
/// How long the flood is looked at, and the keys that are typed in it.
const FLOOD: Duration = Duration::from_secs(3);
const FLOOD_KEYS: u64 = 60;
/// Asks beside the flood.
const ASKS: u64 = 20;
/// How long one call waits for an agent, and how often it is repeated.
const WAIT_MS: u64 = 50_000;
const WAITS_MAX: usize = 6;

/// Measures both on a host with two agents, the one that said least being the last that was active.
pub(super) async fn measure(countersign: &Path, report: &mut Report) -> Result<()> {
    let host = MeasuredHost::start_in(countersign, tempfile::tempdir()?).await?;
    let target = host.target()?;
    let screens = Screens {
        countersign: countersign.to_owned(),
        home: host.home().to_owned(),
    };
    let folder = tempfile::tempdir()?;
    let mut agents = TwoAgents {
        connection: target.connect().await?,
        program: countersign,
        folder: folder.path(),
    };
    let long = agents.start("long").await?;
    agents.play(&long, &updates(LINES)).await?;
    agents.rest(&long).await?;
    let short = agents.start("short").await?;
    agents
        .play(&short, &json!([{ "say": "the short one" }]))
        .await?;
    agents.rest(&short).await?;
    report.add(long_transcript(&screens)?);
    let _crowd = Crowd::fill(&target, 0, ASKS).await?;
    let flooded = flood(&screens, &mut agents, &long).await;
    for agent in [&long, &short] {
        agents.end(agent).await?;
    }
    report.add(flooded?);
    Ok(())
}

fn updates(count: u64) -> Value {
    json!([{ "updates": { "count": count, "bytes": LINE_BYTES } }])
}

struct TwoAgents<'a> {
    connection: Connection,
    program: &'a Path,
    folder: &'a Path,
}

impl TwoAgents<'_> {
    async fn start(&mut self, name: &str) -> Result<Value> {
        let params = json!({
            "name": name, "cwd": self.folder, "command": [self.program, "demo", "agent"],
            "prompt": "hello",
        });
        let id = self.connection.call("host.spawn_agent", &params).await?["id"].take();
        self.rest(&id).await?;
        Ok(id)
    }

    async fn play(&mut self, id: &Value, steps: &Value) -> Result<()> {
        let params = json!({ "agent_id": id, "message": format!("<script>{steps}</script>") });
        self.connection.call("host.prompt_agent", &params).await?;
        Ok(())
    }

    async fn rest(&mut self, id: &Value) -> Result<()> {
        let params = json!({ "agent_id": id, "timeout_ms": WAIT_MS });
        for _ in 0..WAITS_MAX {
            let found = self.connection.call("host.wait_agents", &params).await?;
            if found["reached"] == true {
                return Ok(());
            }
        }
        anyhow::bail!("an agent did not rest");
    }

    async fn is_running(&mut self, id: &Value) -> Result<bool> {
        let params = json!({ "agent_id": id });
        let row = self.connection.call("host.agent", &params).await?;
        Ok(row["state"] == "running")
    }

    async fn end(&mut self, id: &Value) -> Result<()> {
        let params = json!({ "agent_id": id });
        self.connection.call("host.kill_agent", &params).await?;
        Ok(())
    }
}

/// A screen on which the agents have the focus, the second one being next.
fn open_agents(screens: &Screens) -> Result<PtyScreen> {
    let mut screen = screens.open_settled("Agents 2")?;
    screen.press("ga")?;
    screen.settle(QUIET)?;
    Ok(screen)
}

fn long_transcript(screens: &Screens) -> Result<Vec<Row>> {
    let mut end = Latencies::default();
    let mut back = Latencies::default();
    let mut memory = Vec::new();
    for _ in 0..OPENED {
        let mut screen = open_agents(screens)?;
        let process = Process::new(screen.pid());
        let before = process.memory()?.resident_bytes;
        end.record(screen.press_until("j", &format!("{} xxx", LINES - 1))?);
        screen.settle(QUIET)?;
        memory.push((before, process.memory()?.resident_bytes));
        screen.press("gt")?;
        screen.settle(QUIET)?;
        for _ in 0..PAGES {
            back.record(page_back(&mut screen)?);
        }
    }
    memory.sort_by_key(|(before, after)| after.saturating_sub(*before));
    let (before, after) = memory[memory.len() / 2];
    let case = format!("{LINES} lines");
    let mut opened = Row::new("tui, transcript", format!("{case}: end visible"));
    opened.set_spread_ms(&end);
    opened.set(Metric::RssBeforeMb, to_megabytes(before));
    opened.set(Metric::RssMb, to_megabytes(after));
    let mut paged = Row::new("tui, transcript", format!("{case}: one page back"));
    paged.set_spread_ms(&back);
    Ok(vec![opened, paged])
}

fn page_back(screen: &mut PtyScreen) -> Result<Duration> {
    let last = last_line(&screen.contents()).context("no line of the transcript is shown")?;
    let pressed = screen.press(PAGE_UP)?;
    let seen = screen.wait_until(|contents| last_line(contents).is_some_and(|line| line < last))?;
    screen.settle(QUIET)?;
    Ok(seen - pressed)
}

/// The number of the last line that the agent streamed, of those on the screen.
fn last_line(contents: &str) -> Option<u64> {
    let mark = " ".to_owned() + &"x".repeat(LINE_BYTES);
    let mut numbers = contents.lines().filter_map(|line| {
        let (before, _) = line.split_once(&mark)?;
        before.rsplit(' ').next()?.parse().ok()
    });
    numbers.next_back()
}

/// Processor time of a screen that shows a flood, and keys meanwhile.
async fn flood(screens: &Screens, agents: &mut TwoAgents<'_>, long: &Value) -> Result<Vec<Row>> {
    let mut screen = open_agents(screens)?;
    screen.press_until("j", &format!("{} xxx", LINES - 1))?;
    screen.press("gi")?;
    screen.settle(QUIET)?;
    agents.play(long, &updates(FLOOD_LINES)).await?;
    // It begins at its first line again.
    screen.wait_until(|contents| last_line(contents).is_some_and(|line| line < LINES - 1))?;
    let process = Process::new(screen.pid());
    let (cpu, bytes, began) = (process.cpu_time()?, screen.bytes, Instant::now());
    screen.read_for(FLOOD)?;
    let spent = began.elapsed().as_secs_f64();
    let cpu = process.cpu_time()?.saturating_sub(cpu).as_secs_f64();
    let bytes = screen.bytes - bytes;
    let mut keys = Latencies::default();
    for key in 0..FLOOD_KEYS {
        let (key, ask) = if key % 2 == 0 { ("j", 2) } else { ("k", 1) };
        keys.record(screen.press_until(key, &format!("Ask {ask} of {ASKS}"))?);
        screen.read_for(QUIET)?;
    }
    ensure!(
        agents.is_running(long).await?,
        "the flood was over too soon"
    );
    let mut row = Row::new("tui, flood", "keys beside an agent that floods");
    row.set_spread_ms(&keys);
    row.set(Metric::CpuPercent, cpu / spent * 100.0);
    row.set(Metric::BytesPerS, to_number(bytes) / spent);
    Ok(vec![row, memory_row(&screen, "beside a flood")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_found_beside_other_panels() {
        let x = "x".repeat(LINE_BYTES);
        let contents = format!(" agents │ | 41 {x}\n rows   │ | 42 {x}\n      │ 43 xx\n");
        assert_eq!(last_line(&contents), Some(42));
        assert_eq!(last_line("nothing"), None);
    }
}
