//! What is on the disk: files read with a bound, noticed when they change, and facts about links.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use countersign_core::hex;
use countersign_core::limits::RULE_FILE_BYTES_MAX;
use countersign_rules::{EntryKind, FileFacts, FileText, FolderEntry};
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};

/// A file that changed so recently may change again within the grain of its times, or be half
/// written.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// How long to wait for a file that is being replaced, and how often.
const RETRY_DELAY: Duration = Duration::from_millis(20);
const RETRIES_MAX: usize = 3;

/// More entries of one folder than this are not read for one wildcard.
const FOLDER_ENTRIES_MAX: usize = 20_000;

/// Longer files of git than this are not read.
const TEXT_BYTES_MAX: u64 = 256 * 1024;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileContent {
    /// There is none.
    Absent,
    /// Text, with the digest of its bytes.
    Text { text: Arc<str>, digest: Arc<str> },
    /// Something that cannot be taken, and why.
    Unreadable(String),
}

/// A file that is checked again and again.
#[derive(Debug)]
pub(super) struct WatchedFile {
    path: PathBuf,
    /// The folder it must not lead out of.
    within: Option<PathBuf>,
    stamp: Option<FileStamp>,
    content: FileContent,
}

/// What the file system says of a file; it changes whenever the file does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn of(found: &Metadata) -> Self {
        Self {
            file: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Whether so much time has passed that another change would have another stamp.
    fn is_settled(&self) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or(u64::MAX);
        let nanos = u64::try_from(self.changed.1).unwrap_or_default();
        let changed = SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds))
            .and_then(|at| at.checked_add(Duration::from_nanos(nanos)));
        // A time to come is another clock's, and tells nothing about now.
        let age = changed.map(|at| match SystemTime::now().duration_since(at) {
            Ok(age) => age,
            Err(ahead) => ahead.duration(),
        });
        age.is_some_and(|age| age > SETTLE_TIME)
    }
}

impl WatchedFile {
    /// A file that has not been looked at.
    pub(super) fn new(path: PathBuf, within: Option<PathBuf>) -> Self {
        Self {
            path,
            within,
            stamp: None,
            content: FileContent::Absent,
        }
    }

    pub(super) fn content(&self) -> &FileContent {
        &self.content
    }

    /// Checks the file again; says whether its content changed.
    pub(super) fn refresh(&mut self) -> bool {
        let unchanged = match std::fs::metadata(&self.path) {
            Ok(found) => {
                let stamp = FileStamp::of(&found);
                // Two writes within the grain of the file system's times have the same stamp.
                self.stamp.as_ref() == Some(&stamp) && stamp.is_settled()
            }
            // What cannot be looked at, or is a link that leads nowhere, is not absent.
            Err(_) => self.content == FileContent::Absent && is_absent(&self.path),
        };
        if unchanged {
            return false;
        }
        let (stamp, content) = self.read_steady();
        self.stamp = stamp;
        let changed = content != self.content;
        self.content = content;
        changed
    }

    /// Reads until the file holds still, because editors remove, truncate and write in steps.
    fn read_steady(&self) -> (Option<FileStamp>, FileContent) {
        let mut last = read_file(&self.path, self.within.as_deref());
        for _ in 0..RETRIES_MAX {
            let had_text = matches!(self.content, FileContent::Text { .. });
            let vanished = last.1 == FileContent::Absent && had_text;
            let fresh = last.0.as_ref().is_some_and(|stamp| !stamp.is_settled());
            if !vanished && !fresh {
                break;
            }
            std::thread::sleep(RETRY_DELAY);
            let again = read_file(&self.path, self.within.as_deref());
            // A file that is absent twice may still be between an editor's remove and rename.
            let still = again.0.is_some() && again == last;
            last = again;
            if still {
                break;
            }
        }
        last
    }
}

/// Whether nothing has this name, not even a link.
pub(super) fn is_absent(path: &Path) -> bool {
    let nothing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    std::fs::symlink_metadata(path).is_err_and(|error| nothing.contains(&error.kind()))
}

/// Opens whatever has this name, without waiting. The path may be anything in a folder that an agent
/// can write to: opening a pipe would wait for its other end, and opening a terminal could make it
/// the host's.
fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Reads a regular file of a bounded size; nothing here waits for a pipe or a device.
fn read_file(path: &Path, within: Option<&Path>) -> (Option<FileStamp>, FileContent) {
    let unreadable =
        |error: &io::Error| FileContent::Unreadable(format!("it cannot be read: {error}"));
    let file = match open_at_once(path) {
        Ok(file) => file,
        Err(error) if is_no_folder(&error) => {
            // A link that leads nowhere is there, and means something.
            let content = if is_absent(path) {
                FileContent::Absent
            } else {
                FileContent::Unreadable("it is a link that leads nowhere".to_owned())
            };
            return (None, content);
        }
        Err(error) => {
            let stamp = std::fs::metadata(path)
                .ok()
                .map(|found| FileStamp::of(&found));
            return (stamp, unreadable(&error));
        }
    };
    let found = match file.metadata() {
        Ok(found) => found,
        Err(error) => return (None, unreadable(&error)),
    };
    let stamp = Some(FileStamp::of(&found));
    if !found.is_file() {
        return (
            stamp,
            FileContent::Unreadable("it is no regular file".into()),
        );
    }
    // A repository could otherwise have a file from elsewhere read as its rules, and parts of it
    // shown in the messages about them.
    if let Err(why) = stays_within(path, within) {
        return (stamp, FileContent::Unreadable(why));
    }
    let content = read_text(file).unwrap_or_else(|error| unreadable(&error));
    (stamp, content)
}

/// The text of a rule file, if it is still the one with this digest.
pub(super) fn read_unchanged(path: &Path, expected: &str) -> Option<Arc<str>> {
    match read_file(path, None) {
        (_, FileContent::Text { text, digest }) if *digest == *expected => Some(text),
        _ => None,
    }
}

fn stays_within(path: &Path, within: Option<&Path>) -> Result<(), String> {
    let Some(folder) = within else {
        return Ok(());
    };
    match path.canonicalize() {
        Ok(real) if real.starts_with(folder) => Ok(()),
        Ok(_) => Err("it is a link that leads out of the project".into()),
        Err(error) => Err(format!("it cannot be followed: {error}")),
    }
}

fn read_text(file: File) -> io::Result<FileContent> {
    // One more than may be: otherwise a file that is too long would look like one that just fits.
    let bound = RULE_FILE_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    file.take(bound).read_to_end(&mut bytes)?;
    if bytes.len() > RULE_FILE_BYTES_MAX {
        let why = format!("it is larger than {RULE_FILE_BYTES_MAX} bytes");
        return Ok(FileContent::Unreadable(why));
    }
    let digest = digest(&bytes);
    Ok(match String::from_utf8(bytes) {
        Ok(text) => FileContent::Text {
            text: text.into(),
            digest: digest.into(),
        },
        Err(_) => FileContent::Unreadable("it is not UTF-8".into()),
    })
}

/// The SHA-256 of exactly these bytes, in hexadecimal: what a person trusts.
fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The file system as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskFileFacts;

impl FileFacts for DiskFileFacts {
    fn read_link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(path).ok()?;
        // A target that is no text cannot be followed further: it is given as a place that no
        // project holds, so that nothing is allowed because of where it seems to lead.
        let target = target.into_os_string().into_string();
        Some(target.unwrap_or_else(|_| "/\u{fffd}".to_owned()))
    }

    fn has_other_names(&self, path: &str) -> bool {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.nlink() > 1)
    }

    fn list_folder(&self, path: &str) -> Option<Vec<FolderEntry>> {
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if is_no_folder(&error) => return Some(Vec::new()),
            Err(_) => return None,
        };
        let mut found = Vec::new();
        for entry in entries {
            // All or nothing: a list that was cut short would hide a name that a deny holds.
            if found.len() >= FOLDER_ENTRIES_MAX {
                return None;
            }
            found.push(folder_entry(&entry.ok()?)?);
        }
        Some(found)
    }

    fn read_text(&self, path: &str) -> FileText {
        match read_small_text(Path::new(path)) {
            Ok(text) => text,
            Err(_) if is_absent(Path::new(path)) => FileText::Absent,
            Err(_) => FileText::Unknown,
        }
    }
}

fn read_small_text(path: &Path) -> io::Result<FileText> {
    let file = open_at_once(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Ok(FileText::Folder);
    }
    if !found.is_file() {
        return Ok(FileText::Unknown);
    }
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() as u64 <= TEXT_BYTES_MAX;
    let text = String::from_utf8(bytes).ok().filter(|_| is_whole);
    Ok(text.map_or(FileText::Unknown, FileText::Text))
}

fn is_no_folder(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Nothing for a name that is not text: it can be held against no rule.
fn folder_entry(entry: &std::fs::DirEntry) -> Option<FolderEntry> {
    let kind = entry.file_type().ok()?;
    Some(FolderEntry {
        name: entry.file_name().into_string().ok()?,
        kind: if kind.is_symlink() {
            EntryKind::Link
        } else if kind.is_dir() {
            EntryKind::Folder
        } else {
            EntryKind::File
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_listed_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        let mut found = DiskFileFacts.list_folder(path).unwrap();
        found.sort();
        let entry = |name: &str, kind| FolderEntry {
            name: name.to_owned(),
            kind,
        };
        let expected = [
            entry("file", EntryKind::File),
            entry("folder", EntryKind::Folder),
            entry("link", EntryKind::Link),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            DiskFileFacts.list_folder(&format!("{path}/none")),
            Some(Vec::new())
        );
        assert_eq!(
            DiskFileFacts.list_folder(&format!("{path}/file")),
            Some(Vec::new())
        );
        let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
        std::fs::write(folder.path().join(odd), "").unwrap();
        assert_eq!(DiskFileFacts.list_folder(path), None);
    }
}
