//! What the file system says, handed in by whoever may look.

/// Answers about the file system as it is now.
pub trait Facts {
    /// Where the symbolic link at this absolute path points, as it is stored; nothing if there is
    /// no link there.
    fn read_link(&self, path: &str) -> Option<String>;

    /// Whether the file at this absolute path has another name elsewhere.
    fn has_other_names(&self, _path: &str) -> bool {
        false
    }
}

/// A file system without links.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFacts;

impl Facts for NoFacts {
    fn read_link(&self, _path: &str) -> Option<String> {
        None
    }
}
