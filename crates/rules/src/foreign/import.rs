//! Import: the rules of other tools as a file of ours.
//!
//! In our files a deny beats an ask and an ask beats an allow, whatever the order. Invariant: what
//! comes out is never wider than what went in. An allow that stood above a deny is left out, since
//! the deny stays.

use std::fmt::Write as _;

use countersign_core::event::Effect;

use super::{DroppedRule, ForeignPolicy};
use crate::ruleset::RuleEntry;

/// Rules of others in our form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedRules {
    /// A rule file.
    pub toml: String,
    /// What is not in it as it stood, and why.
    pub not_carried: Vec<DroppedRule>,
}

/// Turns policies into one rule file of ours.
pub fn import(policies: &[ForeignPolicy]) -> ImportedRules {
    let mut not_carried = Vec::new();
    let mut kept: Vec<&RuleEntry> = Vec::new();
    for policy in policies {
        not_carried.extend(policy.dropped.iter().cloned());
        for entry in &policy.entries {
            match entry.effect {
                Effect::Ask if is_default(entry, policy) => {}
                Effect::Ask | Effect::Deny => kept.push(entry),
                Effect::Allow => match beaten(entry, policies) {
                    None => kept.push(entry),
                    Some(why) => not_carried.push(left(entry, why)),
                },
            }
        }
        kept.extend(&policy.widened);
    }
    ImportedRules {
        toml: written(&kept),
        not_carried,
    }
}

/// Whether an ask for a whole tool only says what holds below its allows. What no rule allows asks
/// here too, so it is not written down: it would beat those allows.
fn is_default(ask: &RuleEntry, policy: &ForeignPolicy) -> bool {
    let whole = matches!(ask.rule.text(), "*" | "Bash" | "Read" | "Edit" | "WebFetch");
    let mut allows = policy
        .entries
        .iter()
        .filter(|entry| entry.effect == Effect::Allow);
    ask.effect == Effect::Ask
        && whole
        && allows.any(|allow| allow.rank > ask.rank && covers(ask, allow))
}

/// Why nothing is left of an allow, if so: in one of the policies something stricter speaks of all
/// that it names.
fn beaten(allow: &RuleEntry, policies: &[ForeignPolicy]) -> Option<String> {
    let broken = policies.iter().find_map(|policy| policy.broken.as_ref());
    if let Some(why) = broken {
        return Some(format!("left out while a policy is not understood: {why}"));
    }
    policies.iter().find_map(|policy| {
        let stricter = policy
            .entries
            .iter()
            .filter(|entry| entry.effect != Effect::Allow && covers(entry, allow))
            .find(|strict| !is_default(strict, policy) || !is_lifted(allow, strict, policy));
        let stricter = stricter.or_else(|| {
            let mut widened = policy.widened.iter();
            widened.find(|entry| covers(entry, allow))
        })?;
        Some(format!(
            "left out: `{}` says {}, and here the stricter counts",
            stricter.rule.text(),
            stricter.effect.as_str()
        ))
    })
}

/// Whether, by the other tool's order, something above a stricter rule allows all of this.
fn is_lifted(allow: &RuleEntry, strict: &RuleEntry, policy: &ForeignPolicy) -> bool {
    policy.entries.iter().any(|entry| {
        entry.effect == Effect::Allow && entry.rank > strict.rank && covers(entry, allow)
    })
}

/// Whether everything that `inner` names is named by `outer` too, as far as their texts show it.
fn covers(outer: &RuleEntry, inner: &RuleEntry) -> bool {
    let (outer, inner) = (outer.rule.text(), inner.rule.text());
    let inner_tool = inner.split('(').next().unwrap_or_default();
    let writes = ["Edit", "Write", "MultiEdit", "NotebookEdit"].contains(&inner_tool);
    if outer == "*" || outer == inner || outer == inner_tool {
        return true;
    }
    // What is not to be read is not to be written either.
    if writes && matches!(outer, "Read" | "Edit") {
        return true;
    }
    // Texts are compared, not meanings. What is missed only lets an allow through that the stricter
    // rule, which is imported as well, overrules wherever both match.
    if let (Some(outer), false) = (outer.strip_suffix('*'), outer.contains('(')) {
        return inner.starts_with(outer);
    }
    let prefix = outer
        .strip_prefix("Bash(")
        .and_then(|spec| spec.strip_suffix(":*)"));
    let command = inner
        .strip_prefix("Bash(")
        .and_then(|spec| spec.strip_suffix(":*)").or_else(|| spec.strip_suffix(')')));
    match (prefix, command) {
        (Some(prefix), Some(command)) => command
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
        _ => false,
    }
}

fn left(entry: &RuleEntry, reason: String) -> DroppedRule {
    DroppedRule {
        source: entry.origin.source.clone(),
        line: entry.origin.line,
        text: entry.rule.text().to_owned(),
        reason,
        strict: entry.effect != Effect::Allow,
    }
}

/// A rule file with each rule once, and where it came from beside it.
fn written(kept: &[&RuleEntry]) -> String {
    let mut text = String::new();
    for effect in [Effect::Allow, Effect::Ask, Effect::Deny] {
        let mut seen: Vec<&str> = Vec::new();
        let mut lines = String::new();
        for entry in kept.iter().filter(|entry| entry.effect == effect) {
            let rule = entry.rule.text();
            if seen.contains(&rule) {
                continue;
            }
            seen.push(rule);
            let source = one_line(&entry.origin.source);
            let line = entry.origin.line.map(|line| format!(":{line}"));
            let line = line.unwrap_or_default();
            let quoted = toml::Value::String(rule.to_owned());
            // Writing into a String cannot fail.
            let _ = writeln!(lines, "  {quoted}, # {source}{line}");
        }
        if !lines.is_empty() {
            let _ = writeln!(text, "{} = [\n{lines}]", effect.as_str());
        }
    }
    text
}

/// A path in a comment must not end it.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
