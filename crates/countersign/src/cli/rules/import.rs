//! `rules import`: the rules of other tools as ours.

use std::path::Path;

use clap::{Args, ValueEnum};
use countersign_daemon::foreign_policy;
use countersign_rules::{DroppedRule, ForeignTool, ImportedRules, import as carry_over};
use serde_json::json;

use super::{CommonArgs, refuse_agents, report_broken, user_file};
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
    // Half an import may lack the rules that deny, so one file that is not understood stops all of it.
    if broken && args.write {
        return Err(
            CliError::failed("a file was not understood; nothing was written")
                .with_hint("fix it, or choose other tools with --from"),
        );
    }
    if args.write {
        write(&config.user_file, &imported)?;
    }
    Ok(CliExit::failure_if(broken))
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
    let name = file.display();
    let old = user_file::load(file)?;
    let extended = user_file::append_rules(&old, &imported.toml, &name.to_string())?;
    let Some(extended) = extended else {
        output::print_message(format_args!("{name} already contains all of them"));
        return Ok(());
    };
    user_file::replace(file, &extended.text)?;
    let count = output::plural(extended.added, "rule");
    output::print_message(format_args!("added {count} to {name}"));
    Ok(())
}
