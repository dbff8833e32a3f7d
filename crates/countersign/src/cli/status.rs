//! `status` and `ls`: the host and its agents at a glance.

use countersign_protocol::{HostAgent, HostStatus, Time};
use serde_json::json;

use super::Common;
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{duration, output, rules_text, shown};

pub(super) async fn status(common: &Common) -> Result<Exit, CliError> {
    let status: HostStatus = common
        .connect()
        .await?
        .call("host.status", &json!({}))
        .await?;
    if common.json {
        output::put_json(&status)?;
    } else {
        output::put(&output::fields(&status_fields(&status, duration::now())))?;
    }
    Ok(Exit::Ok)
}

fn status_fields(status: &HostStatus, now: Time) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        (
            "host",
            format!(
                "version {}, pid {}, up {}",
                status.version,
                status.pid,
                duration::age(now, status.started_at)
            ),
        ),
        (
            "listen",
            status.listen.clone().unwrap_or_else(|| "no TCP".into()),
        ),
        ("socket", status.socket.clone()),
        ("database", status.database.clone()),
        ("agents", status.agents.to_string()),
        ("open asks", status.pending_approvals.to_string()),
        ("open questions", status.pending_questions.to_string()),
        ("connections", status.connections.to_string()),
        ("newest event", status.event_sequence.to_string()),
        (
            "you are",
            format!("{} ({})", shown::line(&status.you.name), status.you.role),
        ),
    ];
    let warnings = rules_text::warnings(&status.rule_problems, &status.bypassed, now);
    if !warnings.is_empty() {
        fields.push(("care", warnings.join("\n")));
    }
    fields.extend(
        status
            .store_error
            .clone()
            .map(|error| ("store error", format!("{error}: nothing is allowed"))),
    );
    fields
}

pub(super) async fn ls(common: &Common) -> Result<Exit, CliError> {
    let agents: Vec<HostAgent> = common
        .connect()
        .await?
        .call("host.agents", &json!({}))
        .await?;
    if common.json {
        output::put_json(&agents)?;
        return Ok(Exit::Ok);
    }
    if agents.is_empty() {
        output::say("no agents");
        return Ok(Exit::Ok);
    }
    output::put(&agent_list(&agents, duration::now(), output::list_width()))?;
    Ok(Exit::Ok)
}

fn agent_list(agents: &[HostAgent], now: Time, width: usize) -> String {
    let row = |agent: &HostAgent| {
        let state = if agent.state.is_empty() {
            &agent.status
        } else {
            &agent.state
        };
        vec![
            shown::line(&agent.id).into_owned(),
            shown::line(&agent.name).into_owned(),
            state_words(agent, state, now),
            agent.open_approvals.to_string(),
            agent.open_questions.to_string(),
            duration::age(now, agent.updated_at),
            shown::line(agent.current_task.as_deref().unwrap_or("")).into_owned(),
        ]
    };
    let rows: Vec<_> = agents.iter().map(row).collect();
    output::columns(
        &["ID", "NAME", "STATE", "ASKS", "QUESTIONS", "SEEN", "TASK"],
        &rows,
        width,
    )
}

/// The state, and that its asks are not held, if they are not.
fn state_words(agent: &HostAgent, state: &str, now: Time) -> String {
    let state = shown::line(state);
    match agent.bypass_until.filter(|until| *until > now) {
        Some(until) => format!("{state}, BYPASS ends {}", duration::until(now, until)),
        None => state.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn agents_are_listed_with_what_they_wait_for() {
        let agent = sample::agent();
        let text = agent_list(&[agent], Time(180_000_000), 100);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "ID       NAME     STATE                ASKS  QUESTIONS  SEEN  TASK\n\
             agent-1  builder  awaiting_permission  2     0          3m    Fix the build\n"
        );
    }
}
