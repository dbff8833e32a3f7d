//! What an ask would change in files, from what the agent asked for.
//!
//! Invariant: nothing here reads a file, so what is shown is what was asked and not what the disk says.

use serde::Deserialize;

use super::AskInput;
use crate::line_diff::{DiffBudget, DiffHunk, DiffLineKind, diff_lines};
use crate::visible::{TextLayout, hidden_count, visible};

/// One file's change, safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    pub path: String,
    pub note: Option<EditNote>,
    pub hunks: Vec<DiffHunk>,
}

/// What the old text is, where it does not come from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditNote {
    /// The agent's copy: what the input cannot know, the text that is there now, is the agent's word.
    AgentCopy,
    /// Nothing: the whole new file is shown.
    WholeFile,
}

impl FileEdit {
    /// How many lines come.
    pub fn added(&self) -> usize {
        self.count(DiffLineKind::Added)
    }

    /// How many lines go.
    pub fn removed(&self) -> usize {
        self.count(DiffLineKind::Removed)
    }

    fn count(&self, kind: DiffLineKind) -> usize {
        let lines = self.hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(|line| line.kind == kind).count()
    }
}

/// A change as the agent sent it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestedEdit {
    path: String,
    #[serde(default)]
    old_text: Option<String>,
    new_text: String,
}

impl RequestedEdit {
    /// The change that the input asks for, with the members that say so.
    pub(super) fn from_input(input: &AskInput<'_>) -> Option<(Self, [&'static str; 3])> {
        // Which of two values would be written is not known, so neither is shown as the change.
        let members = input.unique_members()?;
        let (path_field, path) = ["file_path", "path"]
            .into_iter()
            .find_map(|field| Some((field, members.only_text(field)?)))?;
        let old_text = members.only_text("old_string");
        let (new_text, fields) = match &old_text {
            Some(_) => (
                members.only_text("new_string")?,
                [path_field, "old_string", "new_string"],
            ),
            None => (
                members.only_text("content")?,
                [path_field, "content", "content"],
            ),
        };
        let edit = Self {
            path,
            old_text,
            new_text,
        };
        Some((edit, fields))
    }

    /// The changes that the agent shows beside its ask.
    pub(super) fn from_details(details: &str) -> Vec<Self> {
        #[derive(Deserialize)]
        struct Details {
            diffs: Vec<RequestedEdit>,
        }
        let details = serde_json::from_str::<Details>(details);
        details.map(|details| details.diffs).unwrap_or_default()
    }

    pub(super) fn hidden_count(&self) -> usize {
        let old = self.old_text.as_deref().unwrap_or_default();
        hidden_count(&self.path) + hidden_count(old) + hidden_count(&self.new_text)
    }

    fn show(&self, note: Option<EditNote>, budget: &mut DiffBudget) -> FileEdit {
        let old = self.old_text.as_deref().unwrap_or_default();
        FileEdit {
            path: visible(&self.path, TextLayout::Line).into_owned(),
            note,
            hunks: diff_lines(old, &self.new_text, budget),
        }
    }
}

/// The changes an ask would make, if it would make any that are known: from the input where it says
/// so, else from what the agent shows beside it.
pub(super) fn show_edits(
    from_input: Option<&RequestedEdit>,
    from_details: &[RequestedEdit],
) -> Vec<FileEdit> {
    let mut budget = DiffBudget::default();
    match from_input {
        Some(edit) if edit.old_text.is_some() => vec![edit.show(None, &mut budget)],
        Some(edit) => {
            let same = from_details
                .iter()
                .find(|other| other.path == edit.path && other.new_text == edit.new_text);
            vec![match same {
                Some(other) => other.show(Some(EditNote::AgentCopy), &mut budget),
                None => edit.show(Some(EditNote::WholeFile), &mut budget),
            }]
        }
        None => from_details
            .iter()
            .map(|edit| edit.show(Some(EditNote::AgentCopy), &mut budget))
            .collect(),
    }
}
