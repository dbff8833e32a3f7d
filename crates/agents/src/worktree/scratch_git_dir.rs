//! A git directory of our own, beside the repository's: its objects, and nothing else of it.
//!
//! Whatever compares or writes files of a worktree goes through here, because there the
//! repository's configuration (filters, hooks, drivers), its attributes outside the tree and its
//! index do not exist. Only a few settings without power are taken over. Filters of the person's own
//! configuration still count; those of the repository's do not, so what they would turn into
//! something else stays as it is stored.
//!
//! Invariant: nothing is written to the repository, except the index that is named.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::WorktreeError;
use super::git::{GitCommand, RepositoryPaths};

/// Settings that say how files lie on the disk.
const TAKEN_OVER: &str = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode)$";

/// See the module.
pub(super) struct ScratchGitDir {
    folder: PathBuf,
    tree: PathBuf,
}

impl ScratchGitDir {
    /// One for the files under `tree`.
    pub(super) async fn new(
        repository: &RepositoryPaths,
        tree: &Path,
    ) -> Result<Self, WorktreeError> {
        let settings = repository
            .git("read the configuration")
            .args(["config", "-z", "--get-regexp", TAKEN_OVER])
            .run()
            .await?;
        let config = config(repository.sha256, &settings.bytes);
        Self::make(repository, tree, &config)
            .map_err(|source| WorktreeError::io("make a git directory of our own", source))
    }

    fn make(repository: &RepositoryPaths, tree: &Path, config: &str) -> std::io::Result<Self> {
        let made = Self {
            folder: make_folder()?,
            tree: tree.to_owned(),
        };
        made.fill(repository, config)?;
        Ok(made)
    }

    fn fill(&self, repository: &RepositoryPaths, config: &str) -> std::io::Result<()> {
        let objects = repository.common.join("objects");
        fs::create_dir_all(self.folder.join("objects/info"))?;
        fs::create_dir_all(self.folder.join("refs"))?;
        fs::create_dir_all(self.folder.join("info"))?;
        // Git takes a folder for a git directory only if it has a HEAD; this branch never exists.
        fs::write(self.folder.join("HEAD"), "ref: refs/heads/none\n")?;
        fs::write(self.folder.join("config"), config)?;
        let alternates = format!("{}\n", objects.display());
        fs::write(self.folder.join("objects/info/alternates"), alternates)?;
        // A list of patterns has no power to run anything, and without it ignored files would seem
        // new.
        if let Ok(exclude) = fs::read(repository.common.join("info/exclude")) {
            fs::write(self.folder.join("info/exclude"), exclude)?;
        }
        Ok(())
    }

    /// A call that sees the files with an index of our own.
    pub(super) fn git(&self, what: &'static str) -> GitCommand {
        GitCommand::new(what, &self.tree)
            .env("GIT_DIR", &self.folder)
            .env("GIT_WORK_TREE", &self.tree)
            .env("GIT_ATTR_NOSYSTEM", "1")
    }

    /// A call that reads or writes the index of a real worktree.
    pub(super) fn git_with_index(&self, what: &'static str, index: &Path) -> GitCommand {
        self.git(what).env("GIT_INDEX_FILE", index)
    }

    /// Makes the index of our own that of a commit, with nothing known about the files: what an
    /// agent wrote into its index hides nothing.
    pub(super) async fn begin_from(&self, commit: &str) -> Result<(), WorktreeError> {
        let call = self
            .git("read the commit")
            .args(["read-tree", "--reset", commit]);
        call.read().await.map(drop)
    }

    /// A file beside the index, for what git takes from files.
    pub(super) fn scratch(&self, name: &str, text: &[u8]) -> Result<PathBuf, WorktreeError> {
        let path = self.folder.join(name);
        fs::write(&path, text)
            .map_err(|source| WorktreeError::io("write beside the index", source))?;
        Ok(path)
    }
}

impl Drop for ScratchGitDir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// A folder nobody else had, for us only.
fn make_folder() -> std::io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("countersign-git-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// The configuration: our own lines, and settings of the repository whose value is a plain word.
fn config(sha256: bool, settings: &[u8]) -> String {
    let mut text = String::from("[core]\n\trepositoryformatversion = 1\n\tbare = false\n");
    for setting in settings.split(|&byte| byte == 0) {
        let setting = String::from_utf8_lossy(setting);
        let Some((name, value)) = setting.split_once('\n') else {
            continue;
        };
        // A value with other characters could add lines of its own to the file.
        let plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if let Some(name) = name.strip_prefix("core.").filter(|_| plain) {
            text.extend(["\t", name, " = ", value, "\n"]);
        }
    }
    if sha256 {
        text.push_str("[extensions]\n\tobjectFormat = sha256\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_settings_are_taken_over() {
        let settings =
            b"core.filemode\nfalse\0core.eol\nlf\"\n[filter \"x\"]\0core.symlinks\ntrue\0";
        assert_eq!(
            config(true, settings),
            "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tfilemode = false\n\
             \tsymlinks = true\n[extensions]\n\tobjectFormat = sha256\n"
        );
    }
}
