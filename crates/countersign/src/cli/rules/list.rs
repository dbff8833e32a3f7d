//! `rules list`: every rule that counts, and what is wrong with files first.

use std::path::PathBuf;

use clap::Args;
use countersign_protocol::{FileRule, GrantRow, RulesParams, RulesResult, Time};

use super::super::words;
use super::Common;
use crate::exit::Exit;
use crate::failure::CliError;
use crate::output::CARE;
use crate::{describe, duration, output, rules_text, shown};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules list
  countersign rules list --cwd ~/code/app --json | jq '.grants[].id'

Files that are broken or not trusted come first, on stderr.")]
pub(crate) struct ListArgs {
    /// The rules that count in this folder [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(super) async fn list(common: &Common, args: ListArgs) -> Result<Exit, CliError> {
    let params = RulesParams {
        cwd: Some(words::folder(args.cwd.as_deref())?),
    };
    let rules: RulesResult = common.connect().await?.call("host.rules", &params).await?;
    if common.json {
        output::put_json(&rules)?;
        return Ok(Exit::Ok);
    }
    for warning in warnings(&rules) {
        output::say(format_args!("{CARE}{warning}{CARE:#}"));
    }
    if rules.files.is_empty() && rules.grants.is_empty() {
        output::say("no rules: everything asks");
        return Ok(Exit::Ok);
    }
    output::put(&text(&rules, duration::now(), output::list_width()))?;
    Ok(Exit::Ok)
}

fn warnings(rules: &RulesResult) -> Vec<String> {
    let suspended = rules
        .suspended
        .iter()
        .map(|why| format!("NOTHING IS ALLOWED BY RULE HERE: {}", shown::line(why)));
    let problems = rules.problems.iter().map(rules_text::problem);
    let untrusted = rules.untrusted.iter().map(|file| {
        format!(
            "not trusted: {}: what it allows does not count; read it, then `countersign rules trust`",
            shown::line(file)
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
        let heading = ["GRANT", "EFFECT", "RULE", "SCOPE", "LEASH", "PAST"];
        text.push_str(&output::columns(&heading, &rows, width));
    }
    text
}

fn file_row(row: &FileRule) -> Vec<String> {
    let effect = shown::line(&row.rule.effect);
    let effect = if row.counts {
        effect.into_owned()
    } else {
        format!("{effect} (does not count)")
    };
    let rule = shown::line(&row.rule.rule).into_owned();
    vec![effect, rule, rules_text::place(&row.rule)]
}

fn grant_row(row: &GrantRow, now: Time) -> Vec<String> {
    vec![
        describe::short_id(&row.id),
        shown::line(&row.effect).into_owned(),
        shown::line(&row.rule).into_owned(),
        rules_text::scope(&row.scope),
        rules_text::leash(row, now),
        rules_text::past(row, now),
    ]
}

#[cfg(test)]
mod tests {
    use countersign_protocol::{HostRule, RuleProblem};

    use super::*;
    use crate::sample;

    #[test]
    fn rules_are_listed_with_where_they_stand_and_what_they_did() {
        let rules = RulesResult {
            files: vec![FileRule {
                counts: false,
                rule: HostRule {
                    effect: "allow".into(),
                    grant: None,
                    line: Some(4),
                    rule: "Bash(make:*)".into(),
                    source: "/p/.countersign/rules.toml".into(),
                },
            }],
            grants: vec![sample::grant()],
            ..RulesResult::default()
        };
        let text = text(&rules, Time(2_000_000), 200);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "EFFECT                  RULE          WHERE\n\
             allow (does not count)  Bash(make:*)  /p/.countersign/rules.toml:4\n\n\
             GRANT  EFFECT  RULE        SCOPE                      LEASH          PAST\n\
             1      allow   Bash(ls:*)  agent builder, project /p  until removed  by ada for ask aaaa1111 1s ago, never fired\n"
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
                "not trusted: /p/.countersign/rules.toml: what it allows does not count; read it, then `countersign rules trust`",
            ]
        );
    }
}
