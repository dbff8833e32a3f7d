//! Arguments that several commands read the same way.

use std::io::{self, BufRead as _};
use std::path::Path;

use serde_json::value::RawValue;

use crate::error::CliError;

/// Reads JSON given as text, or as `@FILE`. Kept to the byte.
pub(crate) fn json_argument(text: &str) -> Result<Box<RawValue>, CliError> {
    let (source, name) = match text.strip_prefix('@') {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            (
                read.map_err(|source| CliError::io(format!("could not read `{path}`"), source))?,
                format!("`{path}`"),
            )
        }
        None => (text.to_owned(), "the argument".to_owned()),
    };
    serde_json::from_str(&source).map_err(|error| CliError::Usage {
        what: format!("{name} is not JSON: {error}"),
        hint: Some(
            "quote it for the shell, like --input '{\"command\":\"ls\"}', or use @FILE".into(),
        ),
    })
}

/// The absolute path of the given folder; default: the current one.
pub(crate) fn absolute_folder(named: Option<&Path>) -> Result<String, CliError> {
    let named = named.unwrap_or(Path::new("."));
    let folder = std::fs::canonicalize(named)
        .map_err(|source| CliError::io(format!("no folder `{}`", named.display()), source))?;
    folder.into_os_string().into_string().map_err(|folder| {
        CliError::usage(format!("`{}` is not UTF-8, as rules are", folder.display()))
    })
}

/// Takes a command line apart as a shell would, without expanding anything.
pub(crate) fn split_command(line: &str) -> Result<Vec<String>, CliError> {
    let wrong = |what: &str| CliError::Usage {
        what: what.to_owned(),
        hint: Some("quote it like --command 'node agent.js --acp'".into()),
    };
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
                let next = rest
                    .next()
                    .ok_or_else(|| wrong("the command ends in a backslash"))?;
                word.get_or_insert_default().push(next);
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(wrong("the command has a quote that is never closed"));
    }
    words.extend(word);
    if words.is_empty() {
        return Err(wrong("the command is empty"));
    }
    Ok(words)
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
