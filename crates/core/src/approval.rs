//! Approvals: opened by an ask, ended once, their answer told and counted.
//!
//! Invariant: an approval leaves `pending` only through one [`ApprovalEnding`], and never returns to it.

use std::sync::Arc;

use crate::event::{AnswerDelivery, ApprovalEnding, ApprovalOutcome, Ask, AskAttachment};
use crate::ids::{ClientId, PrincipalKey, Seq, Timestamp};
use crate::principal::Principal;

/// The option that allows unless the ask names others.
pub const APPROVE: &str = "approve";
/// The option that denies.
pub const DENY: &str = "deny";
/// How an ask ends that its asker took back.
pub(crate) const CANCELLED: &str = "cancelled";
/// Why an ask was cancelled that a second one for the same tool call replaced.
pub const REPLACED: &str = "replaced by a later ask for the same tool call";
/// How an ask ends that nobody answered in time.
pub(crate) const EXPIRED: &str = "expired";
/// How an ask ends whose asker is gone.
pub(crate) const GONE: &str = "agent_gone";

/// One ask for permission and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// What was asked.
    pub ask: Arc<Ask>,
    /// The event that opened it.
    pub opened: Seq,
    /// When it was opened.
    pub created_at: Timestamp,
    /// The connection its asker has, or had last.
    pub client: Option<ClientId>,
    /// Set while that connection is gone: when the ask is given up.
    pub lapses_at: Option<Timestamp>,
    /// How it ended, and when.
    pub ended: Option<ApprovalEnd>,
    /// What became of the answer.
    pub delivery: AnswerDelivery,
    /// How often its asker was told.
    pub deliveries: u32,
    /// Whether it was taken off the list.
    pub dismissed: bool,
}

/// The end of an approval, with its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalEnd {
    pub ending: Arc<ApprovalEnding>,
    /// The event that ended it.
    pub seq: Seq,
    pub at: Timestamp,
}

impl Approval {
    /// Whether it still waits for an answer.
    pub fn is_pending(&self) -> bool {
        self.ended.is_none()
    }

    /// The connection whose word alone counts, while the ask is owned at all.
    pub fn owner(&self) -> Option<&ClientId> {
        match self.ask.attachment {
            AskAttachment::Owner => self.client.as_ref(),
            AskAttachment::None | AskAttachment::Asker => None,
        }
    }

    /// Whether the ask outlives its asker's connection.
    pub(crate) fn outlives_connection(&self) -> bool {
        // With a key its asker can come back and find it; with a deadline it ends by itself.
        self.ask.idempotency_key.is_some() || self.ask.deadline.is_some()
    }

    /// Whether `principal` is the one who asked.
    pub fn was_asked_by(&self, principal: &Principal) -> bool {
        match principal.agent() {
            Some(agent) => self.ask.agent.as_ref() == Some(agent),
            None => self.ask.by.key == principal.key,
        }
    }

    /// What `option` would mean: allowed only if the ask names it as approving.
    pub fn outcome_of(&self, option: &str) -> ApprovalOutcome {
        if self
            .ask
            .approving
            .iter()
            .any(|approving| approving == option)
        {
            ApprovalOutcome::Allowed
        } else if option == DENY {
            ApprovalOutcome::Denied
        } else {
            // An option with a name of its own is never an allow.
            ApprovalOutcome::Answered
        }
    }

    /// Whether `principal` opened it under its own key `key`.
    pub fn answers_key(&self, principal: &PrincipalKey, key: &str) -> bool {
        self.ask.by.key == *principal && self.ask.idempotency_key.as_deref() == Some(key)
    }
}
