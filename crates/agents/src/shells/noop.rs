//! No shells at all, for tests and for agents that are to have none.

use super::{CommandSpec, ShellBackend, ShellError, ShellFuture, TerminalId, TerminalOutput};
use crate::adapter::ProcessExit;

/// Permits nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoShells;

fn not_found<T: Send>(terminal: &TerminalId) -> ShellFuture<'static, T> {
    let error = ShellError::NotFound(terminal.clone());
    Box::pin(async { Err(error) })
}

impl ShellBackend for NoShells {
    fn create(&self, _: CommandSpec) -> ShellFuture<'_, TerminalId> {
        let error = ShellError::NotPermitted("no command is run here".to_owned());
        Box::pin(async { Err(error) })
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
}
