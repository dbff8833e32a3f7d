//! Verdicts in words.

use std::fmt::Write as _;

use countersign_core::event::{Effect, PartKind, RuleRef, Verdict, VerdictPart};
use countersign_core::{TextLayout, visible};

/// A verdict as text: one line for the whole, one for each part with what decided about it.
pub fn explain(verdict: &Verdict) -> String {
    let mut text = verdict.effect.as_str().to_owned();
    for part in &verdict.parts {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}", explain_part(part));
    }
    text
}

/// One part: what it is, what follows, and why.
pub fn explain_part(part: &VerdictPart) -> String {
    let what = match part.kind {
        PartKind::Command => "run",
        PartKind::Read => "read",
        PartKind::Write => "write",
        PartKind::Fetch => "fetch",
        PartKind::Tool => "use",
    };
    // Subjects are an agent's words: one line for each part, with nothing in it unseen.
    let subject = visible(&part.subject, TextLayout::Line);
    let why = why(part);
    let why = visible(&why, TextLayout::Line);
    format!("{} {what} `{subject}`: {why}", part.effect.as_str())
}

fn why(part: &VerdictPart) -> String {
    match (&part.rule, &part.reason) {
        (_, Some(reason)) if part.floor => format!("{reason}; no rule lifts this"),
        (Some(rule), Some(reason)) if part.effect == rule.effect => {
            format!("{} ({reason})", name_rule(rule))
        }
        (Some(rule), Some(reason)) => format!("{reason}, although {} matches", name_rule(rule)),
        (Some(rule), None) => name_rule(rule),
        (None, Some(reason)) => reason.clone(),
        (None, None) => "no rule".to_owned(),
    }
}

/// A rule and where it stands: ``deny `Bash(rm:*)` in rules.toml:3``.
pub fn name_rule(rule: &RuleRef) -> String {
    let at = match (&rule.grant, rule.line) {
        (Some(grant), _) => format!("grant {grant}"),
        (None, Some(line)) => format!("in {}:{line}", rule.source),
        (None, None) => format!("in {}", rule.source),
    };
    format!("{} `{}` {at}", rule.effect.as_str(), rule.rule)
}

/// The part that decided: the first of the strictest.
pub fn deciding(verdict: &Verdict) -> Option<&VerdictPart> {
    let mut strictest = verdict
        .parts
        .iter()
        .filter(|part| part.effect == verdict.effect);
    let first = strictest.clone().next();
    if verdict.effect == Effect::Ask {
        return first;
    }
    strictest.find(|part| part.rule.is_some()).or(first)
}
