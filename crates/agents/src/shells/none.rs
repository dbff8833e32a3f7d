//! No commands at all.

use super::{
    CommandSpec, ShellBackend, ShellError, ShellFuture, TerminalId, TerminalOutput, TerminalPiece,
    TerminalSummary,
};
use crate::adapter::ProcessExit;

/// Permits nothing: no command runs, and there is no terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoShells;

fn not_found<'a, T: Send + 'a>(terminal: &'a TerminalId) -> ShellFuture<'a, T> {
    Box::pin(async { Err(ShellError::NotFound(terminal.clone())) })
}

impl ShellBackend for NoShells {
    fn create(&self, _: CommandSpec) -> ShellFuture<'_, TerminalId> {
        let reason = "this agent was started without terminals".to_owned();
        Box::pin(async { Err(ShellError::NotPermitted(reason)) })
    }

    fn output<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, TerminalOutput> {
        not_found(terminal)
    }

    fn wait_for_exit<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ProcessExit> {
        not_found(terminal)
    }

    fn kill<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ()> {
        not_found(terminal)
    }

    fn release<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ()> {
        not_found(terminal)
    }

    fn list(&self) -> ShellFuture<'_, Vec<TerminalSummary>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read_from<'a>(
        &'a self,
        terminal: &'a TerminalId,
        _: u64,
        _: u64,
    ) -> ShellFuture<'a, TerminalPiece> {
        not_found(terminal)
    }
}
