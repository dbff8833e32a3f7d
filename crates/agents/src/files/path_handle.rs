//! Handles that only say where something is, and what they resolve to.
//!
//! Invariant: making one has no effect on what it names, be it a pipe or a device.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat, accessat, fstat, openat};
use rustix::io::Errno;

use super::FileError;

/// A name that was resolved, links followed.
#[derive(Debug)]
pub(super) struct PathHandle {
    pub(super) handle: OwnedFd,
    pub(super) real: PathBuf,
    pub(super) stat: Stat,
}

impl PathHandle {
    /// Nothing if there is no such thing.
    pub(super) fn find(path: &Path) -> Result<Option<Self>, FileError> {
        let resolved = match open_handle(path) {
            Err(Errno::NOENT) => return Ok(None),
            // A part of the path is a file, or goes in circles.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(FileError::NotRegular { path: path.into() });
            }
            looked => looked.map_err(io::Error::from).and_then(Self::resolve),
        };
        let place = resolved.map_err(|source| FileError::Failed {
            what: "open",
            path: path.into(),
            source,
        })?;
        // What was deleted has no place any more.
        Ok((place.stat.st_nlink > 0).then_some(place))
    }

    fn resolve(handle: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            real: find_real_path(&handle)?,
            stat: fstat(&handle)?,
            handle,
        })
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Whether the very file may be opened so. It is not opened for that: when a process closes a file, all its locks
    /// on it are gone, and the file could be the host's record.
    pub(super) fn check_access(&self, access: Access) -> rustix::io::Result<()> {
        accessat(CWD, handle_path(&self.handle), access, AtFlags::empty())
    }

    /// Opens the very file, whatever its name has become.
    pub(super) fn reopen(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        // Opening cannot wait, although a regular file would not let it.
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        openat(CWD, handle_path(&self.handle), flags, Mode::empty())
    }
}

/// Links of `/proc` that lead to what another process has open are not followed.
#[cfg(target_os = "linux")]
fn open_handle(path: &Path) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};

    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        // Kernels before 5.6 do not have it, and some sandboxes forbid it.
        Err(Errno::NOSYS | Errno::PERM) => openat(CWD, path, flags, Mode::empty()),
        looked => looked,
    }
}

#[cfg(target_os = "linux")]
pub(super) fn find_real_path(handle: impl AsFd) -> io::Result<PathBuf> {
    std::fs::read_link(handle_path(handle))
}

#[cfg(target_os = "linux")]
fn handle_path(handle: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd()).into()
}

/// There is no handle without effect here; this one at least does not wait.
#[cfg(not(target_os = "linux"))]
fn open_handle(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn find_real_path(handle: impl AsFd) -> io::Result<PathBuf> {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let path = rustix::fs::getpath(handle)?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

#[cfg(not(target_os = "linux"))]
fn handle_path(handle: impl AsFd) -> PathBuf {
    format!("/dev/fd/{}", handle.as_fd().as_raw_fd()).into()
}
