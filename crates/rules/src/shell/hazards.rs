//! Dangerous arguments: what makes an allowed program run or write something else.
//!
//! The table errs towards asking: options are found wherever they stand, abbreviated or bundled.

use super::arguments::read_arguments;
use super::programs::launcher_words;
use super::reach::base;
use super::word::ShellWord;
use super::{awk, sed};

/// Arguments because of which a rule with a wildcard does not cover a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentHazard {
    /// One that is dangerous, or all of those that are not known.
    pub(crate) arguments: Vec<String>,
    pub(crate) kind: HazardKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HazardKind {
    /// It makes the program run or write something else: only a rule for exactly this covers it.
    Dangerous,
    /// Nothing says what the program is to do, so its input or a person does.
    Undirected,
    /// What it means is not known: a rule must name it, or mean every command.
    Unknown,
}

impl ArgumentHazard {
    pub(crate) fn dangerous(argument: &str) -> Self {
        Self {
            arguments: vec![argument.to_owned()],
            kind: HazardKind::Dangerous,
        }
    }

    pub(crate) fn undirected() -> Self {
        Self {
            arguments: Vec::new(),
            kind: HazardKind::Undirected,
        }
    }

    pub(crate) fn unknown(argument: &str) -> Self {
        Self {
            arguments: vec![argument.to_owned()],
            kind: HazardKind::Unknown,
        }
    }

    /// In words, for the program `name`.
    pub(crate) fn describe(&self, name: &str) -> String {
        let argument = self.arguments.first().map_or("", String::as_str);
        match self.kind {
            HazardKind::Undirected => {
                format!("`{name}` takes what it does from its input or from a person")
            }
            HazardKind::Dangerous => {
                format!("`{argument}` makes `{name}` run or write something else")
            }
            HazardKind::Unknown => {
                format!("what `{argument}` does in `{name}` is not known, so a rule must name it")
            }
        }
    }
}

/// The argument because of which a rule with a wildcard does not cover the command, if there is one.
pub(crate) fn find(words: &[String], sources: &[ShellWord]) -> Option<ArgumentHazard> {
    let (name, arguments) = words.split_first()?;
    if let Some(at) = launched_at(words) {
        // A rule must name everything before the program that is launched, which is judged as
        // itself.
        return find(words.get(at..)?, sources.get(at..)?);
    }
    // Programs with a language of their own, which a table of options cannot describe. What these
    // readers pass still has to pass the table.
    let argument = match base(name) {
        "git" => super::git::hazard(arguments),
        "sed" | "gsed" => sed::hazard(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => awk::hazard(arguments),
        "go" => linker_flags(arguments).or_else(|| lasting_settings(arguments)),
        "npm" | "pnpm" | "yarn" | "pip" | "pip3" => lasting_settings(arguments),
        "tar" | "bsdtar" | "gtar" => old_style_tar(arguments),
        _ => None,
    };
    argument
        .map(|argument| ArgumentHazard::dangerous(&argument))
        .or_else(|| read_arguments(words, sources)?.hazard)
}

/// Where the program or module begins that a launcher runs.
fn launched_at(words: &[String]) -> Option<usize> {
    let name = words.first()?;
    // `python -m TOOL` runs a module that is a program of its own, with its own dangerous
    // arguments.
    if name.starts_with("python") && words.get(1).is_some_and(|word| word == "-m") {
        return Some(2);
    }
    let own = launcher_words(words)?;
    let inner = words[own..]
        .iter()
        .position(|word| !word.starts_with('-'))?;
    Some(own + inner)
}

/// Whether `name` is one of the options or the beginning of one.
pub(super) fn abbreviates(name: &str, options: &[&str]) -> bool {
    !name.is_empty() && options.iter().any(|option| option.starts_with(name))
}

/// Flags for Go's linker can name another linker; only these cannot.
fn linker_flags(arguments: &[String]) -> Option<String> {
    for (at, word) in arguments.iter().enumerate() {
        let next = arguments.get(at + 1).map_or("", String::as_str);
        let (name, flags) = word.split_once('=').unwrap_or((word, next));
        if word.starts_with('-')
            && name.trim_start_matches('-') == "ldflags"
            && !flags.split_whitespace().all(is_harmless_linker_flag)
        {
            return Some(word.clone());
        }
    }
    None
}

fn is_harmless_linker_flag(flag: &str) -> bool {
    matches!(flag, "-s" | "-w" | "-X")
        || !(flag.starts_with(['-', '\'', '"']) || flag.contains("=-") || flag.contains("='"))
}

/// Settings that later commands obey.
fn lasting_settings(arguments: &[String]) -> Option<String> {
    let plain: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let first = plain.iter().find(|word| !word.starts_with('-'))?;
    match *first {
        "config" | "c" | "env" => plain
            .iter()
            .find(|word| {
                matches!(**word, "set" | "delete" | "edit" | "unset" | "-w" | "-u")
                    || word.contains('=')
            })
            .map(|word| (*word).to_owned()),
        "set" => Some("set".to_owned()),
        _ => None,
    }
}

/// Letters of tar without a dash that only make or show an archive.
const TAR_HARMLESS: &str = "ctvzjJZfapwW";

/// `tar xIf` without a dash, and archives elsewhere.
fn old_style_tar(arguments: &[String]) -> Option<String> {
    if let Some(remote) = arguments.iter().find(|word| word.contains(':')) {
        // An archive on another machine is fetched by a program of its own.
        return Some(remote.clone());
    }
    arguments
        .first()
        .filter(|word| !word.starts_with('-'))
        .filter(|word| !word.chars().all(|letter| TAR_HARMLESS.contains(letter)))
        .cloned()
}
