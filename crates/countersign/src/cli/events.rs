//! `events`: the record as it grows.

use clap::Args;
use countersign_protocol::{EventsParams, HostEvent, Kinds, SubscribeParams, Time, method};
use serde::Serialize;

use super::{CommonArgs, agent_lookup};
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::reconnect::{RetryLimit, is_lost, reconnect};
use crate::render::escape;
use crate::{duration, output};

/// Default number of events shown before following.
const FOLLOW_FROM: u64 = 10;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign events
  countersign events --follow --kinds approval.requested,approval.resolved
  countersign events --after 1042 --json | jq '.events[].message'
  countersign events --follow --json | jq .message             # one object per line")]
pub(crate) struct EventsArgs {
    /// Follow new events, across restarts of the host
    #[arg(long, short)]
    follow: bool,
    /// Only events after this number
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Only events of these kinds; internal kinds are accepted too
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    kinds: Option<Vec<String>>,
    /// Only events about this agent, by name or id
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Print at most this many events
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
}

pub(super) async fn events(common: &CommonArgs, mut args: EventsArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    // By its id from now on: while events are followed, the agent may be renamed. One that is no
    // longer listed is known by its id already.
    if let Some(name) = &args.agent
        && let Ok(agent) = agent_lookup::load_agent(&mut client, name).await
    {
        args.agent = Some(agent.id);
    }
    let mut cursor = args.after;
    if !args.follow || args.after.is_none() {
        cursor = recent(common, &args, &mut client).await?.or(cursor);
    } else {
        // A subscription takes any filter; a list refuses an unknown agent or kind.
        client
            .call::<method::Events>(&list_params(&args, Some(1)))
            .await?;
    }
    if !args.follow {
        return Ok(CliExit::Ok);
    }
    loop {
        let lost = follow(common, &args, &mut client, &mut cursor).await;
        if !is_lost(&lost) {
            return Err(lost);
        }
        client = reconnect(&common.endpoint()?, RetryLimit::Unlimited).await?;
    }
}

/// Prints the newest, oldest first; returns the last one's number.
async fn recent(
    common: &CommonArgs,
    args: &EventsArgs,
    client: &mut HostClient,
) -> Result<Option<u64>, CliError> {
    let limit = args.limit.or(args.follow.then_some(FOLLOW_FROM));
    let params = list_params(args, limit);
    let mut events = client.call::<method::Events>(&params).await?;
    // The host sends the newest first, and people read downwards.
    events.sort_by_key(|event| event.sequence);
    let last = events.last().map(|event| event.sequence);
    if common.json && !args.follow {
        output::print_json(&EventsDocument {
            next: last.or(args.after).unwrap_or(0),
            events,
        })?;
        return Ok(last);
    }
    let now = duration::now();
    for event in &events {
        output::print(&line(common.json, event, now)?)?;
    }
    Ok(last)
}

/// What `events --json` prints when it does not follow.
#[derive(Serialize)]
struct EventsDocument {
    events: Vec<HostEvent>,
    /// For `--after`.
    next: u64,
}

fn list_params(args: &EventsArgs, limit: Option<u64>) -> EventsParams {
    EventsParams {
        after: args.after,
        before: None,
        limit,
        kinds: args.kinds.clone().map(Kinds),
        agent_id: args.agent.clone(),
    }
}

/// Prints events until something fails. The cursor never passes an event that was not printed.
async fn follow(
    common: &CommonArgs,
    args: &EventsArgs,
    client: &mut HostClient,
    cursor: &mut Option<u64>,
) -> CliError {
    let params = SubscribeParams {
        after: *cursor,
        kinds: args.kinds.clone(),
        ..SubscribeParams::default()
    };
    let subscribed = client.call::<method::Subscribe>(&params).await;
    match subscribed {
        Ok(snapshot) => *cursor = cursor.or(Some(snapshot.event_sequence)),
        Err(error) => return error.into(),
    }
    loop {
        let event = match client.next_event().await {
            Ok(event) => event,
            Err(error) => return error.into(),
        };
        if args.agent.is_none() || args.agent == event.agent_id {
            let printed =
                line(common.json, &event, duration::now()).and_then(|text| output::print(&text));
            if let Err(error) = printed {
                return error;
            }
        }
        // Events of other agents count as well, so that a new connection does not read them again.
        *cursor = Some(event.sequence);
    }
}

fn line(json: bool, event: &HostEvent, now: Time) -> Result<String, CliError> {
    if json {
        return output::json_line(event);
    }
    let agent = event.agent_name.as_deref().or(event.agent_id.as_deref());
    let agent = agent.map_or(String::new(), |id| format!(" [{}]", escape::line(id)));
    let age = duration::age(now, event.timestamp);
    let (kind, message) = (escape::line(&event.kind), escape::line(&event.message));
    Ok(format!(
        "{:>6}  {age:>4}  {kind}{agent}  {message}\n",
        event.sequence
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    #[test]
    fn an_event_is_one_line() {
        let event = HostEvent {
            agent_id: Some("agent-1".into()),
            agent_name: Some("builder".into()),
            id: "event-1".into(),
            kind: "approval.requested".into(),
            message: "Approval requested: Run the tests".into(),
            payload: test_rows::raw("null"),
            sequence: 42,
            timestamp: Time(0),
        };
        assert_eq!(
            line(false, &event, Time(5_000_000)).unwrap(),
            "    42    5s  approval.requested [builder]  Approval requested: Run the tests\n"
        );
        assert_eq!(
            line(true, &event, Time(0)).unwrap(),
            "{\"agent_id\":\"agent-1\",\"agent_name\":\"builder\",\"id\":\"event-1\",\"kind\":\"approval.requested\",\
             \"message\":\"Approval requested: Run the tests\",\"payload\":null,\"sequence\":42,\
             \"timestamp\":\"1970-01-01T00:00:00.000000Z\"}\n"
        );
    }
}
