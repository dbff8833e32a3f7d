//! `approve`, `deny` and `answer`: a person's word.
//!
//! Invariant: nothing is sent that was not named: an ask without one clear option for the word
//! is left as it is, and its options are listed.

use clap::Args;
use countersign_protocol::{
    AnswerBody, ApprovalParams, ApprovalTarget, HostApproval, QuestionTarget, ResolutionBody,
    method,
};
use serde_json::Value;

use super::remember::RememberArgs;
use super::{CommonArgs, args};
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::approvals::{self, APPROVE, DENY};
use crate::render::{escape, rules};
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign approve 1a2b3c4d
  countersign approve 1a2b3c4d --message 'only this once'
  countersign approve 1a2b3c4d --option allow_always
  countersign approve 1a2b3c4d --remember                      # the narrowest rule, this project, 30 days
  countersign approve 1a2b3c4d --remember --scope session
  countersign approve 1a2b3c4d --remember --rule 'Bash(cargo test:*)' --expires 7d --uses 20
  countersign approve 1a2b3c4d --edit-input '{\"command\":\"cargo test -p core\"}'

An ask that another program's connection owns is passed to that program: exit code 8.")]
pub(crate) struct ApproveArgs {
    /// Id of the ask; its first characters are enough
    id: String,
    /// Message for the agent
    #[arg(long, short)]
    message: Option<String>,
    /// Option to choose, if more than one approves
    #[arg(long, value_name = "NAME")]
    option: Option<String>,
    /// Approve this input instead of the one asked for: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    edit_input: Option<String>,
    #[command(flatten)]
    remember: RememberArgs,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  countersign deny 1a2b3c4d\n  countersign deny 1a2b3c4d -m 'use the staging host'\n  countersign deny 1a2b3c4d --remember --rule 'Bash(git push:*)' --scope always"
)]
pub(crate) struct DenyArgs {
    /// Id of the ask; its first characters are enough
    id: String,
    /// Message for the agent
    #[arg(long, short)]
    message: Option<String>,
    /// Option to choose, if none is called `deny`
    #[arg(long, value_name = "NAME")]
    option: Option<String>,
    /// Interrupt the agent's turn as well
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    remember: RememberArgs,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  countersign answer 1a2b3c4d the second title, without the date"
)]
pub(crate) struct AnswerArgs {
    /// Id of the question; its first characters are enough
    id: String,
    /// The answer
    #[arg(required = true, trailing_var_arg = true)]
    text: Vec<String>,
}

pub(super) async fn approve(common: &CommonArgs, args: ApproveArgs) -> Result<CliExit, CliError> {
    if args.edit_input.is_some() && args.remember.needs_suggestion() {
        return Err(CliError::usage(
            "no rule is suggested for an edited input: name one with --rule",
        ));
    }
    let edited_input: Option<Value> = match &args.edit_input {
        Some(text) => serde_json::from_str(args::json_argument(text)?.get()).ok(),
        None => None,
    };
    let mut client = common.connect().await?;
    let row = load(&mut client, args.id).await?;
    let resolution = approving_option(&row, args.option.as_deref())?;
    let Ok(remember) = args
        .remember
        .confirm_rules(common, &mut client, &row)
        .await?
    else {
        return Ok(CliExit::Failure);
    };
    let body = ResolutionBody {
        resolution,
        message: args.message,
        edited_input,
        stop: false,
        remember,
    };
    resolve(common, &mut client, row.id, body).await
}

pub(super) async fn deny(common: &CommonArgs, args: DenyArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let row = load(&mut client, args.id).await?;
    let resolution = denying_option(&row, args.option.as_deref())?;
    let Ok(remember) = args
        .remember
        .confirm_rules(common, &mut client, &row)
        .await?
    else {
        return Ok(CliExit::Failure);
    };
    let body = ResolutionBody {
        resolution,
        message: args.message,
        edited_input: None,
        stop: args.stop,
        remember,
    };
    resolve(common, &mut client, row.id, body).await
}

pub(super) async fn answer(common: &CommonArgs, args: AnswerArgs) -> Result<CliExit, CliError> {
    let params = QuestionTarget {
        question_id: args.id,
        body: AnswerBody {
            answer: args.text.join(" "),
        },
    };
    let row = common
        .connect()
        .await?
        .call::<method::AnswerQuestion>(&params)
        .await?;
    if common.json {
        output::print_json(&row)?;
    } else {
        output::print(&format!("{} {}\n", approvals::short_id(&row.id), row.state))?;
    }
    Ok(CliExit::Ok)
}

async fn load(client: &mut HostClient, approval_id: String) -> Result<HostApproval, CliError> {
    Ok(client
        .call::<method::Approval>(&ApprovalParams { approval_id })
        .await?)
}

async fn resolve(
    common: &CommonArgs,
    client: &mut HostClient,
    id: String,
    body: ResolutionBody,
) -> Result<CliExit, CliError> {
    let remembers = body.remember.is_some();
    let params = ApprovalTarget {
        approval_id: id,
        body,
    };
    let row = client.call::<method::ResolveApproval>(&params).await?;
    let passed = row.passed_to_owner == Some(true);
    if common.json {
        output::print_json(&row)?;
    } else if passed {
        let lost = if remembers {
            "; nothing is remembered"
        } else {
            ""
        };
        output::print_message(format_args!(
            "{} was passed to its owner, who decides{lost}",
            approvals::short_id(&row.id)
        ));
    } else {
        let state = approvals::ask_state(&row);
        output::print(&format!(
            "{} {state}  {}\n",
            approvals::short_id(&row.id),
            approvals::summary(&row)
        ))?;
    }
    for grant in row.remembered.iter().filter(|_| !common.json) {
        let text = rules::grant(grant, duration::now());
        output::print_message(format_args!("remembered: {text}"));
    }
    Ok(if passed {
        CliExit::PassedToOwner
    } else {
        CliExit::Ok
    })
}

/// The option that `approve` sends, if it is clear.
fn approving_option(row: &HostApproval, named: Option<&str>) -> Result<String, CliError> {
    if let Some(name) = named {
        return find_option(row, name);
    }
    match approvals::approving_options(row).as_slice() {
        [] => Err(option_error(row, "has no option that allows it")),
        options if options.contains(&APPROVE) => Ok(APPROVE.to_owned()),
        [one] => Ok((*one).to_owned()),
        _ => Err(option_error(row, "has more than one option that allows it")),
    }
}

/// The option that `deny` sends, if it is clear. Never one that allows.
fn denying_option(row: &HostApproval, named: Option<&str>) -> Result<String, CliError> {
    let name = named.unwrap_or(DENY);
    if approvals::allows(row, name) {
        return Err(option_error(
            row,
            &format!("would be allowed by `{}`", escape::line(name)),
        ));
    }
    if named.is_none() && !row.options.iter().any(|option| option == DENY) {
        return Err(option_error(row, "has no option `deny`"));
    }
    find_option(row, name)
}

fn find_option(row: &HostApproval, name: &str) -> Result<String, CliError> {
    if row.options.iter().any(|option| option == name) {
        return Ok(name.to_owned());
    }
    Err(option_error(
        row,
        &format!("has no option `{}`", escape::line(name)),
    ))
}

fn option_error(row: &HostApproval, why: &str) -> CliError {
    let id = approvals::short_id(&row.id);
    CliError::Usage {
        what: format!(
            "{id} {why}; nothing was changed\n  options: {}",
            approvals::options(row)
        ),
        hint: Some(format!(
            "choose one with `countersign approve {id} --option NAME`, or `countersign deny`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    fn row(options: &[&str], approving: &[&str]) -> HostApproval {
        let owned = |text: &[&str]| text.iter().map(|&word| word.to_owned()).collect();
        HostApproval {
            options: owned(options),
            approving: owned(approving),
            ..test_rows::approval()
        }
    }

    #[test]
    fn approve_takes_the_one_option_that_allows() {
        assert_eq!(
            approving_option(&row(&["approve", "deny"], &["approve"]), None).unwrap(),
            "approve"
        );
        assert_eq!(
            approving_option(&row(&["once", "no"], &["once"]), None).unwrap(),
            "once"
        );
        assert_eq!(
            approving_option(
                &row(&["once", "always", "no"], &["once", "always"]),
                Some("always")
            )
            .unwrap(),
            "always"
        );
    }

    #[test]
    fn approve_changes_nothing_when_it_is_not_clear() {
        let error = approving_option(&row(&["left", "right"], &[]), None).unwrap_err();
        assert_eq!(
            error.report(),
            "error: aaaa1111 has no option that allows it; nothing was changed\n  options: left, right\n\n\
             hint: choose one with `countersign approve aaaa1111 --option NAME`, or `countersign deny`\n"
        );
        assert!(approving_option(&row(&["once", "always"], &["once", "always"]), None).is_err());
        assert!(approving_option(&row(&["approve"], &["approve"]), Some("deny")).is_err());
    }

    #[test]
    fn deny_never_allows() {
        assert_eq!(
            denying_option(&row(&["approve", "deny"], &["approve"]), None).unwrap(),
            "deny"
        );
        assert_eq!(
            denying_option(&row(&["once", "no"], &["once"]), Some("no")).unwrap(),
            "no"
        );
        assert!(denying_option(&row(&["once", "no"], &["once"]), Some("once")).is_err());
        assert!(denying_option(&row(&["deny", "x"], &["deny"]), None).is_err());
        assert!(denying_option(&row(&["once", "no"], &["once"]), None).is_err());
    }
}
