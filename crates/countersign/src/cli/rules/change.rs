//! `rules add` and `rules remove`: rules with a leash.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    AddRuleParams, FileRule, HostEffect, Reason, RemoveRuleParams, RulesParams, method,
};

use super::super::{agent_lookup, args};
use super::CommonArgs;
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::{escape, rules};
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules add 'Bash(cargo test:*)' --project
  countersign rules add 'Bash(git push:*)' --deny --agent builder
  countersign rules add 'WebFetch(domain:docs.rs)' --expires 30d --uses 100
  countersign rules add 'Read(./src/**)' --session agent-1a2b3c

Without a scope the rule applies everywhere. Open asks that it covers are answered at once. Put
permanent rules into rules.toml, where they can be read and reviewed.")]
pub(crate) struct AddRuleArgs {
    /// The rule
    rule: String,
    /// Allow what it covers [default]
    #[arg(long, group = "effect")]
    allow: bool,
    /// Ask a person, even if another rule allows it
    #[arg(long, group = "effect")]
    ask: bool,
    /// Deny what it covers
    #[arg(long, group = "effect")]
    deny: bool,
    /// Only for agents with this name
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only in this project and its worktrees [DIR defaults to the current one]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// Only for this agent, until it ends
    #[arg(long, value_name = "AGENT")]
    session: Option<String>,
    /// Time until it expires: 12h, 30d [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    expires: Option<Duration>,
    /// How often it may be used [default: no limit]
    #[arg(long, value_name = "N")]
    uses: Option<u32>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  countersign rules remove 1a2b3c4d\n  countersign rules list --json | jq -r '.grants[].id'\n\nTo remove a rule that is in a file, edit the file."
)]
pub(crate) struct RemoveRuleArgs {
    /// Id from `rules list`; its first characters are enough
    id: String,
}

pub(super) async fn add(common: &CommonArgs, args: AddRuleArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let session = match &args.session {
        Some(agent) => Some(agent_lookup::find_agent_id(&mut client, agent).await?),
        None => None,
    };
    let effect = match (args.ask, args.deny) {
        (true, _) => HostEffect::Ask,
        (_, true) => HostEffect::Deny,
        _ => HostEffect::Allow,
    };
    let project = args
        .project
        .as_deref()
        .map(|dir| args::absolute_folder(Some(dir)));
    let params = AddRuleParams {
        rule: args.rule,
        effect: Some(effect),
        agent: args.agent,
        project: project.transpose()?,
        session,
        expires_in_ms: args.expires.map(duration::millis),
        uses: args.uses,
    };
    let added = client.call::<method::AddRule>(&params).await?;
    for warning in &added.warnings {
        output::print_message(format_args!("warning: {}", escape::line(warning)));
    }
    if common.json {
        output::print_json(&added)?;
    } else {
        let text = rules::grant(&added.grant, duration::now());
        output::print(&format!("{text}\n"))?;
        if added.settled > 0 {
            output::print_message(format_args!("open asks it answered: {}", added.settled));
        }
    }
    Ok(CliExit::Ok)
}

pub(super) async fn remove(common: &CommonArgs, args: RemoveRuleArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let params = RemoveRuleParams { id: args.id };
    let removed = client.call::<method::RemoveRule>(&params).await;
    match removed {
        Ok(row) if common.json => output::print_json(&row)?,
        Ok(row) => {
            let (rule, effect) = (escape::line(&row.rule), row.effect);
            output::print(&format!(
                "{} removed: {effect} {rule}\n",
                escape::line(&row.id)
            ))?;
        }
        Err(error) if error.reason() == Some(Reason::UnknownRule) => {
            return Err(find_in_files(&mut client, &params.id)
                .await?
                .unwrap_or(error.into()));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(CliExit::Ok)
}

/// Says where a rule stands that somebody tried to remove by its text or place.
async fn find_in_files(client: &mut HostClient, word: &str) -> Result<Option<CliError>, CliError> {
    let params = RulesParams {
        cwd: Some(args::absolute_folder(None)?),
    };
    let rules = client.call::<method::Rules>(&params).await?;
    Ok(rules
        .files
        .iter()
        .find_map(|row| file_rule_error(row, word)))
}

fn file_rule_error(row: &FileRule, word: &str) -> Option<CliError> {
    let place = rules::location(&row.rule);
    if row.rule.rule != word && !place.ends_with(word) {
        return None;
    }
    Some(CliError::UnknownId {
        what: format!(
            "`{}` cannot be removed here: it is in {place}",
            escape::line(&row.rule.rule)
        ),
        hint: Some(format!(
            "edit {place}; changes apply as soon as the file is saved"
        )),
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
                file_rule_error(&row, word).unwrap().report(),
                "error: `Bash(make:*)` cannot be removed here: it is in /u/rules.toml:4\n\n\
                 hint: edit /u/rules.toml:4; changes apply as soon as the file is saved\n"
            );
        }
        assert!(file_rule_error(&row, "Bash(ls)").is_none());
    }
}
