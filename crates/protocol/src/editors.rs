//! Editors that do something for the host: they run commands and give files as they have them.

use serde::{Deserialize, Serialize};

use crate::Raw;

/// `host.editor_calls`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EditorCallsParams {
    pub agent_id: String,
    /// What the editor's process calls itself: letters and digits.
    pub editor_id: String,
    /// Whether it runs commands.
    #[serde(default)]
    pub terminals: bool,
    /// Whether it gives files.
    #[serde(default)]
    pub files: bool,
    /// The number of the newest call that it has.
    #[serde(default)]
    pub after: u64,
    /// How long to wait for a call; as long as the host holds such a request if absent. With 0 the host only learns
    /// that the editor is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// One thing that an editor is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EditorCallRow {
    pub id: u64,
    pub call: Raw,
}

/// `host.answer_editor_call`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnswerEditorCallParams {
    pub agent_id: String,
    pub editor_id: String,
    pub call_id: u64,
    /// `{"Ok": …}` or `{"Err": …}`.
    pub reply: Raw,
}
