//! Rejections: the domain saying no to a caller. Values to match on, shown kindly.

use crate::approval::Approval;
use crate::event::QuestionOutcome;
use crate::ids::{AgentId, ApprovalId, ClientId, DeviceId, GrantId, QuestionId, Seq, TokenId};
use crate::question::Question;

/// Why an input changed nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// Nobody asked that.
    #[error("unknown approval '{0}'")]
    UnknownApproval(ApprovalId),
    /// No such agent.
    #[error("unknown agent '{0}'")]
    UnknownAgent(AgentId),
    /// No such question.
    #[error("unknown question '{0}'")]
    UnknownQuestion(QuestionId),
    /// No such device.
    #[error("unknown device '{0}'")]
    UnknownDevice(DeviceId),
    /// No such token.
    #[error("unknown token '{0}'")]
    UnknownToken(TokenId),
    /// There is no such terminal any more, or nothing can be read from it.
    #[error("terminal '{terminal}' cannot be read: {why}")]
    UnreadableTerminal { terminal: String, why: String },
    /// There is no such file or folder in an agent's folder.
    #[error("{0}")]
    UnknownFile(String),
    /// A path that names no file that people may read or write.
    #[error("{0}")]
    BadFilePath(String),
    /// The file is outside the agent's folder, or belongs to the host.
    #[error("{0}")]
    FileOutside(String),
    /// The file is not what its writer read.
    #[error("{message}")]
    FileChanged {
        message: String,
        /// Of what is there.
        digest: Option<String>,
    },
    /// A terminal of a person that could not be opened.
    #[error("the terminal was not opened: {0}")]
    TerminalNotOpened(String),
    /// No such grant.
    #[error("unknown grant '{0}'")]
    UnknownGrant(GrantId),
    /// A grant that could never mean what was meant.
    #[error("not a usable rule: {0}")]
    BadGrant(String),
    /// The host does not run it.
    #[error("agent '{0}' registered itself; only agents that the host started can be controlled")]
    NotManaged(AgentId),
    /// The host runs it, and alone says what it is.
    #[error("agent '{0}' is run by the host; only the host registers it and sets its status")]
    RunByHost(AgentId),
    /// Another agent has the name, or has it as its id.
    #[error("another agent is called '{0}'; archive or rename it, or choose another name")]
    NameTaken(String),
    /// A name that could not be typed.
    #[error("'{0}' cannot be a name: use letters, digits, '-', '_' and '.'")]
    BadName(String),
    /// A label that could not be typed.
    #[error("'{0}' cannot be a label: use letters, digits, '-', '_' and '.' in its key and value")]
    BadLabel(String),
    /// A file that cannot go with a message.
    #[error("the file cannot be attached: {0}")]
    BadAttachment(String),
    /// No such kind of agent, and no command.
    #[error(
        "there is no agent called '{0}' in the catalog; `countersign agents` lists them, and --command runs any other"
    )]
    UnknownKind(String),
    /// Neither an agent nor a command.
    #[error("name an agent of the catalog, or give a command")]
    NothingToRun,
    /// MCP servers that no agent could be given.
    #[error("these MCP servers cannot be used: {0}")]
    BadMcpServers(&'static str),
    /// Its process is there.
    #[error("agent '{0}' is running; end it first")]
    StillRuns(AgentId),
    /// It works where it was started.
    #[error("agent '{0}' has no worktree of its own")]
    NoWorktree(AgentId),
    /// Nothing to end.
    #[error("agent '{0}' has no turn running")]
    NoTurn(AgentId),
    /// The agent has it already, or it is not the caller's to take back.
    #[error("message {number} to agent '{agent}' cannot be withdrawn: {why}")]
    CannotWithdraw {
        agent: AgentId,
        number: u64,
        why: &'static str,
    },
    /// It has no session to go on with.
    #[error("agent '{0}' cannot be resumed: it has no session to resume")]
    CannotResume(AgentId),
    /// It is ending; it can be started again when it has ended.
    #[error("agent '{0}' is ending")]
    AgentEnding(AgentId),
    /// Starting it would fail, which shows before anything is started.
    #[error("{0}")]
    CannotStart(String),
    /// No other agent can begin from its session.
    #[error("agent '{agent}' cannot be forked: {why}")]
    CannotFork { agent: AgentId, why: &'static str },
    /// The agent has ended.
    #[error("agent '{0}' has ended")]
    AgentEnded(AgentId),
    /// A bypass without an end that is near enough.
    #[error("a bypass lasts at most {}h", limit_ms / 3_600_000)]
    BypassTooLong {
        /// The bound.
        limit_ms: u64,
    },
    /// A token that would end at once, or too late.
    #[error("a token is valid for at most {} days", limit_ms / 86_400_000)]
    TokenLifetime {
        /// The bound.
        limit_ms: u64,
    },
    /// A path that depends on where one stands.
    #[error("{0} must be an absolute path")]
    NotAbsolute(&'static str),
    /// No such event.
    #[error("unknown event {0}")]
    UnknownEvent(Seq),
    /// Somebody else answered first.
    #[error("approval '{}' was already resolved as '{}' by {}", .0.ask.id, resolution_of(.0), resolver_of(.0))]
    AlreadyResolved(Box<Approval>),
    /// Somebody else answered first, so that no rule was made of this answer.
    #[error("approval '{}' was already resolved as '{}' by {}; no rule was saved", .0.ask.id, resolution_of(.0), resolver_of(.0))]
    NotRemembered(Box<Approval>),
    /// Somebody else answered the question first.
    #[error("question '{}' {}", .0.text.id, end_of(.0))]
    AlreadyAnswered(Box<Question>),
    /// The owner decides, and is not there.
    #[error("approval '{approval}' is owned by session '{owner}' which is not currently connected")]
    OwnerNotConnected {
        approval: ApprovalId,
        /// The connection that owns it.
        owner: ClientId,
    },
    /// The answer is not among the options.
    #[error("'{resolution}' is not an option of approval '{approval}': choose one of {}", options.join(", "))]
    NotAnOption {
        approval: ApprovalId,
        /// What was answered.
        resolution: String,
        /// What could be.
        options: Vec<String>,
    },
    /// An option named as approving is not offered, or says no by its very name.
    #[error("'{0}' cannot count as an approval: name an option of the ask that does not deny")]
    ApprovingNotOffered(String),
    /// There is nothing to edit, or the answer does not allow.
    #[error(
        "only an answer that allows can edit the input, and only if the ask has an input that can be edited"
    )]
    NothingToEdit,
    /// It asks something, and an allow alone answers nothing.
    #[error("approval '{0}' asks a question: answer it, or deny it")]
    NeedsAnswers(ApprovalId),
    /// The answers are not what was asked for.
    #[error("the answers do not fit approval '{approval}': {why}")]
    BadAnswers { approval: ApprovalId, why: String },
    /// There is no turn that would end, or the answer does not deny.
    #[error("only a denial can end a turn, and only the turn of an agent that the host runs")]
    NothingToStop,
    /// It is still open.
    #[error("approval '{0}' is still pending")]
    ApprovalPending(ApprovalId),
    /// Only its asker may do that.
    #[error("approval '{0}' is not yours")]
    NotYourApproval(ApprovalId),
    /// Another connection owns the id.
    #[error("agent '{0}' is owned by another session; unregister it from that session first")]
    AgentTaken(AgentId),
    /// Another connection owns the agent.
    #[error("agent '{0}' is owned by another session")]
    AgentOwnedElsewhere(AgentId),
    /// Another connection owns the id.
    #[error("device '{0}' is owned by another session; reconnect that device or remove it first")]
    DeviceTaken(DeviceId),
    /// Another connection owns the device.
    #[error("device '{0}' is owned by another session")]
    DeviceOwnedElsewhere(DeviceId),
    /// Only agents have a parent.
    #[error("only an agent can notify its parent")]
    OnlyAgents,
    /// An orchestrator reaches its descendants.
    #[error(
        "agent '{0}' is not your descendant: an orchestrator reaches only agents that it started"
    )]
    NotADescendant(AgentId),
    /// Only orchestrators have agents of their own.
    #[error("agent '{0}' is not an orchestrator; start one with `spawn --role orchestrator`")]
    NotAnOrchestrator(AgentId),
    /// Nobody gave it a ceiling.
    #[error("orchestrator '{0}' may answer no asks: a person must give it a ceiling first")]
    NoCeiling(AgentId),
    /// More than a person let it settle.
    #[error(
        "orchestrator '{0}' may not allow this: its ceiling does not cover it, so a person decides"
    )]
    AboveCeiling(AgentId),
    /// Nobody allowed the child.
    #[error("orchestrator '{0}' has no permission to start this agent")]
    SpawnNotAllowed(AgentId),
    /// Nobody agreed that an editor runs the commands.
    #[error(
        "an editor runs commands outside any sandbox, so a person has to agree first: `allowed_by` must name an ask \
         for the tool `EditorTerminals` in the same folder that a person allowed and that started no agent yet"
    )]
    EditorTerminalsNotAllowed,
    /// A child would have more than its parent.
    #[error("a child never gets {0} that its orchestrator does not have")]
    Wider(&'static str),
    /// A child would be let through everything.
    #[error("agent '{0}' was started by an orchestrator, and such agents never get a bypass")]
    NoBypassForChildren(AgentId),
    /// It has to be said what becomes of its children.
    #[error("agent '{agent}' started agents that still run: {}; say whether to end or to keep them", children.join(", "))]
    HasChildren {
        agent: AgentId,
        /// The names of those below it that run.
        children: Vec<String>,
    },
    /// Agents ask; they never answer.
    #[error("agents cannot answer: '{0}' is an agent, and only a person decides")]
    AgentsCannotAnswer(AgentId),
    /// An agent's word does not reach that far.
    #[error("agent '{0}' may ask, notify and report, and nothing else")]
    AgentNotAllowed(AgentId),
    /// Observers change nothing.
    #[error("an observer may read everything and change nothing")]
    ObserverCannotChange,
    /// The same key, another request.
    #[error("idempotency key '{0}' was used for another request")]
    IdempotencyConflict(String),
    /// Too much is open already.
    #[error("too many {what}: the limit is {limit}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// A text, list or document is over its limit.
    #[error("{what} is too large: the limit is {limit}")]
    TooLarge {
        what: &'static str,
        /// The bound, in bytes or items.
        limit: usize,
    },
    /// A document nests deeper than readers could follow.
    #[error("{what} is nested too deeply: the limit is {limit} levels")]
    TooDeep {
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// That kind of event is the host's own.
    #[error("kind '{0}' is the host's own and cannot be sent by others")]
    ReservedKind(String),
    /// Something open still needs it.
    #[error("event {0} is still needed by something that is open")]
    StillNeeded(Seq),
}

fn resolution_of(approval: &Approval) -> &str {
    approval
        .ended
        .as_ref()
        .map_or("pending", |ended| &ended.ending.resolution)
}

/// How a question ended, and who answered if anybody did.
fn end_of(question: &Question) -> String {
    let ending = question.ended.as_ref().map(|ended| &ended.ending);
    let answered = ending.filter(|ending| ending.outcome == QuestionOutcome::Answered);
    match answered {
        Some(ending) => format!("was already answered by {}", ending.by.name),
        None => "has already ended".to_owned(),
    }
}

fn resolver_of(approval: &Approval) -> &str {
    approval
        .ended
        .as_ref()
        .map_or("nobody", |ended| &ended.ending.by.name)
}
