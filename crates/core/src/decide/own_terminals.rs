//! Terminals of people. The record says who opened and closed which, and nothing of what is in them.

use super::{Decision, DecisionSubject, check_size, check_text, check_word};
use crate::event::{TerminalEnded, TerminalOpened};
use crate::limits::PATH_BYTES_MAX;
use crate::principal::{Caller, RecordedActor};
use crate::rejection::Rejection;

pub(super) fn open(
    caller: &Caller,
    terminal: String,
    cwd: String,
    command: String,
) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    check_word("the terminal", &terminal)?;
    check_size("the folder", cwd.len(), PATH_BYTES_MAX)?;
    check_text("the command", &command)?;
    if !cwd.starts_with('/') {
        return Err(Rejection::NotAbsolute("the folder"));
    }
    let event = TerminalOpened {
        terminal,
        cwd,
        command,
        by: RecordedActor::from(caller),
    };
    Ok(Decision::new(vec![event.into()], DecisionSubject::Nothing))
}

pub(super) fn end(
    caller: Option<&Caller>,
    terminal: String,
    exit_code: Option<i32>,
    signal: Option<String>,
) -> Result<Decision, Rejection> {
    if let Some(caller) = caller {
        caller.require_operator()?;
    }
    let event = TerminalEnded {
        terminal,
        exit_code,
        signal,
        by: caller.map(RecordedActor::from),
    };
    Ok(Decision::new(vec![event.into()], DecisionSubject::Nothing))
}
