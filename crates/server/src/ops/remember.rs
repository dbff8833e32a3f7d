//! Answers that are remembered: which rules they become, and with which limits.
//!
//! Invariant: the rules of an answer are decided together with it, in one commit.

use std::collections::BTreeSet;

use countersign_core::event::{Effect, GrantScope};
use countersign_core::{Approval, ApprovalId, Caller, GrantDraft, Rejection, Role};
use countersign_daemon::{Service, SuggestedRule};
use countersign_protocol::{Reason, Remember, RememberBody, RememberScope};

use super::Result;
use crate::api_error::ApiError;

/// How long a remembered rule applies by default.
const REMEMBER_MS_DEFAULT: u64 = 30 * 24 * 60 * 60 * 1000;

/// The grants that an answer is to become. None for callers that may not answer.
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
    // Not an error here: `decide` refuses the answer itself.
    if !caller.principal.is_operator() {
        return Ok(Vec::new());
    }
    let approval = service.load_approval(caller, id.clone()).await?;
    if !approval.is_pending() {
        return drafts_of_repetition(service, caller, approval, body).await;
    }
    let (scope, default_ms) = scope_and_expiry(service, caller, &approval, body.scope).await?;
    let rules = match body.rules {
        Some(rules) if !rules.is_empty() => rules,
        // Suggestions cover the input that was asked, but the person allowed another one.
        _ if !as_asked => return bad("the input was edited: name the rule to remember"),
        _ => narrowest(service.suggestions(caller, id.clone()).await?)?,
    };
    let drafts = rules.into_iter().map(|rule| GrantDraft {
        rule,
        effect: Effect::Allow,
        scope: scope.clone(),
        expires_in_ms: body.expires_in_ms.or(default_ms),
        uses: body.uses,
        origin: Some(id.clone()),
    });
    Ok(drafts.collect())
}

/// The rules that a repeated answer would make. A request that is sent again because its reply was
/// lost names the rules that it has already saved, and succeeds; any other is refused.
async fn drafts_of_repetition(
    service: &Service,
    caller: &Caller,
    approval: Approval,
    mut body: RememberBody,
) -> Result<Vec<GrantDraft>> {
    if body.rules.as_ref().is_none_or(Vec::is_empty) {
        let saved = service.grants_of_answer(caller, &approval.ask.id).await?;
        if saved.is_empty() {
            return Err(Rejection::NotRemembered(Box::new(approval)).into());
        }
        let rules = saved.iter().map(|saved| saved.grant.rule.clone());
        body.rules = Some(rules.collect());
    }
    Ok(named(body))
}

/// The drafts of an orchestrator's answer, or of a repeated one.
fn named(body: RememberBody) -> Vec<GrantDraft> {
    // Without scope and origin: which of the rules its ceiling covers, and for whom, is decided
    // with the answer.
    let rules = body.rules.unwrap_or_default().into_iter();
    let drafts = rules.map(|rule| GrantDraft {
        rule,
        effect: Effect::Allow,
        scope: GrantScope::default(),
        expires_in_ms: body.expires_in_ms,
        uses: body.uses,
        origin: None,
    });
    drafts.collect()
}

/// The first candidate of each part.
fn narrowest(candidates: Vec<SuggestedRule>) -> Result<Vec<String>> {
    // Candidates come narrowest first within each part. A rule per part is needed, because every
    // part of a command must be allowed.
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
async fn scope_and_expiry(
    service: &Service,
    caller: &Caller,
    approval: &Approval,
    wanted: Option<RememberScope>,
) -> Result<(GrantScope, Option<u64>)> {
    // An empty scope is no limit at all. What ends by itself, with its session, needs no expiry,
    // and `always` was said explicitly; the rest expires, because people forget what they allowed.
    let everywhere = GrantScope::default();
    match wanted {
        Some(RememberScope::Always) => Ok((everywhere, None)),
        Some(RememberScope::Session) => Ok((session(approval)?, None)),
        Some(RememberScope::Agent) => {
            let name = agent_name(service, caller, approval).await?;
            let agent = Some(name);
            Ok((
                GrantScope {
                    agent,
                    ..everywhere
                },
                Some(REMEMBER_MS_DEFAULT),
            ))
        }
        Some(RememberScope::Project) => {
            let project = service.project_of_ask(approval).await;
            if project.is_none() {
                return bad("where this ask would run belongs to no project");
            }
            Ok((
                GrantScope {
                    project,
                    ..everywhere
                },
                Some(REMEMBER_MS_DEFAULT),
            ))
        }
        None => match service.project_of_ask(approval).await {
            None => Ok((session(approval)?, Some(REMEMBER_MS_DEFAULT))),
            project => Ok((
                GrantScope {
                    project,
                    ..everywhere
                },
                Some(REMEMBER_MS_DEFAULT),
            )),
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
    // An agent chooses its own display name, so it could take one that a rule is for. Only a name
    // that an operator gave with a token is used.
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

fn bad<T>(message: &str) -> Result<T> {
    Err(ApiError::plain(Reason::BadRule, message))
}
