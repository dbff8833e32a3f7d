//! Starter rules: what a newcomer is offered, so that reading in an agent's own folder does not ask.
//!
//! Invariant: except in a sandbox of level `full`, nothing in them runs a program of the repository,
//! and nothing reads outside the folder that an agent works in.

/// A set of rules to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StarterSet {
    /// Reading and searching inside the agent's folder, and commands that only read there.
    Read,
    /// The same, and edits in an agent's own git worktree.
    Edit,
    /// The same, and every command of an agent in a sandbox of level `full`.
    Sandbox,
}

impl StarterSet {
    /// Every set, the narrowest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Edit, Self::Sandbox];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Sandbox => "sandbox",
        }
    }

    /// The rule file that it is.
    pub fn toml(self) -> &'static str {
        match self {
            Self::Read => include_str!("../starter/read.toml"),
            Self::Edit => concat!(
                include_str!("../starter/read.toml"),
                include_str!("../starter/edit.toml")
            ),
            Self::Sandbox => concat!(
                include_str!("../starter/read.toml"),
                include_str!("../starter/edit.toml"),
                include_str!("../starter/sandbox.toml")
            ),
        }
    }
}
