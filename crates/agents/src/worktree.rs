//! Worktrees: a checkout of its own for an agent, what it changed there, merging it, and clearing it away.
//!
//! Invariants: nothing that an agent can write (configuration, attributes, hooks, index) makes git
//! run a program for us; work that is committed nowhere and files that git does not know are never
//! deleted unless [`DiscardWork::Yes`] says so; commits are never deleted.

mod changes;
mod create;
mod diff;
mod git;
mod git_places;
mod include;
mod merge;
mod remove;
mod scratch_git_dir;

use std::io;
use std::path::{Path, PathBuf};

use countersign_core::event::Worktree;

pub use changes::{WorktreeStatus, status};
pub use create::{check_repository, create};
pub use diff::{DiffFile, FileStatus, WorktreeDiff, diff};
pub use git_places::{GitPlaces, git_places};
pub use merge::{MergeOutcome, merge};
pub use remove::{DiscardWork, RemovalOutcome, remove};

/// Why something could not be done with a worktree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorktreeError {
    /// There is no git.
    #[error("git is not installed, or not on the PATH")]
    NoGit,
    /// Worktrees belong to repositories.
    #[error("`{}` is not inside a git repository", .folder.display())]
    NotARepository {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A worktree begins from a commit.
    #[error("the repository `{}` has no commit yet", .repository.display())]
    NoCommit { repository: PathBuf },
    /// Git would not take the name.
    #[error("`{branch}` cannot be the name of a branch")]
    BadBranch { branch: String },
    /// A branch is checked out in one place at a time.
    #[error("branch `{branch}` is checked out in `{at}`")]
    BranchInUse {
        branch: String,
        /// Where it is checked out.
        at: String,
    },
    /// Git has no worktree there any more.
    #[error("git has no worktree at `{}`", .path.display())]
    Unknown { path: PathBuf },
    /// What `.worktreeinclude` names is more than is copied.
    #[error("`.worktreeinclude` names more than may be copied into a worktree: {what}")]
    IncludesTooMuch {
        /// The bound that was reached.
        what: String,
    },
    /// It took too long.
    #[error("could not {what}: git did not finish in time")]
    TooSlow { what: &'static str },
    /// Git said no.
    #[error("could not {what}: {message}")]
    Git { what: &'static str, message: String },
    /// The system said no.
    #[error("could not {what}")]
    Io {
        what: &'static str,
        #[source]
        source: io::Error,
    },
}

impl WorktreeError {
    fn io(what: &'static str, source: io::Error) -> Self {
        Self::Io { what, source }
    }

    fn unknown(path: &Path) -> Self {
        Self::Unknown {
            path: path.to_owned(),
        }
    }
}

/// The folder inside a worktree that stands for `cwd` in its repository: an agent that was asked for
/// from a folder below the root works in the same one. The root where the worktree has no such folder.
pub fn folder(worktree: &Worktree, cwd: &Path) -> PathBuf {
    let root = Path::new(&worktree.path);
    let checkout = cwd.ancestors().find(|above| above.join(".git").exists());
    let below = checkout.and_then(|checkout| cwd.strip_prefix(checkout).ok());
    let wanted = below.map(|below| root.join(below));
    let real = wanted.and_then(|folder| folder.canonicalize().ok());
    match (real, root.canonicalize()) {
        // A link in the checkout may lead out of it.
        (Some(folder), Ok(root)) if folder.is_dir() && folder.starts_with(&root) => folder,
        _ => root.to_owned(),
    }
}
