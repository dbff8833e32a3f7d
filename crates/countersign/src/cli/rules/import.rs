//! `rules import`: the rules of other tools as ours.
//!
//! Invariant: a file is written only if it is understood whole afterwards, and never half.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use clap::{Args, ValueEnum};
use countersign_daemon::foreign_policy;
use countersign_protocol::{NoParams, method};
use countersign_rules::{
    DroppedRule, FileKind, ForeignPolicy, ForeignTool, ImportedRules, RuleEntry,
    import as carry_over, parse_file,
};
use serde_json::json;

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::paths::HostPaths;
use crate::render::escape;
use crate::{output, rule_files};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules import
  countersign rules import --from claude
  countersign rules import --from claude --from codex --write

Prints a rule file on stdout and, on stderr, what could not be imported and why. Reads your own files
and your administrator's, not those in projects. --write shows the new rules, then adds them to the
end of your rules.toml.")]
pub(crate) struct ImportArgs {
    /// Import from this tool; repeatable [default: all]
    #[arg(long, value_name = "TOOL")]
    from: Vec<ImportTool>,
    /// Add the rules to rules.toml
    #[arg(long)]
    write: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ImportTool {
    Claude,
    Opencode,
    Codex,
    Gemini,
    Goose,
}

impl ImportTool {
    fn foreign(self) -> ForeignTool {
        match self {
            Self::Claude => ForeignTool::Claude,
            Self::Opencode => ForeignTool::Opencode,
            Self::Codex => ForeignTool::Codex,
            Self::Gemini => ForeignTool::Gemini,
            Self::Goose => ForeignTool::Goose,
        }
    }
}

pub(super) async fn import(common: &CommonArgs, args: &ImportArgs) -> Result<CliExit, CliError> {
    if args.write {
        refuse_agents(common).await?;
    }
    let config = rule_files::rulebook_config(&HostPaths::from_environment()?);
    let tools: Vec<ForeignTool> = if args.from.is_empty() {
        ForeignTool::ALL.to_vec()
    } else {
        args.from.iter().map(|tool| tool.foreign()).collect()
    };
    let policies: Vec<_> = tools
        .into_iter()
        .map(|tool| foreign_policy(&config, tool))
        .collect();
    let imported = carry_over(&policies);
    let broken = report_broken(&policies);
    show(common, &imported)?;
    if broken && args.write {
        return Err(CliError::Failed {
            what: "a file was not understood; nothing was written".into(),
            hint: Some("fix it, or choose other tools with --from".into()),
        });
    }
    if args.write {
        write(&config.user_file, &imported)?;
    }
    Ok(if broken {
        CliExit::Failure
    } else {
        CliExit::Ok
    })
}

/// Agents make no rules: a host that runs says whether we are one.
async fn refuse_agents(common: &CommonArgs) -> Result<(), CliError> {
    match common.connect().await {
        Ok(mut client) => {
            client.call::<method::Status>(&NoParams {}).await?;
            Ok(())
        }
        Err(CliError::NoHost { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn report_broken(policies: &[ForeignPolicy]) -> bool {
    let broken = policies
        .iter()
        .filter_map(|policy| Some((policy.tool, policy.broken.as_deref()?)));
    let mut any = false;
    for (tool, why) in broken {
        any = true;
        output::print_message(format_args!(
            "not understood: rules of {tool}: {}",
            escape::line(why)
        ));
    }
    any
}

fn show(common: &CommonArgs, imported: &ImportedRules) -> Result<(), CliError> {
    if common.json {
        let left: Vec<_> = imported.not_carried.iter().map(left_out_json).collect();
        return output::print_json(&json!({ "toml": imported.toml, "not_carried": left }));
    }
    output::print(&escape::block(&imported.toml))?;
    if imported.toml.is_empty() {
        output::print_message("no rules to import");
    }
    for dropped in &imported.not_carried {
        output::print_message(left_out(dropped));
    }
    Ok(())
}

fn left_out_json(dropped: &DroppedRule) -> serde_json::Value {
    json!({
        "source": *dropped.source, "line": dropped.line, "text": dropped.text,
        "reason": dropped.reason, "strict": dropped.strict,
    })
}

fn left_out(dropped: &DroppedRule) -> String {
    let line = dropped
        .line
        .map_or_else(String::new, |line| format!(":{line}"));
    format!(
        "not imported: {}{line}: {}: {}",
        escape::line(&dropped.source),
        escape::line(&dropped.text),
        escape::line(&dropped.reason)
    )
}

fn write(file: &Path, imported: &ImportedRules) -> Result<(), CliError> {
    let old = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => {
            let what = format!("could not read `{}`", file.display());
            return Err(CliError::io(what, source));
        }
    };
    let name = file.display().to_string();
    let Some((new, count)) = append_rules(&old, &imported.toml, &name)? else {
        output::print_message(format_args!("{name} already contains all of them"));
        return Ok(());
    };
    replace_file(file, &new)
        .map_err(|source| CliError::io(format!("could not write `{name}`"), source))?;
    output::print_message(format_args!("added {count} rules to {name}"));
    Ok(())
}

/// The file with the rules that it lacks at its end, and how many those are.
fn append_rules(
    old: &str,
    imported: &str,
    name: &str,
) -> Result<Option<(String, usize)>, CliError> {
    let read = |text: &str, name: &str| {
        parse_file(text, name, FileKind::User).map_err(|problems| CliError::Failed {
            what: format!("nothing was written\n{problems}"),
            hint: Some("fix the file first".into()),
        })
    };
    let known = read(old, name)?.entries;
    let is_known = |entry: &RuleEntry| {
        known.iter().any(|known| {
            known.agent.is_none()
                && (known.effect, known.rule.text()) == (entry.effect, entry.rule.text())
        })
    };
    let found = read(imported, "import")?.entries;
    let added: Vec<_> = found.iter().filter(|entry| !is_known(entry)).collect();
    if added.is_empty() {
        return Ok(None);
    }
    let mut text = old.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for entry in &added {
        let quoted = toml::Value::String(entry.rule.text().to_owned());
        let _ = write!(text, "\n[[rule]]\n{} = {quoted}\n", entry.effect.as_str());
    }
    read(&text, name)?;
    Ok(Some((text, added.len())))
}

/// Under another name first, so that a host never reads half a file.
fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    // Through a link, so that the file of somebody's dotfiles stays the one that counts.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let unfinished = file.with_extension("toml.new");
    std::fs::write(&unfinished, text)?;
    std::fs::rename(&unfinished, &file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_added_at_the_end() {
        let old = "allow = [\"Bash(ls)\"]";
        let imported = "allow = [\"Bash(ls)\", \"Bash(git status:*)\"]\ndeny = [\"Bash(rm:*)\"]\n";
        let (text, count) = append_rules(old, imported, "rules.toml").unwrap().unwrap();
        assert_eq!(
            (text.as_str(), count),
            (
                "allow = [\"Bash(ls)\"]\n\n[[rule]]\nallow = \"Bash(git status:*)\"\n\n\
                 [[rule]]\ndeny = \"Bash(rm:*)\"\n",
                2
            )
        );
        assert_eq!(append_rules(&text, imported, "rules.toml").unwrap(), None);
    }

    #[test]
    fn a_broken_file_is_left_as_it_is() {
        assert!(append_rules("allow = [", "allow = [\"Bash(ls)\"]", "rules.toml").is_err());
    }
}
