//! Orchestrators: what reaches them from below, and what they may decide for those below.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, QuestionId, Seq, Timestamp};
use crate::principal::By;

/// What a message to an orchestrator is about, if it came from below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mail {
    /// An agent below asks.
    Question {
        /// Who.
        from: AgentId,
        /// The question.
        question: QuestionId,
    },
    /// An agent below says something.
    Note {
        /// Who.
        from: AgentId,
        /// How often it said so before it was heard.
        times: u32,
    },
    /// An agent below is done with what it was told, or ended.
    Finished {
        /// Who.
        from: AgentId,
    },
}

impl Mail {
    /// The agent below that it is from.
    pub fn from(&self) -> &AgentId {
        match self {
            Self::Question { from, .. } | Self::Note { from, .. } | Self::Finished { from } => from,
        }
    }
}

/// See `Event::AgentNoted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentNoted {
    /// The agent that says it.
    pub agent: AgentId,
    /// The orchestrator that is told; absent where there is none to hear it, so that it is for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    /// The words.
    pub text: String,
    /// The agent's own key: under one key something is said once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Who says it.
    pub by: By,
}

/// See `Event::MessageRepeated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRepeated {
    /// The orchestrator for which it waits.
    pub agent: AgentId,
    /// Who said it again.
    pub from: AgentId,
    /// The message as it waits.
    pub text: String,
}

/// See `Event::MailWithdrawn`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MailWithdrawn {
    /// The orchestrator for which it waited.
    pub agent: AgentId,
    /// The question that needs no answer any more.
    pub question: QuestionId,
}

/// See `Event::QuestionEscalated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionEscalated {
    /// The question.
    pub question: QuestionId,
    /// The event that opened it.
    pub opened: Seq,
    /// The agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
}

/// What an orchestrator may settle for those below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ceiling {
    /// What it may allow: rules as in a rule file, each an allow.
    pub rules: Arc<[String]>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// See `Event::AgentCeilingChanged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCeilingChanged {
    /// The orchestrator.
    pub agent: AgentId,
    /// What it may settle from here on; absent for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// Who gave or took it, or the host where time or the agent's end did.
    pub by: By,
}
