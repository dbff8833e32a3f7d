//! What agents say to whoever gave them their task, what they ask permission for by MCP, and what they
//! are told in return.

use std::time::Duration;

use countersign_core::Caller;
use countersign_daemon::Service;
use countersign_protocol as wire;
use countersign_protocol::{HostApproval, HostApprovalState, HostQuestion};

use super::Result;

/// Asks whoever gave the task.
pub(crate) async fn ask(
    service: &Service,
    caller: Caller,
    question: String,
    limit: Duration,
    key: Option<String>,
) -> Result<HostQuestion> {
    let params = wire::AskQuestionParams {
        agent_id: None,
        question,
        timeout_ms: Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        idempotency_key: key,
    };
    super::ask_question(service, caller, params).await
}

/// Where an agent works, as the host knows it, and how long its asks wait.
pub(crate) async fn whereabouts(
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
        Some(managed) => (
            Some(managed.folder().to_owned()),
            managed.options.ask_timeout_ms,
        ),
        None => (agent.profile.project.clone(), None),
    }
}

/// Why an ask was not allowed, in words for its asker.
pub(crate) fn refusal(row: &HostApproval) -> String {
    let by = row.resolved_by.as_ref().map_or("the host", |by| &by.name);
    let how = match row.state {
        HostApprovalState::Denied => format!("denied by {by}"),
        HostApprovalState::Expired => "nobody decided in time, so this is a no".to_owned(),
        HostApprovalState::Cancelled | HostApprovalState::Gone => {
            "the ask was taken back".to_owned()
        }
        other => format!("it was not allowed ({other})"),
    };
    match &row.message {
        Some(words) if !words.is_empty() => format!("{how}: {words}"),
        _ => how,
    }
}
