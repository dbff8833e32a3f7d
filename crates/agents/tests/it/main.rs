//! Agents' processes, terminals and files, over the real thing.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and one that is skipped says so"
)]

mod files;
mod pipe;
mod shells;
mod support;
mod tree;
