//! Calls to the host, which are made elsewhere, and their replies.

use countersign_protocol::{Method, Reason};

use crate::agent_files::AgentFile;

/// Which connection a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLane {
    /// Decisions and messages, which never wait behind a long list.
    Decide,
    Read,
    /// What is waited for: a newer call takes the place of the one before.
    Watch,
    /// What is typed into a terminal, in order.
    Type,
}

/// What a reply is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyTag {
    Resolved {
        id: String,
    },
    ResolvedMany,
    Answered {
        id: String,
    },
    Suggested {
        id: String,
        option: String,
    },
    Backtested {
        id: String,
        rule: String,
    },
    Approval,
    AgentRow,
    AgentRows,
    Status,
    TranscriptEnd {
        agent: String,
    },
    TranscriptNext {
        agent: String,
    },
    TranscriptBefore {
        agent: String,
    },
    /// The part that somebody goes to, with those before it.
    TranscriptAround {
        agent: String,
    },
    /// What follows a part that somebody went to.
    TranscriptAfter {
        agent: String,
    },
    /// Something was done with an agent; `done` says it in words.
    AgentChanged {
        done: String,
    },
    Spawned,
    Catalog,
    StoppedAll,
    Diff {
        agent: String,
    },
    Terminals {
        agent: String,
    },
    TerminalOutput {
        agent: String,
        terminal: String,
        /// How much had been read.
        after: u64,
    },
    OwnTerminals,
    OwnTerminalOutput {
        terminal: String,
        /// How much had been read.
        after: u64,
    },
    TerminalOpened,
    TerminalTyped,
    /// One was closed, or has another size.
    TerminalChanged,
    FeedPage,
    SearchPage {
        text: String,
        before: Option<u64>,
    },
    Rules,
    RulesChecked {
        command: String,
    },
    RuleTested {
        rule: String,
    },
    RuleAdded,
    RuleRemoved,
    File(FileReply),
}

/// What a reply about files is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileReply {
    Folder {
        agent: String,
        path: String,
    },
    /// All files of an agent, for the palette.
    Found {
        agent: String,
    },
    View {
        file: AgentFile,
        offset: u64,
    },
    Tail {
        file: AgentFile,
        /// How much had been read.
        after: Option<u64>,
    },
    Edit {
        file: AgentFile,
    },
    /// Whether the edited file was changed outside.
    Check {
        file: AgentFile,
    },
    Saved {
        file: AgentFile,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCall {
    pub lane: CallLane,
    pub method: &'static str,
    /// The parameters as JSON.
    pub params: String,
    pub tag: ReplyTag,
}

impl HostCall {
    pub fn new<M: Method>(lane: CallLane, params: &M::Params, tag: ReplyTag) -> Self {
        Self {
            lane,
            method: M::NAME,
            // Types of the wire always have a text. Without one the host would refuse the call.
            params: serde_json::to_string(params).unwrap_or_default(),
            tag,
        }
    }
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    /// As the host said it; not escaped.
    pub message: String,
    pub reason: Option<Reason>,
    /// Whether the connection was lost, so that nobody knows what came of it.
    pub is_lost: bool,
}

/// A reply: the result as JSON.
pub type CallResult = Result<String, CallFailure>;

/// Reads the result of a method.
pub fn parse_result<M: Method>(result: CallResult) -> Result<M::Result, CallFailure> {
    let text = result?;
    serde_json::from_str(&text).map_err(|error| CallFailure {
        message: format!("the answer to `{}` was not understood: {error}", M::NAME),
        reason: None,
        is_lost: false,
    })
}
