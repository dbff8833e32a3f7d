//! `rules init`: rules to begin with, shown before they are written; and the offer of them at the first
//! `up` or `spawn`.
//!
//! Invariant: no rule is written that was not shown and confirmed, by a person or by `--yes`.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use clap::{Args, ValueEnum};
use countersign_daemon::foreign_policy;
use countersign_rules::{FileKind, ForeignTool, StarterSet, import, parse_file};
use serde_json::json;

use super::user_file::{self, ExtendedFile};
use super::{CommonArgs, refuse_agents, report_broken};
use crate::cli::args;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::paths::HostPaths;
use crate::render::escape;
use crate::{output, rule_files};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules init
  countersign rules init --starter read
  countersign rules init --starter edit --import --yes

The set `read` allows agents to read and search inside the folder they work in, and to run commands that
can only read there, such as ls, grep and git diff. The set `edit` also allows edits, if that folder is a
git worktree of the agent's own (`spawn --worktree`). Commands that run code of the repository, such as
tests and builds, are in neither. The set `sandbox` also allows every command of agents that run in a
sandbox of level `full`, which is the default where the machine has it (see `countersign doctor`).

What will be written is shown first. A rules.toml that has rules keeps them; only what it lacks is added
at its end. --import adds the rules that other tools have on this machine, as `rules import` shows them.")]
pub(crate) struct InitArgs {
    /// Set of rules to begin with [default: ask]
    #[arg(long, value_name = "SET")]
    starter: Option<StarterArg>,
    /// Also import the rules of other tools
    #[arg(long)]
    import: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StarterArg {
    /// Read inside the agent's folder
    Read,
    /// The same, and edit in a worktree of the agent's own
    Edit,
    /// The same, and every command of agents in a sandbox of level `full`
    Sandbox,
    /// No starter rules
    None,
}

impl StarterArg {
    fn set(self) -> Option<StarterSet> {
        match self {
            Self::Read => Some(StarterSet::Read),
            Self::Edit => Some(StarterSet::Edit),
            Self::Sandbox => Some(StarterSet::Sandbox),
            Self::None => None,
        }
    }
}

pub(super) async fn init(common: &CommonArgs, args: InitArgs) -> Result<CliExit, CliError> {
    refuse_agents(common).await?;
    let paths = HostPaths::from_environment()?;
    let can_ask = !common.json && io::stdin().is_terminal();
    let starter = match args.starter {
        Some(starter) => starter,
        None if can_ask => choose_starter()?.unwrap_or(StarterArg::None),
        None => {
            return Err(CliError::usage("not a terminal: name the rules")
                .with_hint("choose with --starter read, edit, sandbox or none"));
        }
    };
    let imported = imported_rules(&paths, args.import, can_ask)?;
    let Some(extended) = extended_file(&paths.rules, starter.set(), imported.as_deref())? else {
        return finish(common, &paths.rules, "", false);
    };
    let added = show(common, &paths.rules, &extended)?;
    if !args.yes && !can_ask {
        return Err(CliError::usage("not a terminal: confirm with --yes"));
    }
    if !args.yes && !confirm("Write this?")? {
        output::print_message("nothing was written");
        return Ok(CliExit::Failure);
    }
    user_file::replace(&paths.rules, &extended.text)?;
    finish(common, &paths.rules, &added, true)
}

/// Whether a person was asked about rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum RulesOffer {
    Made,
    NotMade,
}

/// Offers rules where there are none, once, to a person at a terminal.
pub(in crate::cli) async fn offer(common: &CommonArgs) -> Result<RulesOffer, CliError> {
    let paths = HostPaths::from_environment()?;
    let is_watched = io::stdin().is_terminal() && io::stderr().is_terminal();
    if common.json || !is_watched || common.is_remote() {
        return Ok(RulesOffer::NotMade);
    }
    if paths.declined_rules.exists() || has_rules(&paths.rules) {
        return Ok(RulesOffer::NotMade);
    }
    refuse_agents(common).await?;
    output::print_message("There are no rules yet, so every action of an agent asks you.\n");
    let Some(starter) = choose_starter()? else {
        // The input has ended: nobody declined.
        return Ok(RulesOffer::Made);
    };
    let imported = imported_rules(&paths, false, true)?;
    let extended = extended_file(&paths.rules, starter.set(), imported.as_deref())?;
    if let Some(extended) = extended {
        show(common, &paths.rules, &extended)?;
        if confirm("Write this?")? {
            user_file::replace(&paths.rules, &extended.text)?;
            output::print_message(written(&paths.rules));
            return Ok(RulesOffer::Made);
        }
    }
    decline(&paths.declined_rules)?;
    output::print_message(
        "No rules were written. Choose some later with `countersign rules init`.",
    );
    Ok(RulesOffer::Made)
}

/// Remembers that nobody wants to be asked again.
fn decline(marker: &Path) -> Result<(), CliError> {
    let folder = marker.parent().unwrap_or(marker);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(marker, ""))
        .map_err(|source| CliError::file("write", marker, source))
}

/// Whether the user's file says anything. One that cannot be read is not empty: a host says what is
/// wrong with it.
fn has_rules(file: &Path) -> bool {
    let Ok(text) = user_file::load(file) else {
        return true;
    };
    let name = file.display().to_string();
    parse_file(&text, &name, FileKind::User).map_or(true, |file| {
        !file.entries.is_empty() || ForeignTool::ALL.iter().any(|tool| file.others.has(*tool))
    })
}

/// Nothing if the input ended.
fn choose_starter() -> Result<Option<StarterArg>, CliError> {
    output::print_message(
        "  1  read     agents read and search inside the folder they work in; commands that can only\n\
         \x20             read there (ls, grep, git diff) run without asking\n\
         \x20 2  edit     the same, and they edit files in a git worktree of their own\n\
         \x20 3  sandbox  the same, and agents in a sandbox of level `full` run any command; writes to\n\
         \x20             files outside it and new connections ask\n\
         \x20 4  none     everything asks\n",
    );
    loop {
        output::print_message("Which rules? [1/2/3/4, default 4]");
        let line = args::read_line()?;
        let starter = match line.trim() {
            "1" | "read" => StarterArg::Read,
            "2" | "edit" => StarterArg::Edit,
            "" if line.is_empty() => return Ok(None),
            "3" | "sandbox" => StarterArg::Sandbox,
            "4" | "none" | "" => StarterArg::None,
            _ => continue,
        };
        return Ok(Some(starter));
    }
}

/// The rules of other tools as ours, if they are wanted and understood.
fn imported_rules(
    paths: &HostPaths,
    is_wanted: bool,
    can_ask: bool,
) -> Result<Option<String>, CliError> {
    if !is_wanted && !can_ask {
        return Ok(None);
    }
    let config = rule_files::rulebook_config(paths);
    let policies = ForeignTool::ALL.map(|tool| foreign_policy(&config, tool));
    let named: Vec<&str> = policies
        .iter()
        .filter(|policy| !policy.entries.is_empty())
        .map(|policy| policy.tool)
        .collect();
    let toml = import(&policies).toml;
    if toml.is_empty() {
        if is_wanted {
            output::print_message("no rules to import");
        }
        return Ok(None);
    }
    // Half an import may lack the rules that deny.
    if report_broken(&policies) {
        output::print_message(
            "rules of other tools are not imported; see `countersign rules import`",
        );
        return Ok(None);
    }
    let question = format!(
        "Also import the rules that {} has here?",
        named.join(" and ")
    );
    if is_wanted || confirm(&question)? {
        return Ok(Some(toml));
    }
    Ok(None)
}

/// The rule file with what it lacks, if it lacks anything.
fn extended_file(
    file: &Path,
    starter: Option<StarterSet>,
    imported: Option<&str>,
) -> Result<Option<ExtendedFile>, CliError> {
    let name = file.display().to_string();
    let old = user_file::load(file)?;
    let mut extended = None;
    for new in starter.map(StarterSet::toml).into_iter().chain(imported) {
        extended = match extended.take() {
            // With its comments, where there is nothing to keep.
            None if old.trim().is_empty() => Some(user_file::first_rules(new, &name)?),
            None => user_file::append_rules(&old, new, &name)?,
            Some(before) => Some(extend_again(before, new, &name)?),
        };
    }
    Ok(extended)
}

fn extend_again(before: ExtendedFile, new: &str, name: &str) -> Result<ExtendedFile, CliError> {
    let more = user_file::append_rules(&before.text, new, name)?;
    Ok(match more {
        Some(more) => ExtendedFile {
            added: before.added + more.added,
            ..more
        },
        None => before,
    })
}

/// Shows what would be added; gives it.
fn show(common: &CommonArgs, file: &Path, extended: &ExtendedFile) -> Result<String, CliError> {
    let old = user_file::load(file)?;
    let kept = if extended.text.starts_with(&old) {
        old.len()
    } else {
        0
    };
    let added = extended.text[kept..].to_owned();
    if !common.json {
        let count = output::plural(extended.added, "rule");
        output::print_message(format_args!("{count} for {}:\n", file.display()));
        output::print(&escape::block(&added))?;
        output::print_message("");
    }
    Ok(added)
}

fn confirm(question: &str) -> Result<bool, CliError> {
    output::print_message(format_args!("{question} [y/N]"));
    args::read_confirmation()
}

fn written(file: &Path) -> String {
    format!("wrote {}; change it as you like", file.display())
}

fn finish(
    common: &CommonArgs,
    file: &Path,
    added: &str,
    is_written: bool,
) -> Result<CliExit, CliError> {
    if common.json {
        output::print_json(&json!({ "file": file, "added": added, "written": is_written }))?;
    } else if is_written {
        output::print_message(written(file));
    } else {
        output::print_message("nothing to write: the rules are there already, or none were chosen");
    }
    Ok(CliExit::Ok)
}
