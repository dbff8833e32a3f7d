//! Files in the folders of agents as they are read and written: the tree, the viewer, the editor, the tail and the
//! notes of a person.
//!
//! Invariant: what a person typed is dropped only when that person says so, and a file is written only over content
//! that this screen has shown.

mod editor;
mod tail;
mod tree;
mod viewer;

use std::collections::BTreeMap;

pub use editor::{EditorState, FileEditor, OtherContent};
pub use tail::FileTail;
pub use tree::{FileTree, ListedFolder, TreeRow, join_path};
pub use viewer::{FileView, LoadedPage};

use crate::text_box::TextBox;

/// A file in the folder of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentFile {
    pub agent: String,
    /// Relative to the agent's folder.
    pub path: String,
}

/// What the panels about files show.
#[derive(Debug, Default)]
pub struct FilePanels {
    /// By agent.
    pub trees: BTreeMap<String, FileTree>,
    /// The file that was opened last, by agent.
    pub opened: BTreeMap<String, String>,
    pub views: BTreeMap<AgentFile, FileView>,
    pub tails: BTreeMap<AgentFile, FileTail>,
    pub editor: Option<FileEditor>,
    pub notes: NotesPad,
    /// All files of an agent, for the palette.
    pub found: BTreeMap<String, FoundFiles>,
    /// Whether keys are text for the editor or the notes, whichever has the focus.
    pub is_typing: bool,
    pub checked_at: u64,
}

/// All files below an agent's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFiles {
    pub paths: Vec<String>,
    /// Whether there are more.
    pub is_cut: bool,
}

/// A text of the person's own, kept outside by the folder in which the screen was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotesPad {
    /// The folder that they belong to, once they were read.
    pub folder: Option<String>,
    pub text: TextBox,
    /// When the first change was made that is not saved.
    pub changed_at: Option<u64>,
    pub problem: Option<String>,
}

/// How long a change of the notes waits.
const SAVE_AFTER_MS: u64 = 1_000;

impl NotesPad {
    /// What was changed and not saved.
    pub fn unsaved(&self) -> Option<String> {
        self.changed_at.map(|_| self.text.text())
    }

    /// When what was changed is to be saved.
    pub fn saved_at(&self) -> Option<u64> {
        Some(self.changed_at? + SAVE_AFTER_MS)
    }
}
