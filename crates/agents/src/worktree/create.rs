//! Making a worktree: where it lies, which branch it has, and its files.

use std::path::{Path, PathBuf};

use countersign_core::event::Worktree;
use countersign_core::limits;

use super::WorktreeError;
use super::git::RepositoryPaths;
use super::scratch_git_dir::ScratchGitDir;
use super::{include, remove};

/// Branches that are named after an agent begin with this.
const BRANCH_PREFIX: &str = "countersign/";

/// In git's folder of a worktree: its branch was made with it, and may go with it.
pub(super) const BRANCH_MADE: &str = "countersign-made-branch";

/// How many names are tried before giving up.
const NAMES_MAX: usize = 1_000;

/// Makes a worktree of the repository that `folder` is in, for the agent called `name`, beside the
/// repository: `<repository>.worktrees/<name>`, with a number where that is taken. It begins from the
/// commit that is checked out in `folder`, on a new branch `countersign/<name>`; or on `branch`, made
/// if there is none. What `.worktreeinclude` names is copied. When this fails nothing is left behind.
pub async fn create(
    folder: &Path,
    name: &str,
    branch: Option<&str>,
) -> Result<Worktree, WorktreeError> {
    let repository = RepositoryPaths::find(folder).await?;
    let head = load_head(&repository).await?;
    let word = to_branch_word(name);
    let chosen = match branch {
        Some(branch) => named_branch(&repository, branch, head).await?,
        None => free_branch(&repository, &word, head).await?,
    };
    // The folder is made before git is asked, so that two agents of one name get different folders.
    let path = make_place(&repository, &word)?;
    let worktree = Worktree {
        path: text(&path)?,
        branch: chosen.name.clone(),
        base: chosen.base.clone(),
        repository: text(&repository.main)?,
    };
    if let Err(error) = check_out(&repository, &path, &chosen).await {
        undo(&repository, &worktree, &path, &chosen).await;
        return Err(error);
    }
    Ok(worktree)
}

/// Refuses a folder where no worktree can be created: it is in no repository, or nothing is committed.
pub async fn check_repository(folder: &Path) -> Result<(), WorktreeError> {
    let repository = RepositoryPaths::find(folder).await?;
    load_head(&repository).await.map(drop)
}

async fn load_head(repository: &RepositoryPaths) -> Result<String, WorktreeError> {
    let head = commit(repository, "HEAD").await?;
    head.ok_or_else(|| WorktreeError::NoCommit {
        repository: repository.main.clone(),
    })
}

struct BranchChoice {
    name: String,
    base: String,
    is_new: bool,
}

async fn check_out(
    repository: &RepositoryPaths,
    path: &Path,
    chosen: &BranchChoice,
) -> Result<(), WorktreeError> {
    // Without a checkout of git's own: it would run the filters of the repository's configuration.
    let mut args = vec!["worktree", "add", "--quiet", "--no-checkout"];
    if chosen.is_new {
        args.extend(["--no-track", "-b", &chosen.name]);
    }
    let call = repository
        .git("make the worktree")
        .args(args)
        .args(["--"])
        .args([path]);
    call.args([if chosen.is_new {
        &chosen.base
    } else {
        &chosen.name
    }])
    .read()
    .await?;
    let admin = repository.admin_folder(path)?;
    if chosen.is_new {
        std::fs::write(admin.join(BRANCH_MADE), "")
            .map_err(|source| WorktreeError::io("write to the worktree's folder in git", source))?;
    }
    let aside = ScratchGitDir::new(repository, path).await?;
    aside
        .git_with_index("check out the files", &admin.join("index"))
        .args(["read-tree", "--reset", "-u", &chosen.base])
        .read()
        .await?;
    include::copy(repository, path).await
}

/// Best effort: the error that led here is what counts.
async fn undo(
    repository: &RepositoryPaths,
    worktree: &Worktree,
    path: &Path,
    chosen: &BranchChoice,
) {
    let gone = remove::delete_worktree(repository, path).await.is_ok();
    if gone && chosen.is_new {
        remove::delete_branch(repository, &worktree.branch, &worktree.base)
            .await
            .ok();
    }
    // Fails unless the folder is empty, so that no file is lost that came into it meanwhile.
    std::fs::remove_dir(path).ok();
}

/// The commit that a revision stands for, if there is one.
pub(super) async fn commit(
    repository: &RepositoryPaths,
    revision: &str,
) -> Result<Option<String>, WorktreeError> {
    let revision = format!("{revision}^{{commit}}");
    let printed = repository
        .git("look up a commit")
        .args([
            "rev-parse",
            "--verify",
            "--quiet",
            // A revision that begins with a hyphen must not be read as an option.
            "--end-of-options",
            &revision,
        ])
        .run()
        .await?;
    let text = String::from_utf8_lossy(&printed.bytes).trim().to_owned();
    // `--end-of-options` is printed back by some versions.
    let id = text.lines().last().unwrap_or_default().to_owned();
    Ok((printed.code == Some(0) && !id.is_empty()).then_some(id))
}

async fn named_branch(
    repository: &RepositoryPaths,
    branch: &str,
    head: String,
) -> Result<BranchChoice, WorktreeError> {
    let name = branch
        .strip_prefix("refs/heads/")
        .unwrap_or(branch)
        .to_owned();
    let full = format!("refs/heads/{name}");
    let check = repository
        .git("check the branch's name")
        .args(["check-ref-format", &full]);
    // `git worktree add` takes such names for an option or for the commit that is checked out.
    if name.starts_with('-') || name == "HEAD" || check.run().await?.code != Some(0) {
        return Err(WorktreeError::BadBranch {
            branch: branch.to_owned(),
        });
    }
    if let Some(at) = checked_out_at(repository, &full).await? {
        return Err(WorktreeError::BranchInUse { branch: name, at });
    }
    let tip = commit(repository, &full).await?;
    Ok(BranchChoice {
        is_new: tip.is_none(),
        base: tip.unwrap_or(head),
        name,
    })
}

/// Where a branch is checked out now.
pub(super) async fn checked_out_at(
    repository: &RepositoryPaths,
    full: &str,
) -> Result<Option<String>, WorktreeError> {
    let list = repository
        .git("list the worktrees")
        .args(["worktree", "list", "--porcelain", "-z"]);
    let list = list.read().await?;
    let list = String::from_utf8_lossy(&list).into_owned();
    let mut at = None;
    for line in list.split('\0') {
        if let Some(path) = line.strip_prefix("worktree ") {
            at = Some(path.to_owned());
        }
        if line.strip_prefix("branch ") == Some(full) {
            return Ok(at);
        }
    }
    Ok(None)
}

async fn free_branch(
    repository: &RepositoryPaths,
    word: &str,
    head: String,
) -> Result<BranchChoice, WorktreeError> {
    for number in 1..=NAMES_MAX {
        let name = format!("{BRANCH_PREFIX}{}", numbered(word, number));
        let full = format!("refs/heads/{name}");
        if commit(repository, &full).await?.is_none() {
            return Ok(BranchChoice {
                name,
                base: head,
                is_new: true,
            });
        }
    }
    Err(WorktreeError::Git {
        what: "name the branch",
        message: format!("`{BRANCH_PREFIX}{word}` and all its numbers are taken"),
    })
}

/// Makes the folder, so that nobody else gets it.
fn make_place(repository: &RepositoryPaths, word: &str) -> Result<PathBuf, WorktreeError> {
    let mut name = repository.main.file_name().unwrap_or_default().to_owned();
    name.push(".worktrees");
    let place = repository.main.with_file_name(name);
    std::fs::create_dir_all(&place).map_err(place_error)?;
    for number in 1..=NAMES_MAX {
        let path = place.join(numbered(word, number));
        match std::fs::create_dir(&path) {
            // As git lists it, so that the two can be compared.
            Ok(()) => return path.canonicalize().map_err(place_error),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(place_error(error)),
        }
    }
    Err(place_error(std::io::ErrorKind::AlreadyExists.into()))
}

fn place_error(source: std::io::Error) -> WorktreeError {
    WorktreeError::io("make a folder beside the repository", source)
}

fn numbered(word: &str, number: usize) -> String {
    if number == 1 {
        word.to_owned()
    } else {
        format!("{word}-{number}")
    }
}

/// A name as a folder and a branch can have it.
fn to_branch_word(name: &str) -> String {
    let mut word = String::new();
    for c in name.chars().take(limits::WORKTREE_NAME_CHARS_MAX) {
        let plain = c.is_ascii_alphanumeric() || c == '_';
        word.push(if plain { c.to_ascii_lowercase() } else { '-' });
    }
    let trimmed = word.trim_matches('-');
    if trimmed.is_empty() {
        "agent".to_owned()
    } else {
        trimmed.to_owned()
    }
}

fn text(path: &Path) -> Result<String, WorktreeError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, "the path is not UTF-8");
        WorktreeError::io("write down where the worktree is", source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_word_for_folders_and_branches() {
        let words = ["Builder 2", "../../etc", "日本", "-x.lock", "a_b"].map(to_branch_word);
        assert_eq!(words, ["builder-2", "etc", "agent", "x-lock", "a_b"]);
    }
}
