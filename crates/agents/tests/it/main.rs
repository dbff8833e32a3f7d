//! Agents' children on the real system.

mod worktrees;
