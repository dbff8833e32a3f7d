//! Orchestrators and those below them: steps, and what may come of them.

use std::sync::Arc;

use countersign_core::event::{AgentRole, Ceiling, Effect, Event, GrantScope, SpawnOptions};
use countersign_core::{
    AgentId, ApprovalAnswer, ApprovalId, AskQuestion, AskRequest, Caller, ChildrenPolicy,
    DelegationVerdict, GrantDraft, GrantId, Input, Json, ManagedInput, NotifyParent, Principal,
    PrincipalKey, QuestionId, ResolveApproval, Role, SPAWN_TOOL, SpawnAgent, State,
};
use proptest::prelude::*;

use crate::world::World;

/// One of the agents spawned so far, counted from the newest.
type Pick = usize;

#[derive(Clone, Debug)]
pub(crate) enum FamilyStep {
    SpawnLead,
    /// With an ask that a person allows first.
    SpawnChild(Pick),
    Tell(Pick, usize, Option<usize>),
    AskUp(Pick, usize, Option<usize>),
    AnswerAs(Pick, usize),
    PromptAs(Pick, Pick),
    KillAs(Pick, Pick, bool),
    SetCeiling(Pick, Option<u64>),
    TakeCeiling(Pick),
    ResolveAs(Pick, usize, Effect, bool),
}

pub(crate) fn any_family_step() -> impl Strategy<Value = FamilyStep> {
    let agent = || 0..4_usize;
    let effect = prop_oneof![3 => Just(Effect::Allow), 1 => Just(Effect::Ask)];
    let key = || prop::option::of(0..2_usize);
    prop_oneof![
        2 => Just(FamilyStep::SpawnLead),
        4 => agent().prop_map(FamilyStep::SpawnChild),
        5 => (agent(), 0..2_usize, key()).prop_map(|(a, text, key)| FamilyStep::Tell(a, text, key)),
        5 => (agent(), 0..2_usize, key()).prop_map(|(a, text, key)| FamilyStep::AskUp(a, text, key)),
        3 => (agent(), 0..3_usize).prop_map(|(a, question)| FamilyStep::AnswerAs(a, question)),
        2 => (agent(), agent()).prop_map(|(a, b)| FamilyStep::PromptAs(a, b)),
        1 => (agent(), agent(), any::<bool>()).prop_map(|(a, b, end)| FamilyStep::KillAs(a, b, end)),
        3 => (agent(), prop::option::of(0..100_u64)).prop_map(|(a, s)| FamilyStep::SetCeiling(a, s)),
        1 => agent().prop_map(FamilyStep::TakeCeiling),
        4 => (agent(), 0..3_usize, effect, any::<bool>())
            .prop_map(|(a, ask, effect, remember)| FamilyStep::ResolveAs(a, ask, effect, remember)),
    ]
}

fn as_agent(agent: &AgentId) -> Caller {
    Caller {
        principal: Arc::new(Principal {
            role: Role::Agent(agent.clone()),
            name: agent.as_str().into(),
            key: PrincipalKey::new(format!("agent:{agent}")),
        }),
        client: None,
        door: None,
    }
}

impl World {
    pub(crate) fn family(&mut self, step: &FamilyStep) -> Input {
        match step {
            FamilyStep::SpawnLead => self.spawn_lead(),
            FamilyStep::SpawnChild(pick) => self.spawn_child(*pick),
            FamilyStep::Tell(pick, text, key) => Input::NotifyParent(NotifyParent {
                caller: as_agent(&self.managed_id(*pick)),
                text: format!("note {text}"),
                key: key.map(|key| format!("key {key}")),
            }),
            FamilyStep::AskUp(pick, text, key) => self.ask_up(*pick, *text, *key),
            FamilyStep::AnswerAs(pick, question) => Input::AnswerQuestion {
                caller: as_agent(&self.managed_id(*pick)),
                question: Self::pick(&self.questions, *question)
                    .unwrap_or_else(|| QuestionId::new("unknown")),
                answer: "that".to_owned(),
                considered_ms: None,
            },
            FamilyStep::PromptAs(pick, whom) => Input::Managed(ManagedInput::Prompt {
                attachments: Vec::new(),
                caller: as_agent(&self.managed_id(*pick)),
                agent: self.managed_id(*whom),
                text: "go on".to_owned(),
            }),
            FamilyStep::KillAs(pick, whom, end) => Input::Managed(ManagedInput::Kill {
                caller: as_agent(&self.managed_id(*pick)),
                agent: self.managed_id(*whom),
                children: end.then_some(ChildrenPolicy::End),
            }),
            FamilyStep::SetCeiling(pick, seconds) => {
                let until = seconds.map(|seconds| self.now.plus_ms(seconds * 1000));
                let rules = ["Bash(ls:*)".to_owned()].into();
                self.set_ceiling(*pick, Some(Ceiling { rules, until }))
            }
            FamilyStep::TakeCeiling(pick) => self.set_ceiling(*pick, None),
            FamilyStep::ResolveAs(pick, ask, effect, remember) => {
                self.resolve_as(*pick, *ask, *effect, *remember)
            }
        }
    }

    fn spawn_lead(&mut self) -> Input {
        let options = SpawnOptions {
            command: vec!["agent".to_owned()],
            role: Some(AgentRole::Orchestrator),
            ..SpawnOptions::default()
        };
        self.spawn_with(Caller::host(), options)
    }

    fn spawn_with(&mut self, caller: Caller, options: SpawnOptions) -> Input {
        Input::Managed(ManagedInput::Spawn(Box::new(SpawnAgent {
            attachments: Vec::new(),
            caller,
            id: AgentId::new(self.next_id("managed")),
            name: None,
            kind: "scripted".to_owned(),
            options: SpawnOptions {
                cwd: "/".to_owned(),
                turn_timeout_ms: Some(90_000),
                ..options
            },
            prompt: Some("go".to_owned()),
        })))
    }

    fn spawn_child(&mut self, pick: Pick) -> Input {
        let parent = as_agent(&self.managed_id(pick));
        let ask = ApprovalId::new(self.next_id("ask"));
        self.feed(&Input::RequestApproval(Box::new(AskRequest {
            caller: parent.clone(),
            id: ask.clone(),
            agent: None,
            turn: None,
            tool_call: None,
            action: "a child".to_owned(),
            tool: Some(SPAWN_TOOL.to_owned()),
            input: None,
            details: Json::null(),
            a2ui: None,
            options: Vec::new(),
            approving: None,
            system_level: false,
            idempotency_key: None,
            timeout_ms: None,
            cwd: None,
            judged: None,
            keyed: None,
            managed: None,
        })));
        self.feed(&Input::ResolveApproval(ResolveApproval {
            caller: Caller::host(),
            approval: ask.clone(),
            answer: approves(),
            grant_ids: Vec::new(),
            delegated: None,
        }));
        let options = SpawnOptions {
            agent: Some("claude".to_owned()),
            allowed_by: Some(ask),
            ..SpawnOptions::default()
        };
        self.spawn_with(parent, options)
    }

    fn ask_up(&mut self, pick: Pick, text: usize, key: Option<usize>) -> Input {
        let caller = as_agent(&self.managed_id(pick));
        let key = key.map(|key| format!("key {key}"));
        let keyed = key
            .as_deref()
            .and_then(|key| self.models.find_keyed_question(&caller.principal.key, key));
        Input::AskQuestion(AskQuestion {
            keyed: keyed.cloned(),
            caller,
            id: QuestionId::new(self.next_id("question")),
            agent: None,
            text: format!("question {text}"),
            timeout_ms: None,
            key,
        })
    }

    fn set_ceiling(&self, pick: Pick, ceiling: Option<Ceiling>) -> Input {
        Input::SetCeiling {
            caller: Caller::host(),
            agent: self.managed_id(pick),
            ceiling,
        }
    }

    fn resolve_as(&mut self, pick: Pick, ask: usize, effect: Effect, remember: bool) -> Input {
        let remembered = remember.then(|| GrantDraft {
            rule: "Bash(ls:*)".to_owned(),
            effect: Effect::Allow,
            scope: GrantScope::default(),
            expires_in_ms: None,
            uses: None,
            origin: None,
        });
        Input::ResolveApproval(ResolveApproval {
            caller: as_agent(&self.managed_id(pick)),
            approval: self.ask_id(ask),
            grant_ids: remembered
                .iter()
                .map(|_| GrantId::new(self.next_id("grant")))
                .collect(),
            answer: ApprovalAnswer {
                remember: remembered.into_iter().collect(),
                ..approves()
            },
            delegated: Some(DelegationVerdict {
                by_ceiling: effect,
                to_itself: Effect::Ask,
            }),
        })
    }
}

fn approves() -> ApprovalAnswer {
    ApprovalAnswer {
        resolution: "approve".to_owned(),
        ..ApprovalAnswer::default()
    }
}

/// What an orchestrator may lead to for those below it, besides what any agent may.
pub(crate) fn within_an_orchestrators_reach(state: &State, caller: &Caller, event: &Event) -> bool {
    let Some(lead) = caller.principal.agent() else {
        return false;
    };
    if state.find_orchestrator(lead).is_none() {
        return matches!(
            event,
            Event::ParentNotified(_)
                | Event::MessageQueued(_)
                | Event::MessageRepeated(_)
                | Event::TurnStarted(_)
                | Event::ParentMessageWithdrawn(_)
        );
    }
    match event {
        Event::ApprovalResolved(e) => below(state, lead, e.agent.as_ref()),
        Event::QuestionEnded(e) => below(state, lead, e.agent.as_ref()),
        Event::GrantCreated(e) => {
            e.grant.ceiling.as_ref() == Some(lead)
                && below(state, lead, e.grant.scope.session.as_ref())
        }
        Event::AgentStopRequested(e) => below(state, lead, Some(&e.agent)),
        Event::AgentSpawned(e) => e.options.parent.as_ref() == Some(lead),
        Event::ParentNotified(_)
        | Event::MessageQueued(_)
        | Event::MessageRepeated(_)
        | Event::MessageWithdrawn(_)
        | Event::MessagesDropped(_)
        | Event::ParentMessageWithdrawn(_)
        | Event::TurnStarted(_)
        | Event::AgentRunRequested(_)
        | Event::AgentArchived(_) => true,
        _ => false,
    }
}

fn below(state: &State, lead: &AgentId, agent: Option<&AgentId>) -> bool {
    agent.is_some_and(|agent| state.is_ancestor(lead, agent))
}

/// Whether an orchestrator may have allowed this.
pub(crate) fn may_delegate(
    state: &State,
    now: countersign_core::Timestamp,
    resolve: &ResolveApproval,
    asker: Option<&AgentId>,
) -> bool {
    let Some(lead) = resolve.caller.principal.agent() else {
        return false;
    };
    let ceiling = state.find_orchestrator(lead);
    let covered = |delegated: DelegationVerdict| delegated.by_ceiling == Effect::Allow;
    below(state, lead, asker)
        && ceiling.is_some_and(|managed| managed.ceiling_at(now).is_some())
        && resolve.delegated.is_some_and(covered)
}

/// Grants of orchestrators are there only under a ceiling, and parent messages only for those who can read
/// them.
pub(crate) fn stands(state: &State) {
    for grant in state.grants() {
        if let Some(lead) = &grant.grant.ceiling {
            let managed = state.find_orchestrator(lead).unwrap();
            assert!(managed.ceiling.is_some(), "outlived its ceiling: {grant:?}");
        }
    }
    for agent in state.agents() {
        let Some(managed) = &agent.managed else {
            continue;
        };
        let parent_message = managed
            .queue
            .iter()
            .filter(|message| message.parent_message.is_some());
        assert!(parent_message.count() == 0 || managed.is_orchestrator());
        assert!(managed.ceiling.is_none() || managed.is_live());
        let mut questions: Vec<_> = managed
            .queue
            .iter()
            .filter_map(|message| match &message.parent_message {
                Some(countersign_core::event::ParentMessage::Question { question, .. }) => {
                    Some(question)
                }
                _ => None,
            })
            .collect();
        for question in &questions {
            assert!(state.find_question(question).is_some(), "heard too late");
        }
        let all = questions.len();
        questions.sort_unstable();
        questions.dedup();
        assert_eq!(questions.len(), all, "a question waits twice");
    }
}
