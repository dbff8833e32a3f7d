//! Everything that runs as a child: adapters to agents' protocols, the processes and terminals
//! behind them, the files they reach, and worktrees.
//!
//! Invariant: nothing here decides. What an agent wants is handed up as words of our own
//! ([`adapter`]), and only what comes back down is done.

pub mod adapter;
pub mod worktree;
