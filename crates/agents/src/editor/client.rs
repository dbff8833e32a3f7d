//! What the editor said it can do.

use serde_json::Value;

/// The abilities of the editor that matter here. What it does not say, it cannot do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is what the editor said about itself"
)]
pub(super) struct ClientAbilities {
    pub(super) terminal: bool,
    pub(super) forms: bool,
    pub(super) notices: bool,
    /// Whether it gives files as it has them.
    pub(super) read_files: bool,
}

impl ClientAbilities {
    pub(super) fn read(params: &Value) -> Self {
        Self {
            terminal: is_true_at(params, "/clientCapabilities/terminal"),
            read_files: is_true_at(params, "/clientCapabilities/fs/readTextFile"),
            forms: is_object_at(params, "/clientCapabilities/elicitation/form"),
            notices: is_object_at(params, "/clientCapabilities/session/notices"),
        }
    }
}

fn is_true_at(params: &Value, pointer: &str) -> bool {
    params.pointer(pointer).and_then(Value::as_bool) == Some(true)
}

fn is_object_at(params: &Value, pointer: &str) -> bool {
    params.pointer(pointer).is_some_and(Value::is_object)
}
