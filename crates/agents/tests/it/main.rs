//! Agents' children on the real system.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod acp;
mod worktrees;
