//! One simple command, seen twice: as little as an allow may assume, and as much as a deny must.

use super::hazards::{self, ArgumentHazard};
use super::programs::{
    TRANSPARENT, changes_the_shell, has_no_options_that_matter, is_safe_variable, is_shell,
    launcher_words, runner, unpacks,
};
use super::reach::{DenyForm, PathArgument, ReachBudget, base};
use super::script::ScriptCommand;
use super::tree_sitter_script::known_only_when_run;
use super::word::{ShellWord, expansions};

/// The words of a command as an allow may match them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllowForm {
    pub(crate) words: Vec<String>,
    /// How many words a rule with a wildcard must name; without a number none will do.
    pub(crate) named: Option<usize>,
}

/// What is known of one simple command.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandFacts {
    pub(crate) allow: Vec<AllowForm>,
    pub(crate) deny: Vec<DenyForm>,
    pub(crate) doubt: Option<String>,
    /// A dangerous argument, which only a rule for exactly this command covers.
    pub(crate) hazard: Option<ArgumentHazard>,
    /// Words that may be paths.
    pub(crate) touched: Vec<PathArgument>,
    /// Whether it puts files in place that somebody else named: an archive, a branch.
    pub(crate) unpacks: bool,
    /// The change of directory it is, if it is one.
    pub(crate) directory_change: Option<DirectoryChange>,
    /// The program that would run, wrappers taken off.
    pub(crate) program: String,
    /// The command exactly as it is written.
    pub(crate) source: String,
}

/// A change of directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryChange {
    To(String),
    Somewhere,
}

/// Looks at a simple command of `text`.
pub(crate) fn examine(simple: &ScriptCommand, text: &str, reach: &mut ReachBudget) -> CommandFacts {
    let mut facts = CommandFacts {
        doubt: doubt_of_words(simple, text),
        source: super::written(text, &simple.span).to_owned(),
        ..CommandFacts::default()
    };
    let words: Vec<String> = simple.words.iter().map(|word| word.text.clone()).collect();
    // Of the whole command, wrappers included: a deny of `timeout` and one of what it runs both
    // hold.
    (facts.deny, facts.touched) = reach.find_commands(simple);
    let (inner, start) = strip_wrappers(&words, &mut facts);
    facts.program = inner.first().cloned().unwrap_or_default();
    facts.unpacks = facts
        .deny
        .iter()
        .any(|form| unpacks(form.base(), form.rest()));
    judge_program(
        &inner,
        &simple.words[start.min(simple.words.len())..],
        &mut facts,
    );
    // `command` and `time` run a builtin in the shell itself.
    let runs_in_shell = words[..start]
        .iter()
        .all(|word| matches!(word.as_str(), "command" | "time" | "--" | "-p"));
    if facts.directory_change.is_some() && !runs_in_shell {
        // Other wrappers run `cd` as a program of its own, which cannot move the shell.
        facts.directory_change = Some(DirectoryChange::Somewhere);
    }
    facts.allow = allow_forms(&words, &inner, start);
    facts
}

fn doubt_of_words(simple: &ScriptCommand, text: &str) -> Option<String> {
    if simple.words.is_empty() {
        return Some("it sets variables or opens files without a command".to_owned());
    }
    if let Some(assign) = simple
        .assigns
        .iter()
        .find(|assign| !is_safe_assignment(&assign.name, assign.value.literal()))
    {
        return Some(format!("it sets the variable {}", assign.name));
    }
    let spans = simple.words.iter().zip(&simple.word_spans);
    let mut expanded: Vec<String> = Vec::new();
    for (_, span) in spans.filter(|(word, _)| word.dynamic) {
        for name in expansions(text.get(span.clone()).unwrap_or_default()) {
            if !expanded.contains(&name) {
                expanded.push(name);
            }
        }
    }
    if !expanded.is_empty() {
        return Some(known_only_when_run(&expanded));
    }
    let name = &simple.words[0];
    if name.glob || name.tilde {
        return Some("the program's name is expanded only when it runs".to_owned());
    }
    None
}

/// A time zone that is a path is a file that is read.
fn is_safe_assignment(name: &str, value: Option<&str>) -> bool {
    is_safe_variable(name)
        && value.is_some_and(|value| !value.starts_with([':', '/']) && !value.contains(".."))
}

/// Takes transparent wrappers off. Gives the words that are left and where they begin.
fn strip_wrappers(words: &[String], facts: &mut CommandFacts) -> (Vec<String>, usize) {
    let mut start = 0;
    loop {
        let rest = &words[start..];
        let Some(name) = rest
            .first()
            .filter(|name| TRANSPARENT.contains(&name.as_str()))
        else {
            return (rest.to_vec(), start);
        };
        match find_inner(name, &rest[1..]) {
            // Again from there: a wrapper may run another one.
            InnerCommand::At(offset) if start + 1 + offset < words.len() => start += 1 + offset,
            InnerCommand::Plain => return (rest.to_vec(), start),
            InnerCommand::At(_) | InnerCommand::Unclear => {
                facts
                    .doubt
                    .get_or_insert(format!("what `{name}` runs is not clear"));
                return (rest.to_vec(), start);
            }
        }
    }
}

enum InnerCommand {
    /// The program begins so many words later.
    At(usize),
    /// It runs nothing.
    Plain,
    Unclear,
}

fn find_inner(name: &str, rest: &[String]) -> InnerCommand {
    let first = rest.first().map_or("", String::as_str);
    match name {
        "nohup" | "command" | "time" if first == "--" => InnerCommand::At(1),
        "command" if first.starts_with('-') => {
            if matches!(first, "-v" | "-V") {
                InnerCommand::Plain
            } else {
                InnerCommand::Unclear
            }
        }
        "time" if first == "-p" => InnerCommand::At(1),
        "nohup" | "command" | "time" => {
            if first.starts_with('-') {
                InnerCommand::Unclear
            } else {
                InnerCommand::At(0)
            }
        }
        "nice" => skip_options(rest, &["-n", "--adjustment"], 0),
        "stdbuf" => skip_options(
            rest,
            &["-i", "-o", "-e", "--input", "--output", "--error"],
            0,
        ),
        _ => skip_options(rest, &["-s", "--signal", "-k", "--kill-after"], 1),
    }
}

/// Skips options that are known and `plain` words after them.
fn skip_options(rest: &[String], valued: &[&str], plain: usize) -> InnerCommand {
    let mut at = 0;
    while let Some(word) = rest.get(at).filter(|word| word.starts_with('-')) {
        let has_attached_value = valued.iter().any(|own| {
            word.strip_prefix(own).is_some_and(|value| {
                value.starts_with('=') || (own.len() == 2 && !value.is_empty())
            })
        });
        let number = word[1..].chars().all(|c| c.is_ascii_digit()) && word.len() > 1;
        let flag = matches!(
            word.as_str(),
            "--foreground" | "--preserve-status" | "--verbose" | "-v" | "-f" | "-p"
        );
        // An option that is not listed may take the next word as its value, and then the program
        // would be another word than the one that is judged.
        if valued.contains(&word.as_str()) {
            at += 2;
        } else if has_attached_value || (number && plain == 0) || (flag && plain == 1) {
            at += 1;
        } else {
            return InnerCommand::Unclear;
        }
    }
    let is_duration = rest
        .get(at)
        .is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    if plain == 1 && !is_duration {
        return InnerCommand::Unclear;
    }
    InnerCommand::At(at + plain)
}

/// What about the program itself cannot be allowed by a rule.
fn judge_program(words: &[String], sources: &[ShellWord], facts: &mut CommandFacts) {
    let Some(name) = words.first() else { return };
    if name == "cd" || name == "pushd" {
        facts.directory_change = Some(destination(words, sources));
    }
    // The doubt is told, and a person decides by it; a hazard beside it would add nothing.
    if facts.doubt.is_some() {
        return;
    }
    facts.hazard = hazards::find(words, sources);
    facts.doubt = if changes_the_shell(name) {
        Some(format!("`{name}` changes the shell or runs text"))
    } else {
        stray_wildcard(name, sources)
    };
}

/// A wildcard at the beginning of a word can turn into an option.
fn stray_wildcard(name: &str, sources: &[ShellWord]) -> Option<String> {
    if has_no_options_that_matter(name) {
        return None;
    }
    let word = sources
        .iter()
        .find(|word| word.glob && word.text.starts_with(['*', '?', '[']))?;
    Some(format!("`{}` may become an option of `{name}`", word.text))
}

/// Where `cd` goes.
fn destination(words: &[String], sources: &[ShellWord]) -> DirectoryChange {
    let mut at = 1;
    while matches!(words.get(at).map(String::as_str), Some("--" | "-L" | "-P")) {
        at += 1;
    }
    let is_literal = sources.get(at).is_some_and(|word| word.literal().is_some());
    match words.get(at) {
        // Without a word `pushd` goes back to where it was before.
        None if words.first().is_some_and(|name| name == "pushd") => DirectoryChange::Somewhere,
        None => DirectoryChange::To("~".to_owned()),
        // `cd -` and `pushd +1` go to a directory of before, which is not known here.
        Some(path) if is_literal && !path.starts_with(['-', '+']) && at + 1 == words.len() => {
            let quoted_tilde = path.starts_with('~') && !sources[at].tilde;
            DirectoryChange::To(if quoted_tilde {
                format!("./{path}")
            } else {
                path.clone()
            })
        }
        Some(_) => DirectoryChange::Somewhere,
    }
}

fn allow_forms(words: &[String], inner: &[String], start: usize) -> Vec<AllowForm> {
    let mut forms = vec![allow_form(inner)];
    if start > 0 {
        // A rule may also name the wrapper, if it names what is wrapped as well.
        let named = allow_form(inner).named.map(|named| named.max(1) + start);
        forms.push(AllowForm {
            words: words.to_vec(),
            named,
        });
    }
    forms
}

fn allow_form(words: &[String]) -> AllowForm {
    let name = words.first().map_or("", String::as_str);
    // A wrapper is looked through by its bare name alone.
    let is_wrapper_by_path = name.contains('/') && TRANSPARENT.contains(&base(name));
    // Shells and runners run text or programs that the other words name: a wildcard would cover
    // anything, so only a rule for exactly these words may.
    let named = if is_shell(base(name)) || runner(base(name)).is_some() || is_wrapper_by_path {
        None
    } else if let Some(own) = launcher_words(words) {
        // `npx TOOL`: a rule must name the tool too, or it would cover every tool.
        let inner = words[own..].iter().position(|word| !word.starts_with('-'));
        Some(own + inner.unwrap_or(words.len()) + 1)
    } else {
        Some(0)
    };
    AllowForm {
        words: words.to_vec(),
        named,
    }
}
