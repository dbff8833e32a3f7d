//! Real agents: how each is found in the cache and started against the scripted model.
//!
//! `scripts/agents` fills the cache: `.cache/agents` in the repository, or the folder that
//! `COUNTERSIGN_AGENT_CACHE` names. Quirks that tests must know stand beside each recipe.
//!
//! Invariants: a recipe points at nothing outside the given home, the cache and the system's
//! programs; it reaches no model but the one on loopback.

mod recipes;

use std::io;
use std::path::{Path, PathBuf};

/// Names the cache folder, if it is not the usual one.
const CACHE_VARIABLE: &str = "COUNTERSIGN_AGENT_CACHE";

/// An agent that somebody else wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealAgent {
    /// The example of the protocol's SDK: a fixed story of about five seconds without a model. It
    /// asks once a turn, about an edit, and cannot go on with an earlier session.
    Example,
    /// Claude Code behind its ACP adapter. Reads in the working folder are not asked about, and two
    /// asks are open at once only for reads (a file or `cat`) outside of it.
    Claude,
    /// Claude Code by itself, which speaks its own stream. It asks about one thing at a time, and
    /// about two at once only for reads.
    ClaudeCode,
    /// Codex. It ends the turn when an ask is rejected, and does not end when its input does.
    Codex,
    /// Defect, the one that leaves files and terminals to its client. It has one ask open at a time,
    /// and does not end when its input does.
    Defect,
    /// Gemini CLI. Its permission request is the first mention of a call and has no input: the title
    /// is the command. It loads no session in the clock minute in which the session began.
    Gemini,
    /// opencode. It ends the turn when an ask is rejected, and takes seconds to start.
    Opencode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// All the variables it needs. What else is in the environment may change what it does:
    /// `IS_SANDBOX`, for one, keeps Claude from asking.
    pub env: Vec<(String, String)>,
}

impl RealAgent {
    pub const ALL: [Self; 7] = [
        Self::Example,
        Self::Claude,
        Self::ClaudeCode,
        Self::Codex,
        Self::Defect,
        Self::Gemini,
        Self::Opencode,
    ];

    /// What it is called, here and in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::Example => "example",
            Self::Claude => "claude",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Defect => "defect",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// What the host's catalog calls it; nothing if it is not there.
    pub fn catalog_name(self) -> Option<&'static str> {
        match self {
            Self::Example => None,
            Self::Claude => Some("claude-acp"),
            Self::ClaudeCode => Some("claude"),
            Self::Codex | Self::Defect | Self::Gemini | Self::Opencode => Some(self.name()),
        }
    }

    /// Says what is missing, and how to get it.
    pub fn available(self) -> Result<(), String> {
        let target = match self {
            Self::Defect => "test-agents",
            _ => "agents",
        };
        let cache = Cache::open();
        for path in self.programs(&cache) {
            if !path.exists() {
                let (name, path) = (self.name(), path.display());
                return Err(format!(
                    "`{name}` is not installed: no `{path}`; `make {target}` installs it"
                ));
            }
        }
        Ok(())
    }

    /// What it speaks, by the command line's name for it.
    pub fn protocol(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            _ => "acp",
        }
    }

    /// Writes the configuration it needs into `home`, an empty folder, and says how it is started.
    pub fn prepare(self, home: &Path, model_port: u16) -> io::Result<Recipe> {
        recipes::prepare(self, &Cache::open(), home, model_port)
    }

    fn programs(self, cache: &Cache) -> Vec<PathBuf> {
        match self {
            Self::Example => vec![cache.node(), cache.example()],
            Self::Claude => vec![cache.node(), cache.claude()],
            Self::ClaudeCode => vec![cache.claude_code()],
            Self::Codex => vec![cache.codex(), cache.bubblewrap().join("bwrap")],
            Self::Defect => vec![cache.defect()],
            Self::Gemini => vec![cache.node(), cache.gemini()],
            Self::Opencode => vec![cache.opencode()],
        }
    }
}

/// The official MCP inspector: the Node to run it with and its program, if they are there.
pub fn inspector() -> Option<[PathBuf; 2]> {
    let cache = Cache::open();
    let found = [cache.node(), cache.inspector()];
    found.iter().all(|path| path.exists()).then_some(found)
}

/// A client of the Agent Client Protocol that somebody else wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpClient {
    /// A headless client with answers that are automatic.
    Acpx,
    TypeScriptSdk,
    PythonSdk,
}

impl AcpClient {
    /// The program that runs it and what it runs, or loads as its library; `None` if they are not there.
    pub fn find(self) -> Option<[PathBuf; 2]> {
        let cache = Cache::open();
        let clients = cache.0.join("acp-clients/node_modules");
        let found = match self {
            Self::Acpx => [cache.node(), clients.join("acpx/dist/cli.js")],
            Self::TypeScriptSdk => {
                let library = clients.join("@agentclientprotocol/sdk/dist/acp.js");
                [cache.node(), library]
            }
            Self::PythonSdk => {
                let folder = cache.0.join("python-sdk");
                [folder.join("bin/python"), folder.join("pyvenv.cfg")]
            }
        };
        found.iter().all(|path| path.exists()).then_some(found)
    }
}

/// Where things are in the cache.
#[derive(Debug)]
struct Cache(PathBuf);

impl Cache {
    fn open() -> Self {
        match std::env::var_os(CACHE_VARIABLE) {
            Some(folder) => Self(folder.into()),
            None => Self(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/agents")),
        }
    }

    /// The Node that Claude's adapter wants is newer than most machines'.
    fn node(&self) -> PathBuf {
        let package = format!("claude/node_modules/node-linux-{}/bin/node", arch());
        self.0.join(package)
    }

    fn example(&self) -> PathBuf {
        let path = "example/node_modules/@agentclientprotocol/sdk/dist/examples/agent.js";
        self.0.join(path)
    }

    fn claude(&self) -> PathBuf {
        let path = "claude/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js";
        self.0.join(path)
    }

    fn claude_code(&self) -> PathBuf {
        let package = format!("claude-code-linux-{}", arch());
        let scope = self.0.join("claude-code/node_modules/@anthropic-ai");
        scope.join(package).join("claude")
    }

    fn codex(&self) -> PathBuf {
        let package = format!("codex-acp-linux-{}", arch());
        let scope = self.0.join("codex/node_modules/@zed-industries");
        scope.join(package).join("bin/codex-acp")
    }

    fn gemini(&self) -> PathBuf {
        let path = "gemini/node_modules/@google/gemini-cli/bundle/gemini.js";
        self.0.join(path)
    }

    fn opencode(&self) -> PathBuf {
        let package = format!("opencode/node_modules/opencode-linux-{}", arch());
        self.0.join(package).join("bin/opencode")
    }

    fn inspector(&self) -> PathBuf {
        let package = "inspector/node_modules/@modelcontextprotocol/inspector";
        self.0.join(package).join("clients/launcher/build/index.js")
    }

    fn bubblewrap(&self) -> PathBuf {
        self.0.join("bubblewrap/usr/bin")
    }

    fn defect(&self) -> PathBuf {
        self.0.join("defect/bin/defect")
    }
}

/// The processor, as npm packages call it.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    }
}
