//! State: what is open now, folded from the log.
//!
//! Invariants: only [`State::apply`] changes it; it holds what is open and a bounded number of
//! what ended last; restored from a [`Snapshot`] it equals a fold from the first event.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::agent::{Agent, OpenCounts};
use crate::approval::Approval;
use crate::event::{Ask, Device, Event, ProcessKey};
use crate::grant::GrantState;
use crate::ids::{
    AgentId, ApprovalId, ClientId, DeviceId, GrantId, PrincipalKey, QuestionId, Seq, Timestamp,
    TokenId,
};
use crate::question::Question;
use crate::snapshot::{AccessToken, CommitChanges, Snapshot};

mod agents;
mod approvals;
mod connections;
mod grants;
mod hierarchy;
mod managed;
mod questions;
mod record;

/// An ask's own key within its agent.
pub(crate) type AskKey = (AgentId, Option<String>, String);

/// What time will end, unless something else does first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeadlineTarget {
    Approval(ApprovalId),
    Question(QuestionId),
    Grant(GrantId),
    Bypass(AgentId),
    Ceiling(AgentId),
    Escalation(QuestionId),
    Turn(AgentId),
}

/// What one connection holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConnectionHoldings {
    pub(crate) agents: BTreeSet<AgentId>,
    pub(crate) approvals: BTreeSet<ApprovalId>,
    lapses_at: Option<Timestamp>,
}

/// Everything that must live in memory.
#[derive(Clone, Debug, Default)]
pub struct State {
    head: Seq,
    pub(crate) agents: BTreeMap<AgentId, Agent>,
    pub(crate) open: HashMap<AgentId, OpenCounts>,
    pub(crate) approvals: HashMap<ApprovalId, Approval>,
    pub(crate) open_bytes: HashMap<Option<AgentId>, usize>,
    pub(crate) open_bytes_total: usize,
    recent: VecDeque<Approval>,
    recent_bytes: usize,
    pub(crate) questions: HashMap<QuestionId, Question>,
    pub(crate) devices: BTreeMap<DeviceId, Arc<Device>>,
    pub(crate) tokens: HashMap<TokenId, AccessToken>,
    tokens_by_hash: HashMap<String, TokenId>,
    tokens_by_agent: HashMap<AgentId, BTreeSet<TokenId>>,
    pub(crate) grants: BTreeMap<GrantId, GrantState>,
    grants_by_rule: HashMap<String, BTreeSet<GrantId>>,
    session_grants: HashMap<AgentId, BTreeSet<GrantId>>,
    pub(crate) trusted: BTreeMap<String, String>,
    pub(crate) marks: BTreeMap<ProcessKey, AgentId>,
    /// Answers that managed agents are being told, by the event that opened the ask.
    pub(crate) owed: BTreeMap<AgentId, BTreeMap<Seq, Approval>>,
    pub(crate) ask_keys: HashMap<AskKey, ApprovalId>,
    pub(crate) idempotency: HashMap<(PrincipalKey, String), ApprovalId>,
    pub(crate) held: HashMap<ClientId, ConnectionHoldings>,
    pub(crate) deadlines: BTreeSet<(Timestamp, DeadlineTarget)>,
    pub(crate) lapses: BTreeSet<(Timestamp, ClientId)>,
    changed: TouchedIds,
}

/// What was touched since the last [`State::take_changes`].
#[derive(Clone, Debug, Default)]
struct TouchedIds {
    // Ids instead of values: what changes several times in one commit is written once, at the end.
    agents: BTreeSet<AgentId>,
    approvals: BTreeSet<ApprovalId>,
    grants: BTreeSet<GrantId>,
    rest: CommitChanges,
}
impl State {
    /// The newest event counted in.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Agents by id.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }
    pub fn find_agent(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.get(id)
    }

    /// What an agent has open.
    pub fn open_of(&self, agent: &AgentId) -> OpenCounts {
        self.open.get(agent).copied().unwrap_or_default()
    }

    /// Open approvals, in no order.
    pub fn open_approvals(&self) -> impl ExactSizeIterator<Item = &Approval> {
        self.approvals.values()
    }

    /// The newest approvals that ended and were not dismissed, newest first.
    pub fn recent_approvals(&self) -> impl Iterator<Item = &Approval> {
        self.recent.iter().rev()
    }

    /// An approval that is open, or that ended lately and was not dismissed.
    pub fn find_approval(&self, id: &ApprovalId) -> Option<&Approval> {
        self.approvals.get(id).or_else(|| {
            self.recent
                .iter()
                .rev()
                .find(|approval| approval.ask.id == *id)
        })
    }

    /// The approval that a principal opened under its own key, if it is open or ended lately.
    pub fn find_keyed(&self, principal: &PrincipalKey, key: &str) -> Option<&Approval> {
        let open = self.idempotency.get(&(principal.clone(), key.to_owned()));
        open.and_then(|id| self.approvals.get(id)).or_else(|| {
            self.recent
                .iter()
                .rev()
                .find(|approval| approval.answers_key(principal, key))
        })
    }

    /// Open questions, in no order.
    pub fn open_questions(&self) -> impl ExactSizeIterator<Item = &Question> {
        self.questions.values()
    }
    pub fn find_question(&self, id: &QuestionId) -> Option<&Question> {
        self.questions.get(id)
    }

    /// Devices by id.
    pub fn devices(&self) -> impl Iterator<Item = &Arc<Device>> {
        self.devices.values()
    }
    pub fn find_device(&self, id: &DeviceId) -> Option<&Arc<Device>> {
        self.devices.get(id)
    }

    /// Tokens, in no order.
    pub fn tokens(&self) -> impl Iterator<Item = &AccessToken> {
        self.tokens.values()
    }
    pub fn find_token(&self, id: &TokenId) -> Option<&AccessToken> {
        self.tokens.get(id)
    }

    /// The token with this hash, unless its time is over.
    pub fn find_token_by_hash(&self, hash: &str, now: Timestamp) -> Option<&AccessToken> {
        // The time is checked here: an expired token stays in memory until the next one is made.
        let token = self.tokens.get(self.tokens_by_hash.get(hash)?)?;
        token
            .expires_at
            .is_none_or(|end| now < end)
            .then_some(token)
    }

    /// Connections that hold something, open or lost.
    pub fn holding_clients(&self) -> impl Iterator<Item = &ClientId> {
        self.held.keys()
    }

    /// Processes that are agents.
    pub fn marks(&self) -> impl Iterator<Item = (&ProcessKey, &AgentId)> {
        self.marks.iter()
    }

    /// The agent a process is known to be.
    pub fn find_mark(&self, process: &ProcessKey) -> Option<&AgentId> {
        self.marks.get(process)
    }

    /// The next instant at which something may end by time alone.
    pub fn next_deadline(&self, expiry_held_until: Timestamp) -> Option<Timestamp> {
        let expiry = self.deadlines.first();
        // An earlier wake-up would find nothing that may expire.
        let expiry = expiry.map(|(at, _)| (*at).max(expiry_held_until));
        let lapse = self.lapses.first().map(|(at, _)| *at);
        expiry.into_iter().chain(lapse).min()
    }
}

/// Changing.
impl State {
    /// Makes a committed event so. Gives back the ask that it ended, if it ended one.
    pub fn apply(&mut self, seq: Seq, at: Timestamp, event: &Event) -> Option<Arc<Ask>> {
        self.head = seq;
        match event {
            Event::HostStarted(e) => self.apply_host_started(e),
            Event::ConnectionLost(e) => self.apply_connection_lost(e),
            Event::ConnectionLapsed(e) => self.apply_connection_lapsed(e),
            Event::AgentRegistered(e) => self.apply_agent_registered(at, e),
            Event::AgentStatusChanged(e) => self.apply_agent_status(at, e),
            Event::AgentUnregistered(e) => self.remove_agent(&e.agent),
            Event::AgentBypassChanged(e) => self.apply_bypass(at, e),
            Event::AgentSpawned(e) => self.apply_spawned(at, e),
            Event::AgentRunRequested(e) => self.apply_run_requested(at, e),
            Event::WorktreeChanged(e) => self.apply_worktree_changed(at, e),
            Event::AgentLaunched(e) => self.apply_launched(at, e),
            Event::AgentReady(e) => self.apply_ready(at, e),
            Event::AgentStopRequested(e) => self.apply_stop_requested(at, &e.agent),
            Event::AgentExited(e) => self.apply_exited(at, e),
            Event::AgentRenamed(e) => self.apply_renamed(at, e),
            Event::AgentArchived(e) => self.apply_archived(at, e),
            Event::AgentConfigured(e) => self.apply_configured(at, e),
            Event::AgentReported(e) => self.apply_reported(at, e),
            Event::MessageQueued(e) => self.apply_message_queued(at, e),
            Event::MessageWithdrawn(e) => self.apply_message_withdrawn(at, e),
            Event::MessagesDropped(e) => self.apply_messages_dropped(at, &e.agent),
            Event::MessageRepeated(e) => self.apply_message_repeated(at, e),
            Event::ParentMessageWithdrawn(e) => self.apply_parent_message_withdrawn(at, e),
            Event::ParentNotified(e) => self.apply_parent_notified(at, e),
            Event::AgentCeilingChanged(e) => self.apply_ceiling(at, e),
            Event::TurnStarted(e) => self.apply_turn_started(at, e),
            Event::TurnInterrupted(e) => self.apply_turn_interrupted(at, e),
            Event::TurnEnded(e) => self.apply_turn_ended(at, e),
            Event::TranscriptAdded(e) => self.apply_transcript_added(at, e),
            Event::PassUsed(e) => self.apply_pass_used(at, e),
            Event::GrantCreated(e) => self.apply_grant_created(at, e),
            Event::GrantRemoved(e) => self.remove_grant(&e.grant),
            Event::RulesTrusted(e) => self.apply_trusted(e),
            Event::ApprovalRequested(e) => self.apply_requested(seq, at, e),
            Event::ApprovalResolved(e) => return self.apply_resolved(seq, at, e),
            Event::ApprovalAttached(e) => self.apply_attached(e),
            Event::ApprovalDismissed(e) => self.apply_dismissed(e),
            Event::AnswerAttempted(e) => self.apply_attempted(e),
            Event::AnswerSettled(e) => self.apply_settled(e),
            Event::QuestionAsked(e) => self.apply_question_asked(seq, at, e),
            Event::QuestionEscalated(e) => self.apply_question_escalated(e),
            Event::QuestionEnded(e) => self.apply_question_ended(seq, at, e),
            Event::DeviceRegistered(e) => self.put_device(&e.device),
            Event::DeviceUpdated(e) => self.put_device(&e.device),
            Event::TokenCreated(e) => self.apply_token_created(at, e),
            Event::TokenRenewed(e) => self.apply_token_renewed(at, e),
            Event::TokenRevoked(e) => self.remove_token(&e.token),
            Event::ProcessMarked(e) => self.apply_marked(e),
            Event::ProcessesForgotten(e) => self.apply_forgotten(e),
            Event::RecordRedacted(e) => self.apply_redacted(e),
            Event::RecordPruned(e) => self.apply_pruned(e.before),
            // Notices for readers: nothing in memory follows from them.
            Event::AgentInterruptRequested(_)
            | Event::ApprovalResolveRequested(_)
            | Event::ApprovalResolveRefused(_)
            | Event::TerminalOpened(_)
            | Event::TerminalEnded(_)
            | Event::NotificationSent(_) => {}
        }
        None
    }

    /// What was touched since this was last called, each thing in its last form.
    pub fn take_changes(&mut self) -> CommitChanges {
        let changed = std::mem::take(&mut self.changed);
        let mut changes = changed.rest;
        changes.agents = changed
            .agents
            .into_iter()
            .map(|id| (id.clone(), self.agents.get(&id).cloned()))
            .collect();
        changes.grants = changed
            .grants
            .into_iter()
            .map(|id| (id.clone(), self.grants.get(&id).cloned()))
            .collect();
        changes.approvals.extend(
            changed
                .approvals
                .iter()
                .filter_map(|id| self.approvals.get(id).cloned()),
        );
        changes
    }

    /// Goes on from where a store left off.
    pub fn restore(snapshot: Snapshot) -> Self {
        let mut state = Self {
            head: snapshot.head,
            ..Self::default()
        };
        for agent in snapshot.agents {
            state.put_agent(agent);
        }
        for approval in snapshot.open_approvals {
            state.open_approval(approval);
        }
        for approval in snapshot.recent_approvals {
            state.keep_recent(approval);
        }
        for approval in snapshot.undelivered {
            state.put_owed(approval);
        }
        for question in snapshot.open_questions {
            state.open_question(question);
        }
        state.devices = snapshot
            .devices
            .into_iter()
            .map(|device| (device.id.clone(), device))
            .collect();
        for token in snapshot.tokens {
            state.put_token(token);
        }
        state.marks = snapshot
            .marks
            .into_iter()
            .map(|mark| (mark.process, mark.agent))
            .collect();
        for grant in snapshot.grants {
            state.put_grant(grant);
        }
        state.trusted = snapshot.trusted.into_iter().collect();
        // Nothing of this is a change: the store has it already.
        state.changed = TouchedIds::default();
        state
    }
}

pub(crate) fn ask_key(ask: &Ask) -> Option<AskKey> {
    Some((ask.agent.clone()?, ask.turn.clone(), ask.tool_call.clone()?))
}
