//! What a command wrote and how it ended, for the agent that started it and for people who read along.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use countersign_core::limits::{TERMINAL_OUTPUT_BYTES_MAX, TERMINAL_PIECE_BYTES_MAX};
use tokio::sync::watch;

use super::local::NAME_PREFIX;
use super::output_tail::OutputTail;
use super::{CommandSpec, TerminalOutput, TerminalPiece, TerminalSummary};
use crate::adapter::ProcessExit;

#[derive(Debug)]
pub(crate) struct ReadableOutput {
    command: String,
    cwd: PathBuf,
    started_ms: u64,
    output: Mutex<OutputTail>,
    /// Known once the output up to the exit is.
    exit: watch::Sender<Option<CommandEnd>>,
    /// Changes with everything that is written and with the end.
    written: watch::Sender<()>,
}

#[derive(Clone, Debug)]
struct CommandEnd {
    exit: ProcessExit,
    at_ms: u64,
}

impl ReadableOutput {
    pub(crate) fn new(spec: &CommandSpec) -> Self {
        let bytes_max = spec.output_bytes_max.min(TERMINAL_OUTPUT_BYTES_MAX);
        Self {
            command: spec.command.clone(),
            cwd: spec.cwd.clone(),
            started_ms: now_ms(),
            output: Mutex::new(OutputTail::new(bytes_max)),
            exit: watch::channel(None).0,
            written: watch::channel(()).0,
        }
    }

    /// Takes what was written; nothing is the end.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut output = self.output();
        output.push(bytes);
        if bytes.is_empty() {
            output.end();
        }
        drop(output);
        self.written.send_replace(());
    }

    /// No more will come, and no more than this is needed of what came.
    pub(crate) fn end(&self, bytes_max: usize) {
        let mut output = self.output();
        output.end();
        output.shrink(bytes_max);
        drop(output);
        self.written.send_replace(());
    }

    pub(crate) fn note_exit(&self, exit: ProcessExit) {
        let at_ms = now_ms();
        self.exit.send_replace(Some(CommandEnd { exit, at_ms }));
        self.written.send_replace(());
    }

    pub(crate) async fn wait_for_exit(&self) -> ProcessExit {
        let mut exit = self.exit.subscribe();
        let ended = exit.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|ended| ended.clone());
        ended.map(|ended| ended.exit).unwrap_or_default()
    }

    pub(crate) fn read(&self) -> TerminalOutput {
        // Looked at first: output that is read afterwards is at least that of the exit.
        let exit = self.exit.borrow().as_ref().map(|end| end.exit.clone());
        let (text, truncated) = self.output().read();
        TerminalOutput {
            text,
            truncated,
            exit,
        }
    }

    /// Waits until there is something after this byte, or there will be nothing.
    pub(crate) async fn wait_for_more(&self, after: u64) {
        let mut written = self.written.subscribe();
        loop {
            {
                let output = self.output();
                if output.written() > after || output.has_ended() {
                    return;
                }
            }
            if written.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn read_from(&self, after: u64) -> TerminalPiece {
        self.output().read_from(after, TERMINAL_PIECE_BYTES_MAX)
    }

    pub(crate) fn summary(&self, number: u64) -> TerminalSummary {
        let end = self.exit.borrow().clone();
        let output = self.output();
        TerminalSummary {
            id: format!("{NAME_PREFIX}{number}"),
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            started_ms: self.started_ms,
            ended_ms: end.as_ref().map(|end| end.at_ms),
            exit: end.map(|end| end.exit),
            bytes: output.written(),
            first_offset: output.first(),
        }
    }

    fn output(&self) -> MutexGuard<'_, OutputTail> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
