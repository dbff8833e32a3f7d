//! Projects: which one a folder belongs to, and what stands for it.
//!
//! Invariant: what a folder says about itself never makes it count as another repository. A link
//! to another's `.git` counts for nothing, and a worktree counts as its repository only if that
//! repository knows it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Where a project keeps its rules.
pub(super) const PROJECT_FILE: &str = ".countersign/rules.toml";

/// The longest pointer file of git that is read.
const POINTER_BYTES_MAX: u64 = 8 * 1024;

/// The folders that matter for a working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProjectRoot {
    /// The nearest root: real path.
    pub(super) root: PathBuf,
    /// What stands for it: one path for all worktrees of a repository.
    pub(super) identity: PathBuf,
    /// Folders further out that have rules of their own. A folder inside a project cannot get rid
    /// of its denies by declaring itself a project.
    pub(super) outer: Vec<PathBuf>,
}

impl ProjectRoot {
    /// Looks outwards from a folder. `has_rules` says whether a folder has a rule file, or had one.
    pub(super) fn find(cwd: &Path, has_rules: impl Fn(&Path) -> bool) -> Option<Self> {
        // Links are followed first: otherwise a link into a project would be a way around its
        // rules.
        let real = real_path(cwd);
        let mut found: Option<Self> = None;
        for folder in real.ancestors() {
            let rules = has_rules(folder);
            match &mut found {
                Some(project) if rules => project.outer.push(folder.to_owned()),
                None if rules || exists(&folder.join(".git")) => {
                    found = Some(Self {
                        root: folder.to_owned(),
                        identity: identity(folder),
                        outer: Vec::new(),
                    });
                }
                _ => {}
            }
        }
        found
    }
}

/// The real path of a folder, or of as much of it as there is.
fn real_path(cwd: &Path) -> PathBuf {
    cwd.ancestors()
        .find_map(|folder| folder.canonicalize().ok())
        .unwrap_or_else(|| cwd.to_owned())
}

fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

fn identity(root: &Path) -> PathBuf {
    let dot_git = root.join(".git");
    match std::fs::symlink_metadata(&dot_git) {
        Ok(found) if found.is_dir() => dot_git,
        Ok(found) if found.is_file() => worktree_of(&dot_git).unwrap_or_else(|| root.to_owned()),
        _ => root.to_owned(),
    }
}

/// The repository whose worktree this `.git` file marks, if the repository says so too.
fn worktree_of(dot_git: &Path) -> Option<PathBuf> {
    let pointer = read_pointer(dot_git)?;
    let named = pointer.strip_prefix("gitdir:")?.trim();
    let git_dir = dot_git.parent()?.join(named).canonicalize().ok()?;
    let back = git_dir.join(read_pointer(&git_dir.join("gitdir"))?);
    if back.canonicalize().ok()? != dot_git {
        return None;
    }
    let common = git_dir.join(read_pointer(&git_dir.join("commondir"))?);
    let common = common.canonicalize().ok()?;
    // Anybody can make a folder that points both ways; only the repository's own list counts.
    (git_dir.parent()? == common.join("worktrees")).then_some(common)
}

/// The line in one of git's pointer files.
fn read_pointer(path: &Path) -> Option<String> {
    let found = std::fs::symlink_metadata(path).ok()?;
    // Not followed: a link could make another repository's pointer this folder's own.
    if !found.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(POINTER_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    Some(text.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests;
