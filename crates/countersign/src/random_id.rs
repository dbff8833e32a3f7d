//! Names that nobody else has.

use crate::error::CliError;

/// Sixteen random bytes in hexadecimal.
pub(crate) fn random_id() -> Result<String, CliError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        CliError::io(
            "no random bytes from the system",
            std::io::Error::other(error),
        )
    })?;
    Ok(countersign_core::hex(&bytes))
}
