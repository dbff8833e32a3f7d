//! Operations on the record: events read, sent, erased and pruned.

use std::sync::Arc;

use countersign_core::{
    AgentId, Caller, CommittedEvent, Event, SendNotification, Seq, Timestamp, is_reserved,
};
use countersign_daemon::{
    EventFilter, EventQuery, FeedEntry, HostOverview, RuleFileProblem, Service,
};
use countersign_protocol as wire;
use countersign_protocol::Reason;

use super::agents::find_filter;
use super::{Result, page_rows};
use crate::api_error::ApiError;
use crate::convert;
use crate::convert::approvals::RowForm;

/// What a reader wants to see. A kind of which there is no event yet may come: programs send
/// notifications of their own kinds. One that looks like ours and is not is a mistake.
pub(crate) async fn filter(
    service: &Service,
    caller: &Caller,
    kinds: Option<wire::Kinds>,
    also: Vec<String>,
    agent: Option<String>,
) -> Result<EventFilter> {
    let kinds = kinds.map(|kinds| kinds.0);
    for kind in kinds.iter().flatten().chain(&also) {
        check_kind(kind)?;
    }
    Ok(EventFilter {
        kinds,
        also,
        agent: find_filter(service, caller, agent).await?,
    })
}

fn check_kind(kind: &str) -> Result<()> {
    if Event::KINDS.contains(&kind) || !is_reserved(kind) {
        return Ok(());
    }
    let subject = kind.split('.').next();
    let like = Event::KINDS.iter().copied();
    let like: Vec<&str> = like
        .filter(|known| known.split('.').next() == subject)
        .collect();
    Err(ApiError::plain(
        Reason::UnknownEventKind,
        format!(
            "unknown kind of event '{kind}', expected one of {}",
            like.join(", ")
        ),
    ))
}

/// Newest first, unless the caller reads forward from a cursor.
pub(crate) async fn list(
    service: &Service,
    caller: &Caller,
    params: wire::EventsParams,
) -> Result<Vec<CommittedEvent>> {
    caller.refuse_agents()?;
    let is_forward = params.after.is_some();
    let query = EventQuery {
        after: params.after.map(Seq),
        before: params.before.map(Seq),
        newest: !is_forward,
        limit: page_rows(params.limit, 100),
        ..EventQuery::default()
    };
    let filter = filter(service, caller, params.kinds, Vec::new(), params.agent_id).await?;
    let mut events = service.events(caller, query, filter).await?;
    if !is_forward {
        events.reverse();
    }
    Ok(events)
}

pub(crate) async fn notify(
    service: &Service,
    caller: Caller,
    params: wire::NotifyParams,
) -> Result<Arc<FeedEntry>> {
    let kind = params.kind;
    let input = SendNotification {
        caller,
        kind: kind.unwrap_or_else(|| wire::NOTIFICATION_KIND_DEFAULT.to_owned()),
        agent: params.agent_id.map(AgentId::new),
        message: params.message,
        payload: convert::json(params.payload),
    };
    Ok(service.notify(input).await?)
}

/// What a fresh subscriber is shown.
pub(crate) struct SubscriberSnapshot {
    pub(crate) overview: HostOverview,
    pub(crate) events: Vec<Arc<FeedEntry>>,
    pub(crate) rule_problems: Vec<RuleFileProblem>,
    pub(crate) store_error: Option<Arc<str>>,
    pub(crate) form: RowForm,
}

pub(crate) async fn snapshot(
    service: &Service,
    caller: &Caller,
    mut overview: HostOverview,
    agent: Option<&AgentId>,
    form: RowForm,
) -> Result<SubscriberSnapshot> {
    let mut events = service.newest_events(caller, 50).await?;
    // The overview was read before. What was committed since comes through the subscription, and
    // would be there twice.
    events.retain(|entry| entry.committed.seq <= overview.head);
    if let Some(agent) = agent {
        keep_only_of(agent, &mut overview);
        events.retain(|entry| entry.committed.event.agent() == Some(agent));
    }
    Ok(SubscriberSnapshot {
        form,
        overview,
        events,
        rule_problems: service.rule_problems(caller).await?,
        store_error: service.store_error(),
    })
}

/// Leaves what a reader of one agent's events does not follow.
fn keep_only_of(agent: &AgentId, overview: &mut HostOverview) {
    let is_its = |id: Option<&AgentId>| id == Some(agent);
    overview
        .agents
        .retain(|(row, _)| is_its(Some(&row.profile.id)));
    overview
        .approvals
        .retain(|row| is_its(row.ask.agent.as_ref()));
    overview
        .questions
        .retain(|row| is_its(row.text.agent.as_ref()));
}

pub(crate) async fn redact(
    service: &Service,
    caller: Caller,
    params: wire::RedactParams,
) -> Result<Seq> {
    let seq = Seq(params.sequence);
    Ok(service.redact(caller, seq, params.reason).await?)
}

pub(crate) async fn prune(
    service: &Service,
    caller: Caller,
    params: wire::PruneParams,
) -> Result<Seq> {
    caller.require_operator()?;
    let before = match (params.before_sequence, params.before_time) {
        (Some(seq), None) => Seq(seq),
        (None, Some(time)) => first_since(service, &caller, &time).await?,
        _ => {
            return Err(ApiError::plain(
                Reason::InvalidParams,
                "give one of before_sequence and before_time",
            ));
        }
    };
    Ok(service.prune(caller, before).await?)
}

async fn first_since(service: &Service, caller: &Caller, time: &str) -> Result<Seq> {
    let quoted = serde_json::Value::from(time);
    let at: wire::Time =
        serde_json::from_value(quoted).map_err(|error| ApiError::invalid(&error))?;
    let first = service.first_event_since(caller, Timestamp(at.0)).await?;
    // If all events are older, all of them go: the first to keep is the one that comes next.
    Ok(first.unwrap_or_else(|| service.head().next()))
}
