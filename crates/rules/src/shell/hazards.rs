//! Dangerous arguments: what makes an allowed program run or write something else.
//!
//! The table errs towards asking: options are found wherever they stand, abbreviated or bundled.

use super::hazard_table::{HAZARDS, Hazard};
use super::{awk, sed};

/// Says which argument is dangerous, if one is.
pub(crate) fn find(words: &[String]) -> Option<String> {
    let (name, arguments) = words.split_first()?;
    let found = match name.as_str() {
        "git" => super::git::hazard(arguments),
        "sed" | "gsed" => sed::hazard(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => awk::hazard(arguments),
        "uniq" | "xxd" => second_file(arguments),
        "go" => linker_flags(arguments).or_else(|| lasting_settings(arguments)),
        "npm" | "pnpm" | "yarn" | "pip" | "pip3" => lasting_settings(arguments),
        "tar" | "bsdtar" | "gtar" => old_style_tar(arguments),
        _ => None,
    };
    found.or_else(|| {
        HAZARDS
            .iter()
            .filter(|hazard| applies(hazard, name, arguments))
            .find_map(|hazard| hazard.find(name, arguments))
    })
}

/// Modules and launched tools are judged like the program itself.
fn applies(hazard: &Hazard, name: &str, arguments: &[String]) -> bool {
    let launched = |word: &String| hazard.programs.contains(&word.as_str());
    hazard.programs.contains(&name)
        || (matches!(name, "npx" | "bunx" | "uvx" | "pnpx") && arguments.iter().any(launched))
        || (name.starts_with("python")
            && arguments.first().is_some_and(|word| word == "-m")
            && arguments.get(1).is_some_and(launched))
}

impl Hazard {
    fn find(&self, name: &str, arguments: &[String]) -> Option<String> {
        // What follows `--` goes to the script; `python -m NAME` has its module's options.
        let to_script = matches!(name, "npm" | "yarn" | "pnpm" | "bun" | "cargo");
        let skip =
            usize::from(name.starts_with("python") && arguments.first().is_some_and(|w| w == "-m"))
                * 2;
        let own: Vec<&String> = arguments
            .iter()
            .skip(skip)
            .take_while(|word| !(to_script && *word == "--"))
            .collect();
        let at = (0..own.len()).find(|at| {
            self.is_dangerous(own[*at]) || self.loads(own[*at], own.get(at + 1).copied())
        })?;
        Some(own[at].clone())
    }

    /// A reporter or formatter by name is harmless, by path it is code.
    fn loads(&self, word: &str, next: Option<&String>) -> bool {
        let (name, value) = word
            .split_once('=')
            .unwrap_or((word, next.map_or("", String::as_str)));
        self.loading.contains(&name) && value.contains(['/', '.', '@', '\\'])
    }

    fn is_dangerous(&self, word: &str) -> bool {
        if self.words.iter().any(|own| fits(own, word)) {
            return true;
        }
        if let Some(long) = word.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            let named = if self.whole {
                self.long.contains(&name)
            } else {
                abbreviates(name, self.long)
            };
            return named && !self.but.contains(&name);
        }
        let Some(letters) = word.strip_prefix('-') else {
            return false;
        };
        letters
            .chars()
            .take_while(|letter| !self.valued.contains(*letter))
            .any(|letter| self.short.contains(letter))
    }
}

/// Whether `name` is one of the options or the beginning of one.
pub(super) fn abbreviates(name: &str, options: &[&str]) -> bool {
    !name.is_empty() && options.iter().any(|option| option.starts_with(name))
}

fn fits(pattern: &str, word: &str) -> bool {
    crate::glob::TextGlob::new(pattern).matches(word)
}

/// `uniq IN OUT` writes its second file.
fn second_file(arguments: &[String]) -> Option<String> {
    let mut files = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => {
                files.extend(words);
                break;
            }
            "-f" | "-s" | "-w" => {
                words.next();
            }
            option if option.len() > 1 && option.starts_with('-') => {}
            _ => files.push(word),
        }
    }
    files.get(1).map(|file| (*file).clone())
}

/// Flags for Go's linker can name another linker; only these cannot.
fn linker_flags(arguments: &[String]) -> Option<String> {
    let harmless = |flag: &str| {
        matches!(flag, "-s" | "-w" | "-X")
            || !(flag.starts_with(['-', '\'', '"']) || flag.contains("=-") || flag.contains("='"))
    };
    let dangerous = |at: &usize| {
        let word = &arguments[*at];
        let (name, own) = word.split_once('=').unwrap_or((word, ""));
        let next = arguments.get(at + 1).map_or("", String::as_str);
        let flags = if word.contains('=') { own } else { next };
        word.starts_with('-')
            && name.trim_start_matches('-') == "ldflags"
            && !flags.split_whitespace().all(harmless)
    };
    let at = (0..arguments.len()).find(dangerous)?;
    Some(arguments[at].clone())
}

/// Settings that later commands obey.
fn lasting_settings(arguments: &[String]) -> Option<String> {
    let plain: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let first = plain.iter().find(|word| !word.starts_with('-'))?;
    let changes = |word: &&&str| {
        matches!(**word, "set" | "delete" | "edit" | "unset" | "-w" | "-u") || word.contains('=')
    };
    match *first {
        "config" | "c" | "env" => plain.iter().find(changes).map(|word| (*word).to_owned()),
        "set" => Some("set".to_owned()),
        _ => None,
    }
}

/// `tar xIf` without a dash, and archives elsewhere.
fn old_style_tar(arguments: &[String]) -> Option<String> {
    if let Some(remote) = arguments.iter().find(|word| word.contains(':')) {
        // An archive on another machine is fetched by a program of its own.
        return Some(remote.clone());
    }
    arguments
        .first()
        .filter(|word| !word.starts_with('-') && word.contains(['I', 'F', 'P']))
        .filter(|word| word.chars().all(|c| c.is_ascii_alphabetic()))
        .cloned()
}
