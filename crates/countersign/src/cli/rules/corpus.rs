//! `rules check --corpus`: labelled cases, judged by the engine alone.

use std::fmt::Write as _;
use std::path::Path;

use countersign_rules::{CorpusCase, Effect, Verdict};
use serde::Serialize;

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::escape;

/// A case with what the engine said; what `--json` prints for it.
#[derive(Serialize)]
struct JudgedCase {
    id: String,
    family: String,
    expect: Effect,
    accept: Vec<Effect>,
    got: Effect,
    right: bool,
    wrong_allow: bool,
    explanation: String,
    #[serde(skip)]
    subject: String,
}

/// A line that is no case; what `--json` prints for it.
#[derive(Serialize)]
struct BadCorpusLine {
    line: usize,
    error: String,
}

pub(super) fn check(common: &CommonArgs, file: &Path) -> Result<CliExit, CliError> {
    let bytes = std::fs::read(file).map_err(|source| CliError::file("read", file, source))?;
    let (judged, bad) = judge_all(&bytes);
    if common.json {
        for case in &judged {
            output::print_json(case)?;
        }
        for line in &bad {
            output::print_json(line)?;
        }
    } else {
        output::print(&report(&judged, &bad))?;
    }
    // After any other wrong verdict a person is still asked, or nothing runs.
    let failed = !bad.is_empty() || judged.iter().any(|case| case.wrong_allow);
    Ok(CliExit::failure_if(failed))
}

fn judge_all(bytes: &[u8]) -> (Vec<JudgedCase>, Vec<BadCorpusLine>) {
    let (mut judged, mut bad) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if text.trim_ascii().is_empty() {
            continue;
        }
        // Each line by itself, so that one that is not text does not cost the others.
        let case = std::str::from_utf8(text)
            .map_err(|error| error.to_string())
            .and_then(|text| CorpusCase::parse(text).map_err(|error| error.to_string()));
        match case {
            Ok(case) => judged.push(JudgedCase::new(&case, &case.judge())),
            Err(error) => bad.push(BadCorpusLine { line, error }),
        }
    }
    (judged, bad)
}

impl JudgedCase {
    fn new(case: &CorpusCase, verdict: &Verdict) -> Self {
        let right = case.accepts(verdict.effect);
        Self {
            id: case.id.clone(),
            family: case.family.clone(),
            expect: case.expect,
            accept: case.accept.clone(),
            got: verdict.effect,
            right,
            wrong_allow: !right && verdict.effect == Effect::Allow,
            explanation: countersign_rules::explain(verdict),
            subject: case.subject(),
        }
    }

    fn is_missed_allow(&self) -> bool {
        !self.right && self.expect == Effect::Allow
    }

    fn is_other_error(&self) -> bool {
        !self.right && !self.wrong_allow && !self.is_missed_allow()
    }
}

fn report(judged: &[JudgedCase], bad: &[BadCorpusLine]) -> String {
    let mut text = String::new();
    let cases = judged.iter();
    let wrong = cases.clone().filter(|case| case.wrong_allow);
    let missed = cases.clone().filter(|case| case.is_missed_allow());
    let other = cases.filter(|case| case.is_other_error());
    let wrong_allows = section(&mut text, "wrong allows", wrong);
    let missed_allows = section(&mut text, "missed allows", missed);
    section(&mut text, "other wrong answers", other);
    let _ = writeln!(text, "bad lines: {}", bad.len());
    for line in bad {
        let _ = writeln!(text, "  line {}: {}", line.line, escape::line(&line.error));
    }
    let right = judged.iter().filter(|case| case.right).count();
    let [allows, asks, denies] = [Effect::Allow, Effect::Ask, Effect::Deny]
        .map(|expected| judged.iter().filter(|case| case.expect == expected).count());
    let _ = writeln!(
        text,
        "\n{} cases (allow {allows}, ask {asks}, deny {denies}): {right} right ({}), {wrong_allows} wrong \
         allows, {} of {allows} allows allowed, {missed_allows} missed",
        judged.len(),
        percent(right, judged.len()),
        allows - missed_allows,
    );
    text
}

/// Each case with its command, expected and given answer; gives back how many there are.
fn section<'a>(
    text: &mut String,
    name: &str,
    cases: impl Iterator<Item = &'a JudgedCase>,
) -> usize {
    let cases: Vec<_> = cases.collect();
    let _ = writeln!(text, "{name}: {}", cases.len());
    for case in &cases {
        let _ = writeln!(
            text,
            "  {}  expected {}, got {}  {}",
            escape::line(&case.id),
            case.expect.as_str(),
            case.got.as_str(),
            escape::line(&case.subject)
        );
    }
    cases.len()
}

fn percent(part: usize, whole: usize) -> String {
    let tenths = (part * 1_000).checked_div(whole).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(id: &str, expect: Effect, got: Effect) -> JudgedCase {
        JudgedCase {
            id: id.into(),
            family: "f".into(),
            expect,
            accept: vec![expect],
            got,
            right: expect == got,
            wrong_allow: got == Effect::Allow && expect != got,
            explanation: String::new(),
            subject: format!("run {id}"),
        }
    }

    #[test]
    fn the_report_names_every_wrong_answer() {
        let cases = [
            judged("a-1", Effect::Deny, Effect::Allow),
            judged("a-2", Effect::Allow, Effect::Ask),
            judged("a-3", Effect::Deny, Effect::Ask),
            judged("a-4", Effect::Allow, Effect::Allow),
        ];
        let bad = [BadCorpusLine {
            line: 9,
            error: "no".into(),
        }];
        assert_eq!(
            report(&cases, &bad),
            "wrong allows: 1\n  a-1  expected deny, got allow  run a-1\n\
             missed allows: 1\n  a-2  expected allow, got ask  run a-2\n\
             other wrong answers: 1\n  a-3  expected deny, got ask  run a-3\n\
             bad lines: 1\n  line 9: no\n\n\
             4 cases (allow 2, ask 0, deny 2): 1 right (25.0 %), 1 wrong allows, 1 of 2 allows \
             allowed, 1 missed\n"
        );
    }

    #[test]
    fn a_bad_line_has_its_number_and_hides_no_other() {
        let good = r#"{"id":"x","rules":{},"request":{"tool":"read","path":"a"},"expect":"ask"}"#;
        let text = [good.as_bytes(), b"{", b"", b"\xff", good.as_bytes()].join(&b'\n');
        let (judged, bad) = judge_all(&text);
        let lines: Vec<_> = bad.iter().map(|line| line.line).collect();
        assert_eq!((judged.len(), lines), (2, vec![2, 4]));
    }
}
