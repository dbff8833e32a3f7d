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

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

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
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Reach the host over TCP: `ws://HOST:PORT/`, or `COUNTERSIGN_URL`; needs a token
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection")]
    url: Option<String>,
    /// Read the token from a file instead of `COUNTERSIGN_TOKEN`
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    token_file: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Start the host
    Up(up::UpArgs),
    /// End the host, and wait until it is gone; agents stay unless told
    Down(down::DownArgs),
    /// Show the host at a glance
    #[command(
        after_help = "Examples:\n  countersign status\n  countersign status --json | jq .pending_approvals"
    )]
    Status,
    /// Check everything a host needs, and say what to do
    #[command(after_help = "Exits with 1 if any check fails; warnings alone exit with 0.")]
    Doctor,
    /// List the agents that can be started here, and what to do for the others
    Agents(agents::AgentsArgs),
    /// Start an agent
    Spawn(Box<spawn::SpawnArgs>),
    /// List the agents: what needs a person first
    Ls(ls::LsArgs),
    /// Tell an agent something; it waits while the agent works
    Send(steer::SendArgs),
    /// End an agent's turn
    Interrupt(steer::InterruptArgs),
    /// End an agent, with everything it started
    Kill(kill::KillArgs),
    /// Wait until agents have nothing to do
    Wait(steer::WaitArgs),
    /// Start an agent again where it was
    #[command(after_help = "Example:\n  countersign resume builder")]
    Resume(steer::ResumeArgs),
    /// Put an agent away
    Archive(steer::ArchiveArgs),
    /// Give an agent another name
    #[command(after_help = "Example:\n  countersign rename builder api-builder")]
    Rename(steer::RenameArgs),
    /// Give an agent another mode or model
    Configure(steer::ConfigureArgs),
    /// Print what an agent said and did
    Logs(logs::LogsArgs),
    /// Show what an agent changed in its worktree
    Diff(worktree::DiffArgs),
    /// Clear agents' worktrees away
    #[command(subcommand)]
    Worktree(worktree::WorktreeCommand),
    /// List what waits for a person: asks and questions, oldest first
    #[command(
        after_help = "Examples:\n  countersign inbox\n  countersign inbox --agent builder --json"
    )]
    Inbox(inbox::InboxArgs),
    /// Show one ask or question whole
    #[command(
        after_help = "Examples:\n  countersign show 1a2b3c4d\n  countersign show question-1a2b3c4d --json"
    )]
    Show(inbox::ShowArgs),
    /// Allow an ask
    Approve(decide::ApproveArgs),
    /// Deny an ask
    Deny(decide::DenyArgs),
    /// Answer a question with words
    Answer(decide::AnswerArgs),
    /// Watch the inbox live and answer by key
    #[command(after_help = watch::KEYS_HELP)]
    Watch,
    /// Print the record of what happened
    Events(events::EventsArgs),
    /// Ask for permission from a script, and wait for the answer
    Ask(ask::AskArgs),
    /// Make, list and revoke tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Prove, trim and export the record
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// See, make and try the rules that settle asks without a person
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    /// Let an agent's asks through without a person, for a while
    Bypass(bypass::BypassArgs),
    /// Say what an orchestrator may settle for agents below it
    Ceiling(ceiling::CeilingArgs),
    /// Have sessions that the host did not start ask here, through their tools' hooks
    #[command(subcommand)]
    Hook(hook::HookCommand),
    /// Deny everything open and interrupt every agent
    Stop(stop::StopArgs),
    /// Give an agent the host's tools, as an MCP server on standard input and output
    Mcp(crate::mcp::McpArgs),
    /// Print a link that opens the web page once
    #[command(after_help = "Example:\n  xdg-open \"$(countersign open)\"")]
    Open,
    /// Print completions for a shell
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

impl Cli {
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
                what: "over TCP the host needs a token".into(),
                hint: Some("put one in COUNTERSIGN_TOKEN, or give --token-file".into()),
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
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
        }
        assert!(
            command
                .clone()
                .render_long_help()
                .to_string()
                .contains("11  no such id")
        );
    }
}
