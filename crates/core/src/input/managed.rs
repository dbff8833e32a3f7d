//! What arrives about managed agents: from people through the doors, and from those who run them.

use crate::event::AgentReported;
use crate::event::{
    AgentSandbox, ProcessKey, PromptAttachment, RunEnd, SpawnOptions, ToolStatus, TranscriptEntry,
    TurnEnded, Worktree,
};
use crate::ids::AgentId;
use crate::json::Json;
use crate::principal::Caller;

/// Something about managed agents.
#[derive(Clone, Debug)]
pub enum ManagedInput {
    /// See [`SpawnAgent`].
    Spawn(Box<SpawnAgent>),
    /// A message for an agent; one without a process is started again for it.
    Prompt {
        caller: Caller,
        agent: AgentId,
        text: String,
        attachments: Vec<PromptAttachment>,
    },
    /// A message that waits for the agent is taken back.
    WithdrawMessage {
        caller: Caller,
        agent: AgentId,
        /// Which, as `PromptMessage::number` has it.
        number: u64,
    },
    /// The running turn is to end.
    Interrupt {
        caller: Caller,
        agent: AgentId,
        reason: Option<String>,
    },
    /// The agent is to end.
    Kill {
        caller: Caller,
        agent: AgentId,
        /// What becomes of the agents below it; has to be said if there are any.
        children: Option<ChildrenPolicy>,
    },
    /// The agent is to go on with its session.
    Resume { caller: Caller, agent: AgentId },
    /// The agent is put away, or taken out again.
    Archive {
        caller: Caller,
        agent: AgentId,
        /// Whether it is away from now on.
        archived: bool,
    },
    /// The agent gets another name.
    Rename {
        caller: Caller,
        agent: AgentId,
        name: String,
    },
    /// The agent is to use another mode or model from now on.
    Configure {
        caller: Caller,
        agent: AgentId,
        mode: Option<String>,
        model: Option<String>,
    },
    /// Those who run an agent say what became of it.
    RunReported(AgentId, u32, RunEvent),
    /// Its worktree was removed.
    WorktreeRemoved(AgentId),
}

/// What becomes of the agents below one that is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildrenPolicy {
    /// They end as well.
    End,
    /// They go on; what they ask is for people.
    Keep,
}

/// What those who run an agent say. All of it is about one run; what is about an earlier one no
/// longer counts.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// It gets a worktree.
    WorktreeCreated(Worktree),
    /// It is about to be started in this tree, or has been.
    Launched {
        /// Its process, once there is one.
        process: Option<ProcessKey>,
        /// What holds its processes together.
        runner: Json,
        /// The sandbox it is started in.
        sandbox: Option<AgentSandbox>,
    },
    /// Its session is open.
    Ready {
        /// The agent's own id of the session.
        session: String,
        /// Whether the session can be gone on with later.
        resumable: bool,
    },
    /// What it says about itself.
    Reported(Box<AgentReported>),
    /// What it said and did since the last time.
    EntriesAdded(Vec<TranscriptEntry>),
    /// Its turn is over.
    TurnEnded {
        /// Everything it said before that.
        entries: Vec<TranscriptEntry>,
        /// How the turn ended.
        end: Box<TurnEnded>,
        /// Tool calls that were never said to have ended.
        left_open: Vec<(String, ToolStatus)>,
    },
    /// It takes a request back.
    RequestWithdrawn { request: String },
    /// Its process is gone, and everything that came of it.
    Exited {
        /// Everything it said before that.
        entries: Vec<TranscriptEntry>,
        /// What the end means.
        end: RunEnd,
        message: String,
    },
}

/// An agent is wanted.
#[derive(Clone, Debug)]
pub struct SpawnAgent {
    pub caller: Caller,
    /// The id it gets.
    pub id: AgentId,
    /// Its name; one is made of its kind if absent.
    pub name: Option<String>,
    /// What kind of agent it is.
    pub kind: String,
    /// What it is started with.
    pub options: SpawnOptions,
    /// What it is to do first.
    pub prompt: Option<String>,
    /// Files that go with the prompt.
    pub attachments: Vec<PromptAttachment>,
}

/// What an ask of a managed agent carries besides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedAsk {
    /// The run it was asked in.
    pub run: u32,
    /// The agent's own id of the request to answer.
    pub request: String,
    /// Whether the answer's words travel with the answer.
    pub takes_denial_message: bool,
    /// Whether another input can be given with an allow.
    pub can_edit: bool,
    /// Digests of what may run or be written without another ask if this one is allowed, each once.
    pub passes: Vec<String>,
    /// Digests that the request itself has: if one was allowed before, it is not asked again.
    pub covered_by: Vec<String>,
}
