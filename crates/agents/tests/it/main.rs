//! Agents' children on the real system: processes, terminals, files, worktrees.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and one that is skipped says so"
)]

mod acp;
mod files;
mod link;
mod own_terminals;
mod runner;
mod shell_backends;
mod shells;
mod support;
mod tree;
mod worktrees;
