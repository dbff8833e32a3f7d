//! The user's rule file, changed by commands: rules are only ever added at its end.
//!
//! Invariant: a file is written only if it is understood whole afterwards, and never half.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use countersign_rules::{FileKind, RuleArea, RuleEntry, parse_file};

use crate::error::CliError;

/// A rule file with more rules than before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExtendedFile {
    pub(super) text: String,
    /// How many rules were added.
    pub(super) added: usize,
}

/// What the file holds now; nothing if there is none.
pub(super) fn load(file: &Path) -> Result<String, CliError> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(CliError::file("read", file, source)),
    }
}

/// A file that had no rules, with exactly this text.
pub(super) fn first_rules(text: &str, name: &str) -> Result<ExtendedFile, CliError> {
    let added = parse_or_refuse(text, name)?.len();
    let text = text.to_owned();
    Ok(ExtendedFile { text, added })
}

/// The file with those of the new rules that it lacks, if it lacks any.
pub(super) fn append_rules(
    old: &str,
    new: &str,
    name: &str,
) -> Result<Option<ExtendedFile>, CliError> {
    let known = parse_or_refuse(old, name)?;
    let mut missing = parse_or_refuse(new, "the new rules")?;
    missing.retain(|entry| !known.iter().any(|known| is_same_rule(known, entry)));
    if missing.is_empty() {
        return Ok(None);
    }
    let text = extend(old, &known, &missing, name)?;
    // The whole file again, as the host will read it: what is added must not break what was there.
    parse_or_refuse(&text, name)?;
    let added = missing.len();
    Ok(Some(ExtendedFile { text, added }))
}

/// Whether a rule of the file says no less than one to add.
fn is_same_rule(known: &RuleEntry, entry: &RuleEntry) -> bool {
    // A rule for one agent does not make the same rule for all of them superfluous.
    known.agent.is_none()
        && (known.effect, known.rule.text()) == (entry.effect, entry.rule.text())
        && (known.area == entry.area || known.area == RuleArea::Anywhere)
}

fn extend(
    old: &str,
    known: &[RuleEntry],
    missing: &[RuleEntry],
    name: &str,
) -> Result<String, CliError> {
    let mut text = old.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for (area, table) in [
        (RuleArea::Folder, "folder"),
        (RuleArea::Worktree, "worktree"),
        (RuleArea::Sandbox, "sandbox"),
    ] {
        let rules = missing.iter().filter(|entry| entry.area == area);
        let rules: Vec<String> = rules.map(quote_rule).collect();
        if rules.is_empty() {
            continue;
        }
        // A second table of the same name would be an error, and where in the first one a person
        // wants the rules is theirs to say.
        if known.iter().any(|entry| entry.area == area) {
            let rules = rules.join(", ");
            return Err(CliError::failed(format!(
                "{name} has a table [{table}] of its own; nothing was written"
            ))
            .with_hint(format!("add to its `allow`: {rules}")));
        }
        let rules = rules.join(",\n  ");
        let _ = write!(text, "\n[{table}]\nallow = [\n  {rules},\n]\n");
    }
    let anywhere = missing
        .iter()
        .filter(|entry| entry.area == RuleArea::Anywhere);
    for entry in anywhere {
        let (effect, rule) = (entry.effect.as_str(), quote_rule(entry));
        let _ = write!(text, "\n[[rule]]\n{effect} = {rule}\n");
    }
    Ok(text)
}

fn quote_rule(entry: &RuleEntry) -> String {
    toml::Value::String(entry.rule.text().to_owned()).to_string()
}

fn parse_or_refuse(text: &str, name: &str) -> Result<Vec<RuleEntry>, CliError> {
    let parsed = parse_file(text, name, FileKind::User).map_err(|problems| {
        CliError::failed(format!("nothing was written\n{problems}")).with_hint("fix the file first")
    })?;
    Ok(parsed.entries)
}

/// Under another name first, so that a host never reads half a file.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), CliError> {
    replace_file(file, text).map_err(|source| CliError::file("write", file, source))
}

fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    // Through a link, so that the file of somebody's dotfiles stays the one that counts.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let unfinished = file.with_extension("toml.new");
    std::fs::write(&unfinished, text)?;
    std::fs::rename(&unfinished, &file)
}

#[cfg(test)]
mod tests {
    use countersign_rules::StarterSet;

    use super::*;

    fn append(old: &str, new: &str) -> Option<(String, usize)> {
        let extended = append_rules(old, new, "rules.toml").unwrap()?;
        Some((extended.text, extended.added))
    }

    #[test]
    fn only_what_is_new_is_added_at_the_end() {
        let old = "allow = [\"Bash(ls)\"]";
        let imported = "allow = [\"Bash(ls)\", \"Bash(git status:*)\"]\ndeny = [\"Bash(rm:*)\"]\n";
        let (text, count) = append(old, imported).unwrap();
        assert_eq!(
            (text.as_str(), count),
            (
                "allow = [\"Bash(ls)\"]\n\n[[rule]]\nallow = \"Bash(git status:*)\"\n\n\
                 [[rule]]\ndeny = \"Bash(rm:*)\"\n",
                2
            )
        );
        assert_eq!(append(&text, imported), None);
    }

    #[test]
    fn a_set_is_extended_by_what_the_next_one_has_more() {
        let starter = StarterSet::Edit.toml();
        assert_eq!(append(starter, starter), None);
        let (text, count) = append(StarterSet::Read.toml(), starter).unwrap();
        let worktree = "\n[worktree]\nallow = [\n  \"Edit(./**)\",\n]\n";
        assert_eq!(text, format!("{}{worktree}", StarterSet::Read.toml()));
        assert_eq!(count, 1);
    }

    #[test]
    fn a_table_that_is_there_is_left_to_its_owner() {
        let old = "[folder]\nallow = [\"Bash(ls:*)\"]\n";
        let error = append_rules(old, StarterSet::Read.toml(), "rules.toml").unwrap_err();
        assert!(error.to_string().contains("[folder] of its own"), "{error}");
    }

    #[test]
    fn a_broken_file_is_left_as_it_is() {
        assert!(append_rules("allow = [", "allow = [\"Bash(ls)\"]", "rules.toml").is_err());
    }
}
