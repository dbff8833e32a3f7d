//! An orchestrator's tools over the agents below it: look, tell, interrupt, end, wait, answer.

use std::time::Duration;

use countersign_core::limits::{MCP_LIST_ROWS_MAX, MCP_WAIT_S, MCP_WAIT_S_MAX};
use countersign_protocol as wire;
use countersign_protocol::{HostAgent, HostApproval, HostQuestion};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::Call;
use super::reply::{Outcome, Stop, Told, cut, named, quoted};
use crate::ops;
use crate::ops::children::Woken;

/// How much of an ask's input is shown in a list: enough to judge most of them by.
const INPUT_BYTES: usize = 4 * 1024;

/// A tool that takes nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// A tool that takes one agent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct One {
    agent: String,
}

pub(super) async fn list_agents(call: &Call<'_>, _nothing: Nothing) -> Outcome {
    let rows = ops::children::agents(call.service(), &call.caller).await?;
    Ok(listed("agents", &rows, agent_data, agent_line))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sent {
    agent: String,
    message: String,
}

pub(super) async fn send(call: &Call<'_>, sent: Sent) -> Outcome {
    let id = find(call, &sent.agent).await?;
    let body = wire::PromptBody {
        message: sent.message,
    };
    let row = ops::managed::prompt(call.service(), &call.caller, id, body).await?;
    Ok(done("it hears that between two turns", &row))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Interrupted {
    agent: String,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn interrupt(call: &Call<'_>, interrupted: Interrupted) -> Outcome {
    let id = find(call, &interrupted.agent).await?;
    let body = wire::InterruptBody {
        reason: interrupted.reason,
    };
    let row = ops::managed::interrupt(call.service(), &call.caller, id, body).await?;
    Ok(done("its turn ends", &row))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Killed {
    agent: String,
    #[serde(default)]
    children: Option<wire::ChildrenFate>,
}

pub(super) async fn kill(call: &Call<'_>, killed: Killed) -> Outcome {
    let id = find(call, &killed.agent).await?;
    let body = wire::KillBody {
        children: killed.children,
    };
    let row = ops::managed::kill(call.service(), &call.caller, id, body).await?;
    Ok(done("it ends, with everything it started", &row))
}

pub(super) async fn resume(call: &Call<'_>, one: One) -> Outcome {
    let id = find(call, &one.agent).await?;
    let row = ops::managed::resume(call.service(), &call.caller, id).await?;
    Ok(done("restarting on its session", &row))
}

pub(super) async fn archive(call: &Call<'_>, one: One) -> Outcome {
    let id = find(call, &one.agent).await?;
    let body = wire::ArchiveBody { archived: true };
    let row = ops::managed::archive(call.service(), &call.caller, id, body).await?;
    Ok(done("archived", &row))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Awaited {
    #[serde(default)]
    agents: Vec<String>,
    #[serde(default)]
    timeout_s: Option<u64>,
}

pub(super) async fn wait(call: &Call<'_>, awaited: Awaited) -> Outcome {
    let mut ids = Vec::new();
    if awaited.agents.is_empty() {
        let all = ops::children::agents(call.service(), &call.caller).await?;
        ids.extend(all.into_iter().filter(is_there).map(|row| row.id));
    }
    for word in &awaited.agents {
        ids.push(find(call, word).await?);
    }
    if ids.is_empty() {
        return Ok(Told::new("no agent of yours runs", json!({"agents": []})));
    }
    let limit = awaited.timeout_s.unwrap_or(MCP_WAIT_S);
    let limit = Duration::from_secs(limit.clamp(1, MCP_WAIT_S_MAX));
    let wait = ops::children::wait(call.service(), &call.caller, ids, limit);
    let (woken, rows) = call.await_with_progress("waiting for agents", wait).await?;
    let first = match woken {
        Woken::Rested => "none of them has anything to do any more",
        Woken::Asked => "one of them asks something: see list_questions and list_approvals",
        Woken::Late => "time ran out, and some still work",
    };
    let mut told = listed("agents", &rows, agent_data, agent_line);
    told.words = format!("{first}\n{}", told.words);
    told.data["all_idle"] = json!(woken == Woken::Rested);
    // Many clients show the data alone.
    told.data["message"] = json!(first);
    Ok(told)
}

fn is_there(row: &HostAgent) -> bool {
    !row.state.is_ended()
}

pub(super) async fn list_questions(call: &Call<'_>, _nothing: Nothing) -> Outcome {
    let rows = ops::children::questions(call.service(), &call.caller).await?;
    Ok(listed("questions", &rows, question_data, question_line))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answered {
    question_id: String,
    answer: String,
}

pub(super) async fn answer_question(call: &Call<'_>, answered: Answered) -> Outcome {
    let caller = call.caller.clone();
    let (id, answer) = (answered.question_id, answered.answer);
    let row = ops::answer_question(call.service(), caller, id, answer).await?;
    Ok(Told::new("answered", question_data(&row)))
}

pub(super) async fn list_approvals(call: &Call<'_>, _nothing: Nothing) -> Outcome {
    let rows = ops::children::approvals(call.service(), &call.caller).await?;
    Ok(listed("approvals", &rows, approval_data, approval_line))
}

/// What an orchestrator can say to an ask.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolved {
    approval_id: String,
    decision: Decision,
    #[serde(default)]
    message: Option<String>,
}

pub(super) async fn resolve_approval(call: &Call<'_>, resolved: Resolved) -> Outcome {
    let id = resolved.approval_id;
    let found = ops::approval(call.service(), &call.caller, id.clone()).await?;
    let approving = found.approving.first().cloned();
    let resolution = match resolved.decision {
        Decision::Allow => approving.unwrap_or_else(|| "approve".to_owned()),
        Decision::Deny => "deny".to_owned(),
    };
    let body = wire::ResolutionBody {
        resolution,
        message: resolved.message,
        edited_input: None,
        stop: false,
        remember: None,
    };
    let row = ops::resolve_approval(call.service(), call.caller.clone(), id, body).await?;
    Ok(Told::new(
        format!("it is {}", row.state),
        approval_data(&row),
    ))
}

/// The id of an agent below the caller.
pub(super) async fn find(call: &Call<'_>, word: &str) -> Result<String, Stop> {
    let row = ops::children::find(call.service(), &call.caller, word).await?;
    Ok(row.id)
}

fn done(words: &str, row: &HostAgent) -> Told {
    Told::new(format!("{}: {words}", agent_line(row)), agent_data(row))
}

/// A list, the oldest of what is too much.
fn listed<T>(
    what: &str,
    rows: &[T],
    data: impl Fn(&T) -> Value,
    line: impl Fn(&T) -> String,
) -> Told {
    let shown = &rows[..rows.len().min(MCP_LIST_ROWS_MAX)];
    let mut words: Vec<String> = shown.iter().map(line).collect();
    if rows.is_empty() {
        words.push(format!("no {what}"));
    } else if shown.len() < rows.len() {
        words.push(format!("and {} more", rows.len() - shown.len()));
    }
    let rows: Vec<Value> = shown.iter().map(data).collect();
    Told::new(words.join("\n"), json!({ what: rows }))
}

/// An agent, as much of it as whoever steers it needs.
pub(super) fn agent_data(row: &HostAgent) -> Value {
    let managed = row.managed.as_ref();
    json!({
        "id": row.id,
        "name": named(&row.name),
        "kind": row.kind,
        "state": row.state,
        "open_questions": row.open_questions,
        "open_approvals": row.open_approvals,
        "parent": managed.and_then(|managed| managed.parent.clone()),
        "message": managed.and_then(|managed| managed.message.as_deref()).map(quoted),
        "turns": managed.map(|managed| managed.turns),
    })
}

fn agent_line(row: &HostAgent) -> String {
    format!("`{}` ({}) is {}", named(&row.name), row.id, row.state)
}

fn question_data(row: &HostQuestion) -> Value {
    json!({
        "id": row.id,
        "agent": row.agent_id,
        "question": quoted(&row.question),
        "state": row.state,
        "answer": row.answer.as_deref().map(quoted),
    })
}

fn question_line(row: &HostQuestion) -> String {
    let asker = row.agent_id.as_deref().unwrap_or("somebody");
    format!("{} of {asker}: {}", row.id, quoted(&row.question))
}

fn approval_data(row: &HostApproval) -> Value {
    let input = row
        .input
        .as_ref()
        .map(|input| cut(input.0.get(), INPUT_BYTES));
    json!({
        "id": row.id,
        "agent": row.agent_id,
        "action": quoted(&row.action),
        "tool": row.tool.as_deref().map(named),
        "input": input.as_deref().map(quoted),
        "cwd": row.cwd.as_deref().map(named),
        "state": row.state,
        "resolved_by": row.resolved_by.as_ref().map(|by| named(&by.name)),
    })
}

fn approval_line(row: &HostApproval) -> String {
    let asker = row.agent_id.as_deref().unwrap_or("somebody");
    let input = row
        .input
        .as_ref()
        .map(|input| cut(input.0.get(), INPUT_BYTES));
    let input = quoted(input.as_deref().unwrap_or_default());
    format!("{} of {asker}: {} {input}", row.id, quoted(&row.action))
}
