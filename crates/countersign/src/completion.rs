//! Shell completion: commands and options from the command line itself, names and ids from a running host.
//!
//! Invariants: completion never fails and never waits long. Without a host, or with one that is slow or
//! refuses, there are no names and no ids. Only words that a shell takes as they are become candidates:
//! agents that the host does not run choose their own names, and a completed word is soon executed.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use countersign_protocol::{ListParams, ListStatus, Method, NoParams, RulesParams, method};
use tokio::runtime::Builder;

use crate::cli::CommonArgs;
use crate::client::HostClient;
use crate::duration;
use crate::error::CliError;
use crate::render::{approvals, escape, questions};

const PROGRAM: &str = "countersign";

/// The registered scripts set this when they ask for candidates.
const VARIABLE: &str = "COUNTERSIGN_COMPLETE";

/// How long the host may take: a person waits at the prompt.
const HOST_WAIT: Duration = Duration::from_millis(300);

/// More than anybody reads in a list of candidates.
const CANDIDATES_MAX: u64 = 200;

/// Prints candidates if a shell asks for them. Says whether it did.
pub(crate) fn complete(command: impl Fn() -> Command) -> Result<bool, clap::Error> {
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .bin(PROGRAM)
        .try_complete(std::env::args_os(), directory.as_deref())
}

/// What a shell has to run so that it asks this program for candidates.
pub(crate) fn registration(shell: Shell) -> Result<String, CliError> {
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell.to_string())
        .ok_or_else(|| CliError::usage(format!("no completions for `{shell}`")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(|source| CliError::io("could not write the completions", source))?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Adds completion of names and ids to every argument that takes them.
pub(crate) fn add_value_completers(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command
        .mut_args(|arg| match completer(&name, &arg) {
            Some(completer) => arg.add(completer),
            None => arg,
        })
        .mut_subcommands(add_value_completers)
}

fn completer(command: &str, arg: &Arg) -> Option<ArgValueCompleter> {
    match (command, arg.get_id().as_str()) {
        ("spawn" | "acp", "agent") => Some(ArgValueCompleter::new(complete_catalog)),
        (_, "agent" | "agents" | "session") | ("acp", "attach") => {
            Some(ArgValueCompleter::new(complete_agents))
        }
        ("approve" | "deny", "id" | "ids") | ("suggest", "approval") => {
            Some(ArgValueCompleter::new(complete_asks))
        }
        ("answer" | "show", "id") => Some(ArgValueCompleter::new(complete_inbox)),
        ("remove", "id") => Some(ArgValueCompleter::new(complete_grants)),
        ("attach" | "close", "terminal") => Some(ArgValueCompleter::new(complete_terminals)),
        ("revoke", "id") => Some(ArgValueCompleter::new(complete_tokens)),
        _ => None,
    }
}

fn complete_agents(current: &OsStr) -> Vec<CompletionCandidate> {
    let agents = ask_host::<method::Agents>(&NoParams {}).unwrap_or_default();
    let shown = agents.iter().filter(|agent| {
        let managed = agent.managed.as_ref();
        !managed.is_some_and(|managed| managed.archived)
    });
    candidates(
        current,
        shown.map(|agent| (agent.name.clone(), agent.state.to_string())),
    )
}

fn complete_catalog(current: &OsStr) -> Vec<CompletionCandidate> {
    let rows = ask_host::<method::Catalog>(&NoParams {}).unwrap_or_default();
    candidates(current, rows.into_iter().map(|row| (row.name, row.title)))
}

fn complete_asks(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(current, open_asks(current))
}

fn complete_inbox(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(
        current,
        open_asks(current)
            .into_iter()
            .chain(open_questions(current)),
    )
}

fn complete_grants(current: &OsStr) -> Vec<CompletionCandidate> {
    let rules = ask_host::<method::Rules>(&RulesParams::default());
    let grants = rules.map(|rules| rules.grants).unwrap_or_default();
    candidates(
        current,
        grants
            .into_iter()
            .map(|grant| (typed_id(&grant.id, current), grant.rule)),
    )
}

fn complete_tokens(current: &OsStr) -> Vec<CompletionCandidate> {
    let tokens = ask_host::<method::Tokens>(&NoParams {}).unwrap_or_default();
    candidates(
        current,
        tokens.into_iter().map(|token| (token.id, token.name)),
    )
}

fn complete_terminals(current: &OsStr) -> Vec<CompletionCandidate> {
    let rows = ask_host::<method::OwnTerminals>(&NoParams {}).unwrap_or_default();
    candidates(current, rows.into_iter().map(|row| (row.id, row.command)))
}

fn open_asks(current: &OsStr) -> Vec<(String, String)> {
    let asks = ask_host::<method::Approvals>(&pending()).unwrap_or_default();
    asks.iter()
        .map(|row| (typed_id(&row.id, current), approvals::summary(row)))
        .collect()
}

fn open_questions(current: &OsStr) -> Vec<(String, String)> {
    let rows = ask_host::<method::Questions>(&pending()).unwrap_or_default();
    let now = duration::now();
    rows.iter()
        .map(|row| (typed_id(&row.id, current), questions::summary(row, now)))
        .collect()
}

fn pending() -> ListParams {
    ListParams {
        status: Some(ListStatus::Pending),
        limit: Some(CANDIDATES_MAX),
        ..ListParams::default()
    }
}

/// The id as the lists show it, or in full for whoever began to type its prefix.
fn typed_id(id: &str, current: &OsStr) -> String {
    let prefixes = ["approval-", "question-", "grant-"];
    let current = current.to_string_lossy();
    if prefixes.iter().any(|prefix| current.starts_with(prefix)) {
        return id.to_owned();
    }
    approvals::short_id(id)
}

/// Those that begin with what was typed, each with its description.
fn candidates(
    current: &OsStr,
    found: impl IntoIterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    found
        .into_iter()
        .filter(|(value, _)| value.starts_with(&*typed) && is_plain_word(value))
        .map(|(value, help)| {
            let help = escape::line(&help).into_owned();
            CompletionCandidate::new(value).help(Some(help.into()))
        })
        .collect()
}

/// Whether every shell takes the word as it is.
fn is_plain_word(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with('-')
        && word
            .chars()
            .all(|letter| letter.is_alphanumeric() || "-_.".contains(letter))
}

/// What the host of this environment answers, if it does so at once.
fn ask_host<M: Method>(params: &M::Params) -> Option<M::Result> {
    let endpoint = CommonArgs::default().endpoint().ok()?;
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let answer = runtime.block_on(async {
        let exchange = async {
            let mut client = HostClient::connect(&endpoint).await.ok()?;
            client.call::<M>(params).await.ok()
        };
        tokio::time::timeout(HOST_WAIT, exchange)
            .await
            .ok()
            .flatten()
    });
    runtime.shutdown_background();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_no_shell_interprets_are_offered() {
        let found = [
            "ann",
            "an-2.x_y",
            "ana\u{e9}",
            "an$(id)",
            "an d",
            "bob",
            "an;d",
            "",
        ];
        let found = found.map(|name| (name.to_owned(), "idle".to_owned()));
        let offered = candidates(OsStr::new("an"), found);
        let values: Vec<_> = offered
            .iter()
            .map(|candidate| candidate.get_value().to_string_lossy())
            .collect();
        assert_eq!(values, ["ann", "an-2.x_y", "ana\u{e9}"]);
    }

    #[test]
    fn an_id_is_completed_in_the_form_that_was_begun() {
        let id = "approval-1a2b3c4d5e6f";
        assert_eq!(typed_id(id, OsStr::new("1a")), "1a2b3c4d");
        assert_eq!(typed_id(id, OsStr::new("approval-1")), id);
    }

    #[test]
    fn every_shell_has_a_registration_that_names_the_program() {
        for shell in [
            Shell::Bash,
            Shell::Elvish,
            Shell::Fish,
            Shell::PowerShell,
            Shell::Zsh,
        ] {
            let script = registration(shell).unwrap();
            assert!(script.contains(VARIABLE), "{shell}: {script}");
        }
    }
}
