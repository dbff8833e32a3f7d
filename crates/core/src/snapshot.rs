//! What recovery starts from, and what each commit adds to it.
//!
//! Invariant: a store that writes every [`CommitChanges`] with its events can give back the
//! [`Snapshot`] from which [`State`](crate::State) goes on as if it had folded the whole log.

use std::sync::Arc;

use crate::agent::Agent;
use crate::approval::Approval;
use crate::checkpoint::Checkpoint;
use crate::event::{AnswerDelivery, Device, LoginDevice, ProcessKey};
use crate::grant::GrantState;
use crate::ids::{AgentId, GrantId, Seq, Timestamp, TokenId};
use crate::json::Json;
use crate::limits::DEVICE_RENEWAL_MS;
use crate::principal::Role;
use crate::question::Question;

/// A token, without the token.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessToken {
    /// Its public name.
    pub id: TokenId,
    /// What its bearer may do.
    pub role: Role,
    /// Who its bearer is on the record.
    pub name: String,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// The browser that holds it, if it is the token of a login.
    pub device: Option<LoginDevice>,
    /// When a device was seen, as far as that was recorded: within a day of its last use.
    pub last_seen: Option<Timestamp>,
}

impl AccessToken {
    /// Whether a device's use is to be recorded: its token is valid, and the last record is old.
    pub fn renewal_due(&self, now: Timestamp) -> bool {
        let Some(device) = &self.device else {
            return false;
        };
        // A session of a few hours is renewed more often, or it would end while it is used.
        let interval_ms = DEVICE_RENEWAL_MS.min(device.session_ms / 4);
        let is_valid = self.expires_at.is_none_or(|end| now < end);
        is_valid
            && self
                .last_seen
                .is_none_or(|seen| now >= seen.plus_ms(interval_ms))
    }
}

/// A process that is an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMark {
    pub process: ProcessKey,
    /// The agent it is.
    pub agent: AgentId,
}

/// Everything that lives in memory, as of one sequence number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The newest event that is counted in; zero for an empty log.
    pub head: Seq,
    /// All agents on the list.
    pub agents: Vec<Agent>,
    /// All open approvals.
    pub open_approvals: Vec<Approval>,
    /// The newest that ended and were not dismissed, oldest first.
    pub recent_approvals: Vec<Approval>,
    /// Ended approvals of managed agents that are being told their answer.
    pub undelivered: Vec<Approval>,
    /// All open questions.
    pub open_questions: Vec<Question>,
    /// All devices.
    pub devices: Vec<Arc<Device>>,
    /// All tokens that were not revoked.
    pub tokens: Vec<AccessToken>,
    /// All processes known to be agents.
    pub marks: Vec<ProcessMark>,
    /// All grants.
    pub grants: Vec<GrantState>,
    /// Trusted rule files, each with the digest of the content that was trusted last.
    pub trusted: Vec<(String, String)>,
    /// How far each live agent was heard. [`State::restore`](crate::State::restore) ignores them:
    /// they are for those who hear agents.
    pub checkpoints: Vec<Checkpoint>,
}

/// What became of the answer to an approval that may no longer be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerChange {
    /// The event that opened the approval.
    pub opened: Seq,
    /// What became of its answer.
    pub delivery: AnswerDelivery,
    /// How often its asker was told, where that changed.
    pub deliveries: Option<u32>,
}

/// What one commit changed, each thing in its last form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitChanges {
    /// Agents as they are now, or that they are gone.
    pub agents: Vec<(AgentId, Option<Agent>)>,
    /// Approvals as they are now, ended ones included.
    pub approvals: Vec<Approval>,
    /// Answers of ended approvals; to be written after `approvals`.
    pub answers: Vec<AnswerChange>,
    /// Approvals taken off the list, by the event that opened them; after `approvals` too.
    pub dismissed: Vec<Seq>,
    /// Questions as they are now, ended ones included.
    pub questions: Vec<Question>,
    /// Devices as they are now.
    pub devices: Vec<Arc<Device>>,
    /// Tokens as they are now, or that they are gone.
    pub tokens: Vec<(TokenId, Option<AccessToken>)>,
    /// New marks.
    pub marks_added: Vec<ProcessMark>,
    /// Marks of dead processes.
    pub marks_removed: Vec<ProcessKey>,
    /// Grants as they are now, or that they are gone.
    pub grants: Vec<(GrantId, Option<GrantState>)>,
    /// Rule files that were trusted, each with the digest of its content.
    pub trusted: Vec<(String, String)>,
    /// How far agents were heard, or that it no longer matters. [`State`](crate::State) never names
    /// any; the host adds them to what it commits.
    pub checkpoints: Vec<(AgentId, Option<Checkpoint>)>,
    /// What the notifier keeps under a name, or that it keeps it no longer: how far each channel has
    /// read, and which browsers subscribed. [`State`](crate::State) never names any; the host adds
    /// them to what it commits.
    pub notify_documents: Vec<(String, Option<Json>)>,
    /// Events whose payload is to be erased.
    pub redacted: Vec<Seq>,
    /// The oldest event to keep; everything before it is to be erased.
    pub pruned_before: Option<Seq>,
}
