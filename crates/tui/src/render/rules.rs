//! Rules, verdicts and grants in words: the same on every screen of the terminal.

use std::fmt::Write as _;

use countersign_protocol::{
    BypassRow, GrantRow, HostRule, HostVerdict, HostVerdictPart, RuleCandidate, RuleProblem,
    RuleScope, Time,
};

use unicode_width::UnicodeWidthStr as _;

use crate::render::{approvals, escape};
use crate::{duration, fit};

/// Columns that a subject keeps beside its reason. With fewer, the reason gets a line of its own.
const SUBJECT_MIN: usize = 24;

/// A verdict, part by part, with the rule beside each.
pub fn verdict(verdict: &HostVerdict) -> String {
    let mut text = format!("{}, because:", verdict.effect);
    for line in parts(verdict) {
        let _ = write!(text, "\n{line}");
    }
    text
}

/// One line for each part.
pub fn parts(verdict: &HostVerdict) -> Vec<String> {
    verdict.parts.iter().map(part).collect()
}

/// The same within a width. What is left out is cut from the subject, which stands above in full;
/// the reason is not shown elsewhere in a list, so it is never cut.
pub fn part_lines(verdict: &HostVerdict, width: usize) -> Vec<String> {
    let parts = verdict.parts.iter();
    parts.flat_map(|part| fit_part(part, width)).collect()
}

fn fit_part(part: &HostVerdictPart, width: usize) -> Vec<String> {
    let (head, subject) = (part_head(part), escape::line(&part.subject));
    let reason = format!("<- {}", part_reason(part));
    let beside = width.saturating_sub(head.width() + 2 + reason.width());
    if subject.width() <= beside {
        return vec![format!("{head}{subject}  {reason}")];
    }
    if beside >= SUBJECT_MIN {
        return vec![format!(
            "{head}{}  {reason}",
            cut_subject(part, &subject, beside)
        )];
    }
    let alone = width.saturating_sub(head.width());
    let mut lines = vec![format!("{head}{}", cut_subject(part, &subject, alone))];
    let indent = " ".repeat(EFFECT_COLUMNS);
    for line in fit::wrap_words(&reason, width.saturating_sub(EFFECT_COLUMNS)) {
        lines.push(format!("{indent}{line}"));
    }
    lines
}

/// Columns of an effect and the blanks behind it.
const EFFECT_COLUMNS: usize = 7;

/// A command is known by its beginning, a path by its end as well.
fn cut_subject(part: &HostVerdictPart, subject: &str, width: usize) -> String {
    if part.kind == "command" {
        fit::truncate(subject, width)
    } else {
        fit::truncate_middle(subject, width)
    }
}

fn part(part: &HostVerdictPart) -> String {
    let (head, subject) = (part_head(part), escape::line(&part.subject));
    format!("{head}{subject}  <- {}", part_reason(part))
}

/// What stands before the subject: the effect, and the kind where it is no command.
fn part_head(part: &HostVerdictPart) -> String {
    let kind = match part.kind.as_str() {
        "command" => String::new(),
        kind => format!("{} ", escape::line(kind)),
    };
    format!("{:<5}  {kind}", part.effect)
}

/// The rule that decided, or why none did.
fn part_reason(part: &HostVerdictPart) -> String {
    let reason = part.reason.as_deref().map(escape::line);
    match (&part.rule, reason) {
        // Before any rule: one that matches must not look as if it could allow this.
        (_, Some(reason)) if part.floor => {
            format!("{reason} (no rule, grant or bypass can allow this)")
        }
        (Some(rule), None) => rule_with_location(rule),
        (Some(rule), Some(reason)) if rule.effect == part.effect => {
            format!("{}: {reason}", rule_with_location(rule))
        }
        (Some(rule), Some(reason)) => {
            format!("{reason}, although {} matches", rule_with_location(rule))
        }
        (None, Some(reason)) => format!("no rule: {reason}"),
        (None, None) => "no rule".into(),
    }
}

/// A rule with its effect and where it stands.
fn rule_with_location(rule: &HostRule) -> String {
    let (effect, text) = (rule.effect, escape::line(&rule.rule));
    format!("{effect} {text} ({})", location(rule))
}

/// Where a rule stands: its grant, or file and line.
pub fn location(rule: &HostRule) -> String {
    match (&rule.grant, rule.line) {
        (Some(grant), _) => escape::line(grant).into_owned(),
        (None, Some(line)) => format!("{}:{line}", escape::line(&rule.source)),
        (None, None) => escape::line(&rule.source).into_owned(),
    }
}

/// The first candidate for each part: what an answer becomes by default.
pub fn narrowest(candidates: &[RuleCandidate]) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rules: Vec<String> = Vec::new();
    for candidate in candidates {
        // Candidates come narrowest first.
        if parts.contains(&candidate.part) {
            continue;
        }
        parts.push(candidate.part);
        if !rules.contains(&candidate.rule) {
            rules.push(candidate.rule.clone());
        }
    }
    rules
}

/// Where a grant counts.
pub fn scope(scope: &RuleScope) -> String {
    // A repository with all its worktrees goes by the name of what they share.
    let project = scope
        .project
        .as_deref()
        .map(|path| path.strip_suffix("/.git").unwrap_or(path));
    let parts: Vec<String> = [
        ("session", scope.session.as_deref()),
        ("agent", scope.agent.as_deref()),
        ("project", project),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(format!("{name} {}", escape::line(value?))))
    .chain(
        scope
            .labels
            .iter()
            .map(|(key, value)| format!("label {}", escape::line(&format!("{key}={value}")))),
    )
    .collect();
    if parts.is_empty() {
        "everywhere".into()
    } else {
        parts.join(", ")
    }
}

/// A grant in one line, as it is confirmed.
pub fn grant(row: &GrantRow, now: Time) -> String {
    format!(
        "{}  {} {}  {}, {}",
        escape::line(&row.id),
        row.effect,
        escape::line(&row.rule),
        scope(&row.scope),
        limits(row, now)
    )
}

/// What ends a grant.
pub fn limits(row: &GrantRow, now: Time) -> String {
    let ends = row
        .expires_at
        .map(|at| format!("ends {}", duration::until(now, at)));
    let uses = row.uses_left.map(|left| format!("{left} uses left"));
    let parts: Vec<String> = ends.into_iter().chain(uses).collect();
    if parts.is_empty() {
        "until removed".into()
    } else {
        parts.join(", ")
    }
}

/// Where a grant came from and how often it fired.
pub fn usage(row: &GrantRow, now: Time) -> String {
    let from = row.origin.as_deref().map_or_else(String::new, |id| {
        format!(" for ask {}", approvals::short_id(id))
    });
    let fired = match row.last_used {
        Some(at) => format!(
            "used {}, {} ago",
            duration::times(row.fired),
            duration::age(now, at)
        ),
        None => "never used".into(),
    };
    format!(
        "by {}{from} {} ago, {fired}",
        escape::line(&row.by.name),
        duration::age(now, row.created_at)
    )
}

/// A record that cannot be written comes before all others: then nothing is allowed at all.
pub fn store_warning(error: &str) -> String {
    format!("THE RECORD CANNOT BE WRITTEN: {}", escape::line(error))
}

/// What a person must know before anything else: files that are broken, agents that are not held.
pub fn warnings(problems: &[RuleProblem], bypassed: &[BypassRow], now: Time) -> Vec<String> {
    let broken = problems.iter().map(problem);
    let bypassed = bypassed.iter().map(|row| {
        format!(
            "BYPASS: asks of {} ({}) are allowed without you, ends {}",
            escape::line(&row.name),
            escape::line(&row.agent_id),
            duration::until(now, row.until)
        )
    });
    broken.chain(bypassed).collect()
}

/// What is wrong with a file, and what follows.
pub fn problem(problem: &RuleProblem) -> String {
    let line = problem
        .line
        .map_or_else(String::new, |line| format!(":{line}"));
    let (word, follows) = if problem.suspends {
        (
            "RULES BROKEN",
            "; no rule allows anything there until it is fixed",
        )
    } else {
        ("rules", "")
    };
    format!(
        "{word}: {}{line}: {}{follows}",
        escape::line(&problem.file),
        escape::line(&problem.message)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    #[test]
    fn a_verdict_names_the_rule_beside_each_part() {
        assert_eq!(
            verdict(&test_rows::verdict()),
            "ask, because:\n\
             allow  cargo test  <- allow Bash(cargo test:*) (/u/rules.toml:3)\n\
             ask    write /p/.git/config  <- git internals (no rule, grant or bypass can allow this)"
        );
    }

    #[test]
    fn the_subject_is_cut_and_the_reason_is_not() {
        let lines = |width| part_lines(&test_rows::verdict(), width).join("\n");
        assert_eq!(
            lines(80),
            "allow  cargo test  <- allow Bash(cargo test:*) (/u/rules.toml:3)\n\
             ask    write /p/.git/config\n       \
             <- git internals (no rule, grant or bypass can allow this)"
        );
        let long = HostVerdictPart {
            subject: format!("cargo test {}", "x".repeat(80)),
            ..test_rows::verdict().parts.remove(0)
        };
        let verdict = HostVerdict {
            parts: vec![long],
            ..test_rows::verdict()
        };
        assert_eq!(
            part_lines(&verdict, 80),
            ["allow  cargo test xxxxxxxxxxxxxx…  <- allow Bash(cargo test:*) (/u/rules.toml:3)"]
        );
    }

    #[test]
    fn the_narrowest_rule_of_each_part_is_taken() {
        let candidate = |part, rule: &str| RuleCandidate {
            note: String::new(),
            part,
            rule: rule.into(),
        };
        let candidates = [
            candidate(0, "Bash(git status)"),
            candidate(0, "Bash(git status:*)"),
            candidate(2, "Bash(ls)"),
            candidate(3, "Bash(ls)"),
        ];
        assert_eq!(narrowest(&candidates), ["Bash(git status)", "Bash(ls)"]);
    }

    #[test]
    fn a_grant_says_where_it_counts_and_when_it_ends() {
        let row = GrantRow {
            expires_at: Some(Time(90_000_000)),
            uses_left: Some(2),
            fired: 1,
            last_used: Some(Time(20_000_000)),
            ..test_rows::grant()
        };
        let now = Time(30_000_000);
        assert_eq!(
            grant(&row, now),
            "grant-1  allow Bash(ls:*)  agent builder, project /p, ends in 1m, 2 uses left"
        );
        assert_eq!(
            usage(&row, now),
            "by ada for ask aaaa1111 29s ago, used once, 10s ago"
        );
        assert_eq!(scope(&RuleScope::default()), "everywhere");
    }

    #[test]
    fn a_broken_file_and_a_bypass_are_said_in_words() {
        let broken = RuleProblem {
            file: "/u/rules.toml".into(),
            line: Some(3),
            message: "no such word".into(),
            suspends: true,
        };
        let bypass = BypassRow {
            agent_id: "a-1".into(),
            name: "builder".into(),
            until: Time(60_000_000),
        };
        assert_eq!(
            warnings(&[broken], &[bypass], Time(0)),
            [
                "RULES BROKEN: /u/rules.toml:3: no such word; no rule allows anything there until it is fixed",
                "BYPASS: asks of builder (a-1) are allowed without you, ends in 1m",
            ]
        );
    }
}
