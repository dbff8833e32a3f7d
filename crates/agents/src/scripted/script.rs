//! Scripts: what a scripted agent does, as JSON.
//!
//! `["silence", {"say": "hello"}, {"ask": {"input": {"command": "ls"}, "on_allow": [{"run": "ls"}]}}]`

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// What the agent is like, and what it does in each turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a quirk of its own that a script switches on"
)]
pub struct AgentScript {
    /// What it does when it is prompted, unless the prompt carries a script of its own.
    pub steps: Option<Vec<ScriptStep>>,
    /// The version of the protocol it claims.
    pub protocol: u16,
    /// Whether its requests have words as ids.
    pub string_ids: bool,
    /// Whether it keeps running when its input ends.
    pub ignore_eof: bool,
    /// Whether it continues its turn when it is cancelled.
    pub ignore_cancel: bool,
    /// Whether it wants somebody to log in.
    pub wants_login: bool,
    /// Whether it says something of a session before it says that there is one.
    pub update_before_session: bool,
    /// Whether it answers something before it was asked.
    pub response_before_request: bool,
    /// Whether it says only what a person wants to hear of what it got from the host.
    pub quiet: bool,
    /// Whether it offers `session/load`.
    pub can_load: bool,
    /// Whether it offers `session/resume`.
    pub can_resume: bool,
    /// Its modes; it begins in the first.
    pub modes: Vec<String>,
    /// The folder in which it keeps its sessions.
    #[serde(skip)]
    pub state: Option<PathBuf>,
}

impl Default for AgentScript {
    fn default() -> Self {
        Self {
            steps: None,
            protocol: 1,
            string_ids: false,
            ignore_eof: false,
            ignore_cancel: false,
            wants_login: false,
            update_before_session: false,
            response_before_request: false,
            quiet: false,
            can_load: true,
            can_resume: false,
            modes: Vec::new(),
            state: None,
        }
    }
}

impl AgentScript {
    /// Reads a whole script, or a list of steps alone.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        if text.trim_start().starts_with('[') {
            let steps = Some(serde_json::from_str(text)?);
            Ok(Self {
                steps,
                ..Self::default()
            })
        } else {
            serde_json::from_str(text)
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptStep {
    Say(String),
    Think(String),
    /// Tells its plan: each step with its status.
    Plan(Vec<(String, String)>),
    /// Tells what it used: tokens in its context, their limit, and the cost in US dollars.
    Usage {
        used: u64,
        /// Room for tokens.
        size: u64,
        #[serde(default)]
        cost: Option<f64>,
    },
    Mode(String),
    /// Sends any `session/update`.
    Update(Value),
    /// Uses a tool without asking.
    Tool(ScriptedTool),
    /// Asks for permission, and waits.
    Ask(Box<ScriptedAsk>),
    /// Asks for several permissions at once, and waits for all of them.
    Parallel(Vec<ScriptedAsk>),
    /// Asks many times, and keeps a ledger of what came of it.
    AskMany(AskMany),
    /// Runs a command in a terminal of the host, and says what came of it.
    Terminal(ScriptedTerminal),
    /// Writes a file through the host, and says what came of it.
    Write {
        path: String,
        content: String,
    },
    /// Reads a file through the host, and says what came of it.
    Read {
        path: String,
    },
    /// Runs a command by itself, with `sh -c` in the session's folder, and says what it wrote.
    Run(String),
    /// Waits; a cancelled turn ends the wait.
    SleepMs(u64),
    /// Streams text as fast as the pipe goes.
    Updates {
        count: u64,
        bytes: usize,
    },
    /// Sends a request or notification of any method; a request's answer is said.
    Call {
        method: String,
        #[serde(default)]
        params: Value,
        /// Whether nobody is to answer.
        #[serde(default)]
        notification: bool,
    },
    /// Writes anything; `{session}` in it is the session's id.
    Raw(String),
    RawBytes(Vec<u8>),
    /// Writes one line with a text of so many bytes.
    HugeLine(usize),
    /// Writes half a line and exits.
    HalfFrame,
    Exit(u8),
    Abort,
    /// Never answers the prompt.
    Silence,
    /// Answers the prompt with an error.
    Error {
        code: i64,
        message: String,
    },
    /// Answers the prompt with this stop reason.
    Stop(String),
    /// Answers the prompt with this stop reason, and continues all the same.
    StopEarly(String),
}

/// A tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedTool {
    pub call: String,
    /// What it says it does.
    pub title: String,
    pub kind: String,
    /// The tool's name, if it is told.
    pub name: Option<String>,
    pub input: Value,
    pub locations: Vec<String>,
    /// The status it ends with; it never ends without one.
    pub ends: Option<String>,
    /// What it gives.
    pub output: String,
}

impl Default for ScriptedTool {
    fn default() -> Self {
        Self {
            call: "call_1".into(),
            title: "A tool".into(),
            kind: "execute".into(),
            name: None,
            input: Value::Null,
            locations: Vec::new(),
            ends: None,
            output: String::new(),
        }
    }
}

/// An ask for permission.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedAsk {
    pub tool: ScriptedTool,
    /// Where the tool call is told.
    pub placement: AskPlacement,
    /// The options it offers; once each way if there are none.
    pub options: Vec<OptionKind>,
    /// Takes the ask back after so long.
    pub withdraw_after_ms: Option<u64>,
    /// The id of the request, instead of the next one.
    pub id: Option<Value>,
    /// Says what it was answered.
    pub echo: bool,
    /// What to do when it is allowed.
    pub on_allow: Vec<ScriptStep>,
    /// What to do when it is denied.
    pub on_deny: Vec<ScriptStep>,
    /// What to do when it is cancelled.
    pub on_cancel: Vec<ScriptStep>,
}

/// Many asks for permission to run a command, for load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskMany {
    /// How many; a cancelled turn ends them earlier.
    pub count: u64,
    /// The command; `{n}` in it is the number of the ask, from 0.
    pub command: String,
    /// The file to which a line is added for each answer, in the session's folder.
    pub ledger: String,
    /// How many are open together.
    #[serde(default)]
    pub at_once: u64,
    /// About so many microseconds of rest after they were answered.
    #[serde(default)]
    pub pause_us: u64,
    /// So many lines are said before each: `ASK.LINE WORDS`, both numbers from 0.
    #[serde(default)]
    pub lines: u64,
    /// The words of these lines.
    #[serde(default)]
    pub words: String,
    /// Whether the command is run in a terminal of the host once it is allowed.
    #[serde(default)]
    pub runs: bool,
    /// Nothing more is asked once this file is there.
    #[serde(default)]
    pub until: Option<PathBuf>,
}

/// Where a tool call is told that is asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskPlacement {
    /// In the request alone.
    #[default]
    InRequest,
    /// Before it; the request has only the id.
    Before,
    /// Before it, but empty; filled by an update, also before it.
    Filled,
    /// After it; the request has only the id.
    After,
    /// Nowhere: only the id is known.
    Never,
}

/// The kinds of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

/// A command in a terminal of the host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedTerminal {
    pub command: String,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    pub env: Vec<(String, String)>,
    /// How much of the output is kept.
    pub output_byte_limit: Option<u64>,
    /// Whether it is killed at once.
    pub kill: bool,
    /// Whether it is never released.
    pub keep: bool,
}
