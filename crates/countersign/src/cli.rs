//! The command line: what can be typed, and where each command lives.

mod agents;
pub(crate) mod ask;
mod audit;
mod bypass;
mod ceiling;
mod decide;
pub(crate) mod detach;
mod doctor;
pub(crate) mod down;
pub(crate) mod ending;
mod events;
mod family;
mod hook;
mod inbox;
mod kill;
mod left;
mod logs;
mod ls;
mod named;
mod open;
mod remember;
mod replace;
mod rules;
pub(crate) mod runner;
mod runners;
mod spawn;
mod status;
mod steer;
mod stop;
mod token;
mod up;
mod words;
pub(crate) mod worktree;

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::client::{Address, Client, Endpoint};
use crate::exit::Exit;
use crate::failure::CliError;
use crate::paths::Paths;
use crate::{demo, watch};

/// One inbox between AI agents and the machine they work on.
#[derive(Parser)]
#[command(name = "countersign", version, after_long_help = Exit::help(), disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Args, Clone)]
pub(crate) struct Common {
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
pub(crate) enum Command {
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
    Resume(steer::OneArgs),
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

impl Command {
    /// Whether the command runs a host.
    pub(crate) fn needs_threads(&self) -> bool {
        matches!(self, Self::Up(_))
    }
}

impl Cli {
    pub(crate) async fn run(self) -> Result<Exit, CliError> {
        let common = &self.common;
        match self.command {
            Command::Up(args) => Box::pin(up::up(args)).await,
            Command::Down(args) => down::down(common, args).await,
            Command::Status => status::status(common).await,
            Command::Doctor => doctor::doctor(common).await,
            Command::Agents(args) => agents::agents(common, args).await,
            Command::Spawn(args) => Box::pin(spawn::spawn(common, *args)).await,
            Command::Ls(args) => ls::ls(common, args).await,
            Command::Send(args) => Box::pin(steer::send(common, args)).await,
            Command::Interrupt(args) => steer::interrupt(common, args).await,
            Command::Kill(args) => kill::kill(common, args).await,
            Command::Wait(args) => steer::wait(common, args).await,
            Command::Resume(args) => steer::resume(common, args).await,
            Command::Archive(args) => steer::archive(common, args).await,
            Command::Rename(args) => steer::rename(common, args).await,
            Command::Configure(args) => steer::configure(common, args).await,
            Command::Logs(args) => Box::pin(logs::logs(common, args)).await,
            Command::Diff(args) => worktree::diff(common, args).await,
            Command::Worktree(command) => worktree::worktree(common, command).await,
            Command::Inbox(args) => inbox::inbox(common, args).await,
            Command::Show(args) => inbox::show(common, args).await,
            Command::Approve(args) => decide::approve(common, args).await,
            Command::Deny(args) => decide::deny(common, args).await,
            Command::Answer(args) => decide::answer(common, args).await,
            Command::Watch => watch::watch(&common.endpoint()?, "").await,
            Command::Events(args) => events::events(common, args).await,
            Command::Ask(args) => Box::pin(ask::ask(common, args)).await,
            Command::Token(command) => token::token(common, command).await,
            Command::Audit(command) => audit::audit(common, command).await,
            Command::Rules(command) => Box::pin(rules::rules(common, command)).await,
            Command::Bypass(args) => bypass::bypass(common, args).await,
            Command::Ceiling(args) => ceiling::ceiling(common, args).await,
            Command::Hook(command) => hook::hook(common, command),
            Command::Stop(args) => stop::stop(common, args).await,
            Command::Open => open::open(common).await,
            Command::Completions { shell } => completions(shell),
            Command::Demo(command) => Box::pin(demo::run(command)).await,
            Command::Mcp(args) => crate::mcp::mcp(args),
            Command::Runner(args) => runner::runner(args).await,
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "countersign", &mut script);
    crate::output::put(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}

impl Common {
    /// Where the host is, and with which token.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, CliError> {
        let token = self.token()?;
        let Some(url) = self.url.clone().or_else(|| variable("COUNTERSIGN_URL")) else {
            let paths = Paths::from_environment()?;
            paths.check_runtime_dir()?;
            return Ok(Endpoint {
                address: Address::Socket(paths.socket),
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
        Ok(Endpoint {
            address: Address::parse_url(&url)?,
            token,
            agent_id: None,
        })
    }

    pub(crate) async fn connect(&self) -> Result<Client, CliError> {
        Client::connect(&self.endpoint()?).await
    }

    fn token(&self) -> Result<Option<String>, CliError> {
        let Some(path) = &self.token_file else {
            return Ok(variable("COUNTERSIGN_TOKEN"));
        };
        let text = std::fs::read_to_string(path).map_err(|source| {
            CliError::io(format!("could not read `{}`", path.display()), source)
        })?;
        Ok(Some(text.trim().to_owned()))
    }
}

fn variable(name: &str) -> Option<String> {
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
