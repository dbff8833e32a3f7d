//! An agent's transcript: what it said and did, page by page.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::managed::PlanStepRow;
use crate::scalar::{Raw, Time};

/// Which part of a transcript.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TranscriptQuery {
    /// Only what came after this: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Only what came before this: `first` of the page after. For reading backwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Whether to begin with the newest parts (default: `false`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_end: bool,
    /// At most this many parts (default: 100); more than 1000 counts as 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// One page of a transcript, oldest part first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptResult {
    /// The `before` of the page before this one, if there is one. For readers that read backwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Whether there is more already.
    pub more: bool,
    /// The `after` of the next page.
    pub next: u64,
    /// What was said and done.
    pub parts: Vec<TranscriptPart>,
}

/// Entries that were recorded together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptPart {
    /// In the order in which they came.
    pub entries: Vec<TranscriptRow>,
    /// Its place in the record.
    pub sequence: u64,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Time,
    /// The turn it belongs to; 0 before the first.
    pub turn: u32,
}

/// One entry of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TranscriptRow {
    /// A message to the agent.
    User {
        /// The child that sent it, for a message to an orchestrator.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        text: String,
    },
    /// Text of the agent.
    Assistant { text: String },
    /// What the agent thought.
    Thinking { text: String },
    /// The agent uses a tool, or updates an earlier entry with the same id: absent fields are
    /// unchanged.
    ToolUse {
        /// The agent's id of the call.
        id: String,
        /// The tool's input as the agent sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = serde_json::Value, required = false)]
        input: Option<Raw>,
        /// How far it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
        /// What it says it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The tool, by the name rules have for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
    },
    /// The result of a tool.
    ToolResult {
        /// The agent's id of the call.
        id: String,
        /// How it ended: `completed`, `failed` or `unknown`.
        status: String,
        /// What it gave, as text.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// What the agent plans.
    Plan {
        /// The steps, in order.
        steps: Vec<PlanStepRow>,
    },
    /// A message of the host, or of the agent about itself.
    Notice { text: String },
    /// An update of a kind that the host does not know, as it came.
    Other {
        /// What came.
        #[schema(value_type = serde_json::Value)]
        update: Raw,
    },
}

// By hand: derived code for a tagged enum buffers the object first, and JSON cannot be kept to the
// byte through that. A type that is not known here becomes `Other`, so that older clients can read
// newer hosts.
impl<'de> Deserialize<'de> for TranscriptRow {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            r#type: String,
            #[serde(default)]
            from: Option<String>,
            #[serde(default)]
            text: String,
            #[serde(default)]
            id: String,
            #[serde(default)]
            input: Option<Raw>,
            #[serde(default)]
            status: Option<String>,
            #[serde(default)]
            title: Option<String>,
            #[serde(default)]
            tool: Option<String>,
            #[serde(default)]
            steps: Vec<PlanStepRow>,
            #[serde(default)]
            update: Raw,
        }
        let whole = Raw::deserialize(deserializer)?;
        let fields: Fields =
            serde_json::from_str(whole.text()).map_err(serde::de::Error::custom)?;
        let (text, id) = (fields.text, fields.id);
        Ok(match fields.r#type.as_str() {
            "user" => Self::User {
                from: fields.from,
                text,
            },
            "assistant" => Self::Assistant { text },
            "thinking" => Self::Thinking { text },
            "notice" => Self::Notice { text },
            "plan" => Self::Plan {
                steps: fields.steps,
            },
            "tool_result" => Self::ToolResult {
                id,
                status: fields.status.unwrap_or_default(),
                text,
            },
            "tool_use" => Self::ToolUse {
                id,
                input: fields.input,
                status: fields.status,
                title: fields.title,
                tool: fields.tool,
            },
            "other" => Self::Other {
                update: fields.update,
            },
            _ => Self::Other { update: whole },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_read_back_to_the_byte() {
        let text = r#"[{"type":"user","text":"a"},{"type":"user","from":"x","text":"b"},{"type":"tool_use","id":"c","input":{"b":1.50,"b":2}},{"type":"tool_result","id":"c","status":"failed"},{"type":"plan","steps":[{"status":"pending","text":"t"}]},{"type":"other","update":[1.0]}]"#;
        let rows: Vec<TranscriptRow> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&rows).unwrap(), text);
        let newer = r#"{"type":"newer","x":1.0}"#;
        let row: TranscriptRow = serde_json::from_str(newer).unwrap();
        assert!(matches!(row, TranscriptRow::Other { update } if update.text() == newer));
    }
}
