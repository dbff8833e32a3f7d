//! An agent's story: what it said and did, page by page.

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
    /// At most this many parts (default: 100); more than 1000 counts as 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A piece of a transcript, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptResult {
    /// Whether there is more already.
    pub more: bool,
    /// Where to go on: the next page's `after`.
    pub next: u64,
    /// What was said and done.
    pub parts: Vec<TranscriptPart>,
}

/// What came together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptPart {
    /// What came, in order.
    pub entries: Vec<TranscriptRow>,
    /// Its place in the record.
    pub sequence: u64,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Time,
    /// The turn it belongs to; 0 before the first.
    pub turn: u32,
}

/// One thing an agent, or somebody to it, said or did.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TranscriptRow {
    /// A message to the agent.
    User {
        /// The child that sent it, for a message to an orchestrator.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The words.
        text: String,
    },
    /// Words of the agent.
    Assistant {
        /// The words.
        text: String,
    },
    /// What the agent thought.
    Thinking {
        /// The words.
        text: String,
    },
    /// The agent uses a tool, or says more of one it uses: absent fields are as they were.
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
    /// What came of a tool.
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
    /// Words of the host, or of the agent about itself.
    Notice {
        /// The words.
        text: String,
    },
    /// Something there are no words for, as it came.
    Other {
        /// What came.
        #[schema(value_type = serde_json::Value)]
        update: Raw,
    },
}

/// By hand: JSON that is kept to the byte cannot be read out of a tagged object. A type that is not
/// known here is kept whole as `Other`, so that older clients can read newer hosts.
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
