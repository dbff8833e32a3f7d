//! Tokens, made with the command line as a user would.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Makes an operator's token for the host whose home this is.
pub(crate) fn create_token(countersign: &Path, home: &Path) -> Result<String> {
    let made = Command::new(countersign)
        .args(["token", "create", "--role", "operator"])
        .args(["--name", "script", "--expires", "24h"])
        .env("COUNTERSIGN_HOME", home)
        .stdin(Stdio::null())
        .output()
        .context("could not run `countersign token create`")?;
    ensure!(
        made.status.success(),
        "`countersign token create`: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    Ok(String::from_utf8(made.stdout)?.trim().to_owned())
}
