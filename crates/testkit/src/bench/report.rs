//! What a run found: rows of named numbers, as an aligned table for people and as JSON for comparing.
//!
//! Rows are matched between reports by scenario and case, so both stay the same for the same load.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Target;
use super::measure::{CpuTimes, Errors, micros_each, to_megabytes, to_number};

/// A number that a scenario reports. The order here is the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Approval round trips per second.
    RatePerS,
    DeliveriesPerS,
    NotifiesPerS,
    /// This row's rate over the rate of the row that it is measured against.
    RateRatio,
    P50Ms,
    P99Ms,
    P50Us,
    P99Us,
    /// What the disk took to flush 4 KiB at the same time.
    FlushP50Ms,
    /// The median beyond one such flush.
    OverFlushMs,
    /// The median beyond that of a pipe without a runner.
    OverPipeUs,
    /// Server CPU microseconds for each round trip or delivery.
    ServerCpuUs,
    /// The same for this client, to see when it is the limit itself.
    ClientCpuUs,
    /// From the last notification until the last subscriber had it.
    LagMs,
    SubscribeMs,
    SubscribeKb,
    RssBeforeMb,
    RssMb,
    RssPeakMb,
    /// What each agent added to the host's memory.
    RssEachMb,
    /// Memory of a runner that it shares with nobody, at most.
    PrivateMb,
    /// Asks that were answered as the rules say.
    Asks,
    UpdatesPerS,
    /// Rows in which all of them are stored.
    Rows,
    /// Deliveries that never came.
    Lost,
    /// Deliveries that came twice.
    Repeated,
    /// Deliveries whose `sequence` did not rise.
    OutOfOrder,
    /// Deliveries overtaken by a later one of the same producer, which the wire allows to pipelined requests.
    Overtaken,
    /// What the subscriber that had not been reading got, once it read.
    LateReceived,
    LateLost,
    LateRepeated,
    LateOutOfOrder,
    LateOvertaken,
    LateMs,
    /// From the start of the process until every door is open.
    StartMs,
    /// The size of the binary on disk.
    BinaryMb,
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

/// One run against one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub label: String,
    pub rows: Vec<Row>,
}

impl Metric {
    fn decimals(self) -> usize {
        match self {
            Self::RateRatio => 2,
            Self::P50Ms
            | Self::P99Ms
            | Self::FlushP50Ms
            | Self::OverFlushMs
            | Self::RssEachMb
            | Self::PrivateMb
            | Self::SubscribeMs => 3,
            Self::ServerCpuUs
            | Self::ClientCpuUs
            | Self::SubscribeKb
            | Self::RssBeforeMb
            | Self::RssMb
            | Self::RssPeakMb
            | Self::StartMs
            | Self::P50Us
            | Self::P99Us
            | Self::OverPipeUs
            | Self::BinaryMb => 1,
            Self::RatePerS
            | Self::DeliveriesPerS
            | Self::NotifiesPerS
            | Self::Asks
            | Self::UpdatesPerS
            | Self::Rows
            | Self::LagMs
            | Self::Lost
            | Self::Repeated
            | Self::OutOfOrder
            | Self::Overtaken
            | Self::LateReceived
            | Self::LateLost
            | Self::LateRepeated
            | Self::LateOutOfOrder
            | Self::LateOvertaken
            | Self::LateMs
            | Self::Errors => 0,
        }
    }
}

/// Its name in JSON.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Row {
    pub fn new(scenario: &str, case: impl Into<String>) -> Self {
        Self {
            scenario: scenario.to_owned(),
            case: case.into(),
            metrics: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    pub fn set(&mut self, metric: Metric, value: f64) {
        self.metrics.insert(metric, value);
    }

    /// Leaves the metric out when there is no value.
    pub fn set_if_known(&mut self, metric: Metric, value: Option<f64>) {
        if let Some(value) = value {
            self.set(metric, value);
        }
    }

    /// CPU time for each of `count` operations.
    pub(super) fn set_cpu(&mut self, cpu: CpuTimes, count: u64) {
        let server = cpu.server.and_then(|spent| micros_each(spent, count));
        self.set_if_known(Metric::ServerCpuUs, server);
        self.set_if_known(Metric::ClientCpuUs, micros_each(cpu.client, count));
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
        self.set(Metric::Errors, to_number(errors.count));
        self.notes.extend(
            errors
                .first
                .as_ref()
                .map(|first| format!("first error: {first}")),
        );
    }
}

impl Report {
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read `{}`", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("`{}` is not a bench report", path.display()))
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("could not write `{}`", path.display()))
    }

    /// The ratios of `other` to this one, for each row that both have.
    pub fn compare(&self, other: &Self) -> String {
        let rows: Vec<Row> = self
            .rows
            .iter()
            .filter_map(|ours| Some(ratios(ours, other.find_row(ours)?)))
            .collect();
        let table = render(&rows, |_, ratio| format!("{ratio:.3}"));
        format!("`{}` over `{}`\n\n{table}", other.label, self.label)
    }

    fn find_row(&self, like: &Row) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.scenario == like.scenario && row.case == like.case)
    }
}

/// One block for each scenario, with the columns that its rows have.
pub fn to_table(rows: &[Row]) -> String {
    render(rows, |metric, value| {
        format!("{value:.*}", metric.decimals())
    })
}

/// `1 worker`, `64 workers`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
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

fn render(rows: &[Row], format: impl Fn(Metric, f64) -> String) -> String {
    let blocks: Vec<String> = rows
        .chunk_by(|a, b| a.scenario == b.scenario)
        .map(|rows| render_block(rows, &format))
        .collect();
    blocks.join("\n")
}

fn render_block(rows: &[Row], format: &impl Fn(Metric, f64) -> String) -> String {
    let mut columns: Vec<Metric> = rows
        .iter()
        .flat_map(|row| row.metrics.keys().copied())
        .collect();
    columns.sort_unstable();
    columns.dedup();

    let scenario = rows.first().map_or("", |row| &row.scenario);
    let mut lines = vec![header(scenario, &columns)];
    lines.extend(rows.iter().map(|row| cells(row, &columns, format)));
    let notes = rows.iter().flat_map(|row| {
        let lines = row.notes.iter();
        lines.map(|note| format!("  {}: {note}\n", row.case))
    });
    align(&lines).into_iter().chain(notes).collect()
}

fn header(scenario: &str, columns: &[Metric]) -> Vec<String> {
    let names = columns.iter().map(ToString::to_string);
    std::iter::once(scenario.to_owned()).chain(names).collect()
}

fn cells(row: &Row, columns: &[Metric], format: &impl Fn(Metric, f64) -> String) -> Vec<String> {
    let values = columns.iter().map(|metric| {
        let value = row.metrics.get(metric);
        value.map_or_else(|| "-".to_owned(), |value| format(*metric, *value))
    });
    std::iter::once(row.case.clone()).chain(values).collect()
}

/// The first column to the left, the numbers to the right.
fn align(lines: &[Vec<String>]) -> Vec<String> {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().map(|line| line[column].len()).max())
        .map(Option::unwrap_or_default)
        .collect();
    lines.iter().map(|line| pad(line, &widths)).collect()
}

fn pad(line: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = line
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        })
        .collect();
    cells.join("  ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(label: &str, rate: f64, p50: Option<f64>) -> Report {
        let mut first = Row::new("round-trips", "1 worker");
        first.set(Metric::RatePerS, rate);
        first.set(Metric::Errors, 0.0);
        let mut second = Row::new("round-trips", "64 workers");
        second.set(Metric::RatePerS, rate * 10.0);
        second.set_if_known(Metric::P50Ms, p50);
        second.notes.push("slow".to_owned());
        Report {
            label: label.to_owned(),
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
        assert_eq!(to_table(&report("a", 1500.0, Some(0.25)).rows), expected);
    }

    #[test]
    fn comparing_divides_the_second_by_the_first() {
        let compared = report("a", 1000.0, Some(2.0)).compare(&report("b", 1500.0, None));
        let expected = "\
`b` over `a`

round-trips  rate_per_s
1 worker          1.500
64 workers        1.500
";
        assert_eq!(compared, expected);
    }

    #[test]
    fn a_report_survives_json() {
        let report = report("a", 1.0, None);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
