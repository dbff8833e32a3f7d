//! `rules add` and `rules remove`: rules with a leash.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    AddRuleParams, FileRule, HostEffect, Reason, RemoveRuleParams, RulesParams, method,
};

use super::super::args;
use super::super::args::LabelArg;
use super::super::remember::ScopeArg;
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
  countersign rules add 'Read(./src/**)' --scope session --agent builder
  countersign rules add 'Bash(npm test:*)' --label team=web

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
    /// Only for agents with this name; with `--scope session`, for this agent until it ends
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only in this project and its worktrees [DIR defaults to the current one]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// Where the rule applies, as in `approve --remember` [default: project with --project, agent with --agent, else always]
    #[arg(long)]
    scope: Option<ScopeArg>,
    /// Only for agents with this label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,
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
    let effect = match (args.ask, args.deny) {
        (true, _) => HostEffect::Ask,
        (_, true) => HostEffect::Deny,
        _ => HostEffect::Allow,
    };
    let reach = RuleReach::of(&args)?;
    let params = AddRuleParams {
        rule: args.rule,
        effect: Some(effect),
        agent: reach.agent,
        project: reach.project,
        session: reach.session,
        labels: args::labels(args.labels)?,
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

/// Where a new rule applies.
#[derive(Debug, Default, PartialEq, Eq)]
struct RuleReach {
    agent: Option<String>,
    project: Option<String>,
    session: Option<String>,
}

impl RuleReach {
    fn of(args: &AddRuleArgs) -> Result<Self, CliError> {
        let agent = args.agent.clone();
        let project = args.project.as_deref();
        let project = project.map(|dir| args::absolute_folder(Some(dir)));
        let project = project.transpose()?;
        let named = agent.is_some() || project.is_some();
        match args.scope {
            Some(ScopeArg::Always) if named => Err(CliError::usage(
                "a rule that applies always is not for one agent or project",
            )),
            Some(ScopeArg::Agent | ScopeArg::Session) if agent.is_none() => {
                Err(CliError::usage("this scope needs --agent"))
            }
            Some(ScopeArg::Session) => Ok(Self {
                agent: None,
                project,
                session: agent,
            }),
            Some(ScopeArg::Project) if project.is_none() => Ok(Self {
                agent,
                project: Some(args::absolute_folder(None)?),
                session: None,
            }),
            _ => Ok(Self {
                agent,
                project,
                session: None,
            }),
        }
    }
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
        // People name rules by their text or place, too, and one in a file is not the host's to remove.
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
    let rule = escape::line(&row.rule.rule);
    let error = CliError::unknown_id(format!("`{rule}` cannot be removed here: it is in {place}"));
    let hint = format!("edit {place}; changes apply as soon as the file is saved");
    Some(error.with_hint(hint))
}

#[cfg(test)]
mod tests {
    use countersign_protocol::HostRule;

    use super::*;

    #[test]
    fn a_scope_needs_what_it_is_about() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            add: AddRuleArgs,
        }
        let reach = |words: &str| {
            let words = words.split(' ').filter(|word| !word.is_empty());
            let words = ["add", "Bash(ls)"].into_iter().chain(words);
            let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
            RuleReach::of(&line.add)
        };
        let ann = || Some("ann".to_owned());
        let of_agent = RuleReach {
            agent: ann(),
            ..RuleReach::default()
        };
        assert_eq!(reach("").unwrap(), RuleReach::default());
        assert_eq!(reach("--agent ann").unwrap(), of_agent);
        assert_eq!(reach("--scope agent --agent ann").unwrap(), of_agent);
        let of_session = RuleReach {
            session: ann(),
            ..RuleReach::default()
        };
        assert_eq!(reach("--scope session --agent ann").unwrap(), of_session);
        let here = reach("--scope project").unwrap();
        assert_eq!(here, reach("--project").unwrap());
        assert!(here.project.is_some());
        for wrong in [
            "--scope session",
            "--scope agent",
            "--scope always --agent x",
        ] {
            assert!(reach(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rule_in_a_file_is_named_with_its_line() {
        let row = FileRule {
            area: None,
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
