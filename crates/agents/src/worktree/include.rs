//! Copying what `.worktreeinclude` names: files that git ignores and an agent still needs.
//!
//! Invariants: only files that git ignores are copied, only regular ones, and nothing is reached or
//! written through a symbolic link; nothing in the worktree is overwritten; there is a bound on how
//! many files and bytes are copied.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use countersign_core::limits;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

use super::WorktreeError;
use super::git::RepositoryPaths;
use super::scratch_git_dir::ScratchGitDir;

const FILE_NAME: &str = ".worktreeinclude";

/// Copies from the checkout that was asked from into the worktree at `to`.
pub(super) async fn copy(repository: &RepositoryPaths, to: &Path) -> Result<(), WorktreeError> {
    let Some(patterns) = patterns(&repository.top)? else {
        return Ok(());
    };
    let files = named(repository, &patterns).await?;
    if files.is_empty() {
        return Ok(());
    }
    let (from, to) = (repository.top.clone(), to.to_owned());
    let copied = tokio::task::spawn_blocking(move || copy_all(&from, &to, &files)).await;
    copied.unwrap_or_else(|_| Err(copy_error(io::Error::other("it was given up"))))
}

fn patterns(top: &Path) -> Result<Option<Vec<u8>>, WorktreeError> {
    let root = open_folder(top).map_err(read_error)?;
    let file = match open_file(&root, Path::new(FILE_NAME)) {
        Ok(Some((file, _))) => file,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(error)),
    };
    let mut text = Vec::new();
    let room = u64::try_from(limits::WORKTREE_INCLUDE_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(room + 1)
        .read_to_end(&mut text)
        .map_err(read_error)?;
    if text.len() > limits::WORKTREE_INCLUDE_BYTES_MAX {
        return Err(too_much("the file itself is too large"));
    }
    Ok(Some(text))
}

fn read_error(source: io::Error) -> WorktreeError {
    WorktreeError::io("read `.worktreeinclude`", source)
}

fn copy_error(source: io::Error) -> WorktreeError {
    WorktreeError::io("copy what `.worktreeinclude` names", source)
}

fn too_much(what: impl Into<String>) -> WorktreeError {
    WorktreeError::IncludesTooMuch { what: what.into() }
}

/// The files that the patterns name and git ignores, relative to the root.
async fn named(
    repository: &RepositoryPaths,
    patterns: &[u8],
) -> Result<Vec<PathBuf>, WorktreeError> {
    let aside = ScratchGitDir::new(repository, &repository.top).await?;
    let patterns = aside.scratch("include", patterns)?;
    let index = repository.git("find the index").args([
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "index",
    ]);
    let index = PathBuf::from(index.line().await?);
    let mut exclude = std::ffi::OsString::from("--exclude-from=");
    exclude.push(patterns);
    let listed = aside
        .git_with_index("list what `.worktreeinclude` names", &index)
        .args(["ls-files", "-z", "--others", "--ignored"])
        .args([exclude])
        .run()
        .await?
        .succeeded("list what `.worktreeinclude` names")?;
    if listed.cut {
        return Err(too_much("there are too many files"));
    }
    let ignored = aside
        .git_with_index("see which of them git ignores", &index)
        // This one takes names only, and refuses to be told so.
        .env("GIT_LITERAL_PATHSPECS", "0")
        .args(["check-ignore", "-z", "--stdin"])
        .input(listed.bytes)
        .run()
        .await?;
    // 1 says that none of them is.
    if ignored.code == Some(1) {
        return Ok(Vec::new());
    }
    let ignored = ignored.succeeded("see which of them git ignores")?;
    let files: Vec<PathBuf> = records(&ignored.bytes).map(path).collect();
    if ignored.cut || files.len() > limits::WORKTREE_INCLUDE_FILES_MAX {
        return Err(too_much(format!(
            "at most {} files",
            limits::WORKTREE_INCLUDE_FILES_MAX
        )));
    }
    Ok(files)
}

/// What `-z` separates.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|&byte| byte == 0)
        .filter(|record| !record.is_empty())
}

pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

fn copy_all(from: &Path, to: &Path, files: &[PathBuf]) -> Result<(), WorktreeError> {
    let (from, to) = (
        open_folder(from).map_err(copy_error)?,
        open_folder(to).map_err(copy_error)?,
    );
    let mut left = limits::WORKTREE_INCLUDE_TOTAL_BYTES_MAX;
    for file in files {
        left = copy_one(&from, &to, file, left)
            .map_err(copy_error)?
            .ok_or_else(|| {
                too_much(format!(
                    "at most {} bytes",
                    limits::WORKTREE_INCLUDE_TOTAL_BYTES_MAX
                ))
            })?;
    }
    Ok(())
}

/// How many bytes are left to copy after this file; `None` if it does not fit.
fn copy_one(from: &OwnedFd, to: &OwnedFd, file: &Path, left: u64) -> io::Result<Option<u64>> {
    let (source, mode) = match open_file(from, file) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Some(left)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(left)),
        Err(error) => return Err(error),
    };
    // Created exclusively: the checkout may have a file of that name, which stays.
    let mut target = match create_file(to, file, mode) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Some(left)),
        Err(error) => return Err(error),
    };
    // One byte more than may be copied, so that a file that is too long shows.
    let copied = io::copy(&mut source.take(left.saturating_add(1)), &mut target)?;
    Ok(left.checked_sub(copied))
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// A regular file below `root`, reached through real folders only, with its mode; `None` for anything
/// else. The name is checked on the opened file, so that nothing can be put in its place.
fn open_file(root: &OwnedFd, path: &Path) -> io::Result<Option<(File, Mode)>> {
    let Some((folder, name)) = walk(root, path, MissingFolder::Fails)? else {
        return Ok(None);
    };
    // Opening a pipe would wait for its other end, and a link could lead out of the repository.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    let regular =
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
    Ok(regular.then(|| (File::from(file), Mode::from_raw_mode(stat.st_mode))))
}

fn create_file(root: &OwnedFd, path: &Path, mode: Mode) -> io::Result<File> {
    // The same error as for a file that is there: neither is copied, and both are passed over.
    let (folder, name) =
        walk(root, path, MissingFolder::IsMade)?.ok_or(io::ErrorKind::AlreadyExists)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Without the bits that change whose rights a program gets.
    let plain = Mode::RWXU | Mode::RWXG | Mode::RWXO;
    Ok(File::from(rustix::fs::openat(
        &folder,
        name,
        flags,
        mode & plain,
    )?))
}

#[derive(Clone, Copy)]
enum MissingFolder {
    Fails,
    IsMade,
}

/// The folder of a file, opened one component after the other without following links, and the
/// file's name. `None` where a component is a link, a file, or `..`.
fn walk<'a>(
    root: &OwnedFd,
    path: &'a Path,
    missing: MissingFolder,
) -> io::Result<Option<(OwnedFd, &'a std::ffi::OsStr)>> {
    let mut folder = root.try_clone()?;
    let mut rest = path.components().peekable();
    while let Some(component) = rest.next() {
        let Component::Normal(name) = component else {
            return Ok(None);
        };
        if rest.peek().is_none() {
            return Ok(Some((folder, name)));
        }
        if matches!(missing, MissingFolder::IsMade) {
            match rustix::fs::mkdirat(&folder, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        folder = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(None)
}
