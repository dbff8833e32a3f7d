//! `spawn`: start an agent under the host.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    AgentProtocol, EnvVariable, HostAgent, SpawnAgentParams, WorktreeParams, method,
};

use super::{CommonArgs, args, steer};
use crate::duration::TimeLimit;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign spawn --agent claude 'Fix the failing test'
  countersign spawn --agent codex --name api --worktree --wait - < task.md
  countersign spawn --command 'my-agent --acp' --env API_KEY --turn-timeout 30m 'Tidy up'
  countersign spawn --agent claude --role orchestrator --name boss 'Have two agents fix it'

`countersign agents` lists what can be started. Every action that no rule covers waits in
`countersign inbox`.

An orchestrator (--role orchestrator) may also start agents of its own. Each start is an ask, which
rules such as `SpawnAgent(codex)` can allow. It can send messages to those agents, read their
transcripts, answer their questions and end them. You answer their asks, except those that
`countersign ceiling` lets it approve.")]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct SpawnArgs {
    /// The task; `-` reads it from stdin
    #[arg(value_name = "PROMPT", num_args = 0..=2, hide_possible_values = true)]
    arguments: Vec<String>,
    /// Start this agent from `countersign agents`
    #[arg(long, value_name = "NAME", group = "what")]
    agent: Option<String>,
    /// Start this program with its arguments, quoted as for a shell
    #[arg(long, value_name = "LINE", group = "what")]
    command: Option<String>,
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
    /// Environment variable; NAME alone passes your value and keeps it out of the record; repeatable
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Work in a new git worktree, on BRANCH (before PROMPT) or on a branch named after the agent
    #[arg(long, value_name = "BRANCH", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    worktree: Option<String>,
    /// Interrupt a turn that takes longer than this: 90s, 30m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    turn_timeout: Option<Duration>,
    /// How long its asks wait for an answer, or `none` [default: 30m]
    #[arg(long, value_name = "TIME")]
    ask_timeout: Option<TimeLimit>,
    /// `orchestrator` lets it start agents of its own, each after an ask
    #[arg(long, value_name = "ROLE", value_parser = ["orchestrator"])]
    role: Option<String>,
    /// Wait until it is idle, then print its answer
    #[arg(long)]
    wait: bool,
}

/// What an agent speaks.
#[derive(Clone, Copy, clap::ValueEnum)]
enum ProtocolArg {
    /// The Agent Client Protocol
    Acp,
    /// Claude Code's own stream
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
    let wait = args.wait;
    let params = params(args)?;
    let mut client = common.connect().await?;
    let agent = client.call::<method::SpawnAgent>(&params).await?;
    if wait {
        return steer::wait_and_print(common, &mut client, &agent).await;
    }
    print_started(common, &agent)
}

/// Says who was started.
pub(super) fn print_started(common: &CommonArgs, agent: &HostAgent) -> Result<CliExit, CliError> {
    if common.json {
        output::print_json(agent)?;
        return Ok(CliExit::Ok);
    }
    let name = escape::line(&agent.name);
    output::print(&format!("{name}\n"))?;
    output::print_message(format_args!("follow it with `countersign logs -f {name}`"));
    Ok(CliExit::Ok)
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
        return Err(CliError::Usage {
            what: "more than one prompt was given".into(),
            hint: Some("put the prompt in quotes".into()),
        });
    }
    let prompt = arguments.pop();
    Ok((prompt, arguments.pop()))
}

fn params(args: SpawnArgs) -> Result<SpawnAgentParams, CliError> {
    let (prompt, worktree) = prompt_and_branch(args.arguments, args.worktree)?;
    let command = args
        .command
        .as_deref()
        .map(args::split_command)
        .transpose()?;
    let env: Result<Vec<_>, _> = args.env.iter().map(|text| parse_variable(text)).collect();
    Ok(SpawnAgentParams {
        name: args.name,
        agent: args.agent,
        command: command.unwrap_or_default(),
        protocol: args.protocol.map(Into::into),
        prompt: prompt.map(read_text_argument).transpose()?,
        cwd: args::absolute_folder(args.cwd.as_deref())?,
        model: args.model,
        mode: args.mode,
        system_prompt: args.system_prompt,
        allowed_tools: args.allow_tools,
        disallowed_tools: args.disallow_tools,
        env: env?,
        worktree: worktree.map(|branch| WorktreeParams {
            branch: Some(branch).filter(|branch| !branch.is_empty()),
        }),
        turn_timeout_ms: args.turn_timeout.map(duration::millis),
        // On the wire, nothing means the host's own choice and 0 means no limit.
        ask_timeout_ms: args.ask_timeout.map(|limit| limit.as_ms().unwrap_or(0)),
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

fn parse_variable(text: &str) -> Result<EnvVariable, CliError> {
    if let Some((name, value)) = text.split_once('=') {
        return Ok(EnvVariable {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            secret: false,
        });
    }
    let value = std::env::var(text).map_err(|_| CliError::Usage {
        what: format!("`{}` is not set here, or is not UTF-8", escape::line(text)),
        hint: Some("give it a value with --env NAME=VALUE".into()),
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
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: SpawnArgs,
        }
        let line = Line::try_parse_from([&["spawn", "--cwd", "/"], arguments].concat());
        params(line.map_err(|error| error.to_string())?.args).map_err(|error| error.to_string())
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
