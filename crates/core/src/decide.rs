//! Decisions: what an input means, given the state. Pure; nothing here changes anything.
//!
//! Invariants: a decision either refuses or names the facts that follow; silence, time and lost
//! connections never lead to an allow; an agent's principal never leads to an answer.

mod agents;
mod answer;
mod approvals;
mod ask;
mod delegation;
mod grants;
mod managed;
mod own_terminals;
mod parent_messages;
mod questions;
mod record;
mod run_events;
mod settlement;
mod spawn;
#[cfg(test)]
mod tests;
mod time;

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::OpenCounts;
use crate::approval::Approval;
use crate::event::Event;
use crate::grant::GrantState;
use crate::ids::{AgentId, ApprovalId, DeviceId, GrantId, QuestionId, TokenId};
use crate::input::{DecisionContext, Input};
use crate::json::Json;
use crate::limits::{JSON_BYTES_MAX, JSON_DEPTH_MAX, TEXT_BYTES_MAX, WORD_BYTES_MAX};
use crate::question::Question;
use crate::rejection::Rejection;
use crate::state::State;

pub use agents::is_reserved;
pub use answer::answer_again;
pub use delegation::{EDITOR_TERMINALS_TOOL, SPAWN_TOOL};

/// What follows from an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The facts to commit, in order.
    pub events: Vec<Event>,
    /// What the caller is given once they are committed.
    pub subject: DecisionSubject,
}

/// What the caller of an input is given.
#[derive(Clone, Debug, PartialEq)]
pub enum DecisionSubject {
    /// Only that it is done.
    Nothing,
    Agent(AgentId),
    /// An approval in memory.
    Approval(ApprovalId),
    /// An approval as history has it, told once more.
    KnownApproval(Box<Approval>),
    /// An approval whose owner decides; it was told of the answer.
    PassedToOwner(ApprovalId),
    /// A question that is open.
    Question(QuestionId),
    /// A question that has just ended.
    EndedQuestion(QuestionId),
    /// A question as history has it.
    KnownQuestion(Box<Question>),
    Device(DeviceId),
    Token(TokenId),
    Grant(GrantId),
    /// A grant that has just ended.
    RemovedGrant(Box<GrantState>),
    /// An earlier ask that allowed exactly this: it is not asked again.
    Covered(ApprovalId),
    /// The last event of the decision.
    Event,
    /// A no that is on the record, or came with the end it tells of.
    Refused(Box<Rejection>),
}

impl Decision {
    fn new(events: Vec<Event>, subject: DecisionSubject) -> Self {
        Self { events, subject }
    }

    fn nothing() -> Self {
        Self::new(Vec::new(), DecisionSubject::Nothing)
    }
}

/// Says what follows from `input`, or why nothing does.
pub fn decide(
    state: &State,
    context: DecisionContext<'_>,
    input: Input,
) -> Result<Decision, Rejection> {
    let mut decision = match input {
        Input::HostStarted {
            version,
            pid,
            adopted,
        } => Ok(time::host_started(state, context, version, pid, &adopted)),
        Input::TimeArrived => Ok(time::time_arrived(state, context)),
        Input::ConnectionLost(client) => Ok(time::connection_lost(state, context, client)),
        Input::RegisterAgent(input) => agents::register(state, context, input),
        Input::UnregisterAgent { caller, agent } => agents::unregister(state, &caller, agent),
        Input::SetStatus(input) => agents::set_status(state, input),
        Input::RegisterDevice(input) => agents::register_device(state, context, input),
        Input::UpdateDevice(input) => agents::update_device(state, context, input),
        Input::SendNotification(input) => agents::notify(input),
        Input::RequestApproval(request) => ask::request(state, context, *request),
        Input::ResolveApproval(input) => answer::resolve(state, context, input),
        Input::SettleByRules { approval, judged } => {
            settlement::settle_again(state, context, approval, &judged)
        }
        Input::CreateGrant(input) => grants::create(state, context, input),
        Input::RemoveGrant { caller, grant } => grants::remove(state, &caller, grant),
        Input::SetBypass {
            caller,
            agent,
            for_ms,
        } => grants::set_bypass(state, context, &caller, agent, for_ms),
        Input::TrustRules {
            caller,
            file,
            digest,
        } => grants::trust(state, &caller, file, digest),
        Input::OpenTerminal {
            caller,
            terminal,
            cwd,
            command,
        } => own_terminals::open(&caller, terminal, cwd, command),
        Input::EndTerminal {
            caller,
            terminal,
            exit_code,
            signal,
        } => own_terminals::end(caller.as_ref(), terminal, exit_code, signal),
        Input::CancelApproval {
            caller,
            approval,
            message,
        } => approvals::cancel(state, &caller, &approval, message),
        Input::DismissApproval { caller, approval } => approvals::dismiss(&caller, &approval),
        Input::DeliverAnswer(approval) => Ok(approvals::deliver_answer(state, *approval)),
        Input::SettleAnswer {
            approval,
            opened,
            delivery,
        } => Ok(approvals::record_delivery(
            state, &approval, opened, delivery,
        )),
        Input::Managed(input) => managed::decide(state, context, input),
        Input::AskQuestion(input) => questions::ask(state, context, input),
        Input::NotifyParent(input) => parent_messages::notify_parent(state, input),
        Input::SetCeiling {
            caller,
            agent,
            ceiling,
        } => delegation::set_ceiling(state, context, &caller, agent, ceiling),
        Input::AnswerQuestion {
            caller,
            question,
            answer,
            considered_ms,
        } => questions::answer(state, context, &caller, &question, answer, considered_ms),
        Input::StopAll(caller) => approvals::stop_all(state, &caller),
        Input::CreateToken(input) => record::create_token(state, context, input),
        Input::RenewToken(token) => Ok(record::renew_token(state, context, token)),
        Input::RevokeToken { caller, token } => record::revoke_token(state, &caller, token),
        Input::MarkProcess { agent, process } => record::mark_process(state, agent, process),
        Input::ForgetProcesses(processes) => Ok(record::forget_processes(state, processes)),
        Input::Redact {
            caller,
            seq,
            reason,
        } => record::redact(state, &caller, seq, reason),
        Input::Prune { caller, before } => record::prune(state, &caller, before),
    }?;
    // Each step reads what the ones before it added: parent messages may start turns, ends of agents end
    // ceilings, ends of ceilings end grants, and states are announced once all of that is known.
    run_events::attempt_answers(state, &mut decision.events);
    parent_messages::queue_parent_messages(state, context, &mut decision.events);
    delegation::end_ceilings(state, &mut decision.events);
    grants::end_sessions(state, &mut decision.events);
    announce_states(state, &mut decision.events);
    time::lose_late_connection(context, &mut decision.events);
    Ok(decision)
}

/// Adds a change of state for every agent whose visible state the events move, unless they
/// already say what the agent is from here on.
fn announce_states(state: &State, events: &mut Vec<Event>) {
    // Counted from the events, because the state does not have them yet.
    let mut open: BTreeMap<&AgentId, OpenCounts> = BTreeMap::new();
    let mut spoken_of: BTreeSet<&AgentId> = BTreeSet::new();
    for event in events.iter() {
        let Some(agent) = event.agent() else { continue };
        if announces_state(event) {
            spoken_of.insert(agent);
        } else if let Some(change) = open_count_change(event) {
            change(open.entry(agent).or_insert_with(|| state.open_of(agent)));
        }
    }
    open.retain(|agent, _| !spoken_of.contains(agent));
    let moved = open.into_iter().filter_map(|(id, after)| {
        let agent = state.find_agent(id)?;
        let moves = agent.state(after) != agent.state(state.open_of(id));
        moves.then(|| Event::from(agent.changed_to(agent.base, after)))
    });
    let moved: Vec<Event> = moved.collect();
    events.extend(moved);
}

fn announces_state(event: &Event) -> bool {
    matches!(
        event,
        Event::AgentStatusChanged(_) | Event::AgentUnregistered(_)
    )
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only these four open or close anything"
)]
fn open_count_change(event: &Event) -> Option<fn(&mut OpenCounts)> {
    match event {
        Event::ApprovalRequested(_) => Some(|open| open.approvals += 1),
        Event::ApprovalResolved(_) => {
            Some(|open| open.approvals = open.approvals.saturating_sub(1))
        }
        Event::QuestionAsked(_) => Some(|open| open.questions += 1),
        Event::QuestionEnded(_) => Some(|open| open.questions = open.questions.saturating_sub(1)),
        _ => None,
    }
}

fn check_word(what: &'static str, text: &str) -> Result<(), Rejection> {
    check_size(what, text.len(), WORD_BYTES_MAX)
}

fn check_agent_id(agent: Option<&AgentId>) -> Result<(), Rejection> {
    check_word("the agent's id", agent.map_or("", AgentId::as_str))
}

fn check_text(what: &'static str, text: &str) -> Result<(), Rejection> {
    check_size(what, text.len(), TEXT_BYTES_MAX)
}

fn check_json(what: &'static str, json: &Json) -> Result<(), Rejection> {
    check_size(what, json.text().len(), JSON_BYTES_MAX)?;
    if json.depth() > JSON_DEPTH_MAX {
        return Err(Rejection::TooDeep {
            what,
            limit: JSON_DEPTH_MAX,
        });
    }
    Ok(())
}

fn check_size(what: &'static str, size: usize, limit: usize) -> Result<(), Rejection> {
    if size > limit {
        Err(Rejection::TooLarge { what, limit })
    } else {
        Ok(())
    }
}
