//! Orchestrators: the messages of their descendants, and what they may decide for them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, QuestionId, Seq, Timestamp};
use crate::principal::RecordedActor;

/// What a message of a child to its parent is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentMessage {
    /// The child asks.
    Question { from: AgentId, question: QuestionId },
    /// The child says something.
    Note {
        from: AgentId,
        /// How often it said so before its parent read it.
        times: u32,
    },
    /// The child finished what it was told, or ended.
    Finished { from: AgentId },
}

impl ParentMessage {
    /// The child that sent it.
    pub fn from(&self) -> &AgentId {
        match self {
            Self::Question { from, .. } | Self::Note { from, .. } | Self::Finished { from } => from,
        }
    }
}

/// See `Event::ParentNotified`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParentNotified {
    pub agent: AgentId,
    /// The parent; absent where there is none that can read it, so that the note is for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    pub text: String,
    /// The agent's own key: a note is sent once under one key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub by: RecordedActor,
}

/// See `Event::MessageRepeated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRepeated {
    /// The orchestrator in whose queue it waits.
    pub agent: AgentId,
    /// The child that said it again.
    pub from: AgentId,
    /// The message as it waits.
    pub text: String,
}

/// See `Event::ParentMessageWithdrawn`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParentMessageWithdrawn {
    /// The orchestrator in whose queue it waited.
    pub agent: AgentId,
    /// The question that needs no answer any more.
    pub question: QuestionId,
}

/// See `Event::QuestionEscalated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionEscalated {
    pub question: QuestionId,
    /// The event that opened it.
    pub opened: Seq,
    /// The agent that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
}

/// What an orchestrator may settle for those below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ceiling {
    /// What it may allow: rules as in a rule file, each an allow.
    pub rules: Arc<[String]>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// See `Event::AgentCeilingChanged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCeilingChanged {
    pub agent: AgentId,
    /// What it may settle from here on; absent for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// Who gave or took it, or the host where time or the agent's end did.
    pub by: RecordedActor,
}
