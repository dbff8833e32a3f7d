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
        "uniq" => second_file(arguments),
        "go" => linker_flags(arguments),
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
        let mut arguments = arguments.iter().skip(skip);
        arguments
            .by_ref()
            .take_while(|word| !(to_script && *word == "--"))
            .find(|word| self.is_dangerous(word))
            .cloned()
    }

    fn is_dangerous(&self, word: &str) -> bool {
        if self.words.iter().any(|own| fits(own, word)) {
            return true;
        }
        if let Some(long) = word.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            return abbreviates(name, self.long) && !self.but.contains(&name);
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
    let at = arguments.iter().position(|word| {
        let name = word.trim_start_matches('-').split('=').next();
        word.starts_with('-') && name == Some("ldflags")
    })?;
    let flags = match arguments[at].split_once('=') {
        Some((_, flags)) => flags,
        None => arguments.get(at + 1)?,
    };
    let harmless =
        |flag: &str| matches!(flag, "-s" | "-w" | "-X") || !flag.starts_with(['-', '\'', '"']);
    (!flags.split_whitespace().all(harmless)).then(|| arguments[at].clone())
}

/// `tar xIf` without a dash.
fn old_style_tar(arguments: &[String]) -> Option<String> {
    arguments
        .first()
        .filter(|word| !word.starts_with('-') && word.contains(['I', 'F', 'P']))
        .filter(|word| word.chars().all(|c| c.is_ascii_alphabetic()))
        .cloned()
}
