//! What a caller gets: a value of the domain, a rejection, or the world failing.

use std::sync::Arc;

use countersign_core::event::Device;
use countersign_core::{
    AccessToken, Agent, Approval, ApprovalId, GrantState, OpenCounts, Question, Rejection,
};

use crate::feed::FeedEntry;

/// What an input gave its caller, after it was committed.
#[derive(Clone, Debug)]
pub enum CommandReply {
    /// Only that it is done.
    Nothing,
    /// An agent and what it has open.
    Agent(Box<Agent>, OpenCounts),
    /// An approval.
    Approval(Box<Approval>),
    /// An approval whose owner decides.
    Passed(Box<Approval>),
    /// A question.
    Question(Box<Question>),
    /// A device.
    Device(Arc<Device>),
    /// A token, without the token.
    Token(Box<AccessToken>),
    /// A grant.
    Grant(Box<GrantState>),
    /// The earlier ask that allowed exactly what was asked now.
    Covered(ApprovalId),
    /// What ended when everything was stopped.
    StoppedAll(StopCounts),
    /// The last event of the decision.
    Event(Arc<FeedEntry>),
}

/// How much was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopCounts {
    /// Asks that were open.
    pub denied: usize,
    /// Agents that had not ended.
    pub interrupted: usize,
}

/// Why a caller got nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceError {
    /// The domain said no.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The record cannot be written or read; nothing is allowed until it can.
    #[error("the record is not available: {0}")]
    Store(Arc<str>),
    /// Rule files cannot be looked at; nothing is allowed by rule until they can.
    #[error("the rule files: {0}")]
    RulesUnreadable(&'static str),
    /// Something outside the host failed, in words for whoever asked.
    #[error("{0}")]
    World(Arc<str>),
    /// The host is ending.
    #[error("the host is shutting down")]
    ShuttingDown,
}
