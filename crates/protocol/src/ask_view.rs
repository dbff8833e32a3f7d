//! An ask as people see it: the same on every screen.
//!
//! All text here is safe to show: what a screen would hide or obey is written as an escape.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an ask means, made by the host. What will run comes from the input, never from what the agent
/// says about it; `command`, `edits` and `rest_text` together show every member of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostAskView {
    /// The command that will run, whole, if the input has exactly one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Whether everything but `summary`, `warnings`, `editable` and `edited_summary` was left out here;
    /// the ask by its id has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// What else the agent sent, without a second copy of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details_text: Option<String>,
    /// Whether another input could be given with an answer.
    #[serde(default)]
    #[schema(required = true)]
    pub editable: bool,
    /// In one line, what runs instead where a person changed the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_summary: Option<String>,
    /// That input, laid out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_text: Option<String>,
    /// The files that it would change, if that is known.
    #[serde(default)]
    #[schema(required = true)]
    pub edits: Vec<HostFileEdit>,
    /// The exact input laid out, unless `rest_text` is that already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_text: Option<String>,
    /// The members of the input that neither `command` nor `edits` shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_text: Option<String>,
    /// One line.
    pub summary: String,
    /// The agent's own words, unless they only repeat the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Sentences about what is unusual.
    #[serde(default)]
    #[schema(required = true)]
    pub warnings: Vec<String>,
}

impl HostAskView {
    /// Leaves out everything that grows with the ask.
    pub fn cut(&mut self) {
        let whole = std::mem::take(self);
        *self = Self {
            cut: true,
            editable: whole.editable,
            edited_summary: whole.edited_summary,
            summary: whole.summary,
            warnings: whole.warnings,
            ..Self::default()
        };
    }
}

/// One file's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostFileEdit {
    /// Lines that come.
    pub added: usize,
    /// The change, with a few unchanged lines around it.
    pub hunks: Vec<HostDiffHunk>,
    /// What the old text is, where it does not come from the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<HostFileEditNote>,
    pub path: String,
    /// Lines that go.
    pub removed: usize,
}

/// Where the old text of a change comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostFileEditNote {
    /// The agent's copy of the file.
    AgentCopy,
    /// There is none: the whole new file is shown.
    WholeFile,
}

/// Lines of a change that stand together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostDiffHunk {
    /// SHA-256 of its lines with their marks, by which a hunk is known again wherever it stands. For
    /// changes in a worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What stands above it in the file, such as the name of a function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    pub lines: Vec<HostDiffLine>,
    /// The number of its first line in the new text, from one.
    pub new_start: usize,
    /// The number of its first line in the old text, from one.
    pub old_start: usize,
}

/// One line of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostDiffLine {
    pub kind: HostDiffLineKind,
    /// What changed within the line, if it has a counterpart: their texts together are `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<HostDiffSegment>,
    pub text: String,
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostDiffLineKind {
    Context,
    Added,
    Removed,
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostDiffSegment {
    /// Whether its counterpart lacks it.
    pub changed: bool,
    pub text: String,
}
