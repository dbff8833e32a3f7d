//! `inbox` and `show`: what waits for a person, in a list and whole.

use clap::Args;
use countersign_protocol::{
    ApprovalParams, BypassRow, HostAgent, HostApproval, HostQuestion, HostStatus, HostVerdict,
    ListParams, ListStatus, NoParams, QuestionParams, Reason, RuleProblem, Time, method,
};
use serde::Serialize;

use super::CommonArgs;
use crate::client::{CallError, HostClient};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output::WARNING;
use crate::render::{approvals, questions, rules};
use crate::{duration, output};

#[derive(Args)]
pub(crate) struct InboxArgs {
    /// Only asks and questions of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Id of the ask or question; its first characters are enough
    id: String,
}

/// What `inbox --json` prints.
#[derive(Serialize)]
struct InboxRows {
    approvals: Vec<HostApproval>,
    questions: Vec<HostQuestion>,
    rule_problems: Vec<RuleProblem>,
    bypassed: Vec<BypassRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_error: Option<String>,
}

pub(super) async fn inbox(common: &CommonArgs, args: InboxArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let mut inbox = load(&mut client, args.agent).await?;
    inbox.approvals.sort_by_key(|row| row.sequence);
    inbox
        .questions
        .sort_by_key(|row| (!row.for_people, row.sequence));
    let now = duration::now();
    if !common.json {
        name_orchestrators(&mut client, &mut inbox.questions).await?;
        let store = inbox.store_error.as_deref().map(rules::store_warning);
        let others = rules::warnings(&inbox.rule_problems, &inbox.bypassed, now);
        for warning in store.into_iter().chain(others) {
            output::print_message(format_args!("{WARNING}{warning}{WARNING:#}"));
        }
    }
    if common.json {
        output::print_json(&inbox)?;
    } else if inbox.approvals.is_empty() && inbox.questions.is_empty() {
        output::print_message("inbox empty");
    } else {
        output::print(&list(&inbox, now, output::list_width()))?;
    }
    Ok(CliExit::Ok)
}

/// Everything pending, page by page.
async fn load(client: &mut HostClient, agent_id: Option<String>) -> Result<InboxRows, CliError> {
    const PAGE: u64 = 500;
    let mut params = ListParams {
        status: Some(ListStatus::Pending),
        agent_id: agent_id.clone(),
        limit: Some(PAGE),
        after: None,
    };
    let mut approvals: Vec<HostApproval> = Vec::new();
    loop {
        let page = client.call::<method::Approvals>(&params).await?;
        let last = page.last().map(|row| row.id.clone());
        let whole = page.len() as u64 >= PAGE && last != params.after;
        approvals.extend(page);
        if !whole {
            break;
        }
        params.after = last;
    }
    let params = ListParams {
        status: Some(ListStatus::Pending),
        agent_id,
        limit: None,
        after: None,
    };
    let questions = client.call::<method::Questions>(&params).await?;
    let status = host_warnings(client).await?;
    let store_error = status
        .as_ref()
        .and_then(|status| status.store_error.clone());
    let (rule_problems, bypassed) = status
        .map(|status| (status.rule_problems, status.bypassed))
        .unwrap_or_default();
    Ok(InboxRows {
        approvals,
        questions,
        rule_problems,
        bypassed,
        store_error,
    })
}

/// Where broken rule files, agents in bypass and a record that cannot be written are found. Agents
/// may list their asks, and see nothing of this.
async fn host_warnings(client: &mut HostClient) -> Result<Option<HostStatus>, CliError> {
    let status = client.call::<method::Status>(&NoParams {}).await;
    Ok(known(status, Reason::AgentNotAllowed)?.ok())
}

fn list(inbox: &InboxRows, now: Time, width: usize) -> String {
    let asks = inbox.approvals.iter().map(|row| {
        let who = approvals::asker(row.agent_id.as_deref(), row.asked_by.as_ref());
        (
            (false, row.sequence),
            row.created_at,
            "ask",
            &row.id,
            who,
            approvals::summary(row),
            row.verdict.as_ref(),
        )
    });
    let questions = inbox.questions.iter().map(|row| {
        let who = approvals::asker(row.agent_id.as_deref(), Some(&row.asked_by));
        (
            (!row.for_people, row.sequence),
            row.created_at,
            "question",
            &row.id,
            who,
            questions::summary(row, now),
            None,
        )
    });
    let mut items: Vec<_> = asks.chain(questions).collect();
    items.sort_by_key(|item| item.0);
    let verdicts: Vec<_> = items.iter().map(|item| item.6).collect();
    let rows: Vec<_> = items
        .into_iter()
        .map(|(_, at, kind, id, who, what, _)| {
            vec![
                approvals::short_id(id),
                kind.into(),
                duration::age(now, at),
                who,
                what,
            ]
        })
        .collect();
    let table = output::columns(&["ID", "KIND", "AGE", "FROM", "WHAT"], &rows, width);
    with_parts(&table, &verdicts, width)
}

/// Puts the parts of each verdict under the row it belongs to.
fn with_parts(table: &str, verdicts: &[Option<&HostVerdict>], width: usize) -> String {
    let mut lines = table.lines();
    let mut text: String = lines
        .next()
        .map(|heading| format!("{heading}\n"))
        .unwrap_or_default();
    for (row, verdict) in lines.zip(verdicts) {
        text.extend([row, "\n"]);
        let parts = verdict.map(rules::parts).unwrap_or_default();
        for part in parts {
            text.extend([
                output::truncate(&format!("    {part}"), width).as_str(),
                "\n",
            ]);
        }
    }
    text
}

/// Puts names in the place of orchestrators' ids. An agent that looks sees those that it may see.
async fn name_orchestrators(
    client: &mut HostClient,
    questions: &mut [HostQuestion],
) -> Result<(), CliError> {
    if questions.iter().all(|row| row.to.is_none()) {
        return Ok(());
    }
    let agents = client.call::<method::Agents>(&NoParams {}).await;
    if let Ok(agents) = known::<Vec<HostAgent>>(agents, Reason::AgentNotAllowed)? {
        questions::name_orchestrators(questions, &agents);
    }
    Ok(())
}

/// One thing that waits or waited.
enum InboxEntry {
    Ask(Box<HostApproval>),
    Question(Box<HostQuestion>),
}

pub(super) async fn show(common: &CommonArgs, args: ShowArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let now = duration::now();
    match (find(&mut client, &args.id).await?, common.json) {
        (InboxEntry::Ask(row), true) => output::print_json(&row)?,
        (InboxEntry::Question(row), true) => output::print_json(&row)?,
        (InboxEntry::Ask(row), false) => {
            output::print(&output::fields(&approvals::ask_fields(&row, now)))?;
        }
        (InboxEntry::Question(mut row), false) => {
            name_orchestrators(&mut client, std::slice::from_mut(&mut *row)).await?;
            output::print(&output::fields(&questions::fields(&row, now)))?;
        }
    }
    Ok(CliExit::Ok)
}

/// Looks among both, so that an abbreviation of one never stands for the other.
async fn find(client: &mut HostClient, id: &str) -> Result<InboxEntry, CliError> {
    let approval_id = id.to_owned();
    let ask = client
        .call::<method::Approval>(&ApprovalParams { approval_id })
        .await;
    let ask = known(ask, Reason::UnknownApproval);
    let question_id = id.to_owned();
    let question = client
        .call::<method::Question>(&QuestionParams { question_id })
        .await;
    match (ask?, known(question, Reason::UnknownQuestion)?) {
        (Ok(_), Ok(_)) => Err(CliError::UnknownId {
            what: format!("`{id}` fits an ask and a question"),
            hint: Some(format!("write `approval-{id}` or `question-{id}`")),
        }),
        (Ok(row), Err(_)) => Ok(InboxEntry::Ask(Box::new(row))),
        (Err(_), Ok(row)) => Ok(InboxEntry::Question(Box::new(row))),
        (Err(error), Err(_)) => Err(error.into()),
    }
}

/// Sets a refusal that only says "not here" apart from every other failure.
fn known<T>(
    result: Result<T, CallError>,
    absent: Reason,
) -> Result<Result<T, CallError>, CallError> {
    match result {
        Err(error) if error.reason() != Some(absent) => Err(error),
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    #[test]
    fn the_inbox_is_oldest_first_and_what_orchestrators_are_asked_comes_last() {
        let late = HostApproval {
            id: "approval-cccc33334444".into(),
            sequence: 9,
            tool: None,
            input: None,
            action: "Push to main".into(),
            verdict: Some(test_rows::verdict()),
            ..test_rows::approval()
        };
        let orchestrators = HostQuestion {
            id: "question-dddd11112222".into(),
            sequence: 1,
            to: Some("boss".into()),
            for_people: false,
            escalates_at: Some(Time(191_000_000)),
            ..test_rows::question()
        };
        let inbox = InboxRows {
            approvals: vec![late, test_rows::approval()],
            questions: vec![orchestrators, test_rows::question()],
            rule_problems: Vec::new(),
            bypassed: Vec::new(),
            store_error: None,
        };
        let text = list(&inbox, Time(181_000_000), 100);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "ID        KIND      AGE  FROM     WHAT\n\
             aaaa1111  ask       3m   builder  Bash: cargo test --workspace\n\
             bbbb1111  question  2m   docs     Which title?\n\
             cccc3333  ask       3m   builder  Push to main\n    allow  cargo test  <- allow Bash(cargo test:*) (/u/rules.toml:3)\n    \
             ask    write /p/.git/config  <- git internals (no rule, grant or bypass can allow this)\n\
             dddd1111  question  2m   docs     [asks boss first, you in 10s] Which title?\n"
        );
    }
}
