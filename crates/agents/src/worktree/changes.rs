//! What differs between a commit and the files of a worktree, whatever its index says.
//!
//! Invariant: a changed file is seen even if the agent told git to overlook it, and a file that git
//! does not know is seen unless it is ignored.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use countersign_core::event::Worktree;
use countersign_core::limits;

use super::WorktreeError;
use super::git::{GitCommand, RepositoryPaths};
use super::include::records;
use super::scratch_git_dir::ScratchGitDir;

/// The empty file's ids, by kind of id.
const EMPTY: [&str; 2] = [
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
];

/// How a worktree stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeStatus {
    /// The branch that is checked out; `None` where a commit is.
    pub branch: Option<String>,
    /// The commit that is checked out.
    pub head: String,
    /// Commits since the worktree's base.
    pub commits: u64,
    /// Files that are changed and not committed, or not known to git. Sorted.
    pub uncommitted: Vec<String>,
    /// Whether there are more such files than are named.
    pub more: bool,
}

/// How a worktree stands.
pub async fn status(worktree: &Worktree) -> Result<WorktreeStatus, WorktreeError> {
    let place = WorktreeCheckout::find(worktree).await?;
    place.status(&worktree.base).await
}

/// A worktree that is there, and what git knows of it.
pub(super) struct WorktreeCheckout {
    pub(super) repository: RepositoryPaths,
    pub(super) path: PathBuf,
    pub(super) admin: PathBuf,
}

impl WorktreeCheckout {
    pub(super) async fn find(worktree: &Worktree) -> Result<Self, WorktreeError> {
        let repository = RepositoryPaths::find(Path::new(&worktree.repository)).await?;
        let path = PathBuf::from(&worktree.path);
        let admin = repository.admin_folder(&path)?;
        if !path.is_dir() {
            return Err(WorktreeError::Unknown { path });
        }
        Ok(Self {
            repository,
            path,
            admin,
        })
    }

    pub(super) async fn status(&self, base: &str) -> Result<WorktreeStatus, WorktreeError> {
        let (head, branch) = self.head().await?;
        let range = format!("{base}..{head}");
        let count = self.repository.git("count the commits");
        let count = count
            .args(["rev-list", "--count", &range, "--"])
            .run()
            .await?;
        let count = String::from_utf8_lossy(&count.bytes)
            .trim()
            .parse()
            .unwrap_or(0);
        let (uncommitted, more) = self.uncommitted(&head).await?;
        Ok(WorktreeStatus {
            branch,
            head,
            commits: count,
            uncommitted,
            more,
        })
    }

    /// The commit and the branch that are checked out.
    async fn head(&self) -> Result<(String, Option<String>), WorktreeError> {
        let list = self.repository.git("list the worktrees");
        let list = list
            .args(["worktree", "list", "--porcelain", "-z"])
            .read()
            .await?;
        let list = String::from_utf8_lossy(&list).into_owned();
        let wanted = format!("worktree {}", self.path.display());
        let mut lines = list.split('\0').skip_while(|line| *line != wanted);
        lines.next();
        let (mut head, mut branch) = (None, None);
        for line in lines.take_while(|line| !line.is_empty()) {
            if let Some(id) = line.strip_prefix("HEAD ") {
                head = Some(id.to_owned());
            }
            if let Some(name) = line.strip_prefix("branch refs/heads/") {
                branch = Some(name.to_owned());
            }
        }
        let head = head.ok_or_else(|| WorktreeError::unknown(&self.path))?;
        Ok((head, branch))
    }

    /// Files that would be lost with the worktree: changed, unknown, or staged otherwise.
    async fn uncommitted(&self, head: &str) -> Result<(Vec<String>, bool), WorktreeError> {
        let compared = self.compare_with(head).await?;
        let call = compared.aside.git("compare the files").args(["diff"]);
        let changed = names(call, head).run().await?;
        let changed = changed.succeeded("compare the files")?;
        let staged = self
            .staged(&compared.aside, head, "--diff-filter=ACDMRTUX")
            .await?;
        let mut files: BTreeSet<String> = compared.repositories.iter().cloned().collect();
        files.extend(records(&changed.bytes).chain(records(&staged)).map(lossy));
        let more = compared.cut || changed.cut || files.len() > limits::WORKTREE_FILES_SHOWN;
        Ok((
            files
                .into_iter()
                .take(limits::WORKTREE_FILES_SHOWN)
                .collect(),
            more,
        ))
    }

    /// What the agent's own index holds that the commit does not. An index that cannot be read
    /// holds nothing that could be lost.
    async fn staged(
        &self,
        aside: &ScratchGitDir,
        commit: &str,
        filter: &str,
    ) -> Result<Vec<u8>, WorktreeError> {
        let call = aside.git_with_index("read the index", &self.admin.join("index"));
        let call = call.args(["diff", "--cached", filter]);
        let printed = names(call, commit).run().await?;
        Ok(if printed.code == Some(0) {
            printed.bytes
        } else {
            Vec::new()
        })
    }

    /// A git directory of our own whose index holds the commit and every other file of the worktree
    /// that git would take in.
    pub(super) async fn compare_with(&self, commit: &str) -> Result<FileComparison, WorktreeError> {
        // Not the worktree's own index: an agent can mark files in it as unchanged.
        let aside = ScratchGitDir::new(&self.repository, &self.path).await?;
        aside.begin_from(commit).await?;
        let others = aside.git("look for new files");
        let others = others
            .args(["ls-files", "-z", "--others", "--exclude-standard"])
            .run()
            .await?;
        let others = others.succeeded("look for new files")?;
        // Files that were taken in although they are ignored.
        let staged = self.staged(&aside, commit, "--diff-filter=A").await?;
        let mut compared = FileComparison {
            aside,
            repositories: Vec::new(),
            cut: others.cut,
        };
        let mut files: BTreeSet<&[u8]> = records(&staged).collect();
        for record in records(whole(&others.bytes, others.cut)) {
            // Git lists a repository inside the worktree as a folder, and does not look into it.
            if record.ends_with(b"/") {
                compared.repositories.push(lossy(record));
            } else {
                files.insert(record);
            }
        }
        compared
            .add_to_index(&files, self.repository.sha256)
            .await?;
        Ok(compared)
    }
}

/// See [`WorktreeCheckout::compare_with`].
pub(super) struct FileComparison {
    pub(super) aside: ScratchGitDir,
    /// Repositories of their own inside the worktree.
    pub(super) repositories: Vec<String>,
    /// Whether there are more files than were looked at.
    pub(super) cut: bool,
}

impl FileComparison {
    /// Puts names into the index, without reading the files: what is not there any more when they are
    /// compared does no harm.
    async fn add_to_index(
        &self,
        files: &BTreeSet<&[u8]>,
        sha256: bool,
    ) -> Result<(), WorktreeError> {
        let mut lines = Vec::new();
        for file in files {
            lines
                .extend_from_slice(format!("100644 {} 0\t", EMPTY[usize::from(sha256)]).as_bytes());
            lines.extend_from_slice(file);
            lines.push(0);
        }
        let call = self.aside.git("take in the new files");
        let call = call.args(["update-index", "-z", "--add", "--replace", "--index-info"]);
        call.input(lines).read().await?;
        // Looks at every file once, so that later calls need not. It fails where files differ.
        let call = self.aside.git("look at the files");
        call.args(["update-index", "-q", "--refresh"])
            .run()
            .await
            .map(drop)
    }
}

/// The names of the files that a `diff` finds.
fn names(call: GitCommand, commit: &str) -> GitCommand {
    call.args([
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        // Looking into a submodule would run git with that repository's configuration.
        "--ignore-submodules=dirty",
    ])
    .args(["--no-renames", "--name-only", "-z", commit, "--"])
}

/// Without a last record that was cut off.
pub(super) fn whole(bytes: &[u8], cut: bool) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|&byte| byte == 0)
        .map_or(0, |at| at + 1);
    if cut { &bytes[..end] } else { bytes }
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
