//! An orchestrator's tools over the agents below it: list, send, interrupt, end, wait, answer.

use std::time::Duration;

use countersign_core::limits::{MCP_LIST_ROWS_MAX, MCP_WAIT_S, MCP_WAIT_S_MAX};
use countersign_core::{
    APPROVE, Agent, AgentId, Approval, ChoiceQuestion, DENY, OpenCounts, Question,
};
use countersign_protocol as wire;
use countersign_protocol::Reason;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::ToolCall;
use super::reply::{ToolFailure, ToolReply, ToolResult, cut, one_line, quoted};
use super::tools::NoArguments;
use crate::convert;
use crate::ops;
use crate::ops::children::WaitOutcome;

/// How much of an ask's input is shown in a list: enough to judge most of them by.
const INPUT_BYTES: usize = 4 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct AgentArguments {
    /// Its name or id.
    agent: String,
}

pub(super) async fn list_agents(call: &ToolCall<'_>, _: NoArguments) -> ToolResult {
    let agents = ops::children::agents(call.service(), &call.caller).await?;
    Ok(list_reply("agents", &agents, agent_data, agent_line))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct SendArguments {
    /// Its name or id.
    agent: String,
    /// The message.
    message: String,
}

pub(super) async fn send(call: &ToolCall<'_>, arguments: SendArguments) -> ToolResult {
    let id = find_agent(call, &arguments.agent).await?;
    let body = wire::PromptBody {
        message: arguments.message,
        attachments: Vec::new(),
    };
    let agent = ops::managed::prompt(call.service(), &call.caller, id, body).await?;
    Ok(agent_reply("it gets the message between two turns", &agent))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct InterruptArguments {
    /// Its name or id.
    agent: String,
    /// The reason, for the record.
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn interrupt(call: &ToolCall<'_>, arguments: InterruptArguments) -> ToolResult {
    let id = find_agent(call, &arguments.agent).await?;
    let body = wire::InterruptBody {
        reason: arguments.reason,
    };
    let agent = ops::managed::interrupt(call.service(), &call.caller, id, body).await?;
    Ok(agent_reply("its turn ends", &agent))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct KillArguments {
    /// Its name or id.
    agent: String,
    /// What happens to running agents that it started.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["end", "keep"]))]
    children: Option<wire::ChildrenFate>,
}

pub(super) async fn kill(call: &ToolCall<'_>, arguments: KillArguments) -> ToolResult {
    let id = find_agent(call, &arguments.agent).await?;
    let body = wire::KillBody {
        children: arguments.children,
    };
    let agent = ops::managed::kill(call.service(), &call.caller, id, body).await?;
    Ok(agent_reply("it ends, with everything it started", &agent))
}

pub(super) async fn resume(call: &ToolCall<'_>, arguments: AgentArguments) -> ToolResult {
    let id = find_agent(call, &arguments.agent).await?;
    let resumed = ops::managed::resume(call.service(), &call.caller, id);
    let agent = call
        .await_with_progress("waiting for it to end", resumed)
        .await?;
    Ok(agent_reply(
        "it is restarting and continues its session",
        &agent,
    ))
}

pub(super) async fn archive(call: &ToolCall<'_>, arguments: AgentArguments) -> ToolResult {
    let id = find_agent(call, &arguments.agent).await?;
    let body = wire::ArchiveBody { archived: true };
    let agent = ops::managed::archive(call.service(), &call.caller, id, body).await?;
    Ok(agent_reply("archived", &agent))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct WaitArguments {
    /// Names or ids. Default: all that run.
    #[serde(default)]
    agents: Vec<String>,
    /// How many seconds to wait. Default: 300.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout_s: Option<u64>,
}

pub(super) async fn wait(call: &ToolCall<'_>, arguments: WaitArguments) -> ToolResult {
    let mut ids = Vec::new();
    if arguments.agents.is_empty() {
        let all = ops::children::agents(call.service(), &call.caller).await?;
        let live = all.iter().filter(|(agent, _)| !agent.base.is_terminal());
        ids.extend(live.map(|(agent, _)| agent.id().to_string()));
    }
    for name in &arguments.agents {
        ids.push(find_agent(call, name).await?);
    }
    if ids.is_empty() {
        return Ok(ToolReply::new(
            "no agent of yours runs",
            json!({"agents": []}),
        ));
    }
    let limit_s = arguments.timeout_s.unwrap_or(MCP_WAIT_S);
    let limit = Duration::from_secs(limit_s.clamp(1, MCP_WAIT_S_MAX));
    let wait = ops::children::wait(call.service(), &call.caller, ids, limit);
    let (outcome, agents) = call.await_with_progress("waiting for agents", wait).await?;
    let message = match outcome {
        WaitOutcome::Idle => "all of them are idle",
        WaitOutcome::Asked => "one of them asks something: see list_questions and list_approvals",
        WaitOutcome::TimedOut => "time ran out, and some still work",
    };
    let mut reply = list_reply("agents", &agents, agent_data, agent_line);
    reply.text = format!("{message}\n{}", reply.text);
    reply.data["all_idle"] = json!(outcome == WaitOutcome::Idle);
    // Many clients show the data alone.
    reply.data["message"] = json!(message);
    Ok(reply)
}

pub(super) async fn list_questions(call: &ToolCall<'_>, _: NoArguments) -> ToolResult {
    let questions = ops::children::questions(call.service(), &call.caller).await?;
    Ok(list_reply(
        "questions",
        &questions,
        question_data,
        question_line,
    ))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct AnswerArguments {
    /// Its id.
    question_id: String,
    /// The answer.
    answer: String,
}

pub(super) async fn answer_question(call: &ToolCall<'_>, arguments: AnswerArguments) -> ToolResult {
    let caller = call.caller.clone();
    let (id, answer) = (arguments.question_id, arguments.answer);
    let body = wire::AnswerBody {
        answer,
        considered_ms: None,
    };
    let question = ops::questions::answer(call.service(), caller, id, body).await?;
    Ok(ToolReply::new("answered", question_data(&question)))
}

pub(super) async fn list_approvals(call: &ToolCall<'_>, _: NoArguments) -> ToolResult {
    let approvals = ops::children::approvals(call.service(), &call.caller).await?;
    Ok(list_reply(
        "approvals",
        &approvals,
        approval_data,
        approval_line,
    ))
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ApprovalDecision {
    Allow,
    Deny,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ResolveArguments {
    /// Its id.
    approval_id: String,
    /// Whether it may happen.
    #[schemars(with = "String", extend("enum" = ["allow", "deny"]))]
    decision: ApprovalDecision,
    /// A message for the agent.
    #[serde(default)]
    message: Option<String>,
    /// To allow an ask that has questions: the answers, one list of texts for each question. An empty
    /// list leaves an optional question without an answer.
    #[serde(default)]
    answers: Option<Vec<Vec<String>>>,
}

pub(super) async fn resolve_approval(
    call: &ToolCall<'_>,
    arguments: ResolveArguments,
) -> ToolResult {
    let id = arguments.approval_id;
    let found = ops::approvals::load(call.service(), &call.caller, id.clone()).await;
    let resolution = match (arguments.decision, found) {
        (ApprovalDecision::Deny, _) => DENY.to_owned(),
        // Agents name their options as they like; the ask says which of them allows.
        (ApprovalDecision::Allow, Ok(found)) => {
            let approving = found.ask.approving.first();
            approving.map_or(APPROVE, String::as_str).to_owned()
        }
        // What the caller may not read is not its to answer either. That is refused where answers are
        // decided, so that the attempt is on the record.
        (ApprovalDecision::Allow, Err(error)) if error.reason == Reason::AgentNotAllowed => {
            APPROVE.to_owned()
        }
        (ApprovalDecision::Allow, Err(error)) => return Err(error.into()),
    };
    let body = wire::ResolutionBody {
        resolution,
        message: arguments.message,
        // An orchestrator answers what was asked: an input of its own is never allowed.
        edited_input: None,
        answers: arguments.answers.map(|answers| {
            let answers = answers.into_iter();
            answers.map(wire::ChosenAnswer::Several).collect()
        }),
        stop: false,
        remember: None,
        considered_ms: None,
    };
    let caller = call.caller.clone();
    let answered = ops::approvals::resolve(call.service(), caller, id, body).await?;
    let approval = answered.approval;
    Ok(ToolReply::new(
        format!("it is {}", convert::approvals::approval_state(&approval)),
        approval_data(&approval),
    ))
}

/// The id of an agent below the caller.
pub(super) async fn find_agent(call: &ToolCall<'_>, name: &str) -> Result<String, ToolFailure> {
    let agent = ops::children::find(call.service(), &call.caller, name).await?;
    Ok(agent.id().to_string())
}

fn agent_reply(message: &str, agent: &(Agent, OpenCounts)) -> ToolReply {
    ToolReply::new(
        format!("{}: {message}", agent_line(agent)),
        agent_data(agent),
    )
}

/// A list, cut after its first rows.
fn list_reply<T>(
    what: &str,
    rows: &[T],
    data: impl Fn(&T) -> Value,
    line: impl Fn(&T) -> String,
) -> ToolReply {
    // The list is text for a model: a long one would take the place of its own context.
    let shown = &rows[..rows.len().min(MCP_LIST_ROWS_MAX)];
    let mut lines: Vec<String> = shown.iter().map(line).collect();
    if rows.is_empty() {
        lines.push(format!("no {what}"));
    } else if shown.len() < rows.len() {
        lines.push(format!("and {} more", rows.len() - shown.len()));
    }
    let rows: Vec<Value> = shown.iter().map(data).collect();
    ToolReply::new(lines.join("\n"), json!({ what: rows }))
}

/// What an orchestrator gets to know about an agent.
pub(super) fn agent_data((agent, open): &(Agent, OpenCounts)) -> Value {
    let managed = agent.managed.as_deref();
    let parent = managed.and_then(|managed| managed.options.parent.as_ref());
    json!({
        "id": agent.id().as_str(),
        "name": one_line(&agent.profile.name),
        "kind": agent.profile.kind,
        "state": convert::agent_state(agent.state(*open)),
        "open_questions": open.questions,
        "open_approvals": open.approvals,
        "parent": parent.map(AgentId::as_str),
        "message": managed.and_then(|managed| managed.message.as_deref()).map(quoted),
        "turns": managed.map(|managed| managed.turns),
    })
}

fn agent_line((agent, open): &(Agent, OpenCounts)) -> String {
    let state = convert::agent_state(agent.state(*open));
    format!(
        "`{}` ({}) is {state}",
        one_line(&agent.profile.name),
        agent.id()
    )
}

fn question_data(question: &Question) -> Value {
    let text = &question.text;
    let ending = question.ended.as_ref().map(|ended| &ended.ending);
    json!({
        "id": text.id.as_str(),
        "agent": text.agent.as_ref().map(AgentId::as_str),
        "question": quoted(&text.text),
        "state": convert::question_state(question),
        "answer": ending.map(|ending| quoted(&ending.answer)),
    })
}

fn question_line(question: &Question) -> String {
    let text = &question.text;
    let asker = text
        .agent
        .as_ref()
        .map_or("somebody", |agent| agent.as_str());
    format!("{} of {asker}: {}", text.id, quoted(&text.text))
}

fn approval_data(approval: &Approval) -> Value {
    let ask = &approval.ask;
    let ending = approval.ended.as_ref().map(|ended| &ended.ending);
    let questions = ask.choice_questions().into_iter();
    json!({
        "questions": questions.map(choice_question_data).collect::<Vec<_>>(),
        "id": ask.id.as_str(),
        "agent": ask.agent.as_ref().map(AgentId::as_str),
        "action": quoted(&ask.action),
        "tool": ask.tool.as_deref().map(one_line),
        "input": ask.input.as_ref().map(|input| quoted(&cut(input.text(), INPUT_BYTES))),
        "cwd": ask.cwd.as_deref().map(one_line),
        "state": convert::approvals::approval_state(approval),
        "resolved_by": ending.map(|ending| one_line(&ending.by.name)),
    })
}

/// A question with all that an answer depends on.
fn choice_question_data(asked: ChoiceQuestion) -> Value {
    let mut row = convert::approvals::choice_question(asked);
    row.question = quoted(&row.question);
    row.header = row.header.map(|header| one_line(&header));
    row.limits.format = row.limits.format.map(|format| quoted(&format));
    for choice in &mut row.choices {
        choice.label = quoted(&choice.label);
        choice.description = choice.description.take().map(|text| quoted(&text));
    }
    json!(row)
}

fn approval_line(approval: &Approval) -> String {
    let ask = &approval.ask;
    let asker = ask
        .agent
        .as_ref()
        .map_or("somebody", |agent| agent.as_str());
    let input = ask.input.as_ref();
    let input = input.map(|input| quoted(&cut(input.text(), INPUT_BYTES)));
    let input = input.unwrap_or_default();
    format!("{} of {asker}: {} {input}", ask.id, quoted(&ask.action))
}
