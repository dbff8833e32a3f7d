//! What people want of managed agents: spawned, told, interrupted, ended, gone on with.
//!
//! Invariants: only operators, and orchestrators of those below them, want anything; a turn begins only when none runs; whatever leaves
//! an agent without its process ends what it had open.

use std::sync::Arc;

use super::approvals::{cancelled, ended};
use super::{
    Decision, DecisionSubject, check_json, check_size, check_text, check_word, delegation,
    parent_messages, questions,
};
use crate::agent::{Agent, OpenCounts, visible_state};
use crate::event::{
    AgentArchived, AgentConfigured, AgentMessage, AgentProfile, AgentRenamed, AgentRunRequested,
    AgentSpawned, AgentStatusChanged, AgentStopRequested, AnswerDelivery, BaseState, Event,
    MessageQueued, MessagesDropped, SpawnOptions, TranscriptAdded, TranscriptEntry,
    TurnInterrupted, TurnStarted,
};
use crate::ids::{AgentId, Timestamp};
use crate::input::{ChildrenPolicy, DecisionContext, ManagedInput, SpawnAgent};
use crate::json::Json;
use crate::limits::{
    AGENT_MESSAGES_MAX, AGENTS_MAX, INTERRUPT_GRACE_MS, MESSAGE_BYTES_MAX, OPTIONS_MAX,
    PATH_BYTES_MAX, TIMEOUT_MS_MAX, TURN_TIMEOUT_MS,
};
use crate::managed::{ManagedAgent, RunState, Turn};
use crate::principal::{Caller, RecordedActor};
use crate::rejection::Rejection;
use crate::state::State;

pub(super) fn decide(
    state: &State,
    context: DecisionContext<'_>,
    input: ManagedInput,
) -> Result<Decision, Rejection> {
    match input {
        ManagedInput::Spawn(input) => spawn(state, context, *input),
        ManagedInput::Prompt {
            caller,
            agent,
            text,
        } => prompt(state, context, &caller, agent, text),
        ManagedInput::Interrupt {
            caller,
            agent,
            reason,
        } => interrupt(state, &caller, agent, reason),
        ManagedInput::Kill {
            caller,
            agent,
            children,
        } => kill(state, &caller, agent, children),
        ManagedInput::Resume { caller, agent } => resume(state, &caller, agent),
        ManagedInput::Archive {
            caller,
            agent,
            archived,
        } => archive(state, &caller, agent, archived),
        ManagedInput::Rename {
            caller,
            agent,
            name,
        } => rename(state, &caller, agent, name),
        ManagedInput::Configure {
            caller,
            agent,
            mode,
            model,
        } => configure(state, &caller, agent, mode, model),
        ManagedInput::RunReported(agent, run, ran) => {
            Ok(super::running::ran(state, context, &agent, run, ran))
        }
        ManagedInput::WorktreeRemoved(agent) => Ok(super::running::worktree_removed(agent)),
    }
}

fn spawn(
    state: &State,
    context: DecisionContext<'_>,
    mut input: SpawnAgent,
) -> Result<Decision, Rejection> {
    // An orchestrator that asks again, because nobody told it, finds the agent it was allowed.
    let allowed_by = input.options.allowed_by.as_ref();
    let started = allowed_by.and_then(|ask| state.find_started_by(ask));
    if let Some(agent) = started.filter(|_| input.caller.principal.agent().is_some()) {
        let id = agent.id().clone();
        delegation::may_steer(state, &input.caller, &id)?;
        return Ok(Decision::new(Vec::new(), DecisionSubject::Agent(id)));
    }
    input.options = delegation::child(state, &input.caller, input.options)?;
    check_options(&input.options)?;
    if input.options.command.is_empty() && input.options.agent.is_none() {
        return Err(Rejection::NothingToRun);
    }
    check_word("the agent's kind", &input.kind)?;
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
        Some(name) => free_name(state, name, None)?,
        None => made_name(state, &input.kind),
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
    let message = |text| queued(context.now, &input.id, by.clone(), text);
    events.extend(input.prompt.map(message));
    events.push(run_requested(&input.id, 1, None, &input.caller));
    events.push(status(
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
    let words = [&options.agent, &options.model, &options.mode, &options.fork];
    for word in words.into_iter().flatten() {
        check_word("an option", word)?;
    }
    check_text(
        "the system prompt",
        options.system_prompt.as_deref().unwrap_or_default(),
    )?;
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

/// A name that no other agent of the host has that was not put away.
fn free_name(state: &State, name: String, own: Option<&AgentId>) -> Result<String, Rejection> {
    check_word("the agent's name", &name)?;
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(plain) || name.starts_with('-') {
        return Err(Rejection::BadName(name.chars().take(100).collect()));
    }
    if is_taken(state, &name, own) {
        Err(Rejection::NameTaken(name))
    } else {
        Ok(name)
    }
}

fn is_taken(state: &State, name: &str, own: Option<&AgentId>) -> bool {
    state.agents.values().any(|agent| {
        let kept = agent.managed.as_ref().is_some_and(|m| !m.archived);
        kept && agent.profile.name == name && Some(agent.id()) != own
    })
}

/// The kind, with the first number that is free.
fn made_name(state: &State, kind: &str) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || c == '-' {
            c
        } else {
            '-'
        }
    };
    let kind: String = kind.chars().take(40).map(plain).collect();
    let kind = kind.trim_matches('-');
    let kind = if kind.is_empty() { "agent" } else { kind };
    let mut names = (1..).map(|number: u32| format!("{kind}-{number}"));
    let free = names.find(|name| !is_taken(state, name, None));
    free.unwrap_or_else(|| kind.to_owned())
}

fn prompt(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    id: AgentId,
    text: String,
) -> Result<Decision, Rejection> {
    let (agent, managed) = load(state, caller, &id)?;
    check_size("the message", text.len(), MESSAGE_BYTES_MAX)?;
    if managed.queue.len() >= AGENT_MESSAGES_MAX {
        return Err(Rejection::TooMany {
            what: "messages waiting for this agent",
            limit: AGENT_MESSAGES_MAX,
        });
    }
    let mut events = Vec::new();
    if managed.archived {
        events.push(taken_out(state, caller, agent)?);
    }
    let message = AgentMessage {
        text,
        by: RecordedActor::from(caller),
        at: context.now,
        parent_message: None,
    };
    events.push(queue(&id, message.clone()));
    match managed.run_state {
        RunState::Gone => events.extend(begin_run(agent, managed, caller, state.open_of(&id))?),
        RunState::Ready if managed.turn.is_none() => {
            let waiting = managed.queue.iter().chain([&message]);
            let next = parent_messages::next_batch(waiting);
            let open = state.open_of(&id);
            events.extend(begin_turn(context, agent, managed, (&next, open)));
        }
        // One that is being ended begins again once it has.
        RunState::Requested | RunState::Launched | RunState::Ready | RunState::Stopping => {}
    }
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// The facts that start the next turn with the messages in front, given what the agent has open.
pub(super) fn begin_turn(
    context: DecisionContext<'_>,
    agent: &Agent,
    managed: &ManagedAgent,
    (messages, open): (&[&AgentMessage], OpenCounts),
) -> Vec<Event> {
    let turn = managed.turns + 1;
    let timeout = managed.options.turn_timeout_ms.unwrap_or(TURN_TIMEOUT_MS);
    let started = TurnStarted {
        agent: agent.id().clone(),
        turn,
        messages: u32::try_from(messages.len()).unwrap_or(u32::MAX),
        deadline: (timeout > 0).then(|| context.now.plus_ms(timeout)),
    };
    let said = TranscriptAdded {
        agent: agent.id().clone(),
        turn,
        entries: messages
            .iter()
            .map(|message| TranscriptEntry::User {
                text: message.full_text(),
                from: message.child_sender().cloned(),
            })
            .collect(),
    };
    let running = status(&agent.profile, BaseState::Running, open, None);
    vec![started.into(), said.into(), running]
}

fn interrupt(
    state: &State,
    caller: &Caller,
    id: AgentId,
    reason: Option<String>,
) -> Result<Decision, Rejection> {
    let (_, managed) = load(state, caller, &id)?;
    check_text("the reason", reason.as_deref().unwrap_or_default())?;
    let Some(turn) = &managed.turn else {
        return Err(Rejection::NoTurn(id));
    };
    let events = interrupted(state, caller, &id, turn, (reason, None));
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// The facts that end a turn from outside: what it asked is cancelled with it.
pub(super) fn interrupted(
    state: &State,
    caller: &Caller,
    id: &AgentId,
    turn: &Turn,
    (reason, deadline): (Option<String>, Option<Timestamp>),
) -> Vec<Event> {
    let mut events = withdraw_asks(state, caller, id, "its turn was interrupted");
    let event = TurnInterrupted {
        agent: id.clone(),
        turn: turn.number,
        by: RecordedActor::from(caller),
        reason,
        deadline: deadline.or(turn.deadline),
    };
    events.push(event.into());
    events
}

/// A turn that took too long is interrupted; an agent that does not care is ended.
pub(super) fn out_of_time(state: &State, context: DecisionContext<'_>, id: &AgentId) -> Vec<Event> {
    let Some((_, managed)) = state.find_managed(id) else {
        return Vec::new();
    };
    let Some(turn) = &managed.turn else {
        return Vec::new();
    };
    let host = Caller::host();
    if turn.interrupted {
        return stopped(state, &host, id, managed);
    }
    let reason = Some("its turn took longer than it may".to_owned());
    let grace = Some(context.now.plus_ms(INTERRUPT_GRACE_MS));
    interrupted(state, &host, id, turn, (reason, grace))
}

fn kill(
    state: &State,
    caller: &Caller,
    id: AgentId,
    children: Option<ChildrenPolicy>,
) -> Result<Decision, Rejection> {
    let (_, managed) = load(state, caller, &id)?;
    if managed.run_state == RunState::Gone {
        return Err(Rejection::AgentEnded(id));
    }
    let mut events = match managed.run_state {
        RunState::Gone | RunState::Stopping => Vec::new(),
        RunState::Requested | RunState::Launched | RunState::Ready => {
            stopped(state, caller, &id, managed)
        }
    };
    events.extend(end_children(state, caller, &id, children)?);
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// What becomes of those below an agent that ends is never left unsaid.
fn end_children(
    state: &State,
    caller: &Caller,
    id: &AgentId,
    children: Option<ChildrenPolicy>,
) -> Result<Vec<Event>, Rejection> {
    let running = |agent: &&Agent| {
        let life = agent.managed.as_ref().map(|managed| managed.run_state);
        life.is_some_and(|life| !matches!(life, RunState::Gone | RunState::Stopping))
    };
    let below: Vec<&Agent> = state
        .descendants_of(id)
        .into_iter()
        .filter(running)
        .collect();
    match children {
        Some(ChildrenPolicy::Keep) => Ok(Vec::new()),
        Some(ChildrenPolicy::End) => {
            let ends = below.iter().filter_map(|agent| {
                let managed = agent.managed.as_deref()?;
                Some(stopped(state, caller, agent.id(), managed))
            });
            Ok(ends.flatten().collect())
        }
        None if below.is_empty() => Ok(Vec::new()),
        None => {
            let names = below.iter().map(|agent| agent.profile.name.clone());
            let mut children: Vec<String> = names.collect();
            children.sort();
            let agent = id.clone();
            Err(Rejection::HasChildren { agent, children })
        }
    }
}

fn stopped(state: &State, caller: &Caller, id: &AgentId, managed: &ManagedAgent) -> Vec<Event> {
    let mut events = withdraw_asks(state, caller, id, "the agent was ended");
    events.extend(questions::withdrawn(state, caller, id));
    events.extend(dropped(id, managed, "the agent was ended"));
    let event = AgentStopRequested {
        agent: id.clone(),
        run: managed.run,
        by: RecordedActor::from(caller),
    };
    events.push(event.into());
    events
}

fn resume(state: &State, caller: &Caller, id: AgentId) -> Result<Decision, Rejection> {
    let (agent, managed) = load(state, caller, &id)?;
    let mut events = Vec::new();
    if managed.archived {
        events.push(taken_out(state, caller, agent)?);
    }
    if !managed.is_live() {
        events.extend(begin_run(agent, managed, caller, state.open_of(&id))?);
    }
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// The facts that start an agent again: on its session, or from the beginning if it never had one
/// and nothing of it would be lost. `open` is what it has open: it may have asked without a process.
pub(super) fn begin_run(
    agent: &Agent,
    managed: &ManagedAgent,
    caller: &Caller,
    open: OpenCounts,
) -> Result<Vec<Event>, Rejection> {
    let session = managed.session.clone().filter(|_| managed.resumable);
    if session.is_none() && managed.turns > 0 {
        return Err(Rejection::CannotResume(agent.id().clone()));
    }
    let run = run_requested(agent.id(), managed.run + 1, session, caller);
    let starting = status(&agent.profile, BaseState::Starting, open, None);
    Ok(vec![run, starting])
}

fn archive(state: &State, caller: &Caller, id: AgentId, away: bool) -> Result<Decision, Rejection> {
    let (agent, managed) = load(state, caller, &id)?;
    let events = if managed.archived == away {
        Vec::new()
    } else if away {
        put_away(state, caller, &id, managed)?
    } else {
        vec![taken_out(state, caller, agent)?]
    };
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// The facts that put an agent away. Nothing that runs is out of sight, so it ends; and what becomes
/// of those below one that runs has to be said first, by ending it.
fn put_away(
    state: &State,
    caller: &Caller,
    id: &AgentId,
    managed: &ManagedAgent,
) -> Result<Vec<Event>, Rejection> {
    let mut events = match managed.run_state {
        RunState::Gone | RunState::Stopping => Vec::new(),
        RunState::Requested | RunState::Launched | RunState::Ready => {
            end_children(state, caller, id, None)?;
            stopped(state, caller, id, managed)
        }
    };
    events.push(archived(id, true, caller));
    Ok(events)
}

/// The fact that an agent is no longer put away. Another may have got its name meanwhile.
fn taken_out(state: &State, caller: &Caller, agent: &Agent) -> Result<Event, Rejection> {
    let name = &agent.profile.name;
    if is_taken(state, name, Some(agent.id())) {
        return Err(Rejection::NameTaken(name.clone()));
    }
    Ok(archived(agent.id(), false, caller))
}

fn rename(
    state: &State,
    caller: &Caller,
    id: AgentId,
    name: String,
) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    load(state, caller, &id)?;
    let name = free_name(state, name, Some(&id))?;
    let event = AgentRenamed {
        agent: id.clone(),
        name,
        by: RecordedActor::from(caller),
    };
    Ok(Decision::new(
        vec![event.into()],
        DecisionSubject::Agent(id),
    ))
}

fn configure(
    state: &State,
    caller: &Caller,
    id: AgentId,
    mode: Option<String>,
    model: Option<String>,
) -> Result<Decision, Rejection> {
    // A mode may ask less, so it is not an orchestrator's to change.
    caller.require_operator()?;
    load(state, caller, &id)?;
    for word in [&mode, &model].into_iter().flatten() {
        check_word("an option", word)?;
    }
    let event = AgentConfigured {
        agent: id.clone(),
        mode,
        model,
        by: RecordedActor::from(caller),
    };
    Ok(Decision::new(
        vec![event.into()],
        DecisionSubject::Agent(id),
    ))
}

/// Everything stops: turns end, and nothing that waits begins another.
pub(super) fn stop_turns(state: &State, caller: &Caller) -> Vec<Event> {
    let mut events = Vec::new();
    for agent in state.live_agents() {
        let Some(managed) = &agent.managed else {
            continue;
        };
        events.extend(dropped(agent.id(), managed, "everything was stopped"));
        if let Some(turn) = managed.turn.as_ref().filter(|turn| !turn.interrupted) {
            let event = TurnInterrupted {
                agent: agent.id().clone(),
                turn: turn.number,
                by: RecordedActor::from(caller),
                reason: Some("everything was stopped".to_owned()),
                deadline: turn.deadline,
            };
            events.push(event.into());
        }
    }
    events
}

/// Words that the agent's protocol cannot carry with a denial reach it as its next message.
pub(super) fn words_of_denial(
    now: Timestamp,
    ask: &crate::event::Ask,
    caller: &Caller,
    message: Option<&str>,
) -> Option<Event> {
    let words = message.filter(|words| !words.trim().is_empty())?;
    ask.request.as_ref().filter(|_| !ask.takes_denial_message)?;
    let agent = ask.agent.as_ref()?;
    let text = format!("Your request was denied: {}\n\n{words}", ask.action);
    Some(queued(now, agent, RecordedActor::from(caller), text))
}

/// The facts that end the turn of an agent together with a denial.
pub(super) fn stopped_by_denial(
    state: &State,
    caller: &Caller,
    denied: &crate::Approval,
) -> Vec<Event> {
    let managed = denied.ask.agent.as_ref();
    let managed = managed.and_then(|id| state.find_managed(id));
    let Some((agent, managed)) = managed else {
        return Vec::new();
    };
    let Some(turn) = managed.turn.as_ref().filter(|turn| !turn.interrupted) else {
        return Vec::new();
    };
    let reason = Some("its turn ended with a denial".to_owned());
    let mut events = interrupted(state, caller, agent.id(), turn, (reason, None));
    // The denied one has ended already, and not as cancelled.
    events.retain(
        |event| !matches!(event, Event::ApprovalResolved(ended) if ended.approval == denied.ask.id),
    );
    events
}

/// The asks that an agent has open end as cancelled.
pub(super) fn withdraw_asks(
    state: &State,
    caller: &Caller,
    agent: &AgentId,
    why: &str,
) -> Vec<Event> {
    let mut open: Vec<_> = state
        .approvals
        .values()
        .filter(|approval| approval.ask.agent.as_ref() == Some(agent))
        .collect();
    open.sort_by_key(|approval| approval.opened);
    open.into_iter()
        .map(|approval| {
            let ending = cancelled(caller, Some(why.to_owned()));
            ended(approval, ending, AnswerDelivery::Withdrawn)
        })
        .collect()
}

pub(super) fn dropped(id: &AgentId, managed: &ManagedAgent, reason: &str) -> Option<Event> {
    let event = MessagesDropped {
        agent: id.clone(),
        reason: reason.to_owned(),
    };
    (!managed.queue.is_empty()).then(|| event.into())
}

/// The fact that an agent of the host is in a state from here on.
pub(super) fn status(
    profile: &Arc<AgentProfile>,
    base: BaseState,
    open: OpenCounts,
    message: Option<String>,
) -> Event {
    AgentStatusChanged {
        agent: profile.clone(),
        base,
        state: visible_state(base, open),
        current_task: None,
        client: None,
        message,
        payload: None,
    }
    .into()
}

fn load<'a>(
    state: &'a State,
    caller: &Caller,
    id: &AgentId,
) -> Result<(&'a Agent, &'a ManagedAgent), Rejection> {
    delegation::may_steer(state, caller, id)?;
    match state.find_managed(id) {
        Some(found) => Ok(found),
        None if state.find_agent(id).is_some() => Err(Rejection::NotManaged(id.clone())),
        None => Err(Rejection::UnknownAgent(id.clone())),
    }
}

fn queued(now: Timestamp, id: &AgentId, by: RecordedActor, text: String) -> Event {
    let message = AgentMessage {
        text,
        by,
        at: now,
        parent_message: None,
    };
    queue(id, message)
}

fn queue(id: &AgentId, message: AgentMessage) -> Event {
    MessageQueued {
        agent: id.clone(),
        message,
    }
    .into()
}

fn run_requested(id: &AgentId, run: u32, session: Option<String>, caller: &Caller) -> Event {
    AgentRunRequested {
        agent: id.clone(),
        run,
        session,
        by: RecordedActor::from(caller),
    }
    .into()
}

fn archived(id: &AgentId, archived: bool, caller: &Caller) -> Event {
    AgentArchived {
        agent: id.clone(),
        archived,
        by: RecordedActor::from(caller),
    }
    .into()
}
