//! One session of the editor: an agent that it follows.

use std::collections::BTreeMap;

use countersign_core::event::{TokenUsage, TranscriptEntry};

use super::ask::{AskOutcome, EditorAsk, EditorQuestion};
use super::host_call::HostCallError;
use super::permission::OpenAsk;
use super::prompt::EditorPrompt;
use super::question::OpenQuestion;
use super::tool_calls::ToolCalls;
use crate::adapter::RequestId;
use crate::shells::EditorCall;

/// What happened to an agent that is followed.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionFact {
    /// What it said and did before, oldest first; only before the snapshot.
    Replayed(Vec<TranscriptEntry>),
    /// How it is now. Everything after this comes as events.
    Attached(Box<SessionSnapshot>),
    Event(SessionEvent),
    /// It cannot be followed.
    Failed(HostCallError),
}

/// How an agent is when it is first followed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSnapshot {
    pub phase: AgentPhase,
    pub title: Option<String>,
    pub choices: SessionChoices,
    pub asks: Vec<EditorAsk>,
    pub questions: Vec<EditorQuestion>,
}

/// Whether an agent has a process that takes prompts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AgentPhase {
    Starting,
    #[default]
    Ready,
    Ended {
        message: String,
    },
}

/// What can be chosen in a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChoices {
    pub mode: Option<String>,
    pub modes: Vec<SessionOption>,
    pub model: Option<String>,
    pub models: Vec<SessionOption>,
    pub commands: Vec<SessionCommand>,
}

/// One mode or model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOption {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
}

/// A command that a person can type as a prompt, after a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionCommand {
    pub name: String,
    pub description: String,
    /// What may follow it.
    pub hint: Option<String>,
}

/// One fact about an agent, in the order of the record.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEvent {
    /// It takes prompts from now on.
    Ready,
    Exited {
        message: String,
    },
    Transcript {
        turn: u32,
        entries: Vec<TranscriptEntry>,
    },
    TurnEnded {
        turn: u32,
        reason: String,
        message: Option<String>,
    },
    /// A message to the agent was taken back before its turn.
    MessageWithdrawn {
        text: String,
        by: String,
    },
    /// Messages that waited for it never reach it.
    MessagesDropped {
        reason: String,
    },
    Reported {
        mode: Option<String>,
        model: Option<String>,
        usage: Option<TokenUsage>,
        title: Option<String>,
    },
    ChoicesChanged(Box<SessionChoices>),
    AskOpened(Box<EditorAsk>),
    AskEnded(Box<AskOutcome>),
    /// A command of the agent runs in a terminal.
    TerminalOpened {
        id: String,
        command: String,
    },
    TerminalEnded {
        id: String,
        succeeded: bool,
    },
    /// The host wants something of the editor.
    Called {
        id: u64,
        call: EditorCall,
    },
    QuestionOpened(EditorQuestion),
    QuestionEnded {
        id: String,
        /// Who answered, or why nobody did.
        note: String,
    },
}

/// Which request opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionOpenKind {
    New,
    Load,
    Resume,
}

/// A session that the editor does not have yet.
#[derive(Debug)]
pub(super) struct SessionOpening {
    pub(super) request: RequestId,
    pub(super) kind: SessionOpenKind,
    /// What it is opened with, once that is known.
    pub(super) snapshot: Option<Box<SessionSnapshot>>,
    /// What came since, for afterwards.
    pub(super) held: Vec<SessionEvent>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EditorSession {
    pub(super) opening: Option<SessionOpening>,
    pub(super) prompts: Vec<EditorPrompt>,
    pub(super) calls: ToolCalls,
    /// Asks that the editor was shown, by their ids.
    pub(super) asks: BTreeMap<String, OpenAsk>,
    /// Questions that the editor was shown as forms, by their ids.
    pub(super) questions: BTreeMap<String, OpenQuestion>,
    pub(super) choices: SessionChoices,
}
