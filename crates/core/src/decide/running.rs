//! What those who run managed agents say, and what follows: turns, ends, answers on their way.
//!
//! Invariants: what is about a run that is over changes nothing; an agent's story is committed in
//! the order it was heard; an end leaves nothing open, and says what may already have run.

use std::collections::{BTreeSet, HashSet};

use super::approvals::{attempted, cancelled, ended, settled};
use super::managed::{begin_run, begin_turn, dropped, status, withdraw_asks};
use super::{Decision, DecisionSubject, parent_messages, questions};
use crate::agent::{Agent, OpenCounts};
use crate::event::{
    AgentExited, AgentLaunched, AgentReady, AgentReported, AnswerDelivery, ApprovalResolved, Ask,
    BaseState, Event, ProcessKey, ProcessMarked, RunEnd, ToolStatus, TranscriptAdded,
    TranscriptEntry, TurnEnded, Worktree, WorktreeChanged,
};
use crate::ids::{AgentId, Seq};
use crate::input::{DecisionContext, RunEvent};
use crate::json::Json;
use crate::managed::{ManagedAgent, RunState};
use crate::principal::Caller;
use crate::state::State;

pub(super) fn ran(
    state: &State,
    context: DecisionContext<'_>,
    id: &AgentId,
    run: u32,
    ran: RunEvent,
) -> Decision {
    let live = state
        .find_managed(id)
        .filter(|(_, managed)| managed.is_live() && managed.run == run);
    let Some((agent, managed)) = live else {
        return Decision::nothing();
    };
    let events = match ran {
        RunEvent::WorktreeCreated(worktree) => vec![placed(id, Some(worktree))],
        RunEvent::Launched {
            process,
            runner: tree,
        } => launched(id, run, process, tree),
        // A session opens once.
        RunEvent::Ready { .. } if managed.run_state == RunState::Ready => Vec::new(),
        RunEvent::Ready { session, resumable } => {
            ready(state, context, (agent, managed), (session, resumable))
        }
        RunEvent::Reported(report) => reported(id, *report),
        RunEvent::EntriesAdded(entries) => said(id, managed, entries).into_iter().collect(),
        RunEvent::TurnEnded {
            entries: said,
            end,
            left_open,
        } => turn_ended(state, context, agent, managed, said, *end, left_open),
        RunEvent::RequestWithdrawn { request } => withdrew(state, id, &request),
        RunEvent::Exited {
            entries: said,
            end,
            message,
        } => exited(state, agent, managed, said, end, message),
    };
    Decision::new(events, DecisionSubject::Agent(id.clone()))
}

pub(super) fn worktree_removed(id: AgentId) -> Decision {
    Decision::new(vec![placed(&id, None)], DecisionSubject::Agent(id))
}

fn placed(id: &AgentId, worktree: Option<Worktree>) -> Event {
    WorktreeChanged {
        agent: id.clone(),
        worktree,
    }
    .into()
}

/// Whatever descends from the process is the agent.
fn launched(id: &AgentId, run: u32, process: Option<ProcessKey>, tree: Json) -> Vec<Event> {
    let launched = AgentLaunched {
        agent: id.clone(),
        run,
        process,
        runner: tree,
    };
    let marked = process.map(|process| ProcessMarked {
        agent: id.clone(),
        process,
    });
    let marked = marked.map(Event::from);
    std::iter::once(launched.into()).chain(marked).collect()
}

fn ready(
    state: &State,
    context: DecisionContext<'_>,
    (agent, managed): (&Agent, &ManagedAgent),
    (session, resumable): (String, bool),
) -> Vec<Event> {
    let event = AgentReady {
        agent: agent.id().clone(),
        run: managed.run,
        session,
        resumable,
    };
    let mut events = vec![event.into()];
    if managed.run_state != RunState::Stopping {
        let open = state.open_of(agent.id());
        events.extend(go_on(context, agent, managed, open));
    }
    events
}

/// The next turn, or a rest.
fn go_on(
    context: DecisionContext<'_>,
    agent: &Agent,
    managed: &ManagedAgent,
    open: OpenCounts,
) -> Vec<Event> {
    let next = parent_messages::next_batch(managed.queue.iter());
    if next.is_empty() {
        vec![status(&agent.profile, BaseState::Idle, open, None)]
    } else {
        begin_turn(context, agent, managed, (&next, open))
    }
}

fn reported(id: &AgentId, report: AgentReported) -> Vec<Event> {
    let report = AgentReported {
        agent: id.clone(),
        ..report
    };
    vec![report.into()]
}

/// What an agent said before something else, as the fact that goes before it.
pub(super) fn said(
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

fn turn_ended(
    state: &State,
    context: DecisionContext<'_>,
    agent: &Agent,
    managed: &ManagedAgent,
    mut entries: Vec<TranscriptEntry>,
    end: TurnEnded,
    left_open: Vec<(String, ToolStatus)>,
) -> Vec<Event> {
    let id = agent.id();
    if managed.turn.as_ref().map(|turn| turn.number) != Some(end.turn) {
        return said(id, managed, entries).into_iter().collect();
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
    let mut events: Vec<Event> = said(id, managed, entries).into_iter().collect();
    events.extend(withdraw_asks(state, &host, id, "its turn is over"));
    let end = TurnEnded {
        agent: id.clone(),
        ..end
    };
    events.push(end.into());
    let questions = state.open_of(id).questions;
    if managed.run_state == RunState::Ready {
        let open = OpenCounts {
            approvals: 0,
            questions,
        };
        events.extend(go_on(context, agent, managed, open));
    }
    events
}

fn withdrew(state: &State, id: &AgentId, request: &str) -> Vec<Event> {
    let mut open: Vec<_> = state
        .approvals
        .values()
        .filter(|approval| {
            let ask = &approval.ask;
            ask.agent.as_ref() == Some(id) && ask.request.as_deref() == Some(request)
        })
        .collect();
    open.sort_by_key(|approval| approval.opened);
    let why = "the agent took it back";
    let ends = open.into_iter().map(|approval| {
        let ending = cancelled(&Caller::host(), Some(why.to_owned()));
        ended(approval, ending, AnswerDelivery::Withdrawn)
    });
    ends.collect()
}

/// The end of a run, with everything that ends with it.
fn exited(
    state: &State,
    agent: &Agent,
    managed: &ManagedAgent,
    mut entries: Vec<TranscriptEntry>,
    end: RunEnd,
    message: String,
) -> Vec<Event> {
    let id = agent.id();
    let host = Caller::host();
    close_calls(managed, &mut entries);
    let message = with_what_may_have_run(managed, message);
    entries.push(TranscriptEntry::Notice {
        text: message.clone(),
    });
    let mut events: Vec<Event> = said(id, managed, entries).into_iter().collect();
    events.extend(withdraw_asks(state, &host, id, &message));
    events.extend(questions::withdrawn(state, &host, id));
    let owed = state.owed_to(id);
    events.extend(owed.map(|owed| settled(&owed.ask.id, owed.opened, AnswerDelivery::Unknown)));
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
    let none = OpenCounts::default();
    events.push(status(&agent.profile, base, none, Some(message)));
    if end == RunEnd::Killed && !managed.queue.is_empty() {
        events.extend(begin_again(agent, managed));
    }
    events
}

/// What was said to an agent after it was to be ended revives it.
fn begin_again(agent: &Agent, managed: &ManagedAgent) -> Vec<Event> {
    let dropped = || dropped(agent.id(), managed, "the agent cannot be resumed");
    let none = OpenCounts::default();
    let begun = begin_run(agent, managed, &Caller::host(), none);
    begun.unwrap_or_else(|_| dropped().into_iter().collect())
}

/// Nobody will hear what became of the calls that the turn leaves open.
fn close_calls(managed: &ManagedAgent, entries: &mut Vec<TranscriptEntry>) {
    let Some(mut turn) = managed.turn.clone() else {
        return;
    };
    for entry in entries.iter() {
        turn.hear(entry);
    }
    let closed = |id| TranscriptEntry::ToolResult {
        id,
        status: ToolStatus::Unknown,
        text: String::new(),
    };
    entries.extend(turn.calls.into_iter().map(closed));
}

/// An end in the middle of a turn leaves open what became of what was allowed in it.
fn with_what_may_have_run(managed: &ManagedAgent, message: String) -> String {
    match managed.allowed.words() {
        Some(actions) => {
            format!("{message}; allowed in this turn, and may already have run: {actions}")
        }
        None => message,
    }
}

/// What an earlier host left running is over unless it was adopted: its processes were ended before
/// this is decided. An adopted agent goes on as it is, with what it asked and what it is owed.
pub(super) fn left_running(state: &State, adopted: &BTreeSet<AgentId>) -> Vec<Event> {
    let words = "the host that ran it ended";
    let left = state
        .live_agents()
        .filter(|agent| !adopted.contains(agent.id()));
    let left = left.filter_map(|agent| {
        let managed = agent.managed.as_deref()?;
        let words = words.to_owned();
        let events = exited(state, agent, managed, Vec::new(), RunEnd::HostEnded, words);
        Some(events)
    });
    left.flatten().collect()
}

/// Answers to managed agents are on their way from the commit that decides them: whoever wakes
/// after it finds the attempt on the record.
///
/// Each attempt comes right after its answer: of many answers in one breath memory keeps only the
/// newest, and what is no longer there cannot be owed.
pub(super) fn attempt_answers(state: &State, events: &mut Vec<Event>) {
    let attempted: HashSet<Seq> = events.iter().filter_map(attempts).collect();
    let due: Vec<Option<Event>> = events
        .iter()
        .map(|event| attempt_of(state, events, event, &attempted))
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
fn attempt_of(
    state: &State,
    events: &[Event],
    event: &Event,
    made: &HashSet<Seq>,
) -> Option<Event> {
    let Event::ApprovalResolved(resolved) = event else {
        return None;
    };
    let ask = find_ask(state, events, resolved)?;
    let live = |(_, managed): (&Agent, &ManagedAgent)| managed.is_live();
    let due = resolved.delivery == AnswerDelivery::Waiting
        && ask.request.is_some()
        && !made.contains(&resolved.opened)
        && state.find_managed(ask.agent.as_ref()?).is_some_and(live);
    due.then(|| attempted(&ask.id, resolved.opened, 1))
}

fn attempts(event: &Event) -> Option<Seq> {
    let Event::AnswerAttempted(attempted) = event else {
        return None;
    };
    Some(attempted.opened)
}

/// The ask that an end is about: open until now, or opened in the same breath.
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
