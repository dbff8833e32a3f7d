//! Managed agents: what people want of them, what those who run them say, late or not, and the
//! promises about both.

use std::collections::{BTreeMap, BTreeSet};

use countersign_core::event::{
    AgentOffers, AgentReported, ApprovalOutcome, Event, ParentMessage, ProcessKey, RunEnd,
    SpawnOptions, TranscriptEntry, TurnEnded,
};
use countersign_core::{
    Agent, AgentId, Approval, ApprovalId, Ask, AskRequest, Caller, Duty, Input, Json, ManagedAgent,
    ManagedAsk, ManagedInput, Principal, PrincipalKey, QuestionId, Role, RunEvent, RunState, Seq,
    SpawnAgent, State, limits,
};
use proptest::prelude::*;

use crate::world::World;

/// One of the agents spawned so far, counted from the newest; beyond them, an unknown one.
type Pick = usize;

/// Which run something is said about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Now,
    Late,
}

#[derive(Clone, Debug)]
pub(crate) enum ManagedCall {
    Spawn {
        name: Option<usize>,
        prompt: bool,
    },
    Prompt(Pick),
    /// The message of this number, counted backward from the newest.
    Withdraw(Pick, u64),
    Interrupt(Pick),
    Kill(Pick),
    Resume(Pick),
    Archive(Pick, bool),
    Rename(Pick, usize),
    Configure(Pick),
}

#[derive(Clone, Debug)]
pub(crate) enum RanStep {
    Launched(bool),
    Ready(bool),
    Reported,
    Said,
    /// The turn that runs, or one that is over.
    TurnEnded(When),
    Withdrew(usize),
    Exited(RunEnd),
}

/// An ask of a managed agent: for permission, or for something it wants done.
#[derive(Clone, Debug)]
pub(crate) struct ManagedAskStep {
    pub(crate) agent: Pick,
    pub(crate) when: When,
    pub(crate) request: usize,
    pub(crate) call: usize,
    pub(crate) input: usize,
    /// What it stands for if it is allowed.
    pub(crate) passes: Vec<usize>,
    /// What it is itself.
    pub(crate) covered_by: Option<usize>,
    pub(crate) timeout_s: Option<u64>,
}

pub(crate) fn any_managed_call() -> impl Strategy<Value = ManagedCall> {
    let agent = || 0..3_usize;
    prop_oneof![
        4 => (prop::option::of(0..2_usize), prop::bool::weighted(0.8))
            .prop_map(|(name, prompt)| ManagedCall::Spawn { name, prompt }),
        6 => agent().prop_map(ManagedCall::Prompt),
        3 => (agent(), 0..3_u64).prop_map(|(agent, age)| ManagedCall::Withdraw(agent, age)),
        2 => agent().prop_map(ManagedCall::Interrupt),
        1 => agent().prop_map(ManagedCall::Kill),
        3 => agent().prop_map(ManagedCall::Resume),
        1 => (agent(), any::<bool>()).prop_map(|(agent, away)| ManagedCall::Archive(agent, away)),
        1 => (agent(), 0..2_usize).prop_map(|(agent, name)| ManagedCall::Rename(agent, name)),
        1 => agent().prop_map(ManagedCall::Configure),
    ]
}

pub(crate) fn any_ran() -> impl Strategy<Value = (Pick, When, RanStep)> {
    let ran = prop_oneof![
        3 => any::<bool>().prop_map(RanStep::Launched),
        8 => prop::bool::weighted(0.8).prop_map(RanStep::Ready),
        1 => Just(RanStep::Reported),
        1 => Just(RanStep::Said),
        4 => any_when().prop_map(RanStep::TurnEnded),
        2 => (0..4_usize).prop_map(RanStep::Withdrew),
        2 => any_end().prop_map(RanStep::Exited),
    ];
    (0..3_usize, any_when(), ran)
}

pub(crate) fn any_managed_ask() -> impl Strategy<Value = ManagedAskStep> {
    (
        0..3_usize,
        any_when(),
        0..4_usize,
        0..3_usize,
        0..2_usize,
        prop::collection::vec(0..2_usize, 0..3),
        prop::option::weighted(0.4, 0..2_usize),
        prop::option::weighted(0.3, 0..100_u64),
    )
        .prop_map(
            |(agent, when, request, call, input, passes, covered_by, timeout_s)| ManagedAskStep {
                agent,
                when,
                request,
                call,
                input,
                passes,
                covered_by,
                timeout_s,
            },
        )
}

fn any_when() -> impl Strategy<Value = When> {
    prop_oneof![9 => Just(When::Now), 1 => Just(When::Late)]
}

fn any_end() -> impl Strategy<Value = RunEnd> {
    prop_oneof![
        Just(RunEnd::Done),
        Just(RunEnd::Failed),
        Just(RunEnd::Killed),
    ]
}

/// Making inputs.
impl World {
    pub(crate) fn managed_call(&mut self, caller: Caller, call: &ManagedCall) -> Input {
        let agent = |world: &Self, pick: &Pick| world.managed_id(*pick);
        Input::Managed(match call {
            ManagedCall::Spawn { name, prompt } => self.spawn(caller, *name, *prompt),
            ManagedCall::Prompt(pick) => ManagedInput::Prompt {
                attachments: Vec::new(),
                caller,
                agent: agent(self, pick),
                text: "go on".to_owned(),
            },
            ManagedCall::Withdraw(pick, age) => {
                let agent = agent(self, pick);
                let managed = self.folded.find_agent(&agent);
                let managed = managed.and_then(|agent| agent.managed.as_ref());
                let newest = managed.map_or(0, |managed| managed.messages);
                ManagedInput::WithdrawMessage {
                    caller,
                    agent,
                    number: newest.saturating_sub(*age),
                }
            }
            ManagedCall::Interrupt(pick) => ManagedInput::Interrupt {
                caller,
                agent: agent(self, pick),
                reason: None,
            },
            ManagedCall::Kill(pick) => ManagedInput::Kill {
                caller,
                agent: agent(self, pick),
                children: Some(countersign_core::ChildrenPolicy::Keep),
            },
            ManagedCall::Resume(pick) => ManagedInput::Resume {
                caller,
                agent: agent(self, pick),
            },
            ManagedCall::Archive(pick, archived) => ManagedInput::Archive {
                caller,
                agent: agent(self, pick),
                archived: *archived,
            },
            ManagedCall::Rename(pick, name) => ManagedInput::Rename {
                caller,
                agent: agent(self, pick),
                name: format!("name-{name}"),
            },
            ManagedCall::Configure(pick) => ManagedInput::Configure {
                caller,
                agent: agent(self, pick),
                mode: Some("plan".to_owned()),
                model: None,
            },
        })
    }

    fn spawn(&mut self, caller: Caller, name: Option<usize>, prompt: bool) -> ManagedInput {
        let id = AgentId::new(self.next_id("managed"));
        ManagedInput::Spawn(Box::new(SpawnAgent {
            attachments: Vec::new(),
            caller,
            id,
            name: name.map(|name| format!("name-{name}")),
            kind: "scripted".to_owned(),
            options: SpawnOptions {
                command: vec!["agent".to_owned()],
                cwd: "/".to_owned(),
                turn_timeout_ms: Some(90_000),
                ..SpawnOptions::default()
            },
            prompt: prompt.then(|| "go".to_owned()),
        }))
    }

    pub(crate) fn ran(&self, pick: Pick, when: When, step: &RanStep) -> Input {
        let agent = self.managed_id(pick);
        let managed = self.managed_of(&agent);
        let run = run_at(managed, when);
        let turns = managed.map_or(0, |managed| managed.turns);
        let ran = match step {
            RanStep::Launched(started) => RunEvent::Launched {
                process: started.then_some(ProcessKey {
                    pid: 100 + run,
                    start_time: turns.into(),
                }),
                runner: Json::null(),
                sandbox: None,
            },
            RanStep::Ready(resumable) => RunEvent::Ready {
                session: "session".to_owned(),
                resumable: *resumable,
            },
            RanStep::Reported => RunEvent::Reported(Box::new(AgentReported {
                agent: agent.clone(),
                mode: Some("plan".to_owned()),
                model: None,
                plan: None,
                title: None,
                usage: None,
                offers: AgentOffers::default(),
            })),
            RanStep::Said => RunEvent::EntriesAdded(said()),
            RanStep::TurnEnded(when) => turn_ended(&agent, turns, *when),
            RanStep::Withdrew(request) => RunEvent::RequestWithdrawn {
                request: request.to_string(),
            },
            RanStep::Exited(end) => RunEvent::Exited {
                entries: said(),
                end: *end,
                message: "it ended".to_owned(),
            },
        };
        Input::Managed(ManagedInput::RunReported(agent, run, ran))
    }

    pub(crate) fn managed_ask(&mut self, ask: &ManagedAskStep, plain: AskRequest) -> AskRequest {
        let agent = self.managed_id(ask.agent);
        let run = run_at(self.managed_of(&agent), ask.when);
        let digest = |number: &usize| format!("digest {number}");
        AskRequest {
            caller: Caller {
                principal: std::sync::Arc::new(Principal {
                    role: Role::Agent(agent.clone()),
                    name: "managed".into(),
                    key: PrincipalKey::new(format!("agent:{agent}")),
                }),
                client: None,
                door: None,
            },
            agent: Some(agent),
            tool_call: Some(format!("call {}", ask.call)),
            input: Json::from_value(&ask.input).ok(),
            timeout_ms: ask.timeout_s.map(|s| s * 1000),
            idempotency_key: None,
            keyed: None,
            managed: Some(Box::new(ManagedAsk {
                run,
                request: ask.request.to_string(),
                takes_denial_message: ask.covered_by.is_some(),
                can_edit: ask.call == 0,
                passes: ask.passes.iter().map(digest).collect(),
                covered_by: ask.covered_by.as_ref().map(digest).into_iter().collect(),
            })),
            ..plain
        }
    }

    pub(crate) fn managed_id(&self, pick: Pick) -> AgentId {
        let known = Self::pick(&self.managed, pick);
        known.unwrap_or_else(|| AgentId::new("unknown"))
    }

    fn managed_of(&self, agent: &AgentId) -> Option<&ManagedAgent> {
        self.folded.find_agent(agent)?.managed.as_deref()
    }
}

fn run_at(managed: Option<&ManagedAgent>, when: When) -> u32 {
    let run = managed.map_or(1, |managed| managed.run);
    match when {
        When::Now => run,
        When::Late => run.wrapping_sub(1),
    }
}

fn turn_ended(agent: &AgentId, turns: u32, when: When) -> RunEvent {
    let turn = match when {
        When::Now => turns,
        When::Late => turns.wrapping_sub(1),
    };
    RunEvent::TurnEnded {
        entries: said(),
        end: Box::new(TurnEnded {
            agent: agent.clone(),
            turn,
            reason: "end_turn".to_owned(),
            message: None,
            usage: None,
        }),
        left_open: Vec::new(),
    }
}

fn said() -> Vec<TranscriptEntry> {
    vec![TranscriptEntry::Notice {
        text: "said".to_owned(),
    }]
}

/// What the events have said of managed agents, kept apart from the state.
#[derive(Default)]
pub(crate) struct Book {
    asks: BTreeMap<Seq, std::sync::Arc<Ask>>,
    /// Answers that are on their way, by the event that opened their ask.
    owed: BTreeMap<Seq, AgentId>,
    /// What was allowed and may still run, with the ask that allowed it.
    passes: BTreeMap<AgentId, Vec<(ApprovalId, String)>>,
    /// Requests that an earlier ask covered.
    covered: BTreeMap<AgentId, Vec<ApprovalId>>,
    /// The turn that each agent is in.
    turns: BTreeMap<AgentId, u32>,
    queues: BTreeMap<AgentId, QueueBook>,
}

/// Messages that wait for an agent, counted apart from the state.
#[derive(Default)]
struct QueueBook {
    queued: u64,
    /// Each with the question that it asks, if it asks one.
    waiting: Vec<(u64, Option<QuestionId>)>,
}

impl QueueBook {
    /// Each message leaves the queue once: into a turn, taken back, or dropped.
    fn note(&mut self, event: &Event) {
        match event {
            Event::MessageQueued(e) => {
                self.queued += 1;
                let question = match &e.message.parent_message {
                    Some(ParentMessage::Question { question, .. }) => Some(question.clone()),
                    _ => None,
                };
                self.waiting.push((self.queued, question));
            }
            Event::MessageWithdrawn(e) => {
                let place = self.waiting.iter().position(|(one, _)| *one == e.number);
                let place = place.unwrap_or_else(|| panic!("it does not wait: {event:?}"));
                self.waiting.remove(place);
            }
            Event::ParentMessageWithdrawn(e) => {
                let ended = Some(e.question.clone());
                self.waiting.retain(|(_, question)| *question != ended);
            }
            Event::MessagesDropped(_) => self.waiting.clear(),
            Event::TurnStarted(e) => drop(self.waiting.drain(..e.messages as usize)),
            _ => {}
        }
    }
}

impl Book {
    pub(crate) fn note(&mut self, seq: Seq, event: &Event) {
        if let Some(agent) = event.agent() {
            self.queues.entry(agent.clone()).or_default().note(event);
        }
        match event {
            Event::ApprovalRequested(e) if e.ask.request.is_some() => {
                self.asks.insert(seq, e.ask.clone());
            }
            Event::ApprovalResolved(e) if e.ending.outcome == ApprovalOutcome::Allowed => {
                self.allowed(e.opened);
            }
            Event::AnswerAttempted(e) => {
                if let Some(ask) = self.asks.get(&e.opened) {
                    let agent = ask.agent.clone().unwrap();
                    let again = self.owed.insert(e.opened, agent);
                    assert!(again.is_none() || e.deliveries > 1, "owed twice: {event:?}");
                }
            }
            Event::AnswerSettled(e) => {
                self.owed.remove(&e.opened);
            }
            Event::PassUsed(e) => {
                let passes = self.passes.get_mut(&e.agent).unwrap();
                let used = (e.approval.clone(), e.digest.clone());
                let place = passes.iter().position(|pass| *pass == used);
                passes.remove(place.unwrap());
                let covered = self.covered.entry(e.agent.clone()).or_default();
                covered.push(e.covers.clone());
            }
            Event::TurnInterrupted(e) => {
                self.covered.remove(&e.agent);
            }
            Event::TurnStarted(e) => {
                let earlier = self.turns.insert(e.agent.clone(), e.turn);
                assert_eq!(earlier, None, "two turns at once: {event:?}");
                self.covered.remove(&e.agent);
            }
            Event::TurnEnded(e) => {
                assert_eq!(self.turns.remove(&e.agent), Some(e.turn), "{event:?}");
                self.passes.remove(&e.agent);
                self.covered.remove(&e.agent);
            }
            Event::AgentExited(e) => {
                self.passes.remove(&e.agent);
                self.covered.remove(&e.agent);
                assert!(!self.turns.contains_key(&e.agent), "{event:?}");
                let left = self.owed.values().find(|agent| **agent == e.agent);
                assert_eq!(left, None, "an answer is on its way to nobody");
            }
            _ => {}
        }
    }

    fn allowed(&mut self, opened: Seq) {
        if let Some(ask) = self.asks.get(&opened) {
            let passes = self.passes.entry(ask.agent.clone().unwrap()).or_default();
            let new = ask.passes.iter().map(|pass| (ask.id.clone(), pass.clone()));
            passes.extend(new);
        }
    }

    /// What holds between inputs.
    pub(crate) fn stands(&self, state: &State) {
        for approval in state.open_approvals() {
            waits_for_somebody(state, approval);
        }
        let mut names = BTreeSet::new();
        for agent in state.agents() {
            let Some(managed) = agent.managed.as_deref() else {
                continue;
            };
            if !managed.archived {
                assert!(names.insert(&agent.profile.name), "two of one name");
            }
            self.lives_rightly(agent.id(), managed);
            self.is_owed_rightly(state, agent.id(), managed);
        }
    }

    fn lives_rightly(&self, agent: &AgentId, managed: &ManagedAgent) {
        let turn = managed.turn.as_ref().map(|turn| turn.number);
        assert_eq!(turn, self.turns.get(agent).copied());
        assert!(turn.is_none_or(|turn| turn == managed.turns), "{managed:?}");
        let in_session = matches!(managed.run_state, RunState::Ready | RunState::Stopping);
        assert!(turn.is_none() || in_session, "{managed:?}");
        let waiting = self.queues.get(agent).map(|queue| &queue.waiting);
        let waiting = waiting.into_iter().flatten().map(|(number, _)| *number);
        let queue = managed.queue.iter().map(|message| message.number);
        assert!(queue.eq(waiting), "{managed:?}");
        let kept = managed.passes.len();
        assert!(kept <= limits::PASSES_MAX);
        let known = self.passes.get(agent).map_or(&[][..], Vec::as_slice);
        for pass in &managed.passes {
            let pass = (pass.approval.clone(), pass.digest.clone());
            assert!(known.contains(&pass), "never allowed: {pass:?}");
        }
        let covered = self.covered.get(agent).map_or(&[][..], Vec::as_slice);
        let newest = covered.len().saturating_sub(limits::CLIENT_REQUESTS_MAX);
        assert!(managed.covered.iter().eq(&covered[newest..]), "{managed:?}");
        if managed.run_state == RunState::Ready && turn.is_none() {
            assert!(managed.queue.is_empty(), "nobody tells it: {managed:?}");
        }
    }

    /// Each answer is owed once, from its attempt until it is settled, and to nobody who is gone.
    fn is_owed_rightly(&self, state: &State, agent: &AgentId, managed: &ManagedAgent) {
        let duties = state.duties_of(agent);
        let answers: Vec<Seq> = duties.iter().filter_map(answered).collect();
        let owed = self.owed.iter().filter(|(_, whom)| *whom == agent);
        let owed: Vec<Seq> = owed.map(|(opened, _)| *opened).collect();
        match managed.run_state {
            RunState::Ready => assert_eq!(answers, owed),
            RunState::Gone => assert_eq!((duties.len(), owed.len()), (0, 0)),
            RunState::Requested | RunState::Launched | RunState::Stopping => {
                assert_eq!(duties.len(), 1);
            }
        }
    }
}

/// All that a live agent is, has open and is owed.
pub(crate) type Lives = BTreeMap<AgentId, (Agent, Vec<Duty>, BTreeSet<Seq>)>;

/// The live ones among these agents.
pub(crate) fn lives_of(state: &State, agents: &BTreeSet<AgentId>) -> Lives {
    let live = state
        .live_agents()
        .filter(|agent| agents.contains(agent.id()));
    live.map(|agent| {
        let id = agent.id();
        let asks = state.open_approvals();
        let asks = asks.filter(|approval| approval.ask.agent.as_ref() == Some(id));
        let questions = state.open_questions();
        let questions = questions.filter(|question| question.text.agent.as_ref() == Some(id));
        let opened = asks.map(|approval| approval.opened);
        let opened = opened.chain(questions.map(|question| question.opened));
        let all = (agent.clone(), state.duties_of(id), opened.collect());
        (id.clone(), all)
    })
    .collect()
}

/// A host that starts leaves those it adopted as they were, and nobody else alive. An orchestrator
/// hears of those below it that are gone, and is no longer quite as it was.
pub(crate) fn only_these_live(state: &State, before: Lives) {
    let live: BTreeSet<AgentId> = state.live_agents().map(|a| a.id().clone()).collect();
    assert_eq!(live, before.keys().cloned().collect());
    let mut after = lives_of(state, &live);
    let mut before = before;
    for lives in [&mut after, &mut before] {
        lives.retain(|id, _| {
            let below = state.descendants_of(id).into_iter();
            below.map(Agent::id).all(|child| live.contains(child))
        });
    }
    assert_eq!(after, before);
}

fn answered(duty: &Duty) -> Option<Seq> {
    match duty {
        Duty::Answer(approval) => {
            assert!(!approval.is_pending(), "nobody decided: {approval:?}");
            Some(approval.opened)
        }
        _ => None,
    }
}

/// An ask that an agent waits for is open only while its session is.
fn waits_for_somebody(state: &State, approval: &Approval) {
    if approval.ask.request.is_none() {
        return;
    }
    let agent = state.find_agent(approval.ask.agent.as_ref().unwrap());
    let managed = agent.and_then(|agent| agent.managed.as_ref()).unwrap();
    assert_eq!(
        managed.run_state,
        RunState::Ready,
        "left open: {approval:?}"
    );
}

/// Whoever wants something of a managed agent; those who run it are nobody.
pub(crate) fn caller_of(input: &ManagedInput) -> Option<&Caller> {
    match input {
        ManagedInput::Spawn(spawn) => Some(&spawn.caller),
        ManagedInput::Prompt { caller, .. }
        | ManagedInput::WithdrawMessage { caller, .. }
        | ManagedInput::Interrupt { caller, .. }
        | ManagedInput::Kill { caller, .. }
        | ManagedInput::Resume { caller, .. }
        | ManagedInput::Archive { caller, .. }
        | ManagedInput::Rename { caller, .. }
        | ManagedInput::Configure { caller, .. } => Some(caller),
        ManagedInput::RunReported(..) | ManagedInput::WorktreeRemoved(_) => None,
    }
}
