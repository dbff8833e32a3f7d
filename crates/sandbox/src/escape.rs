//! The escape suite: what a confined program must not be able to do, tried one by one.
//!
//! The suite makes a scene of its own (files, a process, sockets) and runs itself inside a sandbox. There it tries to
//! reach what is outside. Every attempt is aimed at the scene, and harmless where nothing stops it.

mod files;
mod held;
mod hidden;
mod kernel;
mod processes;
mod scene;
mod sockets;
mod suite;

use std::io;

pub use scene::EscapeScene;
pub use suite::{EscapeReport, EscapeResult, SuiteError, run_suite};
pub(crate) use suite::{attempt, attempt_all};

/// One thing that must not work.
pub struct EscapeCase {
    pub name: &'static str,
    /// What is tried, for people.
    pub what: &'static str,
    /// Succeeds if it worked.
    attempt: fn(&EscapeScene) -> io::Result<()>,
}

/// Every case, in the order of the table.
pub fn cases() -> impl Iterator<Item = &'static EscapeCase> {
    [
        files::CASES,
        held::CASES,
        hidden::CASES,
        processes::CASES,
        sockets::CASES,
        kernel::CASES,
    ]
    .into_iter()
    .flatten()
}

/// Shorter to write in tables of cases.
const fn case(
    name: &'static str,
    what: &'static str,
    attempt: fn(&EscapeScene) -> io::Result<()>,
) -> EscapeCase {
    EscapeCase {
        name,
        what,
        attempt,
    }
}

/// An attempt that found that something is not as an escape needs it.
fn stopped(reason: &str) -> io::Error {
    io::Error::other(reason.to_owned())
}
