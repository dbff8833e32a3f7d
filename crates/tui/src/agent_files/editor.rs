//! A file as it is edited.

use super::AgentFile;
use crate::text_box::TextBox;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEditor {
    pub file: AgentFile,
    pub text: TextBox,
    /// What was read, and its digest; nothing for a file that is to be made.
    pub read: String,
    pub digest: Option<String>,
    pub state: EditorState,
    /// What is there now, if it is not what was read.
    pub other: Option<OtherContent>,
    /// Whether that is shown instead of the person's own text.
    pub shows_other: bool,
    /// What is being written.
    pub saving: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EditorState {
    #[default]
    Loading,
    Ready,
    /// Why it cannot be edited.
    Refused(String),
}

/// A file that was changed outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherContent {
    /// Nothing if the file was removed.
    pub digest: Option<String>,
    /// Its text, once it was read; nothing if it is none.
    pub text: Option<String>,
    /// Whether a person was shown this content: only then it may be replaced.
    pub was_seen: bool,
}

impl FileEditor {
    pub fn new(file: AgentFile) -> Self {
        Self {
            file,
            text: TextBox::verbatim(""),
            read: String::new(),
            digest: None,
            state: EditorState::Loading,
            other: None,
            shows_other: false,
            saving: None,
        }
    }

    /// With the content of a file.
    pub fn load(&mut self, text: String, digest: Option<String>) {
        self.text = TextBox::verbatim(&text);
        self.text.move_to_start();
        self.read = text;
        self.digest = digest;
        self.state = EditorState::Ready;
        self.other = None;
        self.shows_other = false;
    }

    pub fn is_changed(&self) -> bool {
        self.state == EditorState::Ready && !self.text.is_text(&self.read)
    }

    /// Which content may be replaced: nothing while there is one that nobody saw.
    pub fn replaceable(&self) -> Option<Option<String>> {
        match &self.other {
            None => Some(self.digest.clone()),
            Some(other) if other.was_seen => Some(other.digest.clone()),
            Some(_) => None,
        }
    }
}
