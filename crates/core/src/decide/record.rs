//! Tokens, marks of processes, and what is erased from the record.

use super::{Decision, DecisionSubject, check_agent_id, check_text, check_word};
use crate::event::{
    LoginDevice, ProcessKey, ProcessMarked, ProcessesForgotten, RecordPruned, RecordRedacted,
    TokenCreated, TokenRenewed, TokenRevoked,
};
use crate::ids::{AgentId, Seq, TokenId};
use crate::input::{CreateToken, DecisionContext};
use crate::limits::{PROCESS_MARKS_MAX, TOKEN_TTL_MS_MAX, TOKENS_MAX};
use crate::principal::{Caller, RecordedActor, Role};
use crate::rejection::Rejection;
use crate::state::State;

/// Makes a token; tokens whose time is over leave at the same moment.
pub(super) fn create_token(
    state: &State,
    context: DecisionContext<'_>,
    input: CreateToken,
) -> Result<Decision, Rejection> {
    input.caller.require_operator()?;
    check_word("the name", &input.name)?;
    check_lifetime(input.ttl_ms)?;
    let device = read_device(input.device, input.ttl_ms)?;
    if let Role::Agent(agent) = &input.role {
        check_agent_id(Some(agent))?;
    }
    let by = RecordedActor::from(&input.caller);
    let mut over: Vec<_> = state
        .tokens
        .values()
        .filter(|token| token.expires_at.is_some_and(|end| end <= context.now))
        .collect();
    // The map has no order, and the same input must always give the same events.
    over.sort_by(|one, other| one.id.cmp(&other.id));
    let mut events: Vec<_> = over
        .into_iter()
        .map(|token| {
            TokenRevoked {
                token: token.id.clone(),
                by: RecordedActor::from(&Caller::host()),
            }
            .into()
        })
        .collect();
    if state.tokens.len() - events.len() >= TOKENS_MAX {
        return Err(Rejection::TooMany {
            what: "tokens",
            limit: TOKENS_MAX,
        });
    }
    let created = TokenCreated {
        token: input.id.clone(),
        role: input.role,
        name: input.name,
        expires_at: input.ttl_ms.map(|ms| context.now.plus_ms(ms)),
        hash: input.hash,
        device,
        by,
    };
    events.push(created.into());
    Ok(Decision::new(events, DecisionSubject::Token(input.id)))
}

fn read_device(
    name: Option<String>,
    ttl_ms: Option<u64>,
) -> Result<Option<LoginDevice>, Rejection> {
    let (Some(name), Some(session_ms)) = (name, ttl_ms) else {
        return Ok(None);
    };
    check_word("the name of the device", &name)?;
    Ok(Some(LoginDevice { name, session_ms }))
}

/// Lets a device stay logged in. Its use is recorded at most once a day, because every use would
/// otherwise be a write.
pub(super) fn renew_token(state: &State, context: DecisionContext<'_>, token: TokenId) -> Decision {
    let Some(found) = state.find_token(&token) else {
        return Decision::nothing();
    };
    let due = found.renewal_due(context.now);
    let Some(device) = found.device.as_ref().filter(|_| due) else {
        return Decision::nothing();
    };
    let expires_at = context.now.plus_ms(device.session_ms);
    Decision::new(
        vec![TokenRenewed { token, expires_at }.into()],
        DecisionSubject::Nothing,
    )
}

/// Without a lifetime a token never expires; its maker has asked for that explicitly.
fn check_lifetime(ttl_ms: Option<u64>) -> Result<(), Rejection> {
    match ttl_ms {
        None | Some(1..=TOKEN_TTL_MS_MAX) => Ok(()),
        Some(_) => Err(Rejection::TokenLifetime {
            limit_ms: TOKEN_TTL_MS_MAX,
        }),
    }
}

pub(super) fn revoke_token(
    state: &State,
    caller: &Caller,
    token: TokenId,
) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    if state.find_token(&token).is_none() {
        return Err(Rejection::UnknownToken(token));
    }
    Ok(Decision::new(
        vec![
            TokenRevoked {
                token,
                by: RecordedActor::from(caller),
            }
            .into(),
        ],
        DecisionSubject::Nothing,
    ))
}

/// The first mark of a process stays: what it was once seen to be, it is.
pub(super) fn mark_process(
    state: &State,
    agent: AgentId,
    process: ProcessKey,
) -> Result<Decision, Rejection> {
    if state.marks.contains_key(&process) {
        return Ok(Decision::nothing());
    }
    if state.marks.len() >= PROCESS_MARKS_MAX {
        return Err(Rejection::TooMany {
            what: "agent processes",
            limit: PROCESS_MARKS_MAX,
        });
    }
    Ok(Decision::new(
        vec![ProcessMarked { agent, process }.into()],
        DecisionSubject::Nothing,
    ))
}

pub(super) fn forget_processes(state: &State, mut processes: Vec<ProcessKey>) -> Decision {
    processes.retain(|process| state.marks.contains_key(process));
    if processes.is_empty() {
        return Decision::nothing();
    }
    Decision::new(
        vec![ProcessesForgotten { processes }.into()],
        DecisionSubject::Nothing,
    )
}

pub(super) fn redact(
    state: &State,
    caller: &Caller,
    seq: Seq,
    reason: String,
) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    check_text("the reason", &reason)?;
    if seq == Seq(0) || seq > state.head() {
        return Err(Rejection::UnknownEvent(seq));
    }
    // An open ask whose text is gone could no longer be shown, judged or answered.
    if needed(state).any(|opened| opened == seq) {
        return Err(Rejection::StillNeeded(seq));
    }
    Ok(Decision::new(
        vec![
            RecordRedacted {
                seq,
                reason,
                by: RecordedActor::from(caller),
            }
            .into(),
        ],
        DecisionSubject::Event,
    ))
}

/// Keeps what something open refers to, however old it is.
pub(super) fn prune(state: &State, caller: &Caller, before: Seq) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    // The next number is that of this decision's own event, which may be the oldest one kept.
    if before > state.head().next() {
        return Err(Rejection::UnknownEvent(before));
    }
    let before = needed(state)
        .min()
        .map_or(before, |oldest| oldest.min(before));
    Ok(Decision::new(
        vec![
            RecordPruned {
                before,
                by: RecordedActor::from(caller),
            }
            .into(),
        ],
        DecisionSubject::Event,
    ))
}

/// What is open, and what an agent is being told: both events of its ask and answer.
fn needed(state: &State) -> impl Iterator<Item = Seq> {
    let asks = state.approvals.values().map(|approval| approval.opened);
    let owed = state.owed.values().flat_map(|owed| owed.values());
    let owed = owed.flat_map(|approval| {
        let ended = approval.ended.as_ref().map(|ended| ended.seq);
        std::iter::once(approval.opened).chain(ended)
    });
    asks.chain(owed)
        .chain(state.questions.values().map(|question| question.opened))
}
