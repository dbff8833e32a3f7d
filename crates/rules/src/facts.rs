//! What the file system says, handed in by whoever may look.

/// Answers about the file system as it is now.
pub trait FileFacts {
    /// Where the symbolic link at this absolute path points, as it is stored; nothing if there is
    /// no link there.
    fn read_link(&self, path: &str) -> Option<String>;

    /// Whether the file at this absolute path has another name elsewhere.
    fn has_other_names(&self, _path: &str) -> bool {
        false
    }

    /// The entries of the folder at this absolute path, which holds no link. Empty where there is no
    /// such folder; nothing where they cannot be known, which is doubt: too many, not readable, or
    /// not text.
    fn list_folder(&self, path: &str) -> Option<Vec<FolderEntry>>;

    /// What is in the small text file at this absolute path.
    fn read_text(&self, _path: &str) -> FileText {
        FileText::Absent
    }
}

/// What is at the path of a small text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileText {
    /// A file with this text.
    Text(String),
    /// A folder.
    Folder,
    /// Nothing.
    Absent,
    /// Something that cannot be read: not text, too long, not permitted.
    Unknown,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// Its name, without a slash.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A symbolic link, whatever it leads to.
    Link,
    /// Anything else.
    File,
}

/// An empty file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFacts;

impl FileFacts for NoFacts {
    fn read_link(&self, _path: &str) -> Option<String> {
        None
    }

    fn list_folder(&self, _path: &str) -> Option<Vec<FolderEntry>> {
        Some(Vec::new())
    }
}
