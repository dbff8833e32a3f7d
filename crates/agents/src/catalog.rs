//! The catalog: known agents as data, and where each is found on this machine.
//!
//! Invariant: nothing is started here, and what is found is only ever a name that the caller's own
//! `PATH`, home or variables led to. Deliberately absent: downloading anything. An agent that is
//! missing comes with the words for a person to install it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use countersign_core::event::Protocol;

/// A known agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAgent {
    /// The name it is spawned by.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What it speaks.
    pub protocol: Protocol,
    /// Executables that speak it, best first, each with its arguments.
    pub executables: &'static [(&'static str, &'static [&'static str])],
    /// The npm package and the script in it that speaks it, for Node.
    pub package: Option<(&'static str, &'static str)>,
    /// Variables of the host's environment it may need.
    pub environment: &'static [&'static str],
    /// Where it keeps its sessions and its login, in the home folder. A sandbox lets it write there.
    pub state: &'static [AgentStateFolder],
    /// Files in the home folder that it writes all the time and that say which programs run, with whatever begins
    /// like them. In a sandbox that fails, without an ask.
    pub unasked: &'static [&'static str],
    /// Names of the servers that its model is reached at. A sandbox lets it connect there.
    pub model: &'static [&'static str],
    /// Variables with which a person names another server for its model, by its URL.
    pub model_variables: &'static [&'static str],
    /// Arguments with which it asks about everything and uses no sandbox of its own, which fails inside another one.
    pub confined_arguments: &'static [&'static str],
    /// How to install it.
    pub install: &'static str,
    /// What to know about its modes and models.
    pub hint: &'static str,
}

/// A folder that an agent keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentStateFolder {
    /// The variable that names another place for it, if there is one.
    pub variable: Option<&'static str>,
    /// Where it is otherwise, in the home folder.
    pub path: &'static str,
    /// What in it says which programs run. The agent may not change that: it would hold outside its sandbox.
    pub settings: &'static [&'static str],
}

const CLAUDE_STATE: &[AgentStateFolder] = &[AgentStateFolder {
    variable: Some("CLAUDE_CONFIG_DIR"),
    path: ".claude",
    settings: &[
        "settings.json",
        "settings.local.json",
        "commands",
        "agents",
        "skills",
        "plugins",
        "CLAUDE.md",
    ],
}];

const CLAUDE_MODEL: &[&str] = &[
    "api.anthropic.com",
    "console.anthropic.com",
    "platform.claude.com",
];

/// Without a sandbox its usual policy would run everything unasked; with this one it runs only what it knows to read.
const CODEX_UNCONFINED: &[&str] = &[
    "-c",
    "sandbox_mode=\"danger-full-access\"",
    "-c",
    "approval_policy=\"untrusted\"",
];

const fn state_folder(path: &'static str) -> AgentStateFolder {
    AgentStateFolder {
        variable: None,
        path,
        settings: &[],
    }
}

const ALL: &[KnownAgent] = &[
    KnownAgent {
        name: "claude",
        title: "Claude Code",
        protocol: Protocol::Claude,
        executables: &[("claude", &[])],
        package: None,
        environment: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CONFIG_DIR",
        ],
        state: CLAUDE_STATE,
        unasked: &[".claude.json"],
        model: CLAUDE_MODEL,
        model_variables: &["ANTHROPIC_BASE_URL"],
        confined_arguments: &[],
        install: "install it with `npm install -g @anthropic-ai/claude-code` and log in once by starting `claude`",
        hint: "modes default, acceptEdits, plan; models by short name (opus, sonnet)",
    },
    KnownAgent {
        name: "claude-acp",
        title: "Claude Code over ACP",
        protocol: Protocol::Acp,
        executables: &[("claude-agent-acp", &[]), ("claude-code-acp", &[])],
        package: Some(("@agentclientprotocol/claude-agent-acp", "dist/index.js")),
        environment: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CONFIG_DIR",
        ],
        state: CLAUDE_STATE,
        unasked: &[".claude.json"],
        model: CLAUDE_MODEL,
        model_variables: &["ANTHROPIC_BASE_URL"],
        confined_arguments: &[],
        install: "install it with `npm install -g @agentclientprotocol/claude-agent-acp` (needs Node 22)",
        hint: "modes default, acceptEdits, plan; models by short name (opus, sonnet)",
    },
    KnownAgent {
        name: "codex",
        title: "Codex",
        protocol: Protocol::Acp,
        executables: &[("codex-acp", &[])],
        package: Some(("@zed-industries/codex-acp", "bin/codex-acp.js")),
        environment: &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"],
        state: &[AgentStateFolder {
            variable: Some("CODEX_HOME"),
            path: ".codex",
            settings: &["config.toml", "rules", "AGENTS.md", "prompts"],
        }],
        unasked: &[],
        model: &["api.openai.com", "chatgpt.com", "auth.openai.com"],
        model_variables: &["OPENAI_BASE_URL"],
        confined_arguments: CODEX_UNCONFINED,
        install: "install it with `npm install -g @zed-industries/codex-acp` (on Linux also bubblewrap)",
        hint: "modes read-only, auto, full-access",
    },
    KnownAgent {
        name: "gemini",
        title: "Gemini CLI",
        protocol: Protocol::Acp,
        executables: &[("gemini", &["--acp"])],
        package: None,
        environment: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        state: &[AgentStateFolder {
            variable: None,
            path: ".gemini",
            settings: &["settings.json", "extensions", "commands", "GEMINI.md"],
        }],
        unasked: &[],
        model: &[
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
        ],
        model_variables: &["GOOGLE_GEMINI_BASE_URL"],
        confined_arguments: &[],
        install: "install it with `npm install -g @google/gemini-cli`",
        hint: "log in once by starting `gemini` in a terminal",
    },
    KnownAgent {
        name: "opencode",
        title: "opencode",
        protocol: Protocol::Acp,
        executables: &[("opencode", &["acp"])],
        package: None,
        environment: &["OPENCODE_CONFIG"],
        state: &[
            state_folder(".local/share/opencode"),
            state_folder(".local/state/opencode"),
        ],
        unasked: &[],
        // Where it learns which models there are, and its own provider. Other providers are the person's choice.
        model: &["models.dev", "opencode.ai", "api.opencode.ai"],
        model_variables: &[],
        confined_arguments: &[],
        install: "install it with `npm install -g opencode-ai`",
        hint: "log in once with `opencode auth login`",
    },
    KnownAgent {
        name: "goose",
        title: "goose",
        protocol: Protocol::Acp,
        executables: &[("goose", &["acp"])],
        package: None,
        environment: &["GOOSE_PROVIDER", "GOOSE_MODEL"],
        state: &[
            state_folder(".local/share/goose"),
            state_folder(".local/state/goose"),
        ],
        unasked: &[],
        model: &[],
        model_variables: &[],
        confined_arguments: &[],
        install: "install it as its project says, then choose a provider with `goose configure`",
        hint: "provider and model come from `goose configure`",
    },
    KnownAgent {
        name: "defect",
        title: "defect",
        protocol: Protocol::Acp,
        executables: &[("defect", &[])],
        package: None,
        environment: &["XDG_CONFIG_HOME"],
        state: &[state_folder(".local/share/defect")],
        unasked: &[],
        model: &[],
        model_variables: &[],
        confined_arguments: &[],
        install: "install it with `cargo install defect-cli --version 0.1.0-alpha.6 --locked`",
        hint: "uses the host's terminals and files; provider and model come from its config.toml",
    },
];

/// Every known agent.
pub fn all() -> &'static [KnownAgent] {
    ALL
}

/// The agent of that name.
pub fn find(name: &str) -> Option<&'static KnownAgent> {
    ALL.iter().find(|entry| entry.name == name)
}

/// Whether the agent that calls itself so over ACP asks about a command with the command as its title
/// and no input. Of any other agent a title is a description.
pub(crate) fn sends_commands_as_titles(name: &str) -> bool {
    name == "gemini-cli"
}

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct AgentSearchPaths {
    /// Folders of executables.
    pub path: Option<OsString>,
    /// Where npm's global packages are, if that is known.
    pub node_modules: Vec<PathBuf>,
    /// The command that a person set for the agent ([`command_variable`]), if there is one.
    pub command: Option<String>,
}

impl AgentSearchPaths {
    /// Where to look for an agent, in an environment in which `find` finds variables. Global packages
    /// of npm lie beside the folder of its executables.
    pub fn for_agent(entry: &KnownAgent, find: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = find("PATH");
        let folders = path.iter().flat_map(std::env::split_paths);
        let modules = folders.filter_map(|folder| Some(folder.parent()?.join("lib/node_modules")));
        Self {
            node_modules: modules.collect(),
            command: find(&command_variable(entry)).and_then(|command| command.into_string().ok()),
            path,
        }
    }
}

/// What became of looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedAgent {
    /// It is here.
    Found {
        /// The program, and its arguments.
        command: Vec<String>,
    },
    /// It is not.
    Missing {
        /// What to do.
        advice: String,
    },
}

/// The variable with which a person names another command for an agent.
pub fn command_variable(entry: &KnownAgent) -> String {
    let name = entry.name.to_ascii_uppercase().replace('-', "_");
    format!("COUNTERSIGN_AGENT_{name}")
}

/// Finds an agent: the person's own command, then executables, then the npm package.
pub fn resolve(entry: &KnownAgent, environment: &AgentSearchPaths) -> ResolvedAgent {
    // A person's own command is taken as it is, also if the agent is installed.
    if let Some(command) = &environment.command {
        return own_command(entry, command);
    }
    let folders = environment.path.as_deref();
    for (name, arguments) in entry.executables {
        if let Some(program) = find_executable(name, folders) {
            let arguments = arguments.iter().map(|&argument| argument.to_owned());
            return ResolvedAgent::Found {
                command: std::iter::once(program).chain(arguments).collect(),
            };
        }
    }
    let script = entry.package.and_then(|(package, script)| {
        let mut places = environment.node_modules.iter();
        places.find_map(|place| to_text(place.join(package).join(script)).filter(is_file))
    });
    // Node is named as a program of its own: npm installs the script without the right to execute
    // it.
    match (script, find_executable("node", folders)) {
        (Some(script), Some(node)) => ResolvedAgent::Found {
            command: vec![node, script],
        },
        _ => ResolvedAgent::Missing {
            advice: format!(
                "{}, or set {} to its command",
                entry.install,
                command_variable(entry)
            ),
        },
    }
}

/// A list of words in JSON, or words with blanks between them.
fn own_command(entry: &KnownAgent, command: &str) -> ResolvedAgent {
    // A list is the only way to name a program whose path has blanks.
    let args = serde_json::from_str(command).unwrap_or_else(|_| {
        command
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    if args.is_empty() {
        ResolvedAgent::Missing {
            advice: format!(
                "{} is empty: unset it, or name a command",
                command_variable(entry)
            ),
        }
    } else {
        ResolvedAgent::Found { command: args }
    }
}

/// Folders that are not absolute do not count: they would mean another program in each place.
fn find_executable(name: &str, folders: Option<&std::ffi::OsStr>) -> Option<String> {
    let folders = std::env::split_paths(folders?).filter(|folder| folder.is_absolute());
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| is_executable(file)).and_then(to_text)
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn is_file(file: &String) -> bool {
    Path::new(file).is_file()
}

fn to_text(path: PathBuf) -> Option<String> {
    path.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn put(file: &Path, mode: u32) -> String {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        file.to_str().unwrap().to_owned()
    }

    #[test]
    fn an_agent_is_found_by_its_command_then_executable_then_package() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        let claude = find("claude-acp").unwrap();
        let mut environment = AgentSearchPaths {
            path: Some(bin.clone().into_os_string()),
            node_modules: vec![folder.path().join("lib")],
            command: None,
        };
        assert_eq!(
            resolve(claude, &environment),
            ResolvedAgent::Missing {
                advice: "install it with `npm install -g @agentclientprotocol/claude-agent-acp` \
                         (needs Node 22), or set COUNTERSIGN_AGENT_CLAUDE_ACP to its command"
                    .to_owned()
            }
        );

        let node = put(&bin.join("node"), 0o755);
        let package = "lib/@agentclientprotocol/claude-agent-acp/dist/index.js";
        let script = put(&folder.path().join(package), 0o644);
        let found = |command: &[&str]| ResolvedAgent::Found {
            command: command.iter().map(|&word| word.to_owned()).collect(),
        };
        assert_eq!(resolve(claude, &environment), found(&[&node, &script]));

        put(&bin.join("claude-agent-acp"), 0o644);
        assert_eq!(resolve(claude, &environment), found(&[&node, &script]));
        let program = put(&bin.join("claude-agent-acp"), 0o755);
        assert_eq!(resolve(claude, &environment), found(&[&program]));

        environment.command = Some(r#"["/x y/agent", "--acp"]"#.to_owned());
        assert_eq!(
            resolve(claude, &environment),
            found(&["/x y/agent", "--acp"])
        );
        environment.command = Some("agent --acp".to_owned());
        assert_eq!(resolve(claude, &environment), found(&["agent", "--acp"]));
    }

    #[test]
    fn an_agent_is_found_by_its_name() {
        for entry in all() {
            assert_eq!(find(entry.name), Some(entry));
        }
    }
}
