//! Arguments that several commands read the same way.

use std::io::{self, BufRead as _};
use std::path::Path;

use serde_json::value::RawValue;

use crate::failure::CliError;

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

/// The folder that is meant, absolute; the current one unless told.
pub(crate) fn folder(named: Option<&Path>) -> Result<String, CliError> {
    let named = named.unwrap_or(Path::new("."));
    let folder = std::fs::canonicalize(named)
        .map_err(|source| CliError::io(format!("no folder `{}`", named.display()), source))?;
    folder.into_os_string().into_string().map_err(|folder| {
        CliError::usage(format!("`{}` is not UTF-8, as rules are", folder.display()))
    })
}

/// Reads a person's yes. Anything else is no.
pub(crate) fn confirmed() -> Result<bool, CliError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|source| CliError::io("could not read the answer", source))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
