//! Shell commands, taken apart: what would run, where, and what it would touch.
//!
//! The raw text is looked at first, then one parser's tree, then another's; where they differ, or
//! something is left that only running would settle, there is doubt, and doubt asks.

mod arguments;
mod awk;
mod brush_script;
mod command;
mod git;
mod git_reading;
mod hazards;
mod lint;
mod program_table;
mod programs;
mod reach;
mod script;
mod sed;
mod tree_sitter_script;
mod word;

use std::ops::Range;

pub(crate) use arguments::FolderWalk;
use command::DirectoryChange;
pub(crate) use command::{AllowForm, CommandFacts};
pub(crate) use git_reading::doubt as doubt_of_git_reading;
pub(crate) use hazards::{ArgumentHazard, HazardKind};
pub(crate) use lint::is_invisible;
pub(crate) use programs::{FileUse, is_interpreter, is_wrapper};
pub(crate) use reach::{DenyForm, PathArgument};
pub(crate) use script::RedirectKind;
pub(crate) use tree_sitter_script::known_only_when_run;
pub(crate) use word::{ShellWord, expansions, plain_words};

use reach::ReachBudget;
use script::{ParsedScript, ScriptItem, ScriptRedirect};

/// Directories a command may run in; more possibilities than this are as good as none.
const DIRECTORIES_MAX: usize = 8;
/// More commands than this are never allowed by rule.
const COMMANDS_MAX: usize = 200;
/// Commands and redirections that are told apart.
const STEPS_MAX: usize = 400;

/// A shell command taken apart.
#[derive(Debug, Default)]
pub(crate) struct ShellAnalysis {
    pub(crate) steps: Vec<ShellStep>,
    /// Why the whole cannot be allowed, if it cannot.
    pub(crate) doubt: Option<String>,
    /// What is beyond the steps that are told apart.
    rest: CommandFacts,
}

/// One thing it would do, and the directories in which it may happen.
#[derive(Debug)]
pub(crate) struct ShellStep {
    pub(crate) what: StepKind,
    /// Absent where it is not known.
    pub(crate) directories: Option<Vec<String>>,
}

impl ShellStep {
    pub(crate) fn changes_directory(&self) -> bool {
        matches!(&self.what, StepKind::Run(facts) if facts.directory_change.is_some())
    }
}

#[derive(Debug)]
pub(crate) enum StepKind {
    Run(CommandFacts),
    Redirect(RedirectStep),
}

/// A file that is opened.
#[derive(Debug)]
pub(crate) struct RedirectStep {
    pub(crate) kind: RedirectKind,
    pub(crate) target: ShellWord,
    /// The file exactly as it is written.
    pub(crate) source: String,
}

impl RedirectStep {
    fn new(redirect: &ScriptRedirect, text: &str) -> Self {
        Self {
            kind: redirect.kind,
            target: redirect.target.clone(),
            source: written(text, &redirect.span).to_owned(),
        }
    }
}

/// A piece of a text as it is written. One that the parser only assumes, as behind a last `||`, is
/// shown as the whole text.
fn written<'t>(text: &'t str, span: &Range<usize>) -> &'t str {
    let own = text.get(span.clone()).unwrap_or_default();
    if own.trim().is_empty() { text } else { own }
}

/// Takes `text` apart, run in one of the directories of `start`. `go` says where a change of
/// directory leads.
pub(crate) fn analyze(
    text: &str,
    start: &[String],
    go: &dyn Fn(&str, &str) -> Option<Vec<String>>,
) -> ShellAnalysis {
    let lint = lint::doubt(text);
    let script = if text.len() > lint::COMMAND_BYTES_MAX {
        // A parser's way back from errors can take quadratic time.
        ParsedScript::cut()
    } else {
        tree_sitter_script::read(text)
    };
    // The second parser is asked only about text without doubt: it is slow, or worse, on what the
    // checks before it refuse.
    let mut doubt = lint.map(str::to_owned).or_else(|| script.doubt.clone());
    if doubt.is_none() {
        doubt = compare_with_second_parser(text, &script);
    }
    if doubt.is_none() && script.simples().next().is_none() {
        doubt = Some("there is no command in it".to_owned());
    }
    if doubt.is_none() && script.simples().count() > COMMANDS_MAX {
        doubt = Some("there are too many commands in it".to_owned());
    }
    let mut taken = ShellAnalysis {
        steps: Vec::new(),
        doubt,
        rest: CommandFacts::default(),
    };
    let mut reach = ReachBudget::new(text.len());
    // What a parser did not read to the end may hold a command that a deny names.
    reach.is_exhausted = script.is_cut;
    // After `! cd x &&` it is where it was. Any word that begins so counts, also one that is no
    // negation: the mistake only makes a directory less certain.
    let negates = text.split_whitespace().any(|word| word.starts_with('!'));
    let walk = ScriptFollower {
        script: &script,
        text,
        go,
        negates,
    };
    walk.follow(start, &mut reach, &mut taken);
    // Where there is no doubt there is no substitution; the parser would have doubted it.
    if taken.doubt.is_some() && !reach.is_exhausted {
        analyze_substitutions(text, &mut reach, &mut taken);
    }
    taken.push_rest(text);
    if reach.is_exhausted {
        taken.push_every_word(text);
    }
    taken
}

/// Why the first parser's reading cannot be relied on, by what the second one reads.
fn compare_with_second_parser(text: &str, script: &ParsedScript) -> Option<String> {
    let second = brush_script::read(text);
    // Parsers that were written apart seldom err in the same way: where they differ, one of them
    // has missed something that would run.
    if !script.agrees_with(&second) {
        return Some("two readings of the command differ".to_owned());
    }
    // Equal words prove nothing about what the second parser could not read: it leaves that out.
    second.doubt
}

impl ShellAnalysis {
    /// Beyond what is shown one by one, the rest is one thing: a deny still sees all of it.
    fn push(&mut self, step: ShellStep) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
            return;
        }
        match step.what {
            StepKind::Run(facts) => {
                self.rest.deny.extend(facts.deny);
                self.rest.touched.extend(facts.touched);
            }
            StepKind::Redirect(step) => {
                let path = reach::redirect_path(step.kind, &step.target);
                self.rest.touched.push(path);
            }
        }
    }

    fn push_rest(&mut self, text: &str) {
        if self.rest.deny.is_empty() && self.rest.touched.is_empty() {
            return;
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.doubt = Some("there are too many commands in it".to_owned());
        text.clone_into(&mut rest.source);
        self.doubt.clone_from(&rest.doubt);
        self.steps.push(ShellStep {
            what: StepKind::Run(rest),
            directories: None,
        });
    }

    /// A limit was reached: whatever may be a program is one to a deny.
    fn push_every_word(&mut self, text: &str) {
        let reason = "it is too much to be read to the end".to_owned();
        self.doubt.get_or_insert_with(|| reason.clone());
        self.steps.push(ShellStep {
            what: StepKind::Run(CommandFacts {
                deny: reach::every_word(text),
                doubt: Some(reason),
                source: text.to_owned(),
                ..CommandFacts::default()
            }),
            directories: None,
        });
    }
}

/// Follows a script in order, keeping track of where it is.
struct ScriptFollower<'s> {
    script: &'s ParsedScript,
    /// What it was read from.
    text: &'s str,
    go: &'s dyn Fn(&str, &str) -> Option<Vec<String>>,
    negates: bool,
}

impl ScriptFollower<'_> {
    fn follow(&self, start: &[String], reach: &mut ReachBudget, taken: &mut ShellAnalysis) {
        let mut here = WorkingDirectories::new(start);
        let mut outer = Vec::new();
        for (at, item) in self.script.items.iter().enumerate() {
            match item {
                ScriptItem::Simple(simple) => {
                    let facts = command::examine(simple, self.text, reach);
                    // Bash opens the files before it runs the command, so a `cd` does not move them.
                    for redirect in &simple.redirects {
                        taken.push(ShellStep {
                            what: StepKind::Redirect(RedirectStep::new(redirect, self.text)),
                            directories: here.now.clone(),
                        });
                    }
                    let moves = facts.directory_change.clone();
                    taken.push(ShellStep {
                        what: StepKind::Run(facts),
                        directories: here.now.clone(),
                    });
                    if let Some(to) = moves {
                        here.go(&to, is_certain(self.script, at) && !self.negates, self.go);
                    }
                }
                // A group's file is opened before the group runs, and is met here after it: the
                // directory from before is still among those that are possible.
                ScriptItem::Redirect(redirect) => taken.push(ShellStep {
                    what: StepKind::Redirect(RedirectStep::new(redirect, self.text)),
                    directories: here.either(),
                }),
                ScriptItem::And => {}
                // Only `&&` proves that the `cd` before it worked.
                ScriptItem::Or | ScriptItem::Next | ScriptItem::Pipe => here.end_chain(),
                // A `cd` inside a subshell does not outlive it.
                ScriptItem::Open => outer.push(here.clone()),
                ScriptItem::Close => {
                    if let Some(before) = outer.pop() {
                        here = before;
                    }
                }
            }
        }
    }
}

/// Whether what follows a command runs only if it worked: joined by `&&`, and not in a pipe.
fn is_certain(script: &ParsedScript, at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| script.items.get(at));
    before != Some(&ScriptItem::Pipe) && script.items.get(at + 1) == Some(&ScriptItem::And)
}

/// Where a script may be at one point.
#[derive(Clone)]
struct WorkingDirectories {
    now: Option<Vec<String>>,
    /// Where it may be as well, once a chain of `&&` has ended.
    otherwise: Option<Vec<String>>,
}

impl WorkingDirectories {
    fn new(start: &[String]) -> Self {
        let now = (!start.is_empty()).then(|| start.to_vec());
        Self {
            otherwise: now.clone(),
            now,
        }
    }

    fn go(
        &mut self,
        to: &DirectoryChange,
        certain: bool,
        go: &dyn Fn(&str, &str) -> Option<Vec<String>>,
    ) {
        let from = self.now.take();
        let arrived = from.as_ref().and_then(|from| {
            let DirectoryChange::To(to) = to else {
                return None;
            };
            let mut arrived = Vec::new();
            for from in from {
                // One directory from which the way is not known makes the whole unknown.
                arrived.extend(go(to, from)?);
            }
            Some(arrived)
        });
        // The `cd` may fail; what comes after the chain of `&&` then runs where it was before.
        self.otherwise = join(self.otherwise.take(), from.clone());
        self.now = if certain {
            arrived
        } else {
            join(from, arrived)
        };
    }

    fn either(&self) -> Option<Vec<String>> {
        join(self.now.clone(), self.otherwise.clone())
    }

    fn end_chain(&mut self) {
        self.now = self.either();
        self.otherwise.clone_from(&self.now);
    }
}

fn join(left: Option<Vec<String>>, right: Option<Vec<String>>) -> Option<Vec<String>> {
    // One side that is not known makes the whole unknown: it may be anywhere.
    let (mut left, right) = (left?, right?);
    for directory in right {
        if !left.contains(&directory) {
            left.push(directory);
        }
    }
    (left.len() <= DIRECTORIES_MAX).then_some(left)
}

/// Where there is doubt, whatever looks like a substitution is read on its own, quoted or not,
/// and lines are joined as bash would: more than may run, so that no deny is missed.
fn analyze_substitutions(text: &str, reach: &mut ReachBudget, taken: &mut ShellAnalysis) {
    let joined = text.replace("\\\n", "");
    let whole = (joined.len() != text.len()).then_some(joined.as_str());
    let inner = ["$(", "<(", ">("]
        .into_iter()
        .flat_map(|opening| joined.match_indices(opening))
        .map(|(at, _)| up_to_closing(&joined[at + 2..]));
    // Every piece behind a backquote: which of them open and which close is not
    // known without the quotes.
    let ticks = joined.split('`').skip(1);
    for text in whole.into_iter().chain(inner).chain(ticks) {
        if !reach.spend(text) {
            return;
        }
        for simple in tree_sitter_script::read(text).simples() {
            let mut facts = command::examine(simple, text, reach);
            facts
                .doubt
                .get_or_insert("it may run inside another".to_owned());
            taken.push(ShellStep {
                what: StepKind::Run(facts),
                directories: None,
            });
        }
    }
}

/// The text up to the parenthesis that closes it, quotes or not.
fn up_to_closing(text: &str) -> &str {
    let mut depth = 1usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

/// Whether a program only reads what it is given, so that it may run in a directory outside the
/// project: the settings and scripts of that directory mean nothing to it.
pub(crate) fn only_reads(facts: &CommandFacts) -> bool {
    programs::ignores_its_directory(&facts.program)
        && facts.hazard.is_none()
        && facts
            .touched
            .iter()
            .all(|argument| matches!(argument.touches, FileUse::Reads | FileUse::Lists))
}

/// Whether a program names files by the index of its repository, and so follows no link of a work
/// tree.
pub(crate) fn stays_in_index(facts: &CommandFacts) -> bool {
    let words = facts.allow.first().map_or(&[][..], |form| &form.words);
    // Git takes every unambiguous beginning of an option, and `--no-i` is one of `--no-index`.
    facts.program == "git" && !words.iter().any(|word| word.starts_with("--no-i"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_parsers_doubt_counts_although_the_words_agree() {
        let text = "time { ls; }";
        let script = ParsedScript {
            doubt: None,
            ..brush_script::read(text)
        };
        let doubt = compare_with_second_parser(text, &script);
        assert_eq!(doubt.as_deref(), Some("the time of a group is taken"));
    }
}
