//! Asks: checked, compared with earlier ones under the same key, and opened.
//!
//! Invariants: an option allows only if the ask names it as approving; one key opens one ask; what an
//! earlier ask of a managed agent covers is not asked again.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::approvals::{
    NumberedAsk, attempt_answer, cancelled_ending, deliver_ended, end_approval,
};
use super::{
    Decision, DecisionSubject, check_agent_id, check_json, check_size, check_text, check_word,
    run_events, settlement,
};
use crate::approval::{APPROVE, Approval, CANCELLED, DENY, EXPIRED, GONE, REPLACED};
use crate::event::{
    AgentSandbox, AnswerDelivery, ApprovalAttached, ApprovalRequested, Ask, AskAttachment, Effect,
    Event, PassUsed,
};
use crate::ids::{AgentId, ApprovalId, PrincipalKey, Seq, Timestamp};
use crate::input::{AskRequest, DecisionContext};
use crate::json::{Json, hex};
use crate::limits::{
    AGENT_OPEN_ASKS_MAX, AGENT_OPEN_BYTES_MAX, OPEN_ASKS_MAX, OPEN_BYTES_MAX, OPTIONS_MAX,
    PATH_BYTES_MAX, TIMEOUT_MS_MAX,
};
use crate::managed::RunState;
use crate::principal::{Caller, RecordedActor, Role};
use crate::rejection::Rejection;
use crate::state::{State, ask_key};

/// A client that sees one of these must never read it as an allow.
const NEVER_APPROVING: [&str; 4] = [DENY, CANCELLED, EXPIRED, GONE];

pub(super) fn request(
    state: &State,
    context: DecisionContext<'_>,
    mut request: AskRequest,
) -> Result<Decision, Rejection> {
    request.caller.refuse_observers()?;
    check_request(&request)?;
    if let Some(covered) = read_managed_ask(state, &mut request)? {
        return Ok(covered);
    }
    let keyed = request.keyed.clone();
    let caller = request.caller.clone();
    let judged = request.judged.clone();
    let mut ask = draft_ask(context.now, request)?;
    ask.repeats = find_repeated(state, &ask);
    ask.sandbox = find_sandbox(state, &ask);
    if let Some(key) = &ask.idempotency_key
        && let Some(earlier) = find_asked(state, &ask.by.key, key, keyed.as_ref())?
    {
        return ask_again(context, earlier, &ask, &caller);
    }
    let mut events = Vec::with_capacity(4);
    let earlier = ask_key(&ask)
        .and_then(|key| state.ask_keys.get(&key))
        .and_then(|id| state.approvals.get(id));
    events.extend(earlier.map(|earlier| end_replaced(earlier, &ask, &caller)));
    // The ask is opened by the event after these, so all of them must be there before its sequence
    // number is counted.
    run_events::attempt_answers(state, &mut events);
    let opened = Seq(state.head().0 + events.len() as u64 + 1);
    let open = NumberedAsk { ask: &ask, opened };
    let settled = settlement::settle(state, context, open, judged.as_ref());
    // An ask that ends at once takes no room, and one that replaces another takes that one's.
    if settled.is_none() && earlier.is_none() {
        check_room(state, &ask)?;
    }
    let id = ask.id.clone();
    events.push(ApprovalRequested { ask: Arc::new(ask) }.into());
    if let Some(settled) = settled {
        events.extend(settled);
        // The reply to the ask carries the answer, so that is its first delivery.
        events.push(attempt_answer(&id, opened, 1));
    }
    Ok(Decision::new(events, DecisionSubject::Approval(id)))
}

/// Reads the part that only asks of managed agents have. Gives a decision if an earlier ask allowed
/// exactly this.
fn read_managed_ask(
    state: &State,
    request: &mut AskRequest,
) -> Result<Option<Decision>, Rejection> {
    let id = request.asking_agent().cloned();
    let Some(own) = &request.managed else {
        return Ok(None);
    };
    let id = id.unwrap_or_else(|| AgentId::new(""));
    let Some((_, managed)) = state
        .find_managed(&id)
        // The process that asked in an earlier run is gone, and with it whoever could read the
        // answer.
        .filter(|(_, managed)| managed.run == own.run && managed.run_state == RunState::Ready)
    else {
        return Err(Rejection::AgentEnded(id));
    };
    // An interrupted turn starts nothing more, and would not end while it waited for a person.
    if managed.turn.as_ref().is_some_and(|turn| turn.interrupted) {
        return Err(Rejection::NoTurn(id));
    }
    // The host's own count: an ask replaces an earlier one for the same tool call only within a
    // turn.
    request.turn = Some(managed.turns.to_string());
    // The rules may have changed since it was allowed, and a deny holds.
    let is_denied = request
        .judged
        .as_ref()
        .is_some_and(|judged| judged.verdict.effect == Effect::Deny);
    // A pass covers exactly the request whose digest it holds; anything else is asked.
    let pass = managed
        .passes
        .iter()
        .find(|pass| !is_denied && own.covered_by.contains(&pass.digest));
    let Some(pass) = pass else {
        return Ok(None);
    };
    let used = PassUsed {
        agent: id,
        approval: pass.approval.clone(),
        digest: pass.digest.clone(),
        covers: request.id.clone(),
    };
    let subject = DecisionSubject::Covered(pass.approval.clone());
    Ok(Some(Decision::new(vec![used.into()], subject)))
}

/// An earlier ask for the same thing that may already have run.
fn find_repeated(state: &State, ask: &Ask) -> Option<ApprovalId> {
    // Only of managed agents is it known that an answer may have been lost on its way.
    ask.request.as_ref()?;
    let twin = state.find_unknown_twin(ask.agent.as_ref()?, ask.input_digest.as_deref()?)?;
    Some(twin.ask.id.clone())
}

fn check_request(request: &AskRequest) -> Result<(), Rejection> {
    check_text("the action", &request.action)?;
    check_size("the list of options", request.options.len(), OPTIONS_MAX)?;
    let approving = request.approving.as_ref().map_or(0, Vec::len);
    check_size("the list of approving options", approving, OPTIONS_MAX)?;
    for option in &request.options {
        check_word("an option", option)?;
    }
    let fields = [
        ("the tool", request.tool.as_deref()),
        ("the turn", request.turn.as_deref()),
        ("the tool call's id", request.tool_call.as_deref()),
        ("the idempotency key", request.idempotency_key.as_deref()),
    ];
    for (name, text) in fields {
        check_word(name, text.unwrap_or_default())?;
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

fn find_sandbox(state: &State, ask: &Ask) -> Option<AgentSandbox> {
    let (_, managed) = state.find_managed(ask.agent.as_ref()?)?;
    managed.sandbox.clone()
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

fn draft_ask(now: Timestamp, request: AskRequest) -> Result<Ask, Rejection> {
    let by = RecordedActor::from(&request.caller);
    let (agent, attachment) = match &request.caller.principal.role {
        Role::Agent(agent) if request.caller.client.is_some() => {
            (Some(agent.clone()), AskAttachment::Asker)
        }
        Role::Agent(agent) => (Some(agent.clone()), AskAttachment::None),
        // A connection of an operator that asks hosts the agent itself, so it decides about the
        // answer.
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
    let approving = check_approving(approving, &options)?;
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
        sandbox: None,
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
    // The digest is of what was asked, so what the host found out is added after it.
    if let Some(judged) = request.judged {
        ask.cwd = judged.cwd;
        ask.verdict = Some(judged.verdict);
    }
    Ok(ask)
}

/// The approving options that are offered. `approve` may be missing from the offer; any other that
/// is missing is refused, as are the words for a denial and for an end without an answer.
fn check_approving(approving: Vec<String>, options: &[String]) -> Result<Vec<String>, Rejection> {
    let mut offered: Vec<String> = Vec::with_capacity(approving.len());
    for option in approving {
        if offered.contains(&option) {
            continue;
        }
        if options.contains(&option) && !NEVER_APPROVING.contains(&option.as_str()) {
            offered.push(option);
        } else if option != APPROVE {
            return Err(Rejection::ApprovingNotOffered(option));
        }
    }
    Ok(offered)
}

/// The digest with which a second use of a key is compared: everything asked, to the byte, but not
/// when or through which connection.
fn request_digest(ask: &Ask) -> String {
    let parts = [
        ask.agent.as_ref().map_or("", AgentId::as_str),
        ask.turn.as_deref().unwrap_or_default(),
        ask.tool_call.as_deref().unwrap_or_default(),
        &ask.action,
        ask.tool.as_deref().unwrap_or_default(),
        ask.input.as_ref().map_or("", Json::text),
        ask.a2ui.as_ref().map_or("", Json::text),
        ask.details.text(),
        ask.cwd.as_deref().unwrap_or_default(),
    ];
    let mut hasher = Sha256::new();
    for part in parts {
        add_part(&mut hasher, part);
    }
    for list in [&ask.options, &ask.approving] {
        // With its number of items in front, no item can be read as one of the next list.
        hasher.update((list.len() as u64).to_be_bytes());
        for item in list {
            add_part(&mut hasher, item);
        }
    }
    hex(&hasher.finalize())
}

fn add_part(hasher: &mut Sha256, part: &str) {
    // With its length in front, no part can be read as the end of another.
    hasher.update((part.len() as u64).to_be_bytes());
    hasher.update(part.as_bytes());
}

/// The approval that was opened under a key. History lags behind memory: what is open there and
/// missing in memory has ended since it was read, so the caller has to read history again.
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

/// A second use of a key is the same ask. If its connection is gone, the ask moves to the new one;
/// if it ended, its answer is delivered once more.
fn ask_again(
    context: DecisionContext<'_>,
    earlier: &Approval,
    ask: &Ask,
    caller: &Caller,
) -> Result<Decision, Rejection> {
    // Otherwise the asker would take the answer to another ask for the answer to this one.
    if earlier.ask.request_digest != ask.request_digest {
        return Err(Rejection::IdempotencyConflict(
            ask.idempotency_key.clone().unwrap_or_default(),
        ));
    }
    if !earlier.is_pending() {
        return Ok(deliver_ended(earlier.clone()));
    }
    let id = earlier.ask.id.clone();
    let owner_is_there = earlier
        .client
        .as_ref()
        .is_some_and(|client| context.presence.is_connected(client));
    // While the first connection is open the ask stays with it: a second client that uses the same
    // key must not take it over.
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

/// Bounds the bytes of open asks: a few huge ones would hide all others as surely as many small ones.
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

/// Ends an ask that a later one replaces. An agent that waits for it under another request id gets
/// that answer; under the same id it waits for the answer to the later one.
fn end_replaced(earlier: &Approval, later: &Ask, caller: &Caller) -> Event {
    let delivery = if earlier.ask.request == later.request {
        AnswerDelivery::Withdrawn
    } else {
        AnswerDelivery::Waiting
    };
    let ending = cancelled_ending(caller, Some(REPLACED.to_owned()));
    end_approval(earlier, ending, delivery)
}
