//! Agents and devices: who may describe them, and what others are told.

use std::sync::Arc;

use super::approvals::end_approval;
use super::questions;
use super::time::gone_ending;
use super::{
    Decision, DecisionSubject, check_agent_id, check_json, check_size, check_text, check_word,
};
use crate::agent::{Agent, OpenCounts, visible_state};
use crate::event::{
    AgentProfile, AgentRegistered, AgentStatusChanged, AgentUnregistered, AnswerDelivery,
    BaseState, Device, DeviceRegistered, DeviceUpdated, Event, NotificationSent,
};
use crate::ids::AgentId;
use crate::input::{DecisionContext, PutDevice, RegisterAgent, SendNotification, SetStatus};
use crate::json::Json;
use crate::limits::{AGENTS_MAX, OPTIONS_MAX};
use crate::principal::{Caller, RecordedActor};
use crate::rejection::Rejection;
use crate::state::State;

pub(super) fn register(
    state: &State,
    context: DecisionContext<'_>,
    input: RegisterAgent,
) -> Result<Decision, Rejection> {
    let RegisterAgent { caller, profile } = input;
    caller.refuse_observers()?;
    check_profile(&profile)?;
    // An agent speaks for itself alone, whatever id it gives.
    if let Some(bound) = caller.principal.agent()
        && *bound != profile.id
    {
        return Err(Rejection::AgentNotAllowed(bound.clone()));
    }
    match state.find_agent(&profile.id) {
        // Only its driver says what such an agent is and does.
        Some(agent) if agent.managed.is_some() => {
            return Err(Rejection::RunByHost(profile.id));
        }
        Some(agent) if !may_take(agent, context, &caller) => {
            return Err(Rejection::AgentTaken(profile.id));
        }
        None if state.agents.len() >= AGENTS_MAX => {
            return Err(Rejection::TooMany {
                what: "agents",
                limit: AGENTS_MAX,
            });
        }
        Some(_) | None => {}
    }
    let id = profile.id.clone();
    let registered = AgentRegistered {
        agent: Arc::new(profile),
        owner: caller.principal.key.clone(),
        client: caller.client,
    };
    let waiting = already_waits(&registered, state.open_of(&id));
    let mut events = vec![registered.into()];
    events.extend(waiting);
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// A registration reads as idle; an agent that has something open is not.
fn already_waits(registered: &AgentRegistered, open: OpenCounts) -> Option<Event> {
    let changed = AgentStatusChanged {
        agent: registered.agent.clone(),
        base: BaseState::Idle,
        state: visible_state(BaseState::Idle, open),
        current_task: None,
        client: registered.client.clone(),
        message: None,
        payload: None,
    };
    (open != OpenCounts::default()).then(|| changed.into())
}

fn check_profile(profile: &AgentProfile) -> Result<(), Rejection> {
    check_word("the agent's id", profile.id.as_str())?;
    check_word("the agent's name", &profile.name)?;
    check_word("the agent's kind", &profile.kind)?;
    check_size(
        "the list of capabilities",
        profile.capabilities.len(),
        OPTIONS_MAX * 8,
    )?;
    for capability in &profile.capabilities {
        check_word("a capability", capability)?;
    }
    check_text(
        "the project",
        profile.project.as_deref().unwrap_or_default(),
    )?;
    let display = &profile.display;
    for shown in [&display.label, &display.icon, &display.accent] {
        check_word("the display", shown.as_deref().unwrap_or_default())?;
    }
    check_json("the metadata", &profile.metadata)
}

/// An id is free for its own connection, for its agent, for whoever comes back in time, and for
/// everybody once its owner is gone for good.
fn may_take(agent: &Agent, context: DecisionContext<'_>, caller: &Caller) -> bool {
    if caller.principal.agent() == Some(agent.id())
        || (agent.client.is_some() && agent.client == caller.client)
    {
        return true;
    }
    match &agent.client {
        Some(client) if context.presence.is_connected(client) => false,
        // The connection is gone, but the grace time is not over: only its owner may come back.
        Some(_) => agent.owner == caller.principal.key,
        None => agent.base.is_terminal() || agent.owner == caller.principal.key,
    }
}

/// Whether the caller speaks for the agent.
fn owns(agent: &Agent, caller: &Caller) -> bool {
    match caller.principal.agent() {
        Some(bound) => bound == agent.id(),
        None if agent.client.is_none() => agent.owner == caller.principal.key,
        // While a connection owns it, only that connection speaks for it.
        None => agent.client == caller.client,
    }
}

fn load_owned<'a>(state: &'a State, caller: &Caller, id: &AgentId) -> Result<&'a Agent, Rejection> {
    caller.refuse_observers()?;
    let agent = state
        .find_agent(id)
        .ok_or_else(|| Rejection::UnknownAgent(id.clone()))?;
    if agent.managed.is_some() {
        Err(Rejection::RunByHost(id.clone()))
    } else if owns(agent, caller) {
        Ok(agent)
    } else {
        Err(Rejection::AgentOwnedElsewhere(id.clone()))
    }
}

pub(super) fn unregister(
    state: &State,
    caller: &Caller,
    id: AgentId,
) -> Result<Decision, Rejection> {
    load_owned(state, caller, &id)?;
    let mut asks: Vec<_> = state
        .approvals
        .values()
        .filter(|approval| approval.ask.agent.as_ref() == Some(&id))
        .collect();
    // The map has no order, and the same input must always give the same events.
    asks.sort_by_key(|approval| approval.opened);
    // Before the agent itself leaves. The answers are withdrawn: nobody is left to be told.
    let mut events: Vec<Event> = asks
        .into_iter()
        .map(|approval| end_approval(approval, gone_ending(), AnswerDelivery::Withdrawn))
        .collect();
    events.extend(questions::withdraw_questions(state, caller, &id));
    events.push(AgentUnregistered { agent: id }.into());
    Ok(Decision::new(events, DecisionSubject::Nothing))
}

pub(super) fn set_status(state: &State, input: SetStatus) -> Result<Decision, Rejection> {
    let agent = load_owned(state, &input.caller, &input.agent)?;
    check_text(
        "the task",
        input.current_task.as_deref().unwrap_or_default(),
    )?;
    check_text("the message", input.message.as_deref().unwrap_or_default())?;
    if let Some(payload) = &input.payload {
        check_json("the payload", payload)?;
    }
    let changed = AgentStatusChanged {
        current_task: input.current_task,
        message: input.message,
        payload: input.payload,
        ..agent.changed_to(input.base, state.open_of(&input.agent))
    };
    Ok(Decision::new(
        vec![changed.into()],
        DecisionSubject::Agent(input.agent),
    ))
}

pub(super) fn notify(input: SendNotification) -> Result<Decision, Rejection> {
    input.caller.refuse_observers()?;
    check_word("the kind", &input.kind)?;
    check_agent_id(input.agent.as_ref())?;
    check_text("the message", &input.message)?;
    check_json("the payload", &input.payload)?;
    if is_reserved(&input.kind) {
        return Err(Rejection::ReservedKind(input.kind));
    }
    let by = RecordedActor::from(&input.caller);
    // An agent speaks in its own name, whatever it writes into the request.
    let agent = input.caller.principal.agent().cloned().or(input.agent);
    let notified = NotificationSent {
        kind: input.kind,
        agent,
        message: input.message,
        payload: input.payload,
        by,
    };
    Ok(Decision::new(vec![notified.into()], DecisionSubject::Event))
}

/// Kinds that only the host may say, and everything that could be read as one of them.
pub fn is_reserved(kind: &str) -> bool {
    const OURS: [&str; 11] = [
        "approval.",
        "answer.",
        "question.",
        "token.",
        "process.",
        "record.",
        "grant.",
        "rules.",
        "terminal.",
        "turn.",
        "transcript.",
    ];
    // A reader that ignores case or blanks would take such a kind for one of ours.
    let kind = kind.trim().to_ascii_lowercase();
    Event::KINDS.contains(&kind.as_str()) || OURS.iter().any(|prefix| kind.starts_with(prefix))
}

pub(super) fn register_device(
    state: &State,
    context: DecisionContext<'_>,
    input: PutDevice,
) -> Result<Decision, Rejection> {
    input.caller.require_operator()?;
    let earlier = state.find_device(&input.id);
    if earlier.is_some_and(|device| device_is_held(device, context, &input.caller)) {
        return Err(Rejection::DeviceTaken(input.id));
    }
    if earlier.is_none() && state.devices.len() >= AGENTS_MAX {
        return Err(Rejection::TooMany {
            what: "devices",
            limit: AGENTS_MAX,
        });
    }
    let device = Arc::new(Device {
        id: input.id.clone(),
        name: input.name.unwrap_or_default(),
        platform: input.platform.unwrap_or_default(),
        capabilities: input.capabilities.unwrap_or_default(),
        status: input.status.unwrap_or_else(|| "online".to_owned()),
        client: input.caller.client.clone(),
        owner: input.caller.principal.key.clone(),
        updated_at: context.now,
        metadata: input.metadata.unwrap_or_else(Json::null),
    });
    check_device(&device)?;
    Ok(Decision::new(
        vec![DeviceRegistered { device }.into()],
        DecisionSubject::Device(input.id),
    ))
}

pub(super) fn update_device(
    state: &State,
    context: DecisionContext<'_>,
    input: PutDevice,
) -> Result<Decision, Rejection> {
    input.caller.require_operator()?;
    let earlier = state
        .find_device(&input.id)
        .ok_or_else(|| Rejection::UnknownDevice(input.id.clone()))?;
    if device_is_held(earlier, context, &input.caller) {
        return Err(Rejection::DeviceOwnedElsewhere(input.id));
    }
    let mut device = Device::clone(earlier);
    device.name = input.name.unwrap_or(device.name);
    device.platform = input.platform.unwrap_or(device.platform);
    device.capabilities = input.capabilities.unwrap_or(device.capabilities);
    device.status = input.status.unwrap_or(device.status);
    device.metadata = input.metadata.unwrap_or(device.metadata);
    device.updated_at = context.now;
    check_device(&device)?;
    Ok(Decision::new(
        vec![
            DeviceUpdated {
                device: Arc::new(device),
            }
            .into(),
        ],
        DecisionSubject::Device(input.id),
    ))
}

fn device_is_held(device: &Device, context: DecisionContext<'_>, caller: &Caller) -> bool {
    // A device whose connection is gone is free: the same program comes back under another
    // connection id.
    let Some(owner) = &device.client else {
        return false;
    };
    caller.client.as_ref() != Some(owner) && context.presence.is_connected(owner)
}

fn check_device(device: &Device) -> Result<(), Rejection> {
    check_word("the device's id", device.id.as_str())?;
    check_word("the device's name", &device.name)?;
    check_word("the platform", &device.platform)?;
    check_word("the status", &device.status)?;
    check_size(
        "the list of capabilities",
        device.capabilities.len(),
        OPTIONS_MAX * 8,
    )?;
    for capability in &device.capabilities {
        check_word("a capability", capability)?;
    }
    check_json("the metadata", &device.metadata)
}
