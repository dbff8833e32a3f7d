//! `approve`, `deny` and `answer`: a person's word.
//!
//! Invariant: nothing is sent that was not named or listed: an ask without one clear option for the
//! word is left as it is, and its options are listed.

use clap::Args;
use countersign_protocol::{
    AnswerBody, ApprovalTarget, ChosenAnswer, HostApproval, QuestionTarget, ResolutionBody, method,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ask_selection::{AskSelection, SelectedAsks};
use super::inbox::NamedItem;
use super::remember::RememberArgs;
use super::{CommonArgs, args, inbox};
use crate::client::HostClient;
use crate::error::{CliError, ErrorDocument};
use crate::exit::CliExit;
use crate::render::approvals::{self, APPROVE, DENY};
use crate::render::{choices, escape, rules};
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign approve                                          # the only ask that waits
  countersign approve 1a2b3c4d 5e6f7a8b
  countersign approve 1a2b3c4d --same                          # and equal asks of other agents
  countersign approve --agent builder --all
  countersign approve 1a2b3c4d --message 'only this once'
  countersign approve 1a2b3c4d --option allow_always
  countersign approve 1a2b3c4d --remember                      # the narrowest rule, this project, 30 days
  countersign approve 1a2b3c4d --remember --scope session
  countersign approve 1a2b3c4d --remember --rule 'Bash(cargo test:*)' --expires 7d --uses 20
  countersign approve 1a2b3c4d --edit-input '{\"command\":\"cargo test -p core\"}'

Each ask has its own result line and its own entry in the record; the exit code is that of the worst
result. An ask that another program's connection owns is passed to that program: exit code 8.")]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    asks: AskSelection,
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
    after_help = "Examples:\n  countersign deny 1a2b3c4d\n  countersign deny 1a2b3c4d 5e6f7a8b -m 'use the staging host'\n  countersign deny --agent builder --all\n  countersign deny 1a2b3c4d --remember --rule 'Bash(git push:*)' --scope always"
)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    asks: AskSelection,
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
#[command(after_help = "Examples:
  countersign answer 1a2b3c4d the second title, without the date
  countersign answer 1a2b3c4d 2                      # the second choice
  countersign answer 1a2b3c4d 1,3                    # several choices, where that is possible
  countersign answer 1a2b3c4d 'SQLite' 'no cache'    # two questions, in their order
  countersign answer 1a2b3c4d --question 2=none --question 1=2")]
pub(crate) struct AnswerArgs {
    /// Id of the question or ask; its first characters are enough
    id: String,
    /// The answer: a text, or the number of a choice; one argument for each question of an ask
    #[arg(required_unless_present = "question", trailing_var_arg = true)]
    text: Vec<String>,
    /// Answer one of the questions of an ask, by its number; repeatable. What can be left empty needs none
    #[arg(long, value_name = "N=ANSWER", conflicts_with = "text")]
    question: Vec<String>,
}

/// What `approve --json` and `deny --json` print about several asks.
#[derive(Serialize)]
struct DecisionRows {
    approvals: Vec<Box<RawValue>>,
    errors: Vec<DecisionError>,
}

/// An ask that could not be answered.
#[derive(Serialize)]
struct DecisionError {
    id: String,
    error: ErrorDocument,
}

pub(super) async fn approve(common: &CommonArgs, args: ApproveArgs) -> Result<CliExit, CliError> {
    if args.edit_input.is_some() && args.remember.needs_suggestion() {
        return Err(CliError::usage(
            "no rule is suggested for an edited input: name one with --rule",
        ));
    }
    if args.edit_input.is_some() && !args.asks.is_one() {
        return Err(CliError::usage("--edit-input is for one ask at a time"));
    }
    let edited_input: Option<Value> = match &args.edit_input {
        Some(text) => serde_json::from_str(args::json_argument(text)?.get()).ok(),
        None => None,
    };
    let body = ResolutionBody {
        message: args.message,
        edited_input,
        ..ResolutionBody::default()
    };
    let decision = Decision {
        question: "Approve",
        choose: approving_option,
        option: args.option,
        body,
    };
    decide(common, &args.asks, args.remember, decision).await
}

pub(super) async fn deny(common: &CommonArgs, args: DenyArgs) -> Result<CliExit, CliError> {
    let body = ResolutionBody {
        message: args.message,
        stop: args.stop,
        ..ResolutionBody::default()
    };
    let decision = Decision {
        question: "Deny",
        choose: denying_option,
        option: args.option,
        body,
    };
    decide(common, &args.asks, args.remember, decision).await
}

/// What is to be said to each ask.
struct Decision {
    question: &'static str,
    choose: fn(&HostApproval, Option<&str>) -> Result<String, CliError>,
    option: Option<String>,
    body: ResolutionBody,
}

impl Decision {
    fn body_for(&self, row: &HostApproval) -> Result<ResolutionBody, CliError> {
        let resolution = (self.choose)(row, self.option.as_deref())?;
        let is_allow = approvals::allows(row, &resolution);
        if is_allow && !row.questions.is_empty() && self.body.edited_input.is_none() {
            return Err(question_error(row));
        }
        Ok(ResolutionBody {
            resolution,
            ..self.body.clone()
        })
    }
}

async fn decide(
    common: &CommonArgs,
    asks: &AskSelection,
    remember: RememberArgs,
    decision: Decision,
) -> Result<CliExit, CliError> {
    if remember.is_wanted() && !asks.is_one() {
        return Err(CliError::usage("--remember is for one ask at a time"));
    }
    let mut client = common.connect().await?;
    let found = asks.select(common, &mut client, decision.question).await?;
    let Some(mut found) = found else {
        return Ok(CliExit::Failure);
    };
    if !asks.is_one() {
        return resolve_each(common, &mut client, found, &decision).await;
    }
    let Some(row) = found.rows.pop() else {
        return Ok(CliExit::UnknownId);
    };
    let mut body = decision.body_for(&row)?;
    // Before anything is sent: a person who declines the rule has not answered the ask either.
    let confirmed = remember.confirm_rules(common, &mut client, &row, asks.yes);
    let Ok(rules) = confirmed.await? else {
        return Ok(CliExit::Failure);
    };
    let remembers = rules.is_some();
    body.remember = rules;
    let row = resolve(&mut client, row.id, body).await?;
    if common.json {
        output::print_json(&output::json_row(&row)?)?;
    } else {
        print_result(&row, remembers)?;
    }
    Ok(exit_of(&row))
}

/// One after the other. What befalls one of them does not keep the others from their answer.
async fn resolve_each(
    common: &CommonArgs,
    client: &mut HostClient,
    found: SelectedAsks,
    decision: &Decision,
) -> Result<CliExit, CliError> {
    let mut errors = found.errors;
    let mut done = Vec::new();
    let mut exit = CliExit::Ok;
    for row in found.rows {
        let id = row.id.clone();
        let resolved = match decision.body_for(&row) {
            Ok(body) => resolve(client, row.id, body).await,
            Err(error) => Err(error),
        };
        match resolved {
            Ok(row) => {
                if !common.json {
                    print_result(&row, false)?;
                }
                exit = exit.worse(exit_of(&row));
                done.push(row);
            }
            Err(error) if error.is_about_one_ask() => errors.push((id, error)),
            Err(error) => return Err(error),
        }
    }
    for (id, error) in &errors {
        exit = exit.worse(error.exit());
        if !common.json {
            let id = approvals::short_id(id);
            output::print_message(format_args!("{id} not answered: {error}"));
        }
    }
    if common.json {
        let errors = errors.into_iter().map(|(id, error)| DecisionError {
            id,
            error: error.document(),
        });
        output::print_json(&DecisionRows {
            approvals: output::json_rows(&done)?,
            errors: errors.collect(),
        })?;
    }
    Ok(exit)
}

pub(super) async fn answer(common: &CommonArgs, args: AnswerArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let row = match inbox::find(&mut client, &args.id).await? {
        NamedItem::Question(row) => {
            return answer_question(common, &mut client, row.id, args).await;
        }
        NamedItem::Ask(row) => *row,
    };
    if row.questions.is_empty() {
        let id = approvals::short_id(&row.id);
        let what = format!("{id} asks for permission and not for an answer; nothing was changed");
        let hint = format!("`countersign approve {id}` or `countersign deny {id}`");
        return Err(CliError::usage(what).with_hint(hint));
    }
    let answers = answers_of(&row, &args)?;
    let body = ResolutionBody {
        resolution: approving_option(&row, None)?,
        answers: Some(answers.into_iter().map(ChosenAnswer::Several).collect()),
        ..ResolutionBody::default()
    };
    let row = resolve(&mut client, row.id, body).await?;
    if common.json {
        output::print_json(&output::json_row(&row)?)?;
    } else {
        print_result(&row, false)?;
    }
    Ok(exit_of(&row))
}

async fn answer_question(
    common: &CommonArgs,
    client: &mut HostClient,
    question_id: String,
    args: AnswerArgs,
) -> Result<CliExit, CliError> {
    if !args.question.is_empty() {
        let what = "this is one question: give the answer without --question";
        return Err(CliError::usage(what));
    }
    let params = QuestionTarget {
        question_id,
        body: AnswerBody {
            answer: args.text.join(" "),
            considered_ms: None,
        },
    };
    let row = client.call::<method::AnswerQuestion>(&params).await?;
    common.print(&row, || {
        format!("{} {}\n", approvals::short_id(&row.id), row.state)
    })
}

/// The answer to each question of an ask, in their order.
fn answers_of(row: &HostApproval, args: &AnswerArgs) -> Result<Vec<Vec<String>>, CliError> {
    let total = row.questions.len();
    let mut texts: Vec<Option<String>> = vec![None; total];
    if let [one] = texts.as_mut_slice()
        && args.question.is_empty()
    {
        *one = Some(args.text.join(" "));
    } else if args.question.is_empty() && args.text.len() == total {
        texts = args.text.iter().cloned().map(Some).collect();
    }
    for given in &args.question {
        let (number, text) = given.split_once('=').unwrap_or((given, ""));
        let number = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        let Some(place) = number.and_then(|number| texts.get_mut(number)) else {
            let what = format!("`{given}`: name a question from 1 to {total}, as in 1=ANSWER");
            return Err(CliError::usage(what));
        };
        *place = Some(text.to_owned());
    }
    let asked = row.questions.iter().zip(texts);
    asked
        .map(|(asked, text)| match text {
            None if asked.optional => Ok(Vec::new()),
            None => Err(question_error(row)),
            Some(text) => choices::parse_answer(asked, &text).map_err(CliError::usage),
        })
        .collect()
}

/// What an ask wants to know, and how to say it.
fn question_error(row: &HostApproval) -> CliError {
    let id = approvals::short_id(&row.id);
    let asked = choices::questions(row).unwrap_or_default();
    let example = match row.questions.len() {
        1 => format!("countersign answer {id} 1"),
        _ => format!("countersign answer {id} --question 1=1 --question 2='in your words'"),
    };
    CliError::Usage {
        what: format!(
            "{id} has questions: answer each one that cannot be left empty; \
             nothing was changed\n{asked}"
        ),
        hint: Some(format!("`{example}`, or `countersign deny {id}`")),
    }
}

async fn resolve(
    client: &mut HostClient,
    approval_id: String,
    body: ResolutionBody,
) -> Result<HostApproval, CliError> {
    let params = ApprovalTarget { approval_id, body };
    Ok(client.call::<method::ResolveApproval>(&params).await?)
}

fn print_result(row: &HostApproval, remembers: bool) -> Result<(), CliError> {
    if row.passed_to_owner == Some(true) {
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
        output::print(&format!(
            "{} {}  {}\n",
            approvals::short_id(&row.id),
            approvals::ask_state(row),
            approvals::summary(row)
        ))?;
    }
    for grant in &row.remembered {
        let text = rules::grant(grant, duration::now());
        output::print_message(format_args!("remembered: {text}"));
    }
    Ok(())
}

fn exit_of(row: &HostApproval) -> CliExit {
    if row.passed_to_owner == Some(true) {
        CliExit::PassedToOwner
    } else {
        CliExit::Ok
    }
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
    CliError::usage(format!(
        "{id} {why}; nothing was changed\n  options: {}",
        approvals::options(row)
    ))
    .with_hint(format!(
        "choose one with `countersign approve {id} --option NAME`, or `countersign deny`"
    ))
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
