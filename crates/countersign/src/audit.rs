//! Reading the record without a host: the store's audit, in words.

use std::io::{self, Write as _};
use std::path::Path;

use countersign_core::Seq;
use countersign_daemon::StoreError;
use countersign_daemon::audit::{AuditReport, ExportedEvent};
use serde::Serialize;

use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;

/// A head that was kept elsewhere: `SEQ:HASH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditHead(Seq, String);

impl std::str::FromStr for AuditHead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once(':')
            .filter(|(_, hash)| hash.len() == 64)
            .filter(|(_, hash)| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|(seq, hash)| Some(Self(Seq(seq.parse().ok()?), hash.to_ascii_lowercase())))
            .ok_or_else(|| {
                format!("`{text}` is not a head like 1042:9f86d081…, as `audit verify` prints it")
            })
    }
}

/// What `audit verify --json` prints.
#[derive(Serialize)]
struct AuditReportJson<'a> {
    whole: bool,
    stream: &'a str,
    events: u64,
    first: Option<u64>,
    head: String,
    pruned_before: Option<u64>,
    redacted: Vec<u64>,
    problems: Vec<String>,
}

/// Checks the whole chain, against a head kept elsewhere if one is given.
pub(crate) fn verify(
    database: &Path,
    head: Option<AuditHead>,
    json: bool,
) -> Result<CliExit, CliError> {
    must_exist(database)?;
    let report =
        countersign_daemon::audit::verify(database, head.map(|AuditHead(seq, hash)| (seq, hash)))
            .map_err(|error| failed(error, "could not verify the record"))?;
    if json {
        output::print_json(&rows(&report))?;
    } else {
        output::print(&report_text(&report))?;
    }
    Ok(CliExit::failure_if(!report.problems.is_empty()))
}

/// Writes every event as one line of JSON to stdout.
pub(crate) fn export(database: &Path) -> Result<CliExit, CliError> {
    must_exist(database)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    // A flag, because the store wraps what the writer reports, and its kind is lost in that.
    let mut closed = false;
    let exported = countersign_daemon::audit::export(
        database,
        None,
        None,
        &mut |event: ExportedEvent| -> io::Result<()> {
            serde_json::to_writer(&mut out, &event)?;
            let written = out.write_all(b"\n");
            closed |= matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
            written
        },
    );
    let flushed = out.flush();
    if closed || matches!(&flushed, Err(error) if error.kind() == io::ErrorKind::BrokenPipe) {
        return Err(CliError::OutputClosed);
    }
    exported.map_err(|error| failed(error, "could not export the record"))?;
    flushed.map_err(|source| CliError::io("could not write to stdout", source))?;
    Ok(CliExit::Ok)
}

fn must_exist(database: &Path) -> Result<(), CliError> {
    if database.exists() {
        return Ok(());
    }
    Err(
        CliError::failed(format!("there is no record at `{}`", database.display()))
            .with_hint("set COUNTERSIGN_HOME to the folder it is in"),
    )
}

fn failed(error: StoreError, what: &str) -> CliError {
    CliError::Io {
        what: what.into(),
        source: io::Error::other(error),
    }
}

fn rows(report: &AuditReport) -> AuditReportJson<'_> {
    AuditReportJson {
        whole: report.problems.is_empty(),
        stream: &report.stream,
        events: report.events,
        first: report.first.map(|seq| seq.0),
        head: format!("{}:{}", report.head, report.head_hash),
        pruned_before: report.pruned_before.map(|seq| seq.0),
        redacted: report.redacted.iter().map(|seq| seq.0).collect(),
        problems: report.problems.iter().map(ToString::to_string).collect(),
    }
}

fn report_text(report: &AuditReport) -> String {
    let mut fields = vec![
        (
            "record",
            if report.problems.is_empty() {
                "whole".into()
            } else {
                "NOT WHOLE".into()
            },
        ),
        ("stream", report.stream.clone()),
        ("events", report.events.to_string()),
        ("head", format!("{}:{}", report.head, report.head_hash)),
    ];
    fields.extend(report.pruned_before.map(|seq| {
        (
            "pruned",
            format!("everything before event {seq}, on the record"),
        )
    }));
    if !report.redacted.is_empty() {
        let list: Vec<_> = report.redacted.iter().map(ToString::to_string).collect();
        fields.push((
            "erased",
            format!("the content of event {}, on the record", list.join(", ")),
        ));
    }
    fields.extend(
        report
            .problems
            .iter()
            .map(|problem| ("problem", problem.to_string())),
    );
    output::fields(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_a_number_and_a_hash() {
        let hash = "AB".repeat(32);
        assert_eq!(
            format!("7:{hash}").parse(),
            Ok(AuditHead(Seq(7), "ab".repeat(32)))
        );
        for wrong in [
            "7",
            "7:ab",
            &format!("x:{hash}"),
            &format!("7:{}", "zz".repeat(32)),
        ] {
            assert!(wrong.parse::<AuditHead>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_gone_and_what_is_wrong_are_both_told() {
        let report = AuditReport {
            stream: "host-1".into(),
            events: 3,
            first: Some(Seq(5)),
            head: Seq(7),
            head_hash: "ab".into(),
            pruned_before: Some(Seq(5)),
            redacted: vec![Seq(6)],
            problems: vec![countersign_daemon::audit::AuditProblem::HashMismatch { seq: Seq(7) }],
        };
        assert_eq!(
            anstream::adapter::strip_str(&report_text(&report)).to_string(),
            "record   NOT WHOLE\nstream   host-1\nevents   3\nhead     7:ab\n\
             pruned   everything before event 5, on the record\n\
             erased   the content of event 6, on the record\n\
             problem  event 7 does not follow from the one before it\n"
        );
    }
}
