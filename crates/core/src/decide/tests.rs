//! Decisions, case by case: given what happened, when an input arrives, then these events.
//!
//! Each case reads its events as lines: kind, subject, and everything that matters of the rest.

mod adopted;
mod agents;
mod answered;
mod answers;
mod asks;
mod bypass;
mod grants;
mod managed;
mod orchestrators;
mod owners;
mod record;
mod rules;
mod time;

use std::sync::Arc;

use crate::event::{AgentProfile, BaseState, Event};
use crate::{
    AgentId, ApprovalAnswer, ApprovalId, AskQuestion, AskRequest, Caller, ClientId,
    ConnectionPresence, Decision, DecisionContext, DecisionSubject, GrantId, Input, Json,
    Principal, PrincipalKey, QuestionId, RecordedActor, RegisterAgent, Rejection, ResolveApproval,
    Role, SetStatus, State, Timestamp, decide, limits,
};

/// A host in miniature: decides, applies, and says what happened.
struct Host {
    state: State,
    presence: ConnectionPresence,
    now: Timestamp,
    expiry_held_until: Timestamp,
    ids: u32,
}

impl Host {
    fn new() -> Self {
        Self {
            state: State::default(),
            presence: ConnectionPresence::default(),
            now: Timestamp(0),
            expiry_held_until: Timestamp(0),
            ids: 0,
        }
    }

    fn decide(&mut self, input: Input) -> Result<Decision, Rejection> {
        let context = DecisionContext {
            now: self.now,
            presence: &self.presence,
            expiry_held_until: self.expiry_held_until,
            owner_grace_ms: limits::OWNER_GRACE_MS,
            escalation_ms: 60_000,
        };
        let decision = decide(&self.state, context, input)?;
        for event in &decision.events {
            self.state.apply(self.state.head().next(), self.now, event);
        }
        Ok(decision)
    }

    /// The events of an input that is taken.
    fn does(&mut self, input: Input) -> Vec<String> {
        let decision = self.decide(input).unwrap();
        assert!(
            !matches!(decision.subject, DecisionSubject::Refused(_)),
            "refused on the record: {decision:?}"
        );
        decision.events.iter().map(line).collect()
    }

    /// Why an input is refused without a trace.
    fn refuses(&mut self, input: Input) -> Rejection {
        let head = self.state.head();
        let rejection = self.decide(input).unwrap_err();
        assert_eq!(self.state.head(), head);
        rejection
    }

    /// Why an input is refused, and what is on the record about it.
    fn refuses_on_record(&mut self, input: Input) -> (Rejection, Vec<String>) {
        let decision = self.decide(input).unwrap();
        let DecisionSubject::Refused(rejection) = decision.subject else {
            panic!("not refused: {decision:?}");
        };
        (*rejection, decision.events.iter().map(line).collect())
    }

    /// Opens a connection. A person's key is their name, an agent's is its id.
    fn connect(&mut self, who: Caller, client: &str) -> Caller {
        self.presence.connected(ClientId::new(client));
        Caller {
            client: Some(ClientId::new(client)),
            door: None,
            ..who
        }
    }

    fn subscribe(&mut self, caller: &Caller) {
        self.presence.subscribed(caller.client.as_ref().unwrap());
    }

    fn lose(&mut self, caller: &Caller) -> Vec<String> {
        let client = caller.client.clone().unwrap();
        self.presence.disconnected(&client);
        self.does(Input::ConnectionLost(client))
    }

    /// Time goes by, and the host is woken.
    fn after_ms(&mut self, ms: u64) -> Vec<String> {
        self.now = self.now.plus_ms(ms);
        self.does(Input::TimeArrived)
    }

    /// The host was killed and comes back; nothing expires for a minute.
    fn restart(&mut self) -> Vec<String> {
        self.restart_with(&[])
    }

    /// As [`Host::restart`], with agents that outlived the kill.
    fn restart_with(&mut self, adopted: &[&str]) -> Vec<String> {
        self.presence = ConnectionPresence::default();
        self.expiry_held_until = self.now.plus_ms(limits::EXPIRY_HOLD_MS);
        self.does(Input::HostStarted {
            version: "1".to_owned(),
            pid: 7,
            adopted: adopted.iter().copied().map(AgentId::new).collect(),
        })
    }

    fn next_id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}-{}", self.ids)
    }

    /// Asks, and gives the ask's id and what happened.
    fn asks(&mut self, request: AskRequest) -> (ApprovalId, Vec<String>) {
        let id = ApprovalId::new(self.next_id("ask"));
        let request = AskRequest {
            id: id.clone(),
            ..request
        };
        let decision = self
            .decide(Input::RequestApproval(Box::new(request)))
            .unwrap();
        let lines = decision.events.iter().map(line).collect();
        if let DecisionSubject::KnownApproval(approval) = decision.subject {
            return (approval.ask.id.clone(), lines);
        }
        let DecisionSubject::Approval(id) = decision.subject else {
            panic!("not an approval: {:?}", decision.subject);
        };
        (id, lines)
    }

    fn ask(&mut self, request: AskRequest) -> ApprovalId {
        self.asks(request).0
    }

    fn question(&mut self, caller: &Caller, timeout_ms: Option<u64>) -> QuestionId {
        let id = QuestionId::new(self.next_id("question"));
        self.does(Input::AskQuestion(AskQuestion {
            caller: caller.clone(),
            id: id.clone(),
            agent: None,
            text: "which one?".to_owned(),
            timeout_ms,
            key: None,
            keyed: None,
        }));
        id
    }

    fn register(&mut self, caller: &Caller, agent: &str) -> Vec<String> {
        self.does(register(caller, agent))
    }

    fn set(&mut self, caller: &Caller, agent: &str, base: BaseState) -> Vec<String> {
        self.does(set_status(caller, agent, base))
    }

    /// How an ask stands, in one line.
    fn shows(&self, id: &ApprovalId) -> String {
        let approval = self.state.find_approval(id).unwrap();
        let end = approval.ended.as_ref().map_or("pending".to_owned(), |end| {
            format!("{:?} {}", end.ending.outcome, end.ending.resolution)
        });
        let client = approval.client.as_ref().map_or("nobody", ClientId::as_str);
        format!("{end} on {client}")
    }

    fn state_of(&self, agent: &str) -> String {
        let id = AgentId::new(agent);
        let agent = self.state.find_agent(&id).unwrap();
        format!("{:?}", agent.state(self.state.open_of(&id)))
    }
}

fn person(name: &str) -> Caller {
    caller(Role::Operator, name)
}

fn observer() -> Caller {
    caller(Role::Observer, "olga")
}

fn agent(id: &str) -> Caller {
    caller(Role::Agent(AgentId::new(id)), id)
}

fn caller(role: Role, name: &str) -> Caller {
    Caller {
        principal: Arc::new(Principal {
            role,
            name: name.into(),
            key: PrincipalKey::new(name),
        }),
        client: None,
        door: None,
    }
}

fn request(caller: &Caller) -> AskRequest {
    AskRequest::new(caller.clone(), ApprovalId::new("unset"), "run it")
}

fn ask_input(request: AskRequest) -> Input {
    Input::RequestApproval(Box::new(request))
}

fn resolve(caller: &Caller, approval: &ApprovalId, resolution: &str) -> Input {
    answer(
        caller,
        approval,
        ApprovalAnswer {
            resolution: resolution.to_owned(),
            ..ApprovalAnswer::default()
        },
    )
}

fn answer(caller: &Caller, approval: &ApprovalId, answer: ApprovalAnswer) -> Input {
    Input::ResolveApproval(ResolveApproval {
        caller: caller.clone(),
        approval: approval.clone(),
        grant_ids: (1..=answer.remember.len())
            .map(|n| GrantId::new(format!("grant of {approval} {n}")))
            .collect(),
        answer,
        delegated: None,
    })
}

fn cancel(caller: &Caller, approval: &ApprovalId) -> Input {
    Input::CancelApproval {
        caller: caller.clone(),
        approval: approval.clone(),
        message: None,
    }
}

fn profile(agent: &str) -> AgentProfile {
    AgentProfile::new(AgentId::new(agent), format!("agent {agent}"))
}

fn register(caller: &Caller, agent: &str) -> Input {
    Input::RegisterAgent(RegisterAgent {
        caller: caller.clone(),
        profile: profile(agent),
    })
}

fn set_status(caller: &Caller, agent: &str, base: BaseState) -> Input {
    Input::SetStatus(SetStatus {
        caller: caller.clone(),
        agent: AgentId::new(agent),
        base,
        current_task: None,
        message: None,
        payload: None,
    })
}

fn unregister(caller: &Caller, agent: &str) -> Input {
    Input::UnregisterAgent {
        caller: caller.clone(),
        agent: AgentId::new(agent),
    }
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn by(caller: &Caller) -> RecordedActor {
    RecordedActor::from(caller)
}

/// An event in one line. Times are in seconds.
fn line(event: &Event) -> String {
    let kind = event.kind();
    match event {
        Event::HostStarted(e) => format!("{kind}, owners have until {}", seconds(e.lapses_at)),
        Event::ConnectionLost(e) => {
            format!("{kind} {}, until {}", e.client, seconds(e.lapses_at))
        }
        Event::ConnectionLapsed(e) => format!("{kind} {}", e.client),
        Event::AgentRegistered(e) => format!(
            "{kind} {} by {} on {}",
            e.agent.id,
            e.owner,
            or_none(e.client.as_ref())
        ),
        Event::AgentStatusChanged(e) => format!(
            "{kind} {}: {:?}, seen as {:?}, on {}",
            e.agent.id,
            e.base,
            e.state,
            or_none(e.client.as_ref())
        ),
        Event::AgentUnregistered(e) => format!("{kind} {}", e.agent),
        Event::AgentInterruptRequested(e) => format!("{kind} {} by {}", e.agent, e.by.name),
        Event::AgentSpawned(e) => format!("{kind} {} `{}`", e.agent.id, e.agent.name),
        Event::AgentRunRequested(e) => {
            format!(
                "{kind} {}, run {} on {}",
                e.agent,
                e.run,
                or_none(e.session.as_ref())
            )
        }
        Event::WorktreeChanged(e) => format!("{kind} {}: {}", e.agent, e.worktree.is_some()),
        Event::AgentLaunched(e) => {
            let pid = e.process.map(|process| process.pid);
            format!(
                "{kind} {}, run {} as {}",
                e.agent,
                e.run,
                or_none(pid.as_ref())
            )
        }
        Event::AgentReady(e) => format!("{kind} {}, run {} on {}", e.agent, e.run, e.session),
        Event::AgentStopRequested(e) => format!("{kind} {} by {}", e.agent, e.by.name),
        Event::AgentExited(e) => format!("{kind} {}: {:?}, {}", e.agent, e.end, e.message),
        Event::AgentRenamed(e) => format!("{kind} {} to {}", e.agent, e.name),
        Event::AgentArchived(e) => format!("{kind} {}: {}", e.agent, e.archived),
        Event::AgentConfigured(e) => format!("{kind} {} by {}", e.agent, e.by.name),
        Event::AgentReported(e) => format!("{kind} {}", e.agent),
        Event::MessageQueued(e) => {
            format!(
                "{kind} {} by {}: {}",
                e.agent, e.message.by.name, e.message.text
            )
        }
        Event::MessageWithdrawn(e) => format!(
            "{kind} {} {} by {}: {}",
            e.agent, e.number, e.by.name, e.text
        ),
        Event::MessagesDropped(e) => format!("{kind} {}: {}", e.agent, e.reason),
        Event::MessageRepeated(e) => format!("{kind} to {} from {}", e.agent, e.from),
        Event::ParentMessageWithdrawn(e) => format!("{kind} to {}: {}", e.agent, e.question),
        Event::ParentNotified(e) => {
            format!(
                "{kind} {} to {}: {}",
                e.agent,
                or_none(e.to.as_ref()),
                e.text
            )
        }
        Event::AgentCeilingChanged(e) => {
            let rules = e.ceiling.as_ref().map(|ceiling| ceiling.rules.join(", "));
            format!("{kind} {}: {}", e.agent, or_none(rules.as_ref()))
        }
        Event::QuestionEscalated(e) => format!("{kind} {}", e.question),
        Event::TurnStarted(e) => format!("{kind} {} {}", e.agent, e.turn),
        Event::TurnInterrupted(e) => format!("{kind} {} {} by {}", e.agent, e.turn, e.by.name),
        Event::TurnEnded(e) => format!("{kind} {} {}: {}", e.agent, e.turn, e.reason),
        Event::TranscriptAdded(e) => {
            format!("{kind} {} {}, {} entries", e.agent, e.turn, e.entries.len())
        }
        Event::PassUsed(e) => format!("{kind} {} {}", e.agent, e.approval),
        Event::ApprovalRequested(e) => format!(
            "{kind} {} of {} by {}, {:?}, until {}",
            e.ask.id,
            or_none(e.ask.agent.as_ref()),
            e.ask.by.name,
            e.ask.attachment,
            e.ask
                .deadline
                .map_or("ever".to_owned(), |at| seconds(at).to_string()),
        ),
        Event::ApprovalResolved(e) => format!(
            "{kind} {}: {:?} `{}` by {}, {:?}",
            e.approval, e.ending.outcome, e.ending.resolution, e.ending.by.name, e.delivery
        ),
        Event::ApprovalResolveRequested(e) => format!(
            "{kind} {}: `{}` by {} to {}",
            e.approval, e.resolution, e.by.name, e.owner
        ),
        Event::ApprovalResolveRefused(e) => format!(
            "{kind} {}: `{}` by {}, {}",
            e.approval, e.resolution, e.by.name, e.reason
        ),
        Event::ApprovalAttached(e) => format!("{kind} {} to {}", e.approval, e.client),
        Event::ApprovalDismissed(e) => format!("{kind} {} by {}", e.approval, e.by.name),
        Event::AnswerAttempted(e) => format!("{kind} {}, time {}", e.approval, e.deliveries),
        Event::AnswerSettled(e) => format!("{kind} {}: {:?}", e.approval, e.delivery),
        Event::QuestionAsked(e) => format!(
            "{kind} {} of {} by {}, until {}",
            e.question.id,
            or_none(e.question.agent.as_ref()),
            e.question.by.name,
            seconds(e.question.deadline.unwrap_or_default())
        ),
        Event::QuestionEnded(e) => format!(
            "{kind} {}: {:?} `{}` by {}",
            e.question, e.ending.outcome, e.ending.answer, e.ending.by.name
        ),
        Event::DeviceRegistered(e) => device_line(kind, &e.device),
        Event::DeviceUpdated(e) => device_line(kind, &e.device),
        Event::NotificationSent(e) => format!(
            "{kind} {} about {} by {}: {}",
            e.kind,
            or_none(e.agent.as_ref()),
            e.by.name,
            e.message
        ),
        Event::TerminalOpened(e) => format!(
            "{kind} {}: `{}` in {} by {}",
            e.terminal, e.command, e.cwd, e.by.name
        ),
        Event::TerminalEnded(e) => format!(
            "{kind} {}: {:?} {:?} by {}",
            e.terminal,
            e.exit_code,
            e.signal,
            e.by.as_ref().map_or("none", |by| &by.name)
        ),
        Event::TokenCreated(e) => format!("{kind} {} for {:?}", e.token, e.role),
        Event::TokenRenewed(e) => format!("{kind} {} until {}", e.token, e.expires_at.0),
        Event::TokenRevoked(e) => format!("{kind} {} by {}", e.token, e.by.name),
        Event::ProcessMarked(e) => format!("{kind} {} is {}", e.process.pid, e.agent),
        Event::ProcessesForgotten(e) => format!("{kind}, {} of them", e.processes.len()),
        Event::RecordRedacted(e) => format!("{kind} {} by {}", e.seq, e.by.name),
        Event::GrantCreated(e) => format!(
            "{kind} {}: {} `{}` by {}",
            e.grant.id,
            e.grant.effect.as_str(),
            e.grant.rule,
            e.grant.by.name
        ),
        Event::GrantRemoved(e) => format!(
            "{kind} {}: {:?} by {}",
            e.grant,
            e.reason,
            e.by.as_ref().map_or("none", |by| &by.name)
        ),
        Event::AgentBypassChanged(e) => format!(
            "{kind} {} until {} by {}",
            e.agent,
            e.until
                .map_or("never".to_owned(), |at| seconds(at).to_string()),
            e.by.name
        ),
        Event::RulesTrusted(e) => format!("{kind} {} as {} by {}", e.file, e.digest, e.by.name),
        Event::RecordPruned(e) => format!("{kind} before {} by {}", e.before, e.by.name),
    }
}

fn device_line(kind: &str, device: &crate::event::Device) -> String {
    format!(
        "{kind} {} `{}` {} on {}",
        device.id,
        device.name,
        device.status,
        or_none(device.client.as_ref())
    )
}

fn or_none(id: Option<&impl ToString>) -> String {
    id.map_or("none".to_owned(), ToString::to_string)
}

fn seconds(at: Timestamp) -> u64 {
    at.0 / 1_000_000
}
