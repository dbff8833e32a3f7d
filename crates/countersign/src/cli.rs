//! The command line: what can be typed, and where each command lives.

mod agent_lookup;
mod agent_tree;
mod agents;
mod args;
pub(crate) mod ask;
mod audit;
mod bypass;
mod ceiling;
mod decide;
pub(crate) mod detach;
mod doctor;
pub(crate) mod down;
mod events;
mod hook;
mod inbox;
mod kill;
mod logs;
mod ls;
mod open;
mod orphans;
mod remember;
mod replace;
mod rules;
pub(crate) mod runner;
mod runners;
pub(crate) mod shutdown;
mod spawn;
mod status;
mod steer;
mod stop;
mod token;
mod up;
pub(crate) mod worktree;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::client::{HostAddress, HostClient, HostEndpoint};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::paths::HostPaths;
use crate::{demo, watch};

/// One inbox between AI agents and the machine they work on.
#[derive(Parser)]
#[command(name = "countersign", version, after_long_help = CliExit::help(), disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// What every command understands.
#[derive(Args, Clone)]
pub(crate) struct CommonArgs {
    /// Print JSON: one document, or one per line for events
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// Connect over TCP to `ws://HOST:PORT/` (or set `COUNTERSIGN_URL`); needs a token
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection")]
    url: Option<String>,
    /// Read the token from this file instead of `COUNTERSIGN_TOKEN`
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    token_file: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Start the host
    Up(up::UpArgs),
    /// Stop the host; agents keep running, `--all` ends them too
    Down(down::DownArgs),
    /// Show the state of the host
    #[command(
        after_help = "Examples:\n  countersign status\n  countersign status --json | jq .pending_approvals"
    )]
    Status,
    /// Check the installation and suggest fixes
    #[command(after_help = "Exits with 1 if any check fails; warnings alone exit with 0.")]
    Doctor,
    /// List the agents that can be started here
    Agents(agents::AgentsArgs),
    /// Start an agent
    Spawn(Box<spawn::SpawnArgs>),
    /// List agents, those that need you first
    Ls(ls::LsArgs),
    /// Send a message to an agent
    Send(steer::SendArgs),
    /// Interrupt the current turn of an agent
    Interrupt(steer::InterruptArgs),
    /// End an agent and every process it started
    Kill(kill::KillArgs),
    /// Wait until agents are idle
    Wait(steer::WaitArgs),
    /// Restart an agent on its session
    #[command(after_help = "Example:\n  countersign resume builder")]
    Resume(steer::ResumeArgs),
    /// Archive an agent
    Archive(steer::ArchiveArgs),
    /// Rename an agent
    #[command(after_help = "Example:\n  countersign rename builder api-builder")]
    Rename(steer::RenameArgs),
    /// Change the mode or model of an agent
    Configure(steer::ConfigureArgs),
    /// Print the transcript of an agent
    Logs(logs::LogsArgs),
    /// Show what an agent changed in its worktree
    Diff(worktree::DiffArgs),
    /// Remove agents' worktrees
    #[command(subcommand)]
    Worktree(worktree::WorktreeCommand),
    /// List open asks and questions, oldest first
    #[command(
        after_help = "Examples:\n  countersign inbox\n  countersign inbox --agent builder --json"
    )]
    Inbox(inbox::InboxArgs),
    /// Show an ask or question in full
    #[command(
        after_help = "Examples:\n  countersign show 1a2b3c4d\n  countersign show question-1a2b3c4d --json"
    )]
    Show(inbox::ShowArgs),
    /// Allow an ask
    Approve(decide::ApproveArgs),
    /// Deny an ask
    Deny(decide::DenyArgs),
    /// Answer a question
    Answer(decide::AnswerArgs),
    /// Watch the inbox and answer with single keys
    #[command(after_help = watch::KEYS_HELP)]
    Watch,
    /// Print recorded events
    Events(events::EventsArgs),
    /// Ask for permission from a script and wait for the answer
    Ask(ask::AskArgs),
    /// Create, list and revoke tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Verify, prune and export the audit log
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// List, add and test rules
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    /// Allow all asks of an agent for a limited time
    Bypass(bypass::BypassArgs),
    /// Limit what an orchestrator may approve
    Ceiling(ceiling::CeilingArgs),
    /// Connect sessions you start yourself (Claude Code hooks)
    #[command(subcommand)]
    Hook(hook::HookCommand),
    /// Deny all open asks and interrupt all agents
    Stop(stop::StopArgs),
    /// Serve the host's tools to an agent as an MCP server on stdin and stdout
    Mcp(crate::mcp::McpArgs),
    /// Print a one-time link to the web page
    #[command(after_help = "Example:\n  xdg-open \"$(countersign open)\"")]
    Open,
    /// Print shell completions
    #[command(
        after_help = "Example:\n  countersign completions bash > ~/.local/share/bash-completion/completions/countersign"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    #[command(subcommand, hide = true)]
    Demo(demo::DemoCommand),
    /// Stand between the host and one agent
    #[command(hide = true)]
    Runner(runner::RunnerArgs),
}

impl CliCommand {
    /// Whether the command runs a host.
    pub(crate) fn needs_threads(&self) -> bool {
        matches!(self, Self::Up(_))
    }
}

/// The commands as `--help` lists them.
const COMMAND_GROUPS: [(&str, &[&str]); 6] = [
    (
        "Run agents",
        &[
            "agents",
            "spawn",
            "ls",
            "send",
            "interrupt",
            "wait",
            "logs",
            "diff",
            "kill",
            "resume",
            "rename",
            "configure",
            "archive",
            "worktree",
        ],
    ),
    (
        "Decide",
        &[
            "inbox", "show", "approve", "deny", "answer", "watch", "stop",
        ],
    ),
    ("Rules", &["rules", "bypass", "ceiling"]),
    ("Record", &["events", "audit"]),
    ("Connect", &["ask", "hook", "mcp", "token"]),
    (
        "Host",
        &["up", "down", "status", "doctor", "open", "completions"],
    ),
];

/// The command line with its commands in groups, and with help texts that only clap wraps.
fn arranged_command() -> clap::Command {
    let command = join_help_paragraphs(Cli::command());
    let mut template = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (heading, names) in COMMAND_GROUPS {
        let _ = writeln!(template, "\n{heading}:");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.cloned().unwrap_or_default();
            let _ = writeln!(template, "  {name:<13}{about}");
        }
    }
    template.push_str("\nOptions:\n{options}{after-help}");
    command.help_template(template)
}

/// Help texts are written in source lines. Joined, their paragraphs are wrapped once, at the width of
/// the terminal, instead of twice.
fn join_help_paragraphs(mut command: clap::Command) -> clap::Command {
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(join_paragraphs(&text));
    }
    command.mut_subcommands(join_help_paragraphs)
}

fn join_paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let mut in_paragraph = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if is_prose && in_paragraph { ' ' } else { '\n' });
        }
        joined.push_str(line);
        in_paragraph = is_prose;
    }
    joined
}

impl Cli {
    pub(crate) fn read_arguments() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&arranged_command().try_get_matches()?)
    }

    pub(crate) async fn run(self) -> Result<CliExit, CliError> {
        let common = &self.common;
        match self.command {
            CliCommand::Up(args) => Box::pin(up::up(args)).await,
            CliCommand::Down(args) => down::down(common, args).await,
            CliCommand::Status => status::status(common).await,
            CliCommand::Doctor => doctor::doctor(common).await,
            CliCommand::Agents(args) => agents::agents(common, args).await,
            CliCommand::Spawn(args) => Box::pin(spawn::spawn(common, *args)).await,
            CliCommand::Ls(args) => ls::ls(common, args).await,
            CliCommand::Send(args) => Box::pin(steer::send(common, args)).await,
            CliCommand::Interrupt(args) => steer::interrupt(common, args).await,
            CliCommand::Kill(args) => kill::kill(common, args).await,
            CliCommand::Wait(args) => steer::wait(common, args).await,
            CliCommand::Resume(args) => steer::resume(common, args).await,
            CliCommand::Archive(args) => steer::archive(common, args).await,
            CliCommand::Rename(args) => steer::rename(common, args).await,
            CliCommand::Configure(args) => steer::configure(common, args).await,
            CliCommand::Logs(args) => Box::pin(logs::logs(common, args)).await,
            CliCommand::Diff(args) => worktree::diff(common, args).await,
            CliCommand::Worktree(command) => worktree::worktree(common, command).await,
            CliCommand::Inbox(args) => inbox::inbox(common, args).await,
            CliCommand::Show(args) => inbox::show(common, args).await,
            CliCommand::Approve(args) => decide::approve(common, args).await,
            CliCommand::Deny(args) => decide::deny(common, args).await,
            CliCommand::Answer(args) => decide::answer(common, args).await,
            CliCommand::Watch => watch::watch(&common.endpoint()?, "").await,
            CliCommand::Events(args) => events::events(common, args).await,
            CliCommand::Ask(args) => Box::pin(ask::ask(common, args)).await,
            CliCommand::Token(command) => token::token(common, command).await,
            CliCommand::Audit(command) => audit::audit(common, command).await,
            CliCommand::Rules(command) => Box::pin(rules::rules(common, command)).await,
            CliCommand::Bypass(args) => bypass::bypass(common, args).await,
            CliCommand::Ceiling(args) => ceiling::ceiling(common, args).await,
            CliCommand::Hook(command) => hook::hook(common, command),
            CliCommand::Stop(args) => stop::stop(common, args).await,
            CliCommand::Open => open::open(common).await,
            CliCommand::Completions { shell } => completions(shell),
            CliCommand::Demo(command) => Box::pin(demo::run(command)).await,
            CliCommand::Mcp(args) => crate::mcp::mcp(args),
            CliCommand::Runner(args) => runner::runner(args).await,
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<CliExit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "countersign", &mut script);
    crate::output::print(&String::from_utf8_lossy(&script))?;
    Ok(CliExit::Ok)
}

impl CommonArgs {
    /// Where the host is, and with which token.
    pub(crate) fn endpoint(&self) -> Result<HostEndpoint, CliError> {
        let token = self.token()?;
        let Some(url) = self
            .url
            .clone()
            .or_else(|| environment_variable("COUNTERSIGN_URL"))
        else {
            let paths = HostPaths::from_environment()?;
            paths.check_runtime_dir()?;
            return Ok(HostEndpoint {
                address: HostAddress::Socket(paths.socket),
                token,
                agent_id: None,
            });
        };
        if token.is_none() {
            return Err(CliError::Usage {
                what: "a connection over TCP needs a token".into(),
                hint: Some("set COUNTERSIGN_TOKEN or give --token-file".into()),
            });
        }
        Ok(HostEndpoint {
            address: HostAddress::parse_url(&url)?,
            token,
            agent_id: None,
        })
    }

    pub(crate) async fn connect(&self) -> Result<HostClient, CliError> {
        HostClient::connect(&self.endpoint()?).await
    }

    fn token(&self) -> Result<Option<String>, CliError> {
        let Some(path) = &self.token_file else {
            return Ok(environment_variable("COUNTERSIGN_TOKEN"));
        };
        let text = std::fs::read_to_string(path).map_err(|source| {
            CliError::io(format!("could not read `{}`", path.display()), source)
        })?;
        Ok(Some(text.trim().to_owned()))
    }
}

fn environment_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_command_explains_itself() {
        let command = arranged_command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            let groups = COMMAND_GROUPS.iter().flat_map(|(_, names)| names.iter());
            let listed = groups.filter(|name| **name == sub.get_name()).count();
            assert_eq!(listed, 1, "{} is in one group", sub.get_name());
        }
        assert!(
            command
                .clone()
                .render_long_help()
                .to_string()
                .contains("11  no such id")
        );
    }

    #[test]
    fn prose_is_joined_and_examples_keep_their_lines() {
        let text = "Examples:\n  a\n  b\n\nOne\ntwo.\n\nThree.";
        let joined = "Examples:\n  a\n  b\n\nOne two.\n\nThree.";
        assert_eq!(join_paragraphs(text), joined);
    }

    #[test]
    fn options_of_every_command_come_last() {
        let mut command = arranged_command();
        command.build();
        let spawn = command.find_subcommand_mut("spawn").unwrap();
        let help = spawn.render_help().to_string();
        let at = |text: &str| help.find(text).unwrap();
        assert!(at("--wait") < at("--json"), "{help}");
        assert!(at("--json") < at("--help"), "{help}");
    }
}
