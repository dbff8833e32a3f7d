//! State: what is open now, folded from the log.
//!
//! Invariants: only [`State::apply`] changes it; it holds what is open and a bounded number of
//! what ended last; restored from a [`Snapshot`] it equals a fold from the first event.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::agent::{Agent, OpenCounts};
use crate::approval::{Approval, Ended};
use crate::event::{
    AgentRegistered, AgentStatusChanged, AnswerAttempted, AnswerSettled, ApprovalAttached,
    ApprovalDismissed, ApprovalRequested, ApprovalResolved, Ask, Attachment, BaseState,
    ConnectionLapsed, ConnectionLost, Delivery, Device, Event, HostStarted, ProcessKey,
    ProcessMarked, ProcessesForgotten, QuestionAsked, RecordRedacted, TokenCreated,
};
use crate::ids::{
    AgentId, ApprovalId, ClientId, DeviceId, PrincipalKey, QuestionId, Seq, Timestamp, TokenId,
};
use crate::limits::{RECENT_ENDED_BYTES_KEPT, RECENT_ENDED_KEPT};
use crate::question::{Question, QuestionEnded};
use crate::snapshot::{AnswerChange, Changes, Mark, Snapshot, Token};

/// An ask's own key within its agent.
pub(crate) type AskKey = (AgentId, Option<String>, String);

/// What time will end, unless something else does first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deadline {
    Approval(ApprovalId),
    Question(QuestionId),
}

/// What one connection holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Held {
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
    pub(crate) tokens: HashMap<TokenId, Token>,
    tokens_by_hash: HashMap<String, TokenId>,
    pub(crate) marks: BTreeMap<ProcessKey, AgentId>,
    pub(crate) ask_keys: HashMap<AskKey, ApprovalId>,
    pub(crate) idempotency: HashMap<(PrincipalKey, String), ApprovalId>,
    pub(crate) held: HashMap<ClientId, Held>,
    pub(crate) deadlines: BTreeSet<(Timestamp, Deadline)>,
    pub(crate) lapses: BTreeSet<(Timestamp, ClientId)>,
    changed: Changed,
}

/// What was touched since the last [`State::take_changes`].
#[derive(Clone, Debug, Default)]
struct Changed {
    agents: BTreeSet<AgentId>,
    approvals: BTreeSet<ApprovalId>,
    rest: Changes,
}

/// Reading.
impl State {
    /// The newest event counted in.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Agents by id.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    /// One agent.
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

    /// An open question.
    pub fn find_question(&self, id: &QuestionId) -> Option<&Question> {
        self.questions.get(id)
    }

    /// Devices by id.
    pub fn devices(&self) -> impl Iterator<Item = &Arc<Device>> {
        self.devices.values()
    }

    /// One device.
    pub fn find_device(&self, id: &DeviceId) -> Option<&Arc<Device>> {
        self.devices.get(id)
    }

    /// Tokens, in no order.
    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.values()
    }

    /// One token.
    pub fn find_token(&self, id: &TokenId) -> Option<&Token> {
        self.tokens.get(id)
    }

    /// The token with this hash, unless its time is over.
    pub fn find_token_by_hash(&self, hash: &str, now: Timestamp) -> Option<&Token> {
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
            Event::ApprovalRequested(e) => self.apply_requested(seq, at, e),
            Event::ApprovalResolved(e) => return self.apply_resolved(seq, at, e),
            Event::ApprovalAttached(e) => self.apply_attached(e),
            Event::ApprovalDismissed(e) => self.apply_dismissed(e),
            Event::AnswerAttempted(e) => self.apply_attempted(e),
            Event::AnswerSettled(e) => self.apply_settled(e),
            Event::QuestionAsked(e) => self.apply_question_asked(seq, at, e),
            Event::QuestionEnded(e) => self.apply_question_ended(seq, at, e),
            Event::DeviceRegistered(e) => self.put_device(&e.device),
            Event::DeviceUpdated(e) => self.put_device(&e.device),
            Event::TokenCreated(e) => self.apply_token_created(at, e),
            Event::TokenRevoked(e) => self.remove_token(&e.token),
            Event::ProcessMarked(e) => self.apply_marked(e),
            Event::ProcessesForgotten(e) => self.apply_forgotten(e),
            Event::RecordRedacted(e) => self.apply_redacted(e),
            Event::RecordPruned(e) => self.apply_pruned(e.before),
            Event::AgentInterruptRequested(_)
            | Event::ApprovalResolveRequested(_)
            | Event::ApprovalResolveRefused(_)
            | Event::Notified(_) => {}
        }
        None
    }

    /// What was touched since this was last called, each thing in its last form.
    pub fn take_changes(&mut self) -> Changes {
        let changed = std::mem::take(&mut self.changed);
        let mut changes = changed.rest;
        changes.agents = changed
            .agents
            .into_iter()
            .map(|id| (id.clone(), self.agents.get(&id).cloned()))
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
        state.changed = Changed::default();
        state
    }

    fn apply_host_started(&mut self, event: &HostStarted) {
        let clients: Vec<_> = self.held.keys().cloned().collect();
        for client in clients {
            self.start_lapse(&client, event.lapses_at);
        }
    }

    fn apply_connection_lost(&mut self, event: &ConnectionLost) {
        self.start_lapse(&event.client, event.lapses_at);
    }

    fn start_lapse(&mut self, client: &ClientId, lapses_at: Timestamp) {
        if !self.held.contains_key(client) {
            return;
        }
        let held = hold(&mut self.held, &mut self.lapses, client, Some(lapses_at));
        for id in &held.agents {
            if let Some(agent) = self.agents.get_mut(id) {
                agent.lapses_at = Some(lapses_at);
                self.changed.agents.insert(id.clone());
            }
        }
        for id in &held.approvals {
            if let Some(approval) = self.approvals.get_mut(id) {
                approval.lapses_at = Some(lapses_at);
                self.changed.approvals.insert(id.clone());
            }
        }
    }

    fn apply_connection_lapsed(&mut self, event: &ConnectionLapsed) {
        let Some(held) = self.held.remove(&event.client) else {
            return;
        };
        drop_lapse(&mut self.lapses, &event.client, &held);
        for id in held.agents {
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.client = None;
                agent.lapses_at = None;
                self.changed.agents.insert(id);
            }
        }
        for id in held.approvals {
            if let Some(approval) = self.approvals.get_mut(&id) {
                approval.client = None;
                approval.lapses_at = None;
                self.changed.approvals.insert(id);
            }
        }
    }

    fn apply_agent_registered(&mut self, at: Timestamp, event: &AgentRegistered) {
        let earlier = self.agents.get(&event.agent.id).cloned();
        if let Some(earlier) = &earlier {
            self.release_agent(earlier);
        }
        self.put_agent(Agent {
            profile: event.agent.clone(),
            base: BaseState::Idle,
            current_task: None,
            owner: event.owner.clone(),
            client: event.client.clone(),
            lapses_at: None,
            registered_at: earlier.as_ref().map_or(at, |agent| agent.registered_at),
            updated_at: at,
        });
        if let Some(from) = earlier.and_then(|agent| agent.client) {
            self.move_asks(event, &from);
        }
    }

    /// The owner of an agent came back elsewhere: its open asks come along, to its new connection
    /// or, where it has none, to nobody's.
    fn move_asks(&mut self, event: &AgentRegistered, from: &ClientId) {
        let Some(held) = self.held.get(from) else {
            return;
        };
        let moved: Vec<_> = held
            .approvals
            .iter()
            .filter(|id| {
                self.approvals.get(*id).is_some_and(|approval| {
                    let ask = &approval.ask;
                    ask.agent.as_ref() == Some(&event.agent.id) && ask.by.key == event.owner
                })
            })
            .cloned()
            .collect();
        for id in moved {
            self.attach(&id, event.client.as_ref());
        }
    }

    fn apply_agent_status(&mut self, at: Timestamp, event: &AgentStatusChanged) {
        let Some(mut agent) = self.agents.get(&event.agent.id).cloned() else {
            return;
        };
        self.release_agent(&agent);
        agent.base = event.base;
        agent.current_task.clone_from(&event.current_task);
        if agent.client != event.client {
            agent.client.clone_from(&event.client);
            agent.lapses_at = None;
        }
        agent.updated_at = at;
        self.put_agent(agent);
    }

    fn put_agent(&mut self, agent: Agent) {
        if let Some(client) = &agent.client {
            let held = hold(&mut self.held, &mut self.lapses, client, agent.lapses_at);
            held.agents.insert(agent.id().clone());
        }
        self.changed.agents.insert(agent.id().clone());
        self.agents.insert(agent.id().clone(), agent);
    }

    fn release_agent(&mut self, agent: &Agent) {
        if let Some(client) = &agent.client {
            release(&mut self.held, &mut self.lapses, client, |held| {
                held.agents.remove(agent.id());
            });
        }
    }

    fn remove_agent(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.remove(id) {
            self.release_agent(&agent);
            self.changed.agents.insert(id.clone());
        }
    }

    fn apply_requested(&mut self, seq: Seq, at: Timestamp, event: &ApprovalRequested) {
        let ask = event.ask.clone();
        let client = if ask.attachment == Attachment::None {
            None
        } else {
            ask.client.clone()
        };
        self.changed.approvals.insert(ask.id.clone());
        self.open_approval(Approval {
            ask,
            opened: seq,
            created_at: at,
            client,
            lapses_at: None,
            ended: None,
            delivery: Delivery::Waiting,
            deliveries: 0,
            dismissed: false,
        });
    }

    fn open_approval(&mut self, approval: Approval) {
        let ask = approval.ask.clone();
        if let Some(agent) = &ask.agent {
            self.open.entry(agent.clone()).or_default().approvals += 1;
        }
        *self.open_bytes.entry(ask.agent.clone()).or_default() += ask.bytes();
        self.open_bytes_total += ask.bytes();
        if let Some(key) = ask_key(&ask) {
            self.ask_keys.insert(key, ask.id.clone());
        }
        if let Some(key) = &ask.idempotency_key {
            self.idempotency
                .insert((ask.by.key.clone(), key.clone()), ask.id.clone());
        }
        if let Some(deadline) = ask.deadline {
            self.deadlines
                .insert((deadline, Deadline::Approval(ask.id.clone())));
        }
        if let Some(client) = &approval.client {
            let held = hold(&mut self.held, &mut self.lapses, client, approval.lapses_at);
            held.approvals.insert(ask.id.clone());
        }
        self.approvals.insert(ask.id.clone(), approval);
    }

    fn apply_resolved(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &ApprovalResolved,
    ) -> Option<Arc<Ask>> {
        let mut approval = self.approvals.remove(&event.approval)?;
        self.changed.approvals.remove(&event.approval);
        let ask = approval.ask.clone();
        self.forget_open(&approval);
        approval.ended = Some(Ended {
            ending: event.ending.clone(),
            seq,
            at,
        });
        approval.delivery = event.delivery;
        approval.lapses_at = None;
        self.changed.rest.approvals.push(approval.clone());
        self.keep_recent(approval);
        Some(ask)
    }

    fn forget_open(&mut self, approval: &Approval) {
        let ask = &approval.ask;
        if let Some(agent) = &ask.agent {
            self.close_one(agent, |open| open.approvals -= 1);
        }
        self.release_bytes(ask);
        if let Some(key) = ask_key(ask)
            && self.ask_keys.get(&key) == Some(&ask.id)
        {
            self.ask_keys.remove(&key);
        }
        if let Some(key) = &ask.idempotency_key {
            self.idempotency.remove(&(ask.by.key.clone(), key.clone()));
        }
        if let Some(deadline) = ask.deadline {
            self.deadlines
                .remove(&(deadline, Deadline::Approval(ask.id.clone())));
        }
        if let Some(client) = &approval.client {
            release(&mut self.held, &mut self.lapses, client, |held| {
                held.approvals.remove(&ask.id);
            });
        }
    }

    /// Keeps the newest that ended, and at least the very newest.
    fn keep_recent(&mut self, approval: Approval) {
        self.recent_bytes += approval.ask.bytes();
        self.recent.push_back(approval);
        while self.recent.len() > 1
            && (self.recent.len() > RECENT_ENDED_KEPT
                || self.recent_bytes > RECENT_ENDED_BYTES_KEPT)
        {
            let oldest = self.recent.pop_front();
            self.recent_bytes -= oldest.map_or(0, |oldest| oldest.ask.bytes());
        }
    }

    fn recount_recent(&mut self) {
        self.recent_bytes = self
            .recent
            .iter()
            .map(|approval| approval.ask.bytes())
            .sum();
    }

    fn release_bytes(&mut self, ask: &Ask) {
        self.open_bytes_total = self.open_bytes_total.saturating_sub(ask.bytes());
        if let Some(bytes) = self.open_bytes.get_mut(&ask.agent) {
            *bytes = bytes.saturating_sub(ask.bytes());
            if *bytes == 0 {
                self.open_bytes.remove(&ask.agent);
            }
        }
    }

    fn close_one(&mut self, agent: &AgentId, close: impl FnOnce(&mut OpenCounts)) {
        if let Some(open) = self.open.get_mut(agent) {
            close(open);
            if *open == OpenCounts::default() {
                self.open.remove(agent);
            }
        }
    }

    fn apply_attached(&mut self, event: &ApprovalAttached) {
        self.attach(&event.approval, Some(&event.client));
    }

    fn attach(&mut self, id: &ApprovalId, to: Option<&ClientId>) {
        let Some(approval) = self.approvals.get_mut(id) else {
            return;
        };
        let from = std::mem::replace(&mut approval.client, to.cloned());
        approval.lapses_at = None;
        if let Some(from) = from {
            release(&mut self.held, &mut self.lapses, &from, |held| {
                held.approvals.remove(id);
            });
        }
        if let Some(to) = to {
            let held = hold(&mut self.held, &mut self.lapses, to, None);
            held.approvals.insert(id.clone());
        }
        self.changed.approvals.insert(id.clone());
    }

    fn apply_dismissed(&mut self, event: &ApprovalDismissed) {
        self.recent
            .retain(|approval| approval.opened != event.opened);
        self.recount_recent();
        self.changed.rest.dismissed.push(event.opened);
    }

    fn apply_attempted(&mut self, event: &AnswerAttempted) {
        if let Some(approval) = self.find_recent(event.opened) {
            approval.delivery = Delivery::Attempted;
            approval.deliveries = event.deliveries;
        }
        self.changed.rest.answers.push(AnswerChange {
            opened: event.opened,
            delivery: Delivery::Attempted,
            deliveries: Some(event.deliveries),
        });
    }

    fn apply_settled(&mut self, event: &AnswerSettled) {
        if let Some(approval) = self.find_recent(event.opened) {
            approval.delivery = event.delivery;
        }
        let change = AnswerChange {
            opened: event.opened,
            delivery: event.delivery,
            deliveries: None,
        };
        self.changed.rest.answers.push(change);
    }

    fn find_recent(&mut self, opened: Seq) -> Option<&mut Approval> {
        self.recent
            .iter_mut()
            .rev()
            .find(|approval| approval.opened == opened)
    }

    fn apply_question_asked(&mut self, seq: Seq, at: Timestamp, event: &QuestionAsked) {
        let question = Question {
            text: event.question.clone(),
            opened: seq,
            created_at: at,
            ended: None,
        };
        self.changed.rest.questions.push(question.clone());
        self.open_question(question);
    }

    fn open_question(&mut self, question: Question) {
        if let Some(agent) = &question.text.agent {
            self.open.entry(agent.clone()).or_default().questions += 1;
        }
        if let Some(deadline) = question.text.deadline {
            self.deadlines
                .insert((deadline, Deadline::Question(question.text.id.clone())));
        }
        self.questions.insert(question.text.id.clone(), question);
    }

    fn apply_question_ended(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &crate::event::QuestionEnded,
    ) {
        let Some(mut question) = self.questions.remove(&event.question) else {
            return;
        };
        if let Some(agent) = &question.text.agent {
            self.close_one(agent, |open| open.questions -= 1);
        }
        if let Some(deadline) = question.text.deadline {
            self.deadlines
                .remove(&(deadline, Deadline::Question(question.text.id.clone())));
        }
        question.ended = Some(QuestionEnded {
            ending: event.ending.clone(),
            seq,
            at,
        });
        self.changed.rest.questions.push(question);
    }

    fn put_device(&mut self, device: &Arc<Device>) {
        self.changed.rest.devices.push(device.clone());
        self.devices.insert(device.id.clone(), device.clone());
    }

    fn apply_token_created(&mut self, at: Timestamp, event: &TokenCreated) {
        let token = Token {
            id: event.token.clone(),
            role: event.role.clone(),
            name: event.name.clone(),
            hash: event.hash.clone(),
            created_at: at,
            expires_at: event.expires_at,
        };
        self.changed
            .rest
            .tokens
            .push((token.id.clone(), Some(token.clone())));
        self.put_token(token);
    }

    fn put_token(&mut self, token: Token) {
        self.tokens_by_hash
            .insert(token.hash.clone(), token.id.clone());
        self.tokens.insert(token.id.clone(), token);
    }

    fn remove_token(&mut self, id: &TokenId) {
        if let Some(token) = self.tokens.remove(id) {
            self.tokens_by_hash.remove(&token.hash);
            self.changed.rest.tokens.push((id.clone(), None));
        }
    }

    fn apply_marked(&mut self, event: &ProcessMarked) {
        self.marks.insert(event.process, event.agent.clone());
        let rest = &mut self.changed.rest;
        rest.marks_removed
            .retain(|removed| *removed != event.process);
        rest.marks_added.push(Mark {
            process: event.process,
            agent: event.agent.clone(),
        });
    }

    fn apply_forgotten(&mut self, event: &ProcessesForgotten) {
        for process in &event.processes {
            self.marks.remove(process);
            let rest = &mut self.changed.rest;
            rest.marks_added.retain(|added| added.process != *process);
            rest.marks_removed.push(*process);
        }
    }

    fn apply_redacted(&mut self, event: &RecordRedacted) {
        self.recent.retain(|approval| {
            approval.opened != event.seq
                && approval
                    .ended
                    .as_ref()
                    .is_none_or(|ended| ended.seq != event.seq)
        });
        self.recount_recent();
        self.changed.rest.redacted.push(event.seq);
    }

    fn apply_pruned(&mut self, before: Seq) {
        self.recent.retain(|approval| approval.opened >= before);
        self.recount_recent();
        let pruned_before = &mut self.changed.rest.pruned_before;
        *pruned_before = (*pruned_before).max(Some(before));
    }
}

pub(crate) fn ask_key(ask: &Ask) -> Option<AskKey> {
    Some((ask.agent.clone()?, ask.turn.clone(), ask.tool_call.clone()?))
}

/// What a connection holds, to add to; with when it lapses, if it is gone.
fn hold<'a>(
    held: &'a mut HashMap<ClientId, Held>,
    lapses: &mut BTreeSet<(Timestamp, ClientId)>,
    client: &ClientId,
    lapses_at: Option<Timestamp>,
) -> &'a mut Held {
    let holding = held.entry(client.clone()).or_default();
    if let Some(at) = lapses_at {
        drop_lapse(lapses, client, holding);
        holding.lapses_at = Some(at);
        lapses.insert((at, client.clone()));
    }
    holding
}

/// Takes something out of what a connection holds; with the last thing goes its deadline.
fn release(
    held: &mut HashMap<ClientId, Held>,
    lapses: &mut BTreeSet<(Timestamp, ClientId)>,
    client: &ClientId,
    take: impl FnOnce(&mut Held),
) {
    let Some(holding) = held.get_mut(client) else {
        return;
    };
    take(holding);
    if holding.agents.is_empty() && holding.approvals.is_empty() {
        drop_lapse(lapses, client, holding);
        held.remove(client);
    }
}

fn drop_lapse(lapses: &mut BTreeSet<(Timestamp, ClientId)>, client: &ClientId, held: &Held) {
    if let Some(at) = held.lapses_at {
        lapses.remove(&(at, client.clone()));
    }
}
