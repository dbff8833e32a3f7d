//! Metrics in Prometheus' text format. Counts only and no content, because no token is needed to
//! read them.

use std::sync::atomic::{AtomicU64, Ordering};

use countersign_core::Caller;

use crate::ServerState;
use crate::api_error::ApiError;

pub(crate) async fn render(state: &ServerState) -> Result<String, ApiError> {
    let overview = state.service.overview(&Caller::host()).await?;
    let counters = state.service.counters();
    let pending = overview
        .approvals
        .iter()
        .filter(|approval| approval.is_pending())
        .count();
    let rows: [(&str, &str, &str, u64); 9] = [
        (
            "countersign_commits_total",
            "counter",
            "Commits that reached the disk.",
            read(&counters.commits),
        ),
        (
            "countersign_events_total",
            "counter",
            "Events committed since the start.",
            read(&counters.events),
        ),
        (
            "countersign_rejections_total",
            "counter",
            "Inputs that were refused.",
            read(&counters.rejections),
        ),
        (
            "countersign_commit_failures_total",
            "counter",
            "Commits that failed.",
            read(&counters.commit_failures),
        ),
        (
            "countersign_event_sequence",
            "gauge",
            "The newest event.",
            overview.head.0,
        ),
        (
            "countersign_approvals_pending",
            "gauge",
            "Asks that wait.",
            pending as u64,
        ),
        (
            "countersign_questions_pending",
            "gauge",
            "Questions that wait.",
            overview.questions.len() as u64,
        ),
        (
            "countersign_agents",
            "gauge",
            "Agents on the list.",
            overview.agents.len() as u64,
        ),
        (
            "countersign_connections",
            "gauge",
            "Connections open now.",
            state.connections() as u64,
        ),
    ];
    let lines = rows.map(|(name, kind, help, value)| {
        format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n")
    });
    Ok(lines.concat())
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
