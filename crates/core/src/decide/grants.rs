//! Grants, bypasses and trusted files: who may make them, and when they end by themselves.
//!
//! Invariants: only a person makes one; each ends in the decision that ends what it hangs on.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::spawn::check_labels;
use super::{Decision, DecisionSubject, check_size, check_word, settlement};
use crate::event::{
    AgentBypassChanged, Effect, Event, Grant, GrantCreated, GrantEnd, GrantRemoved, RulesTrusted,
};
use crate::ids::{AgentId, GrantId, Timestamp};
use crate::input::{CreateGrant, DecisionContext, GrantDraft};
use crate::limits::{
    BYPASS_MS_MAX, GRANTS_MAX, PATH_BYTES_MAX, RULE_BYTES_MAX, TIMEOUT_MS_MAX, TRUSTED_FILES_MAX,
};
use crate::principal::{Caller, RecordedActor};
use crate::rejection::Rejection;
use crate::state::State;

pub(super) fn create(
    state: &State,
    context: DecisionContext<'_>,
    input: CreateGrant,
) -> Result<Decision, Rejection> {
    input.caller.require_operator()?;
    let grant = draft_grant(state, context, &input.caller, input.id, input.draft)?;
    // Before room is checked: making the same grant again succeeds even when there is no more room.
    if let Some(earlier) = state.find_equal_grant(&grant) {
        let id = earlier.grant.id.clone();
        return Ok(Decision::new(Vec::new(), DecisionSubject::Grant(id)));
    }
    check_room(state, 1)?;
    let id = grant.id.clone();
    Ok(Decision::new(
        vec![grant_created(grant)],
        DecisionSubject::Grant(id),
    ))
}

/// What an answer is remembered as. What is remembered already is not made twice.
pub(super) fn remember(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    drafts: Vec<(GrantId, GrantDraft)>,
) -> Result<Vec<Event>, Rejection> {
    let mut grants: Vec<Grant> = Vec::with_capacity(drafts.len());
    for (id, wanted) in drafts {
        let grant = draft_grant(state, context, caller, id, wanted)?;
        let again = grants.iter().any(|other| says_the_same(other, &grant));
        if !again && state.find_equal_grant(&grant).is_none() {
            grants.push(grant);
        }
    }
    // Counted after duplicates were left out, so that repeating an answer never fails for lack of room.
    check_room(state, grants.len())?;
    Ok(grants.into_iter().map(grant_created).collect())
}

fn says_the_same(one: &Grant, other: &Grant) -> bool {
    (&one.rule, one.effect, &one.scope) == (&other.rule, other.effect, &other.scope)
        && (one.expires_at, one.uses) == (other.expires_at, other.uses)
}

fn grant_created(grant: Grant) -> Event {
    GrantCreated {
        grant: Arc::new(grant),
    }
    .into()
}

fn check_room(state: &State, more: usize) -> Result<(), Rejection> {
    if state.grants.len() + more > GRANTS_MAX {
        return Err(Rejection::TooMany {
            what: "grants",
            limit: GRANTS_MAX,
        });
    }
    Ok(())
}

fn draft_grant(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    id: GrantId,
    draft: GrantDraft,
) -> Result<Grant, Rejection> {
    check_draft(state, &draft)?;
    Ok(Grant {
        id,
        rule: draft.rule,
        effect: draft.effect,
        scope: draft.scope,
        by: RecordedActor::from(caller),
        origin: draft.origin,
        expires_at: draft
            .expires_in_ms
            .map(|ms| context.now.plus_ms(ms.min(TIMEOUT_MS_MAX))),
        uses: draft.uses,
        ceiling: caller.principal.agent().cloned(),
    })
}

fn check_draft(state: &State, draft: &GrantDraft) -> Result<(), Rejection> {
    check_size("the rule", draft.rule.len(), RULE_BYTES_MAX)?;
    let scope = &draft.scope;
    check_word(
        "the agent's name",
        scope.agent.as_deref().unwrap_or_default(),
    )?;
    let project = scope.project.as_deref().unwrap_or_default();
    check_size("the project", project.len(), PATH_BYTES_MAX)?;
    check_labels(&scope.labels)?;
    let refusal = if draft.rule.trim().is_empty() {
        Some("there is no rule")
    } else if draft.expires_in_ms == Some(0) || draft.uses == Some(0) {
        Some("it would end before it was used")
    } else if draft.uses.is_some() && draft.effect != Effect::Allow {
        Some("only an allow is counted, so only that can have a number of uses")
    } else {
        None
    };
    if let Some(reason) = refusal {
        return Err(Rejection::BadGrant(reason.to_owned()));
    }
    scope
        .session
        .as_ref()
        .map_or(Ok(()), |agent| check_lives(state, agent))
}

/// What hangs on an agent needs an agent whose end will be known.
fn check_lives(state: &State, id: &AgentId) -> Result<(), Rejection> {
    match state.find_agent(id) {
        None => Err(Rejection::UnknownAgent(id.clone())),
        Some(agent) if agent.base.is_terminal() => Err(Rejection::AgentEnded(id.clone())),
        Some(_) => Ok(()),
    }
}

pub(super) fn remove(state: &State, caller: &Caller, id: GrantId) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    let Some(grant) = state.find_grant(&id).cloned() else {
        return Err(Rejection::UnknownGrant(id));
    };
    let event = GrantRemoved {
        grant: id,
        reason: GrantEnd::Revoked,
        by: Some(RecordedActor::from(caller)),
    };
    let subject = DecisionSubject::RemovedGrant(Box::new(grant));
    Ok(Decision::new(vec![event.into()], subject))
}

/// The fact that a grant ended by itself.
pub(super) fn grant_removed(grant: GrantId, reason: GrantEnd) -> Event {
    GrantRemoved {
        grant,
        reason,
        by: None,
    }
    .into()
}

/// Switches a bypass. What the agent has open and no rule can speak of is let through at once.
pub(super) fn set_bypass(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    agent: AgentId,
    for_ms: Option<u64>,
) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    check_lives(state, &agent)?;
    // Its orchestrator steers it, and would get around its own asks through it.
    if for_ms.is_some() && state.parent_of(&agent).is_some() {
        return Err(Rejection::NoBypassForChildren(agent));
    }
    if for_ms.is_some_and(|ms| ms == 0 || ms > BYPASS_MS_MAX) {
        return Err(Rejection::BypassTooLong {
            limit_ms: BYPASS_MS_MAX,
        });
    }
    let until = for_ms.map(|ms| context.now.plus_ms(ms));
    let earlier = state
        .find_agent(&agent)
        .and_then(|found| found.bypass_until);
    let mut events = Vec::new();
    if earlier != until {
        events.push(bypass_changed(
            agent.clone(),
            until,
            RecordedActor::from(caller),
        ));
    }
    if let Some(until) = until {
        events.extend(settlement::settle_open_by_bypass(
            state, context, &agent, until,
        ));
    }
    Ok(Decision::new(events, DecisionSubject::Agent(agent)))
}

/// The fact that a bypass changed.
pub(super) fn bypass_changed(agent: AgentId, until: Option<Timestamp>, by: RecordedActor) -> Event {
    AgentBypassChanged { agent, until, by }.into()
}

/// Every bypass ends.
pub(super) fn end_bypasses(state: &State, caller: &Caller) -> impl Iterator<Item = Event> {
    let bypassed = state
        .agents
        .values()
        .filter(|agent| agent.bypass_until.is_some());
    bypassed.map(move |agent| bypass_changed(agent.id().clone(), None, RecordedActor::from(caller)))
}

pub(super) fn trust(
    state: &State,
    caller: &Caller,
    file: String,
    digest: String,
) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    check_size("the file's path", file.len(), PATH_BYTES_MAX)?;
    check_word("the digest", &digest)?;
    if !file.starts_with('/') {
        return Err(Rejection::NotAbsolute("the file's path"));
    }
    let known = state.trusted.get(&file);
    if known.is_none() && state.trusted.len() >= TRUSTED_FILES_MAX {
        return Err(Rejection::TooMany {
            what: "trusted files",
            limit: TRUSTED_FILES_MAX,
        });
    }
    if known == Some(&digest) {
        return Ok(Decision::nothing());
    }
    let by = RecordedActor::from(caller);
    let event = RulesTrusted { file, digest, by };
    Ok(Decision::new(vec![event.into()], DecisionSubject::Nothing))
}

/// Adds the end of whatever hangs on an agent that the events end.
pub(super) fn end_sessions(state: &State, events: &mut Vec<Event>) {
    let mut over = EndedScopes::default();
    for event in events.iter() {
        over.note(event);
    }
    let grants = over
        .ended
        .iter()
        .flat_map(|agent| state.session_grants(agent))
        // A grant ends once, and `end_ceilings` may have ended it already.
        .filter(|id| !over.removed.contains(id))
        .map(|id| grant_removed(id.clone(), GrantEnd::SessionEnded));
    let bypasses = over
        .ended
        .difference(&over.settled)
        .filter_map(|id| state.find_agent(id))
        .filter(|agent| agent.bypass_until.is_some())
        .map(|agent| {
            bypass_changed(
                agent.id().clone(),
                None,
                RecordedActor::from(&Caller::host()),
            )
        });
    let ends: Vec<Event> = grants.chain(bypasses).collect();
    events.extend(ends);
}

/// What some events end.
#[derive(Default)]
struct EndedScopes<'a> {
    /// Agents that end.
    ended: BTreeSet<&'a AgentId>,
    /// Agents about whose bypass nothing is left to say.
    settled: BTreeSet<&'a AgentId>,
    /// Grants that are removed.
    removed: BTreeSet<&'a GrantId>,
}

impl<'a> EndedScopes<'a> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only these four end an agent, a bypass or a grant"
    )]
    fn note(&mut self, event: &'a Event) {
        match event {
            Event::AgentStatusChanged(e) if e.base.is_terminal() => {
                self.ended.insert(&e.agent.id);
            }
            Event::AgentUnregistered(e) => {
                self.ended.insert(&e.agent);
                // Its bypass leaves the list with it.
                self.settled.insert(&e.agent);
            }
            Event::AgentBypassChanged(e) => {
                self.settled.insert(&e.agent);
            }
            Event::GrantRemoved(e) => {
                self.removed.insert(&e.grant);
            }
            _ => {}
        }
    }
}
