//! Answers that are remembered: what they become, and on which leash.
//!
//! Invariant: only an operator's answer is looked at; whether it counts is decided with it, in one
//! commit.

use std::collections::BTreeSet;

use countersign_core::event::{Effect, GrantScope};
use countersign_core::{Approval, ApprovalId, Caller, GrantDraft, Role};
use countersign_daemon::{Service, SuggestedRule};
use countersign_protocol as wire;
use countersign_protocol::{Reason, Remember, RememberBody, RememberScope};

use super::Result;
use crate::api_error::ApiError;
use crate::convert::rules as words;

/// How long a remembered rule applies by default.
const USUAL_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// What an answer is to become. Nothing for those who may not answer: they are refused, on the
/// record, when they do; and nothing for a repetition.
pub(super) async fn drafts(
    service: &Service,
    caller: &Caller,
    id: &ApprovalId,
    remember: Option<Remember>,
    as_asked: bool,
) -> Result<Vec<GrantDraft>> {
    let body = match remember {
        None | Some(Remember::Usual(false)) => return Ok(Vec::new()),
        Some(Remember::Usual(true)) => RememberBody::default(),
        Some(Remember::Named(body)) => body,
    };
    if caller.principal.agent().is_some() {
        return Ok(named(body));
    }
    if !caller.principal.is_operator() {
        return Ok(Vec::new());
    }
    let approval = service.load_approval(caller, id.clone()).await?;
    if !approval.is_pending() {
        return Ok(Vec::new());
    }
    let (scope, usual_ms) = leash(service, caller, &approval, body.scope).await?;
    let rules = match body.rules {
        Some(rules) if !rules.is_empty() => rules,
        // Suggestions speak of what was asked, and that is not what was allowed.
        _ if !as_asked => return bad("the input was edited: name the rule to remember"),
        _ => narrowest(service.suggestions(caller, id.clone()).await?)?,
    };
    let draft = |rule| GrantDraft {
        rule,
        effect: Effect::Allow,
        scope: scope.clone(),
        expires_in_ms: body.expires_in_ms.or(usual_ms),
        uses: body.uses,
        origin: Some(id.clone()),
    };
    Ok(rules.into_iter().map(draft).collect())
}

/// An orchestrator names rules of its ceiling; which of them count, and for whom, is decided with
/// the answer.
fn named(body: RememberBody) -> Vec<GrantDraft> {
    let rules = body.rules.unwrap_or_default().into_iter();
    let draft = |rule| GrantDraft {
        rule,
        effect: Effect::Allow,
        scope: GrantScope::default(),
        expires_in_ms: body.expires_in_ms,
        uses: body.uses,
        origin: None,
    };
    rules.map(draft).collect()
}

/// The first candidate of each part.
fn narrowest(candidates: Vec<SuggestedRule>) -> Result<Vec<String>> {
    let mut parts = BTreeSet::new();
    let mut rules: Vec<String> = Vec::new();
    for candidate in candidates {
        if parts.insert(candidate.part) && !rules.contains(&candidate.rule) {
            rules.push(candidate.rule);
        }
    }
    if rules.is_empty() {
        return bad("there is no narrow rule to suggest for this ask: name one");
    }
    Ok(rules)
}

/// Where a remembered rule applies, and for how long by default.
async fn leash(
    service: &Service,
    caller: &Caller,
    approval: &Approval,
    wanted: Option<RememberScope>,
) -> Result<(GrantScope, Option<u64>)> {
    let nowhere = GrantScope::default();
    match wanted {
        Some(RememberScope::Always) => Ok((nowhere, None)),
        Some(RememberScope::Session) => Ok((session(approval)?, None)),
        Some(RememberScope::Agent) => {
            let name = agent_name(service, caller, approval).await?;
            let agent = Some(name);
            Ok((GrantScope { agent, ..nowhere }, Some(USUAL_MS)))
        }
        Some(RememberScope::Project) => {
            let project = service.project_of_ask(approval).await;
            if project.is_none() {
                return bad("where this ask would run belongs to no project");
            }
            Ok((GrantScope { project, ..nowhere }, Some(USUAL_MS)))
        }
        None => match service.project_of_ask(approval).await {
            None => Ok((session(approval)?, Some(USUAL_MS))),
            project => Ok((GrantScope { project, ..nowhere }, Some(USUAL_MS))),
        },
    }
}

fn session(approval: &Approval) -> Result<GrantScope> {
    let session = approval.ask.agent.clone();
    if session.is_none() {
        return bad("no agent asked this, so there is no session: say where it counts");
    }
    Ok(GrantScope {
        session,
        ..GrantScope::default()
    })
}

async fn agent_name(service: &Service, caller: &Caller, approval: &Approval) -> Result<String> {
    let Some(agent) = approval.ask.agent.clone() else {
        return bad("no agent asked this: say where it counts");
    };
    // What an agent calls itself does not count: a name is one that a token was made with.
    let role = Role::Agent(agent);
    let now = service.now();
    let tokens = service.tokens(caller).await?;
    let given = tokens
        .iter()
        .find(|token| token.role == role && token.expires_at.is_none_or(|end| now < end));
    match given {
        Some(token) => Ok(token.name.clone()),
        None => bad("no operator gave this agent a name: remember it for its session or project"),
    }
}

fn bad<T>(words: &str) -> Result<T> {
    Err(ApiError::plain(Reason::BadRule, words))
}

/// The grants that an answer became.
pub(super) async fn made(
    service: &Service,
    caller: &Caller,
    id: &ApprovalId,
) -> Result<Vec<wire::GrantRow>> {
    let grants = service.grants_of_answer(caller, id).await?;
    Ok(grants.iter().map(words::grant).collect())
}
