//! Inputs: things that arrive. Each names its caller; ids and facts from history are handed in.

mod managed;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::approval::Approval;
use crate::event::{
    AgentProfile, AnswerDelivery, BaseState, Ceiling, Effect, GrantScope, ProcessKey, Verdict,
};
use crate::ids::{
    AgentId, ApprovalId, ClientId, DeviceId, GrantId, QuestionId, Seq, Timestamp, TokenId,
};
use crate::json::Json;
use crate::principal::{Caller, Role};
use crate::question::Question;

pub use managed::{ChildrenPolicy, ManagedAsk, ManagedInput, RunEvent, SpawnAgent};

/// Something that arrived, from a door, the clock or the host itself.
#[derive(Clone, Debug)]
pub enum Input {
    /// The host begins to serve.
    HostStarted {
        version: String,
        pid: u32,
        /// Managed agents that outlived the host before it and are heard again. Everybody else
        /// that was live is gone.
        adopted: BTreeSet<AgentId>,
    },
    /// The instant the state asked to be woken at may have come.
    TimeArrived,
    /// A connection ended.
    ConnectionLost(ClientId),
    /// See [`RegisterAgent`].
    RegisterAgent(RegisterAgent),
    /// An agent takes itself off the list.
    UnregisterAgent { caller: Caller, agent: AgentId },
    /// See [`SetStatus`].
    SetStatus(SetStatus),
    /// See [`PutDevice`].
    RegisterDevice(PutDevice),
    /// See [`PutDevice`].
    UpdateDevice(PutDevice),
    /// See [`SendNotification`].
    SendNotification(SendNotification),
    /// See [`AskRequest`].
    RequestApproval(Box<AskRequest>),
    /// See [`ResolveApproval`].
    ResolveApproval(ResolveApproval),
    /// The rules were asked again about an open ask.
    SettleByRules {
        approval: ApprovalId,
        /// What they say now.
        judged: AskJudgment,
    },
    /// See [`CreateGrant`].
    CreateGrant(CreateGrant),
    /// A grant is taken back.
    RemoveGrant { caller: Caller, grant: GrantId },
    /// An agent's asks are let through for a while, or no longer.
    SetBypass {
        caller: Caller,
        agent: AgentId,
        /// For how long from the moment it is decided; `None` to switch it off.
        for_ms: Option<u64>,
    },
    /// Somebody opens a terminal of their own.
    OpenTerminal {
        caller: Caller,
        terminal: String,
        cwd: String,
        command: String,
    },
    /// Such a terminal was closed, or its program ended.
    EndTerminal {
        /// Who closed it.
        caller: Option<Caller>,
        terminal: String,
        exit_code: Option<i32>,
        signal: Option<String>,
    },
    /// Somebody trusts a rule file as it is.
    TrustRules {
        caller: Caller,
        file: String,
        /// SHA-256 of its content, in hexadecimal.
        digest: String,
    },
    /// An asker takes its ask back.
    CancelApproval {
        caller: Caller,
        approval: ApprovalId,
        message: Option<String>,
    },
    /// An ended ask is taken off the list.
    DismissApproval {
        caller: Caller,
        /// The ask as history has it.
        approval: Box<Approval>,
    },
    /// An asker is about to be told how its ask ended. While it is open there is nothing to tell.
    DeliverAnswer(Box<Approval>),
    /// What became of telling it.
    SettleAnswer {
        approval: ApprovalId,
        /// The event that opened it.
        opened: Seq,
        /// What became of its answer.
        delivery: AnswerDelivery,
    },
    /// See [`AskQuestion`].
    AskQuestion(AskQuestion),
    /// See [`NotifyParent`].
    NotifyParent(NotifyParent),
    /// What an orchestrator may settle for those below it is given, or taken.
    SetCeiling {
        caller: Caller,
        agent: AgentId,
        /// What it may settle; `None` to take it away. Whoever makes an input has seen to it that the
        /// rules can be read.
        ceiling: Option<Ceiling>,
    },
    /// See [`ManagedInput`].
    Managed(ManagedInput),
    /// Somebody answers a question.
    AnswerQuestion {
        caller: Caller,
        question: QuestionId,
        answer: String,
        /// How long the question was in front of who answers, as their screen says.
        considered_ms: Option<u64>,
    },
    /// Deny everything open, interrupt every agent.
    StopAll(Caller),
    /// See [`CreateToken`].
    CreateToken(CreateToken),
    /// A device that is logged in was used.
    RenewToken(TokenId),
    /// A token is withdrawn.
    RevokeToken { caller: Caller, token: TokenId },
    /// A process used an agent's token.
    MarkProcess {
        /// The agent it is.
        agent: AgentId,
        process: ProcessKey,
    },
    /// Processes that were agents are gone.
    ForgetProcesses(Vec<ProcessKey>),
    /// The payload of an event is to be erased.
    Redact {
        caller: Caller,
        seq: Seq,
        reason: String,
    },
    /// Everything before an event is to be erased.
    Prune {
        caller: Caller,
        /// The oldest event to keep.
        before: Seq,
    },
}

/// An agent describes itself.
#[derive(Clone, Debug)]
pub struct RegisterAgent {
    pub caller: Caller,
    /// What it says of itself.
    pub profile: AgentProfile,
}

/// An owner says what its agent does.
#[derive(Clone, Debug)]
pub struct SetStatus {
    pub caller: Caller,
    pub agent: AgentId,
    /// Its base state from now on.
    pub base: BaseState,
    /// What it works on.
    pub current_task: Option<String>,
    /// For people.
    pub message: Option<String>,
    /// For programs.
    pub payload: Option<Json>,
}

/// A device describes itself; absent fields keep what they were or have their default.
#[derive(Clone, Debug)]
pub struct PutDevice {
    pub caller: Caller,
    pub id: DeviceId,
    pub name: Option<String>,
    /// What it runs on.
    pub platform: Option<String>,
    /// What it says it can do.
    pub capabilities: Option<Vec<String>>,
    /// What it says of itself.
    pub status: Option<String>,
    /// Anything else.
    pub metadata: Option<Json>,
}

/// Somebody tells everybody something.
#[derive(Clone, Debug)]
pub struct SendNotification {
    pub caller: Caller,
    /// A kind that is not one of ours.
    pub kind: String,
    /// The agent it is about.
    pub agent: Option<AgentId>,
    /// For people.
    pub message: String,
    /// For programs.
    pub payload: Json,
}

/// An ask, before anything was decided about it.
#[derive(Clone, Debug)]
pub struct AskRequest {
    pub caller: Caller,
    /// The id it gets if it is a new one.
    pub id: ApprovalId,
    /// The agent that asks.
    pub agent: Option<AgentId>,
    /// The agent's turn.
    pub turn: Option<String>,
    /// The agent's id for the tool call.
    pub tool_call: Option<String>,
    /// What it wants to do.
    pub action: String,
    pub tool: Option<String>,
    /// The tool's exact input.
    pub input: Option<Json>,
    /// Anything else.
    pub details: Json,
    /// A screen description.
    pub a2ui: Option<Json>,
    /// What it can be answered with; empty for `approve` and `deny`.
    pub options: Vec<String>,
    /// Which options allow; `None` for `approve`.
    pub approving: Option<Vec<String>>,
    /// Whether any operator answers, not the asking connection.
    pub system_level: bool,
    /// The asker's own key.
    pub idempotency_key: Option<String>,
    /// When it ends as expired.
    pub timeout_ms: Option<u64>,
    /// The folder it would run in, by its asker's word: an absolute path.
    pub cwd: Option<String>,
    /// What the rules say of it; absent for asks without a tool, and where the rules could not be
    /// asked.
    pub judged: Option<AskJudgment>,
    /// What history has under the asker's key, where memory has nothing.
    pub keyed: Option<Approval>,
    /// What a managed agent's ask carries besides.
    pub managed: Option<Box<ManagedAsk>>,
}

impl AskRequest {
    /// An ask that says nothing but what it wants to do.
    pub fn new(caller: Caller, id: ApprovalId, action: impl Into<String>) -> Self {
        Self {
            caller,
            id,
            agent: None,
            turn: None,
            tool_call: None,
            action: action.into(),
            tool: None,
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
        }
    }

    /// The agent that asks: an agent speaks only for itself, others name theirs.
    pub fn asking_agent(&self) -> Option<&AgentId> {
        self.caller.principal.agent().or(self.agent.as_ref())
    }
}

/// What the rules say of an ask, and where they took it to happen.
#[derive(Clone, Debug, PartialEq)]
pub struct AskJudgment {
    /// What they say.
    pub verdict: Arc<Verdict>,
    /// The folder it would run in, if it is known.
    pub cwd: Option<String>,
    /// The project that folder belongs to, by the name grants have for it.
    pub project: Option<String>,
}

/// A decision that is to be remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantDraft {
    /// The rule. Whoever makes an input has seen to it that it can be read.
    pub rule: String,
    /// What it says. In an [`ApprovalAnswer`] the answer itself says it, and this does not count.
    pub effect: Effect,
    /// Where it counts.
    pub scope: GrantScope,
    /// When it ends, from now.
    pub expires_in_ms: Option<u64>,
    /// How many parts it may allow.
    pub uses: Option<u32>,
    /// The ask it came from.
    pub origin: Option<ApprovalId>,
}

/// A rule with a leash is made.
#[derive(Clone, Debug)]
pub struct CreateGrant {
    pub caller: Caller,
    /// The id it gets if it is a new one.
    pub id: GrantId,
    /// What it is to be.
    pub draft: GrantDraft,
}

/// Somebody answers an ask.
#[derive(Clone, Debug)]
pub struct ResolveApproval {
    pub caller: Caller,
    pub approval: ApprovalId,
    /// What they answer.
    pub answer: ApprovalAnswer,
    /// The ids that what is remembered gets: one for each draft.
    pub grant_ids: Vec<GrantId>,
    /// For an orchestrator: what its ceiling says of the ask, and what the rules say of its own doing
    /// the same, at this instant.
    pub delegated: Option<DelegationVerdict>,
}

/// What counts for the answer of an orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelegationVerdict {
    /// What its ceiling alone says of the ask.
    pub by_ceiling: Effect,
    /// What the rules would say if it asked the same itself.
    pub to_itself: Effect,
}

/// What somebody answers an ask with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApprovalAnswer {
    /// One of the options.
    pub resolution: String,
    /// Words for the asker.
    pub message: Option<String>,
    /// The input to run instead.
    pub edited_input: Option<Json>,
    /// The answers to what it asks people, one list for each question. They become an edited input.
    pub answers: Option<Vec<Vec<String>>>,
    /// Whether the asker's turn ends with it: for denials to agents that the host runs.
    pub stop: bool,
    /// How long the ask was in front of who answers, as their screen says.
    pub considered_ms: Option<u64>,
    /// What to remember of it: an approving answer allows, a denying one denies. Only the answer
    /// that ends the ask is remembered, not its repetition.
    pub remember: Vec<GrantDraft>,
}

/// An agent wants words.
#[derive(Clone, Debug)]
pub struct AskQuestion {
    pub caller: Caller,
    /// The id it gets.
    pub id: QuestionId,
    /// The agent that asks.
    pub agent: Option<AgentId>,
    /// What it wants to know.
    pub text: String,
    /// When it ends without words.
    pub timeout_ms: Option<u64>,
    /// The asker's own key.
    pub key: Option<String>,
    /// What history has under the asker's key, where memory has nothing.
    pub keyed: Option<Question>,
}

/// An agent sends a note to its parent, or to people if it has none.
#[derive(Clone, Debug)]
pub struct NotifyParent {
    pub caller: Caller,
    pub text: String,
    /// The asker's own key.
    pub key: Option<String>,
}

/// A token is made.
#[derive(Clone, Debug)]
pub struct CreateToken {
    pub caller: Caller,
    /// Its public name.
    pub id: TokenId,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// What its bearer may do.
    pub role: Role,
    /// Who its bearer is on the record.
    pub name: String,
    /// How long it is valid; `None` for one that never ends.
    pub ttl_ms: Option<u64>,
    /// The name of the browser that logs in. Its token then ends `ttl_ms` after its last use.
    pub device: Option<String>,
}

/// Which connections are open, and which of them read events. Not a fact of the log: after a
/// restart there are none.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPresence {
    connections: HashMap<ClientId, bool>,
}

impl ConnectionPresence {
    /// A connection opened.
    pub fn connected(&mut self, client: ClientId) {
        // Announced twice, a connection must not lose that it reads events.
        self.connections.entry(client).or_insert(false);
    }

    /// A connection reads events from now on.
    pub fn subscribed(&mut self, client: &ClientId) {
        if let Some(subscribed) = self.connections.get_mut(client) {
            *subscribed = true;
        }
    }

    /// A connection ended.
    pub fn disconnected(&mut self, client: &ClientId) {
        self.connections.remove(client);
    }

    /// Whether the connection is open.
    pub fn is_connected(&self, client: &ClientId) -> bool {
        self.connections.contains_key(client)
    }

    /// Whether the connection is open and reads events.
    pub fn is_subscribed(&self, client: &ClientId) -> bool {
        self.connections.get(client).copied().unwrap_or(false)
    }

    /// How many connections are open.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

/// What a decision needs to know besides the state.
#[derive(Clone, Copy, Debug)]
pub struct DecisionContext<'a> {
    /// The instant of the decision.
    pub now: Timestamp,
    /// Who is there.
    pub presence: &'a ConnectionPresence,
    /// Nothing expires before this instant.
    pub expiry_held_until: Timestamp,
    /// The time a lost owner has to come back.
    pub owner_grace_ms: u64,
    /// The time an orchestrator has before people are asked as well.
    pub escalation_ms: u64,
}

impl DecisionContext<'_> {
    /// Whether a deadline has come, and nothing holds expiry back.
    pub(crate) fn has_come(&self, deadline: Option<Timestamp>) -> bool {
        deadline.is_some_and(|at| self.now >= at.max(self.expiry_held_until))
    }
}
