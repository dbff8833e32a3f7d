//! Claude Code: `permissions` in its settings, of an administrator, the user and the project.
//!
//! Its precedence is ours: deny before ask before allow, over all files. What only changes how it
//! asks (modes, further folders) is not a rule and is reported.

use std::sync::Arc;

use countersign_core::event::Effect;

use super::json::{self, JsonDialect, JsonNode, JsonValue};
use super::{ANY_TOOL, ForeignFile, ForeignScope, PolicyReader, RuleSource, parse_effect};

/// Tools in whose rules it accepts a path and never looks at it.
const PATHS_NOT_READ: &[&str] = &[
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Glob",
    "Grep",
    "LS",
];

/// Below every rule: what holds where none matches.
const DEFAULT_RANK: i64 = -1;

pub(super) fn read(reading: &mut PolicyReader, files: &[ForeignFile<'_>]) {
    let mut parsed = Vec::new();
    for file in files {
        match json::parse(file.text, JsonDialect::Json) {
            Ok(node) => parsed.push((file, node)),
            Err(error) => reading.set_broken(file.source, Some(error.line), &error.message),
        }
    }
    // Found out before any file is read for rules: it changes what the others may allow. Anything
    // but `false` counts, as a value that was mistyped was meant to restrict.
    let managed_only = parsed.iter().any(|(file, node)| {
        let only = node.get("allowManagedPermissionRulesOnly");
        file.scope == ForeignScope::Managed
            && only.is_some_and(|node| node.value != JsonValue::Bool(false))
    });
    for (file, node) in &parsed {
        ClaudePermissions {
            reading,
            source: file.source.into(),
            allows: !managed_only || file.scope == ForeignScope::Managed,
        }
        .read(node);
    }
}

/// One file of settings.
struct ClaudePermissions<'a> {
    reading: &'a mut PolicyReader,
    source: Arc<str>,
    /// Whether an administrator lets its allows count.
    allows: bool,
}

impl ClaudePermissions<'_> {
    fn read(&mut self, settings: &JsonNode) {
        let JsonValue::Object(_) = settings.value else {
            return self.broke(settings, "the settings are no object");
        };
        let Some(permissions) = settings.get("permissions") else {
            return;
        };
        let JsonValue::Object(members) = &permissions.value else {
            return self.broke(permissions, "`permissions` is no object");
        };
        for (key, node) in members {
            match key.as_str() {
                "allow" | "ask" | "deny" => self.rules(key, node),
                "defaultMode" => self.mode(node),
                _ => self.other(key, node),
            }
        }
    }

    fn broke(&mut self, node: &JsonNode, why: &str) {
        self.reading.set_broken(&self.source, Some(node.line), why);
    }

    fn spot(&self, node: &JsonNode, text: impl Into<String>) -> RuleSource {
        RuleSource {
            source: Arc::clone(&self.source),
            line: node.line,
            text: text.into(),
        }
    }

    fn rules(&mut self, key: &str, node: &JsonNode) {
        let JsonValue::List(rules) = &node.value else {
            return self.broke(node, &format!("`{key}` is no list"));
        };
        let Some(effect) = parse_effect(key) else {
            return;
        };
        for rule in rules {
            match rule.as_text() {
                Some(text) => self.rule(effect, text, rule),
                None => self.broke(rule, "a rule is no text"),
            }
        }
    }

    fn rule(&mut self, effect: Effect, text: &str, node: &JsonNode) {
        let spot = self.spot(node, text);
        let tool = text.split('(').next().unwrap_or(text).trim();
        if effect == Effect::Allow && !self.allows {
            let why = "an administrator allows only managed rules";
            return self.reading.add_inexact(effect, tool, &spot, why);
        }
        if effect == Effect::Allow && text.contains('(') && PATHS_NOT_READ.contains(&tool) {
            let why = "Claude Code reads paths in `Read` and `Edit` rules only";
            return self.reading.add_inexact(effect, tool, &spot, why);
        }
        self.reading.add_rule(effect, text, 0, &spot);
    }

    /// Modes that loosen are not carried over, those that tighten ask.
    fn mode(&mut self, node: &JsonNode) {
        let mode = node.as_text().unwrap_or_default();
        let spot = self.spot(node, format!("defaultMode = {mode}"));
        match mode {
            // What no rule covers asks here too.
            "default" | "manual" => {}
            "acceptEdits" | "bypassPermissions" | "auto" => {
                let why = "left out: what no rule allows is asked".to_owned();
                self.reading.add_dropped(&spot, Effect::Allow, why);
            }
            "plan" => {
                for tool in ["Bash", "Edit", "Write"] {
                    let why = "plan mode changes nothing";
                    self.reading.add_inexact(Effect::Deny, tool, &spot, why);
                }
            }
            _ => self
                .reading
                .add_rule(Effect::Ask, ANY_TOOL, DEFAULT_RANK, &spot),
        }
    }

    fn other(&mut self, key: &str, node: &JsonNode) {
        let (effect, why) = match key {
            "additionalDirectories" => (Effect::Allow, "left out: reading there asks"),
            "disableBypassPermissionsMode" => {
                (Effect::Deny, "our bypass is switched by an operator alone")
            }
            "disableAutoMode" => (Effect::Deny, "there is no such mode here"),
            _ => (Effect::Deny, "this setting is not known"),
        };
        let spot = self.spot(node, key);
        self.reading.add_dropped(&spot, effect, why.to_owned());
    }
}
