//! Merging an agent's branch into another, without running what the repository names.
//!
//! Invariants: only commits are merged; with conflicts, or with files in the way, nothing is changed;
//! the branch moves only if it is still where it was when the merge was computed.

use std::path::PathBuf;

use countersign_core::event::Worktree;

use super::WorktreeError;
use super::changes::{WorktreeCheckout, lossy};
use super::create::{checked_out_at, commit};
use super::git::{GitCommand, RepositoryPaths};
use super::include::records;
use super::remove::half_done;
use super::scratch_git_dir::ScratchGitDir;

/// What came of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The branch was moved.
    Merged {
        into: String,
        /// What it is at now.
        commit: String,
        /// Whether it could simply be moved forward, without a commit of its own.
        fast_forward: bool,
    },
    /// It has all commits already.
    UpToDate { into: String },
    /// Both sides changed these files differently.
    Conflicts { into: String, files: Vec<String> },
    /// Something else is in the way.
    Refused {
        /// What, in words.
        why: String,
    },
}

/// A branch, and where it is.
struct MergeTarget {
    name: String,
    full: String,
    tip: String,
}

/// Merges the commits of a worktree's branch into `into`; by default into the branch that is checked
/// out in the repository itself.
pub async fn merge(worktree: &Worktree, into: Option<&str>) -> Result<MergeOutcome, WorktreeError> {
    let checkout = WorktreeCheckout::find(worktree).await?;
    let status = checkout.status(&worktree.base).await?;
    if let Some(first) = status.uncommitted.first() {
        let why = format!("`{first}` in the worktree is not committed");
        return Ok(MergeOutcome::Refused { why });
    }
    let repository = &checkout.repository;
    let target = match find_target(repository, into).await? {
        Ok(target) => target,
        Err(why) => return Ok(MergeOutcome::Refused { why }),
    };
    let into = target.name.clone();
    if is_ancestor(repository, &status.head, &target.tip).await? {
        return Ok(MergeOutcome::UpToDate { into });
    }
    let fast_forward = is_ancestor(repository, &target.tip, &status.head).await?;
    let commit = if fast_forward {
        status.head
    } else {
        match merged_tree(&checkout, &target.tip, &status.head).await? {
            MergedTree::Clean(tree) => {
                let source = status.branch.as_deref().unwrap_or(&worktree.branch);
                let parents = [target.tip.as_str(), status.head.as_str()];
                let message = format!("Merge branch '{source}' into {into}\n");
                commit_tree(repository, &tree, parents, message).await?
            }
            MergedTree::Conflicts(files) => return Ok(MergeOutcome::Conflicts { into, files }),
        }
    };
    if let Some(why) = move_branch(repository, &target, &commit).await? {
        return Ok(MergeOutcome::Refused { why });
    }
    Ok(MergeOutcome::Merged {
        into,
        commit,
        fast_forward,
    })
}

/// The branch to merge into, or why there is none.
async fn find_target(
    repository: &RepositoryPaths,
    into: Option<&str>,
) -> Result<Result<MergeTarget, String>, WorktreeError> {
    let full = match into {
        Some(name) => format!("refs/heads/{name}"),
        None => checked_out_branch(repository).await?,
    };
    let Some(name) = full.strip_prefix("refs/heads/") else {
        return Ok(Err("no branch is checked out in the repository".into()));
    };
    let Some(tip) = commit(repository, &full).await? else {
        return Ok(Err(format!("there is no branch `{name}`")));
    };
    Ok(Ok(MergeTarget {
        name: name.to_owned(),
        full: full.clone(),
        tip,
    }))
}

/// The full name of the branch in the repository's first checkout; nothing if it has none.
async fn checked_out_branch(repository: &RepositoryPaths) -> Result<String, WorktreeError> {
    let head = GitCommand::new("find the checked out branch", &repository.main)
        .settings(&repository.settings)
        .args(["symbolic-ref", "--quiet", "HEAD"])
        .run()
        .await?;
    Ok(String::from_utf8_lossy(&head.bytes).trim().to_owned())
}

async fn is_ancestor(
    repository: &RepositoryPaths,
    older: &str,
    newer: &str,
) -> Result<bool, WorktreeError> {
    let answer = repository
        .git("compare the branches")
        .args(["merge-base", "--is-ancestor", older, newer])
        .run()
        .await?;
    match answer.code {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => answer.succeeded("compare the branches").map(|_| false),
    }
}

enum MergedTree {
    Clean(String),
    Conflicts(Vec<String>),
}

/// Merged in a git directory of our own, because the repository's configuration can name programs that
/// merge files. New objects go to the repository's own, where nothing refers to them yet.
async fn merged_tree(
    checkout: &WorktreeCheckout,
    ours: &str,
    theirs: &str,
) -> Result<MergedTree, WorktreeError> {
    let aside = ScratchGitDir::new(&checkout.repository, &checkout.path).await?;
    let objects = checkout.repository.common.join("objects");
    let printed = aside
        .git("merge the branches")
        .env("GIT_OBJECT_DIRECTORY", objects)
        .args(["merge-tree", "--write-tree", "-z", "--name-only"])
        .args(["--no-messages", ours, theirs])
        .run()
        .await?;
    let is_clean = printed.code == Some(0);
    if printed.cut || (!is_clean && printed.code != Some(1)) {
        printed.succeeded("merge the branches")?;
        return Err(WorktreeError::Git {
            what: "merge the branches",
            message: "there are too many conflicts to list".into(),
        });
    }
    let mut parts = records(&printed.bytes).map(lossy);
    let tree = parts.next().unwrap_or_default();
    if is_clean {
        return Ok(MergedTree::Clean(tree));
    }
    Ok(MergedTree::Conflicts(parts.collect()))
}

async fn commit_tree(
    repository: &RepositoryPaths,
    tree: &str,
    parents: [&str; 2],
    message: String,
) -> Result<String, WorktreeError> {
    let [first, second] = parents;
    repository
        .git("commit the merge")
        .args(["commit-tree", tree, "-p", first, "-p", second])
        .input(message.into_bytes())
        .line()
        .await
}

/// Moves a branch, with the files of the place where it is checked out. Says why if it may not.
async fn move_branch(
    repository: &RepositoryPaths,
    target: &MergeTarget,
    commit: &str,
) -> Result<Option<String>, WorktreeError> {
    let at = checked_out_at(repository, &target.full).await?;
    let Some(at) = at.map(PathBuf::from) else {
        return set_branch(repository, target, commit).await;
    };
    let admin = if at == repository.main {
        repository.common.clone()
    } else {
        repository.admin_folder(&at)?
    };
    if let Some(what) = half_done(&admin) {
        let why = format!("{what} is under way in `{}`", at.display());
        return Ok(Some(why));
    }
    let files = CheckedOutFiles {
        aside: ScratchGitDir::new(repository, &at).await?,
        index: admin.join("index"),
    };
    if let Some(why) = files.switch(&target.tip, commit).await? {
        let why = format!("files in `{}` are in the way: {why}", at.display());
        return Ok(Some(why));
    }
    let refused = set_branch(repository, target, commit).await;
    if !matches!(refused, Ok(None)) {
        files.switch(commit, &target.tip).await?;
    }
    refused
}

/// The files of a checkout, and the index that knows them.
struct CheckedOutFiles {
    aside: ScratchGitDir,
    index: PathBuf,
}

impl CheckedOutFiles {
    /// Changes the files from one commit to the other. Git refuses, and changes nothing, if a file that
    /// differs between them has changes that are not committed.
    async fn switch(&self, from: &str, to: &str) -> Result<Option<String>, WorktreeError> {
        // What the index knows about the files is renewed first: without that, a file that was only
        // touched would count as changed.
        let refresh = self.aside.git_with_index("look at the files", &self.index);
        refresh
            .args(["update-index", "-q", "--refresh"])
            .run()
            .await?;
        let call = self.aside.git_with_index("update the files", &self.index);
        let done = call.args(["read-tree", "-m", "-u", from, to]).run().await?;
        refusal(done.succeeded("update the files").map(drop))
    }
}

/// Only from where the branch was: somebody may have committed to it meanwhile.
async fn set_branch(
    repository: &RepositoryPaths,
    target: &MergeTarget,
    commit: &str,
) -> Result<Option<String>, WorktreeError> {
    let done = repository
        .git("move the branch")
        .args(["update-ref", "-m", "countersign: merge", &target.full])
        .args([commit, &target.tip])
        .run()
        .await?;
    refusal(done.succeeded("move the branch").map(drop))
}

/// What git says against it, where that is the answer and not a failure.
fn refusal(done: Result<(), WorktreeError>) -> Result<Option<String>, WorktreeError> {
    match done {
        Ok(()) => Ok(None),
        Err(WorktreeError::Git { message, .. }) => Ok(Some(message)),
        Err(error) => Err(error),
    }
}
