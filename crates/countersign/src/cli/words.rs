//! Arguments that several commands read the same way.

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
