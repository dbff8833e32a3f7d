//! `rules add` and `rules remove`: rules with a leash.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    AddRuleParams, AddedRule, FileRule, GrantRow, Reason, RemoveRuleParams, RulesParams,
    RulesResult,
};

use super::super::{named, words};
use super::Common;
use crate::client::{CallError, Client};
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{duration, output, rules_text, shown};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules add 'Bash(cargo test:*)' --project
  countersign rules add 'Bash(git push:*)' --deny --agent builder
  countersign rules add 'WebFetch(domain:docs.rs)' --expires 30d --uses 100
  countersign rules add 'Read(./src/**)' --session agent-1a2b3c

Without a scope it counts everywhere. What already waits in the inbox and is covered is settled at
once. Standing rules belong into rules.toml, where they can be read and reviewed.")]
pub(crate) struct AddArgs {
    /// The rule
    rule: String,
    /// It goes ahead (the default)
    #[arg(long, group = "effect")]
    allow: bool,
    /// It waits for a person, even where another rule allows it
    #[arg(long, group = "effect")]
    ask: bool,
    /// It is refused
    #[arg(long, group = "effect")]
    deny: bool,
    /// Only for agents to which you gave this name
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only in this project, worktrees included [without DIR: the current one]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// Only for this agent, until it ends
    #[arg(long, value_name = "AGENT")]
    session: Option<String>,
    /// When it ends: 12h, 30d [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    expires: Option<Duration>,
    /// How often it may fire [default: any number]
    #[arg(long, value_name = "N")]
    uses: Option<u32>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  countersign rules remove 1a2b3c4d\n  countersign rules list --json | jq -r '.grants[].id'\n\nA rule that stands in a file is removed by editing the file."
)]
pub(crate) struct RemoveArgs {
    /// The grant, from `rules list`; the first characters are enough
    id: String,
}

pub(super) async fn add(common: &Common, args: AddArgs) -> Result<Exit, CliError> {
    let mut client = common.connect().await?;
    let session = match &args.session {
        Some(agent) => Some(named::agent_id(&mut client, agent).await?),
        None => None,
    };
    let effect = match (args.ask, args.deny) {
        (true, _) => "ask",
        (_, true) => "deny",
        _ => "allow",
    };
    let project = args.project.as_deref().map(|dir| words::folder(Some(dir)));
    let params = AddRuleParams {
        rule: args.rule,
        effect: Some(effect.into()),
        agent: args.agent,
        project: project.transpose()?,
        session,
        expires_in_ms: args.expires.map(duration::millis),
        uses: args.uses,
    };
    let added: AddedRule = client.call("host.add_rule", &params).await?;
    for warning in &added.warnings {
        output::say(format_args!("careful: {}", shown::line(warning)));
    }
    if common.json {
        output::put_json(&added)?;
    } else {
        let words = rules_text::grant(&added.grant, duration::now());
        output::put(&format!("{words}\n"))?;
        if added.settled > 0 {
            output::say(format_args!("it settled {} open asks", added.settled));
        }
    }
    Ok(Exit::Ok)
}

pub(super) async fn remove(common: &Common, args: RemoveArgs) -> Result<Exit, CliError> {
    let mut client = common.connect().await?;
    let params = RemoveRuleParams { id: args.id };
    let removed: Result<GrantRow, CallError> = client.call("host.remove_rule", &params).await;
    match removed {
        Ok(row) if common.json => output::put_json(&row)?,
        Ok(row) => {
            let (rule, effect) = (shown::line(&row.rule), shown::line(&row.effect));
            output::put(&format!(
                "{} removed: {effect} {rule}\n",
                shown::line(&row.id)
            ))?;
        }
        Err(error) if error.reason() == Some(Reason::UnknownRule) => {
            return Err(in_a_file(&mut client, &params.id)
                .await?
                .unwrap_or(error.into()));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Exit::Ok)
}

/// Says where a rule stands that somebody tried to remove by its text or place.
async fn in_a_file(client: &mut Client, word: &str) -> Result<Option<CliError>, CliError> {
    let params = RulesParams {
        cwd: Some(words::folder(None)?),
    };
    let rules: RulesResult = client.call("host.rules", &params).await?;
    Ok(rules.files.iter().find_map(|row| stands_there(row, word)))
}

fn stands_there(row: &FileRule, word: &str) -> Option<CliError> {
    let place = rules_text::place(&row.rule);
    if row.rule.rule != word && !place.ends_with(word) {
        return None;
    }
    Some(CliError::UnknownId {
        what: format!(
            "`{}` is no grant: it stands in {place}",
            shown::line(&row.rule.rule)
        ),
        hint: Some(format!("edit {place}; it counts as soon as it is saved")),
    })
}

#[cfg(test)]
mod tests {
    use countersign_protocol::HostRule;

    use super::*;

    #[test]
    fn a_rule_in_a_file_is_named_with_its_line() {
        let row = FileRule {
            counts: true,
            rule: HostRule {
                effect: "allow".into(),
                grant: None,
                line: Some(4),
                rule: "Bash(make:*)".into(),
                source: "/u/rules.toml".into(),
            },
        };
        for word in ["Bash(make:*)", "rules.toml:4"] {
            assert_eq!(
                stands_there(&row, word).unwrap().report(),
                "error: `Bash(make:*)` is no grant: it stands in /u/rules.toml:4\n\n\
                 hint: edit /u/rules.toml:4; it counts as soon as it is saved\n"
            );
        }
        assert!(stands_there(&row, "Bash(ls)").is_none());
    }
}
