//! What a run found: rows of named numbers, as an aligned table for people and as JSON for comparing.
//!
//! Rows are matched between reports by scenario and case, so both stay the same for the same load.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Target;
use super::measure::{CpuTimes, Errors, Latencies, to_megabytes, to_ms, to_number, to_us};

/// A number that a scenario reports. The order here is the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Approvals, or asks of agents, each second.
    RatePerS,
    DeliveriesPerS,
    /// The lowest and the highest rate among the rounds whose median is shown.
    LowestRate,
    HighestRate,
    /// This row's rate over the rate of the row that it is measured against.
    RateRatio,
    LowestMs,
    P50Ms,
    P95Ms,
    P99Ms,
    P999Ms,
    HighestMs,
    P50Us,
    P99Us,
    /// What the disk took to flush 4 KiB at the same time.
    FlushP50Ms,
    /// The median beyond one such flush.
    OverFlushMs,
    /// The median beyond when another screen had it.
    OverScreenMs,
    /// The median beyond that of a pipe without a runner.
    OverPipeUs,
    /// Server CPU microseconds for each round trip or delivery.
    ServerCpuUs,
    /// The same for this client, to see when it is the limit itself.
    ClientCpuUs,
    /// What a picture that differs from the one before writes to the terminal, the median and p95.
    FrameBytes,
    FrameBytesP95,
    /// How often a thread of the process is woken, what it writes, and its share of a core.
    WakesPerS,
    BytesPerS,
    CpuPercent,
    SubscribeMs,
    RssBeforeMb,
    RssMb,
    RssPeakMb,
    /// After a client listed approvals.
    RssListedMb,
    /// What each agent added to the host's memory.
    RssEachMb,
    /// Memory of a process that it shares with no other, at most.
    PrivateMb,
    /// Asks that were answered as expected.
    Asks,
    UpdatesPerS,
    /// Rows in which all of them are stored.
    Rows,
    /// Deliveries that never came.
    Lost,
    Repeated,
    /// Deliveries whose `sequence` did not rise.
    OutOfOrder,
    /// What the subscriber that had not been reading got, once it read.
    LateReceived,
    LateLost,
    LateRepeated,
    LateOutOfOrder,
    /// From the start of the process until it accepts connections.
    StartMs,
    BinaryMb,
    /// What one approval takes in the database and its write-ahead log.
    DiskBytesEach,
    Errors,
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub scenario: String,
    pub case: String,
    pub metrics: BTreeMap<Metric, f64>,
    /// What a reader should know before trusting the numbers, such as the first error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// All rows of one run.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub rows: Vec<Row>,
}

/// Its name in JSON.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Row {
    pub(super) fn new(scenario: &str, case: impl Into<String>) -> Self {
        Self {
            scenario: scenario.to_owned(),
            case: case.into(),
            metrics: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn set(&mut self, metric: Metric, value: f64) {
        self.metrics.insert(metric, value);
    }

    pub(super) fn set_count(&mut self, metric: Metric, count: u64) {
        self.set(metric, to_number(count));
    }

    /// Leaves the metric out when there is no value.
    fn set_if_known(&mut self, metric: Metric, value: Option<f64>) {
        self.metrics.extend(value.map(|value| (metric, value)));
    }

    pub(super) fn set_latencies_ms(&mut self, latencies: &Latencies) {
        self.set_if_known(Metric::P50Ms, latencies.quantile(0.5).map(to_ms));
        self.set_if_known(Metric::P99Ms, latencies.quantile(0.99).map(to_ms));
        self.set_if_known(Metric::P999Ms, latencies.quantile(0.999).map(to_ms));
    }

    /// For few of them: the median, and how far they spread.
    pub(super) fn set_spread_ms(&mut self, latencies: &Latencies) {
        for (metric, share) in [
            (Metric::LowestMs, 0.0),
            (Metric::P50Ms, 0.5),
            (Metric::P95Ms, 0.95),
            (Metric::HighestMs, 1.0),
        ] {
            self.set_if_known(metric, latencies.quantile(share).map(to_ms));
        }
    }

    pub(super) fn set_latencies_us(&mut self, latencies: &Latencies) {
        self.set_if_known(Metric::P50Us, latencies.quantile(0.5).map(to_us));
        self.set_if_known(Metric::P99Us, latencies.quantile(0.99).map(to_us));
    }

    /// CPU time for each of `count` operations.
    pub(super) fn set_cpu(&mut self, cpu: CpuTimes, count: u64) {
        if count > 0 {
            let server = cpu.server.map(|spent| to_us(spent) / to_number(count));
            self.set_if_known(Metric::ServerCpuUs, server);
            self.set(Metric::ClientCpuUs, to_us(cpu.client) / to_number(count));
        }
    }

    /// The server's memory now, when its process is known.
    pub(super) fn set_memory(&mut self, target: &Target) -> Result<()> {
        if let Some(server) = target.server() {
            let memory = server.memory()?;
            self.set(Metric::RssMb, to_megabytes(memory.resident_bytes));
            self.set(Metric::RssPeakMb, to_megabytes(memory.peak_bytes));
        }
        Ok(())
    }

    pub(super) fn set_errors(&mut self, errors: &Errors) {
        self.set_count(Metric::Errors, errors.count);
        let first = errors.first.iter();
        self.notes
            .extend(first.map(|first| format!("first error: {first}")));
    }
}

impl Report {
    /// Prints the rows at once, since a whole run takes minutes, and keeps them.
    #[expect(clippy::print_stdout, reason = "the table is what a bench is for")]
    pub(super) fn add(&mut self, rows: Vec<Row>) {
        println!("{}", render(&rows, show_value));
        self.rows.extend(rows);
    }

    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read `{}`", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("`{}` is not a bench report", path.display()))
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("could not write `{}`", path.display()))
    }

    /// The ratios of `other` to this one, for each row that both have.
    pub fn compare(&self, other: &Self) -> String {
        let mut rows = Vec::new();
        for ours in &self.rows {
            let mut others = other.rows.iter();
            let same = others.find(|row| row.scenario == ours.scenario && row.case == ours.case);
            rows.extend(same.map(|other| ratios(ours, other)));
        }
        render(&rows, |ratio| format!("{ratio:.3}"))
    }
}

/// Leaves out what only one of them has, and what has no ratio because it was nothing before.
fn ratios(base: &Row, other: &Row) -> Row {
    let mut row = Row::new(&base.scenario, &base.case);
    for (metric, before) in &base.metrics {
        let after = other.metrics.get(metric).filter(|_| *before > 0.0);
        row.set_if_known(*metric, after.map(|after| after / before));
    }
    row
}

/// `1 worker`, `64 workers`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Three digits are more than a shared machine can tell apart.
fn show_value(value: f64) -> String {
    let decimals = match value.abs() {
        whole if whole >= 100.0 || whole.fract() == 0.0 => 0,
        tens if tens >= 10.0 => 1,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// One block for each scenario, with the columns that its rows have.
fn render(rows: &[Row], show: fn(f64) -> String) -> String {
    let blocks = rows.chunk_by(|a, b| a.scenario == b.scenario);
    let blocks: Vec<String> = blocks.map(|rows| render_block(rows, show)).collect();
    blocks.join("\n")
}

fn render_block(rows: &[Row], show: fn(f64) -> String) -> String {
    let metrics = rows.iter().flat_map(|row| row.metrics.keys().copied());
    let mut columns: Vec<Metric> = metrics.collect();
    columns.sort_unstable();
    columns.dedup();
    let mut header = vec![rows.first().map_or("", |row| &row.scenario).to_owned()];
    header.extend(columns.iter().map(ToString::to_string));
    let mut lines = vec![header];
    for row in rows {
        let mut line = vec![row.case.clone()];
        for metric in &columns {
            let value = row.metrics.get(metric).copied();
            line.push(value.map_or_else(|| "-".to_owned(), show));
        }
        lines.push(line);
    }
    let mut text = align(&lines);
    for row in rows {
        for note in &row.notes {
            text.extend(["  ", &row.case, ": ", note, "\n"]);
        }
    }
    text
}

/// The first column to the left, the numbers to the right.
fn align(lines: &[Vec<String>]) -> String {
    let mut widths = vec![0; lines.first().map_or(0, Vec::len)];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        text += &(cells.join("  ") + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rate: f64, p50: Option<f64>) -> Report {
        let mut first = Row::new("round-trips", "1 worker");
        first.set(Metric::RatePerS, rate);
        first.set(Metric::Errors, 0.0);
        let mut second = Row::new("round-trips", "64 workers");
        second.set(Metric::RatePerS, rate * 10.0);
        second.set_if_known(Metric::P50Ms, p50);
        second.notes.push("slow".to_owned());
        Report {
            rows: vec![first, second],
        }
    }

    #[test]
    fn a_table_aligns_and_shows_what_is_missing() {
        let expected = "\
round-trips  rate_per_s  p50_ms  errors
1 worker           1500       -       0
64 workers        15000   0.250       -
  64 workers: slow
";
        let rows = report(1500.0, Some(0.25)).rows;
        assert_eq!(render(&rows, show_value), expected);
    }

    #[test]
    fn comparing_divides_the_second_by_the_first() {
        let expected = "\
round-trips  rate_per_s
1 worker          1.500
64 workers        1.500
";
        let compared = report(1000.0, Some(2.0)).compare(&report(1500.0, None));
        assert_eq!(compared, expected);
    }

    #[test]
    fn a_report_survives_json() {
        let report = report(1.0, None);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
