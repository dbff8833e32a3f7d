//! Spawning: which agents may be started, with which options, under which name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::managed::{check_attachments, queue_text, request_run, status_changed};
use super::{
    Decision, DecisionSubject, check_json, check_size, check_text, check_word, delegation,
};
use crate::agent::OpenCounts;
use crate::event::{AgentProfile, AgentSpawned, BaseState, SpawnOptions};
use crate::ids::AgentId;
use crate::input::{DecisionContext, SpawnAgent};
use crate::json::Json;
use crate::limits::{
    AGENTS_MAX, LABELS_MAX, MESSAGE_BYTES_MAX, OPTIONS_MAX, PATH_BYTES_MAX, TIMEOUT_MS_MAX,
};
use crate::own_tools::OWN_SERVER;
use crate::principal::RecordedActor;
use crate::rejection::Rejection;
use crate::state::State;

pub(super) fn spawn(
    state: &State,
    context: DecisionContext<'_>,
    mut input: SpawnAgent,
) -> Result<Decision, Rejection> {
    // An orchestrator that did not get the reply spawns again, and finds the agent it was allowed.
    let allowed_by = input.options.allowed_by.as_ref();
    let started = allowed_by.and_then(|ask| state.find_started_by(ask));
    // Only for orchestrators: `limit_child` takes `allowed_by` away from anybody else.
    if let Some(agent) = started.filter(|_| input.caller.principal.agent().is_some()) {
        let id = agent.id().clone();
        delegation::may_steer(state, &input.caller, &id)?;
        return Ok(Decision::new(Vec::new(), DecisionSubject::Agent(id)));
    }
    input.options = delegation::limit_child(state, &input.caller, input.options)?;
    check_options(&input.options)?;
    if input.options.command.is_empty() && input.options.agent.is_none() {
        return Err(Rejection::NothingToRun);
    }
    check_word("the agent's kind", &input.kind)?;
    check_attachments(&input.caller, &input.attachments)?;
    if let Some(prompt) = &input.prompt {
        check_size("the message", prompt.len(), MESSAGE_BYTES_MAX)?;
    }
    if state.agents.len() >= AGENTS_MAX {
        return Err(Rejection::TooMany {
            what: "agents",
            limit: AGENTS_MAX,
        });
    }
    let name = match input.name {
        Some(name) => check_name(state, name, None)?,
        None => generate_name(state, &input.kind),
    };
    let by = RecordedActor::from(&input.caller);
    let profile = Arc::new(AgentProfile {
        kind: input.kind,
        project: Some(input.options.cwd.clone()),
        ..AgentProfile::new(input.id.clone(), name)
    });
    let spawned = AgentSpawned {
        agent: profile.clone(),
        options: Arc::new(input.options),
        by: by.clone(),
    };
    let mut events = vec![spawned.into()];
    if let Some(prompt) = input.prompt {
        let attachments = input.attachments;
        events.push(queue_text(context.now, &input.id, by, prompt, attachments));
    }
    events.push(request_run(&input.id, 1, None, &input.caller));
    events.push(status_changed(
        &profile,
        BaseState::Starting,
        OpenCounts::default(),
        None,
    ));
    Ok(Decision::new(events, DecisionSubject::Agent(input.id)))
}

fn check_options(options: &SpawnOptions) -> Result<(), Rejection> {
    if !options.cwd.starts_with('/') {
        return Err(Rejection::NotAbsolute("the folder"));
    }
    check_size("the folder", options.cwd.len(), PATH_BYTES_MAX)?;
    check_size("the command", options.command.len(), 8 * OPTIONS_MAX)?;
    check_size("the environment", options.env.len(), 32 * OPTIONS_MAX)?;
    for tools in [&options.allowed_tools, &options.disallowed_tools] {
        check_size("the list of tools", tools.len(), 8 * OPTIONS_MAX)?;
    }
    check_labels(&options.labels)?;
    let short = [
        &options.agent,
        &options.model,
        &options.mode,
        &options.fork,
        &options.sandbox,
    ];
    for text in short.into_iter().flatten() {
        check_word("an option", text)?;
    }
    check_text(
        "the system prompt",
        options.system_prompt.as_deref().unwrap_or_default(),
    )?;
    check_mcp_servers(options.mcp_servers.as_ref())?;
    for timeout in [options.turn_timeout_ms, options.ask_timeout_ms] {
        if timeout.unwrap_or(0) > TIMEOUT_MS_MAX {
            return Err(Rejection::TooLarge {
                what: "the timeout",
                limit: usize::try_from(TIMEOUT_MS_MAX).unwrap_or(usize::MAX),
            });
        }
    }
    // Whatever else it holds, it must fit where it is kept.
    let whole = Json::from_value(options).map_err(|_| Rejection::TooLarge {
        what: "the options",
        limit: MESSAGE_BYTES_MAX,
    })?;
    check_json("the options", &whole)
}

/// Servers by name, none of which takes the place of the host's own: calls of its tools are allowed
/// without an ask.
fn check_mcp_servers(servers: Option<&Json>) -> Result<(), Rejection> {
    let Some(servers) = servers else {
        return Ok(());
    };
    let Some(serde_json::Value::Object(servers)) = servers.parse_unique_keys() else {
        return Err(Rejection::BadMcpServers(
            "they must be an object that names each once",
        ));
    };
    if !servers.values().all(serde_json::Value::is_object) {
        return Err(Rejection::BadMcpServers("each of them must be an object"));
    }
    // Names are joined with those of tools, so another spelling could stand for the same tools.
    let is_own =
        |name: &String| name.trim().eq_ignore_ascii_case(OWN_SERVER) || name.contains("__");
    if servers.keys().any(is_own) {
        return Err(Rejection::BadMcpServers(
            "no name may be `countersign` or have two underscores in a row",
        ));
    }
    Ok(())
}

/// Refuses labels that could not be typed, or too many.
pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Rejection> {
    if labels.len() > LABELS_MAX {
        return Err(Rejection::TooMany {
            what: "labels",
            limit: LABELS_MAX,
        });
    }
    for (key, value) in labels {
        check_word("a label", key)?;
        check_word("a label", value)?;
        if !is_plain_word(key) || !is_plain_word(value) {
            let label = format!("{key}={value}");
            return Err(Rejection::BadLabel(label.chars().take(100).collect()));
        }
    }
    Ok(())
}

/// Whether it can be typed without quotes. A leading dash would be read as an option on the command
/// line.
fn is_plain_word(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with('-')
        && word
            .chars()
            .all(|letter| letter.is_alphanumeric() || "-_.".contains(letter))
}

/// Refuses a name that cannot be one, that another agent has which is not archived, or that is the id
/// of another agent: whoever types it must reach the agent that they mean.
pub(super) fn check_name(
    state: &State,
    name: String,
    own: Option<&AgentId>,
) -> Result<String, Rejection> {
    check_word("the agent's name", &name)?;
    if !is_plain_word(&name) {
        return Err(Rejection::BadName(name.chars().take(100).collect()));
    }
    if is_name_taken(state, &name, own) {
        Err(Rejection::NameTaken(name))
    } else {
        Ok(name)
    }
}

pub(super) fn is_name_taken(state: &State, name: &str, own: Option<&AgentId>) -> bool {
    state.agents.values().any(|agent| {
        // External agents name themselves, so their names reserve nothing.
        let kept = agent.managed.as_ref().is_some_and(|m| !m.archived);
        let has_name = kept && agent.profile.name == name;
        let has_id = agent.id().as_str() == name;
        (has_name || has_id) && Some(agent.id()) != own
    })
}

/// The kind, with the first number that is free.
fn generate_name(state: &State, kind: &str) -> String {
    let kind: String = kind
        .chars()
        .take(40)
        .map(|letter| {
            if letter.is_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect();
    let kind = match kind.trim_matches('-') {
        "" => "agent",
        kind => kind,
    };
    // One more number than there are agents: one of them is free.
    (1..=AGENTS_MAX + 1)
        .map(|number| format!("{kind}-{number}"))
        .find(|name| !is_name_taken(state, name, None))
        .unwrap_or_else(|| kind.to_owned())
}
