//! What git changes in a repository when an agent commits in its worktree, and what of it must stay as it is.
//!
//! Invariant: nothing that an agent can write says which folders these are; the record does.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use countersign_core::event::Worktree;
use countersign_core::limits::SANDBOX_BRANCHES_MAX;

const BRANCHES: &str = "refs/heads";

/// Paths in the repository of a worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitPlaces {
    /// Git's folder of the repository.
    pub repository: PathBuf,
    /// What git writes to.
    pub write: Vec<PathBuf>,
    /// What in these says which repository it is, and the branches of others.
    pub read_only: Vec<PathBuf>,
}

/// The places of a worktree that the host made. None if the repository is not as the host left it: then nothing in
/// it can be written.
pub fn git_places(worktree: &Worktree) -> Option<GitPlaces> {
    let common = Path::new(&worktree.repository)
        .join(".git")
        .canonicalize()
        .ok()?;
    let own = find_own_folder(&common, Path::new(&worktree.path))?;
    let settings = own.join("config.worktree");
    // Where git reads it, a missing one could be made, and it says which programs git runs.
    if let Err(error) = create_if_missing(&settings) {
        tracing::warn!(?settings, %error, "nothing of the repository can be written");
        return None;
    }
    let read_only = ["commondir", "gitdir"].map(|file| own.join(file));
    let mut places = GitPlaces {
        repository: common.clone(),
        write: vec![common.join("objects"), own],
        // The whole of it, so that nobody is asked about a lock that git could not put in place afterwards.
        read_only: [common.clone(), settings]
            .into_iter()
            .chain(read_only)
            .collect(),
    };
    match list_branches(&common) {
        Ok(branches) => {
            let others = branches
                .into_iter()
                .filter(|branch| *branch != worktree.branch);
            for branch in others {
                places.read_only.push(common.join(BRANCHES).join(&branch));
                places
                    .read_only
                    .push(common.join("logs").join(BRANCHES).join(&branch));
            }
            places.write.push(common.join(BRANCHES));
            places.write.push(common.join("logs").join(BRANCHES));
        }
        Err(error) => {
            tracing::warn!(?common, %error, "the agent cannot commit: its branches cannot be kept apart");
        }
    }
    Some(places)
}

fn create_if_missing(file: &Path) -> io::Result<()> {
    match fs::File::create_new(file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Git's folder for the worktree, which names the worktree in turn.
fn find_own_folder(common: &Path, worktree: &Path) -> Option<PathBuf> {
    let file = worktree.canonicalize().ok()?.join(".git");
    let entries = fs::read_dir(common.join("worktrees")).ok()?.flatten();
    let mut folders = entries.map(|entry| entry.path());
    folders.find(|folder| {
        let named = fs::read_to_string(folder.join("gitdir")).unwrap_or_default();
        Path::new(named.trim_end()) == file
    })
}

/// Every branch, with a file of its own: one that is only in the list of packed branches gets one with the same
/// content, because what is not there cannot be kept from being made.
fn list_branches(common: &Path) -> io::Result<BTreeSet<String>> {
    let folder = common.join(BRANCHES);
    let mut branches = BTreeSet::new();
    add_files(&folder, &folder, &mut branches)?;
    let packed = match fs::read_to_string(common.join("packed-refs")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    for line in packed.lines() {
        let Some((commit, name)) = line.split_once(' ') else {
            continue;
        };
        let Some(name) = name.strip_prefix("refs/heads/") else {
            continue;
        };
        if branches.insert(name.to_owned()) {
            check_count(&branches)?;
            unpack(&folder.join(name), commit)?;
        }
    }
    Ok(branches)
}

fn unpack(file: &Path, commit: &str) -> io::Result<()> {
    use std::io::Write as _;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::File::create_new(file)?.write_all(format!("{commit}\n").as_bytes())
}

fn add_files(folder: &Path, root: &Path, branches: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            add_files(&path, root, branches)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            branches.insert(name.to_owned());
            check_count(branches)?;
        }
    }
    Ok(())
}

fn check_count(branches: &BTreeSet<String>) -> io::Result<()> {
    if branches.len() > SANDBOX_BRANCHES_MAX {
        return Err(io::Error::other("there are too many branches"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn an_agent_gets_its_branch_and_not_those_of_others() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let (common, tree) = (root.join("repo/.git"), root.join("tree"));
        fs::create_dir_all(&tree).unwrap();
        let named = format!("{}\n", tree.join(".git").display());
        write(&common.join("worktrees/other/gitdir"), "/elsewhere/.git\n");
        write(&common.join("worktrees/own/gitdir"), &named);
        write(&common.join("refs/heads/main"), "1\n");
        write(&common.join("refs/heads/countersign/own"), "1\n");
        write(
            &common.join("packed-refs"),
            "# pack-refs\n2 refs/heads/old/one\n3 refs/tags/t\n",
        );
        let worktree = Worktree {
            path: tree.to_str().unwrap().to_owned(),
            branch: "countersign/own".to_owned(),
            base: "1".to_owned(),
            repository: root.join("repo").to_str().unwrap().to_owned(),
        };
        let at = |paths: &[&str]| -> Vec<PathBuf> {
            paths.iter().map(|path| common.join(path)).collect()
        };
        let expected = GitPlaces {
            repository: common.clone(),
            write: at(&["objects", "worktrees/own", "refs/heads", "logs/refs/heads"]),
            read_only: at(&[
                "",
                "worktrees/own/config.worktree",
                "worktrees/own/commondir",
                "worktrees/own/gitdir",
                "refs/heads/main",
                "logs/refs/heads/main",
                "refs/heads/old/one",
                "logs/refs/heads/old/one",
            ]),
        };
        assert_eq!(git_places(&worktree), Some(expected));
        assert_eq!(
            fs::read_to_string(common.join("refs/heads/old/one")).unwrap(),
            "2\n"
        );
        let other = Worktree {
            path: root.to_str().unwrap().to_owned(),
            ..worktree
        };
        assert_eq!(git_places(&other), None);
    }
}
