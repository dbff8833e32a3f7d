//! A file that a program of a sandbox wants to write, or a folder that it wants to make, outside of its roots.
//!
//! What the program named is read once and looked up in the program's own view. What was found there is opened
//! outside, without following any link, and has to be the same file. That handle is what is judged, and what is
//! opened once it was allowed.
//!
//! Invariants: nothing is created or changed before it was allowed; what the program does to its memory or to links
//! afterwards changes nothing.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use libc::c_long;
use rustix::fs::{
    Access, CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, mkdirat, open, openat,
    openat2, readlink,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::syscall_notices::{SyscallNotice, read_memory};
use crate::write_boundary::{PathPlace, WriteBoundary};

/// What the kernel takes for a path.
const PATH_BYTES_MAX: usize = 4096;
/// Most paths are shorter.
const PATH_BYTES_USUAL: usize = 256;
/// The oldest form of what `openat2` is given: flags, mode and ways to resolve.
const OPEN_HOW_BYTES: usize = 24;
/// As much of a command line as a person reads.
const COMMAND_BYTES_MAX: u64 = 2048;

/// What an open may ask for when it is repeated outside.
const FLAGS_REPEATED: OFlags = OFlags::RDONLY
    .union(OFlags::WRONLY)
    .union(OFlags::RDWR)
    .union(OFlags::APPEND)
    .union(OFlags::TRUNC)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC);

/// What would be opened or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenKind {
    File,
    Folder,
}

/// What a program asked the kernel for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenCall {
    path: PathBuf,
    /// The descriptor of the folder that a relative path begins in.
    base: i32,
    flags: OFlags,
    mode: u32,
    kind: OpenKind,
}

/// A file or a folder that waits to be judged.
#[derive(Debug)]
pub(crate) struct HeldOpen {
    /// What is judged: the path of the handle, with the name of what is to be created.
    pub(crate) path: String,
    pub(crate) kind: OpenKind,
    pub(crate) command: String,
    flags: OFlags,
    mode: Mode,
    target: OpenTarget,
}

#[derive(Debug)]
enum OpenTarget {
    Existing(OwnedFd),
    New { folder: OwnedFd, name: OsString },
}

impl HeldOpen {
    /// What has to be judged of a call; nothing if the kernel should perform it as it is.
    pub(crate) fn find(notice: &SyscallNotice, boundary: &WriteBoundary) -> Option<Self> {
        let call = OpenCall::read(notice)?;
        let path = call.absolute_path(notice.thread).ok()?;
        // With `..` in it, a path says nothing about its place before it was looked up: what stands
        // before the `..` may be a link.
        if is_plain(&path) {
            match boundary.place_of(&path) {
                PathPlace::Closed => return None,
                // The sandbox itself allows these, so they need no lookup. A link may lead out of
                // the root, and then the path of the file decides.
                PathPlace::Writable if !has_links(&path) => return None,
                PathPlace::Writable | PathPlace::Askable => {}
            }
        }
        call.hold(&path, notice.thread, boundary).ok()?
    }

    /// Whether the file may be passed on to programs that this one runs.
    pub(crate) fn close_on_exec(&self) -> bool {
        self.flags.contains(OFlags::CLOEXEC)
    }

    /// Opens what was judged, or makes the folder, for which there is no descriptor.
    pub(crate) fn perform(&self) -> Result<Option<OwnedFd>, Errno> {
        match (&self.target, self.kind) {
            (OpenTarget::Existing(file), _) => self.reopen(file).map(Some),
            (OpenTarget::New { folder, name }, OpenKind::File) => {
                self.check_folder(folder)?;
                self.create_file(folder, name).map(Some)
            }
            (OpenTarget::New { folder, name }, OpenKind::Folder) => {
                self.check_folder(folder)?;
                self.create_folder(folder, name)?;
                Ok(None)
            }
        }
    }

    fn reopen(&self, file: &OwnedFd) -> Result<OwnedFd, Errno> {
        check_path(file, Path::new(&self.path))?;
        // By its handle, so that no path is looked up again.
        open(descriptor_path(file), self.flags_repeated(), Mode::empty())
    }

    fn flags_repeated(&self) -> OFlags {
        // `CLOEXEC` is for this process, which keeps its copy to itself. The copy of the program
        // gets the program's own flag when it is passed on.
        (self.flags & FLAGS_REPEATED) | OFlags::CLOEXEC | OFlags::NOCTTY
    }

    fn create_file(&self, folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
        // With `EXCL` even if the program did not ask for it: what was judged is a path at which
        // there is nothing.
        let flags = self.flags_repeated() | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match openat(folder, name, flags, self.mode) {
            Ok(file) => {
                // The mask of this process is another one than the program's.
                fchmod(&file, self.mode)?;
                Ok(file)
            }
            // Somebody else was allowed to make it meanwhile, or made it.
            Err(Errno::EXIST) if !self.flags.contains(OFlags::EXCL) => {
                let file = openat(folder, name, OFlags::PATH | NEVER_FOLLOW, Mode::empty())?;
                // Only a handle until here: opening a pipe or a device can block or have effects of its own.
                if !is_regular(&file)? {
                    return Err(Errno::ACCESS);
                }
                self.reopen(&file)
            }
            Err(error) => Err(error),
        }
    }

    fn create_folder(&self, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        mkdirat(folder, name, self.mode)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | NEVER_FOLLOW;
        // As with files, the mask of this process may have removed bits that the program's would not.
        fchmod(openat(folder, name, flags, Mode::empty())?, self.mode)
    }

    /// The folder is where it was when it was judged.
    fn check_folder(&self, folder: &OwnedFd) -> Result<(), Errno> {
        let expected = Path::new(&self.path).parent().ok_or(Errno::ACCESS)?;
        check_path(folder, expected)
    }
}

fn check_path(handle: &OwnedFd, expected: &Path) -> Result<(), Errno> {
    match real_path(handle) {
        Ok(path) if path == expected => Ok(()),
        _ => Err(Errno::ACCESS),
    }
}

const NEVER_FOLLOW: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

impl OpenCall {
    /// Reads a call, whose path is behind a pointer. Nothing if it writes nothing, or cannot be judged.
    fn read(notice: &SyscallNotice) -> Option<Self> {
        let arguments = &notice.arguments;
        let creates = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC;
        let (base, path, flags, mode) = match RecognizedCall::of(notice.number)? {
            RecognizedCall::Open => (
                libc::AT_FDCWD,
                arguments[0],
                to_flags(arguments[1]),
                arguments[2],
            ),
            RecognizedCall::Create => (libc::AT_FDCWD, arguments[0], creates, arguments[1]),
            RecognizedCall::OpenAt => (
                to_descriptor(arguments[0]),
                arguments[1],
                to_flags(arguments[2]),
                arguments[3],
            ),
            RecognizedCall::OpenAt2 => {
                let (flags, mode) = read_open_how(notice)?;
                (to_descriptor(arguments[0]), arguments[1], flags, mode)
            }
            RecognizedCall::MakeFolder => {
                return Self::folder(notice, libc::AT_FDCWD, arguments[0], arguments[1]);
            }
            RecognizedCall::MakeFolderAt => {
                let base = to_descriptor(arguments[0]);
                return Self::folder(notice, base, arguments[1], arguments[2]);
            }
        };
        if !writes(flags) {
            return None;
        }
        Some(Self {
            path: read_path(notice.thread, path)?,
            base,
            flags,
            mode: to_mode(mode),
            kind: OpenKind::File,
        })
    }

    fn folder(notice: &SyscallNotice, base: i32, path: u64, mode: u64) -> Option<Self> {
        Some(Self {
            path: read_path(notice.thread, path)?,
            base,
            // `mkdir` fails if something is there, like an open with these flags.
            flags: OFlags::CREATE | OFlags::EXCL,
            mode: to_mode(mode),
            kind: OpenKind::Folder,
        })
    }

    fn absolute_path(&self, thread: u32) -> io::Result<PathBuf> {
        if self.path.is_absolute() {
            return Ok(self.path.clone());
        }
        // Of the thread and not of its process: a thread can have a folder and descriptors of its own.
        let base = if self.base == libc::AT_FDCWD {
            format!("/proc/{thread}/cwd")
        } else {
            format!("/proc/{thread}/fd/{}", self.base)
        };
        let base = to_path(&readlink(base, Vec::new())?);
        Ok(base.join(&self.path))
    }

    /// Looks the path up in the program's view, and opens what is there from outside.
    fn hold(
        self,
        path: &Path,
        thread: u32,
        boundary: &WriteBoundary,
    ) -> Result<Option<HeldOpen>, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = format!("/proc/{thread}/root");
        let view = ProgramView(open(root, flags | OFlags::DIRECTORY, Mode::empty())?);
        let found = match view.lookup(path, self.flags & OFlags::NOFOLLOW) {
            Ok(file) => self.existing(&file, boundary)?,
            Err(Errno::NOENT) if self.flags.contains(OFlags::CREATE) => {
                self.created(&view, path, boundary)?
            }
            Err(error) => return Err(error),
        };
        let Some((path, target)) = found else {
            return Ok(None);
        };
        let Some(path) = path.to_str().map(str::to_owned) else {
            // Rules and people read text.
            return Ok(None);
        };
        // A mask that cannot be read must not make the file readable to others.
        let mode = self.mode & !read_mask(thread).unwrap_or(0o077);
        Ok(Some(HeldOpen {
            path,
            kind: self.kind,
            command: read_command(thread),
            flags: self.flags,
            mode: Mode::from_raw_mode(mode),
            target,
        }))
    }

    /// Only files: the kernel says what is wrong with a folder, and a pipe or a device cannot be judged.
    fn existing(
        &self,
        found: &OwnedFd,
        boundary: &WriteBoundary,
    ) -> Result<Option<(PathBuf, OpenTarget)>, Errno> {
        let changes = self.flags.intersects(ACCESS_WRITES) || self.flags.contains(OFlags::TRUNC);
        let must_be_new = self.flags.contains(OFlags::CREATE | OFlags::EXCL);
        if must_be_new || !changes || !is_regular(found)? {
            return Ok(None);
        }
        let path = real_path(found)?;
        if boundary.place_of(&path) != PathPlace::Askable {
            return Ok(None);
        }
        let Some(file) = open_outside(&path, found)? else {
            return Ok(None);
        };
        // Asking would be pointless if whoever runs this may not write it either.
        let is_possible = may(&file, Access::WRITE_OK);
        Ok(is_possible.then_some((path, OpenTarget::Existing(file))))
    }

    fn created(
        &self,
        view: &ProgramView,
        path: &Path,
        boundary: &WriteBoundary,
    ) -> Result<Option<(PathBuf, OpenTarget)>, Errno> {
        let Some((folder, name)) = split_last(path, self.kind) else {
            return Ok(None);
        };
        let folder = view.lookup(folder, OFlags::DIRECTORY)?;
        // A link that leads to nothing is there all the same.
        let flags = OFlags::PATH | NEVER_FOLLOW;
        if openat(&folder, name, flags, Mode::empty()).err() != Some(Errno::NOENT) {
            return Ok(None);
        }
        let real = real_path(&folder)?;
        let path = real.join(name);
        if boundary.place_of(&path) != PathPlace::Askable {
            return Ok(None);
        }
        let Some(folder) = open_outside(&real, &folder)? else {
            return Ok(None);
        };
        let is_possible = may(&folder, Access::WRITE_OK | Access::EXEC_OK);
        let name = name.to_owned();
        Ok(is_possible.then_some((path, OpenTarget::New { folder, name })))
    }
}

/// The calls that a filter gives notice of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecognizedCall {
    Open,
    Create,
    OpenAt,
    OpenAt2,
    MakeFolder,
    MakeFolderAt,
}

impl RecognizedCall {
    fn of(number: c_long) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        match number {
            libc::SYS_open => return Some(Self::Open),
            libc::SYS_creat => return Some(Self::Create),
            libc::SYS_mkdir => return Some(Self::MakeFolder),
            _ => {}
        }
        match number {
            libc::SYS_openat => Some(Self::OpenAt),
            libc::SYS_openat2 => Some(Self::OpenAt2),
            libc::SYS_mkdirat => Some(Self::MakeFolderAt),
            _ => None,
        }
    }
}

/// The files of a program, from its root folder on.
struct ProgramView(OwnedFd);

impl ProgramView {
    fn lookup(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        // Links such as those in `/proc/PID/fd` jump to a file without a lookup, and so out of the
        // program's root.
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.0, path, flags, Mode::empty(), resolve)
    }
}

/// Opens by a path without links, from outside; nothing if that is another file than the program's.
fn open_outside(path: &Path, found: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::PATH | NEVER_FOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let outside = openat2(CWD, path, flags, Mode::empty(), resolve)?;
    // A mount of the sandbox can show another file at the same path.
    let (one, other) = (fstat(found)?, fstat(&outside)?);
    let is_same = (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
    Ok(is_same.then_some(outside))
}

const ACCESS_WRITES: OFlags = OFlags::WRONLY.union(OFlags::RDWR);

/// Whether an open can change anything that a path names.
fn writes(flags: OFlags) -> bool {
    // Such files have no name, and such handles change nothing.
    if flags.contains(OFlags::TMPFILE) || flags.intersects(OFlags::PATH | OFlags::DIRECTORY) {
        return false;
    }
    flags.intersects(ACCESS_WRITES | OFlags::CREATE | OFlags::TRUNC)
}

/// Whether a path means the same to whoever reads it and to the kernel, apart from links.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| part.as_os_str() != "..")
}

/// Looked at from outside, where a path may mean something else. That only decides whether it is looked up in the
/// program's view.
fn has_links(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let looked = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    looked.err() == Some(Errno::LOOP)
}

fn split_last(path: &Path, kind: OpenKind) -> Option<(&Path, &OsStr)> {
    let ends_with_slash = path.as_os_str().as_bytes().ends_with(b"/");
    if ends_with_slash && kind == OpenKind::File {
        return None;
    }
    // `..` at the end has no name, and `.` is left out by `Path`.
    let ends_with_dot = path.as_os_str().as_bytes().ends_with(b"/.");
    let name = path.file_name().filter(|_| !ends_with_dot)?;
    Some((path.parent()?, name))
}

fn is_regular(file: &OwnedFd) -> Result<bool, Errno> {
    let mode = fstat(file)?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::RegularFile)
}

fn may(file: &OwnedFd, access: Access) -> bool {
    rustix::fs::access(descriptor_path(file), access).is_ok()
}

fn descriptor_path(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// Where a handle is now. What was removed has a path that is not there.
fn real_path(file: &OwnedFd) -> Result<PathBuf, Errno> {
    Ok(to_path(&readlink(descriptor_path(file), Vec::new())?))
}

fn to_path(text: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(text.to_bytes()))
}

fn to_flags(argument: u64) -> OFlags {
    OFlags::from_bits_retain(lower_half(argument))
}

fn to_descriptor(argument: u64) -> i32 {
    lower_half(argument).cast_signed()
}

/// Without the bits that make a program run as its owner.
fn to_mode(argument: u64) -> u32 {
    lower_half(argument) & 0o777
}

/// All that the kernel looks at of such an argument.
fn lower_half(argument: u64) -> u32 {
    u32::try_from(argument & u64::from(u32::MAX)).unwrap_or_default()
}

/// What `openat2` is given. Nothing if it resolves in a way of its own.
fn read_open_how(notice: &SyscallNotice) -> Option<(OFlags, u64)> {
    let [.., how, size, _, _] = notice.arguments;
    // The kernel refuses a shorter one itself.
    if size < OPEN_HOW_BYTES as u64 {
        return None;
    }
    let bytes = read_memory(notice.thread, how, OPEN_HOW_BYTES).ok()?;
    let number = |at: usize| -> Option<u64> {
        let bytes = bytes.get(at..at + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (flags, mode, resolve) = (number(0)?, number(8)?, number(16)?);
    // The open is repeated outside without such restrictions, so a call that has them is left to the kernel.
    (resolve == 0).then_some((to_flags(flags), mode))
}

fn read_path(thread: u32, address: u64) -> Option<PathBuf> {
    for length in [PATH_BYTES_USUAL, PATH_BYTES_MAX] {
        let bytes = read_memory(thread, address, length).ok()?;
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            let text = OsStr::from_bytes(&bytes[..end]);
            return (end > 0).then(|| PathBuf::from(text));
        }
    }
    None
}

/// The mask for new files of a program.
fn read_mask(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// The command line of a program, as it says itself.
fn read_command(thread: u32) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{thread}/cmdline")) {
        // What cannot be read is not shown.
        drop(file.take(COMMAND_BYTES_MAX).read_to_end(&mut bytes));
    }
    let words: Vec<_> = bytes
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy)
        .collect();
    words.join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_opens_that_change_something_count() {
        let write = OFlags::WRONLY;
        for flags in [
            write,
            OFlags::RDWR,
            OFlags::CREATE,
            OFlags::TRUNC,
            write | OFlags::CREATE | OFlags::EXCL,
        ] {
            assert!(writes(flags), "{flags:?}");
        }
        for flags in [
            OFlags::RDONLY,
            OFlags::PATH | write,
            OFlags::TMPFILE | write,
            OFlags::DIRECTORY | write,
            OFlags::CLOEXEC | OFlags::NOFOLLOW,
        ] {
            assert!(!writes(flags), "{flags:?}");
        }
    }

    #[test]
    fn only_a_name_can_be_created() {
        let split = |path: &'static str, kind| split_last(Path::new(path), kind);
        let expected = Some((Path::new("/a"), OsStr::new("b")));
        assert_eq!(split("/a/b", OpenKind::File), expected);
        assert_eq!(split("/a/b/", OpenKind::Folder), expected);
        for (path, kind) in [
            ("/a/b/", OpenKind::File),
            ("/a/..", OpenKind::File),
            ("/a/.", OpenKind::Folder),
            ("/", OpenKind::Folder),
        ] {
            assert_eq!(split(path, kind), None, "{path}");
        }
    }
}
