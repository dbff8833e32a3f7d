//! Questions: asked, answered, ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, QuestionId, Seq, Timestamp};
use crate::principal::{Door, RecordedActor};

/// A question, exactly as it was asked. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionText {
    pub id: QuestionId,
    /// The agent that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// What it wants to know.
    pub text: String,
    pub by: RecordedActor,
    /// When it ends without words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The orchestrator that is asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    /// When people are asked as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalates_at: Option<Timestamp>,
    /// The asker's own key: under one key something is asked once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// See `Event::QuestionAsked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuestionAsked {
    pub question: Arc<QuestionText>,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionEnding {
    /// What it means.
    pub outcome: QuestionOutcome,
    /// The words, or words that say that there are none.
    pub answer: String,
    /// Who gave them.
    pub by: RecordedActor,
    /// How the answer came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<Door>,
    /// How long the question was in front of who answered, as their screen says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered_ms: Option<u64>,
}

/// What the end of a question means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionOutcome {
    /// Somebody answered.
    Answered,
    /// The asker took it back or is gone.
    Cancelled,
    /// Nobody answered in time.
    Expired,
}

/// See `Event::QuestionEnded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionEnded {
    pub question: QuestionId,
    /// The event that opened it.
    pub opened: Seq,
    /// The agent that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// How it ended.
    pub ending: Arc<QuestionEnding>,
}
