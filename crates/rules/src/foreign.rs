//! The rules of other tools: read from their files as they are, never wider on the way.
//!
//! Invariants: an allow that cannot be said exactly, or narrower, is left out; a deny or an ask that
//! cannot be said exactly holds for more, or becomes an ask for the whole tool, in a layer of its
//! own so that it outranks nothing; what cannot be said at all breaks the policy, and then nothing is allowed
//! where it counts. All of it is reported.

mod claude;
mod codex;
mod gemini;
mod goose;
mod import;
mod json;
mod opencode;
mod starlark;

use std::sync::Arc;

use countersign_core::event::Effect;
use countersign_core::limits::RULE_FILE_RULES_MAX;

use crate::ruleset::{RuleEntry, RuleOrigin};

pub use import::{ImportedRules, import};

/// A tool whose rules we read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ForeignTool {
    /// Claude Code: `settings.json`.
    Claude,
    /// opencode: `opencode.json`.
    Opencode,
    /// codex: `*.rules`.
    Codex,
    /// Gemini CLI: `policies/*.toml`.
    Gemini,
    /// goose: `permission.yaml`.
    Goose,
}

impl ForeignTool {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Claude,
        Self::Opencode,
        Self::Codex,
        Self::Gemini,
        Self::Goose,
    ];

    /// Its name, as the user's file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Opencode => "opencode",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Goose => "goose",
        }
    }
}

/// Who a foreign file belongs to. The order is by how far it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ForeignScope {
    /// One that stands in a project.
    Project,
    /// The user's own.
    User,
    /// An administrator's.
    Managed,
}

/// The text of a foreign file.
#[derive(Clone, Copy, Debug)]
pub struct ForeignFile<'a> {
    /// How verdicts name it.
    pub source: &'a str,
    /// Whose it is.
    pub scope: ForeignScope,
    /// What stands in it.
    pub text: &'a str,
}

/// What the files of one tool say together.
#[derive(Clone, Debug)]
pub struct ForeignPolicy {
    /// The tool.
    pub tool: &'static str,
    /// Its rules, ranked by its own precedence.
    pub entries: Vec<RuleEntry>,
    /// What stands for denies and asks that could not be said exactly. It is a layer of its own.
    pub widened: Vec<RuleEntry>,
    /// What was not carried over as it stands.
    pub dropped: Vec<DroppedRule>,
    /// Why nothing may be allowed where it counts.
    pub broken: Option<String>,
}

/// Something that was not carried over as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedRule {
    /// The file.
    pub source: Arc<str>,
    /// The line in it.
    pub line: Option<u32>,
    /// What stands there.
    pub text: String,
    /// What became of it, and why.
    pub reason: String,
    /// Whether it was a deny or an ask.
    pub strict: bool,
}

/// Reads the files of one tool that count together in one place.
pub fn read_foreign(tool: ForeignTool, files: &[ForeignFile<'_>]) -> ForeignPolicy {
    let mut reading = PolicyReader::new(tool);
    match tool {
        ForeignTool::Claude => claude::read(&mut reading, files),
        ForeignTool::Opencode => opencode::read(&mut reading, files),
        ForeignTool::Codex => codex::read(&mut reading, files),
        ForeignTool::Gemini => gemini::read(&mut reading, files),
        ForeignTool::Goose => goose::read(&mut reading, files),
    }
    reading.policy
}

/// Every tool, as a rule.
const ANY_TOOL: &str = "*";

/// A place in a foreign file, with what stands there.
#[derive(Clone, Debug)]
struct RuleSource {
    source: Arc<str>,
    line: u32,
    text: String,
}

/// A policy while it is read.
struct PolicyReader {
    policy: ForeignPolicy,
}

impl PolicyReader {
    fn new(tool: ForeignTool) -> Self {
        Self {
            policy: ForeignPolicy {
                tool: tool.as_str(),
                entries: Vec::new(),
                widened: Vec::new(),
                dropped: Vec::new(),
                broken: None,
            },
        }
    }

    /// A rule that says what the foreign one says, or less if it is an allow.
    fn add_rule(&mut self, effect: Effect, rule: &str, rank: i64, spot: &RuleSource) {
        if self.policy.entries.len() >= RULE_FILE_RULES_MAX {
            // A rule beyond the limit may be a deny.
            let why = format!("there are more than {RULE_FILE_RULES_MAX} rules");
            return self.set_broken(&spot.source, Some(spot.line), &why);
        }
        let origin = RuleOrigin::file(Arc::clone(&spot.source), spot.line);
        match RuleEntry::parse(effect, rule, origin) {
            Ok(entry) => self.policy.entries.push(RuleEntry { rank, ..entry }),
            Err(error) => {
                let tool = rule.split('(').next().unwrap_or(rule).trim();
                self.add_inexact(effect, tool, spot, &error.to_string());
            }
        }
    }

    /// A rule that cannot be said as it stands.
    fn add_inexact(&mut self, effect: Effect, tool: &str, spot: &RuleSource, why: &str) {
        if effect == Effect::Allow {
            // Without the allow a person is asked, which is safe.
            return self.add_dropped(spot, Effect::Allow, format!("left out: {why}"));
        }
        let origin = RuleOrigin::file(Arc::clone(&spot.source), spot.line);
        // An ask even for a deny: it is wider than what was written, and a person can tell the
        // cases apart.
        match RuleEntry::parse(Effect::Ask, tool, origin) {
            Ok(entry) => {
                self.policy.widened.push(entry);
                self.add_dropped(spot, effect, format!("asks for all of `{tool}`: {why}"));
            }
            Err(_) => self.set_broken(
                &spot.source,
                Some(spot.line),
                &format!("`{}`: {why}", spot.text),
            ),
        }
    }

    /// A deny or an ask for one of several tools behind one of our words: it holds for all of them.
    fn add_widened(&mut self, effect: Effect, tool: &str, spot: &RuleSource) {
        if effect == Effect::Allow {
            return self.add_inexact(effect, tool, spot, "our word for it covers more");
        }
        let origin = RuleOrigin::file(Arc::clone(&spot.source), spot.line);
        match RuleEntry::parse(effect, tool, origin) {
            Ok(entry) => {
                self.policy.widened.push(entry);
                self.add_dropped(spot, effect, format!("holds for all of `{tool}`"));
            }
            Err(error) => self.set_broken(&spot.source, Some(spot.line), &error.to_string()),
        }
    }

    /// Something that is not carried over.
    fn add_dropped(&mut self, spot: &RuleSource, effect: Effect, reason: String) {
        let dropped = DroppedRule {
            source: Arc::clone(&spot.source),
            line: Some(spot.line),
            text: spot.text.clone(),
            reason,
            strict: effect != Effect::Allow,
        };
        // One rule of theirs can stand for several of ours.
        if self.policy.dropped.last() != Some(&dropped) {
            self.policy.dropped.push(dropped);
        }
    }

    /// The file was not understood, so that a deny may be missing. The first reason is kept.
    fn set_broken(&mut self, source: &str, line: Option<u32>, why: &str) {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        let reason = format!("{source}{line}: {why}");
        self.policy.broken.get_or_insert(reason);
    }
}

/// What a word means in the files of most tools.
fn parse_effect(word: &str) -> Option<Effect> {
    match word {
        "allow" => Some(Effect::Allow),
        "ask" => Some(Effect::Ask),
        "deny" => Some(Effect::Deny),
        _ => None,
    }
}

/// Whether a word of a command stands for itself in a rule, and is one word.
fn is_plain_word(word: &str) -> bool {
    !word.is_empty()
        && !word.contains(|c: char| {
            c.is_whitespace() || c.is_control() || "*?()[]{}\"'\\`$:;|&<>~#!".contains(c)
        })
}

#[cfg(test)]
mod tests;
