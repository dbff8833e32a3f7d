//! `confine`: enforces a sandbox on itself and becomes another program. Started by runners, never by a person.
//!
//! Invariant: it ends with [`NOT_RUN`] if anything of its plan could not be enforced, and nothing was run.

use std::process::ExitCode;

use countersign_sandbox::{ConfineError, ConfineStage};

use crate::output;

/// The exit code of shells for a program that could not be run.
const NOT_RUN: u8 = 126;

pub(crate) fn confine(stage: Result<ConfineStage, ConfineError>) -> ExitCode {
    match stage.and_then(countersign_sandbox::confine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let reason = countersign_core::error_chain(&error);
            match error {
                ConfineError::Stopped(_) => output::print_message(reason),
                _ => output::print_message(format_args!(
                    "the sandbox could not be entered: {reason}"
                )),
            }
            ExitCode::from(NOT_RUN)
        }
    }
}
