//! What the driver reports about runs, and what follows: turns, ends, answers that are delivered.
//!
//! Invariants: a report about a run that is over changes nothing; an agent's transcript is committed
//! in the order it was read; an end leaves nothing open, and says what may already have run.

use std::collections::{BTreeSet, HashSet};

use super::approvals::{answer_settled, attempt_answer, cancelled_ending, end_approval};
use super::managed::{begin_run, begin_turn, drop_messages, status_changed, withdraw_asks};
use super::{Decision, DecisionSubject, parent_messages, questions};
use crate::agent::{Agent, OpenCounts};
use crate::event::{
    AgentExited, AgentLaunched, AgentReady, AgentReported, AnswerDelivery, ApprovalResolved, Ask,
    BaseState, Event, ProcessMarked, RunEnd, ToolStatus, TranscriptAdded, TranscriptEntry,
    TurnEnded, Worktree, WorktreeChanged,
};
use crate::ids::{AgentId, Seq};
use crate::input::{DecisionContext, RunEvent};
use crate::managed::{ManagedAgent, RunState};
use crate::principal::Caller;
use crate::state::State;

pub(super) fn handle_run_event(
    state: &State,
    context: DecisionContext<'_>,
    id: &AgentId,
    run: u32,
    ran: RunEvent,
) -> Decision {
    // The driver of an earlier run may still report when the next run has begun.
    let live = state
        .find_managed(id)
        .filter(|(_, managed)| managed.is_live() && managed.run == run);
    let Some((agent, managed)) = live else {
        return Decision::nothing();
    };
    let events = match ran {
        RunEvent::WorktreeCreated(worktree) => vec![worktree_changed(id, Some(worktree))],
        RunEvent::Launched {
            process,
            runner,
            sandbox,
        } => handle_launch(AgentLaunched {
            agent: id.clone(),
            run,
            process,
            runner,
            sandbox,
        }),
        // A session opens once.
        RunEvent::Ready { .. } if managed.run_state == RunState::Ready => Vec::new(),
        RunEvent::Ready { session, resumable } => {
            let ready = AgentReady {
                agent: id.clone(),
                run,
                session,
                resumable,
            };
            handle_ready(state, context, agent, managed, ready)
        }
        RunEvent::Reported(report) => handle_report(id, *report),
        RunEvent::EntriesAdded(entries) => add_entries(id, managed, entries).into_iter().collect(),
        RunEvent::TurnEnded {
            entries: said,
            end,
            left_open,
        } => handle_turn_end(state, context, agent, managed, said, *end, left_open),
        RunEvent::RequestWithdrawn { request } => withdraw_request(state, id, &request),
        RunEvent::Exited {
            entries: said,
            end,
            message,
        } => end_run(state, agent, managed, said, end, message),
    };
    Decision::new(events, DecisionSubject::Agent(id.clone()))
}

pub(super) fn worktree_removed(id: AgentId) -> Decision {
    Decision::new(
        vec![worktree_changed(&id, None)],
        DecisionSubject::Agent(id),
    )
}

fn worktree_changed(id: &AgentId, worktree: Option<Worktree>) -> Event {
    WorktreeChanged {
        agent: id.clone(),
        worktree,
    }
    .into()
}

/// Whatever descends from the process is the agent.
fn handle_launch(launched: AgentLaunched) -> Vec<Event> {
    let (agent, process) = (launched.agent.clone(), launched.process);
    let mut events = vec![launched.into()];
    if let Some(process) = process {
        events.push(ProcessMarked { agent, process }.into());
    }
    events
}

fn handle_ready(
    state: &State,
    context: DecisionContext<'_>,
    agent: &Agent,
    managed: &ManagedAgent,
    ready: AgentReady,
) -> Vec<Event> {
    let mut events = vec![ready.into()];
    // Told to stop while it was starting: no turn begins, and the stop is still owed.
    if managed.run_state != RunState::Stopping {
        let open = state.open_of(agent.id());
        events.extend(start_next_turn(context, agent, managed, open));
    }
    events
}

/// The next turn, or a rest.
fn start_next_turn(
    context: DecisionContext<'_>,
    agent: &Agent,
    managed: &ManagedAgent,
    open: OpenCounts,
) -> Vec<Event> {
    let next = parent_messages::next_batch(managed.queue.iter());
    if next.is_empty() {
        vec![status_changed(&agent.profile, BaseState::Idle, open, None)]
    } else {
        begin_turn(context, agent, managed, &next, open)
    }
}

fn handle_report(id: &AgentId, report: AgentReported) -> Vec<Event> {
    let report = AgentReported {
        agent: id.clone(),
        ..report
    };
    vec![report.into()]
}

/// What an agent said before something else, as the fact that goes before it.
fn add_entries(
    id: &AgentId,
    managed: &ManagedAgent,
    entries: Vec<TranscriptEntry>,
) -> Option<Event> {
    let event = TranscriptAdded {
        agent: id.clone(),
        turn: managed.turns,
        entries,
    };
    (!event.entries.is_empty()).then(|| event.into())
}

fn handle_turn_end(
    state: &State,
    context: DecisionContext<'_>,
    agent: &Agent,
    managed: &ManagedAgent,
    mut entries: Vec<TranscriptEntry>,
    end: TurnEnded,
    left_open: Vec<(String, ToolStatus)>,
) -> Vec<Event> {
    let id = agent.id();
    // The turn has ended otherwise meanwhile. What the agent said still belongs into the
    // transcript.
    if managed.turn.as_ref().map(|turn| turn.number) != Some(end.turn) {
        return add_entries(id, managed, entries).into_iter().collect();
    }
    entries.extend(left_open.into_iter().map(|(call, status)| {
        let text = String::new();
        TranscriptEntry::ToolResult {
            id: call,
            status,
            text,
        }
    }));
    let host = Caller::host();
    // In the order in which it happened: what was said, what is no longer asked, the end.
    let mut events: Vec<Event> = add_entries(id, managed, entries).into_iter().collect();
    events.extend(withdraw_asks(state, &host, id, "its turn is over"));
    let end = TurnEnded {
        agent: id.clone(),
        ..end
    };
    events.push(end.into());
    // Its asks end with these events, its questions do not.
    let questions = state.open_of(id).questions;
    if managed.run_state == RunState::Ready {
        let open = OpenCounts {
            approvals: 0,
            questions,
        };
        events.extend(start_next_turn(context, agent, managed, open));
    }
    events
}

fn withdraw_request(state: &State, id: &AgentId, request: &str) -> Vec<Event> {
    let mut open: Vec<_> = state
        .approvals
        .values()
        .filter(|approval| {
            let ask = &approval.ask;
            ask.agent.as_ref() == Some(id) && ask.request.as_deref() == Some(request)
        })
        .collect();
    open.sort_by_key(|approval| approval.opened);
    let why = "the agent withdrew it";
    let ends = open.into_iter().map(|approval| {
        let ending = cancelled_ending(&Caller::host(), Some(why.to_owned()));
        end_approval(approval, ending, AnswerDelivery::Withdrawn)
    });
    ends.collect()
}

/// The end of a run, with everything that ends with it.
fn end_run(
    state: &State,
    agent: &Agent,
    managed: &ManagedAgent,
    mut entries: Vec<TranscriptEntry>,
    end: RunEnd,
    message: String,
) -> Vec<Event> {
    let id = agent.id();
    let host = Caller::host();
    close_open_calls(managed, &mut entries);
    let message = mention_allowed_actions(managed, message);
    entries.push(TranscriptEntry::Notice {
        text: message.clone(),
    });
    let mut events: Vec<Event> = add_entries(id, managed, entries).into_iter().collect();
    events.extend(withdraw_asks(state, &host, id, &message));
    events.extend(questions::withdraw_questions(state, &host, id));
    // Whether the agent read these answers before it ended can no longer be found out.
    let owed = state.owed_to(id);
    events.extend(
        owed.map(|owed| answer_settled(&owed.ask.id, owed.opened, AnswerDelivery::Unknown)),
    );
    events.extend(managed.turn.as_ref().map(|turn| {
        Event::from(TurnEnded {
            agent: id.clone(),
            turn: turn.number,
            reason: "exited".to_owned(),
            message: Some(message.clone()),
            usage: None,
        })
    }));
    let exited = AgentExited {
        agent: id.clone(),
        run: managed.run,
        end,
        message: message.clone(),
    };
    events.push(exited.into());
    let base = match end {
        RunEnd::Done => BaseState::Done,
        RunEnd::Failed => BaseState::Error,
        RunEnd::Killed | RunEnd::HostEnded => BaseState::Stopped,
    };
    // All that it had open ends with these events.
    let none = OpenCounts::default();
    events.push(status_changed(&agent.profile, base, none, Some(message)));
    // Only after a kill: an agent that fails on its own might fail again, and be restarted for
    // ever.
    if end == RunEnd::Killed && !managed.queue.is_empty() {
        events.extend(restart_for_messages(agent, managed));
    }
    events
}

/// Messages that came while an agent was being stopped start it again.
fn restart_for_messages(agent: &Agent, managed: &ManagedAgent) -> Vec<Event> {
    begin_run(agent, managed, &Caller::host(), OpenCounts::default()).unwrap_or_else(|_| {
        drop_messages(agent.id(), managed, "the agent cannot be resumed")
            .into_iter()
            .collect()
    })
}

/// Adds a result to each tool call that the turn leaves open: the agent cannot send one any more.
fn close_open_calls(managed: &ManagedAgent, entries: &mut Vec<TranscriptEntry>) {
    // A copy, because the entries of this decision open and close calls as well.
    let Some(mut turn) = managed.turn.clone() else {
        return;
    };
    for entry in entries.iter() {
        turn.record_entry(entry);
    }
    entries.extend(
        turn.calls
            .into_iter()
            .map(|id| TranscriptEntry::ToolResult {
                id,
                status: ToolStatus::Unknown,
                text: String::new(),
            }),
    );
}

/// After an end in the middle of a turn nobody knows whether what was allowed in it has run.
fn mention_allowed_actions(managed: &ManagedAgent, message: String) -> String {
    match managed.allowed.describe() {
        Some(actions) => {
            format!("{message}; allowed in this turn, and may already have run: {actions}")
        }
        None => message,
    }
}

/// Ends the runs of an earlier host that were not adopted; their processes were ended before this is
/// decided. An adopted agent keeps its open asks and the answers it is owed.
pub(super) fn end_unadopted_runs(state: &State, adopted: &BTreeSet<AgentId>) -> Vec<Event> {
    state
        .live_agents()
        .filter(|agent| !adopted.contains(agent.id()))
        .filter_map(|agent| {
            let managed = agent.managed.as_deref()?;
            let message = "the host that ran it ended".to_owned();
            let end = RunEnd::HostEnded;
            Some(end_run(state, agent, managed, Vec::new(), end, message))
        })
        .flatten()
        .collect()
}

/// Records the delivery of each answer to a managed agent in the commit that decides it, so that a
/// host that is killed right after it knows that the answer may be on its way.
///
/// Each attempt comes right after its answer: memory keeps only the newest of many answers, and an
/// answer that is no longer in memory cannot be owed.
pub(super) fn attempt_answers(state: &State, events: &mut Vec<Event>) {
    let attempted: HashSet<Seq> = events.iter().filter_map(attempted_seq).collect();
    let due: Vec<Option<Event>> = events
        .iter()
        .map(|event| attempt_after(state, events, event, &attempted))
        .collect();
    if due.iter().all(Option::is_none) {
        return;
    }
    let decided = std::mem::take(events);
    for (event, attempt) in decided.into_iter().zip(due) {
        events.push(event);
        events.extend(attempt);
    }
}

/// The attempt that follows from an event, if it ends an ask that a live agent waits for.
fn attempt_after(
    state: &State,
    events: &[Event],
    event: &Event,
    made: &HashSet<Seq>,
) -> Option<Event> {
    let Event::ApprovalResolved(resolved) = event else {
        return None;
    };
    let ask = find_ask(state, events, resolved)?;
    let agent = state.find_managed(ask.agent.as_ref()?);
    let is_due = resolved.delivery == AnswerDelivery::Waiting
        && ask.request.is_some()
        // An ask that its own decision settles has its attempt already.
        && !made.contains(&resolved.opened)
        && agent.is_some_and(|(_, managed)| managed.is_live());
    is_due.then(|| attempt_answer(&ask.id, resolved.opened, 1))
}

fn attempted_seq(event: &Event) -> Option<Seq> {
    let Event::AnswerAttempted(attempted) = event else {
        return None;
    };
    Some(attempted.opened)
}

/// The ask that an end is about: open until now, or opened by the same decision.
fn find_ask<'a>(
    state: &'a State,
    events: &'a [Event],
    resolved: &ApprovalResolved,
) -> Option<&'a Ask> {
    let open = state.approvals.get(&resolved.approval);
    open.map(|open| open.ask.as_ref()).or_else(|| {
        events.iter().find_map(|event| {
            let Event::ApprovalRequested(requested) = event else {
                return None;
            };
            let ask = requested.ask.as_ref();
            (ask.id == resolved.approval).then_some(ask)
        })
    })
}
