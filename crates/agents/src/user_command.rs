//! Running a command that the user configured: for notifications, not for agents.
//!
//! Invariants: it is started as it is written, without a shell; it gets no input and a time limit, and
//! what it started ends with it.

use std::process::Stdio;
use std::time::Duration;

use countersign_core::limits::{GIT_WORDS_BYTES_MAX, NOTIFY_COMMAND_MS};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum UserCommandError {
    #[error("the command is empty")]
    Empty,
    #[error("could not start `{program}`: {source}")]
    Start {
        program: String,
        source: std::io::Error,
    },
    #[error("`{program}` failed ({status}): {message}")]
    Failed {
        program: String,
        status: String,
        /// The end of what it printed on standard error.
        message: String,
    },
    #[error("`{0}` took longer than {limit} s and was ended", limit = NOTIFY_COMMAND_MS / 1000)]
    TooSlow(String),
}

/// Runs a program with its arguments and variables besides those of the host, and waits for its end.
pub async fn run_user_command(
    command: &[String],
    variables: &[(&str, &str)],
) -> Result<(), UserCommandError> {
    let (program, args) = command.split_first().ok_or(UserCommandError::Empty)?;
    let mut child = Command::new(program)
        .args(args)
        .envs(variables.iter().copied())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // A group of its own, so that what it starts ends with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| UserCommandError::Start {
            program: program.clone(),
            source,
        })?;
    let limit = Duration::from_millis(NOTIFY_COMMAND_MS);
    let ended = tokio::time::timeout(limit, wait(program, &mut child)).await;
    ended.unwrap_or_else(|_| {
        end_group(&child);
        Err(UserCommandError::TooSlow(program.clone()))
    })
}

async fn wait(program: &str, child: &mut Child) -> Result<(), UserCommandError> {
    let mut message = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let room = u64::try_from(GIT_WORDS_BYTES_MAX).unwrap_or(u64::MAX);
        let read = stderr.take(room).read_to_end(&mut message).await;
        read.map_err(|error| failed(program, "no output", error.to_string()))?;
    }
    let status = child.wait().await;
    let status = status.map_err(|error| failed(program, "no end", error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&message).trim().to_owned();
    Err(failed(program, &status.to_string(), message))
}

fn failed(program: &str, status: &str, message: String) -> UserCommandError {
    UserCommandError::Failed {
        program: program.to_owned(),
        status: status.to_owned(),
        message,
    }
}

fn end_group(child: &Child) {
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(group) = group.and_then(Pid::from_raw) {
        // It may just have ended by itself.
        kill_process_group(group, Signal::KILL).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[tokio::test]
    async fn a_command_gets_its_arguments_and_variables_as_they_are() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("out");
        let script = r#"printf '%s|%s' "$1" "$WORD" > "$2""#;
        let words = command(&[
            "sh",
            "-c",
            script,
            "sh",
            "$(id) \"x\"",
            file.to_str().unwrap(),
        ]);
        run_user_command(&words, &[("WORD", "`id`")]).await.unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "$(id) \"x\"|`id`");
    }

    #[tokio::test]
    async fn a_command_that_fails_says_why() {
        let failed =
            run_user_command(&command(&["sh", "-c", "echo no bus >&2; exit 3"]), &[]).await;
        let expected = "`sh` failed (exit status: 3): no bus";
        assert_eq!(failed.unwrap_err().to_string(), expected);
        let missing = run_user_command(&command(&["/nowhere/notify"]), &[]).await;
        assert!(
            matches!(missing, Err(UserCommandError::Start { .. })),
            "{missing:?}"
        );
        let empty = run_user_command(&[], &[]).await;
        assert!(matches!(empty, Err(UserCommandError::Empty)), "{empty:?}");
    }
}
