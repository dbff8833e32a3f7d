//! Runs the commands of the person's that panels show.
//!
//! Invariants: a run has bounds on its time and its output; what it started ends with it, and with the screen.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use countersign_tui::command_panel::{CommandEnd, CommandRun};
use countersign_tui::message::Message;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

/// The newest output that is kept, and how much a command may print until it is ended.
const KEPT_BYTES_MAX: usize = 256 * 1024;
const PRINTED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Runs that end while the screen draws; others wait.
const ENDED_WAITING: usize = 32;

pub(super) struct CommandRuns {
    sender: mpsc::Sender<Message>,
    ended: mpsc::Receiver<Message>,
    /// They end with the runtime.
    tasks: TaskTracker,
}

impl Default for CommandRuns {
    fn default() -> Self {
        let (sender, ended) = mpsc::channel(ENDED_WAITING);
        Self {
            sender,
            ended,
            tasks: TaskTracker::new(),
        }
    }
}

impl CommandRuns {
    pub(super) fn start(&self, run: CommandRun) {
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let message = perform(run).await;
            // A screen that is gone takes nothing.
            drop(sender.send(message).await);
        });
    }

    pub(super) async fn next_ended(&mut self) -> Message {
        match self.ended.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }
}

/// Ends the command with all it started, also if the screen ends first.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It is gone, as a rule.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

async fn perform(run: CommandRun) -> Message {
    let mut output = Vec::new();
    let end = match spawn(&run) {
        Ok((child, reader)) => watch_run(child, reader, &run, &mut output).await,
        Err(error) => CommandEnd::Failed(format!("`{}`: {error}", run.command[0])),
    };
    Message::CommandEnded {
        name: run.name,
        output,
        end,
    }
}

fn spawn(run: &CommandRun) -> io::Result<(Child, pipe::Receiver)> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(&run.command[0]);
    command
        .args(&run.command[1..])
        .env("COLUMNS", run.columns.to_string())
        .env("LINES", run.lines.to_string())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = &run.cwd {
        command.current_dir(cwd);
    }
    let child = command.spawn()?;
    // The command holds the other ends alone, so that its end is the end of the output.
    drop(command);
    Ok((child, pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?))
}

async fn watch_run(
    mut child: Child,
    mut reader: pipe::Receiver,
    run: &CommandRun,
    output: &mut Vec<u8>,
) -> CommandEnd {
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let _group = ProcessGroup(group);
    let limit = Duration::from_millis(run.timeout_ms);
    let finished = tokio::time::timeout(limit, async {
        if !read_output(&mut reader, output).await? {
            return Ok(None);
        }
        child.wait().await.map(Some)
    });
    match finished.await {
        Err(_) => CommandEnd::TimedOut,
        Ok(Ok(None)) => CommandEnd::PrintedTooMuch,
        Ok(Ok(Some(status))) => end_of(status),
        Ok(Err(error)) => CommandEnd::Failed(error.to_string()),
    }
}

/// Reads to the end and keeps the newest; whether it ended before it was too much.
async fn read_output(reader: &mut pipe::Receiver, output: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = vec![0; 16 * 1024];
    let mut printed = 0;
    loop {
        let count = reader.read(&mut buffer).await?;
        if count == 0 {
            return Ok(true);
        }
        printed += count;
        output.extend_from_slice(&buffer[..count]);
        let excess = output.len().saturating_sub(KEPT_BYTES_MAX);
        output.drain(..excess);
        if printed > PRINTED_BYTES_MAX {
            return Ok(false);
        }
    }
}

fn end_of(status: ExitStatus) -> CommandEnd {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Exit(code),
        (None, signal) => CommandEnd::Signal(signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn outcome(line: &str, timeout_ms: u64) -> (Vec<u8>, CommandEnd) {
        let run = CommandRun {
            name: "one".into(),
            command: vec!["sh".into(), "-c".into(), line.into()],
            timeout_ms,
            cwd: Some("/".into()),
            columns: 33,
            lines: 5,
        };
        match perform(run).await {
            Message::CommandEnded { output, end, .. } => (output, end),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_command_is_run_with_both_outputs_and_its_end() {
        let (output, end) = outcome("echo $COLUMNS; pwd; echo bad >&2; exit 3", 10_000).await;
        assert_eq!(
            (String::from_utf8(output).unwrap().as_str(), end),
            ("33\n/\nbad\n", CommandEnd::Exit(3))
        );
        let (_, end) = outcome("kill -9 $$", 10_000).await;
        assert_eq!(end, CommandEnd::Signal(9));
    }

    #[tokio::test]
    async fn a_command_that_hangs_floods_or_is_absent_is_ended_and_named() {
        // What it leaves behind holds the output open, and is ended with it.
        let (output, end) = outcome("echo first; sleep 600 & echo $!", 300).await;
        assert_eq!(end, CommandEnd::TimedOut);
        let text = String::from_utf8(output).unwrap();
        let left: i32 = text.lines().nth(1).unwrap().parse().unwrap();
        let left = Pid::from_raw(left).unwrap();
        while rustix::process::test_kill_process(left).is_ok() {
            let stat = std::fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
            if stat.contains(") Z ") || stat.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let (output, end) = outcome("yes", 60_000).await;
        assert_eq!(
            (output.len(), end),
            (KEPT_BYTES_MAX, CommandEnd::PrintedTooMuch)
        );
        let run = CommandRun {
            name: "one".into(),
            command: vec!["/no/such/program".into()],
            timeout_ms: 1_000,
            cwd: None,
            columns: 1,
            lines: 1,
        };
        let Message::CommandEnded { end, .. } = perform(run).await else {
            panic!("no end");
        };
        assert!(matches!(end, CommandEnd::Failed(why) if why.starts_with("`/no/such/program`: ")));
    }
}
