//! Tools with which an agent notifies or asks its parent.

use std::time::Duration;

use countersign_core::event::QuestionOutcome;
use countersign_core::limits::{MCP_QUESTION_S, MCP_QUESTION_S_MAX};
use countersign_core::{Question, Role};
use countersign_protocol::NotifyParentParams;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::call::ToolCall;
use super::reply::{ToolReply, ToolResult, one_line, quoted};
use crate::convert;
use crate::ops;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct NotifyArguments {
    /// The message.
    message: String,
}

pub(super) async fn notify(call: &ToolCall<'_>, arguments: NotifyArguments) -> ToolResult {
    let params = NotifyParentParams {
        message: arguments.message,
        idempotency_key: call.key(),
    };
    ops::parent::notify(call.service(), call.caller.clone(), params).await?;
    Ok(ToolReply::new(
        "sent; it is read between two turns",
        json!({"told": true}),
    ))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct AskArguments {
    /// The question, with all that is needed to answer it.
    question: String,
    /// How many seconds to wait. Default: 300.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86400))]
    timeout_s: Option<u64>,
}

pub(super) async fn ask(call: &ToolCall<'_>, arguments: AskArguments) -> ToolResult {
    let limit_s = arguments.timeout_s.unwrap_or(MCP_QUESTION_S);
    let limit = Duration::from_secs(limit_s.clamp(1, MCP_QUESTION_S_MAX));
    let (service, caller) = (call.service(), &call.caller);
    let asked = ops::parent::ask(
        service,
        caller.clone(),
        arguments.question,
        limit,
        call.key(),
    );
    let question = asked.await?;
    if question.ended.is_some() {
        return Ok(reply(&question, limit));
    }
    let id = question.text.id.to_string();
    let wait = ops::questions::wait(service, caller, id, None);
    let ended = call.await_with_progress("waiting for an answer", wait);
    Ok(reply(&ended.await?, limit))
}

fn reply(question: &Question, limit: Duration) -> ToolReply {
    let ending = question.ended.as_ref().map(|ended| &ended.ending);
    let Some(ending) = ending.filter(|ending| ending.outcome == QuestionOutcome::Answered) else {
        return unanswered(question, limit);
    };
    let name = one_line(&ending.by.name);
    let kind = match ending.by.role {
        Role::Agent(_) => "agent",
        Role::Operator | Role::Observer | Role::Host => "person",
    };
    let answer = quoted(&ending.answer);
    ToolReply::new(
        format!("{kind} `{name}` answers: {answer}"),
        json!({
            "answered": true,
            "answer": answer,
            "answered_by": {"kind": kind, "name": name},
            "question_id": question.text.id.as_str(),
        }),
    )
}

fn unanswered(question: &Question, limit: Duration) -> ToolReply {
    let text = format!(
        "nobody answered within {} s: choose the safest way, ask again, or stop and say why",
        limit.as_secs()
    );
    // Many clients show the data alone, and what to do now is not in the rest of it.
    let data = json!({
        "answered": false,
        "question_id": question.text.id.as_str(),
        "state": convert::question_state(question),
        "message": text,
    });
    ToolReply::new(text, data)
}
