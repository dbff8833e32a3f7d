//! Gemini CLI: `[[rule]]` in `policies/*.toml`, the highest priority wins.
//!
//! Where a file stands gives its tier, and no priority lifts a rule out of it. A rule with a
//! condition that we cannot check (a mode, a subagent, an annotation) is inexact.

use std::sync::Arc;

use countersign_core::event::Effect;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ANY_TOOL, ForeignFile, ForeignScope, PolicyReader, RuleSource, is_plain_word};
use crate::file::table::{LineIndex, TableReader};

/// The tool that runs commands.
const SHELL: &str = "run_shell_command";

/// The mode in which it asks, which is the one we stand in for.
const USUAL_MODE: &str = "default";

pub(super) fn read(reading: &mut PolicyReader, files: &[ForeignFile<'_>]) {
    for file in files {
        let lines = LineIndex::of(file.text);
        let (document, errors) = DeTable::parse_recoverable(file.text);
        if let Some(error) = errors.first() {
            let line = error.span().map(|span| lines.at(span.start));
            reading.set_broken(file.source, line, error.message());
            continue;
        }
        read_document(reading, file, &lines, document.get_ref());
    }
}

fn read_document(
    reading: &mut PolicyReader,
    file: &ForeignFile<'_>,
    lines: &LineIndex,
    document: &DeTable<'_>,
) {
    let source: Arc<str> = file.source.into();
    for (key, value) in document {
        let line = lines.at(key.span().start);
        if key.get_ref() != "rule" {
            let spot = RuleSource {
                source: Arc::clone(&source),
                line,
                text: key.get_ref().to_string(),
            };
            reading.add_dropped(&spot, Effect::Deny, "it is not known here".into());
            continue;
        }
        let Some(rules) = value.get_ref().as_array() else {
            reading.set_broken(&source, Some(line), "`rule` is no list");
            continue;
        };
        for rule in rules {
            let read = GeminiRule::read(rule, lines, file.scope);
            match read {
                Ok((conditions, line)) => conditions.translate(reading, &source, line),
                Err((line, why)) => reading.set_broken(&source, Some(line), &why),
            }
        }
    }
}

/// A rule of its, taken apart.
struct GeminiRule {
    tools: Vec<String>,
    server: Option<String>,
    prefixes: Vec<String>,
    effect: Effect,
    rank: i64,
    reason: Option<Arc<str>>,
    /// What we cannot check, if anything.
    unchecked: Option<String>,
    /// Whether it matches by a regular expression.
    regex: bool,
}

impl GeminiRule {
    fn read(
        rule: &Spanned<DeValue<'_>>,
        lines: &LineIndex,
        scope: ForeignScope,
    ) -> Result<(Self, u32), (u32, String)> {
        let line = lines.at(rule.span().start);
        let fail = |why: &str| (line, why.to_owned());
        let mut table = TableReader::of(rule, lines).ok_or_else(|| fail("a rule is no table"))?;
        let decision = table.take_text("decision").unwrap_or_default();
        let effect = match decision.as_ref() {
            "allow" => Effect::Allow,
            "deny" => Effect::Deny,
            "ask_user" => Effect::Ask,
            _ => return Err(fail("`decision` is not understood")),
        };
        let priority = table
            .take("priority")
            .and_then(|value| value.get_ref().as_integer()?.as_str().parse::<i64>().ok())
            // The tier counts in thousands: a larger number would lift the rule into the next one.
            .filter(|priority| (0..=999).contains(priority))
            .ok_or_else(|| fail("`priority` is not understood"))?;
        let tools = one_or_many(&mut table, "toolName");
        let prefixes = one_or_many(&mut table, "commandPrefix");
        let server = table.take_text("mcpName").map(|name| name.to_string());
        let regexes = ["commandRegex", "argsPattern"].map(|key| table.take(key).is_some());
        let modes = table.take_texts("modes");
        let message = ["denyMessage", "deny_message"].map(|key| table.take_text(key));
        // A redirection is a write of its own here, whatever this says.
        for key in ["allowRedirection", "allow_redirection"] {
            table.take(key);
        }
        table.finish(&[]);
        let strange = table.problems.first().map(|found| found.message.clone());
        let mode = !modes.is_empty() && !modes.iter().any(|mode| mode == USUAL_MODE);
        let mode = mode.then(|| format!("it holds in other modes: {}", modes.join(", ")));
        let conditions = Self {
            tools,
            server,
            prefixes,
            effect,
            rank: tier(scope) * 1000 + priority,
            reason: message.into_iter().flatten().next(),
            unchecked: strange.or(mode),
            regex: regexes.contains(&true),
        };
        Ok((conditions, line))
    }

    fn translate(&self, reading: &mut PolicyReader, source: &Arc<str>, line: u32) {
        let spot = RuleSource {
            source: Arc::clone(source),
            line,
            text: self.shown(),
        };
        if self.tools.is_empty() && self.server.is_none() {
            return reading.set_broken(source, Some(line), "`toolName` is missing");
        }
        let before = reading.policy.entries.len();
        match (&self.server, self.prefixes.as_slice()) {
            (Some(server), _) => self.server_rules(reading, server, &spot),
            (None, []) => self.tool_rules(reading, &spot),
            (None, prefixes) if self.tools == [SHELL] => {
                for prefix in prefixes {
                    self.prefix_rule(reading, prefix.trim(), &spot);
                }
            }
            (None, _) => {
                reading.set_broken(source, Some(line), "`commandPrefix` is for commands only");
            }
        }
        for entry in reading.policy.entries.iter_mut().skip(before) {
            entry.reason.clone_from(&self.reason);
        }
    }

    fn shown(&self) -> String {
        let tools = self.tools.join(", ");
        let server = self.server.as_deref().unwrap_or_default();
        let prefixes = self.prefixes.join(", ");
        let words = [server, &tools, &prefixes, self.effect.as_str()];
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        words.join(" ")
    }

    /// Why the rule cannot be said exactly, if it cannot.
    fn doubt(&self) -> Option<&str> {
        let regex = self.regex.then_some("it is a regular expression");
        regex.or(self.unchecked.as_deref())
    }

    /// A rule for one of ours, exact unless the whole is not.
    fn say(&self, reading: &mut PolicyReader, rule: &str, class: &str, spot: &RuleSource) {
        match self.doubt() {
            Some(why) => reading.add_inexact(self.effect, class, spot, why),
            None => reading.add_rule(self.effect, rule, self.rank, spot),
        }
    }

    fn prefix_rule(&self, reading: &mut PolicyReader, prefix: &str, spot: &RuleSource) {
        let plain = !prefix.is_empty() && prefix.split(' ').all(is_plain_word);
        if !plain {
            let why = "it cannot be translated exactly";
            return reading.add_inexact(self.effect, "Bash", spot, why);
        }
        self.say(reading, &format!("Bash({prefix}:*)"), "Bash", spot);
    }

    fn tool_rules(&self, reading: &mut PolicyReader, spot: &RuleSource) {
        // Our `Edit` covers both, so an allow must have named both.
        let edits = ["write_file", "replace"]
            .iter()
            .all(|tool| self.tools.iter().any(|name| name == tool));
        for tool in &self.tools {
            match tool.as_str() {
                SHELL => self.say(reading, "Bash", "Bash", spot),
                "web_fetch" => self.say(reading, "WebFetch", "WebFetch", spot),
                "*" => self.say(reading, ANY_TOOL, ANY_TOOL, spot),
                // Whoever may read any file may also know its name; but a deny of ours to read is
                // one to write too.
                "read_file" => {
                    let allow = self.effect == Effect::Allow;
                    self.class_rule(reading, "Read", allow, spot);
                }
                "write_file" | "replace" => self.class_rule(reading, "Edit", edits, spot),
                name => match name.strip_prefix("mcp_") {
                    Some(rest) => self.full_name(reading, rest, spot),
                    None => self.say(reading, name, name, spot),
                },
            }
        }
    }

    /// A tool that is one of several behind one of our words; `whole` says that the rule names
    /// all of them.
    fn class_rule(&self, reading: &mut PolicyReader, class: &str, whole: bool, spot: &RuleSource) {
        match self.doubt() {
            Some(why) => reading.add_inexact(self.effect, class, spot, why),
            None if whole => reading.add_rule(self.effect, class, self.rank, spot),
            None => reading.add_widened(self.effect, class, spot),
        }
    }

    fn server_rules(&self, reading: &mut PolicyReader, server: &str, spot: &RuleSource) {
        let whole = ["*".to_owned()];
        let tools = if self.tools.is_empty() {
            whole.as_slice()
        } else {
            self.tools.as_slice()
        };
        for tool in tools {
            self.server_rule(reading, server, tool, spot);
        }
    }

    fn server_rule(&self, reading: &mut PolicyReader, server: &str, tool: &str, spot: &RuleSource) {
        let named = is_plain_word(server) && !server.contains("__");
        let exact = named && (tool == "*" || is_plain_word(tool));
        let class = if named {
            format!("mcp__{server}__*")
        } else {
            "mcp__*".to_owned()
        };
        if !exact && self.effect == Effect::Allow {
            let why = "an allow must name its server";
            return reading.add_inexact(self.effect, &class, spot, why);
        }
        let (rule, own) = if exact {
            (
                format!("mcp__{server}__{tool}"),
                format!("mcp_{server}_{tool}"),
            )
        } else {
            (class.clone(), "mcp_*".to_owned())
        };
        self.say(reading, &rule, &class, spot);
        // Its own name for the same tool.
        if self.effect != Effect::Allow || tool != "*" {
            self.say(reading, &own, &own, spot);
        }
    }

    /// `mcp_server_tool`, which it splits at the first underscore.
    fn full_name(&self, reading: &mut PolicyReader, rest: &str, spot: &RuleSource) {
        match rest.split_once('_') {
            Some((server, tool)) => self.server_rule(reading, server, tool, spot),
            None => self.server_rule(reading, "*", "*", spot),
        }
    }
}

/// Its order of who overrules whom.
fn tier(scope: ForeignScope) -> i64 {
    match scope {
        ForeignScope::Project => 3,
        ForeignScope::User => 4,
        ForeignScope::Managed => 5,
    }
}

/// A text, or a list of them.
fn one_or_many(table: &mut TableReader<'_, '_>, key: &str) -> Vec<String> {
    let Some(value) = table.take(key) else {
        return Vec::new();
    };
    let texts: Option<Vec<&str>> = match value.get_ref() {
        DeValue::String(text) => Some(vec![text]),
        DeValue::Array(items) => items.iter().map(|item| item.get_ref().as_str()).collect(),
        _ => None,
    };
    if texts.is_none() {
        table.wrong(value, key, "a text or a list of texts");
    }
    let texts = texts.unwrap_or_default();
    texts.into_iter().map(str::to_owned).collect()
}
