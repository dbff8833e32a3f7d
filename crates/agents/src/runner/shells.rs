//! Terminals of a runner, used by its host.

use std::io;
use std::sync::Arc;

use super::link::LinkOutbox;
use super::wire::{ShellCall, ShellFailure, ShellReply, VERSION_WITH_READERS};
use crate::adapter::ProcessExit;
use crate::shells::{
    CommandSpec, ShellBackend, ShellError, ShellFuture, TerminalId, TerminalOutput, TerminalPiece,
    TerminalSummary,
};

/// Runs commands where the agent runs. They continue without a host.
#[derive(Clone, Debug)]
pub(super) struct RunnerShells {
    outbox: Arc<LinkOutbox>,
    /// The version of the link that the runner speaks.
    version: u32,
}

impl RunnerShells {
    pub(super) fn live(outbox: Arc<LinkOutbox>, version: u32) -> Self {
        Self { outbox, version }
    }

    async fn call(&self, call: ShellCall, what: &str) -> Result<(ShellReply, Vec<u8>), ShellError> {
        let called = self.outbox.call(call).await;
        called.map_err(|failure| match failure {
            ShellFailure::NotFound(terminal) => ShellError::NotFound(TerminalId::new(terminal)),
            ShellFailure::NotPermitted(reason) => ShellError::NotPermitted(reason),
            ShellFailure::Failed(reason) => failed(what, reason),
        })
    }

    async fn create_now(&self, spec: CommandSpec) -> Result<TerminalId, ShellError> {
        let what = "start the command";
        let call = ShellCall::Create {
            key: spec.key,
            command: spec.command,
            cwd: spec.cwd,
            env: spec.env,
            output_bytes_max: spec.output_bytes_max,
        };
        match self.call(call, what).await? {
            (ShellReply::Created { terminal }, _) => Ok(TerminalId::new(terminal)),
            (other, _) => Err(unexpected(what, &other)),
        }
    }

    async fn read(&self, terminal: &TerminalId) -> Result<TerminalOutput, ShellError> {
        let what = "read the terminal";
        let terminal = terminal.as_str().to_owned();
        match self.call(ShellCall::Output { terminal }, what).await? {
            (ShellReply::Output { truncated, exit }, text) => Ok(TerminalOutput {
                text: to_text(text),
                truncated,
                exit,
            }),
            (other, _) => Err(unexpected(what, &other)),
        }
    }

    async fn wait(&self, terminal: &TerminalId) -> Result<ProcessExit, ShellError> {
        let what = "wait for the command";
        let terminal = terminal.as_str().to_owned();
        match self.call(ShellCall::WaitForExit { terminal }, what).await? {
            (ShellReply::Exited { exit }, _) => Ok(exit),
            (other, _) => Err(unexpected(what, &other)),
        }
    }

    async fn list_now(&self) -> Result<Vec<TerminalSummary>, ShellError> {
        let what = "list the terminals";
        self.check_readers(what)?;
        match self.call(ShellCall::List, what).await? {
            (ShellReply::Listed { terminals }, _) => Ok(terminals),
            (other, _) => Err(unexpected(what, &other)),
        }
    }

    async fn read_piece(&self, call: ShellCall) -> Result<TerminalPiece, ShellError> {
        let what = "read the terminal";
        self.check_readers(what)?;
        match self.call(call, what).await? {
            (ShellReply::Piece { from, is_end }, bytes) => Ok(TerminalPiece {
                from,
                bytes,
                is_end,
            }),
            (other, _) => Err(unexpected(what, &other)),
        }
    }

    /// A runner that an older host started does not know these calls, and would end the link.
    fn check_readers(&self, what: &str) -> Result<(), ShellError> {
        if self.version >= VERSION_WITH_READERS {
            return Ok(());
        }
        let reason = "an older host started this run; terminals of its next run can be read";
        Err(failed(what, reason.to_owned()))
    }

    async fn finish(&self, call: ShellCall, what: &str) -> Result<(), ShellError> {
        match self.call(call, what).await? {
            (ShellReply::Done, _) => Ok(()),
            (other, _) => Err(unexpected(what, &other)),
        }
    }
}

impl ShellBackend for RunnerShells {
    fn create(&self, spec: CommandSpec) -> ShellFuture<'_, TerminalId> {
        Box::pin(self.create_now(spec))
    }

    fn output<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, TerminalOutput> {
        Box::pin(self.read(terminal))
    }

    fn wait_for_exit<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ProcessExit> {
        Box::pin(self.wait(terminal))
    }

    fn kill<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ()> {
        let terminal = terminal.as_str().to_owned();
        Box::pin(self.finish(ShellCall::Kill { terminal }, "end the command"))
    }

    fn release<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ()> {
        let terminal = terminal.as_str().to_owned();
        Box::pin(self.finish(ShellCall::Release { terminal }, "release the terminal"))
    }

    fn list(&self) -> ShellFuture<'_, Vec<TerminalSummary>> {
        Box::pin(self.list_now())
    }

    fn read_from<'a>(
        &'a self,
        terminal: &'a TerminalId,
        after: u64,
        wait_ms: u64,
    ) -> ShellFuture<'a, TerminalPiece> {
        let terminal = terminal.as_str().to_owned();
        Box::pin(self.read_piece(ShellCall::ReadFrom {
            terminal,
            after,
            wait_ms,
        }))
    }
}

fn to_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn unexpected(what: &str, done: &ShellReply) -> ShellError {
    failed(what, format!("the runner answered {done:?}"))
}

fn failed(what: &str, reason: String) -> ShellError {
    ShellError::Failed {
        what: what.to_owned(),
        source: io::Error::other(reason),
    }
}
