//! The world around the host: callers, connections, a clock, and a store.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_core::event::{
    AgentProfile, Effect, GrantScope, PartKind, ProcessKey, RuleRef, Verdict, VerdictPart,
};
use countersign_core::{
    AgentId, Approval, ApprovalAnswer, ApprovalId, AskJudgment, AskQuestion, AskRequest, Caller,
    ClientId, ConnectionPresence, CreateGrant, CreateToken, DecisionContext, DeviceId, Event,
    GrantDraft, GrantId, Input, Json, Principal, PrincipalKey, PutDevice, QuestionId,
    RegisterAgent, ResolveApproval, Role, SendNotification, Seq, SetStatus, State, Timestamp,
    TokenId, decide, limits,
};

use crate::check::Checks;
use crate::models::Models;
use crate::steps::{AskStep, Call, Door, GrantStep, PartStep, Seat, Step, VerdictStep};

/// Ann twice with one token, Bob, somebody who looks, two agents, and the host.
pub(crate) const SEATS: usize = 7;

pub(crate) struct World {
    /// Folded from the first event.
    pub(crate) folded: State,
    /// Restored from the last commit.
    pub(crate) restored: State,
    pub(crate) models: Models,
    pub(crate) presence: ConnectionPresence,
    pub(crate) now: Timestamp,
    pub(crate) expiry_held_until: Timestamp,
    /// The last connection of each seat.
    clients: [Option<ClientId>; SEATS],
    pub(crate) asks: Vec<ApprovalId>,
    pub(crate) questions: Vec<QuestionId>,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) grants: Vec<GrantId>,
    pub(crate) managed: Vec<AgentId>,
    ids: usize,
    pub(crate) checks: Checks,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            folded: State::default(),
            restored: State::default(),
            models: Models::default(),
            presence: ConnectionPresence::default(),
            now: Timestamp(1_000_000),
            expiry_held_until: Timestamp(0),
            clients: Default::default(),
            asks: Vec::new(),
            questions: Vec::new(),
            tokens: Vec::new(),
            grants: Vec::new(),
            managed: Vec::new(),
            ids: 0,
            checks: Checks::default(),
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Connect(seat) => self.connect(seat),
            Step::Subscribe(seat) => {
                if let Some(client) = &self.clients[seat] {
                    self.presence.subscribed(client);
                }
            }
            Step::Lose(seat) => self.lose(seat),
            Step::Pass { seconds, wake } => {
                self.now = self.now.plus_ms(seconds * 1000);
                if wake {
                    self.feed(&Input::TimeArrived);
                }
            }
            Step::Commit => self.commit(),
            Step::Restart(adopted) => self.restart(adopted),
            Step::Call(seat, door, call) => {
                let caller = self.caller(seat, door);
                let input = self.input(caller, call);
                self.feed(&input);
            }
            Step::Tell(pick) => {
                if let Some(ask) = self.find(pick) {
                    self.feed(&Input::DeliverAnswer(Box::new(ask)));
                }
            }
            Step::Settle(pick, delivery) => {
                if let Some(ask) = self.find(pick).filter(|ask| !ask.is_pending()) {
                    self.feed(&Input::SettleAnswer {
                        approval: ask.ask.id.clone(),
                        opened: ask.opened,
                        delivery,
                    });
                }
            }
            Step::Mark { process, agent } => self.feed(&Input::MarkProcess {
                agent: agent_id(agent),
                process: process_key(process),
            }),
            Step::Forget { process } => {
                self.feed(&Input::ForgetProcesses(vec![process_key(process)]));
            }
            Step::Rejudge(pick, verdict) => self.feed(&Input::SettleByRules {
                approval: self.ask_id(pick),
                judged: self.judged(&verdict),
            }),
            Step::Ran(agent, when, ran) => {
                let input = self.ran(agent, when, &ran);
                self.feed(&input);
            }
            Step::Family(step) => {
                let input = self.family(&step);
                self.feed(&input);
            }
            Step::ManagedAsk(own, ask) => {
                let plain = self.request(Caller::host(), &ask);
                let request = self.managed_ask(&own, plain);
                self.feed(&Input::RequestApproval(Box::new(request)));
            }
        }
    }

    /// Everybody leaves and time goes on: whatever can end by itself does, and nothing else.
    pub(crate) fn end_of_time(&mut self) {
        for seat in 0..SEATS {
            self.lose(seat);
        }
        self.now = self.now.max(self.expiry_held_until);
        self.feed(&Input::TimeArrived);
        while let Some(next) = self.folded.next_deadline(self.expiry_held_until) {
            assert!(next > self.now, "time does not move on");
            self.now = next;
            let head = self.folded.head();
            self.feed(&Input::TimeArrived);
            assert!(self.folded.head() > head, "woken for nothing");
        }
        self.commit();
        for approval in self.folded.open_approvals() {
            assert_eq!((&approval.client, approval.ask.deadline), (&None, None));
        }
        assert_eq!(self.folded.open_questions().len(), 0);
        let mut grants = self.folded.grants();
        assert!(grants.all(|grant| grant.grant.expires_at.is_none()));
        assert!(
            self.folded
                .agents()
                .all(|agent| agent.bypass_until.is_none())
        );
        assert!(self.folded.agents().all(|agent| agent.client.is_none()));
    }

    fn connect(&mut self, seat: Seat) {
        // The host speaks without a connection.
        if seat == SEATS - 1 || self.is_connected(seat) {
            return;
        }
        let client = ClientId::new(self.next_id("client"));
        self.presence.connected(client.clone());
        self.clients[seat] = Some(client);
    }

    fn is_connected(&self, seat: Seat) -> bool {
        let client = self.clients[seat].as_ref();
        client.is_some_and(|client| self.presence.is_connected(client))
    }

    fn lose(&mut self, seat: Seat) {
        if self.is_connected(seat) {
            let client = self.clients[seat].clone().unwrap();
            self.presence.disconnected(&client);
            self.feed(&Input::ConnectionLost(client));
        }
    }

    /// Writes what changed, and goes on beside it from what a store gives back.
    fn commit(&mut self) {
        let changes = self.folded.take_changes();
        self.models.write(self.folded.head(), changes);
        self.restored = State::restore(self.models.snapshot());
        crate::check::same(self);
    }

    /// Killed right after a commit, and started again. Agents may have outlived that.
    fn restart(&mut self, adopted: u8) {
        self.commit();
        let bits = (0..u8::BITS).map(|place| adopted >> place & 1 == 1);
        let adopted: BTreeSet<AgentId> = (self.managed.iter().zip(bits))
            .filter(|(_, adopted)| *adopted)
            .map(|(agent, _)| agent.clone())
            .collect();
        let before = crate::managed::lives_of(&self.folded, &adopted);
        self.presence = ConnectionPresence::default();
        self.expiry_held_until = self.now.plus_ms(limits::EXPIRY_HOLD_MS);
        self.feed(&Input::HostStarted {
            version: "1".to_owned(),
            pid: 1,
            adopted,
        });
        crate::managed::only_these_live(&self.folded, before);
    }

    pub(crate) fn feed(&mut self, input: &Input) {
        let context = DecisionContext {
            now: self.now,
            presence: &self.presence,
            expiry_held_until: self.expiry_held_until,
            owner_grace_ms: limits::OWNER_GRACE_MS,
            escalation_ms: 60_000,
        };
        let decided = decide(&self.folded, context, input.clone());
        let twin = decide(&self.restored, context, input.clone());
        assert_eq!(decided, twin, "a restored state decides otherwise");
        self.checks.decided(&self.folded, context, input, &decided);
        for event in decided.iter().flat_map(|decision| &decision.events) {
            let seq = self.folded.head().next();
            self.folded.apply(seq, self.now, event);
            self.restored.apply(seq, self.now, event);
            self.checks.applied(seq, self.now, event);
        }
        for event in decided.iter().flat_map(|decision| &decision.events) {
            self.remember(event);
        }
        self.checks.stands(self, input);
    }

    fn remember(&mut self, event: &Event) {
        match event {
            Event::ApprovalRequested(e) => self.asks.push(e.ask.id.clone()),
            Event::QuestionAsked(e) => self.questions.push(e.question.id.clone()),
            Event::TokenCreated(e) => self.tokens.push(e.token.clone()),
            Event::GrantCreated(e) => self.grants.push(e.grant.id.clone()),
            Event::AgentSpawned(e) => self.managed.push(e.agent.id.clone()),
            _ => {}
        }
    }

    fn caller(&self, seat: Seat, door: Door) -> Caller {
        let client = match door {
            Door::Connection if self.is_connected(seat) => self.clients[seat].clone(),
            Door::Connection | Door::Nowhere => None,
            Door::Late => self.clients[seat].clone(),
        };
        Caller {
            principal: Arc::new(principal(seat)),
            client,
            door: None,
        }
    }

    pub(crate) fn next_id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}-{}", self.ids)
    }

    pub(crate) fn pick<T: Clone>(made: &[T], pick: usize) -> Option<T> {
        let from_the_end = made.len().checked_sub(pick.checked_add(1)?)?;
        made.get(from_the_end).cloned()
    }

    pub(crate) fn ask_id(&self, pick: usize) -> ApprovalId {
        Self::pick(&self.asks, pick).unwrap_or_else(|| ApprovalId::new("unknown"))
    }

    /// An ask as a door would find it: in memory, or in what was committed.
    fn find(&self, pick: usize) -> Option<Approval> {
        let id = self.ask_id(pick);
        let memory = self.folded.find_approval(&id);
        memory.or_else(|| self.models.find_approval(&id)).cloned()
    }

    fn input(&mut self, caller: Caller, call: Call) -> Input {
        match call {
            Call::Register(agent) => Input::RegisterAgent(RegisterAgent {
                caller,
                profile: profile(agent),
            }),
            Call::Unregister(agent) => Input::UnregisterAgent {
                caller,
                agent: agent_id(agent),
            },
            Call::SetStatus(agent, base) => Input::SetStatus(SetStatus {
                caller,
                agent: agent_id(agent),
                base,
                current_task: None,
                message: None,
                payload: None,
            }),
            Call::Ask(ask) => Input::RequestApproval(Box::new(self.request(caller, &ask))),
            Call::Resolve(pick, option, edit, remember) => {
                Input::ResolveApproval(ResolveApproval {
                    caller,
                    delegated: None,
                    grant_ids: remember
                        .iter()
                        .map(|_| GrantId::new(self.next_id("grant")))
                        .collect(),
                    approval: self.ask_id(pick),
                    answer: ApprovalAnswer {
                        considered_ms: None,
                        resolution: ["approve", "deny", "yes", "nonsense"][option].to_owned(),
                        message: None,
                        edited_input: edit.then(|| number(9)),
                        answers: None,
                        stop: option == 1 && !remember.is_empty(),
                        remember: remember.into_iter().map(draft).collect(),
                    },
                })
            }
            Call::Cancel(pick) => Input::CancelApproval {
                caller,
                approval: self.ask_id(pick),
                message: None,
            },
            Call::Dismiss(pick) => match self.find(pick) {
                Some(ask) => Input::DismissApproval {
                    caller,
                    approval: Box::new(ask),
                },
                None => Input::TimeArrived,
            },
            Call::AskQuestion(agent, timeout_s) => Input::AskQuestion(AskQuestion {
                caller,
                id: QuestionId::new(self.next_id("question")),
                agent: agent.map(agent_id),
                text: "which?".to_owned(),
                timeout_ms: timeout_s.map(|s| s * 1000),
                key: None,
                keyed: None,
            }),
            Call::AnswerQuestion(pick) => Input::AnswerQuestion {
                caller,
                question: Self::pick(&self.questions, pick)
                    .unwrap_or_else(|| QuestionId::new("unknown")),
                answer: "that".to_owned(),
                considered_ms: None,
            },
            Call::StopAll => Input::StopAll(caller),
            Call::Notify(forged) => Input::SendNotification(SendNotification {
                caller,
                kind: if forged { "approval.resolved" } else { "note" }.to_owned(),
                agent: None,
                message: String::new(),
                payload: Json::null(),
            }),
            Call::RegisterDevice(device) => Input::RegisterDevice(put_device(caller, device)),
            Call::UpdateDevice(device) => Input::UpdateDevice(put_device(caller, device)),
            Call::CreateGrant(grant) => Input::CreateGrant(CreateGrant {
                caller,
                id: GrantId::new(self.next_id("grant")),
                draft: draft(grant),
            }),
            Call::RemoveGrant(pick) => Input::RemoveGrant {
                caller,
                grant: self.grant_id(pick),
            },
            Call::SetBypass(agent, seconds) => Input::SetBypass {
                caller,
                agent: agent_id(agent),
                for_ms: seconds.map(|seconds| seconds * 1000),
            },
            Call::Trust(file, digest) => Input::TrustRules {
                caller,
                file: format!("/file {file}"),
                digest: format!("digest {digest}"),
            },
            Call::CreateToken(agent, ttl_s) => {
                let id = self.next_id("token");
                Input::CreateToken(CreateToken {
                    caller,
                    hash: format!("hash of {id}"),
                    id: TokenId::new(id),
                    role: agent.map_or(Role::Observer, |agent| Role::Agent(agent_id(agent))),
                    name: agent.map_or("somebody".to_owned(), |agent| format!("name {agent}")),
                    ttl_ms: ttl_s.map(|s| s * 1000),
                    device: ttl_s
                        .is_some_and(|s| s % 2 == 0)
                        .then(|| "phone".to_owned()),
                })
            }
            Call::RenewToken(pick) => Input::RenewToken(
                Self::pick(&self.tokens, pick).unwrap_or_else(|| TokenId::new("unknown")),
            ),
            Call::RevokeToken(pick) => Input::RevokeToken {
                caller,
                token: Self::pick(&self.tokens, pick).unwrap_or_else(|| TokenId::new("unknown")),
            },
            Call::Redact(pick) => Input::Redact {
                caller,
                seq: self.seq_of(pick),
                reason: "a secret".to_owned(),
            },
            Call::Prune(pick) => Input::Prune {
                caller,
                before: self.seq_of(pick),
            },
            Call::Managed(call) => self.managed_call(caller, &call),
        }
    }

    fn grant_id(&self, pick: usize) -> GrantId {
        Self::pick(&self.grants, pick).unwrap_or_else(|| GrantId::new("unknown"))
    }

    fn judged(&self, verdict: &VerdictStep) -> AskJudgment {
        let parts = verdict.parts.iter().map(|part| self.part(part));
        let parts: Vec<VerdictPart> = parts.collect();
        let effect = parts.iter().map(|part| part.effect).max().unwrap();
        AskJudgment {
            verdict: Arc::new(Verdict { effect, parts }),
            cwd: None,
            project: verdict.project.map(|project| format!("/project {project}")),
        }
    }

    fn part(&self, part: &PartStep) -> VerdictPart {
        let grant = part.grant.map(|pick| self.grant_id(pick));
        VerdictPart {
            kind: PartKind::Tool,
            subject: "it".to_owned(),
            effect: part.effect,
            rule: (part.effect != Effect::Ask).then(|| RuleRef {
                rule: "it".to_owned(),
                effect: part.effect,
                source: "rules.toml".to_owned(),
                line: None,
                grant,
            }),
            reason: None,
            floor: part.floor,
        }
    }

    /// Where an ask was opened, open or not; or a number nothing has yet.
    fn seq_of(&self, pick: usize) -> Seq {
        let found = self.find(pick);
        found.map_or(Seq(self.folded.head().0 + 5), |ask| ask.opened)
    }

    fn request(&mut self, caller: Caller, ask: &AskStep) -> AskRequest {
        let plain = AskStep {
            agent: None,
            call: None,
            input: ask.key,
            options: 0,
            tool: false,
            ..ask.clone()
        };
        let ask = if ask.key.is_some() && !ask.clashes {
            &plain
        } else {
            ask
        };
        let (options, approving): (&[&str], Option<&[&str]>) = [
            (&[][..], None),
            (&["approve", "deny", "yes"][..], None),
            (&["approve", "deny", "yes"][..], Some(&["yes"][..])),
            (&["yes", "deny"][..], None),
            (&["approve"][..], Some(&[][..])),
            (&["yes"][..], Some(&["no"][..])),
        ][ask.options];
        let key = ask.key.map(|key| format!("key {key}"));
        let keyed = key.as_ref().and_then(|key| {
            let principal = &caller.principal.key;
            self.models.find_keyed(principal, key).cloned()
        });
        AskRequest {
            agent: ask.agent.map(agent_id),
            turn: ask.call.map(|(turn, _)| format!("turn {turn}")),
            tool_call: ask.call.map(|(_, call)| format!("call {call}")),
            tool: ask.tool.then(|| "tool".to_owned()),
            input: ask.input.map(number),
            options: options.iter().map(|word| (*word).to_owned()).collect(),
            approving: approving.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
            system_level: ask.system_level,
            idempotency_key: key,
            timeout_ms: ask.timeout_s.map(|s| s * 1000),
            judged: ask
                .verdict
                .as_ref()
                .filter(|_| ask.tool)
                .map(|verdict| self.judged(verdict)),
            keyed,
            ..AskRequest::new(caller, ApprovalId::new(self.next_id("ask")), "run it")
        }
    }
}

pub(crate) fn principal(seat: Seat) -> Principal {
    let (role, name) = match seat {
        0 | 1 => (Role::Operator, "ann"),
        2 => (Role::Operator, "bob"),
        3 => (Role::Observer, "olga"),
        4 => (Role::Agent(agent_id(0)), "agent-0"),
        5 => (Role::Agent(agent_id(1)), "agent-1"),
        _ => return Principal::host(),
    };
    Principal {
        role,
        name: name.into(),
        key: PrincipalKey::new(name),
    }
}

pub(crate) fn agent_id(agent: usize) -> AgentId {
    AgentId::new(format!("agent-{agent}"))
}

fn draft(grant: GrantStep) -> GrantDraft {
    GrantDraft {
        rule: format!("rule {}", grant.rule),
        effect: grant.effect,
        scope: GrantScope {
            agent: grant.agent.map(|agent| format!("name {agent}")),
            project: grant.project.map(|project| format!("/project {project}")),
            session: grant.session.map(agent_id),
            ..GrantScope::default()
        },
        expires_in_ms: grant.expires_s.map(|s| s * 1000),
        uses: grant.uses,
        origin: None,
    }
}

fn process_key(process: u32) -> ProcessKey {
    ProcessKey {
        pid: process,
        start_time: 1,
    }
}

fn number(number: usize) -> Json {
    Json::from_value(&number).unwrap()
}

fn profile(agent: usize) -> AgentProfile {
    AgentProfile::new(agent_id(agent), format!("agent {agent}"))
}

fn put_device(caller: Caller, device: usize) -> PutDevice {
    PutDevice {
        caller,
        id: DeviceId::new(format!("device-{device}")),
        name: None,
        platform: None,
        capabilities: None,
        status: None,
        metadata: None,
    }
}
