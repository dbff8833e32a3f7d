//! Writing text.
//!
//! Invariants: everything happens relative to a folder handle that was judged, so that a renamed or
//! linked path changes nothing; a reader sees the old text or the new, never a part.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use countersign_core::limits;
use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fsync, mkdirat,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::path_handle::{PathHandle, find_real_path};
use super::read::check_size;
use super::{FileError, FileRoots};

mod conditional;

pub use conditional::{ExpectedFile, RewrittenFile};
pub(super) use conditional::{content_digest, write_if_expected};

/// A file that may be written, and that may not be there yet.
#[derive(Debug)]
pub struct WriteTarget {
    /// The nearest folder that is there, and where it was when it was judged.
    folder: OwnedFd,
    folder_real: PathBuf,
    /// Folders to create in it.
    missing: Vec<OsString>,
    name: OsString,
    /// What the file is like, if there is one.
    earlier: Option<Stat>,
    real: PathBuf,
}

impl WriteTarget {
    /// Where the file truly is, or will be. Judge this before anything is written.
    pub fn real_path(&self) -> &Path {
        &self.real
    }

    /// Whether there is a file already.
    pub fn exists(&self) -> bool {
        self.earlier.is_some()
    }
}

/// Finds where a file inside the roots is to be written. Changes nothing.
pub fn open_for_write(path: &Path, roots: &FileRoots) -> Result<WriteTarget, FileError> {
    if !path.is_absolute() {
        return Err(FileError::BadPath { path: path.into() });
    }
    match PathHandle::find(path)? {
        Some(place) => target_existing(path, &place, roots),
        None => target_new(path, roots),
    }
}

fn target_existing(
    path: &Path,
    place: &PathHandle,
    roots: &FileRoots,
) -> Result<WriteTarget, FileError> {
    roots.check(&place.real)?;
    if place.kind() != FileType::RegularFile {
        return Err(FileError::NotRegular { path: path.into() });
    }
    // Replacing a file asks only for the right to change its folder, so the right to write the file
    // is asked for apart.
    place
        .check_access(Access::WRITE_OK)
        .map_err(|error| cannot("write", path, error))?;
    let name = name_of(&place.real)?;
    let folder = find_folder(place.real.parent().unwrap_or(Path::new("/")))?;
    // Between resolving the file and opening its folder either may have been replaced. What is replaced
    // below must be the very file that was judged, by device and inode.
    let found = statat(&folder.handle, &name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| cannot("write", path, error))?;
    let same = (found.st_dev, found.st_ino) == (place.stat.st_dev, place.stat.st_ino);
    if !same || folder.real.join(&name) != place.real {
        return Err(FileError::Moved {
            path: place.real.clone(),
        });
    }
    Ok(WriteTarget {
        folder: folder.handle,
        folder_real: folder.real,
        missing: Vec::new(),
        name,
        earlier: Some(place.stat),
        real: place.real.clone(),
    })
}

fn target_new(path: &Path, roots: &FileRoots) -> Result<WriteTarget, FileError> {
    // A link to nothing would be followed by whoever opens it, and replaced by us.
    if path.symlink_metadata().is_ok() {
        return Err(FileError::NotRegular { path: path.into() });
    }
    let name = name_of(path)?;
    let mut missing = Vec::new();
    let mut above = path.parent();
    let folder = loop {
        let Some(candidate) = above else {
            return Err(FileError::BadPath { path: path.into() });
        };
        if let Some(place) = PathHandle::find(candidate)? {
            break place;
        }
        missing.insert(0, name_of(candidate)?);
        above = candidate.parent();
    };
    if folder.kind() != FileType::Directory || missing.len() > limits::AGENT_NEW_FOLDERS_MAX {
        return Err(FileError::BadPath { path: path.into() });
    }
    let real = missing
        .iter()
        .fold(folder.real.clone(), |at, name| at.join(name));
    let real = real.join(&name);
    // The folders between do not exist yet. If one of them becomes a link meanwhile, `enter_new` does not
    // follow it.
    roots.check(&real)?;
    Ok(WriteTarget {
        folder: folder.handle,
        folder_real: folder.real,
        missing,
        name,
        earlier: None,
        real,
    })
}

/// The last part, which must be a name: what is above a folder that is not there is nowhere.
fn name_of(path: &Path) -> Result<OsString, FileError> {
    match path.components().next_back() {
        Some(Component::Normal(name)) => Ok(name.to_owned()),
        _ => Err(FileError::BadPath { path: path.into() }),
    }
}

fn find_folder(path: &Path) -> Result<PathHandle, FileError> {
    PathHandle::find(path)?.ok_or_else(|| FileError::NotFound { path: path.into() })
}

/// Replaces the file as a whole, durably. Keeps its mode; creates the folders that are missing.
pub fn write_text(target: &WriteTarget, content: &str) -> Result<(), FileError> {
    check_size(&target.real, content.len() as u64)?;
    // The handle stays valid when the folder is moved, possibly out of the agent's roots.
    let real =
        find_real_path(&target.folder).map_err(|source| failed("write", &target.real, source))?;
    if real != target.folder_real {
        return Err(FileError::Moved {
            path: target.real.clone(),
        });
    }
    replace(target, content).map_err(|source| failed("write", &target.real, source))
}

fn replace(target: &WriteTarget, content: &str) -> io::Result<()> {
    // Opened again, because the handle that was judged only names the folder and cannot be flushed.
    let mut folder = open_folder(&target.folder, OsStr::new("."))?;
    for name in &target.missing {
        folder = enter_new(&folder, name)?;
    }
    let draft = draft_name()?;
    let written = write_draft(&folder, &draft, target, content)
        .and_then(|()| Ok(renameat(&folder, &draft, &folder, &target.name)?));
    if written.is_err() {
        // It may never have been made.
        let _ = unlinkat(&folder, &draft, AtFlags::empty());
    }
    written?;
    // Without it a loss of power could bring the old file back after we reported the new one.
    Ok(fsync(&folder)?)
}

fn open_folder(above: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::empty())
}

/// Somebody may have made it meanwhile; a link in its place is not followed.
fn enter_new(above: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(open_folder(above, name)?),
        Err(error) => Err(error.into()),
    }
}

fn write_draft(
    folder: &OwnedFd,
    draft: &str,
    target: &WriteTarget,
    content: &str,
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A new file gets what the agent's own programs would give it; an existing one keeps its own.
    let mode = if target.exists() { 0o600 } else { 0o666 };
    let mut file = File::from(openat(folder, draft, flags, Mode::from_raw_mode(mode))?);
    file.write_all(content.as_bytes())?;
    // Rights are given only after the text is there, so that nobody new can read it half written.
    if let Some(earlier) = &target.earlier {
        keep_rights(&file, earlier)?;
    }
    file.sync_all()
}

/// The owner stays too where we may let it. Running as its owner does not: the text is another.
fn keep_rights(file: &File, earlier: &Stat) -> io::Result<()> {
    let owner = Some(Uid::from_raw(earlier.st_uid));
    let _ = fchown(file, owner, Some(Gid::from_raw(earlier.st_gid)));
    let mode = Mode::from_raw_mode(earlier.st_mode & 0o777);
    Ok(fchmod(file, mode)?)
}

fn draft_name() -> io::Result<String> {
    // Random, so that two writers in the same folder do not use the same draft.
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!(".countersign-{:016x}", u64::from_ne_bytes(bytes)))
}

fn cannot(what: &'static str, path: &Path, error: Errno) -> FileError {
    failed(what, path, error.into())
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> FileError {
    FileError::Failed {
        what,
        path: path.into(),
        source,
    }
}
