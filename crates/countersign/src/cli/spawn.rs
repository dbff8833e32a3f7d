//! `spawn`: start an agent under the host.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    AgentProtocol, EnvVariable, HostAgent, HostAgentState, Raw, SpawnAgentParams, WaitUntil,
    WorktreeParams, method,
};
use countersign_sandbox::SandboxProfile;

use super::args::LabelArg;
use super::rules::{self, init::RulesOffer};
use super::steer::AgentWait;
use super::{CommonArgs, args, steer};
use crate::client::HostClient;
use crate::config::{HostConfig, ProfileConfig};
use crate::duration::TimeLimit;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::paths::HostPaths;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign spawn --agent claude 'Fix the failing test'
  countersign spawn --agent codex --name api --worktree --wait - < task.md
  countersign spawn --command 'my-agent --acp' --env API_KEY --turn-timeout 30m 'Tidy up'
  countersign spawn --profile review --label team=web 'Review the last commit'
  countersign spawn --agent claude --role orchestrator --name boss 'Have two agents fix it'

A profile is a table `[profiles.NAME]` in config.toml with any of agent, model, mode, allow_tools,
disallow_tools, labels and prompt_prefix.

`countersign agents` lists what can be started. Every action that no rule covers waits in
`countersign inbox`.

Claude Code started natively (--agent claude) runs without your hooks and without your MCP servers,
because either could answer an ask before you do. --mcp-config gives it servers; their tools are asked
about like any other.

An orchestrator (--role orchestrator) may also start agents of its own. Each start is an ask, which
rules such as `SpawnAgent(codex)` can allow. It can send messages to those agents, read their
transcripts, answer their questions and end them. You answer their asks, except those that
`countersign ceiling` lets it approve.")]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true)))]
pub(crate) struct SpawnArgs {
    /// The task; `-` reads it from stdin
    #[arg(value_name = "PROMPT", num_args = 0..=2, hide_possible_values = true)]
    arguments: Vec<String>,
    /// Start this agent from `countersign agents`
    #[arg(long, value_name = "NAME", group = "what")]
    agent: Option<String>,
    /// Start this program with its arguments, quoted as for a shell
    #[arg(long, value_name = "LINE", group = "what", conflicts_with = "agent")]
    command: Option<String>,
    /// Use this profile from config.toml; other options win over it
    #[arg(long, value_name = "NAME", group = "what")]
    profile: Option<String>,
    /// Protocol of that program [default: acp]
    #[arg(long, value_name = "NAME", requires = "command")]
    protocol: Option<ProtocolArg>,
    /// Name of the agent [default: generated]
    #[arg(long)]
    name: Option<String>,
    /// Folder it works in [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Model, by the agent's own name for it
    #[arg(long)]
    model: Option<String>,
    /// Mode, by the agent's own name for it
    #[arg(long)]
    mode: Option<String>,
    /// System prompt, for agents that accept one
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Allow only these tools; repeatable
    #[arg(long = "allow-tool", value_name = "TOOL")]
    allow_tools: Vec<String>,
    /// Disallow this tool; repeatable
    #[arg(long = "disallow-tool", value_name = "TOOL")]
    disallow_tools: Vec<String>,
    /// Give it the MCP servers of this JSON file; recorded. Claude Code fills in `${NAME}` from --env
    #[arg(long, value_name = "FILE")]
    mcp_config: Option<PathBuf>,
    /// Send this image or file with the task; repeatable
    #[arg(long = "attach", value_name = "FILE")]
    attachments: Vec<PathBuf>,
    /// Label by which `ls`, `inbox`, `rules add` and `bypass` can select it; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,
    /// Environment variable; NAME alone passes your value and keeps it out of the record; repeatable
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Work in a new git worktree on BRANCH [default: a branch named after the agent]
    #[arg(long, value_name = "BRANCH", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    worktree: Option<String>,
    /// Interrupt a turn that takes longer than this: 90s, 30m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    turn_timeout: Option<Duration>,
    /// How long its asks wait for an answer, or `none` [default: 30m]
    #[arg(long, value_name = "TIME")]
    ask_timeout: Option<TimeLimit>,
    /// Sandbox profile: `work`, `open` for none, or a table `[sandbox.NAME]` of config.toml [default: `[agents]
    /// sandbox` in config.toml, otherwise `work`]
    #[arg(long, value_name = "NAME")]
    sandbox: Option<String>,
    /// `orchestrator` lets it start agents of its own, each after an ask
    #[arg(long, value_name = "ROLE", value_parser = ["orchestrator"])]
    role: Option<String>,
    /// Wait until it is idle, then print its answer
    #[arg(long, conflicts_with = "no_wait")]
    wait: bool,
    /// Return at once, before the agent is ready
    #[arg(long)]
    no_wait: bool,
}

/// The protocol that an agent speaks.
#[derive(Clone, Copy, clap::ValueEnum)]
enum ProtocolArg {
    /// The Agent Client Protocol
    Acp,
    /// Claude Code's own protocol
    Claude,
}

impl From<ProtocolArg> for AgentProtocol {
    fn from(speaks: ProtocolArg) -> Self {
        match speaks {
            ProtocolArg::Acp => Self::Acp,
            ProtocolArg::Claude => Self::Claude,
        }
    }
}

pub(super) async fn spawn(common: &CommonArgs, args: SpawnArgs) -> Result<CliExit, CliError> {
    let (wait, no_wait) = (args.wait, args.no_wait);
    let profile = match &args.profile {
        Some(name) => load_profile(name)?,
        None => ProfileConfig::default(),
    };
    let params = params(args, profile)?;
    let mut client = common.connect().await?;
    if rules::init::offer(common).await? == RulesOffer::Made {
        // The host may have closed a connection that was silent while the person thought.
        client = common.connect().await?;
    }
    let agent = client.call::<method::SpawnAgent>(&params).await?;
    if wait {
        return steer::wait_and_print(common, &mut client, &agent).await;
    }
    if no_wait {
        return print_started(common, &agent);
    }
    wait_until_started(common, &mut client, agent).await
}

/// Waits until the agent can be prompted, or says why it could not be started.
async fn wait_until_started(
    common: &CommonArgs,
    client: &mut HostClient,
    agent: HostAgent,
) -> Result<CliExit, CliError> {
    let goal = AgentWait::until(WaitUntil::Started);
    let found = steer::wait_for(common, client, vec![agent.id.clone()], goal).await?;
    let agent = found.agents.into_iter().next().unwrap_or(agent);
    if !matches!(agent.state, HostAgentState::Error | HostAgentState::Stopped) {
        return print_started(common, &agent);
    }
    let name = escape::line(&agent.name);
    let managed = agent.managed.as_ref();
    let message = managed.and_then(|managed| managed.message.as_deref());
    let message = escape::line(message.unwrap_or("it ended")).into_owned();
    let failed = CliError::failed(format!("{name} could not start: {message}"));
    Err(failed.with_hint(format!("see what it said with `countersign logs {name}`")))
}

/// Says who was started.
pub(super) fn print_started(common: &CommonArgs, agent: &HostAgent) -> Result<CliExit, CliError> {
    if common.json {
        output::print_json(&output::json_row(agent)?)?;
        return Ok(CliExit::Ok);
    }
    let name = escape::line(&agent.name);
    output::print(&format!("{name}\n"))?;
    output::print_message(format_args!("follow it with `countersign logs -f {name}`"));
    if cannot_commit(agent) {
        output::print_message(
            "its sandbox keeps `.git` read-only, so it cannot commit; `--worktree` gives it a branch of its own",
        );
    }
    Ok(CliExit::Ok)
}

/// Whether it works in the usual sandbox and in a repository that is not a worktree of its own.
fn cannot_commit(agent: &HostAgent) -> bool {
    agent.managed.as_ref().is_some_and(|managed| {
        let sandbox = managed.sandbox.as_ref();
        managed.worktree.is_none()
            && sandbox.is_some_and(|sandbox| sandbox.profile == SandboxProfile::USUAL)
            && Path::new(&managed.cwd).join(".git").is_dir()
    })
}

/// The prompt and the branch. A branch may stand for itself after `--worktree`; a single word there is
/// the prompt.
fn prompt_and_branch(
    mut arguments: Vec<String>,
    worktree: Option<String>,
) -> Result<(Option<String>, Option<String>), CliError> {
    if arguments.len() < 2 {
        return Ok((arguments.pop(), worktree));
    }
    if worktree.as_deref() != Some("") {
        return Err(
            CliError::usage("more than one prompt was given").with_hint("put the prompt in quotes")
        );
    }
    let prompt = arguments.pop();
    Ok((prompt, arguments.pop()))
}

/// The profile of this name in the configuration of whoever types.
fn load_profile(name: &str) -> Result<ProfileConfig, CliError> {
    let path = HostPaths::from_environment()?.config;
    let mut profiles = HostConfig::load(&path)?.profiles;
    profiles.remove(name).ok_or_else(|| {
        let known: Vec<_> = profiles.keys().map(|name| escape::line(name)).collect();
        let hint = match known.as_slice() {
            [] => format!("add a table `[profiles.{name}]` to it"),
            known => format!("it has: {}", known.join(", ")),
        };
        CliError::Usage {
            what: format!(
                "there is no profile `{}` in `{}`",
                escape::line(name),
                path.display()
            ),
            hint: Some(hint),
        }
    })
}

/// What the line says wins over the profile, except that tools which either disallows stay so.
fn params(args: SpawnArgs, profile: ProfileConfig) -> Result<SpawnAgentParams, CliError> {
    let (prompt, worktree) = prompt_and_branch(args.arguments, args.worktree)?;
    let command = args
        .command
        .as_deref()
        .map(args::split_command)
        .transpose()?;
    let env: Result<Vec<_>, _> = args.env.iter().map(|text| parse_variable(text)).collect();
    let prompt = prompt.map(read_text_argument).transpose()?;
    let prompt = prompt.map(|prompt| profile.prefixed(prompt));
    let attachments = args::attached_files(&args.attachments)?;
    if prompt.is_none() && !attachments.is_empty() {
        return Err(CliError::usage("--attach needs a task to go with"));
    }
    let agent = args.agent.or(profile.agent.filter(|_| command.is_none()));
    if agent.is_none() && command.is_none() {
        return Err(CliError::usage(
            "the profile names no agent: add --agent or --command",
        ));
    }
    let allowed_tools = if args.allow_tools.is_empty() {
        profile.allow_tools
    } else {
        args.allow_tools
    };
    let mut disallowed_tools = profile.disallow_tools;
    disallowed_tools.extend(args.disallow_tools);
    let mut labels = profile.labels;
    labels.extend(args::labels(args.labels)?);
    Ok(SpawnAgentParams {
        name: args.name,
        agent,
        command: command.unwrap_or_default(),
        protocol: args.protocol.map(Into::into),
        prompt,
        attachments,
        cwd: args::absolute_folder(args.cwd.as_deref())?,
        model: args.model.or(profile.model),
        mode: args.mode.or(profile.mode),
        system_prompt: args.system_prompt,
        mcp_servers: args
            .mcp_config
            .as_deref()
            .map(read_mcp_servers)
            .transpose()?,
        allowed_tools,
        disallowed_tools,
        labels,
        env: env?,
        worktree: worktree.map(|branch| WorktreeParams {
            branch: Some(branch).filter(|branch| !branch.is_empty()),
        }),
        turn_timeout_ms: args.turn_timeout.map(duration::millis),
        // On the wire, nothing means the host's own choice and 0 means no limit.
        ask_timeout_ms: args.ask_timeout.map(|limit| limit.as_ms().unwrap_or(0)),
        sandbox: args.sandbox,
        terminals: None,
        allowed_by: None,
        role: args.role.as_deref().map(Into::into),
    })
}

/// The text as given, or all of stdin for `-`.
pub(super) fn read_text_argument(given: String) -> Result<String, CliError> {
    if given != "-" {
        return Ok(given);
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|source| CliError::io("could not read stdin", source))?;
    Ok(text)
}

/// The servers that a configuration file of Claude Code names.
fn read_mcp_servers(file: &Path) -> Result<Raw, CliError> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|source| CliError::file("read", shown.to_string(), source))?;
    let config: McpConfigFile = serde_json::from_str(&text).map_err(|error| {
        CliError::usage(format!("`{shown}` is not an MCP configuration: {error}"))
            .with_hint(r#"it looks like {"mcpServers": {"docs": {"command": "docs-mcp"}}}"#)
    })?;
    Ok(config.servers)
}

#[derive(serde::Deserialize)]
struct McpConfigFile {
    #[serde(rename = "mcpServers")]
    servers: Raw,
}

fn parse_variable(text: &str) -> Result<EnvVariable, CliError> {
    if let Some((name, value)) = text.split_once('=') {
        return Ok(EnvVariable {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            secret: false,
        });
    }
    // A value that was not typed is taken for a secret, and stays out of the record.
    let value = std::env::var(text).map_err(|_| {
        CliError::usage(format!(
            "`{}` is not set here, or is not UTF-8",
            escape::line(text)
        ))
        .with_hint("give it a value with --env NAME=VALUE")
    })?;
    Ok(EnvVariable {
        name: text.to_owned(),
        value: Some(value),
        secret: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn parsed(arguments: &[&str]) -> Result<SpawnAgentParams, String> {
        parsed_with(arguments, ProfileConfig::default())
    }

    fn parsed_with(arguments: &[&str], profile: ProfileConfig) -> Result<SpawnAgentParams, String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: SpawnArgs,
        }
        let line = Line::try_parse_from([&["spawn", "--cwd", "/"], arguments].concat());
        let args = line.map_err(|error| error.to_string())?.args;
        params(args, profile).map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_line_says_what_to_start_and_how() {
        let arguments = [
            "--command",
            "node 'my agent.js' --acp",
            "--env",
            "PATH",
            "--env",
            "A=b=c",
            "--worktree",
            "--turn-timeout",
            "30m",
            "--ask-timeout",
            "none",
            "--allow-tool",
            "Bash",
            "fix it",
        ];
        let path = std::env::var("PATH").unwrap();
        let env = |name: &str, value: &str, secret| EnvVariable {
            name: name.into(),
            value: Some(value.into()),
            secret,
        };
        let expected = SpawnAgentParams {
            command: vec!["node".into(), "my agent.js".into(), "--acp".into()],
            prompt: Some("fix it".into()),
            cwd: "/".into(),
            allowed_tools: vec!["Bash".into()],
            env: vec![env("PATH", &path, true), env("A", "b=c", false)],
            worktree: Some(WorktreeParams { branch: None }),
            turn_timeout_ms: Some(1_800_000),
            ask_timeout_ms: Some(0),
            ..SpawnAgentParams::default()
        };
        assert_eq!(parsed(&arguments), Ok(expected));
    }

    #[test]
    fn the_line_wins_over_its_profile() {
        let profile = ProfileConfig {
            agent: Some("claude".into()),
            model: Some("small".into()),
            mode: Some("plan".into()),
            allow_tools: vec!["Read".into()],
            disallow_tools: vec!["Write".into()],
            labels: [("team".into(), "web".into()), ("env".into(), "dev".into())].into(),
            prompt_prefix: Some("Be brief.".into()),
        };
        let line = [
            "--profile",
            "x",
            "--model",
            "large",
            "--disallow-tool",
            "Bash",
            "--label",
            "env=prod",
            "fix it",
        ];
        let expected = SpawnAgentParams {
            agent: Some("claude".into()),
            prompt: Some("Be brief.\n\nfix it".into()),
            cwd: "/".into(),
            model: Some("large".into()),
            mode: Some("plan".into()),
            allowed_tools: vec!["Read".into()],
            disallowed_tools: vec!["Write".into(), "Bash".into()],
            labels: [("team".into(), "web".into()), ("env".into(), "prod".into())].into(),
            ..SpawnAgentParams::default()
        };
        assert_eq!(parsed_with(&line, profile.clone()), Ok(expected));
        let command = parsed_with(&["--profile", "x", "--command", "a --acp"], profile);
        let command = command.map(|params| (params.agent, params.command));
        assert_eq!(command, Ok((None, vec!["a".into(), "--acp".into()])));
        assert!(parsed(&["--profile", "x"]).is_err());
    }

    #[test]
    fn a_branch_is_told_from_a_prompt() {
        let of = |branch: &str| {
            let branch = Some(branch.to_owned()).filter(|branch| !branch.is_empty());
            Some(WorktreeParams { branch })
        };
        let cases: [(&[&str], _, _); 4] = [
            (&["--worktree=b"], None, of("b")),
            (&["--worktree", "b", "fix it"], Some("fix it"), of("b")),
            (&["--worktree", "fix"], Some("fix"), of("")),
            (&["--worktree=b", "fix"], Some("fix"), of("b")),
        ];
        for (arguments, prompt, worktree) in cases {
            let found = parsed(&[&["--agent", "x"], arguments].concat()).unwrap();
            let expected = (prompt.map(str::to_owned), worktree);
            assert_eq!((found.prompt, found.worktree), expected, "{arguments:?}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for arguments in [
            &["fix it"] as &[&str],
            &["--agent", "a", "--command", "b"],
            &["--command", "it's"],
            &["--command", " "],
            &["--agent", "a", "--env", "NO_SUCH_VARIABLE_HERE"],
            &["--agent", "a", "--turn-timeout", "0s"],
            &["--agent", "a", "fix", "it"],
        ] {
            assert!(parsed(arguments).is_err(), "{arguments:?}");
        }
    }
}
