//! What a folder holds, for people.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime};

use countersign_core::limits;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};

use super::FileError;
use super::path_handle::PathHandle;
use super::people_folder::PeopleFolder;
use super::read::cannot_read;

/// Folders that are not looked into when all files below a folder are listed: what tools fill them with is not
/// what people look for.
const SKIPPED_FOLDERS: [&str; 2] = [".git", "node_modules"];

/// A folder with this file holds what can be made again.
const CACHE_TAG: &str = "CACHEDIR.TAG";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListedKind {
    File,
    Folder,
    /// Never followed by a listing.
    Link,
    /// A pipe, a socket, a device, or a name that is not text.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    pub name: String,
    pub kind: ListedKind,
    /// Of files.
    pub bytes: Option<u64>,
    pub modified: Option<SystemTime>,
}

/// How deep a listing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListDepth {
    /// The entries of one folder.
    Folder,
    /// All files below it, by their paths.
    Tree,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderListing {
    pub entries: Vec<ListedFile>,
    /// Whether there is more than is listed.
    pub is_cut: bool,
}

impl PeopleFolder {
    /// Lists what is in a folder, or all files below it.
    pub fn list(&self, path: &str, depth: ListDepth) -> Result<FolderListing, FileError> {
        let place = self.find(path)?;
        if place.kind() != FileType::Directory {
            return Err(FileError::NotRegular { path: place.real });
        }
        match depth {
            ListDepth::Folder => self.list_folder(&place),
            ListDepth::Tree => Ok(self.list_tree(path)),
        }
    }

    fn list_folder(&self, place: &PathHandle) -> Result<FolderListing, FileError> {
        let opened = open_to_list(place);
        let folder = opened.map_err(|source| cannot_read(&place.real, source))?;
        let names = read_names(&folder, limits::FOLDER_NAMES_READ_MAX);
        let mut names = names.map_err(|source| cannot_read(&place.real, source))?;
        names
            .found
            .retain(|(name, _)| !self.is_host_file(&place.real.join(name)));
        names.found.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        let is_cut = names.is_cut || names.found.len() > limits::FOLDER_ROWS_MAX;
        names.found.truncate(limits::FOLDER_ROWS_MAX);
        let entries = names.found.into_iter();
        Ok(FolderListing {
            entries: entries
                .map(|(name, kind)| describe(&folder, name, kind))
                .collect(),
            is_cut,
        })
    }

    /// The nearest files first.
    fn list_tree(&self, path: &str) -> FolderListing {
        let mut listing = FolderListing::default();
        let mut waiting = VecDeque::from([String::new()]);
        let (mut looked_at, mut bytes) = (0, 0);
        while let Some(below) = waiting.pop_front() {
            let left = limits::TREE_NAMES_READ_MAX - looked_at;
            let Ok(names) = self.names_below(path, &below, left) else {
                // It was removed meanwhile, or may not be read.
                continue;
            };
            looked_at += names.found.len();
            listing.is_cut |= names.is_cut;
            if !below.is_empty() && names.found.iter().any(|(name, _)| name == CACHE_TAG) {
                continue;
            }
            for (name, kind) in names.found {
                let path = if below.is_empty() {
                    name
                } else {
                    format!("{below}/{name}")
                };
                match kind {
                    ListedKind::File => {
                        bytes += path.len();
                        let is_full = listing.entries.len() >= limits::TREE_ROWS_MAX
                            || bytes > limits::TREE_BYTES_MAX;
                        if is_full || looked_at >= limits::TREE_NAMES_READ_MAX {
                            listing.is_cut = true;
                            return listing;
                        }
                        listing.entries.push(ListedFile {
                            name: path,
                            kind,
                            bytes: None,
                            modified: None,
                        });
                    }
                    ListedKind::Folder => {
                        let is_skipped = SKIPPED_FOLDERS
                            .iter()
                            .any(|skipped| path.rsplit('/').next() == Some(skipped));
                        if !is_skipped {
                            waiting.push_back(path);
                        }
                    }
                    ListedKind::Link | ListedKind::Other => {}
                }
            }
        }
        listing
    }

    fn names_below(&self, path: &str, below: &str, max: usize) -> Result<FoundNames, FileError> {
        let joined = if path.is_empty() || below.is_empty() {
            format!("{path}{below}")
        } else {
            format!("{path}/{below}")
        };
        let place = self.find(&joined)?;
        let names = open_to_list(&place).and_then(|folder| read_names(&folder, max));
        let mut names = names.map_err(|source| cannot_read(&place.real, source))?;
        names
            .found
            .retain(|(name, _)| !self.is_host_file(&place.real.join(name)));
        names.found.sort();
        Ok(names)
    }
}

/// Folders first, as in every tree of files.
fn sort_key(entry: &(String, ListedKind)) -> (bool, &str) {
    (entry.1 != ListedKind::Folder, &entry.0)
}

fn open_to_list(place: &PathHandle) -> io::Result<OwnedFd> {
    Ok(place.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?)
}

struct FoundNames {
    found: Vec<(String, ListedKind)>,
    is_cut: bool,
}

/// The names in a folder, in no order.
fn read_names(folder: &OwnedFd, max: usize) -> io::Result<FoundNames> {
    let mut names = FoundNames {
        found: Vec::new(),
        is_cut: false,
    };
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if names.found.len() == max {
            names.is_cut = true;
            break;
        }
        let kind = match entry.file_type() {
            // Some file systems say only when they are asked for each.
            FileType::Unknown => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| {
                    FileType::from_raw_mode(stat.st_mode)
                }),
            known => known,
        };
        let kind = kind_of(kind);
        names.found.push(match name.to_str() {
            Some(name) => (name.to_owned(), kind),
            None => (name.to_string_lossy().into_owned(), ListedKind::Other),
        });
    }
    Ok(names)
}

fn kind_of(kind: FileType) -> ListedKind {
    match kind {
        FileType::RegularFile => ListedKind::File,
        FileType::Directory => ListedKind::Folder,
        FileType::Symlink => ListedKind::Link,
        _ => ListedKind::Other,
    }
}

fn describe(folder: &OwnedFd, name: String, kind: ListedKind) -> ListedFile {
    let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let seconds = stat.and_then(|stat| u64::try_from(stat.st_mtime).ok());
    let bytes = stat.and_then(|stat| u64::try_from(stat.st_size).ok());
    ListedFile {
        name,
        kind,
        bytes: bytes.filter(|_| kind == ListedKind::File),
        modified: seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
    }
}
