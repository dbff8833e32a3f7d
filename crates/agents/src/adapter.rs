//! The adapter interface: the commands of the host and the events of the agent, whatever protocol the
//! agent speaks.
//!
//! An [`Adapter`] is a state machine without I/O: lines in, [`AgentEvent`]s and lines out. Everything
//! that is outstanding on a connection is in [`Adapter::state`], so that another process can continue
//! the same connection.
//!
//! Invariants: an adapter writes nothing by itself; dropping one sends nothing to the agent; each
//! request of the agent is answered at most once, and every write has a [`WriteId`] of its own.

use std::path::PathBuf;

use crate::runner::HeldTarget;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_core::Json;
use countersign_core::event::{AgentOffers, AgentPlan, TokenUsage, ToolStatus, TranscriptEntry};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::truncate::to_bounded_json;

mod agent_write;

pub use agent_write::{AgentWrite, WriteId, WriteKind};

/// The agent's own id for one of its requests, as JSON text: `7` and `"7"` are two ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub String);

/// A state machine for one agent's protocol.
pub trait Adapter: Send {
    /// Takes one line that the agent wrote, without its end, and its number: how many bytes the
    /// agent had written when the line ended. Never fails: what is not understood is
    /// [`AgentEvent::Noise`] or kept as it is.
    fn handle_line(&mut self, line: &[u8], number: u64) -> AdapterOutput;

    /// Gives the lines that carry out a command. They depend on the command and on the lines handled so
    /// far, and not on which other commands were given first.
    ///
    /// [`AgentCommand::Start`], [`AgentCommand::Prompt`] of the turn that runs, and [`AgentCommand::Interrupt`] can be
    /// given again: they give the same lines under the same names, and change nothing.
    fn apply_command(&mut self, order: AgentCommand) -> Result<Vec<AgentWrite>, CommandError>;

    /// Everything that is outstanding, for a process that continues this connection.
    fn state(&self) -> Json;

    /// The numbers of the lines whose requests still wait for an answer, rising.
    fn open_requests(&self) -> Vec<u64>;
}

/// The state that was handed over is not one of the adapter's.
#[derive(Debug, thiserror::Error)]
#[error("could not continue the connection")]
pub struct RestoreError(#[from] serde_json::Error);

/// What one line of the agent came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterOutput {
    /// What happened, in order.
    pub events: Vec<AgentEvent>,
    /// What is to be written because of it: the next step of the handshake, or the refusal of a
    /// request nobody serves.
    pub writes: Vec<AgentWrite>,
}

impl AdapterOutput {
    pub(crate) fn record_entry(&mut self, entry: TranscriptEntry) {
        self.events.push(AgentEvent::Transcript(entry));
    }

    pub(crate) fn record_notice(&mut self, text: String) {
        self.record_entry(TranscriptEntry::Notice { text });
    }

    /// Records what is not understood as it came, unless it is more than the record takes.
    pub(crate) fn record_unknown(&mut self, update: &RawValue) {
        if let Some(update) = to_bounded_json(update) {
            self.record_entry(TranscriptEntry::Other { update });
        } else {
            let bytes = update.get().len();
            self.record_notice(format!("an update of {bytes} bytes was left out"));
        }
    }

    pub(crate) fn report(&mut self, report: AgentReport) {
        self.events.push(AgentEvent::Reported(report));
    }

    pub(crate) fn withdraw(&mut self, request: RequestId) {
        self.events.push(AgentEvent::Withdrawn { request });
    }
}

/// Whether a field of an adapter's state need not be stored.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An amount of US dollars in millionths of one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the amount was checked to be a positive number that fits"
)]
pub(crate) fn to_micro_usd(amount: f64) -> Option<u64> {
    // An agent may send anything that is a number; the range holds neither negative ones nor `NaN`.
    let micro = (amount * 1e6).round();
    (0.0..1e18).contains(&micro).then_some(micro as u64)
}

/// Why a command could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// A turn runs, or the session is not open yet.
    #[error("the agent is not ready for that")]
    NotReady,
    /// The request was answered or withdrawn before.
    #[error("the agent no longer waits for that answer")]
    NotWaiting,
    /// The protocol or this agent has no such thing.
    #[error("the agent cannot do that: {0}")]
    Unsupported(String),
}

/// What the host wants of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentCommand {
    /// Shake hands and open a session. The first of all commands.
    Start(SessionSpec),
    Prompt {
        /// Our number for the turn.
        turn: u32,
        /// What to do, one block of text for each message.
        messages: Vec<String>,
        /// Files that go with it, each in the form that the agent takes.
        attachments: Vec<AttachedFile>,
    },
    /// Answer an ask for permission.
    Answer {
        /// The request it was asked with.
        request: RequestId,
        answer: PermissionAnswer,
    },
    /// Answer a client request.
    Serve {
        request: RequestId,
        served: Result<ClientResponse, ClientRequestError>,
    },
    /// End the running turn. Open asks of it end as withdrawn.
    Interrupt,
    SetMode {
        /// Our number for the change.
        revision: u32,
        /// The mode, by the agent's own name for it.
        mode: String,
    },
    SetModel {
        /// Our number for the change.
        revision: u32,
        /// The model, by the agent's own name for it.
        model: String,
    },
}

/// A file that goes with a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedFile {
    /// Where it is, absolute.
    pub path: PathBuf,
    pub mime_type: String,
    /// What it holds; absent if that is no longer what was attached. Then only its place is named.
    pub content: Option<Vec<u8>>,
}

impl AttachedFile {
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// The content of an image, in base64.
    pub(crate) fn image(&self) -> Option<String> {
        let is_image = self.mime_type.starts_with("image/");
        self.content
            .as_ref()
            .filter(|_| is_image)
            .map(|bytes| BASE64_STANDARD.encode(bytes))
    }

    /// The content of a text.
    pub(crate) fn text(&self) -> Option<&str> {
        let bytes = self.content.as_deref()?;
        std::str::from_utf8(bytes).ok()
    }
}

/// How a session is opened.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSpec {
    /// The folder it works in, absolute.
    pub cwd: PathBuf,
    /// The agent's own id of the session to resume; absent for a new one.
    pub session: Option<String>,
    /// Whether that session stays as it is, and a new one continues from its end.
    pub fork: bool,
    /// The id that a new session gets, where the agent lets it be chosen: a UUID.
    pub new_session: Option<String>,
    /// The mode to be in, by the agent's own name for it.
    pub mode: Option<String>,
    /// The model to use, by the agent's own name for it.
    pub model: Option<String>,
    /// Words that go before everything else, where the agent has a place for them.
    pub system_prompt: Option<String>,
    /// Tools the agent may use, and no others, where it can be told so.
    pub allowed_tools: Vec<String>,
    /// Tools the agent may not use, where it can be told so.
    pub disallowed_tools: Vec<String>,
    /// The host's own servers.
    pub mcp_servers: Vec<McpServer>,
    /// Servers that a person gave, by name, as Claude Code's configuration has them.
    pub given_servers: Option<Json>,
}

/// An MCP server that an agent starts itself and speaks to over its standard input and output. It
/// is known by whom it descends from, so nothing secret is handed over with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// What its tools are known under.
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
}

/// What an ask for permission is answered with.
#[derive(Clone, Debug, PartialEq)]
pub enum PermissionAnswer {
    /// This once. Never the agent's own "always".
    Allow {
        /// What runs instead of what was asked, where that can be said.
        input: Option<Json>,
    },
    /// Not this time, with a message if the protocol carries one.
    Deny {
        /// Why, or what to do instead.
        message: Option<String>,
        /// Whether the turn ends with it, where that can be said with a denial.
        stop: bool,
    },
    /// The ask went away; that is not a denial.
    Cancelled,
}

/// What an agent did, said or wants.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    Ready(SessionReady),
    /// No session could be opened, so the agent cannot be used.
    StartFailed {
        /// Why, for a person. Says what to do where that is known, such as to log in.
        message: String,
    },
    /// Something for the transcript.
    Transcript(TranscriptEntry),
    /// The agent reports about itself.
    Reported(AgentReport),
    /// The agent asks for permission, or says more of a tool call it asked about and that was not
    /// answered yet: what was asked with this request before no longer counts.
    Asked(Box<PermissionAsk>),
    /// The agent takes a request back, or its turn did.
    Withdrawn {
        /// The request: an ask, or a client request that is being served.
        request: RequestId,
    },
    /// The agent wants the host to do something for it.
    ClientRequested {
        request: RequestId,
        /// The number of the request's line.
        line: u64,
        client_request: ClientRequest,
    },
    /// A turn is over, for whatever reason.
    TurnEnded {
        turn: u32,
        end: TurnEnd,
    },
    /// The agent wrote something that is not of its protocol.
    Noise(String),
}

/// What is known when a session is open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionReady {
    /// The agent's own id of the session.
    pub session: String,
    /// Whether this session can be resumed later.
    pub resumable: bool,
    pub mode: Option<String>,
    /// What was asked for and could not be done (a mode or model it does not have, say), for people.
    pub warnings: Vec<String>,
}

/// What an agent says about itself while it works. Absent fields say nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentReport {
    /// The mode it is in from now on.
    pub mode: Option<String>,
    /// The model it uses from now on.
    pub model: Option<String>,
    pub plan: Option<AgentPlan>,
    /// What it used so far in this session.
    pub usage: Option<TokenUsage>,
    pub title: Option<String>,
    /// What can be chosen or typed from now on.
    pub offers: AgentOffers,
}

/// An ask for permission, joined with what is known of the tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionAsk {
    pub request: RequestId,
    /// The number of the request's line, also if it is asked again because of a later one.
    pub line: u64,
    /// The agent's id of the tool call.
    pub tool_call: String,
    /// What it wants to do, as the agent describes it.
    pub title: String,
    /// The tool, by the name rules have for it (`Bash`, `Edit`, `Read`, `WebFetch`, …), or the
    /// agent's own name, or nothing if even the kind is not known.
    pub tool: Option<String>,
    /// The tool's input in the form rules read (`command`, `file_path`, `url`, …), if it is known.
    pub input: Option<Json>,
    /// What the agent sent, for people: the raw input, diffs, locations.
    pub details: Json,
    /// What may run or be written without another ask if this one is allowed, each once.
    pub binds: Vec<BoundAction>,
    /// Whether there is a way to say yes this once. Without one, allowing is refused.
    pub can_allow: bool,
    /// Whether another input can be given with a yes.
    pub can_edit: bool,
    /// Whether the agent is given the message of a denial.
    pub takes_denial_message: bool,
}

/// A request that an allowed ask stands for, exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAction {
    Run(RunRequest),
    /// A file's whole content.
    Write {
        path: PathBuf,
        content: String,
        /// What it takes the place of, if only that was shown: the file must still hold it.
        old: Option<String>,
    },
}

/// A command as it is to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The text a shell runs.
    pub command: String,
    /// The folder; the session's if absent.
    pub cwd: Option<PathBuf>,
    /// Variables it adds to the environment.
    pub env: Vec<(String, String)>,
}

/// What an agent wants the host to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "want", rename_all = "snake_case")]
pub enum ClientRequest {
    Read {
        /// The file, as the agent named it.
        path: PathBuf,
        /// The first line, counted from 1.
        line: Option<u32>,
        limit: Option<u32>,
    },
    Write {
        /// The file, as the agent named it.
        path: PathBuf,
        content: String,
    },
    /// Run a command in a terminal.
    CreateTerminal {
        run: RunRequest,
        /// How much of its output is kept.
        output_bytes_max: Option<u64>,
    },
    /// Everything a terminal's command wrote.
    Output { terminal: String },
    /// The end of a terminal's command.
    WaitForExit { terminal: String },
    /// The end of a terminal's command, now.
    Kill { terminal: String },
    /// A terminal is no longer needed.
    Release { terminal: String },
    /// Let through what the sandbox holds at the runner.
    ReleaseHold { hold: u64, target: HeldTarget },
}

/// What the host did for an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientResponse {
    Text(String),
    Terminal(String),
    /// What a terminal's command wrote.
    Output {
        text: String,
        /// Whether its beginning is missing.
        truncated: bool,
        exit: Option<ProcessExit>,
    },
    /// How a terminal's command ended.
    Exited(ProcessExit),
    Done,
}

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessExit {
    /// Its code, if it ended by itself; -1 for one that is out of range.
    #[serde(default, deserialize_with = "exit_code")]
    pub code: Option<i32>,
    /// The signal's name (`SIGKILL`), if one ended it.
    pub signal: Option<String>,
}

fn exit_code<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<i32>, D::Error> {
    let code = Option::<i64>::deserialize(source)?;
    Ok(code.map(|code| i32::try_from(code).unwrap_or(-1)))
}

/// Why a client request was not served, as the agent is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientRequestError {
    /// There is no such file or terminal.
    #[error("not found: {0}")]
    NotFound(String),
    /// A rule or a person said no.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// The request went away.
    #[error("cancelled: {0}")]
    Cancelled(String),
    /// It was tried and failed.
    #[error("failed: {0}")]
    Failed(String),
}

/// How a turn ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnEnd {
    /// Why it stopped: the protocol's own word (`end_turn`, `cancelled`, `refusal`, …), or `error`.
    pub reason: String,
    /// What went wrong, for `error`.
    pub message: Option<String>,
    /// What the turn used, if the agent said so.
    pub usage: Option<TokenUsage>,
    /// Tool calls that were never said to have ended; they are closed with the turn.
    pub left_open: Vec<(String, ToolStatus)>,
}
