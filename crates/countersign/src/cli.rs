//! The command line: what can be typed, and where each command lives.

mod agent_lookup;
mod agent_tree;
mod agents;
mod args;
pub(crate) mod ask;
mod ask_selection;
mod audit;
mod bypass;
mod ceiling;
pub(crate) mod confine;
mod decide;
pub(crate) mod detach;
mod doctor;
pub(crate) mod down;
mod events;
mod hook;
mod inbox;
mod keys;
mod kill;
mod logs;
mod ls;
mod notify;
mod open;
mod orphans;
mod queue;
mod remember;
mod replace;
mod rules;
pub(crate) mod runner;
mod runners;
#[cfg(target_os = "linux")]
mod sandbox;
mod search;
mod service;
mod shell;
pub(crate) mod shutdown;
mod spawn;
mod status;
mod steer;
mod stop;
mod terminal;
mod token;
mod up;
pub(crate) mod worktree;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use countersign_protocol::Method;
use serde::Serialize;

pub(crate) use args::split_command;

use crate::client::{HostAddress, HostClient, HostEndpoint};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::paths::HostPaths;
use crate::{completion, demo, man_pages, output, tui, watch};

/// One inbox between AI agents and the machine they work on.
#[derive(Parser)]
#[command(name = "countersign", version, after_long_help = closing_help())]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

/// What every command understands.
#[derive(Args, Clone, Default)]
pub(crate) struct CommonArgs {
    /// Print JSON, errors included: one document, or one per line where events are followed
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// When to use colour; `NO_COLOR` turns it off as well
    #[arg(
        long,
        global = true,
        display_order = 901,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true
    )]
    color: ColorArg,
    /// Connect over TCP to `ws://HOST:PORT/` (or set `COUNTERSIGN_URL`); needs a token
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection")]
    url: Option<String>,
    /// Read the token from this file instead of `COUNTERSIGN_TOKEN`
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    token_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum ColorArg {
    /// On a terminal
    #[default]
    Auto,
    Always,
    Never,
}

impl From<ColorArg> for anstream::ColorChoice {
    fn from(color: ColorArg) -> Self {
        match color {
            ColorArg::Auto => Self::Auto,
            ColorArg::Always => Self::Always,
            ColorArg::Never => Self::Never,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Start the host
    Up(up::UpArgs),
    /// Stop the host; agents keep running, `--all` ends them too
    Down(down::DownArgs),
    /// Show the state of the host
    #[command(
        after_help = "Examples:\n  countersign status\n  countersign status --json | jq .pending_approvals\n  countersign status --line"
    )]
    Status(status::StatusArgs),
    /// Check the installation and suggest fixes
    #[command(
        after_help = "Examples:\n  countersign doctor\n  countersign doctor --json\n\nExits with 1 if any check fails; warnings alone exit with 0."
    )]
    Doctor,
    /// List the agents that can be started here
    #[command(
        after_help = "Examples:\n  countersign agents\n  countersign agents --json | jq -r '.agents[] | select(.installed) | .name'"
    )]
    Agents,
    /// Start an agent
    Spawn(Box<spawn::SpawnArgs>),
    /// List agents, those that need you first
    Ls(ls::LsArgs),
    /// Send a message to an agent
    Send(steer::SendArgs),
    /// List or withdraw messages that wait for an agent
    Queue(queue::QueueArgs),
    /// Interrupt the current turn of an agent
    Interrupt(steer::InterruptArgs),
    /// End an agent and every process it started
    Kill(kill::KillArgs),
    /// Wait until agents are idle
    Wait(steer::WaitArgs),
    /// Start an ended agent again; it continues its session
    #[command(after_help = "Examples:\n  countersign resume builder")]
    Resume(steer::ResumeArgs),
    /// Start a second agent from a copy of an agent's session
    Fork(agents::ForkArgs),
    /// Archive an agent
    Archive(steer::ArchiveArgs),
    /// Restore an archived agent
    #[command(after_help = "Examples:\n  countersign unarchive builder")]
    Unarchive(steer::UnarchiveArgs),
    /// Rename an agent
    #[command(after_help = "Examples:\n  countersign rename builder api-builder")]
    Rename(steer::RenameArgs),
    /// Change the mode or model of an agent
    Configure(steer::ConfigureArgs),
    /// Print the transcript of an agent
    Logs(logs::LogsArgs),
    /// Search the transcripts of all agents for words
    Search(search::SearchArgs),
    /// List the terminals of an agent, or follow the output of one (for your own: `shell`)
    Terminal(terminal::TerminalArgs),
    /// Show what an agent changed in its worktree
    Diff(worktree::DiffArgs),
    /// List, merge and remove agents' worktrees
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign worktree list\n  countersign worktree merge builder\n  countersign worktree remove builder"
    )]
    Worktree(worktree::WorktreeCommand),
    /// List open asks and questions, oldest first
    #[command(
        after_help = "Examples:\n  countersign inbox\n  countersign inbox --agent builder --json\n  countersign inbox --label team=web"
    )]
    Inbox(inbox::InboxArgs),
    /// Show an ask or question
    #[command(
        after_help = "Examples:\n  countersign show 1a2b3c4d\n  countersign show 1a2b3c4d --full\n  countersign show question-1a2b3c4d --json"
    )]
    Show(inbox::ShowArgs),
    /// Allow asks
    Approve(decide::ApproveArgs),
    /// Deny asks
    Deny(decide::DenyArgs),
    /// Answer a question
    Answer(decide::AnswerArgs),
    /// Open the terminal UI: inbox, agents and transcripts
    #[command(after_help = tui::HELP)]
    Tui(tui::TuiArgs),
    /// Watch the inbox and answer with single keys
    #[command(after_help = watch::KEYS_HELP)]
    Watch,
    /// Print recorded events
    Events(events::EventsArgs),
    /// Ask for permission from a script and wait for the answer
    Ask(ask::AskArgs),
    /// Create, list and revoke tokens
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign token create --role operator --name ci\n  countersign token list"
    )]
    Token(token::TokenCommand),
    /// Test and list notification channels
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign notify test\n  countersign notify status\n\nChannels are set under `[notify]` in config.toml."
    )]
    Notify(notify::NotifyCommand),
    /// Verify, prune and export the audit log
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign audit verify\n  countersign audit export > record.jsonl"
    )]
    Audit(audit::AuditCommand),
    /// List, add and test rules
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign rules list\n  countersign rules add 'Bash(cargo test:*)' --project\n  countersign rules explain 'make && git push'"
    )]
    Rules(rules::RulesCommand),
    /// Allow all asks of an agent for a limited time
    Bypass(bypass::BypassArgs),
    /// Let an orchestrator approve some asks of the agents it started
    Ceiling(ceiling::CeilingArgs),
    /// Connect sessions you start yourself (Claude Code hooks)
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign hook install claude\n  countersign hook uninstall claude"
    )]
    Hook(hook::HookCommand),
    /// Deny all open asks and interrupt all agents
    Stop(stop::StopArgs),
    /// Serve the host's tools to an agent as an MCP server on stdin and stdout
    Mcp(crate::mcp::McpArgs),
    /// Serve agents to an editor over the Agent Client Protocol on stdin and stdout
    Acp(crate::acp::AcpArgs),
    /// Start the host at login (systemd or launchd)
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign service install\n  countersign service status"
    )]
    Service(service::ServiceCommand),
    /// Check what the sandbox of agents stops on this machine
    #[cfg(target_os = "linux")]
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign sandbox check\n  countersign sandbox explain builder"
    )]
    Sandbox(sandbox::SandboxCommand),
    /// Open, list and attach to your own terminals (for those of agents: `terminal`)
    #[command(
        subcommand,
        after_help = "Examples:\n  countersign shell open --attach\n  countersign shell list\n  countersign shell attach 1a2b\n\nThe host runs them, each under a process of its own: they outlive the screen, the host and the ssh line. The terminal UI shows the same ones (`g x`). Only operators can use them; no agent can."
    )]
    Shell(shell::ShellCommand),
    /// Print a one-time link to the web page
    Open(open::OpenArgs),
    /// Print the commands of the terminal UI with their keys
    #[command(
        after_help = "Examples:\n  countersign keys\n  countersign keys --markdown > keys.md"
    )]
    Keys(keys::KeysArgs),
    /// Print what a shell needs to complete commands, names and ids
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder, which must exist
        folder: PathBuf,
    },
    #[command(subcommand, hide = true)]
    Demo(demo::DemoCommand),
    /// Run one agent for the host
    #[command(hide = true)]
    Runner(runner::RunnerArgs),
}

/// What follows the options in `countersign --help`.
fn closing_help() -> String {
    format!(
        "Examples:\n  \
         countersign up --detach\n  \
         countersign spawn --agent claude --name fix --worktree 'Fix the failing test'\n  \
         countersign\n\n{}",
        CliExit::help()
    )
}

const COMPLETIONS_HELP: &str = "Examples:
  countersign completions bash > ~/.local/share/bash-completion/completions/countersign
  countersign completions zsh > ~/.zfunc/_countersign   # with ~/.zfunc in fpath
  countersign completions fish > ~/.config/fish/completions/countersign.fish

Names of agents and ids of asks come from the running host. Without one, only commands and options
are completed.";

impl Cli {
    /// Whether the command runs a host.
    pub(crate) fn needs_threads(&self) -> bool {
        matches!(self.command, Some(CliCommand::Up(_)))
    }
}

/// The commands as `--help` lists them.
const COMMAND_GROUPS: [(&str, &str); 6] = [
    (
        "Run agents",
        "agents spawn ls send queue interrupt wait logs search terminal diff kill resume fork rename configure archive unarchive worktree",
    ),
    ("Decide", "tui inbox show approve deny answer watch stop"),
    ("Rules", "rules bypass ceiling"),
    ("Record", "events audit"),
    ("Connect", "acp ask hook mcp token notify"),
    (
        "Host",
        "up down status doctor sandbox service shell open keys completions help",
    ),
];

/// The command line with its commands in groups, and with help texts that only clap wraps.
pub(crate) fn arranged_command() -> clap::Command {
    let command = completion::add_value_completers(join_help_paragraphs(Cli::command()));
    let mut template = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (heading, names) in COMMAND_GROUPS {
        let _ = writeln!(template, "\n{heading}:");
        for name in names.split(' ') {
            let found = command.find_subcommand(name);
            let about = found.and_then(clap::Command::get_about).cloned();
            // `help` is made by clap, later.
            let about = about.unwrap_or_else(|| "Show the help of a command".into());
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
        anstream::ColorChoice::from(common.color).write_global();
        let Some(command) = self.command else {
            return Box::pin(without_command(common)).await;
        };
        // The large futures are boxed, so that the small commands do not carry their size.
        match command {
            CliCommand::Up(args) => Box::pin(up::up(common, args)).await,
            CliCommand::Down(args) => down::down(common, args).await,
            CliCommand::Status(args) => status::status(common, &args).await,
            CliCommand::Doctor => doctor::doctor(common).await,
            CliCommand::Agents => agents::agents(common).await,
            CliCommand::Spawn(args) => Box::pin(spawn::spawn(common, *args)).await,
            CliCommand::Ls(args) => ls::ls(common, args).await,
            CliCommand::Send(args) => Box::pin(steer::send(common, args)).await,
            CliCommand::Queue(args) => queue::queue(common, args).await,
            CliCommand::Interrupt(args) => steer::interrupt(common, args).await,
            CliCommand::Kill(args) => kill::kill(common, args).await,
            CliCommand::Wait(args) => steer::wait(common, args).await,
            CliCommand::Resume(args) => steer::resume(common, args).await,
            CliCommand::Fork(args) => agents::fork(common, args).await,
            CliCommand::Archive(args) => steer::archive(common, args).await,
            CliCommand::Unarchive(args) => steer::unarchive(common, args).await,
            CliCommand::Rename(args) => steer::rename(common, args).await,
            CliCommand::Configure(args) => steer::configure(common, args).await,
            CliCommand::Logs(args) => Box::pin(logs::logs(common, args)).await,
            CliCommand::Search(args) => search::search(common, args).await,
            CliCommand::Terminal(args) => terminal::terminal(common, args).await,
            CliCommand::Diff(args) => worktree::diff(common, args).await,
            CliCommand::Worktree(command) => worktree::worktree(common, command).await,
            CliCommand::Inbox(args) => inbox::inbox(common, args).await,
            CliCommand::Show(args) => inbox::show(common, args).await,
            CliCommand::Approve(args) => decide::approve(common, args).await,
            CliCommand::Deny(args) => decide::deny(common, args).await,
            CliCommand::Answer(args) => decide::answer(common, args).await,
            CliCommand::Tui(args) => Box::pin(tui::tui(&common.endpoint()?, &args, "")).await,
            CliCommand::Keys(args) => keys::keys(common, &args),
            CliCommand::Watch => watch::watch(&common.endpoint()?, "").await,
            CliCommand::Events(args) => events::events(common, args).await,
            CliCommand::Ask(args) => Box::pin(ask::ask(common, args)).await,
            CliCommand::Token(command) => token::token(common, command).await,
            CliCommand::Notify(command) => notify::notify(common, command).await,
            CliCommand::Audit(command) => audit::audit(common, command).await,
            CliCommand::Rules(command) => Box::pin(rules::rules(common, command)).await,
            CliCommand::Bypass(args) => bypass::bypass(common, args).await,
            CliCommand::Ceiling(args) => ceiling::ceiling(common, args).await,
            CliCommand::Hook(command) => hook::hook(common, command),
            CliCommand::Stop(args) => stop::stop(common, args).await,
            CliCommand::Service(command) => service::service(common, command),
            #[cfg(target_os = "linux")]
            CliCommand::Sandbox(command) => sandbox::sandbox(common, command).await,
            CliCommand::Shell(command) => Box::pin(shell::shell(common, command)).await,
            CliCommand::Open(args) => open::open(common, &args).await,
            CliCommand::Completions { shell } => completions(shell),
            CliCommand::Man { folder } => man(&folder),
            CliCommand::Demo(command) => Box::pin(demo::run(command)).await,
            CliCommand::Mcp(args) => crate::mcp::mcp(args),
            CliCommand::Acp(args) => Box::pin(crate::acp::acp(common, args)).await,
            CliCommand::Runner(args) => runner::runner(args).await,
        }
    }
}

/// On a terminal the terminal UI; elsewhere the help, and it is an error that no command was given.
async fn without_command(common: &CommonArgs) -> Result<CliExit, CliError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let help = arranged_command().render_help().ansi().to_string();
        output::print(&help)?;
        return Ok(CliExit::Usage);
    }
    let args = tui::TuiArgs::default();
    Box::pin(tui::tui(&common.endpoint()?, &args, "")).await
}

fn completions(shell: clap_complete::Shell) -> Result<CliExit, CliError> {
    output::print(&completion::registration(shell)?)?;
    Ok(CliExit::Ok)
}

fn man(folder: &Path) -> Result<CliExit, CliError> {
    let pages = man_pages::write_pages(arranged_command(), folder);
    let pages = pages.map_err(|source| {
        CliError::io(
            format!("could not write into `{}`", folder.display()),
            source,
        )
    })?;
    output::print(&format!("{pages} pages\n"))?;
    Ok(CliExit::Ok)
}

impl CommonArgs {
    /// Where the host is, and with which token.
    pub(crate) fn endpoint(&self) -> Result<HostEndpoint, CliError> {
        let token = self.token()?;
        let url = self.url.clone();
        let Some(url) = url.or_else(|| environment_variable("COUNTERSIGN_URL")) else {
            let paths = HostPaths::from_environment()?;
            // Whoever can replace the socket can take the answers that are meant for the host.
            paths.check_runtime_dir()?;
            let address = HostAddress::Socket(paths.socket);
            return Ok(HostEndpoint { address, token });
        };
        // On the socket the kernel says which user calls. TCP does not, so a token has to.
        if token.is_none() {
            return Err(CliError::usage("a connection over TCP needs a token")
                .with_hint("set COUNTERSIGN_TOKEN or give --token-file"));
        }
        let address = HostAddress::parse_url(&url)?;
        Ok(HostEndpoint { address, token })
    }

    /// Whether the host is reached over TCP, so that its files may be on another machine.
    pub(crate) fn is_remote(&self) -> bool {
        self.url.is_some() || environment_variable("COUNTERSIGN_URL").is_some()
    }

    pub(crate) async fn connect(&self) -> Result<HostClient, CliError> {
        HostClient::connect(&self.endpoint()?).await
    }

    /// Connects for one call.
    pub(crate) async fn call<M: Method>(&self, params: &M::Params) -> Result<M::Result, CliError> {
        Ok(self.connect().await?.call::<M>(params).await?)
    }

    /// Prints a result on stdout: as JSON where that was asked for, else as `text` has it.
    pub(crate) fn print(
        &self,
        result: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<CliExit, CliError> {
        if self.json {
            output::print_json(result)?;
        } else {
            output::print(&text())?;
        }
        Ok(CliExit::Ok)
    }

    fn token(&self) -> Result<Option<String>, CliError> {
        let Some(path) = &self.token_file else {
            return Ok(environment_variable("COUNTERSIGN_TOKEN"));
        };
        let text =
            std::fs::read_to_string(path).map_err(|source| CliError::file("read", path, source))?;
        Ok(Some(text.trim().to_owned()))
    }
}

fn environment_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::engine::ArgValueCompleter;

    #[test]
    fn the_command_line_is_consistent_and_every_command_explains_itself() {
        let command = arranged_command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            let groups = COMMAND_GROUPS
                .iter()
                .flat_map(|(_, names)| names.split(' '));
            let listed = groups.filter(|name| *name == sub.get_name()).count();
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
    fn every_help_has_examples() {
        let mut command = arranged_command();
        command.build();
        let mut without = Vec::new();
        each_visible(&command, &mut |sub| {
            let help = sub.clone().render_long_help().to_string();
            if !help.contains("\nExamples:\n  ") {
                without.push(sub.get_display_name().unwrap_or_default().to_owned());
            }
        });
        assert_eq!(without, Vec::<String>::new());
    }

    #[test]
    fn every_argument_that_takes_a_name_or_an_id_completes_it() {
        let mut without = Vec::new();
        each_visible(&arranged_command(), &mut |sub| {
            for arg in sub.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let takes_one = ["Name or id", "Names or ids", "Id of", "Ids of", "Id from"]
                    .iter()
                    .any(|begin| help.starts_with(begin));
                if takes_one && arg.get::<ArgValueCompleter>().is_none() {
                    without.push(format!("{} {}", sub.get_name(), arg.get_id()));
                }
            }
        });
        assert_eq!(without, Vec::<String>::new());
    }

    fn each_visible(command: &clap::Command, visit: &mut impl FnMut(&clap::Command)) {
        visit(command);
        for sub in command.get_subcommands() {
            if !sub.is_hide_set() && sub.get_name() != "help" {
                each_visible(sub, visit);
            }
        }
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
