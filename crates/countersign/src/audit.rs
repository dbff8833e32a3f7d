//! Reading the record without a host: the seam to the store's audit.

use std::path::Path;

use crate::failure::CliError;

/// Checks the whole chain, against a head kept elsewhere if one is given. Returns words for people.
pub(crate) fn verify(database: &Path, head: Option<&str>) -> Result<String, CliError> {
    let head = head
        .map(|head| format!(" against {head}"))
        .unwrap_or_default();
    Err(CliError::Failed {
        what: format!(
            "this build cannot verify `{}`{head} yet",
            database.display()
        ),
        hint: None,
    })
}

/// Writes every event as one line of JSON to stdout.
pub(crate) fn export(database: &Path) -> Result<(), CliError> {
    Err(CliError::Failed {
        what: format!("this build cannot export `{}` yet", database.display()),
        hint: None,
    })
}
