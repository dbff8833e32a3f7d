//! The promises, each checked from scratch after every input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use countersign_core::event::{
    AgentState, ApprovalOutcome, ApprovalResolved, AskAttachment, Effect, Event, Grant, GrantEnd,
    QuestionOutcome, Verdict,
};
use countersign_core::{
    AgentId, Approval, ApprovalEnd, ApprovalId, Ask, Caller, Decision, DecisionContext, GrantId,
    Input, OpenCounts, Question, Rejection, Role, RunState, Seq, State, Timestamp, limits,
};

use crate::family::{may_delegate, within_an_orchestrators_reach};
use crate::managed::Book;
use crate::world::{SEATS, World, agent_id, principal};

/// What the events have said so far.
#[derive(Default)]
pub(crate) struct Checks {
    open: BTreeSet<ApprovalId>,
    endings: BTreeMap<ApprovalId, ApprovalEnd>,
    /// The state a reader of public events believes each agent to be in.
    announced: BTreeMap<AgentId, AgentState>,
    /// Agents that were registered without a connection: their rows may be nobody's.
    unconnected: BTreeSet<AgentId>,
    /// Each grant ever made, and how often it was used, counted apart from the state.
    grants: BTreeMap<GrantId, (Arc<Grant>, u32)>,
    /// Grants that ended.
    over: BTreeSet<GrantId>,
    managed: Book,
}

impl Checks {
    /// What may follow from an input at all.
    pub(crate) fn decided(
        &self,
        state: &State,
        context: DecisionContext<'_>,
        input: &Input,
        decided: &Result<Decision, Rejection>,
    ) {
        if let Some(Role::Observer) = caller_of(input).map(|caller| &caller.principal.role) {
            assert!(decided.is_err(), "an observer changed something");
        }
        let events = decided.iter().flat_map(|decision| &decision.events);
        let mut ended = BTreeSet::new();
        let mut opened = BTreeMap::new();
        for event in events {
            assert_eq!(
                &Event::decode(event.kind(), &event.encode().unwrap())
                    .unwrap()
                    .unwrap(),
                event
            );
            if let Some(caller) = caller_of(input)
                && caller.principal.agent().is_some()
            {
                let reached = within_an_agents_reach(event)
                    || within_an_orchestrators_reach(state, caller, event);
                assert!(reached, "an agent led to {event:?}");
            }
            if let Event::ApprovalResolved(e) = event {
                assert!(ended.insert(e.approval.clone()), "ended twice: {event:?}");
                let asked = opened
                    .get(&e.approval)
                    .cloned()
                    .unwrap_or_else(|| state.find_approval(&e.approval).unwrap().ask.clone());
                if e.ending.outcome == ApprovalOutcome::Allowed {
                    assert!(
                        self.may_allow(state, context, input, e, &asked),
                        "{event:?}"
                    );
                }
            }
            if let Event::ApprovalRequested(e) = event {
                opened.insert(e.ask.id.clone(), e.ask.clone());
            }
            names_only_what_is_known(self, &opened, state, event);
        }
    }

    /// Keeps what an event says, to compare with what the state shows.
    pub(crate) fn applied(&mut self, seq: Seq, at: Timestamp, event: &Event) {
        self.managed.note(seq, event);
        match event {
            Event::ApprovalRequested(e) => {
                assert!(self.open.insert(e.ask.id.clone()));
            }
            Event::ApprovalResolved(e) => {
                assert!(self.open.remove(&e.approval));
                let ending = e.ending.clone();
                let earlier = self
                    .endings
                    .insert(e.approval.clone(), ApprovalEnd { ending, seq, at });
                assert_eq!(earlier, None);
                if e.ending.outcome == ApprovalOutcome::Allowed {
                    for used in &e.grants_used {
                        self.grants.get_mut(&used.grant).unwrap().1 += used.times;
                    }
                }
            }
            Event::GrantCreated(e) => {
                let made = (e.grant.clone(), 0);
                assert!(self.grants.insert(e.grant.id.clone(), made).is_none());
            }
            Event::GrantRemoved(e) => assert!(self.over.insert(e.grant.clone())),
            Event::AgentRegistered(e) => {
                if e.client.is_none() {
                    self.unconnected.insert(e.agent.id.clone());
                }
                self.announced.insert(e.agent.id.clone(), AgentState::Idle);
            }
            Event::AgentStatusChanged(e) => {
                self.announced.insert(e.agent.id.clone(), e.state);
            }
            Event::AgentUnregistered(e) => {
                self.announced.remove(&e.agent);
            }
            _ => {}
        }
    }

    /// What holds between inputs.
    pub(crate) fn stands(&self, world: &World, input: &Input) {
        let state = &world.folded;
        let open: BTreeSet<_> = state
            .open_approvals()
            .map(|approval| approval.ask.id.clone())
            .collect();
        assert_eq!(open, self.open, "open is what was opened and did not end");
        for id in &world.asks {
            if let Some(approval) = state.find_approval(id) {
                assert_eq!(approval.ended.as_ref(), self.endings.get(id));
            }
        }
        for approval in state.open_approvals() {
            self.tied_to_its_connection(world, approval);
        }
        for agent in state.agents() {
            let connected = agent
                .client
                .as_ref()
                .is_none_or(|client| world.presence.is_connected(client));
            assert_eq!(agent.lapses_at.is_none(), connected, "{agent:?}");
        }
        self.states_are_derived_and_announced(world);
        self.managed.stands(state);
        crate::family::stands(state);
        self.grants_are_kept(state);
        keys_are_unique(state);
        bounds_hold(state);
        let next = state.next_deadline(world.expiry_held_until);
        assert_eq!(next, next_deadline(state, world.expiry_held_until));
        if matches!(input, Input::TimeArrived) {
            assert!(next.is_none_or(|at| at > world.now), "left something due");
        }
    }

    fn tied_to_its_connection(&self, world: &World, approval: &Approval) {
        let client = approval.client.as_ref();
        if approval.ask.attachment == AskAttachment::None {
            assert_eq!(client, None);
        }
        let connected = client.is_none_or(|client| world.presence.is_connected(client));
        assert_eq!(approval.lapses_at.is_none(), connected, "{approval:?}");
        let outlives = approval.ask.idempotency_key.is_some()
            || approval.ask.deadline.is_some()
            || approval.ask.attachment == AskAttachment::None
            || approval
                .ask
                .agent
                .as_ref()
                .is_some_and(|agent| self.unconnected.contains(agent));
        assert!(client.is_some() || outlives, "left behind: {approval:?}");
    }

    fn grants_are_kept(&self, state: &State) {
        let kept: BTreeSet<_> = state.grants().map(|kept| kept.grant.id.clone()).collect();
        let made: BTreeSet<_> = self.grants.keys().cloned().collect();
        assert_eq!(kept, &made - &self.over);
        for kept in state.grants() {
            let (grant, used) = &self.grants[&kept.grant.id];
            assert_eq!(kept.grant, *grant);
            let left = grant.uses.map(|uses| uses.checked_sub(*used).unwrap());
            assert_eq!(kept.uses_left, left);
            assert_ne!(left, Some(0), "used up and still there");
            let session = grant.scope.session.as_ref();
            assert!(session.is_none_or(|agent| lives(state, agent)), "{grant:?}");
        }
        for agent in state.agents() {
            assert!(agent.bypass_until.is_none() || !agent.base.is_terminal());
        }
    }

    /// Only a person's or the host's own answer, in time, with an option the ask names; or rules
    /// and grants that say so; or a bypass that lifts nothing it must not.
    fn may_allow(
        &self,
        state: &State,
        context: DecisionContext<'_>,
        input: &Input,
        event: &ApprovalResolved,
        ask: &Ask,
    ) -> bool {
        let in_time = ask
            .deadline
            .is_none_or(|end| context.now < end.max(context.expiry_held_until));
        let resolution = &event.ending.resolution;
        let named = ask.approving.contains(resolution) && ask.options.contains(resolution);
        let judged = match input {
            Input::RequestApproval(request) => request.judged.as_ref(),
            Input::SettleByRules { judged, .. } => Some(judged),
            _ => None,
        };
        let allowed = match (input, event.ending.by.name.as_ref()) {
            (Input::ResolveApproval(resolve), _) => {
                resolve.approval == event.approval
                    && *resolution == resolve.answer.resolution
                    && (matches!(resolve.caller.principal.role, Role::Operator | Role::Host)
                        || may_delegate(state, context.now, resolve, ask.agent.as_ref()))
            }
            (Input::RequestApproval(_) | Input::SettleByRules { .. }, "rules") => {
                let judged = judged.unwrap();
                judged.verdict.effect == Effect::Allow
                    && self.grants_allow(state, context, judged, ask)
            }
            (Input::RequestApproval(_) | Input::SettleByRules { .. }, "bypass") => {
                let agent = state.find_agent(ask.agent.as_ref().unwrap()).unwrap();
                context.now < agent.bypass_until.unwrap()
                    && is_lifted(ask, judged.map(|judged| judged.verdict.as_ref()))
            }
            (Input::SetBypass { agent, for_ms, .. }, "bypass") => {
                for_ms.is_some() && ask.agent.as_ref() == Some(agent) && ask.tool.is_none()
            }
            _ => false,
        };
        in_time && named && allowed
    }

    /// Every grant the verdict names is there, in time, in scope, and has uses for all its parts.
    fn grants_allow(
        &self,
        state: &State,
        context: DecisionContext<'_>,
        judged: &countersign_core::AskJudgment,
        ask: &Ask,
    ) -> bool {
        let mut wanted: BTreeMap<GrantId, u32> = BTreeMap::new();
        for grant in judged.verdict.grants() {
            *wanted.entry(grant.clone()).or_default() += 1;
        }
        wanted.into_iter().all(|(id, times)| {
            let (grant, used) = &self.grants[&id];
            let scope = &grant.scope;
            let named = scope.agent.as_ref().is_none_or(|name| {
                state.tokens().any(|token| {
                    ask.agent.clone().map(Role::Agent).as_ref() == Some(&token.role)
                        && token.name == *name
                        && token.expires_at.is_none_or(|end| context.now < end)
                })
            });
            !self.over.contains(&id)
                && grant.effect == Effect::Allow
                && grant.expires_at.is_none_or(|end| context.now < end)
                && grant.uses.is_none_or(|uses| used + times <= uses)
                && named
                && (scope.project.is_none() || scope.project == judged.project)
                && (scope.session.is_none() || scope.session == ask.agent)
        })
    }

    fn states_are_derived_and_announced(&self, world: &World) {
        let state = &world.folded;
        for agent in (0..3).map(agent_id).chain(world.managed.iter().cloned()) {
            let approvals = state
                .open_approvals()
                .filter(|approval| approval.ask.agent.as_ref() == Some(&agent));
            let questions = state
                .open_questions()
                .filter(|question| question.text.agent.as_ref() == Some(&agent));
            let counted = OpenCounts {
                approvals: approvals.count(),
                questions: questions.count(),
            };
            assert_eq!(state.open_of(&agent), counted);
            let seen = state.find_agent(&agent).map(|agent| agent.state(counted));
            assert_eq!(seen.as_ref(), self.announced.get(&agent));
        }
    }
}

/// Neither a deny nor the floor is lifted, nor what nobody could judge.
fn is_lifted(ask: &Ask, verdict: Option<&Verdict>) -> bool {
    verdict.map_or(ask.tool.is_none(), |verdict| {
        let parts = &verdict.parts;
        parts.iter().all(|part| {
            part.effect != Effect::Deny && (!part.floor || part.effect == Effect::Allow)
        })
    })
}

fn lives(state: &State, agent: &AgentId) -> bool {
    let agent = state.find_agent(agent);
    agent.is_some_and(|agent| !agent.base.is_terminal())
}

fn within_an_agents_reach(event: &Event) -> bool {
    match event {
        Event::ApprovalResolved(e) => {
            let by_itself = matches!(
                e.ending.outcome,
                ApprovalOutcome::Cancelled | ApprovalOutcome::Gone | ApprovalOutcome::Expired
            );
            by_itself || ["rules", "bypass"].contains(&e.ending.by.name.as_ref())
        }
        Event::QuestionEnded(e) => e.ending.outcome != QuestionOutcome::Answered,
        Event::GrantRemoved(e) => matches!(e.reason, GrantEnd::UsedUp | GrantEnd::SessionEnded),
        Event::AgentBypassChanged(e) => e.until.is_none(),
        Event::AgentRegistered(_)
        | Event::AgentStatusChanged(_)
        | Event::AgentUnregistered(_)
        | Event::ApprovalRequested(_)
        | Event::ApprovalResolveRefused(_)
        | Event::ApprovalAttached(_)
        | Event::ApprovalDismissed(_)
        | Event::AnswerAttempted(_)
        | Event::QuestionAsked(_)
        | Event::ConnectionLost(_)
        | Event::NotificationSent(_)
        | Event::TranscriptAdded(_)
        | Event::PassUsed(_) => true,
        _ => false,
    }
}

fn names_only_what_is_known(
    checks: &Checks,
    opened: &BTreeMap<ApprovalId, Arc<Ask>>,
    state: &State,
    event: &Event,
) {
    let is_open =
        |id| opened.contains_key(id) || state.find_approval(id).is_some_and(Approval::is_pending);
    let known = match event {
        Event::ApprovalResolved(e) => is_open(&e.approval),
        Event::ApprovalAttached(e) => is_open(&e.approval),
        Event::ApprovalResolveRequested(e) => is_open(&e.approval),
        Event::ApprovalResolveRefused(e) => state.find_approval(&e.approval).is_some(),
        Event::AnswerAttempted(e) => {
            is_open(&e.approval) || checks.endings.contains_key(&e.approval)
        }
        Event::GrantRemoved(e) => state.find_grant(&e.grant).is_some(),
        Event::AgentBypassChanged(e) => state.find_agent(&e.agent).is_some(),
        Event::AnswerSettled(e) => checks.endings.contains_key(&e.approval),
        Event::ApprovalDismissed(e) => checks.endings.contains_key(&e.approval),
        Event::QuestionEnded(e) => state.find_question(&e.question).is_some(),
        Event::AgentUnregistered(e) => state.find_agent(&e.agent).is_some(),
        Event::AgentInterruptRequested(e) => state.find_agent(&e.agent).is_some(),
        Event::TokenRevoked(e) => state.find_token(&e.token).is_some(),
        Event::DeviceUpdated(e) => state.find_device(&e.device.id).is_some(),
        Event::RecordRedacted(e) => e.seq > Seq(0) && e.seq <= state.head(),
        _ => true,
    };
    assert!(known, "about something unknown: {event:?}");
}

fn keys_are_unique(state: &State) {
    let mut calls = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for approval in state.open_approvals() {
        let ask = &approval.ask;
        if let (Some(agent), Some(call)) = (&ask.agent, &ask.tool_call) {
            assert!(calls.insert((agent, &ask.turn, call)), "{ask:?}");
        }
        if let Some(key) = &ask.idempotency_key {
            assert!(keys.insert((&ask.by.key, key)), "{ask:?}");
        }
    }
}

fn bounds_hold(state: &State) {
    assert!(state.open_approvals().len() <= limits::OPEN_ASKS_MAX);
    assert!(state.open_questions().len() <= limits::OPEN_QUESTIONS_MAX);
    assert!(state.recent_approvals().count() <= limits::RECENT_ENDED_KEPT);
    assert!(state.agents().count() <= limits::AGENTS_MAX);
    assert!(state.devices().count() <= limits::AGENTS_MAX);
    assert!(state.tokens().count() <= limits::TOKENS_MAX);
    assert!(state.grants().len() <= limits::GRANTS_MAX);
    assert!(state.marks().count() <= limits::PROCESS_MARKS_MAX);
}

/// The next deadline, from everything that is open.
fn next_deadline(state: &State, held_until: Timestamp) -> Option<Timestamp> {
    let asks = state
        .open_approvals()
        .filter_map(|approval| approval.ask.deadline);
    let questions = state.open_questions().flat_map(|question| {
        let escalation = question
            .text
            .escalates_at
            .filter(|_| !question.is_for_people());
        question.text.deadline.into_iter().chain(escalation)
    });
    let ceilings = state.agents().filter_map(|agent| {
        let managed = agent.managed.as_ref()?;
        managed.ceiling.as_ref()?.until
    });
    let grants = state.grants().filter_map(|grant| grant.grant.expires_at);
    let bypasses = state.agents().filter_map(|agent| agent.bypass_until);
    let turns = state.agents().filter_map(|agent| {
        let managed = agent.managed.as_ref()?;
        let turn = managed.turn.as_ref()?;
        turn.deadline
            .filter(|_| managed.run_state != RunState::Stopping)
    });
    let expiries = asks.chain(questions).chain(grants).chain(bypasses);
    let expiries = expiries.chain(turns).chain(ceilings);
    let expiries = expiries.map(|at| at.max(held_until));
    let lapses = state
        .open_approvals()
        .filter_map(|approval| approval.lapses_at);
    let agents = state.agents().filter_map(|agent| agent.lapses_at);
    expiries.chain(lapses).chain(agents).min()
}

/// Whatever can be seen of a state is the same in both.
pub(crate) fn same(world: &World) {
    let (folded, restored) = (&world.folded, &world.restored);
    assert_eq!(folded.head(), restored.head());
    let agents = |state: &State| state.agents().cloned().collect::<Vec<_>>();
    assert_eq!(agents(folded), agents(restored));
    assert_eq!(open_approvals(folded), open_approvals(restored));
    let recent = |state: &State| state.recent_approvals().cloned().collect::<Vec<_>>();
    assert_eq!(recent(folded), recent(restored));
    assert_eq!(open_questions(folded), open_questions(restored));
    let devices = |state: &State| state.devices().cloned().collect::<Vec<_>>();
    assert_eq!(devices(folded), devices(restored));
    let marks = |state: &State| {
        let marks = state.marks();
        marks
            .map(|(process, agent)| (*process, agent.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(marks(folded), marks(restored));
    let grants = |state: &State| state.grants().cloned().collect::<Vec<_>>();
    assert_eq!(grants(folded), grants(restored));
    let trusted = |state: &State| {
        let trusted = state.trusted_files();
        trusted
            .map(|(file, digest)| (file.to_owned(), digest.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(trusted(folded), trusted(restored));
    for agent in (0..3).map(agent_id).chain(world.managed.iter().cloned()) {
        assert_eq!(folded.open_of(&agent), restored.open_of(&agent));
        assert_eq!(folded.duties_of(&agent), restored.duties_of(&agent));
        assert_eq!(
            folded
                .operator_names_of(&agent, world.now)
                .collect::<Vec<_>>(),
            restored
                .operator_names_of(&agent, world.now)
                .collect::<Vec<_>>()
        );
    }
    for id in &world.asks {
        assert_eq!(folded.find_approval(id), restored.find_approval(id));
    }
    for id in &world.tokens {
        assert_eq!(folded.find_token(id), restored.find_token(id));
        let hash = format!("hash of {id}");
        assert_eq!(
            folded.find_token_by_hash(&hash, world.now),
            restored.find_token_by_hash(&hash, world.now)
        );
    }
    for (seat, key) in (0..SEATS).flat_map(|seat| [(seat, "key 0"), (seat, "key 1")]) {
        let principal = principal(seat).key;
        assert_eq!(
            folded.find_keyed(&principal, key),
            restored.find_keyed(&principal, key)
        );
    }
    let held = world.expiry_held_until;
    assert_eq!(folded.next_deadline(held), restored.next_deadline(held));
}

fn open_approvals(state: &State) -> BTreeMap<Seq, Approval> {
    let open = state.open_approvals();
    open.map(|approval| (approval.opened, approval.clone()))
        .collect()
}

fn open_questions(state: &State) -> BTreeMap<Seq, Question> {
    let open = state.open_questions();
    open.map(|question| (question.opened, question.clone()))
        .collect()
}

fn caller_of(input: &Input) -> Option<&Caller> {
    match input {
        Input::RegisterAgent(input) => Some(&input.caller),
        Input::UnregisterAgent { caller, .. }
        | Input::CancelApproval { caller, .. }
        | Input::DismissApproval { caller, .. }
        | Input::AnswerQuestion { caller, .. }
        | Input::RevokeToken { caller, .. }
        | Input::Redact { caller, .. }
        | Input::Prune { caller, .. }
        | Input::RemoveGrant { caller, .. }
        | Input::SetBypass { caller, .. }
        | Input::SetCeiling { caller, .. }
        | Input::TrustRules { caller, .. }
        | Input::OpenTerminal { caller, .. }
        | Input::StopAll(caller) => Some(caller),
        Input::EndTerminal { caller, .. } => caller.as_ref(),
        Input::SetStatus(input) => Some(&input.caller),
        Input::RegisterDevice(input) | Input::UpdateDevice(input) => Some(&input.caller),
        Input::SendNotification(input) => Some(&input.caller),
        Input::RequestApproval(input) => Some(&input.caller),
        Input::ResolveApproval(input) => Some(&input.caller),
        Input::AskQuestion(input) => Some(&input.caller),
        Input::NotifyParent(input) => Some(&input.caller),
        Input::CreateToken(input) => Some(&input.caller),
        Input::CreateGrant(input) => Some(&input.caller),
        Input::Managed(input) => crate::managed::caller_of(input),
        Input::HostStarted { .. }
        | Input::TimeArrived
        | Input::ConnectionLost(_)
        | Input::SettleByRules { .. }
        | Input::DeliverAnswer(_)
        | Input::SettleAnswer { .. }
        | Input::RenewToken(_)
        | Input::MarkProcess { .. }
        | Input::ForgetProcesses(_) => None,
    }
}
