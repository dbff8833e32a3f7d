//! Clearing a worktree away without losing work.
//!
//! Invariants: unless told to discard, a worktree with anything that is committed nowhere stays as it
//! is; a branch goes only if it was made with the worktree and every commit of it is in another
//! branch or tag.

use std::path::Path;

use countersign_core::event::Worktree;

use super::WorktreeError;
use super::changes::{WorktreeCheckout, WorktreeStatus};
use super::create::{BRANCH_MADE, checked_out_at, commit};
use super::git::RepositoryPaths;
use super::include::records;

/// Whether uncommitted work may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardWork {
    /// Keep the worktree if it holds any.
    No,
    Yes,
}

/// What became of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalOutcome {
    Removed {
        /// The branch, if it stays: it holds commits that nothing else holds, or was there before.
        branch_kept: Option<String>,
    },
    Kept {
        /// Why, in words.
        why: String,
    },
}

/// What git leaves in its folder while something is half done.
const HALF_DONE: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
];

/// Removes the worktree. Files that git ignores go with it. Its commits stay on its branch.
pub async fn remove(
    worktree: &Worktree,
    discard: DiscardWork,
) -> Result<RemovalOutcome, WorktreeError> {
    let path = Path::new(&worktree.path);
    let repository = RepositoryPaths::find(Path::new(&worktree.repository)).await?;
    let made = repository
        .admin_folder(path)
        .is_ok_and(|admin| admin.join(BRANCH_MADE).exists());
    if path.exists() && discard == DiscardWork::No {
        let place = WorktreeCheckout::find(worktree).await?;
        if let Some(why) = reason_to_keep(&place, worktree).await? {
            return Ok(RemovalOutcome::Kept { why });
        }
    }
    // Also without its files: git still has the worktree listed, and its branch as checked out.
    if repository.admin_folder(path).is_ok() {
        delete_worktree(&repository, path).await?;
    } else if path.exists() {
        return Err(WorktreeError::Unknown {
            path: path.to_owned(),
        });
    }
    // After the worktree is gone: a branch that is checked out anywhere stays.
    let gone = made && drop_branch(&repository, &worktree.branch).await?;
    let is_there = commit(&repository, &full(&worktree.branch))
        .await?
        .is_some();
    let branch_kept = (!gone && is_there).then(|| worktree.branch.clone());
    Ok(RemovalOutcome::Removed { branch_kept })
}

/// What git has begun in a checkout and not ended, by its folder there.
pub(super) fn half_done(admin: &Path) -> Option<&'static str> {
    HALF_DONE
        .iter()
        .find(|(file, _)| admin.join(file).exists())
        .map(|(_, what)| *what)
}

async fn reason_to_keep(
    place: &WorktreeCheckout,
    worktree: &Worktree,
) -> Result<Option<String>, WorktreeError> {
    if let Some(what) = half_done(&place.admin) {
        return Ok(Some(format!("{what} is under way in it")));
    }
    if place.admin.join("locked").exists() {
        return Ok(Some("it is locked (`git worktree unlock` frees it)".into()));
    }
    let status = place.status(&worktree.base).await?;
    if let Some(first) = status.uncommitted.first() {
        return Ok(Some(uncommitted(&status, first)));
    }
    if let Some(submodule) = filled_submodule(place, &status.head).await? {
        return Ok(Some(format!(
            "it holds the submodule `{submodule}`, which may hold work of its own"
        )));
    }
    if find_refs_containing(&place.repository, &status.head)
        .await?
        .is_empty()
    {
        return Ok(Some(format!(
            "commit {} is on no branch",
            short(&status.head)
        )));
    }
    Ok(None)
}

fn uncommitted(status: &WorktreeStatus, first: &str) -> String {
    let more = if status.more { "more than " } else { "" };
    match status.uncommitted.len() {
        1 => format!("`{first}` is not committed"),
        count => format!("{more}{count} files are not committed, `{first}` among them"),
    }
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// A submodule that was filled: what is uncommitted there is not looked at.
async fn filled_submodule(
    place: &WorktreeCheckout,
    head: &str,
) -> Result<Option<String>, WorktreeError> {
    let list = place.repository.git("list the submodules");
    let list = list
        .args(["ls-tree", "-r", "-z", "--full-tree", head])
        .run()
        .await?;
    let list = list.succeeded("list the submodules")?;
    for record in records(&list.bytes) {
        let record = String::from_utf8_lossy(record);
        let Some((kind, path)) = record.split_once('\t') else {
            continue;
        };
        if kind.starts_with("160000") && has_entries(&place.path.join(path)) {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

fn has_entries(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Branches and tags that a commit is in.
async fn find_refs_containing(
    repository: &RepositoryPaths,
    id: &str,
) -> Result<Vec<String>, WorktreeError> {
    let contains = format!("--contains={id}");
    let list = repository.git("look where the commits are");
    let list = list
        .args([
            "for-each-ref",
            "--format=%(refname)",
            // Two are enough: the branch itself and one other.
            "--count=2",
            &contains,
        ])
        .args(["refs/heads", "refs/remotes", "refs/tags"])
        .read()
        .await?;
    Ok(String::from_utf8_lossy(&list)
        .lines()
        .map(str::to_owned)
        .collect())
}

/// Deletes the files and git's own folder of the worktree.
pub(super) async fn delete_worktree(
    repository: &RepositoryPaths,
    path: &Path,
) -> Result<(), WorktreeError> {
    // Twice: also a locked one, which whoever calls has looked at.
    let call = repository.git("remove the worktree");
    let call = call
        .args(["worktree", "remove", "--force", "--force", "--"])
        .args([path]);
    call.read().await.map(drop)
}

/// Deletes the branch if all it holds is held elsewhere. Whether it did.
async fn drop_branch(repository: &RepositoryPaths, branch: &str) -> Result<bool, WorktreeError> {
    let full = full(branch);
    let Some(tip) = commit(repository, &full).await? else {
        return Ok(true);
    };
    let elsewhere = find_refs_containing(repository, &tip)
        .await?
        .iter()
        .any(|holder| *holder != full);
    if !elsewhere || checked_out_at(repository, &full).await?.is_some() {
        return Ok(false);
    }
    Ok(delete_branch(repository, branch, &tip).await.is_ok())
}

/// Deletes the branch if it is still where it was seen.
pub(super) async fn delete_branch(
    repository: &RepositoryPaths,
    branch: &str,
    tip: &str,
) -> Result<(), WorktreeError> {
    let call = repository.git("delete the branch");
    // With the tip: git refuses if the branch has moved since it was checked.
    call.args(["update-ref", "-d", &full(branch), tip])
        .read()
        .await
        .map(drop)
}

fn full(branch: &str) -> String {
    format!("refs/heads/{branch}")
}
