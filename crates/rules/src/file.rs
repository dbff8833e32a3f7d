//! Rule files: `rules.toml`, read exactly.
//!
//! Invariants: a deny or an ask is never lost in silence, so whatever is misspelt or not understood
//! makes the whole file fail; an allow that is not understood is left out and said so. Every
//! problem carries its line.

mod anchor;
mod examples;
pub(crate) mod table;

use std::fmt;
use std::sync::Arc;

use countersign_core::event::Effect;
use countersign_core::limits::RULE_FILE_RULES_MAX;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::foreign::ForeignTool;
use crate::ruleset::{RuleArea, RuleEntry, RuleOrigin};
pub use anchor::anchor_rule;
use examples::RuleExamples;
use table::{LineIndex, TableReader};

/// Whose file it is: some settings belong to the user alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// The user's own.
    User,
    /// One that stands in a project.
    Project,
}

/// A rule file that was understood.
#[derive(Clone, Debug, Default)]
pub struct RuleFile {
    /// Its rules in the order of their lines.
    pub entries: Vec<RuleEntry>,
    /// Whose rules count beside ours.
    pub others: ForeignSwitches,
    /// Allows that were left out, and rules that likely do not say what was meant.
    pub warnings: Vec<FileProblem>,
}

/// The other tools whose rules are evaluated beside ours. None, unless the user's file says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "it is a list of switches that people set one by one"
)]
pub struct ForeignSwitches {
    /// Claude Code.
    pub claude: bool,
    /// opencode.
    pub opencode: bool,
    /// codex.
    pub codex: bool,
    /// Gemini CLI.
    pub gemini: bool,
    /// goose.
    pub goose: bool,
}

impl ForeignSwitches {
    /// Whether the rules of this tool count.
    pub fn has(self, tool: ForeignTool) -> bool {
        match tool {
            ForeignTool::Claude => self.claude,
            ForeignTool::Opencode => self.opencode,
            ForeignTool::Codex => self.codex,
            ForeignTool::Gemini => self.gemini,
            ForeignTool::Goose => self.goose,
        }
    }
}

/// Something about one line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileProblem {
    /// The line, from one; absent if it is about the whole file.
    pub line: Option<u32>,
    /// What it is.
    pub message: String,
}

/// Why a file was not taken: at least one problem, in the order of their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblems {
    /// The file.
    pub source: String,
    /// What is wrong with it.
    pub problems: Vec<FileProblem>,
}

impl fmt::Display for FileProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            match problem.line {
                Some(line) => write!(f, "{end}{}:{line}: {}", self.source, problem.message)?,
                None => write!(f, "{end}{}: {}", self.source, problem.message)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for FileProblems {}

/// Reads a rule file. `source` is how verdicts and problems name it.
pub fn parse_file(text: &str, source: &str, kind: FileKind) -> Result<RuleFile, FileProblems> {
    let mut reader = RuleFileReader {
        lines: LineIndex::of(text),
        source: source.into(),
        kind,
        file: RuleFile::default(),
        problems: Vec::new(),
        examples: 0,
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let line = error.span().map(|span| reader.lines.at(span.start));
        reader.problem(line, error.message().trim().to_owned());
    }
    // What was recovered from a text with errors may lack anything: it is not looked at.
    if errors.is_empty() {
        reader.document(document.get_ref());
    }
    reader.finish()
}

/// What collects while a file is read.
struct RuleFileReader {
    lines: LineIndex,
    source: Arc<str>,
    kind: FileKind,
    file: RuleFile,
    problems: Vec<FileProblem>,
    /// How many examples there were so far.
    examples: usize,
}

/// A rule as it stands in the file.
struct RuleDraft<'a> {
    effect: Effect,
    rule: &'a Spanned<DeValue<'a>>,
    agent: Option<Arc<str>>,
    reason: Option<Arc<str>>,
    examples: RuleExamples,
    area: RuleArea,
}

impl RuleFileReader {
    fn problem(&mut self, line: Option<u32>, message: String) {
        self.problems.push(FileProblem { line, message });
    }

    fn warn(&mut self, line: u32, message: String) {
        let line = Some(line);
        self.file.warnings.push(FileProblem { line, message });
    }

    fn document(&mut self, document: &DeTable<'_>) {
        for (key, value) in document {
            match key.get_ref().as_ref() {
                "allow" => self.list(Effect::Allow, RuleArea::Anywhere, value),
                "ask" => self.list(Effect::Ask, RuleArea::Anywhere, value),
                "deny" => self.list(Effect::Deny, RuleArea::Anywhere, value),
                "folder" => self.area(RuleArea::Folder, "folder", value),
                "worktree" => self.area(RuleArea::Worktree, "worktree", value),
                "sandbox" => self.area(RuleArea::Sandbox, "sandbox", value),
                "rule" => self.long_rules(value),
                "others" => self.others(value),
                other => {
                    let line = self.lines.at(key.span().start);
                    self.problem(Some(line), unknown_key(other, TOP_KEYS));
                }
            }
        }
    }

    /// `allow = ["…", "…"]`.
    fn list(&mut self, effect: Effect, area: RuleArea, value: &Spanned<DeValue<'_>>) {
        let Some(rules) = value.get_ref().as_array() else {
            let line = self.lines.at(value.span().start);
            let message = format!("`{}` must be a list of rules", effect.as_str());
            return self.problem(Some(line), message);
        };
        for rule in rules {
            self.rule(&RuleDraft {
                effect,
                rule,
                agent: None,
                reason: None,
                examples: RuleExamples::default(),
                area,
            });
        }
    }

    /// `[folder]`, `[worktree]` and `[sandbox]`: allows that count only there. Denies and asks count
    /// everywhere, so that they have no place in such a table.
    fn area(&mut self, area: RuleArea, name: &str, value: &Spanned<DeValue<'_>>) {
        let Some(mut table) = TableReader::of(value, &self.lines) else {
            let line = self.lines.at(value.span().start);
            return self.problem(Some(line), format!("`{name}` must be a table: `[{name}]`"));
        };
        let allow = table.take("allow");
        table.finish(AREA_KEYS);
        self.problems.extend(table.problems);
        if let Some(allow) = allow {
            self.list(Effect::Allow, area, allow);
        }
    }

    /// `[[rule]]`, any number of them.
    fn long_rules(&mut self, value: &Spanned<DeValue<'_>>) {
        let tables = match value.get_ref() {
            DeValue::Array(tables) => tables.iter().collect(),
            _ => vec![value],
        };
        for table in tables {
            self.long_rule(table);
        }
    }

    fn long_rule(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(mut table) = TableReader::of(value, &self.lines) else {
            let line = self.lines.at(value.span().start);
            return self.problem(Some(line), "`rule` must be a table: `[[rule]]`".into());
        };
        let stated: Vec<_> = [Effect::Allow, Effect::Ask, Effect::Deny]
            .into_iter()
            .filter_map(|effect| Some((effect, table.take(effect.as_str())?)))
            .collect();
        let agent = table.take_text("agent");
        let reason = table.take_text("reason");
        let examples = RuleExamples::read(&mut table);
        table.finish(RULE_KEYS);
        let TableReader { line, problems, .. } = table;
        self.problems.extend(problems);
        if agent.as_deref().is_some_and(|name| name.trim().is_empty()) {
            self.problem(Some(line), "`agent` is empty".into());
        }
        for (key, text) in [("agent", &agent), ("reason", &reason)] {
            if text
                .as_deref()
                .is_some_and(|text| text.len() > WORDS_BYTES_MAX)
            {
                let message = format!("`{key}` is longer than {WORDS_BYTES_MAX} bytes");
                self.problem(Some(line), message);
            }
        }
        // Two of them would leave open which one is meant.
        let &[(effect, rule)] = stated.as_slice() else {
            let message = "a rule needs one of `allow`, `ask` and `deny`";
            return self.problem(Some(line), message.into());
        };
        self.rule(&RuleDraft {
            effect,
            rule,
            agent,
            reason,
            examples,
            area: RuleArea::Anywhere,
        });
    }

    fn rule(&mut self, draft: &RuleDraft<'_>) {
        let line = self.lines.at(draft.rule.span().start);
        let Some(text) = draft.rule.get_ref().as_str() else {
            let message = format!(
                "a rule must be a string, not {}",
                table::kind(draft.rule.get_ref())
            );
            return self.problem(Some(line), message);
        };
        match self.entry(draft, text, line) {
            Ok(entry) => {
                for warning in entry.rule.warnings() {
                    self.warn(line, format!("`{text}`: {warning}"));
                }
                if is_several_commands(text) {
                    let why = "it never matches, because commands are judged one by one";
                    self.warn(line, format!("`{text}`: {why}"));
                }
                self.file.entries.push(entry);
            }
            // Without an allow more is asked. Without a deny something else may allow what it names,
            // so that a deny which cannot be read breaks the whole file.
            Err(why) if draft.effect == Effect::Allow => {
                self.warn(line, format!("`{text}` does not count: {why}"));
            }
            Err(why) => self.problem(Some(line), format!("`{text}`: {why}")),
        }
    }

    fn entry(&mut self, draft: &RuleDraft<'_>, text: &str, line: u32) -> Result<RuleEntry, String> {
        self.examples += draft.examples.len();
        if self.examples > FILE_EXAMPLES_MAX {
            return Err(format!("a file has at most {FILE_EXAMPLES_MAX} examples"));
        }
        let origin = RuleOrigin::file(Arc::clone(&self.source), line);
        let mut entry =
            RuleEntry::parse(draft.effect, text, origin).map_err(|error| error.to_string())?;
        entry.agent.clone_from(&draft.agent);
        entry.reason.clone_from(&draft.reason);
        entry.area = draft.area;
        if entry.area == RuleArea::Sandbox && !entry.rule.pattern.is_about_commands() {
            return Err("[sandbox] is for rules about commands: Bash, Read and Edit".to_owned());
        }
        draft.examples.check(&entry)?;
        Ok(entry)
    }

    /// `[others]`: whose rules count beside ours. A repository does not choose that.
    fn others(&mut self, value: &Spanned<DeValue<'_>>) {
        let line = self.lines.at(value.span().start);
        if self.kind == FileKind::Project {
            return self.problem(
                Some(line),
                "`others` belongs into the user's own file".into(),
            );
        }
        let Some(mut table) = TableReader::of(value, &self.lines) else {
            return self.problem(Some(line), "`others` must be a table".into());
        };
        self.file.others = ForeignSwitches {
            claude: table.take_switch("claude"),
            opencode: table.take_switch("opencode"),
            codex: table.take_switch("codex"),
            gemini: table.take_switch("gemini"),
            goose: table.take_switch("goose"),
        };
        table.finish(OTHER_KEYS);
        self.problems.extend(table.problems);
    }

    fn finish(mut self) -> Result<RuleFile, FileProblems> {
        if self.file.entries.len() > RULE_FILE_RULES_MAX {
            let message = format!("more than {RULE_FILE_RULES_MAX} rules");
            self.problem(None, message);
        }
        if !self.problems.is_empty() {
            self.problems.sort();
            return Err(FileProblems {
                source: self.source.to_string(),
                problems: self.problems,
            });
        }
        self.file.entries.sort_by_key(|entry| entry.origin.line);
        self.file.warnings.sort();
        Ok(self.file)
    }
}

/// Examples of all rules of a file, each of which costs a verdict when it is read.
const FILE_EXAMPLES_MAX: usize = 1_000;

/// A rule's reason stands beside every part of a command that it decides about.
const WORDS_BYTES_MAX: usize = 1_024;

const TOP_KEYS: &[&str] = &[
    "allow", "ask", "deny", "rule", "folder", "worktree", "sandbox", "others",
];
const AREA_KEYS: &[&str] = &["allow"];
const RULE_KEYS: &[&str] = &["allow", "ask", "deny", "reason", "agent", "examples"];
const OTHER_KEYS: &[&str] = &["claude", "opencode", "codex", "gemini", "goose"];

/// Whether a rule for commands has a whole command line in it.
fn is_several_commands(rule: &str) -> bool {
    let spec = rule.trim().strip_prefix("Bash(");
    spec.is_some_and(|spec| {
        ["&&", "||", ";", " | "]
            .iter()
            .any(|joint| spec.contains(joint))
    })
}

/// Says that a key is not known, and which are.
fn unknown_key(key: &str, known: &[&str]) -> String {
    format!("unknown key `{key}`; known are {}", known.join(", "))
}

#[cfg(test)]
mod tests;
