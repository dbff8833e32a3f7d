//! `countersign acp` as an editor sees it: how long it takes to answer the first request, how much later than every
//! other screen an editor has an update or an ask, and how much memory it takes.
//!
//! The bench plays the editor over the pipes of the built binary, and another screen over a WebSocket, at once: what
//! both get is compared event by event. Beside them the disk is measured, since an ask waits for one flush.

mod client;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use countersign_core::limits::TRANSCRIPT_MS_HELD;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Target;
use super::flush::Flushes;
use super::hosts::MeasuredHost;
use super::measure::{Latencies, Process, to_megabytes, to_ms};
use super::report::{Metric, Report, Row};
use crate::wire::Connection;

use client::BenchEditor;

/// Starts that are measured, after some that fill caches.
const STARTS: usize = 100;
const WARM_UP: usize = 10;
const UPDATES: usize = 50;
/// Longer than text of an agent waits for more of it, so that each update is an event of its own.
const BETWEEN_UPDATES_MS: u64 = TRANSCRIPT_MS_HELD + 100;
/// What another screen has not seen in this time, after the editor has, never comes.
const SCREEN_PATIENCE: Duration = Duration::from_secs(30);
const ASKS: u64 = 200;
const BETWEEN_ASKS_US: u64 = 30_000;
const LEDGER: &str = "asked";

/// When something was there, by its text: since 1970, because three processes note it.
type SeenTimes = BTreeMap<String, Duration>;

/// Measures everything.
pub async fn run(countersign: &Path) -> Result<Report> {
    let countersign = countersign.canonicalize()?;
    let home = tempfile::tempdir()?;
    let flushes = Flushes::begin(home.path())?;
    let place = home.path().to_owned();
    let host = MeasuredHost::start_in(&countersign, home).await?;
    let target = host.target()?;
    let mut report = Report::default();
    report.add(starts(&countersign, &place)?);
    let folder = tempfile::tempdir()?;
    let mut editor = BenchEditor::start(&countersign, &place)?;
    let process = Process::new(editor.pid());
    editor.initialize()?;
    let mut memory = vec![memory_row("before a session", process)?];
    let session = editor.open(folder.path())?;
    memory.push(memory_row("with a session", process)?);
    report.add(vec![updates(&target, &mut editor, &session).await?]);
    let ledger = folder.path().join(LEDGER);
    report.add(asks(&target, &mut editor, &session, &ledger, &flushes).await?);
    memory.push(memory_row("after these updates and asks", process)?);
    report.add(memory);
    Ok(report)
}

/// From the start of the program to its first answer, beside a program that does nothing.
fn starts(countersign: &Path, home: &Path) -> Result<Vec<Row>> {
    let mut nothing = Latencies::default();
    let mut answered = Latencies::default();
    for round in 0..WARM_UP + STARTS {
        let began = Instant::now();
        Command::new("true").stdin(Stdio::null()).status()?;
        let reference = began.elapsed();
        let began = Instant::now();
        let mut editor = BenchEditor::start(countersign, home)?;
        editor.initialize()?;
        let taken = began.elapsed();
        if round >= WARM_UP {
            nothing.record(reference);
            answered.record(taken);
        }
    }
    let cases = [
        ("a program that does nothing", nothing),
        ("`initialize` answered", answered),
    ];
    let rows = cases.into_iter().map(|(case, latencies)| {
        let mut row = Row::new("editor, start", case);
        row.set_latencies_ms(&latencies);
        row
    });
    Ok(rows.collect())
}

fn memory_row(case: &str, process: Process) -> Result<Row> {
    let mut row = Row::new("editor, memory", case);
    let memory = process.memory()?;
    row.set(Metric::RssMb, to_megabytes(memory.resident_bytes));
    row.set(Metric::RssPeakMb, to_megabytes(memory.peak_bytes));
    row.set(Metric::PrivateMb, to_megabytes(process.private_bytes()?));
    Ok(row)
}

async fn updates(target: &Target, editor: &mut BenchEditor, session: &str) -> Result<Row> {
    let screen = watch(target, "transcript.added", UPDATES, said_in).await?;
    let steps = (0..UPDATES).flat_map(|number| {
        let text = format!("update {number}");
        [
            json!({ "say": text }),
            json!({ "sleep_ms": BETWEEN_UPDATES_MS }),
        ]
    });
    let steps: Vec<Value> = steps.collect();
    let lines = editor.prompt_until_end(session, &json!(steps))?;
    let in_editor = lines.iter().filter_map(|(at, line)| {
        let update = &line["params"]["update"];
        let is_chunk = update["sessionUpdate"] == "agent_message_chunk";
        let text = update["content"]["text"].as_str().filter(|_| is_chunk)?;
        Some((text.to_owned(), *at))
    });
    let mut row = Row::new("editor, updates", "line in the editor");
    compare(&mut row, &screen.seen().await?, &in_editor.collect())?;
    Ok(row)
}

async fn asks(
    target: &Target,
    editor: &mut BenchEditor,
    session: &str,
    ledger: &Path,
    flushes: &Flushes,
) -> Result<Vec<Row>> {
    let count = usize::try_from(ASKS)?;
    let screen = watch(target, "approval.requested", count, command_in).await?;
    let many = json!({ "count": ASKS, "command": "make {n}", "ledger": LEDGER, "pause_us": BETWEEN_ASKS_US });
    let flushed = flushes.mark();
    let lines = editor.prompt_until_end(session, &json!([{ "ask_many": many }]))?;
    let flush_ms = flushes.p50_ms_since(flushed)?;
    let in_editor: SeenTimes = lines
        .iter()
        .filter_map(|(at, line)| asked_in(line, *at))
        .collect();
    let on_screen = screen.seen().await?;
    let asked = read_ledger(ledger)?;
    let mut rows = Vec::new();
    for (case, seen) in [
        ("event on another screen", &on_screen),
        ("line in the editor", &in_editor),
    ] {
        let latencies = asked
            .iter()
            .map(|(command, began)| Some(seen.get(command)?.saturating_sub(*began)));
        let latencies: Option<Latencies> = latencies
            .collect::<Option<Vec<_>>>()
            .map(Latencies::from_iter);
        let latencies = latencies.context("an ask was not seen")?;
        let mut row = Row::new("editor, asks", case);
        row.set_latencies_ms(&latencies);
        row.set(Metric::FlushP50Ms, flush_ms);
        let p50 = latencies.quantile(0.5).context("nothing was asked")?;
        row.set(Metric::OverFlushMs, to_ms(p50) - flush_ms);
        row.set_count(Metric::Asks, latencies.count());
        rows.push(row);
    }
    if let Some(row) = rows.last_mut() {
        compare(row, &on_screen, &in_editor)?;
    }
    Ok(rows)
}

/// The median of how much later the editor had the same.
fn compare(row: &mut Row, on_screen: &SeenTimes, in_editor: &SeenTimes) -> Result<()> {
    let both = on_screen
        .iter()
        .filter_map(|(text, at)| Some((at, in_editor.get(text)?)));
    // The editor may well be the first of the two.
    let mut later: Vec<f64> = both
        .map(|(screen, editor)| (editor.as_secs_f64() - screen.as_secs_f64()) * 1e3)
        .collect();
    ensure!(
        later.len() == on_screen.len(),
        "the editor has not seen everything"
    );
    later.sort_by(f64::total_cmp);
    let median = later.get(later.len() / 2).context("nothing was seen")?;
    row.set(Metric::OverScreenMs, *median);
    Ok(())
}

/// Another screen, and when it had what it waits for.
struct WatchingScreen(JoinSet<Result<SeenTimes>>);

impl WatchingScreen {
    async fn seen(mut self) -> Result<SeenTimes> {
        let seen = tokio::time::timeout(SCREEN_PATIENCE, self.0.join_next()).await;
        let seen = seen.context("another screen has not seen everything")?;
        seen.context("the screen was begun")??
    }
}

/// Begins to note the first `count` events of a kind, by the text that `read` finds in them.
async fn watch(
    target: &Target,
    kind: &'static str,
    count: usize,
    read: fn(&Value) -> Option<String>,
) -> Result<WatchingScreen> {
    let mut screen = target.connect().await?;
    let params = json!({ "kinds": [kind] });
    screen.call("host.subscribe", &params).await?;
    let mut watching = JoinSet::new();
    watching.spawn(async move {
        let mut seen = SeenTimes::new();
        while seen.len() < count {
            let (at, event) = next_event(&mut screen).await?;
            if let Some(text) = read(&event["params"]["payload"]) {
                seen.insert(text, at);
            }
        }
        Ok(seen)
    });
    Ok(WatchingScreen(watching))
}

async fn next_event(screen: &mut Connection) -> Result<(Duration, Value)> {
    let text = match screen.queued_notification() {
        Some(text) => text,
        None => screen.receive().await?,
    };
    Ok((now()?, serde_json::from_str(&text)?))
}

fn said_in(payload: &Value) -> Option<String> {
    let mut entries = payload["entries"].as_array()?.iter();
    let text = entries.find_map(|entry| entry["assistant"]["text"].as_str())?;
    text.starts_with("update ").then(|| text.to_owned())
}

fn command_in(payload: &Value) -> Option<String> {
    Some(payload["input"]["command"].as_str()?.to_owned())
}

fn asked_in(line: &Value, at: Duration) -> Option<(String, Duration)> {
    let is_request = line["method"] == "session/request_permission";
    let command = line["params"]["toolCall"]["rawInput"]["command"].as_str();
    Some((command.filter(|_| is_request)?.to_owned(), at))
}

/// When the agent wrote each ask.
fn read_ledger(file: &Path) -> Result<SeenTimes> {
    let text = std::fs::read_to_string(file).context("the agent noted nothing")?;
    let mut asked = SeenTimes::new();
    for line in text.lines() {
        if let [number, _, began, _] = line.split(' ').collect::<Vec<_>>().as_slice() {
            asked.insert(
                format!("make {number}"),
                Duration::from_micros(began.parse()?),
            );
        }
    }
    ensure!(
        asked.len() as u64 == ASKS,
        "the agent noted {} asks",
        asked.len()
    );
    Ok(asked)
}

fn now() -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.context("the clock is before 1970")
}
