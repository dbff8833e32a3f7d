//! Tools that an agent calls to notify or ask its parent.

use std::time::Duration;

use countersign_core::limits::{MCP_QUESTION_S, MCP_QUESTION_S_MAX};
use countersign_protocol::{HostQuestion, HostQuestionState, HostRole, NotifyParentParams};
use serde::Deserialize;
use serde_json::json;

use super::call::Call;
use super::reply::{Outcome, Told, named, quoted};
use crate::ops;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Notice {
    message: String,
}

pub(super) async fn notify(call: &Call<'_>, notice: Notice) -> Outcome {
    let caller = call.caller.clone();
    let params = NotifyParentParams {
        message: notice.message,
        idempotency_key: call.key(),
    };
    ops::notify_parent(call.service(), caller, params).await?;
    Ok(Told::new(
        "said; it is read when there is time",
        json!({"told": true}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    question: String,
    #[serde(default)]
    timeout_s: Option<u64>,
}

pub(super) async fn ask(call: &Call<'_>, asked: Asked) -> Outcome {
    let limit_s = asked.timeout_s.unwrap_or(MCP_QUESTION_S);
    let limit = Duration::from_secs(limit_s.clamp(1, MCP_QUESTION_S_MAX));
    let caller = call.caller.clone();
    let question =
        ops::parent::ask(call.service(), caller, asked.question, limit, call.key()).await?;
    let ended = if question.state == HostQuestionState::Pending {
        let wait = ops::wait_question(call.service(), &call.caller, question.id, None);
        call.await_with_progress("waiting for an answer", wait)
            .await?
    } else {
        question
    };
    Ok(answered(&ended, limit))
}

/// What the asker is told, and who says it.
fn answered(question: &HostQuestion, limit: Duration) -> Told {
    let by = question.answered_by.as_ref();
    let words = question.answer.as_deref().unwrap_or_default();
    if question.state != HostQuestionState::Answered {
        let text = format!(
            "nobody answered within {} s: choose the safest way, ask again, or stop and say why",
            limit.as_secs()
        );
        // Many clients show the data alone, and what to do now is not in the rest of it.
        let data = json!({
            "answered": false,
            "question_id": question.id,
            "state": question.state,
            "message": text,
        });
        return Told::new(text, data);
    }
    let name = by.map(|by| named(&by.name)).unwrap_or_default();
    let who = match by.map(|by| by.role) {
        Some(HostRole::Agent) => "agent",
        _ => "person",
    };
    let answer = quoted(words);
    Told::new(
        format!("{who} `{name}` answers: {answer}"),
        json!({
            "answered": true,
            "answer": answer,
            "answered_by": {"kind": who, "name": name},
            "question_id": question.id,
        }),
    )
}
