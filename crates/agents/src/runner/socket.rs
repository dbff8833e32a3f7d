//! The socket of a runner: bound where it can be, and bound again if it vanishes.
//!
//! Invariants: its folder is ours, real and closed to others; nobody else can connect.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

#[derive(Debug)]
pub(crate) struct RunnerSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Its device and its number there.
    place: (u64, u64),
}

impl RunnerSocket {
    /// Binds the first path that can be bound. Fails with the reason for each.
    pub(crate) fn bind(paths: &[PathBuf]) -> Result<Self, String> {
        let mut reason = Vec::new();
        for path in paths {
            match Self::bind_at(path) {
                Ok(socket) => return Ok(socket),
                Err(error) => reason.push(format!("`{}`: {error}", path.display())),
            }
        }
        Err(format!("no socket could be made: {}", reason.join("; ")))
    }

    fn bind_at(path: &Path) -> io::Result<Self> {
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        // Whoever could write to the folder could put a socket of their own in our place.
        check_folder(folder)?;
        remove_old(path)?;
        let listener = UnixListener::bind(path)?;
        // The folder already keeps others out, so that the moment before this does no harm.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let place = find_place(path)?;
        let path = path.to_owned();
        Ok(Self {
            listener,
            path,
            place,
        })
    }

    /// Whether somebody who knows the path still finds it.
    pub(crate) fn is_there(&self) -> bool {
        find_place(&self.path).is_ok_and(|place| place == self.place)
    }

    /// Takes it away, unless it is another's by now.
    pub(crate) fn remove(&self) {
        if self.is_there() {
            drop(fs::remove_file(&self.path));
        }
    }
}

fn find_place(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// One that was left by a runner of the same run; anything else stays.
fn remove_old(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn check_folder(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !ours || found.mode() & 0o077 != 0 {
        let reason = format!("`{}` is not a folder for us alone", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(())
}
