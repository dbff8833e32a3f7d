//! The terminal UI as a person has it: the built binary in a pseudo-terminal, with keys typed into it.
//!
//! Measured are its start, keys, memory, what an idle screen costs, long transcripts, and an agent that floods. The
//! pure parts, which are the same on every screen, are measured without a terminal beside them.

mod crowd;
mod drawing;
mod pty_screen;
mod transcripts;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::hosts::MeasuredHost;
use super::measure::{Latencies, Process, to_megabytes, to_number};
use super::report::{Metric, Report, Row};

use crowd::Crowd;
use pty_screen::PtyScreen;

/// Asks and agents of a busy host.
const ASKS: u64 = 1_000;
const AGENTS: u64 = 500;
/// Starts that are measured, after some that fill caches.
const STARTS: usize = 20;
const WARM_UP: usize = 3;
/// Keys that are measured, after some that fill caches.
const KEYS: u64 = 200;
const KEYS_BEFORE: u64 = 20;
/// A picture that was begun is whole once nothing came for so long.
const QUIET: Duration = Duration::from_millis(40);
/// Replies that a screen waits for at its start have come by then.
const SETTLED: Duration = Duration::from_secs(2);
/// How long an idle screen is looked at.
const IDLE: Duration = Duration::from_secs(5);
/// Ages in minutes: before that they are shown in seconds, and every second is another picture.
const AGES_IN_MINUTES: Duration = Duration::from_secs(62);

/// Measures everything.
pub async fn run(countersign: &Path) -> Result<Report> {
    let countersign = countersign.canonicalize()?;
    let mut report = Report::default();
    report.add(drawing::rows());
    let host = MeasuredHost::start_in(&countersign, tempfile::tempdir()?).await?;
    let screens = Screens {
        countersign: countersign.clone(),
        home: host.home().to_owned(),
    };
    let mut idle_rows = vec![screens.idle("an empty inbox", "inbox empty", Duration::ZERO)?];
    let mut starts = screens.starts("an empty inbox", "inbox empty")?;
    let crowd = Crowd::fill(&host.target()?, AGENTS, ASKS).await?;
    let case = format!("{ASKS} asks, {AGENTS} agents");
    let first = format!("Ask 1 of {ASKS}");
    starts.extend(screens.starts(&case, &first)?);
    report.add(starts);
    let left = AGES_IN_MINUTES.saturating_sub(crowd.filled_at.elapsed());
    idle_rows.push(screens.idle(&case, &first, left)?);
    report.add(idle_rows);
    report.add(screens.keys(&case)?);
    drop((crowd, host));
    transcripts::measure(&countersign, &mut report).await?;
    Ok(report)
}

/// Starts screens of one host.
struct Screens {
    countersign: PathBuf,
    home: PathBuf,
}

impl Screens {
    fn open(&self) -> Result<PtyScreen> {
        PtyScreen::start(&self.countersign, &self.home)
    }

    /// One that shows a text and has read what it reads at its start.
    fn open_settled(&self, text: &str) -> Result<PtyScreen> {
        let mut screen = self.open()?;
        screen.wait_for(text)?;
        // Not until nothing comes: ages that are shown in seconds change every second.
        screen.read_for(SETTLED)?;
        Ok(screen)
    }

    /// From the start of the process to its first picture, and to the one with what the host said.
    fn starts(&self, case: &str, text: &str) -> Result<Vec<Row>> {
        let mut first = Latencies::default();
        let mut whole = Latencies::default();
        for round in 0..WARM_UP + STARTS {
            let mut screen = self.open()?;
            let drawn = screen.wait_for("countersign")?;
            let filled = screen.wait_for(text)?;
            if round >= WARM_UP {
                first.record(drawn - screen.began);
                whole.record(filled - screen.began);
            }
        }
        let rows = [("first picture", first), ("with what is open", whole)];
        let rows = rows.into_iter().map(|(what, latencies)| {
            let mut row = Row::new("tui, start", format!("{case}: {what}"));
            row.set_spread_ms(&latencies);
            row
        });
        Ok(rows.collect())
    }

    /// The next ask, again and again, and what the screen takes in memory after that.
    fn keys(&self, case: &str) -> Result<Vec<Row>> {
        let mut screen = self.open_settled(&format!("Ask 1 of {ASKS}"))?;
        let mut latencies = Latencies::default();
        let mut sizes = Vec::new();
        for key in 1..=KEYS_BEFORE + KEYS {
            let before = screen.bytes;
            let taken = screen.press_until("j", &format!("Ask {} of {ASKS}", key + 1))?;
            screen.settle(QUIET)?;
            if key > KEYS_BEFORE {
                latencies.record(taken);
                sizes.push(screen.bytes - before);
            }
        }
        let mut row = Row::new("tui, keys", format!("{case}: j"));
        row.set_spread_ms(&latencies);
        set_frame_bytes(&mut row, sizes);
        Ok(vec![row, memory_row(&screen, case)?])
    }

    /// What a screen costs on which nothing happens.
    fn idle(&self, case: &str, text: &str, wait: Duration) -> Result<Row> {
        std::thread::sleep(wait);
        let mut screen = self.open_settled(text)?;
        let process = Process::new(screen.pid());
        let (wakes, cpu, bytes) = (process.wakes()?, process.cpu_time()?, screen.bytes);
        let began = Instant::now();
        screen.read_for(IDLE)?;
        let spent = began.elapsed().as_secs_f64();
        let mut row = Row::new("tui, idle", case);
        let wakes = to_number(process.wakes()? - wakes);
        row.set(Metric::WakesPerS, wakes / spent);
        row.set(Metric::BytesPerS, to_number(screen.bytes - bytes) / spent);
        let cpu = process.cpu_time()?.saturating_sub(cpu);
        row.set(Metric::CpuPercent, cpu.as_secs_f64() / spent * 100.0);
        Ok(row)
    }
}

fn memory_row(screen: &PtyScreen, case: &str) -> Result<Row> {
    let process = Process::new(screen.pid());
    let memory = process.memory()?;
    let mut row = Row::new("tui, memory", case);
    row.set(Metric::RssMb, to_megabytes(memory.resident_bytes));
    row.set(Metric::RssPeakMb, to_megabytes(memory.peak_bytes));
    row.set(Metric::PrivateMb, to_megabytes(process.private_bytes()?));
    Ok(row)
}

/// The median, and what nineteen of twenty do not exceed.
fn set_frame_bytes(row: &mut Row, mut sizes: Vec<u64>) {
    sizes.sort_unstable();
    for (metric, place) in [
        (Metric::FrameBytes, sizes.len() / 2),
        (Metric::FrameBytesP95, sizes.len() * 95 / 100),
    ] {
        if let Some(size) = sizes.get(place) {
            row.set_count(metric, *size);
        }
    }
}
