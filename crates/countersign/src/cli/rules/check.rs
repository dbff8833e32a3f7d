//! `rules check` and `rules explain`: what the rules say of a tool call.

use std::path::PathBuf;

use clap::Args;
use countersign_protocol::{CheckRulesParams, CheckedRules, HostEffect, Raw, method};
use serde_json::{Value, json};

use super::super::args;
use super::{CommonArgs, corpus, offline};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::{escape, rules};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules check 'git status && rm -rf build'
  countersign rules check --tool Read src/main.rs
  countersign rules check --tool Bash --input '{\"command\":\"ls\"}' --agent builder
  countersign rules check --corpus cases.jsonl
  countersign rules check --corpus cases.jsonl --json | jq -r 'select(.right | not).id'

Exits with 0 if it would be allowed, 3 if denied, 12 if a person would be asked. --corpus needs no
host. It exits with 1 if the rules allow a case that they must deny or ask about, or if a line cannot
be read.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    call: ToolCallArgs,
    /// Judge as if this agent asked
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Judge each case of this JSONL file by its own rules, without a host
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "tool", "input", "cwd", "agent"])]
    corpus: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules explain 'git status && rm -rf build'
  countersign rules explain --cwd ~/code/app --tool Edit src/main.rs
  countersign rules explain --input '{\"command\":\"ls\"}' --json

Always exits with 0. A running host includes its remembered rules. Without a host only the rule files
apply. What a project's file allows is then ignored, because it is unknown whether it is trusted.")]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    call: ToolCallArgs,
}

/// A tool call to be judged.
#[derive(Args)]
struct ToolCallArgs {
    /// The command, quoted for your shell; for other tools the path or address
    #[arg(value_name = "COMMAND")]
    text: Vec<String>,
    /// Name of the tool
    #[arg(long, value_name = "NAME", default_value = "Bash")]
    tool: String,
    /// Exact input of the tool instead of a command: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE", conflicts_with = "text")]
    input: Option<String>,
    /// Folder it would run in [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

impl ToolCallArgs {
    fn params(self, agent_id: Option<String>) -> Result<CheckRulesParams, CliError> {
        let input = match self.input {
            Some(text) => Some(Raw(args::json_argument(&text)?.into())),
            None => input_of(&self.tool, &self.text)?,
        };
        Ok(CheckRulesParams {
            tool: self.tool,
            input,
            cwd: Some(args::absolute_folder(self.cwd.as_deref())?),
            agent_id,
        })
    }
}

/// The input that a tool gets for what was typed.
fn input_of(tool: &str, text: &[String]) -> Result<Option<Raw>, CliError> {
    let key = match tool {
        "Bash" => "command",
        "Read" | "Edit" | "Write" => "file_path",
        "WebFetch" => "url",
        _ if text.is_empty() => return Ok(None),
        _ => return Err(needs_input(tool)),
    };
    if text.is_empty() {
        return Err(CliError::usage("no command was given")
            .with_hint("give a command, like `countersign rules check 'git status'`"));
    }
    // The shell has taken its quotes off, so only a command in one quoted argument is judged exactly as
    // typed.
    let value: Value = json!({ key: text.join(" ") });
    let raw = serde_json::value::to_raw_value(&value)
        .map_err(|error| CliError::io("could not write JSON", error.into()))?;
    Ok(Some(Raw(raw.into())))
}

fn needs_input(tool: &str) -> CliError {
    CliError::usage(format!("the input of `{tool}` is not known"))
        .with_hint("give it as JSON with --input")
}

pub(super) async fn check(common: &CommonArgs, args: CheckArgs) -> Result<CliExit, CliError> {
    if let Some(file) = &args.corpus {
        return corpus::check(common, file);
    }
    let params = args.call.params(args.agent)?;
    let mut client = common.connect().await?;
    let checked = client.call::<method::CheckRules>(&params).await?;
    print(common, &checked)?;
    Ok(match checked.verdict.effect {
        HostEffect::Allow => CliExit::Ok,
        HostEffect::Deny => CliExit::Denied,
        HostEffect::Ask | HostEffect::Unknown => CliExit::Asks,
    })
}

pub(super) async fn explain(common: &CommonArgs, args: ExplainArgs) -> Result<CliExit, CliError> {
    let params = args.call.params(None)?;
    let checked = match common.connect().await {
        Ok(mut client) => client.call::<method::CheckRules>(&params).await?,
        Err(CliError::NoHost { .. }) => {
            output::print_message(
                "no host is running: only rule files are checked, not remembered rules",
            );
            offline::explain(&params)?
        }
        Err(error) => return Err(error),
    };
    print(common, &checked)?;
    Ok(CliExit::Ok)
}

fn print(common: &CommonArgs, checked: &CheckedRules) -> Result<(), CliError> {
    if common.json {
        return output::print_json(checked);
    }
    output::print(&format!("{}\n", rules::verdict(&checked.verdict)))?;
    for candidate in &checked.candidates {
        output::print_message(format_args!(
            "would settle part {}: {}  {}",
            candidate.part + 1,
            escape::line(&candidate.rule),
            escape::line(&candidate.note)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_the_input_of_the_tool() {
        let input = |tool: &str, text: &[&str]| {
            let text: Vec<String> = text.iter().map(|&word| word.to_owned()).collect();
            input_of(tool, &text).map(|raw| raw.map(|raw| raw.text().to_owned()))
        };
        assert_eq!(
            input("Bash", &["git", "status"]).unwrap(),
            Some(r#"{"command":"git status"}"#.into())
        );
        assert_eq!(
            input("Read", &["a b"]).unwrap(),
            Some(r#"{"file_path":"a b"}"#.into())
        );
        assert_eq!(input("mcp__github__list", &[]).unwrap(), None);
        assert!(input("mcp__github__list", &["x"]).is_err());
        assert!(input("Bash", &[]).is_err());
    }
}
