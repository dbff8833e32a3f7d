//! Arguments that several commands read the same way.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use crate::error::CliError;
use crate::output;

/// Reads JSON given as text, or as `@FILE`. Kept to the byte.
pub(crate) fn json_argument(text: &str) -> Result<Box<RawValue>, CliError> {
    let (source, name) = match text.strip_prefix('@') {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| CliError::file("read", path, source))?;
            (text, format!("`{path}`"))
        }
        None => (text.to_owned(), "the argument".to_owned()),
    };
    serde_json::from_str(&source).map_err(|error| {
        CliError::usage(format!("{name} is not JSON: {error}"))
            .with_hint("quote it for the shell, like --input '{\"command\":\"ls\"}', or use @FILE")
    })
}

/// The absolute path of the given folder; default: the current one.
pub(crate) fn absolute_folder(named: Option<&Path>) -> Result<String, CliError> {
    let named = named.unwrap_or(Path::new("."));
    let folder = std::fs::canonicalize(named)
        .map_err(|source| CliError::io(format!("no folder `{}`", named.display()), source))?;
    folder
        .into_os_string()
        .into_string()
        .map_err(|folder| CliError::usage(format!("`{}` is not UTF-8 text", folder.display())))
}

/// A label as it is typed: `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelArg {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl std::str::FromStr for LabelArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("use KEY=VALUE, like team=web".to_owned()),
        }
    }
}

/// Labels by key; a key that is repeated with another value is refused.
pub(crate) fn labels(given: Vec<LabelArg>) -> Result<BTreeMap<String, String>, CliError> {
    let mut labels = BTreeMap::new();
    for LabelArg { key, value } in given {
        let earlier = labels.insert(key.clone(), value.clone());
        if earlier.is_some_and(|earlier| earlier != value) {
            return Err(CliError::usage(format!(
                "the label `{key}` was given two values"
            )));
        }
    }
    Ok(labels)
}

/// The absolute paths of files to attach.
pub(crate) fn attached_files(files: &[PathBuf]) -> Result<Vec<String>, CliError> {
    files
        .iter()
        .map(|file| {
            let path = std::fs::canonicalize(file).map_err(|source| {
                CliError::io(format!("could not attach `{}`", file.display()), source)
            })?;
            path.into_os_string()
                .into_string()
                .map_err(|path| CliError::usage(format!("`{}` is not UTF-8", path.display())))
        })
        .collect()
}

/// Takes a command line apart as a shell would, without expanding anything.
pub(crate) fn split_command(line: &str) -> Result<Vec<String>, CliError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let Some(next) = rest.next() else {
                    return Err(bad_command("the command ends in a backslash"));
                };
                word.get_or_insert_default().push(next);
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(bad_command("the command has a quote that is never closed"));
    }
    words.extend(word);
    if words.is_empty() {
        return Err(bad_command("the command is empty"));
    }
    Ok(words)
}

fn bad_command(what: &str) -> CliError {
    CliError::usage(what).with_hint("quote it like --command 'node agent.js --acp'")
}

/// Asks a person at the terminal. One rule for every command: without a terminal there is nobody to
/// ask, and then only `--yes` will do, which callers look at before.
pub(crate) fn confirm(question: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::usage("not a terminal: confirm with --yes"));
    }
    output::print_message(format_args!("{question} [y/N]"));
    read_confirmation()
}

/// Reads a person's yes. Anything else is no.
pub(crate) fn read_confirmation() -> Result<bool, CliError> {
    Ok(matches!(read_line()?.trim(), "y" | "Y" | "yes"))
}

/// Reads a line that a person typed.
pub(crate) fn read_line() -> Result<String, CliError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|source| CliError::io("could not read the answer", source))?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_taken_apart_and_nothing_in_it_expands() {
        let words = split_command(r#"node 'a b' "c \"d" e\ f '' $HOME *"#).unwrap();
        assert_eq!(words, ["node", "a b", "c \"d", "e f", "", "$HOME", "*"]);
        for wrong in ["", "  ", "'a", "a\\"] {
            assert!(split_command(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_label_is_a_key_and_a_value() {
        let label = |text: &str| text.parse::<LabelArg>();
        assert_eq!(
            label("team=web").unwrap(),
            LabelArg {
                key: "team".into(),
                value: "web".into()
            }
        );
        for wrong in ["team", "team=", "=web", ""] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
        let twice = [label("a=1").unwrap(), label("a=2").unwrap()];
        assert!(labels(twice.to_vec()).is_err());
    }

    #[test]
    fn json_comes_from_the_line_or_from_a_file() {
        assert_eq!(json_argument(r#"{"a":1}"#).unwrap().get(), r#"{"a":1}"#);
        let scratch = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(scratch.path(), "{ \"b\" : 2 }").unwrap();
        assert_eq!(
            json_argument(&format!("@{}", scratch.path().display()))
                .unwrap()
                .get(),
            "{ \"b\" : 2 }"
        );
        assert!(json_argument("nope").is_err());
        assert!(json_argument("@/nowhere").is_err());
    }
}
