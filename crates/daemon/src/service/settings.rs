//! What a host is started with.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_agents::adapter::McpServer;
use countersign_core::limits::{ESCALATION_MS, EXPIRY_HOLD_MS, OWNER_GRACE_MS, RUNNER_PATIENCE_MS};

use crate::driver::SandboxSettings;
use crate::ids::random_hex;
use crate::notify::NotifySettings;
use crate::own_terminals::OwnTerminalSettings;
use crate::rulebook::Rulebook;

/// What a host is started with.
#[derive(Clone)]
pub struct HostSettings {
    /// The version the record shows.
    pub version: String,
    /// The time a lost owner has to come back.
    pub owner_grace_ms: u64,
    /// Nothing expires in this time after the start.
    pub expiry_hold_ms: u64,
    /// The time an orchestrator has to answer before people are asked as well.
    pub escalation_ms: u64,
    /// The rule files.
    pub rulebook: Arc<Rulebook>,
    /// How managed agents are run.
    pub runners: RunnerSettings,
    /// How people elsewhere are told.
    pub notify: NotifySettings,
    /// Where the output of terminals of ended agents is kept; `None` if it is not.
    pub terminals_folder: Option<PathBuf>,
    /// How people's own terminals are run; `None` if they are not.
    pub own_terminals: Option<OwnTerminalSettings>,
}

impl HostSettings {
    /// The usual times.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            owner_grace_ms: OWNER_GRACE_MS,
            expiry_hold_ms: EXPIRY_HOLD_MS,
            escalation_ms: ESCALATION_MS,
            rulebook: Rulebook::empty(),
            runners: RunnerSettings::default(),
            notify: NotifySettings::default(),
            terminals_folder: None,
            own_terminals: None,
        }
    }
}

/// How the runners of managed agents are started and found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerSettings {
    /// What starts one; its own arguments follow.
    pub command: Vec<OsString>,
    /// The folder of all runners, each with one of its own in it. The next host must find it.
    pub folder: PathBuf,
    /// Folders for their sockets, the best first.
    pub sockets: Vec<PathBuf>,
    /// How long one goes on without a host.
    pub patience_ms: u64,
    /// The host's own tools, which every agent is given, if they can be reached.
    pub tools: Option<McpServer>,
    /// What agents are confined with; nothing is, where there is none.
    pub sandbox: Option<SandboxSettings>,
}

/// A folder that nobody else uses, so that hosts of tests do not meet.
impl Default for RunnerSettings {
    fn default() -> Self {
        let name = format!("countersign-{}-{}", std::process::id(), random_hex::<4>());
        let folder = std::env::temp_dir().join(name);
        Self {
            command: countersign_agents::runner::default_command(),
            sockets: vec![folder.join("sockets")],
            folder: folder.join("runners"),
            patience_ms: RUNNER_PATIENCE_MS,
            tools: None,
            sandbox: None,
        }
    }
}
