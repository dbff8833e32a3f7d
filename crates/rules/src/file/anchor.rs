//! Anchoring: a rule that speaks of its own project, said so that it means the same elsewhere.

use countersign_core::event::Effect;

use crate::ruleset::RuleEntry;

/// The tools whose rules name paths.
const PATH_TOOLS: &[&str] = &[
    "Read",
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Glob",
    "Grep",
    "LS",
];

/// Characters of a path that a pattern or the rule language could take for something else.
const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', '(', ')', '!', '#', '\\'];

/// The same rule for a place outside of the project whose root is given: `Read(/secret/**)` becomes
/// `Read(//root/secret/**)`. Where the root cannot be written down, the whole tool asks instead.
pub fn anchor_rule(entry: &RuleEntry, root: &str) -> RuleEntry {
    let text = entry.rule.text().trim();
    let Some((tool, rest)) = text.split_once('(') else {
        return entry.clone();
    };
    let tool = tool.trim();
    let from_root = rest.starts_with('/') && !rest.starts_with("//");
    if !from_root || !PATH_TOOLS.contains(&tool) {
        return entry.clone();
    }
    let root = root.trim_end_matches('/');
    let absolute = format!("{tool}(/{root}{rest}");
    let exact = RuleEntry::parse(entry.effect, &absolute, entry.origin.clone());
    let anchored = match exact {
        Ok(anchored) if !root.contains(SPECIAL) => Some(anchored),
        // The deny cannot be written down. An ask is milder, so it is wider: every use of the tool
        // asks.
        _ => RuleEntry::parse(Effect::Ask, tool, entry.origin.clone()).ok(),
    };
    match anchored {
        Some(anchored) => RuleEntry {
            rank: entry.rank,
            agent: entry.agent.clone(),
            reason: entry.reason.clone(),
            area: entry.area,
            ..anchored
        },
        None => entry.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ruleset::RuleOrigin;

    fn check(effect: Effect, rule: &str, root: &str) -> String {
        let entry = RuleEntry::parse(effect, rule, RuleOrigin::file("f", 1)).unwrap();
        let anchored = anchor_rule(&entry, root);
        format!("{} {}", anchored.effect.as_str(), anchored.rule.text())
    }

    #[test]
    fn only_rules_from_the_root_of_the_project_change() {
        for (rule, expected) in [
            ("Read(/secret/**)", "deny Read(//srv/app/secret/**)"),
            ("Read(//etc/**)", "deny Read(//etc/**)"),
            ("Read(./x)", "deny Read(./x)"),
            ("Read(.env)", "deny Read(.env)"),
            ("Bash(/bin/rm:*)", "deny Bash(/bin/rm:*)"),
            ("Bash", "deny Bash"),
        ] {
            assert_eq!(check(Effect::Deny, rule, "/srv/app"), expected);
        }
    }

    #[test]
    fn a_root_that_looks_like_a_pattern_makes_the_tool_ask() {
        assert_eq!(check(Effect::Deny, "Read(/x)", "/srv/a*"), "ask Read");
    }
}
