//! `rules list`: every rule that counts, and what is wrong with files first.

use std::path::PathBuf;

use clap::Args;
use countersign_protocol::{FileRule, GrantRow, RulesParams, RulesResult, Time, method};

use super::super::args;
use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::{approvals, escape, rules};
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules list
  countersign rules list --cwd ~/code/app --json | jq '.grants[].id'

Broken and untrusted files are listed first, on stderr.")]
pub(crate) struct ListRulesArgs {
    /// List the rules that apply in this folder [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(super) async fn list(common: &CommonArgs, args: ListRulesArgs) -> Result<CliExit, CliError> {
    let params = RulesParams {
        cwd: Some(args::absolute_folder(args.cwd.as_deref())?),
    };
    let rules = common.call::<method::Rules>(&params).await?;
    if common.json {
        output::print_json(&rules)?;
        return Ok(CliExit::Ok);
    }
    for warning in warnings(&rules) {
        output::print_warning(warning);
    }
    if rules.files.is_empty() && rules.grants.is_empty() {
        output::print_message("no rules: every action becomes an ask");
        return Ok(CliExit::Ok);
    }
    output::print(&text(&rules, duration::now(), output::list_width()))?;
    Ok(CliExit::Ok)
}

fn warnings(rules: &RulesResult) -> Vec<String> {
    let suspended = rules
        .suspended
        .iter()
        .map(|why| format!("NOTHING IS ALLOWED BY RULE HERE: {}", escape::line(why)));
    let problems = rules.problems.iter().map(rules::problem);
    let untrusted = rules.untrusted.iter().map(|file| {
        format!(
            "not trusted: {}: what it allows has no effect; read it, then run `countersign rules trust`",
            escape::line(file)
        )
    });
    suspended.chain(problems).chain(untrusted).collect()
}

fn text(rules: &RulesResult, now: Time, width: usize) -> String {
    let mut text = String::new();
    if !rules.files.is_empty() {
        let rows: Vec<_> = rules.files.iter().map(file_row).collect();
        text.push_str(&output::columns(&["EFFECT", "RULE", "WHERE"], &rows, width));
    }
    if !rules.grants.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        let rows: Vec<_> = rules.grants.iter().map(|row| grant_row(row, now)).collect();
        let heading = ["GRANT", "EFFECT", "RULE", "SCOPE", "LIMITS", "USED"];
        text.push_str(&output::columns(&heading, &rows, width));
    }
    text
}

fn file_row(row: &FileRule) -> Vec<String> {
    let effect = row.rule.effect;
    let effect = match row.area {
        _ if !row.counts => format!("{effect} (no effect)"),
        Some(area) => format!("{effect} ({area} only)"),
        None => effect.to_string(),
    };
    let rule = escape::line(&row.rule.rule).into_owned();
    vec![effect, rule, rules::location(&row.rule)]
}

fn grant_row(row: &GrantRow, now: Time) -> Vec<String> {
    vec![
        approvals::short_id(&row.id),
        row.effect.to_string(),
        escape::line(&row.rule).into_owned(),
        rules::scope(&row.scope),
        rules::limits(row, now),
        rules::usage(row, now),
    ]
}

#[cfg(test)]
mod tests {
    use countersign_protocol::{HostRule, RuleProblem};

    use super::*;
    use crate::test_rows;

    #[test]
    fn rules_are_listed_with_where_they_stand_and_what_they_did() {
        let rules = RulesResult {
            files: vec![FileRule {
                area: None,
                counts: false,
                rule: HostRule {
                    effect: "allow".into(),
                    grant: None,
                    line: Some(4),
                    rule: "Bash(make:*)".into(),
                    source: "/p/.countersign/rules.toml".into(),
                },
            }],
            grants: vec![test_rows::grant()],
            ..RulesResult::default()
        };
        let text = text(&rules, Time(2_000_000), 200);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "EFFECT             RULE          WHERE\n\
             allow (no effect)  Bash(make:*)  /p/.countersign/rules.toml:4\n\n\
             GRANT  EFFECT  RULE        SCOPE                      LIMITS         USED\n\
             1      allow   Bash(ls:*)  agent builder, project /p  until removed  by ada for ask aaaa1111 1s ago, never used\n"
        );
    }

    #[test]
    fn what_is_broken_comes_first() {
        let rules = RulesResult {
            problems: vec![RuleProblem {
                file: "/u/rules.toml".into(),
                line: None,
                message: "odd".into(),
                suspends: false,
            }],
            suspended: Some("/u/rules.toml is broken".into()),
            untrusted: vec!["/p/.countersign/rules.toml".into()],
            ..RulesResult::default()
        };
        assert_eq!(
            warnings(&rules),
            [
                "NOTHING IS ALLOWED BY RULE HERE: /u/rules.toml is broken",
                "rules: /u/rules.toml: odd",
                "not trusted: /p/.countersign/rules.toml: what it allows has no effect; read it, then run `countersign rules trust`",
            ]
        );
    }
}
