//! A small git repository for the demo's agents to work on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::CliError;

/// What is in it.
const FILES: [(&str, &str); 3] = [
    (
        "README.md",
        "# Clockwork\n\nA small clock. The agents of the demo work on it.\n",
    ),
    (
        "src/clock.txt",
        "tick\nsleep ten milliseconds\ntock\nsleep ten milliseconds\n",
    ),
    ("docs/guide.md", "# Guide\n\nTo be written.\n"),
];

/// Makes the repository with one commit, unless it is there already. Says whether there is one:
/// without git the agents work in the folder itself.
pub(super) fn create_project(home: &Path) -> Result<(PathBuf, bool), CliError> {
    let folder = home.join("clockwork");
    if folder.join(".git").exists() {
        return Ok((folder, true));
    }
    for (name, text) in FILES {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&folder))
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|source| CliError::file("make", &path, source))?;
    }
    let made = git(&folder, &["init", "-q", "-b", "main"])
        && git(&folder, &["add", "-A"])
        && git(&folder, &["commit", "-q", "-m", "A small clock"]);
    Ok((folder, made))
}

/// The person's own settings (signing, hooks, templates) have no place in a scratch repository.
fn git(folder: &Path, arguments: &[&str]) -> bool {
    let ended = Command::new("git")
        .args(["-c", "user.name=Demo", "-c", "user.email=demo@localhost"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TEMPLATE_DIR", "")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ended.is_ok_and(|status| status.success())
}
