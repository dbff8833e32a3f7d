//! `inbox` and `show`: what waits for a person, in a list and whole.

use clap::Args;
use countersign_protocol::{
    ApprovalParams, BypassRow, HostAgent, HostApproval, HostQuestion, HostStatus, HostVerdict,
    ListParams, QuestionParams, Reason, RuleProblem, Time,
};
use serde::Serialize;

use super::Common;
use crate::client::{CallError, Client};
use crate::exit::Exit;
use crate::failure::CliError;
use crate::output::CARE;
use crate::{describe, duration, output, questions_text, rules_text};

#[derive(Args)]
pub(crate) struct InboxArgs {
    /// Only what this agent asks
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The ask or question; the first characters are enough
    id: String,
}

/// What `inbox --json` prints.
#[derive(Serialize)]
struct Inbox {
    approvals: Vec<HostApproval>,
    questions: Vec<HostQuestion>,
    rule_problems: Vec<RuleProblem>,
    bypassed: Vec<BypassRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_error: Option<String>,
}

pub(super) async fn inbox(common: &Common, args: InboxArgs) -> Result<Exit, CliError> {
    let mut client = common.connect().await?;
    let mut inbox = load(&mut client, args.agent).await?;
    inbox.approvals.sort_by_key(|row| row.sequence);
    inbox
        .questions
        .sort_by_key(|row| (!row.for_people, row.sequence));
    let now = duration::now();
    if !common.json {
        name_orchestrators(&mut client, &mut inbox.questions).await?;
        let store = inbox.store_error.as_deref().map(rules_text::store_warning);
        let others = rules_text::warnings(&inbox.rule_problems, &inbox.bypassed, now);
        for warning in store.into_iter().chain(others) {
            output::say(format_args!("{CARE}{warning}{CARE:#}"));
        }
    }
    if common.json {
        output::put_json(&inbox)?;
    } else if inbox.approvals.is_empty() && inbox.questions.is_empty() {
        output::say("nothing waits");
    } else {
        output::put(&list(&inbox, now, output::list_width()))?;
    }
    Ok(Exit::Ok)
}

/// Everything pending, page by page.
async fn load(client: &mut Client, agent_id: Option<String>) -> Result<Inbox, CliError> {
    const PAGE: u64 = 500;
    let mut params = ListParams {
        status: Some("pending".into()),
        agent_id: agent_id.clone(),
        limit: Some(PAGE),
        after: None,
    };
    let mut approvals: Vec<HostApproval> = Vec::new();
    loop {
        let page: Vec<HostApproval> = client.call("host.approvals", &params).await?;
        let last = page.last().map(|row| row.id.clone());
        let whole = page.len() as u64 >= PAGE && last != params.after;
        approvals.extend(page);
        if !whole {
            break;
        }
        params.after = last;
    }
    let params = ListParams {
        status: Some("pending".into()),
        agent_id,
        limit: None,
        after: None,
    };
    let questions = client.call("host.questions", &params).await?;
    let status = host_warnings(client).await?;
    let store_error = status
        .as_ref()
        .and_then(|status| status.store_error.clone());
    let (rule_problems, bypassed) = status
        .map(|status| (status.rule_problems, status.bypassed))
        .unwrap_or_default();
    Ok(Inbox {
        approvals,
        questions,
        rule_problems,
        bypassed,
        store_error,
    })
}

/// Where broken rule files, agents in bypass and a record that cannot be written are found. Agents
/// may list their asks, and see nothing of this.
async fn host_warnings(client: &mut Client) -> Result<Option<HostStatus>, CliError> {
    let status: Result<HostStatus, _> = client.call("host.status", &serde_json::json!({})).await;
    Ok(known(status, Reason::AgentNotAllowed)?.ok())
}

fn list(inbox: &Inbox, now: Time, width: usize) -> String {
    let asks = inbox.approvals.iter().map(|row| {
        let who = describe::asker(row.agent_id.as_deref(), row.asked_by.as_ref());
        (
            (false, row.sequence),
            row.created_at,
            "ask",
            &row.id,
            who,
            describe::summary(row),
            row.verdict.as_ref(),
        )
    });
    let questions = inbox.questions.iter().map(|row| {
        let who = describe::asker(row.agent_id.as_deref(), Some(&row.asked_by));
        (
            (!row.for_people, row.sequence),
            row.created_at,
            "question",
            &row.id,
            who,
            questions_text::summary(row, now),
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
                describe::short_id(id),
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
        let parts = verdict.map(rules_text::parts).unwrap_or_default();
        for part in parts {
            text.extend([output::cut(&format!("    {part}"), width).as_str(), "\n"]);
        }
    }
    text
}

/// Puts names in the place of orchestrators' ids. An agent that looks sees those that it may see.
async fn name_orchestrators(
    client: &mut Client,
    questions: &mut [HostQuestion],
) -> Result<(), CliError> {
    if questions.iter().all(|row| row.to.is_none()) {
        return Ok(());
    }
    let agents = client.call("host.agents", &serde_json::json!({})).await;
    if let Ok(agents) = known::<Vec<HostAgent>>(agents, Reason::AgentNotAllowed)? {
        questions_text::name_orchestrators(questions, &agents);
    }
    Ok(())
}

/// One thing that waits or waited.
enum Found {
    Ask(Box<HostApproval>),
    Question(Box<HostQuestion>),
}

pub(super) async fn show(common: &Common, args: ShowArgs) -> Result<Exit, CliError> {
    let mut client = common.connect().await?;
    let now = duration::now();
    match (find(&mut client, &args.id).await?, common.json) {
        (Found::Ask(row), true) => output::put_json(&row)?,
        (Found::Question(row), true) => output::put_json(&row)?,
        (Found::Ask(row), false) => output::put(&output::fields(&describe::ask_fields(&row, now)))?,
        (Found::Question(mut row), false) => {
            name_orchestrators(&mut client, std::slice::from_mut(&mut *row)).await?;
            output::put(&output::fields(&questions_text::fields(&row, now)))?;
        }
    }
    Ok(Exit::Ok)
}

/// Looks among both, so that an abbreviation of one never stands for the other.
async fn find(client: &mut Client, id: &str) -> Result<Found, CliError> {
    let approval_id = id.to_owned();
    let ask: Result<HostApproval, _> = client
        .call("host.approval", &ApprovalParams { approval_id })
        .await;
    let ask = known(ask, Reason::UnknownApproval);
    let question_id = id.to_owned();
    let question: Result<HostQuestion, _> = client
        .call("host.question", &QuestionParams { question_id })
        .await;
    match (ask?, known(question, Reason::UnknownQuestion)?) {
        (Ok(_), Ok(_)) => Err(CliError::UnknownId {
            what: format!("`{id}` fits an ask and a question"),
            hint: Some(format!("write `approval-{id}` or `question-{id}`")),
        }),
        (Ok(row), Err(_)) => Ok(Found::Ask(Box::new(row))),
        (Err(_), Ok(row)) => Ok(Found::Question(Box::new(row))),
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
    use crate::sample;

    #[test]
    fn the_inbox_is_oldest_first_and_what_orchestrators_are_asked_comes_last() {
        let late = HostApproval {
            id: "approval-cccc33334444".into(),
            sequence: 9,
            tool: None,
            input: None,
            action: "Push to main".into(),
            verdict: Some(sample::verdict()),
            ..sample::approval()
        };
        let orchestrators = HostQuestion {
            id: "question-dddd11112222".into(),
            sequence: 1,
            to: Some("boss".into()),
            for_people: false,
            escalates_at: Some(Time(191_000_000)),
            ..sample::question()
        };
        let inbox = Inbox {
            approvals: vec![late, sample::approval()],
            questions: vec![orchestrators, sample::question()],
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
             ask    write /p/.git/config  <- git internals (no rule, grant or bypass lifts this)\n\
             dddd1111  question  2m   docs     [asks boss first, you in 10s] Which title?\n"
        );
    }
}
