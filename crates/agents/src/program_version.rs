//! Versions of programs that agents and the host need, as the programs report them.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// How long a program may take to print its version.
const VERSION_TIME: Duration = Duration::from_secs(5);

/// Why a version is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// There is no such program on the `PATH`.
    #[error("not installed")]
    Missing,
    /// It did not print one.
    #[error("`{0} --version` failed")]
    Failed(String),
}

/// The numbers in the first line of what `PROGRAM --version` prints, and that line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramVersion {
    /// The line.
    pub line: String,
    /// `[2, 47, 3]` of `git version 2.47.3`.
    pub numbers: Vec<u32>,
}

/// Asks a program for its version.
pub async fn probe_version(program: &str) -> Result<ProgramVersion, VersionError> {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);

    let output = match tokio::time::timeout(VERSION_TIME, command.output()).await {
        Ok(Ok(output)) if output.status.success() => output.stdout,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(VersionError::Missing);
        }
        Ok(Ok(_) | Err(_)) | Err(_) => return Err(VersionError::Failed(program.to_owned())),
    };
    let text = String::from_utf8_lossy(&output);
    let line = text.lines().next().unwrap_or_default().trim();
    parse_version(line).ok_or_else(|| VersionError::Failed(program.to_owned()))
}

fn parse_version(line: &str) -> Option<ProgramVersion> {
    let start = line.find(|c: char| c.is_ascii_digit())?;
    let rest = &line[start..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let numbers = rest[..end].split('.').map_while(|part| part.parse().ok());
    Some(ProgramVersion {
        line: line.to_owned(),
        numbers: numbers.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_version_are_found() {
        let numbers = |line: &str| parse_version(line).map(|version| version.numbers);
        assert_eq!(numbers("git version 2.47.3"), Some(vec![2, 47, 3]));
        assert_eq!(
            numbers("git version 2.39.5 (Apple Git-154)"),
            Some(vec![2, 39, 5])
        );
        assert_eq!(numbers("v22.1.0"), Some(vec![22, 1, 0]));
        assert_eq!(numbers("no version"), None);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_missing() {
        let missing = probe_version("countersign-no-such-program").await;
        assert_eq!(missing, Err(VersionError::Missing));
    }
}
