//! The gate: asks are opened, answered once, taken back, told.
//!
//! Invariants: only an option that the ask names as approving allows; the first ending is final;
//! an answer to what was never asked leaves no trace.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::time::expired;
use super::{
    Decision, DecisionSubject, check_agent_id, check_json, check_size, check_text, check_word,
    delegation, grants, managed, running, settling,
};
use crate::approval::{APPROVE, Approval, ApprovalEnd, CANCELLED, DENY, EXPIRED, GONE};
use crate::event::{
    AgentInterruptRequested, AnswerAttempted, AnswerDelivery, AnswerSettled, ApprovalAttached,
    ApprovalDismissed, ApprovalEnding, ApprovalOutcome, ApprovalRequested, ApprovalResolveRefused,
    ApprovalResolveRequested, ApprovalResolved, Ask, AskAttachment, Effect, Event, GrantUse,
    PassUsed,
};
use crate::ids::{AgentId, ApprovalId, ClientId, GrantId, PrincipalKey, Seq, Timestamp};
use crate::input::{
    ApprovalAnswer, AskJudgment, AskRequest, DecisionContext, GrantDraft, ResolveApproval,
};
use crate::json::{Json, hex};
use crate::limits::{
    AGENT_OPEN_ASKS_MAX, AGENT_OPEN_BYTES_MAX, OPEN_ASKS_MAX, OPEN_BYTES_MAX, OPTIONS_MAX,
    PATH_BYTES_MAX, TIMEOUT_MS_MAX,
};
use crate::managed::{Pass, RunState};
use crate::principal::{Caller, RecordedActor, Role};
use crate::rejection::Rejection;
use crate::state::{State, ask_key};

/// A client that sees one of these must never read it as an allow.
const NEVER_APPROVING: [&str; 4] = [DENY, CANCELLED, EXPIRED, GONE];

/// The fact that an approval ended.
pub(super) fn ended(
    approval: &Approval,
    ending: ApprovalEnding,
    delivery: AnswerDelivery,
) -> Event {
    concluded(
        (&approval.ask, approval.opened),
        ending,
        delivery,
        Vec::new(),
    )
}

/// The fact that an ask ended, with the grants that ended it.
pub(super) fn concluded(
    (ask, opened): (&Ask, Seq),
    ending: ApprovalEnding,
    delivery: AnswerDelivery,
    grants_used: Vec<GrantUse>,
) -> Event {
    ApprovalResolved {
        approval: ask.id.clone(),
        opened,
        agent: ask.agent.clone(),
        ending: Arc::new(ending),
        delivery,
        grants_used,
    }
    .into()
}

pub(super) fn request(
    state: &State,
    context: DecisionContext<'_>,
    mut request: AskRequest,
) -> Result<Decision, Rejection> {
    request.caller.refuse_observers()?;
    check_request(&request)?;
    let managed = ManagedPart::of(state, &mut request)?;
    if let Some(covered) = managed.covered {
        return Ok(covered);
    }
    let keyed = request.keyed.clone();
    let caller = request.caller.clone();
    let judged = request.judged.clone();
    let mut ask = draft(context.now, request)?;
    ask.repeats = find_repeated(state, &ask);
    if let Some(key) = &ask.idempotency_key
        && let Some(earlier) = find_asked(state, &ask.by.key, key, keyed.as_ref())?
    {
        return ask_again(context, earlier, &ask, &caller);
    }
    let mut events = Vec::with_capacity(5);
    events.extend(managed.said);
    let earlier = ask_key(&ask)
        .and_then(|key| state.ask_keys.get(&key))
        .and_then(|id| state.approvals.get(id));
    events.extend(earlier.map(|earlier| replace(earlier, &ask, &caller)));
    // Whatever goes before the ask has to be there before its place is counted.
    running::attempt_answers(state, &mut events);
    let opened = Seq(state.head().0 + events.len() as u64 + 1);
    let settled = settling::settle(state, context, (&ask, opened), judged.as_ref());
    // What ends at once takes no room, and what replaces another has its room.
    if settled.is_none() && earlier.is_none() {
        check_room(state, &ask)?;
    }
    let id = ask.id.clone();
    events.push(ApprovalRequested { ask: Arc::new(ask) }.into());
    if let Some(settled) = settled {
        events.extend(settled);
        // The reply to the ask carries the answer, so that is its first telling.
        events.push(attempted(&id, opened, 1));
    }
    Ok(Decision::new(events, DecisionSubject::Approval(id)))
}

/// What a managed agent's ask comes with, or comes to.
#[derive(Default)]
struct ManagedPart {
    /// What the agent said before.
    said: Option<Event>,
    /// What follows if exactly this was allowed before.
    covered: Option<Decision>,
}

impl ManagedPart {
    fn of(state: &State, request: &mut AskRequest) -> Result<Self, Rejection> {
        let Some(own) = &mut request.managed else {
            return Ok(Self::default());
        };
        let id = request.caller.principal.agent().cloned();
        let id = id
            .or_else(|| request.agent.clone())
            .unwrap_or_else(|| AgentId::new(""));
        let found = state.find_managed(&id);
        let Some((_, managed)) =
            found.filter(|(_, m)| m.run == own.run && m.run_state == RunState::Ready)
        else {
            return Err(Rejection::AgentEnded(id));
        };
        // A turn that is being ended begins nothing more, and would never end if it waited for a person.
        if managed.turn.as_ref().is_some_and(|turn| turn.interrupted) {
            return Err(Rejection::NoTurn(id));
        }
        request.turn = Some(managed.turns.to_string());
        let said = running::said(&id, managed, std::mem::take(&mut own.entries));
        // Rules may have changed since it was allowed, and a deny holds.
        let denies = |judged: &AskJudgment| judged.verdict.effect == Effect::Deny;
        let denied = request.judged.as_ref().is_some_and(denies);
        let covers = |pass: &&Pass| !denied && own.covered_by.contains(&pass.digest);
        let pass = managed.passes.iter().find(covers);
        let covered = pass.map(|pass| {
            let used = PassUsed {
                agent: id.clone(),
                approval: pass.approval.clone(),
                digest: pass.digest.clone(),
                covers: request.id.clone(),
            };
            let events = said.clone().into_iter().chain([used.into()]);
            Decision::new(
                events.collect(),
                DecisionSubject::Covered(pass.approval.clone()),
            )
        });
        Ok(Self { said, covered })
    }
}

/// An earlier ask for the same thing that may already have run.
fn find_repeated(state: &State, ask: &Ask) -> Option<ApprovalId> {
    ask.request.as_ref()?;
    let twin = state.find_unknown_twin(ask.agent.as_ref()?, ask.input_digest.as_deref()?)?;
    Some(twin.ask.id.clone())
}

pub(super) fn attempted(id: &ApprovalId, opened: Seq, deliveries: u32) -> Event {
    AnswerAttempted {
        approval: id.clone(),
        opened,
        deliveries,
    }
    .into()
}

fn check_request(request: &AskRequest) -> Result<(), Rejection> {
    check_text("the action", &request.action)?;
    check_size("the list of options", request.options.len(), OPTIONS_MAX)?;
    let approving = request.approving.as_ref().map_or(0, Vec::len);
    check_size("the list of approving options", approving, OPTIONS_MAX)?;
    for option in &request.options {
        check_word("an option", option)?;
    }
    let words = [
        ("the tool", request.tool.as_deref()),
        ("the turn", request.turn.as_deref()),
        ("the tool call's id", request.tool_call.as_deref()),
        ("the idempotency key", request.idempotency_key.as_deref()),
    ];
    for (what, word) in words {
        check_word(what, word.unwrap_or_default())?;
    }
    check_agent_id(request.agent.as_ref())?;
    check_cwd(request.cwd.as_deref())?;
    check_json("the details", &request.details)?;
    request
        .input
        .as_ref()
        .map_or(Ok(()), |input| check_json("the input", input))?;
    request
        .a2ui
        .as_ref()
        .map_or(Ok(()), |a2ui| check_json("the screen description", a2ui))
}

fn check_cwd(cwd: Option<&str>) -> Result<(), Rejection> {
    let cwd = cwd.unwrap_or("/");
    check_size("the working directory", cwd.len(), PATH_BYTES_MAX)?;
    if cwd.starts_with('/') {
        Ok(())
    } else {
        Err(Rejection::NotAbsolute("the working directory"))
    }
}

fn draft(now: Timestamp, request: AskRequest) -> Result<Ask, Rejection> {
    let by = RecordedActor::from(&request.caller);
    let (agent, attachment) = match &request.caller.principal.role {
        Role::Agent(agent) if request.caller.client.is_some() => {
            (Some(agent.clone()), AskAttachment::Asker)
        }
        Role::Agent(agent) => (Some(agent.clone()), AskAttachment::None),
        Role::Operator if request.caller.client.is_some() && !request.system_level => {
            (request.agent, AskAttachment::Owner)
        }
        Role::Operator | Role::Observer | Role::Host => (request.agent, AskAttachment::None),
    };
    let options = if request.options.is_empty() {
        vec![APPROVE.to_owned(), DENY.to_owned()]
    } else {
        request.options
    };
    let approving = request
        .approving
        .unwrap_or_else(|| vec![APPROVE.to_owned()]);
    let approving = offered(approving, &options)?;
    let managed = request.managed;
    let mut ask = Ask {
        id: request.id,
        agent,
        turn: request.turn,
        tool_call: request.tool_call,
        action: request.action,
        tool: request.tool,
        input_digest: request.input.as_ref().map(Json::canonical_digest),
        input: request.input,
        cwd: request.cwd,
        verdict: None,
        details: request.details,
        a2ui: request.a2ui,
        options,
        approving,
        request: managed.as_ref().map(|managed| managed.request.clone()),
        takes_denial_message: managed
            .as_ref()
            .is_some_and(|managed| managed.takes_denial_message),
        can_edit: managed.as_ref().is_some_and(|managed| managed.can_edit),
        passes: managed.map_or_else(Vec::new, |managed| managed.passes),
        repeats: None,
        by,
        client: request.caller.client,
        attachment,
        idempotency_key: request.idempotency_key,
        request_digest: None,
        asked_at: now,
        deadline: request
            .timeout_ms
            .map(|ms| now.plus_ms(ms.min(TIMEOUT_MS_MAX))),
    };
    if ask.idempotency_key.is_some() {
        ask.request_digest = Some(request_digest(&ask));
    }
    // What the host found out is no part of what was asked, and comes after the digest.
    if let Some(judged) = request.judged {
        ask.cwd = judged.cwd;
        ask.verdict = Some(judged.verdict);
    }
    Ok(ask)
}

/// `approve` allows where it is offered; any other approving option must be offered by name.
/// Words for a no, and for an end without an answer, never allow.
fn offered(approving: Vec<String>, options: &[String]) -> Result<Vec<String>, Rejection> {
    let mut kept: Vec<String> = Vec::with_capacity(approving.len());
    for option in approving {
        if kept.contains(&option) {
            continue;
        }
        if options.contains(&option) && !NEVER_APPROVING.contains(&option.as_str()) {
            kept.push(option);
        } else if option != APPROVE {
            return Err(Rejection::ApprovingNotOffered(option));
        }
    }
    Ok(kept)
}

/// What a key stands for: everything asked, to the byte, but not when or through which connection.
fn request_digest(ask: &Ask) -> String {
    let json = |json: &Option<Json>| {
        json.as_ref()
            .map_or(String::new(), |json| json.text().to_owned())
    };
    let parts = [
        ask.agent
            .as_ref()
            .map_or(String::new(), ToString::to_string),
        ask.turn.clone().unwrap_or_default(),
        ask.tool_call.clone().unwrap_or_default(),
        ask.action.clone(),
        ask.tool.clone().unwrap_or_default(),
        json(&ask.input),
        json(&ask.a2ui),
        ask.details.text().to_owned(),
        ask.options.join("\n"),
        ask.approving.join("\n"),
        ask.cwd.clone().unwrap_or_default(),
    ];
    let mut hasher = Sha256::new();
    for part in parts {
        // With its length in front, no part can be read as the end of another.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize())
}

/// What a key already stands for. History lags behind memory: what it still has as open while
/// memory has nothing ended meanwhile, and only history can soon say how.
fn find_asked<'a>(
    state: &'a State,
    principal: &PrincipalKey,
    key: &str,
    history: Option<&'a Approval>,
) -> Result<Option<&'a Approval>, Rejection> {
    match (state.find_keyed(principal, key), history) {
        (None, Some(stale)) if stale.is_pending() => {
            Err(Rejection::UnknownApproval(stale.ask.id.clone()))
        }
        (memory, history) => Ok(memory.or(history)),
    }
}

/// The same key again: the same ask; if its connection is gone it comes along to the new one,
/// and if it ended it is told once more.
fn ask_again(
    context: DecisionContext<'_>,
    earlier: &Approval,
    ask: &Ask,
    caller: &Caller,
) -> Result<Decision, Rejection> {
    if earlier.ask.request_digest != ask.request_digest {
        return Err(Rejection::IdempotencyConflict(
            ask.idempotency_key.clone().unwrap_or_default(),
        ));
    }
    if !earlier.is_pending() {
        return Ok(told(earlier.clone()));
    }
    let id = earlier.ask.id.clone();
    let owner_is_there = earlier
        .client
        .as_ref()
        .is_some_and(|client| context.presence.is_connected(client));
    let moved = caller.client.as_ref().filter(|client| {
        earlier.ask.attachment != AskAttachment::None
            && earlier.client.as_ref() != Some(client)
            && !owner_is_there
    });
    let events = moved.map(|client| {
        ApprovalAttached {
            approval: id.clone(),
            client: client.clone(),
        }
        .into()
    });
    Ok(Decision::new(
        events.into_iter().collect(),
        DecisionSubject::Approval(id),
    ))
}

fn check_room(state: &State, ask: &Ask) -> Result<(), Rejection> {
    if state.approvals.len() >= OPEN_ASKS_MAX {
        return Err(Rejection::TooMany {
            what: "open asks",
            limit: OPEN_ASKS_MAX,
        });
    }
    if ask
        .agent
        .as_ref()
        .is_some_and(|agent| state.open_of(agent).approvals >= AGENT_OPEN_ASKS_MAX)
    {
        return Err(Rejection::TooMany {
            what: "open asks of this agent",
            limit: AGENT_OPEN_ASKS_MAX,
        });
    }
    check_bytes(state, ask)
}

/// Size is bounded as well as number: a few huge asks would hide all others as surely as many.
fn check_bytes(state: &State, ask: &Ask) -> Result<(), Rejection> {
    let bytes = ask.bytes();
    let own = state.open_bytes.get(&ask.agent).copied().unwrap_or(0);
    if ask.agent.is_some() && own + bytes > AGENT_OPEN_BYTES_MAX {
        return Err(Rejection::TooMany {
            what: "bytes in open asks of this agent",
            limit: AGENT_OPEN_BYTES_MAX,
        });
    }
    if state.open_bytes_total + bytes > OPEN_BYTES_MAX {
        return Err(Rejection::TooMany {
            what: "bytes in open asks",
            limit: OPEN_BYTES_MAX,
        });
    }
    Ok(())
}

/// The end of an ask that a later one takes the place of. An agent that waits for the earlier one
/// under another id has to be told; under the same id the answer to the later one is its answer.
fn replace(earlier: &Approval, later: &Ask, caller: &Caller) -> Event {
    let words = "replaced by a later ask for the same tool call";
    let delivery = if earlier.ask.request == later.request {
        AnswerDelivery::Withdrawn
    } else {
        AnswerDelivery::Waiting
    };
    let ending = cancelled(caller, Some(words.to_owned()));
    ended(earlier, ending, delivery)
}

pub(super) fn cancelled(caller: &Caller, message: Option<String>) -> ApprovalEnding {
    ApprovalEnding {
        message,
        ..ApprovalEnding::new(ApprovalOutcome::Cancelled, CANCELLED, caller.into())
    }
}

pub(super) fn resolve(
    state: &State,
    context: DecisionContext<'_>,
    input: ResolveApproval,
) -> Result<Decision, Rejection> {
    let ResolveApproval {
        caller,
        approval: id,
        mut answer,
        grant_ids,
        delegated,
    } = input;
    let remembered = std::mem::take(&mut answer.remember);
    let approval = state
        .find_approval(&id)
        .ok_or_else(|| Rejection::UnknownApproval(id.clone()))?;
    match &caller.principal.role {
        Role::Agent(agent) => {
            let outcome = approval.outcome_of(&answer.resolution);
            let given = (&answer, delegated);
            let by = (&caller, agent);
            let checked = delegation::check_answer(state, context, by, (approval, outcome), given);
            if let Err(refusal) = checked {
                return Ok(refused_on_record(approval, &caller, &answer, refusal));
            }
        }
        Role::Observer => return Err(Rejection::ObserverCannotChange),
        Role::Operator | Role::Host => {}
    }
    check_text("the message", answer.message.as_deref().unwrap_or_default())?;
    if !approval.is_pending() {
        answer_again(approval, &answer)?;
        return Ok(Decision::new(Vec::new(), DecisionSubject::Approval(id)));
    }
    if context.has_come(approval.ask.deadline) {
        return Ok(late(state, context, approval));
    }
    let outcome = check_answer(approval, &answer)?;
    match approval.owner() {
        Some(owner) if caller.client.as_ref() != Some(owner) => {
            pass_to_owner(context, approval, owner, &caller, answer)
        }
        owner => {
            // The owner that answers itself has been told by that.
            let delivery = if owner.is_some() {
                AnswerDelivery::Delivered
            } else {
                AnswerDelivery::Waiting
            };
            let remembered = held(state, context, (&caller, approval), remembered)?;
            let grants = drafts(approval, outcome, remembered, grant_ids)?;
            let grants = grants::remember(state, context, &caller, grants)?;
            let denied = outcome == ApprovalOutcome::Denied;
            // Words that reach an agent as its next message would begin the turn that is to end.
            let words = answer.message.as_deref().filter(|_| denied && !answer.stop);
            let words = managed::words_of_denial(context.now, &approval.ask, &caller, words);
            let stops = answer.stop;
            let mut events = vec![ended(approval, ending(outcome, &caller, answer), delivery)];
            events.extend(grants);
            events.extend(words);
            if stops {
                events.extend(managed::stopped_by_denial(state, &caller, approval));
            }
            Ok(Decision::new(events, DecisionSubject::Approval(id)))
        }
    }
}

/// An orchestrator remembers no more than it holds.
fn held(
    state: &State,
    context: DecisionContext<'_>,
    (caller, approval): (&Caller, &Approval),
    remembered: Vec<GrantDraft>,
) -> Result<Vec<GrantDraft>, Rejection> {
    let Some(agent) = caller.principal.agent() else {
        return Ok(remembered);
    };
    let who = (agent, approval.ask.agent.as_ref());
    let held = |draft| delegation::draft(state, context, who, draft);
    remembered.into_iter().map(held).collect()
}

/// What is remembered follows the answer: only an allow or a deny can be.
fn drafts(
    approval: &Approval,
    outcome: ApprovalOutcome,
    remembered: Vec<GrantDraft>,
    ids: Vec<GrantId>,
) -> Result<Vec<(GrantId, GrantDraft)>, Rejection> {
    check_size(
        "what is remembered",
        remembered.len(),
        ids.len().min(OPTIONS_MAX),
    )?;
    let effect = match outcome {
        ApprovalOutcome::Allowed => Effect::Allow,
        ApprovalOutcome::Denied => Effect::Deny,
        _ if remembered.is_empty() => return Ok(Vec::new()),
        ApprovalOutcome::Answered
        | ApprovalOutcome::Cancelled
        | ApprovalOutcome::Expired
        | ApprovalOutcome::Gone => {
            let why = "the answer neither allows nor denies";
            return Err(Rejection::BadGrant(why.to_owned()));
        }
    };
    let origin = Some(approval.ask.id.clone());
    let drafts = remembered.into_iter().map(|draft| GrantDraft {
        effect,
        origin: origin.clone(),
        ..draft
    });
    Ok(ids.into_iter().zip(drafts).collect())
}

/// An answer that overtakes the clock's own word is late all the same.
fn late(state: &State, context: DecisionContext<'_>, approval: &Approval) -> Decision {
    let ending = expired();
    let mut shown = approval.clone();
    shown.ended = Some(ApprovalEnd {
        ending: Arc::new(ending.clone()),
        seq: state.head().next(),
        at: context.now,
    });
    let refusal = Rejection::AlreadyResolved(Box::new(shown));
    Decision::new(
        vec![ended(approval, ending, AnswerDelivery::Waiting)],
        DecisionSubject::Refused(Box::new(refusal)),
    )
}

fn refused_on_record(
    approval: &Approval,
    caller: &Caller,
    answer: &ApprovalAnswer,
    refusal: Rejection,
) -> Decision {
    let event = ApprovalResolveRefused {
        approval: approval.ask.id.clone(),
        agent: caller.principal.agent().cloned(),
        action: approval.ask.action.clone(),
        resolution: answer.resolution.chars().take(100).collect(),
        by: RecordedActor::from(caller),
        client: caller.client.clone(),
        reason: "own_system_row".to_owned(),
    };
    Decision::new(
        vec![event.into()],
        DecisionSubject::Refused(Box::new(refusal)),
    )
}

/// The same answer again is a success; a different one is refused with who and when.
pub fn answer_again(approval: &Approval, answer: &ApprovalAnswer) -> Result<(), Rejection> {
    let same = approval.ended.as_ref().is_some_and(|ended| {
        ended.ending.resolution == answer.resolution
            && matches!(
                ended.ending.outcome,
                ApprovalOutcome::Allowed | ApprovalOutcome::Denied | ApprovalOutcome::Answered
            )
            && (answer.edited_input.is_none() || ended.ending.edited_input == answer.edited_input)
            && (!answer.stop || ended.ending.stop)
    });
    if same {
        Ok(())
    } else {
        Err(Rejection::AlreadyResolved(Box::new(approval.clone())))
    }
}

fn check_answer(
    approval: &Approval,
    answer: &ApprovalAnswer,
) -> Result<ApprovalOutcome, Rejection> {
    if !approval.ask.options.contains(&answer.resolution) {
        return Err(Rejection::NotAnOption {
            approval: approval.ask.id.clone(),
            resolution: answer.resolution.chars().take(100).collect(),
            options: approval.ask.options.clone(),
        });
    }
    let outcome = approval.outcome_of(&answer.resolution);
    if let Some(edited) = &answer.edited_input {
        check_json("the edited input", edited)?;
        let is_managed = approval.ask.request.is_some();
        let fits = || approval.ask.can_edit && edited.read_exactly().is_some_and(|v| v.is_object());
        let fixed = is_managed && !fits();
        if outcome != ApprovalOutcome::Allowed || approval.ask.input.is_none() || fixed {
            return Err(Rejection::NothingToEdit);
        }
    }
    if answer.stop && (outcome != ApprovalOutcome::Denied || approval.ask.request.is_none()) {
        return Err(Rejection::NothingToStop);
    }
    Ok(outcome)
}

fn ending(outcome: ApprovalOutcome, caller: &Caller, answer: ApprovalAnswer) -> ApprovalEnding {
    ApprovalEnding {
        message: answer.message,
        edited_input: answer.edited_input,
        stop: answer.stop,
        ..ApprovalEnding::new(outcome, answer.resolution, caller.into())
    }
}

/// Another's answer to an owned ask is passed to the owner, if it is there to hear it.
fn pass_to_owner(
    context: DecisionContext<'_>,
    approval: &Approval,
    owner: &ClientId,
    caller: &Caller,
    answer: ApprovalAnswer,
) -> Result<Decision, Rejection> {
    let id = approval.ask.id.clone();
    if !context.presence.is_subscribed(owner) {
        return Err(Rejection::OwnerNotConnected {
            approval: id,
            owner: owner.clone(),
        });
    }
    let event = ApprovalResolveRequested {
        approval: id.clone(),
        agent: approval.ask.agent.clone(),
        action: approval.ask.action.clone(),
        resolution: answer.resolution,
        by: RecordedActor::from(caller),
        client: caller.client.clone(),
        owner: owner.clone(),
    };
    Ok(Decision::new(
        vec![event.into()],
        DecisionSubject::PassedToOwner(id),
    ))
}

pub(super) fn cancel(
    state: &State,
    caller: &Caller,
    id: &ApprovalId,
    message: Option<String>,
) -> Result<Decision, Rejection> {
    caller.refuse_observers()?;
    check_text("the message", message.as_deref().unwrap_or_default())?;
    let approval = state
        .find_approval(id)
        .ok_or_else(|| Rejection::UnknownApproval(id.clone()))?;
    if !approval.was_asked_by(&caller.principal) {
        return Err(Rejection::NotYourApproval(id.clone()));
    }
    match &approval.ended {
        None => {
            let event = ended(
                approval,
                cancelled(caller, message),
                AnswerDelivery::Withdrawn,
            );
            Ok(Decision::new(
                vec![event],
                DecisionSubject::Approval(id.clone()),
            ))
        }
        Some(end) if end.ending.outcome == ApprovalOutcome::Cancelled => Ok(Decision::new(
            Vec::new(),
            DecisionSubject::Approval(id.clone()),
        )),
        Some(_) => Err(Rejection::AlreadyResolved(Box::new(approval.clone()))),
    }
}

pub(super) fn dismiss(caller: &Caller, approval: &Approval) -> Result<Decision, Rejection> {
    caller.refuse_observers()?;
    let id = approval.ask.id.clone();
    if approval.is_pending() {
        return Err(Rejection::ApprovalPending(id));
    }
    if caller.principal.agent().is_some() && !approval.was_asked_by(&caller.principal) {
        return Err(Rejection::NotYourApproval(id));
    }
    let event = ApprovalDismissed {
        approval: id,
        opened: approval.opened,
        by: RecordedActor::from(caller),
    };
    let events = if approval.dismissed {
        Vec::new()
    } else {
        vec![event.into()]
    };
    let subject = DecisionSubject::KnownApproval(Box::new(approval.clone()));
    Ok(Decision::new(events, subject))
}

pub(super) fn tell(state: &State, approval: Approval) -> Decision {
    // Memory may know of a later telling than the fact that was handed in.
    let newest = state
        .find_approval(&approval.ask.id)
        .cloned()
        .unwrap_or(approval);
    // A managed agent hears its answers from the host that runs it, once; whoever else looks does not
    // count, and must not bring that answer about again.
    if newest.is_pending() || newest.ask.request.is_some() {
        return Decision::new(Vec::new(), DecisionSubject::KnownApproval(Box::new(newest)));
    }
    told(newest)
}

fn told(mut approval: Approval) -> Decision {
    approval.deliveries += 1;
    approval.delivery = AnswerDelivery::Attempted;
    let event = attempted(&approval.ask.id, approval.opened, approval.deliveries);
    Decision::new(
        vec![event],
        DecisionSubject::KnownApproval(Box::new(approval)),
    )
}

pub(super) fn settle(approval: &ApprovalId, opened: Seq, delivery: AnswerDelivery) -> Decision {
    let event = settled(approval, opened, delivery);
    Decision::new(vec![event], DecisionSubject::Nothing)
}

/// The fact that an answer arrived, or never will.
pub(super) fn settled(approval: &ApprovalId, opened: Seq, delivery: AnswerDelivery) -> Event {
    AnswerSettled {
        approval: approval.clone(),
        opened,
        delivery,
    }
    .into()
}

pub(super) fn stop_all(state: &State, caller: &Caller) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    let message = Some(format!("{} stopped everything", caller.principal.name));
    let mut open: Vec<&Approval> = state.approvals.values().collect();
    open.sort_by_key(|approval| approval.opened);
    let mut events: Vec<Event> = open
        .into_iter()
        .map(|approval| {
            let answer = ApprovalAnswer {
                resolution: DENY.to_owned(),
                message: message.clone(),
                ..ApprovalAnswer::default()
            };
            let ending = if approval.ask.options.iter().any(|option| option == DENY) {
                ending(ApprovalOutcome::Denied, caller, answer)
            } else {
                cancelled(caller, message.clone())
            };
            ended(approval, ending, AnswerDelivery::Waiting)
        })
        .collect();
    let agents = state
        .agents
        .values()
        .filter(|agent| !agent.base.is_terminal());
    events.extend(agents.map(|agent| {
        Event::from(AgentInterruptRequested {
            agent: agent.id().clone(),
            name: agent.profile.name.clone(),
            by: RecordedActor::from(caller),
        })
    }));
    events.extend(managed::stop_turns(state, caller));
    events.extend(grants::end_bypasses(state, caller));
    Ok(Decision::new(events, DecisionSubject::Nothing))
}
