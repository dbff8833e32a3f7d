//! `inbox` and `show`: what waits for a person, in a list and whole.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use countersign_protocol::{
    ApprovalParams, BypassRow, HostApproval, HostEvent, HostQuestion, HostStatus, HostVerdict,
    ListParams, ListStatus, NoParams, QuestionParams, Reason, RuleProblem, Time, method,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::args::LabelArg;
use super::{CommonArgs, agent_lookup, args};
use crate::client::{CallError, HostClient};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::approvals::{self, FieldDetail};
use crate::render::inbox_item::{InboxContent, InboxItem};
use crate::render::{escape, questions, rules};
use crate::{duration, notes, output};

/// An ask or a question that a command names.
pub(super) enum NamedItem {
    Ask(Box<HostApproval>),
    Question(Box<HostQuestion>),
}

#[derive(Args)]
pub(crate) struct InboxArgs {
    /// Only asks and questions of this agent, by name or id
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only those of agents with this label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Id of the ask or question; its first characters are enough
    id: String,
    /// Also show the input as it was sent, details, digest and history
    #[arg(long)]
    full: bool,
}

/// What `inbox --json` prints.
#[derive(Serialize)]
struct InboxDocument<'i> {
    approvals: Vec<Box<RawValue>>,
    questions: &'i [HostQuestion],
    notes: &'i [HostEvent],
    rule_problems: &'i [RuleProblem],
    bypassed: &'i [BypassRow],
    #[serde(skip_serializing_if = "Option::is_none")]
    store_error: Option<&'i str>,
}

impl InboxRows {
    fn is_empty(&self) -> bool {
        self.approvals.is_empty() && self.questions.is_empty() && self.notes.is_empty()
    }

    fn document(&self) -> Result<InboxDocument<'_>, CliError> {
        Ok(InboxDocument {
            approvals: output::json_rows(&self.approvals)?,
            questions: &self.questions,
            notes: &self.notes,
            rule_problems: &self.rule_problems,
            bypassed: &self.bypassed,
            store_error: self.store_error.as_deref(),
        })
    }
}

/// What is open, and what a person must know besides.
struct InboxRows {
    approvals: Vec<HostApproval>,
    questions: Vec<HostQuestion>,
    /// Recent notes of agents that have no orchestrator to read them, oldest first.
    notes: Vec<HostEvent>,
    rule_problems: Vec<RuleProblem>,
    bypassed: Vec<BypassRow>,
    store_error: Option<String>,
}

pub(super) async fn inbox(common: &CommonArgs, args: InboxArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let labels = args::labels(args.labels)?;
    let mut inbox = load(&mut client, args.agent).await?;
    if !labels.is_empty() {
        keep_labelled(&mut client, &mut inbox, &labels).await?;
    }
    inbox
        .questions
        .sort_by_key(|row| (!row.for_people, row.sequence));
    let now = duration::now();
    if !common.json {
        let store = inbox.store_error.as_deref().map(rules::store_warning);
        let others = rules::warnings(&inbox.rule_problems, &inbox.bypassed, now);
        for warning in store.into_iter().chain(others) {
            output::print_warning(warning);
        }
    }
    if common.json {
        output::print_json(&inbox.document()?)?;
    } else if inbox.is_empty() {
        output::print_message("inbox empty");
    } else {
        output::print(&list(&inbox, now, output::list_width()))?;
        if let Some(hint) = equal_hint(&inbox.approvals) {
            output::print_message(hint);
        }
    }
    Ok(CliExit::Ok)
}

/// Drops what was not asked by agents with these labels.
async fn keep_labelled(
    client: &mut HostClient,
    inbox: &mut InboxRows,
    labels: &BTreeMap<String, String>,
) -> Result<(), CliError> {
    let agents = client.call::<method::Agents>(&NoParams {}).await?;
    let ids: BTreeSet<&str> = agents
        .iter()
        .filter(|agent| agent_lookup::has_labels(agent, labels))
        .map(|agent| agent.id.as_str())
        .collect();
    let is_kept = |id: Option<&str>| id.is_some_and(|id| ids.contains(id));
    inbox
        .approvals
        .retain(|row| is_kept(row.agent_id.as_deref()));
    inbox
        .questions
        .retain(|row| is_kept(row.agent_id.as_deref()));
    inbox.notes.retain(|row| is_kept(row.agent_id.as_deref()));
    Ok(())
}

/// Everything pending.
async fn load(client: &mut HostClient, agent_id: Option<String>) -> Result<InboxRows, CliError> {
    let approvals = open_asks(client, agent_id.clone()).await?;
    let note_agent = agent_id.clone();
    let params = ListParams {
        status: Some(ListStatus::Pending),
        agent_id,
        limit: None,
        after: None,
    };
    let questions = client.call::<method::Questions>(&params).await?;
    let notes = notes::recent(client, note_agent).await?;
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
        notes,
        rule_problems,
        bypassed,
        store_error,
    })
}

/// All open asks, page by page, oldest first.
pub(super) async fn open_asks(
    client: &mut HostClient,
    agent_id: Option<String>,
) -> Result<Vec<HostApproval>, CliError> {
    const PAGE: u64 = 500;
    let mut params = ListParams {
        status: Some(ListStatus::Pending),
        agent_id,
        limit: Some(PAGE),
        after: None,
    };
    let mut approvals: Vec<HostApproval> = Vec::new();
    loop {
        let page = client.call::<method::Approvals>(&params).await?;
        let last = page.last().map(|row| row.id.clone());
        // A page that ends where the one before did would come again for ever.
        let whole = page.len() as u64 >= PAGE && last != params.after;
        approvals.extend(page);
        if !whole {
            break;
        }
        params.after = last;
    }
    approvals.sort_by_key(|row| row.sequence);
    Ok(approvals)
}

/// Where broken rule files, agents in bypass and a record that cannot be written are found. Agents
/// may list their asks, and see nothing of this.
async fn host_warnings(client: &mut HostClient) -> Result<Option<HostStatus>, CliError> {
    let status = client.call::<method::Status>(&NoParams {}).await;
    Ok(known(status, Reason::AgentNotAllowed)?.ok())
}

fn list(inbox: &InboxRows, now: Time, width: usize) -> String {
    let asks = inbox.approvals.iter().cloned().map(InboxItem::ask);
    let questions = inbox.questions.iter().cloned().map(InboxItem::question);
    let notes = inbox.notes.iter().cloned().filter_map(InboxItem::note);
    let mut items: Vec<_> = asks.chain(questions).chain(notes).collect();
    items.sort_by_key(InboxItem::order);
    let entries = group_equal(items);
    let rows: Vec<_> = entries.iter().map(|entry| entry.row(now)).collect();
    let heading = ["ID", "KIND", "AGE", "FROM", "WHAT"];
    let table = output::columns(&heading, &rows, width);
    with_parts(&table, &entries, width)
}

/// One line of the list.
struct InboxEntry {
    item: InboxItem,
    /// The ask above it that is equal to this one.
    same_as: Option<Box<HostApproval>>,
}

impl InboxEntry {
    fn row(&self, now: Time) -> Vec<String> {
        let what = match &self.same_as {
            Some(first) => self.same_text(first),
            None => self.item.summary(now),
        };
        vec![
            self.item.short_id(),
            self.item.kind().to_owned(),
            duration::age(now, self.item.created_at()),
            self.item.asker(),
            what,
        ]
    }

    /// The input is the same. The folder is where it would run, so another one is named.
    fn same_text(&self, first: &HostApproval) -> String {
        let folder = self.ask().and_then(|ask| ask.cwd.as_deref());
        let other = folder.filter(|folder| first.cwd.as_deref() != Some(*folder));
        let place = other.map_or(String::new(), |folder| {
            let folder = output::short_path(folder, &output::home_folder());
            format!(", in {}", escape::line(&folder))
        });
        format!("same as {}{place}", approvals::short_id(&first.id))
    }

    fn ask(&self) -> Option<&HostApproval> {
        match &self.item.content {
            InboxContent::Ask(ask) => Some(ask),
            InboxContent::Question(_) | InboxContent::Note(_) => None,
        }
    }

    /// What the rules say, where it is not what they say to the equal ask above.
    fn verdict(&self) -> Option<&HostVerdict> {
        let verdict = self.ask()?.verdict.as_ref();
        let above = self.same_as.as_ref();
        verdict.filter(|verdict| above.and_then(|ask| ask.verdict.as_ref()) != Some(verdict))
    }
}

/// Puts each ask under the first one that is equal to it. Everything else keeps its place.
fn group_equal(items: Vec<InboxItem>) -> Vec<InboxEntry> {
    let mut entries: Vec<InboxEntry> = Vec::new();
    for item in items {
        let InboxContent::Ask(ask) = &item.content else {
            entries.push(InboxEntry {
                item,
                same_as: None,
            });
            continue;
        };
        let mut asks = entries.iter().filter_map(InboxEntry::ask);
        let first = asks.find(|other| approvals::are_equal(other, ask)).cloned();
        let place = entries.iter().rposition(|entry| {
            let other = entry.ask();
            other.is_some_and(|other| approvals::are_equal(other, ask))
        });
        entries.insert(
            place.map_or(entries.len(), |at| at + 1),
            InboxEntry {
                item,
                same_as: first.map(Box::new),
            },
        );
    }
    entries
}

/// How equal asks are answered together.
fn equal_hint(asks: &[HostApproval]) -> Option<String> {
    let first = asks.iter().enumerate().find_map(|(index, ask)| {
        let mut later = asks[index + 1..].iter();
        later
            .any(|other| approvals::are_equal(ask, other))
            .then_some(ask)
    })?;
    Some(format!(
        "equal asks can be answered together: `countersign approve {} --same`",
        approvals::short_id(&first.id)
    ))
}

/// Puts the parts of each verdict under the row it belongs to.
fn with_parts(table: &str, entries: &[InboxEntry], width: usize) -> String {
    let mut lines = table.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    for (index, row) in lines.enumerate() {
        text.extend([row, "\n"]);
        let Some(entry) = entries.get(index) else {
            continue;
        };
        if let Some(verdict) = entry.verdict() {
            for part in rules::part_lines(verdict, width.saturating_sub(4)) {
                text.extend(["    ", &output::styled_word(&part), "\n"]);
            }
        }
    }
    text
}

pub(super) async fn show(common: &CommonArgs, args: ShowArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let now = duration::now();
    match (find(&mut client, &args.id).await?, common.json) {
        (NamedItem::Ask(row), true) => output::print_json(&output::json_row(&row)?)?,
        (NamedItem::Question(row), true) => output::print_json(&row)?,
        (NamedItem::Ask(row), false) => {
            output::print(&output::fields(&shown_fields(&row, now, args.full)))?;
        }
        (NamedItem::Question(row), false) => {
            output::print(&output::fields(&questions::fields(&row, now)))?;
        }
    }
    Ok(CliExit::Ok)
}

fn shown_fields(row: &HostApproval, now: Time, full: bool) -> Vec<(&'static str, String)> {
    if full {
        return approvals::ask_fields(row, now, FieldDetail::Full);
    }
    let mut fields = approvals::ask_fields(row, now, FieldDetail::Folded);
    for (_, names) in fields.iter_mut().filter(|(name, _)| *name == "folded") {
        names.push_str(" (--full shows them)");
    }
    fields
}

/// Looks among both, so that an abbreviation of one never stands for the other.
pub(super) async fn find(client: &mut HostClient, id: &str) -> Result<NamedItem, CliError> {
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
        (Ok(_), Ok(_)) => Err(CliError::unknown_id(format!(
            "`{id}` matches both an ask and a question"
        ))
        .with_hint(format!("write `approval-{id}` or `question-{id}`"))),
        (Ok(row), Err(_)) => Ok(NamedItem::Ask(Box::new(row))),
        (Err(_), Ok(row)) => Ok(NamedItem::Question(Box::new(row))),
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
    use crate::render::decisions;
    use crate::test_rows;

    #[test]
    fn equal_asks_stand_together_and_can_be_answered_together() {
        let ask = |id: &str, agent: &str, sequence, digest: &str| HostApproval {
            id: format!("approval-{id}"),
            agent_id: Some(agent.into()),
            asked_by: None,
            sequence,
            input_digest: Some(digest.into()),
            ..test_rows::approval()
        };
        let other = HostApproval {
            cwd: Some("/w/docs".into()),
            ..ask("cccc3333", "docs", 3, "same")
        };
        let inbox = InboxRows {
            approvals: vec![
                ask("aaaa1111", "fix", 1, "same"),
                ask("bbbb2222", "api", 2, "another"),
                other,
                ask("dddd4444", "web", 4, "same"),
            ],
            questions: Vec::new(),
            notes: Vec::new(),
            rule_problems: Vec::new(),
            bypassed: Vec::new(),
            store_error: None,
        };
        let text = list(&inbox, Time(181_000_000), 100);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "ID        KIND  AGE  FROM  WHAT\n\
             aaaa1111  ask   3m   fix   Bash: cargo test --workspace\n\
             cccc3333  ask   3m   docs  same as aaaa1111, in /w/docs\n\
             dddd4444  ask   3m   web   same as aaaa1111\n\
             bbbb2222  ask   3m   api   Bash: cargo test --workspace\n"
        );
        assert_eq!(
            equal_hint(&inbox.approvals).unwrap(),
            "equal asks can be answered together: `countersign approve aaaa1111 --same`"
        );
        assert_eq!(equal_hint(&inbox.approvals[..2]), None);
    }

    #[test]
    fn the_inbox_is_oldest_first_and_what_orchestrators_are_asked_comes_last() {
        let late = HostApproval {
            id: "approval-cccc33334444".into(),
            sequence: 9,
            tool: None,
            input: None,
            action: "Push to main".into(),
            verdict: Some(test_rows::verdict()),
            view: None,
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
            notes: vec![HostEvent {
                agent_id: Some("agent-1".into()),
                agent_name: Some("api".into()),
                id: "event-1".into(),
                kind: decisions::NOTE.into(),
                message: String::new(),
                payload: test_rows::raw(r#"{"agent":"agent-1","text":"half way"}"#),
                sequence: 3,
                timestamp: Time(1_000_000),
            }],
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
             dddd1111  question  2m   docs     [asks boss first, you in 10s] Which title?\n\
             -         note      3m   api      half way\n"
        );
    }
}
