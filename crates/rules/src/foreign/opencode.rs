//! opencode: `permission` in `opencode.json`, the last matching pattern wins.
//!
//! Files are laid over one another as it does it: a key that stands in both keeps its place and
//! takes the later value. The place of a pattern is its rank.

use std::sync::Arc;

use countersign_core::event::Effect;

use super::json::{self, JsonDialect, JsonNode, JsonValue};
use super::{ANY_TOOL, ForeignFile, PolicyReader, RuleSource, parse_effect};

/// What one file says, in order.
type OpencodePermissions = Vec<(String, PermissionEffect)>;

/// What is said of one permission.
#[derive(Clone, Debug)]
enum PermissionEffect {
    /// Of all of it.
    Whole(RuleSource, Effect),
    /// Pattern by pattern.
    Patterns(Vec<(String, RuleSource, Effect)>),
}

pub(super) fn read(reading: &mut PolicyReader, files: &[ForeignFile<'_>]) {
    let mut merged = OpencodePermissions::new();
    // The administrator's file comes last, so that it wins; within a scope the order is kept.
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|file| match file.scope {
        super::ForeignScope::User => 0,
        super::ForeignScope::Project => 1,
        super::ForeignScope::Managed => 2,
    });
    for file in files {
        match json::parse(file.text, JsonDialect::WithComments) {
            Ok(node) => read_file(reading, file.source, &node, &mut merged),
            Err(error) => reading.set_broken(file.source, Some(error.line), &error.message),
        }
    }
    let mut rank = 0;
    for (permission, said) in merged {
        let patterns = match said {
            PermissionEffect::Whole(spot, effect) => vec![("*".to_owned(), spot, effect)],
            PermissionEffect::Patterns(patterns) => patterns,
        };
        for (pattern, spot, effect) in patterns {
            // In opencode the last pattern that matches counts, so what comes later ranks higher.
            rank += 1;
            translate(reading, &permission, &pattern, effect, rank, &spot);
        }
    }
}

fn read_file(
    reading: &mut PolicyReader,
    source: &str,
    node: &JsonNode,
    merged: &mut OpencodePermissions,
) {
    let source: Arc<str> = source.into();
    let JsonValue::Object(members) = &node.value else {
        return reading.set_broken(&source, Some(node.line), "the configuration is no object");
    };
    for (key, value) in members {
        match key.as_str() {
            "permission" => {
                for (name, said) in permissions(reading, &source, value) {
                    lay_over(merged, name, said);
                }
            }
            "tools" => tools(reading, &source, value, merged),
            "agent" | "mode" => agents(reading, &source, value),
            _ => {}
        }
    }
}

/// `permission`: one word for everything, or words and patterns for each.
fn permissions(
    reading: &mut PolicyReader,
    source: &Arc<str>,
    node: &JsonNode,
) -> OpencodePermissions {
    let members = match &node.value {
        JsonValue::Text(_) => vec![("*".to_owned(), node.clone())],
        JsonValue::Object(members) => members.clone(),
        _ => {
            reading.set_broken(source, Some(node.line), "`permission` is no object");
            return Vec::new();
        }
    };
    let mut found = OpencodePermissions::new();
    for (name, value) in &members {
        if let Some(said) = said(reading, source, name, value) {
            found.push((name.clone(), said));
        }
    }
    found
}

fn said(
    reading: &mut PolicyReader,
    source: &Arc<str>,
    name: &str,
    node: &JsonNode,
) -> Option<PermissionEffect> {
    if let JsonValue::Object(members) = &node.value {
        let mut patterns = Vec::new();
        for (pattern, value) in members {
            let (spot, effect) = word(reading, source, &format!("{name} {pattern}"), value)?;
            patterns.push((pattern.clone(), spot, effect));
        }
        return Some(PermissionEffect::Patterns(patterns));
    }
    let (spot, effect) = word(reading, source, name, node)?;
    Some(PermissionEffect::Whole(spot, effect))
}

fn word(
    reading: &mut PolicyReader,
    source: &Arc<str>,
    text: &str,
    node: &JsonNode,
) -> Option<(RuleSource, Effect)> {
    let effect = node.as_text().and_then(parse_effect);
    let Some(effect) = effect else {
        let why = format!("`{text}` is neither allow, ask nor deny");
        reading.set_broken(source, Some(node.line), &why);
        return None;
    };
    let spot = RuleSource {
        source: Arc::clone(source),
        line: node.line,
        text: format!("{text}: {}", effect.as_str()),
    };
    Some((spot, effect))
}

/// A key keeps its place and takes the later value; patterns are laid over pattern by pattern.
fn lay_over(merged: &mut OpencodePermissions, name: String, said: PermissionEffect) {
    let Some((_, known)) = merged.iter_mut().find(|(known, _)| *known == name) else {
        return merged.push((name, said));
    };
    match (known, said) {
        (PermissionEffect::Patterns(known), PermissionEffect::Patterns(later)) => {
            for (pattern, spot, effect) in later {
                match known.iter_mut().find(|(known, ..)| *known == pattern) {
                    Some(place) => *place = (pattern, spot, effect),
                    None => known.push((pattern, spot, effect)),
                }
            }
        }
        (known, later) => *known = later,
    }
}

/// `tools`, the older form: what is switched off is denied, unless `permission` says otherwise.
fn tools(
    reading: &mut PolicyReader,
    source: &Arc<str>,
    node: &JsonNode,
    merged: &mut OpencodePermissions,
) {
    let JsonValue::Object(members) = &node.value else {
        return reading.set_broken(source, Some(node.line), "`tools` is no object");
    };
    for (tool, value) in members {
        if value.value != JsonValue::Bool(false) {
            continue;
        }
        let spot = RuleSource {
            source: Arc::clone(source),
            line: value.line,
            text: format!("tools.{tool}: false"),
        };
        let name = match tool.as_str() {
            "write" | "edit" | "patch" | "multiedit" => "edit",
            other => other,
        };
        // It may come before or after `permission`; what that says stands.
        if !merged.iter().any(|(known, _)| known == name) {
            merged.insert(
                0,
                (name.to_owned(), PermissionEffect::Whole(spot, Effect::Deny)),
            );
        }
    }
}

/// What holds for one of its agents alone: we do not know which one asks, so denies and asks hold
/// for all and allows for none.
fn agents(reading: &mut PolicyReader, source: &Arc<str>, node: &JsonNode) {
    let JsonValue::Object(agents) = &node.value else {
        return;
    };
    for (agent, settings) in agents {
        let Some(node) = settings.get("permission") else {
            continue;
        };
        for (permission, said) in permissions(reading, source, node) {
            let said = match said {
                PermissionEffect::Whole(spot, effect) => vec![(spot, effect)],
                PermissionEffect::Patterns(all) => {
                    all.into_iter().map(|(_, spot, e)| (spot, e)).collect()
                }
            };
            for (spot, effect) in said {
                let why = format!("it is for opencode's agent `{agent}` alone");
                for tool in rule_tools(&permission) {
                    reading.add_inexact(effect, tool, &spot, &why);
                }
            }
        }
    }
}

/// The rules' names for what a permission is about.
fn rule_tools(permission: &str) -> Vec<&str> {
    match permission {
        "*" => vec![ANY_TOOL],
        "bash" => vec!["Bash"],
        "read" => vec!["Read"],
        "edit" => vec!["Edit", "patch", "apply_patch", "multiedit"],
        "webfetch" => vec!["WebFetch"],
        "websearch" => vec!["websearch", "WebSearch"],
        "external_directory" => vec!["Read", "Edit"],
        other => vec![other],
    }
}

fn translate(
    reading: &mut PolicyReader,
    permission: &str,
    pattern: &str,
    effect: Effect,
    rank: i64,
    spot: &RuleSource,
) {
    let allow = effect == Effect::Allow;
    let rule = match (permission, pattern) {
        // Its check against loops has no counterpart; outside of the project we ask as it does.
        ("doom_loop", _) => {
            return reading.add_dropped(spot, effect, "there is no such check here".into());
        }
        ("external_directory", "*") if effect == Effect::Ask => {
            return reading.add_dropped(
                spot,
                effect,
                "left out: what no rule allows is asked".into(),
            );
        }
        ("external_directory", _) => None,
        (_, "*") => {
            for tool in rule_tools(permission) {
                reading.add_rule(effect, tool, rank, spot);
            }
            return;
        }
        ("bash", pattern) => command(pattern),
        ("read", pattern) => path(pattern, allow).map(|path| format!("Read({path})")),
        ("edit", pattern) => path(pattern, allow).map(|path| format!("Edit({path})")),
        _ => None,
    };
    match rule {
        Some(rule) => reading.add_rule(effect, &rule, rank, spot),
        None => {
            for tool in rule_tools(permission) {
                reading.add_inexact(effect, tool, spot, "it cannot be translated exactly");
            }
        }
    }
}

/// Its pattern for a command means what ours means, apart from what stands in quotes.
fn command(pattern: &str) -> Option<String> {
    let is_special = pattern.contains(|c: char| c.is_control() || "?\"'\\`$():".contains(c));
    if is_special || pattern.trim() != pattern || pattern.is_empty() {
        return None;
    }
    match pattern.strip_suffix(" *") {
        Some(prefix) if !prefix.contains('*') => Some(format!("Bash({prefix}:*)")),
        _ => Some(format!("Bash({pattern})")),
    }
}

/// Its pattern for a path as one of ours. Its `*` crosses folders and ours does not: an allow may
/// say less, a deny or an ask may not.
fn path(pattern: &str, allow: bool) -> Option<String> {
    let is_special = pattern.contains(|c: char| c.is_control() || "?\"'\\`$()[]{}!#:".contains(c));
    if is_special || pattern.contains("..") || pattern.is_empty() {
        return None;
    }
    if pattern.starts_with(['~', '/']) {
        // It matches paths from the project on, so these never fire: an allow says nothing.
        let absolute = pattern.strip_prefix('/').map(|_| format!("/{pattern}"));
        let rule = absolute.unwrap_or_else(|| pattern.to_owned());
        return (!allow && !pattern.contains('*')).then_some(rule);
    }
    let folder = pattern
        .strip_suffix("/**")
        .or_else(|| pattern.strip_suffix("/*"));
    match folder {
        Some(folder) if !folder.contains('*') => return Some(format!("/{folder}/**")),
        _ => {}
    }
    if !pattern.contains('*') || allow {
        return Some(format!("/{pattern}"));
    }
    // `*.env` matches at the end of any path, which a name without folders does too.
    let name = pattern.strip_prefix('*')?;
    let plain = !name.contains(['*', '/']) && name.starts_with('.');
    plain.then(|| format!("**/{pattern}"))
}
