//! What agents send to their parents, and what they get to know about their own asks.

use std::time::Duration;

use countersign_core::event::ApprovalOutcome;
use countersign_core::{Approval, Caller, Question};
use countersign_daemon::Service;
use countersign_protocol as wire;

use super::{Result, questions};

/// Sends a message to the caller's parent, without waiting for an answer.
pub(crate) async fn notify(
    service: &Service,
    caller: Caller,
    params: wire::NotifyParentParams,
) -> Result<()> {
    let key = params.idempotency_key;
    Ok(service.notify_parent(caller, params.message, key).await?)
}

/// Asks the caller's parent a question.
pub(crate) async fn ask(
    service: &Service,
    caller: Caller,
    question: String,
    limit: Duration,
    key: Option<String>,
) -> Result<Question> {
    let params = wire::AskQuestionParams {
        agent_id: None,
        question,
        timeout_ms: Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        idempotency_key: key,
    };
    questions::ask(service, caller, params).await
}

/// The directory that an agent works in, as the host knows it, and how long its asks wait.
pub(crate) async fn ask_defaults(
    service: &Service,
    caller: &Caller,
) -> (Option<String>, Option<u64>) {
    let Some(agent) = caller.principal.agent() else {
        return (None, None);
    };
    let Ok((agent, _)) = service.load_agent(caller, agent.clone()).await else {
        return (None, None);
    };
    match agent.managed.as_deref() {
        // The worktree if it has one, and not the directory that it was started with.
        Some(managed) => (
            Some(managed.folder().to_owned()),
            managed.options.ask_timeout_ms,
        ),
        None => (agent.profile.project.clone(), None),
    }
}

/// Why an ask was not allowed, for its asker.
pub(crate) fn refusal(approval: &Approval) -> String {
    let Some(ended) = &approval.ended else {
        return "nobody has decided".to_owned();
    };
    let ending = &ended.ending;
    let reason = match ending.outcome {
        ApprovalOutcome::Denied => format!("denied by {}", ending.by.name),
        ApprovalOutcome::Expired => "nobody decided in time, so it is denied".to_owned(),
        ApprovalOutcome::Cancelled | ApprovalOutcome::Gone => "the ask was withdrawn".to_owned(),
        ApprovalOutcome::Answered => {
            format!(
                "it was not allowed: {} chose `{}`",
                ending.by.name, ending.resolution
            )
        }
        ApprovalOutcome::Allowed => "it was allowed".to_owned(),
    };
    match &ending.message {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        _ => reason,
    }
}
