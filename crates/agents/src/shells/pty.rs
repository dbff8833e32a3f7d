//! A screen for a command that wants one.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::PtySize;

#[cfg(target_os = "linux")]
const OPEN: OpenptFlags = OpenptFlags::RDWR
    .union(OpenptFlags::NOCTTY)
    .union(OpenptFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const OPEN: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY);

/// Our end, and the command's.
pub(super) fn open(size: PtySize) -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(OPEN)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = openat(CWD, path, flags, Mode::empty())?;
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size)?;
    Ok((ours, theirs))
}
