//! What people and orchestrators want of managed agents: prompts, interrupts, ends, resumes, names.
//!
//! Invariants: orchestrators reach only their descendants; a turn starts only when none runs;
//! whatever leaves an agent without its process ends what it had open.

use std::sync::Arc;

use super::approvals::{cancelled_ending, end_approval};
use super::spawn::{check_name, is_name_taken};
use super::{
    Decision, DecisionSubject, check_size, check_text, check_word, delegation, parent_messages,
    questions,
};
use crate::agent::{Agent, OpenCounts, visible_state};
use crate::event::{
    AgentArchived, AgentConfigured, AgentProfile, AgentRenamed, AgentRunRequested,
    AgentStatusChanged, AgentStopRequested, AnswerDelivery, BaseState, Event, MessageQueued,
    MessageWithdrawn, MessagesDropped, PromptAttachment, PromptMessage, TranscriptAdded,
    TranscriptEntry, TurnInterrupted, TurnStarted,
};
use crate::ids::{AgentId, Timestamp};
use crate::input::{ChildrenPolicy, DecisionContext, ManagedInput};
use crate::limits::{
    AGENT_MESSAGES_MAX, ATTACHMENTS_MAX, INTERRUPT_GRACE_MS, MESSAGE_BYTES_MAX, PATH_BYTES_MAX,
    TURN_TIMEOUT_MS,
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
        ManagedInput::Spawn(input) => super::spawn::spawn(state, context, *input),
        ManagedInput::Prompt {
            caller,
            agent,
            text,
            attachments,
        } => prompt(state, context, &caller, agent, text, attachments),
        ManagedInput::WithdrawMessage {
            caller,
            agent,
            number,
        } => withdraw_message(state, &caller, agent, number),
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
        ManagedInput::RunReported(agent, run, ran) => Ok(super::run_events::handle_run_event(
            state, context, &agent, run, ran,
        )),
        ManagedInput::WorktreeRemoved(agent) => Ok(super::run_events::worktree_removed(agent)),
    }
}

fn prompt(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    id: AgentId,
    text: String,
    attachments: Vec<PromptAttachment>,
) -> Result<Decision, Rejection> {
    let (agent, managed) = load_managed(state, caller, &id)?;
    check_size("the message", text.len(), MESSAGE_BYTES_MAX)?;
    check_attachments(caller, &attachments)?;
    if managed.queue.len() >= AGENT_MESSAGES_MAX {
        return Err(Rejection::TooMany {
            what: "messages waiting for this agent",
            limit: AGENT_MESSAGES_MAX,
        });
    }
    let mut events = Vec::new();
    if managed.archived {
        events.push(unarchive_agent(state, caller, agent)?);
    }
    let message = PromptMessage {
        number: 0,
        text,
        by: RecordedActor::from(caller),
        at: context.now,
        parent_message: None,
        attachments,
    };
    events.push(queue_message(&id, message.clone()));
    match managed.run_state {
        RunState::Gone => events.extend(begin_run(agent, managed, caller, state.open_of(&id))?),
        RunState::Ready if managed.turn.is_none() => {
            let waiting = managed.queue.iter().chain([&message]);
            let next = parent_messages::next_batch(waiting);
            let open = state.open_of(&id);
            events.extend(begin_turn(context, agent, managed, &next, open));
        }
        // An agent that is being stopped starts again once it has ended.
        RunState::Requested | RunState::Launched | RunState::Ready | RunState::Stopping => {}
    }
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// Takes a message back that no turn has taken yet. A message leaves the queue once: with the commit
/// that starts its turn, or with this one.
fn withdraw_message(
    state: &State,
    caller: &Caller,
    id: AgentId,
    number: u64,
) -> Result<Decision, Rejection> {
    let (_, managed) = load_managed(state, caller, &id)?;
    let found = find_withdrawable(managed, caller, number);
    let message = found.map_err(|why| Rejection::CannotWithdraw {
        agent: id.clone(),
        number,
        why,
    })?;
    let event = MessageWithdrawn {
        agent: id.clone(),
        number,
        text: message.text.clone(),
        by: RecordedActor::from(caller),
    };
    Ok(Decision::new(
        vec![event.into()],
        DecisionSubject::Agent(id),
    ))
}

/// A message that waits and may be taken back by this caller, or why there is none.
fn find_withdrawable<'a>(
    managed: &'a ManagedAgent,
    caller: &Caller,
    number: u64,
) -> Result<&'a PromptMessage, &'static str> {
    let mut queue = managed.queue.iter();
    let Some(message) = queue.find(|message| message.number == number) else {
        let mut sent = managed.turn.iter().flat_map(|turn| &turn.messages);
        return Err(if sent.any(|message| message.number == number) {
            "the agent already has it"
        } else if (1..=managed.messages).contains(&number) {
            "it no longer waits: the agent got it, or it was withdrawn or dropped"
        } else {
            "no such message was sent"
        });
    };
    // What a child said is kept for its orchestrator; a question of it ends by an answer.
    if message.parent_message.is_some() {
        return Err("another agent sent it");
    }
    if !caller.principal.is_operator() && message.by.key != caller.principal.key {
        return Err("somebody else sent it");
    }
    Ok(message)
}

/// The facts that start the next turn with the messages in front, given what the agent has open.
pub(super) fn begin_turn(
    context: DecisionContext<'_>,
    agent: &Agent,
    managed: &ManagedAgent,
    messages: &[&PromptMessage],
    open: OpenCounts,
) -> Vec<Event> {
    // Counted over all runs, so that the end of an earlier turn is never taken for the end of this
    // one.
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
                text: message.recorded_text(),
                from: message.child_sender().cloned(),
            })
            .collect(),
    };
    let running = status_changed(&agent.profile, BaseState::Running, open, None);
    vec![started.into(), said.into(), running]
}

fn interrupt(
    state: &State,
    caller: &Caller,
    id: AgentId,
    reason: Option<String>,
) -> Result<Decision, Rejection> {
    let (_, managed) = load_managed(state, caller, &id)?;
    check_text("the reason", reason.as_deref().unwrap_or_default())?;
    let Some(turn) = &managed.turn else {
        return Err(Rejection::NoTurn(id));
    };
    let interrupted = turn_interrupted(&id, turn, caller, reason);
    let events = interrupt_turn(state, caller, interrupted);
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// The facts that end a turn from outside: what it asked is cancelled with it.
pub(super) fn interrupt_turn(
    state: &State,
    caller: &Caller,
    interrupted: TurnInterrupted,
) -> Vec<Event> {
    let agent = &interrupted.agent;
    let mut events = withdraw_asks(state, caller, agent, "its turn was interrupted");
    events.push(interrupted.into());
    events
}

fn turn_interrupted(
    id: &AgentId,
    turn: &Turn,
    caller: &Caller,
    reason: Option<String>,
) -> TurnInterrupted {
    TurnInterrupted {
        agent: id.clone(),
        turn: turn.number,
        by: RecordedActor::from(caller),
        reason,
        deadline: turn.deadline,
    }
}

/// A turn that took too long is interrupted; an agent that does not care is ended.
pub(super) fn expire_turn(state: &State, context: DecisionContext<'_>, id: &AgentId) -> Vec<Event> {
    let Some((_, managed)) = state.find_managed(id) else {
        return Vec::new();
    };
    let Some(turn) = &managed.turn else {
        return Vec::new();
    };
    let host = Caller::host();
    if turn.interrupted {
        return stop_run(state, &host, id, managed);
    }
    let reason = Some("its turn took longer than it may".to_owned());
    let interrupted = TurnInterrupted {
        deadline: Some(context.now.plus_ms(INTERRUPT_GRACE_MS)),
        ..turn_interrupted(id, turn, &host, reason)
    };
    interrupt_turn(state, &host, interrupted)
}

fn kill(
    state: &State,
    caller: &Caller,
    id: AgentId,
    children: Option<ChildrenPolicy>,
) -> Result<Decision, Rejection> {
    let (_, managed) = load_managed(state, caller, &id)?;
    if managed.run_state == RunState::Gone {
        return Err(Rejection::AgentEnded(id));
    }
    let mut events = match managed.run_state {
        // Killed again, it ends once; what is said about its children still counts.
        RunState::Gone | RunState::Stopping => Vec::new(),
        RunState::Requested | RunState::Launched | RunState::Ready => {
            stop_run(state, caller, &id, managed)
        }
    };
    events.extend(end_children(state, caller, &id, children)?);
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// Ends the running descendants of an agent that ends, or keeps them. The caller has to say which.
fn end_children(
    state: &State,
    caller: &Caller,
    id: &AgentId,
    children: Option<ChildrenPolicy>,
) -> Result<Vec<Event>, Rejection> {
    let below: Vec<&Agent> = state
        .descendants_of(id)
        .into_iter()
        .filter(|agent| {
            let managed = agent.managed.as_ref();
            managed.is_some_and(|managed| {
                !matches!(managed.run_state, RunState::Gone | RunState::Stopping)
            })
        })
        .collect();
    match children {
        Some(ChildrenPolicy::Keep) => Ok(Vec::new()),
        Some(ChildrenPolicy::End) => {
            let ends = below.iter().filter_map(|agent| {
                let managed = agent.managed.as_deref()?;
                Some(stop_run(state, caller, agent.id(), managed))
            });
            Ok(ends.flatten().collect())
        }
        None if below.is_empty() => Ok(Vec::new()),
        None => {
            let mut children: Vec<String> = below
                .iter()
                .map(|agent| agent.profile.name.clone())
                .collect();
            children.sort();
            let agent = id.clone();
            Err(Rejection::HasChildren { agent, children })
        }
    }
}

fn stop_run(state: &State, caller: &Caller, id: &AgentId, managed: &ManagedAgent) -> Vec<Event> {
    let mut events = withdraw_asks(state, caller, id, "the agent was ended");
    events.extend(questions::withdraw_questions(state, caller, id));
    // Messages that still wait at the end of the run would start the agent again.
    events.extend(drop_messages(id, managed, "the agent was ended"));
    let event = AgentStopRequested {
        agent: id.clone(),
        run: managed.run,
        by: RecordedActor::from(caller),
    };
    events.push(event.into());
    events
}

fn resume(state: &State, caller: &Caller, id: AgentId) -> Result<Decision, Rejection> {
    let (agent, managed) = load_managed(state, caller, &id)?;
    let mut events = Vec::new();
    if managed.archived {
        events.push(unarchive_agent(state, caller, agent)?);
    }
    match managed.run_state {
        RunState::Gone => events.extend(begin_run(agent, managed, caller, state.open_of(&id))?),
        // A second run beside the one that ends would share its session.
        RunState::Stopping => return Err(Rejection::AgentEnding(id)),
        RunState::Requested | RunState::Launched | RunState::Ready => {}
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
    let run = request_run(agent.id(), managed.run + 1, session, caller);
    let starting = status_changed(&agent.profile, BaseState::Starting, open, None);
    Ok(vec![run, starting])
}

fn archive(state: &State, caller: &Caller, id: AgentId, away: bool) -> Result<Decision, Rejection> {
    let (agent, managed) = load_managed(state, caller, &id)?;
    let events = if managed.archived == away {
        Vec::new()
    } else if away {
        archive_agent(state, caller, &id, managed)?
    } else {
        vec![unarchive_agent(state, caller, agent)?]
    };
    Ok(Decision::new(events, DecisionSubject::Agent(id)))
}

/// Archives an agent. A running one ends, because nothing that runs may be out of sight; one with
/// running descendants has to be ended first.
fn archive_agent(
    state: &State,
    caller: &Caller,
    id: &AgentId,
    managed: &ManagedAgent,
) -> Result<Vec<Event>, Rejection> {
    let mut events = match managed.run_state {
        RunState::Gone | RunState::Stopping => Vec::new(),
        RunState::Requested | RunState::Launched | RunState::Ready => {
            // Only for its refusal: without a policy it ends nothing, and fails if a descendant
            // runs.
            end_children(state, caller, id, None)?;
            stop_run(state, caller, id, managed)
        }
    };
    events.push(archived(id, true, caller));
    Ok(events)
}

/// Takes an agent out of the archive, unless another agent has its name by now.
fn unarchive_agent(state: &State, caller: &Caller, agent: &Agent) -> Result<Event, Rejection> {
    let name = &agent.profile.name;
    if is_name_taken(state, name, Some(agent.id())) {
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
    // Rules and grants can be for agents of a name, so an orchestrator must not change one.
    caller.require_operator()?;
    load_managed(state, caller, &id)?;
    let name = check_name(state, name, Some(&id))?;
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
    load_managed(state, caller, &id)?;
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
        // Otherwise the end of the turn would start the next one.
        events.extend(drop_messages(agent.id(), managed, "everything was stopped"));
        if let Some(turn) = managed.turn.as_ref().filter(|turn| !turn.interrupted) {
            let reason = Some("everything was stopped".to_owned());
            // Not `interrupt_turn`, which cancels asks: `stop_all` has ended them already, as
            // denied.
            events.push(turn_interrupted(agent.id(), turn, caller, reason).into());
        }
    }
    events
}

/// The message of a denial, as the agent's next message where its protocol cannot carry it.
pub(super) fn queue_denial_message(
    now: Timestamp,
    ask: &crate::event::Ask,
    caller: &Caller,
    message: Option<&str>,
) -> Option<Event> {
    let message = message.filter(|message| !message.trim().is_empty())?;
    ask.request.as_ref().filter(|_| !ask.takes_denial_message)?;
    let agent = ask.agent.as_ref()?;
    let text = format!("Your request was denied: {}\n\n{message}", ask.action);
    let by = RecordedActor::from(caller);
    Some(queue_text(now, agent, by, text, Vec::new()))
}

/// The facts that end the turn of an agent together with a denial.
pub(super) fn stop_turn_after_denial(
    state: &State,
    caller: &Caller,
    denied: &crate::Approval,
) -> Vec<Event> {
    let Some((agent, managed)) = denied
        .ask
        .agent
        .as_ref()
        .and_then(|id| state.find_managed(id))
    else {
        return Vec::new();
    };
    // A turn that is already being interrupted keeps the reason and the deadline it has.
    let Some(turn) = managed.turn.as_ref().filter(|turn| !turn.interrupted) else {
        return Vec::new();
    };
    let reason = Some("its turn ended with a denial".to_owned());
    let interrupted = turn_interrupted(agent.id(), turn, caller, reason);
    let mut events = interrupt_turn(state, caller, interrupted);
    // The denied ask has ended already, and not as cancelled.
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
    // The map has no order, and the same input must always give the same events.
    open.sort_by_key(|approval| approval.opened);
    open.into_iter()
        .map(|approval| {
            let ending = cancelled_ending(caller, Some(why.to_owned()));
            end_approval(approval, ending, AnswerDelivery::Withdrawn)
        })
        .collect()
}

pub(super) fn drop_messages(id: &AgentId, managed: &ManagedAgent, reason: &str) -> Option<Event> {
    let event = MessagesDropped {
        agent: id.clone(),
        reason: reason.to_owned(),
    };
    (!managed.queue.is_empty()).then(|| event.into())
}

/// The fact that an agent of the host is in a state from here on.
pub(super) fn status_changed(
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

fn load_managed<'a>(
    state: &'a State,
    caller: &Caller,
    id: &AgentId,
) -> Result<(&'a Agent, &'a ManagedAgent), Rejection> {
    // Before the agent is looked up, so that nobody learns of agents that are not below it.
    delegation::may_steer(state, caller, id)?;
    match state.find_managed(id) {
        Some(found) => Ok(found),
        None if state.find_agent(id).is_some() => Err(Rejection::NotManaged(id.clone())),
        None => Err(Rejection::UnknownAgent(id.clone())),
    }
}

/// Files go along only for people: what an agent may read is asked for, and this would be a way around it.
pub(super) fn check_attachments(
    caller: &Caller,
    attachments: &[PromptAttachment],
) -> Result<(), Rejection> {
    if attachments.is_empty() {
        return Ok(());
    }
    caller.require_operator()?;
    if attachments.len() > ATTACHMENTS_MAX {
        return Err(Rejection::TooMany {
            what: "attachments",
            limit: ATTACHMENTS_MAX,
        });
    }
    for file in attachments {
        check_size("the path of a file", file.path.len(), PATH_BYTES_MAX)?;
        check_word("the type of a file", &file.mime_type)?;
        check_word("the digest of a file", &file.sha256)?;
    }
    Ok(())
}

pub(super) fn queue_text(
    now: Timestamp,
    id: &AgentId,
    by: RecordedActor,
    text: String,
    attachments: Vec<PromptAttachment>,
) -> Event {
    let message = PromptMessage {
        number: 0,
        text,
        by,
        at: now,
        parent_message: None,
        attachments,
    };
    queue_message(id, message)
}

fn queue_message(id: &AgentId, message: PromptMessage) -> Event {
    MessageQueued {
        agent: id.clone(),
        message,
    }
    .into()
}

pub(super) fn request_run(
    id: &AgentId,
    run: u32,
    session: Option<String>,
    caller: &Caller,
) -> Event {
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
