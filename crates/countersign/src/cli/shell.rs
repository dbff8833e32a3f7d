//! `shell`: a person's own terminals, which the host runs. They outlive the screen, the host and the ssh line.
//!
//! Not `terminal`, which shows what commands of agents print, and in which nothing can be typed.

mod attach;
mod detach_key;
mod saved_screen;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_protocol::{
    NoParams, OpenTerminalParams, OwnTerminalParams, OwnTerminalRow, Time, method,
};

use self::detach_key::DetachKey;
use super::CommonArgs;
use super::args::absolute_folder;
use super::terminal::describe_end;
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Subcommand)]
pub(crate) enum ShellCommand {
    /// List your own terminals
    #[command(
        after_help = "Examples:\n  countersign shell list\n  countersign shell list --json | jq -r '.terminals[].id'"
    )]
    List,
    /// Open a terminal and print its id
    Open(OpenShellArgs),
    /// Type into one of your terminals from here, until you detach or its program ends
    Attach(AttachShellArgs),
    /// Close a terminal and end every process in it
    #[command(after_help = "Examples:\n  countersign shell close 1a2b")]
    Close {
        /// Id of the terminal, or the beginning of it
        terminal: String,
    },
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign shell open --attach
  countersign shell open --agent builder
  countersign shell open --cwd ~/src/app -- cargo watch -x test
  countersign shell open -- 'make && ./serve'

Without COMMAND the terminal runs your shell, interactively. A single word is a line for the shell;
several are a program and its arguments. What runs in the terminal has your permissions and not those
of an agent, and keeps running when the host stops: end it with `countersign shell close`.")]
pub(crate) struct OpenShellArgs {
    /// Folder to open it in [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with = "agent")]
    cwd: Option<PathBuf>,
    /// Name or id of the agent in whose folder it opens
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Attach to it at once
    #[arg(long)]
    attach: bool,
    /// What it runs instead of an interactive shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign shell attach 1a2b
  countersign shell attach 1a2b --detach-key ctrl-q

First shows what is on the screen of the terminal. Then every key goes to its program, except the one
that detaches: Ctrl-], or the one you choose. The program keeps running when you detach, when the
connection is lost and when the host is replaced. The terminal takes the size of this one; if it is
open in several places, the last change of size applies.")]
pub(crate) struct AttachShellArgs {
    /// Id of the terminal, or the beginning of it
    terminal: String,
    /// Key that detaches: ctrl-] and the like, or none
    #[arg(long, value_name = "KEY", default_value_t)]
    detach_key: DetachKey,
}

pub(super) async fn shell(common: &CommonArgs, command: ShellCommand) -> Result<CliExit, CliError> {
    match command {
        ShellCommand::List => list(common).await,
        ShellCommand::Open(args) => open(common, args).await,
        ShellCommand::Attach(args) => {
            let row = find(&mut common.connect().await?, &args.terminal).await?;
            attach::attach(common, &row.id, args.detach_key).await
        }
        ShellCommand::Close { terminal } => close(common, &terminal).await,
    }
}

async fn list(common: &CommonArgs) -> Result<CliExit, CliError> {
    let terminals = common.call::<method::OwnTerminals>(&NoParams {}).await?;
    if common.json {
        output::print_json(&BTreeMap::from([("terminals", terminals)]))?;
    } else if terminals.is_empty() {
        output::print_message("no terminals; open one with `countersign shell open`");
    } else {
        let now = duration::now();
        output::print(&terminal_list(&terminals, now, output::list_width()))?;
    }
    Ok(CliExit::Ok)
}

fn terminal_list(terminals: &[OwnTerminalRow], now: Time, width: usize) -> String {
    let home = output::home_folder();
    let rows = terminals.iter().map(|row| {
        let folder = row.cwd.as_deref().unwrap_or_default();
        let folder = output::short_path(folder, &home);
        vec![
            row.id.clone(),
            describe_end(row.signal.as_deref(), row.exit_code, row.ended_at),
            duration::age(now, row.started_at),
            escape::line(&folder).into_owned(),
            escape::line(&row.command).into_owned(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::columns(&["ID", "STATE", "AGE", "FOLDER", "COMMAND"], &rows, width)
}

async fn open(common: &CommonArgs, args: OpenShellArgs) -> Result<CliExit, CliError> {
    if args.attach {
        attach::require_terminal()?;
    }
    let size = shown_size();
    let params = OpenTerminalParams {
        cwd: folder(common, &args)?,
        agent_id: args.agent,
        command: command_line(&args.command),
        columns: size.map(|size| size.0),
        rows: size.map(|size| size.1),
    };
    let row = common.call::<method::OpenTerminal>(&params).await?;
    if args.attach {
        return attach::attach(common, &row.id, DetachKey::default()).await;
    }
    common.print(&row, || format!("{}\n", row.id))
}

/// Columns and rows of the terminal that this command runs in.
fn shown_size() -> Option<(u16, u16)> {
    let is_shown = io::stdout().is_terminal();
    is_shown.then(crossterm::terminal::size)?.ok()
}

/// Where it opens; nothing leaves that to the host.
fn folder(common: &CommonArgs, args: &OpenShellArgs) -> Result<Option<String>, CliError> {
    if args.agent.is_some() {
        return Ok(None);
    }
    // The folders of the host's machine are not the ones that are seen from here.
    if common.is_remote() {
        let named = args.cwd.as_ref();
        return Ok(named.map(|folder| folder.display().to_string()));
    }
    absolute_folder(args.cwd.as_deref()).map(Some)
}

/// A single word is a line for the shell already.
fn command_line(words: &[String]) -> Option<String> {
    match words {
        [] => None,
        [line] => Some(line.clone()),
        words => {
            let quoted: Vec<_> = words.iter().map(|word| quote(word)).collect();
            Some(quoted.join(" "))
        }
    }
}

/// A word as a shell reads it back.
fn quote(word: &str) -> Cow<'_, str> {
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

/// Whether a letter means nothing else to a shell.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-./:=@%+,".contains(letter)
}

async fn close(common: &CommonArgs, terminal: &str) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let row = find(&mut client, terminal).await?;
    let params = OwnTerminalParams {
        terminal_id: row.id.clone(),
    };
    client.call::<method::CloseTerminal>(&params).await?;
    common.print(&row, || format!("closed {}\n", row.id))
}

async fn find(client: &mut HostClient, text: &str) -> Result<OwnTerminalRow, CliError> {
    let rows = client.call::<method::OwnTerminals>(&NoParams {}).await?;
    choose(rows, text)
}

/// The terminal with this id, or the only one whose id begins so.
fn choose(rows: Vec<OwnTerminalRow>, text: &str) -> Result<OwnTerminalRow, CliError> {
    let (exact, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.id == text);
    let others = others
        .into_iter()
        .filter(|row| !text.is_empty() && row.id.starts_with(text));
    let mut found = exact.into_iter().chain(others);
    let what = match (found.next(), found.next()) {
        (Some(row), _) if row.id == text => return Ok(row),
        (Some(row), None) => return Ok(row),
        (Some(_), Some(_)) => "is the beginning of more than one id",
        (None, _) => "is none of your terminals",
    };
    let what = format!("`{}` {what}", escape::line(text));
    Err(CliError::unknown_id(what).with_hint("list them with `countersign shell list`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> OwnTerminalRow {
        OwnTerminalRow {
            bytes: 0,
            columns: 80,
            command: "top\u{1b}[2J".into(),
            cwd: Some("/srv/app".into()),
            ended_at: None,
            exit_code: None,
            first_offset: 0,
            id: id.into(),
            rows: 24,
            signal: None,
            started_at: Time(0),
        }
    }

    #[test]
    fn a_list_says_what_runs_and_how_the_others_ended() {
        let rows = [
            row("aa11"),
            OwnTerminalRow {
                ended_at: Some(Time(60_000_000)),
                exit_code: Some(7),
                command: "/bin/sh".into(),
                ..row("bb22")
            },
        ];
        let shown = terminal_list(&rows, Time(120_000_000), 80);
        let expected = "\
ID    STATE    AGE  FOLDER    COMMAND
aa11  running  2m   /srv/app  top\\u{1b}[2J
bb22  exit 7   2m   /srv/app  /bin/sh
";
        assert_eq!(anstream::adapter::strip_str(&shown).to_string(), expected);
    }

    #[test]
    fn a_terminal_is_found_by_its_id_or_the_beginning_of_only_one() {
        let find = |text: &str| {
            let rows = vec![row("ab"), row("abc1"), row("abd2"), row("e3")];
            choose(rows, text).map(|row| row.id)
        };
        for (text, id) in [("ab", "ab"), ("abc", "abc1"), ("e", "e3"), ("abd2", "abd2")] {
            assert_eq!(find(text).unwrap(), id, "{text}");
        }
        for text in ["a", "", "x", "abc12"] {
            assert_eq!(find(text).unwrap_err().exit(), CliExit::UnknownId, "{text}");
        }
    }

    #[test]
    fn words_become_a_line_that_the_shell_takes_apart_again() {
        let line = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            command_line(&words)
        };
        assert_eq!(line(&[]), None);
        assert_eq!(line(&["make && ./serve"]).unwrap(), "make && ./serve");
        assert_eq!(
            line(&["printf", "%s", "a b", "it's", ""]).unwrap(),
            r"printf %s 'a b' 'it'\''s' ''"
        );
    }
}
