//! Whether a process is a host: it holds the lock of the record.
//!
//! The runner serves nobody else while that can be seen, because an agent that registered itself from outside has no
//! mark, and what it typed would be a person's.

use std::fs::{self, DirEntry, File, Metadata};
use std::os::unix::fs::MetadataExt as _;

/// Whether the process has locked this very file. Nothing if the system does not say who holds locks.
///
/// The file was opened when the runner started: one that was put in its place since is another file.
pub(super) fn is_held_by(lock: &File, pid: u32) -> Option<bool> {
    // Only where no lock can be seen at all, the answer is not known. Whatever else cannot be read is no.
    fs::metadata("/proc/locks").ok()?;
    Some(has_locked(lock, pid).unwrap_or(false))
}

fn has_locked(lock: &File, pid: u32) -> Option<bool> {
    let lock = lock.metadata().ok()?;
    let mut opened = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    Some(opened.any(|descriptor| is_lock(&descriptor, &lock, pid)))
}

/// Whether a descriptor of a process is the lock and holds it.
fn is_lock(descriptor: &DirEntry, lock: &Metadata, pid: u32) -> bool {
    let found = fs::metadata(descriptor.path());
    let is_same = found.is_ok_and(|found| (found.dev(), found.ino()) == (lock.dev(), lock.ino()));
    let number = descriptor.file_name();
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.display()));
    is_same && info.is_ok_and(|info| info.lines().any(is_held))
}

/// `lock: 1: FLOCK  ADVISORY  WRITE 4242 00:2f:1234 0 EOF`, which a descriptor has that holds a lock.
fn is_held(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    matches!(words.as_slice(), ["lock:", _, "FLOCK", _, "WRITE", ..])
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_for_writing_counts() {
        assert!(is_held(
            "lock:\t1: FLOCK  ADVISORY  WRITE 42 00:2f:77 0 EOF"
        ));
        for other in [
            "lock:\t1: POSIX  ADVISORY  WRITE 42 00:2f:77 0 EOF",
            "lock:\t1: FLOCK  ADVISORY  READ 42 00:2f:77 0 EOF",
            "flags:\t0100002",
            "",
        ] {
            assert!(!is_held(other), "{other}");
        }
    }

    #[test]
    fn a_lock_is_its_holders_and_a_file_that_replaced_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = File::create(&path).unwrap();
        let us = std::process::id();
        assert_eq!(is_held_by(&lock, us), Some(false));
        lock.lock().unwrap();
        assert_eq!(is_held_by(&lock, us), Some(true));
        assert_eq!(is_held_by(&lock, u32::MAX), Some(false));
        fs::remove_file(&path).unwrap();
        let another = File::create(&path).unwrap();
        another.lock().unwrap();
        drop(lock);
        let opened_before = File::open(folder.path()).unwrap();
        assert_eq!(is_held_by(&opened_before, us), Some(false));
    }
}
