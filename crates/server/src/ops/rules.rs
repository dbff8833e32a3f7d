//! Operations on rules: list, add, remove, check.
//!
//! Invariant: an agent may call none of them, an observer only those that change nothing.

use countersign_core::event::{Effect, Grant, GrantScope};
use countersign_core::{Agent, Caller, GrantDraft, GrantState, OpenCounts};
use countersign_daemon::{
    BacktestReport, CheckRequest, GrantAdded, RuleCheck, RuleProposal, RulesOverview, Service,
    SuggestedRule, UntrustedRuleFile,
};
use countersign_protocol as wire;
use countersign_protocol::{HostEffect, Reason};

use super::agents::{find_filter, find_id};
use super::{Result, approvals, one_of, prefixed};
use crate::api_error::ApiError;
use crate::convert;

/// Every rule that applies in a directory, or everywhere.
pub(crate) async fn list(
    service: &Service,
    caller: &Caller,
    params: wire::RulesParams,
) -> Result<RulesOverview> {
    caller.refuse_agents()?;
    Ok(service.rules(caller, absolute(params.cwd)?).await?)
}

/// Adds a rule with limits.
pub(crate) async fn add(
    service: &Service,
    caller: Caller,
    params: wire::AddRuleParams,
) -> Result<GrantAdded> {
    caller.require_operator()?;
    let project = match params.project {
        Some(folder) => Some(project_at(service, &caller, folder).await?),
        None => None,
    };
    let session = params.session;
    let session = session
        .map(|session| find_id(service, &caller, &session))
        .transpose()?;
    let draft = GrantDraft {
        rule: params.rule,
        effect: effect(params.effect),
        scope: GrantScope {
            agent: params.agent,
            project,
            session,
            labels: params.labels,
        },
        expires_in_ms: params.expires_in_ms,
        uses: params.uses,
        origin: None,
    };
    Ok(service.add_grant(caller, draft).await?)
}

/// Removes a grant, named by its id or an abbreviation that fits no other.
pub(crate) async fn remove(service: &Service, caller: Caller, id: String) -> Result<GrantState> {
    caller.require_operator()?;
    let begin = prefixed("grant-", &id);
    // Every id begins with the empty one, so it would remove the only grant there is.
    let found = match begin.as_str() {
        "grant-" => Vec::new(),
        _ => find(service, &caller, id.clone(), begin).await?,
    };
    // A whole id is never ambiguous, also if it is the beginning of another.
    let exact = found.iter().find(|found| found.grant.id.as_str() == id);
    let grant = match exact {
        Some(exact) => exact,
        None => one_of(&found, &id, "rule", Reason::UnknownRule)?,
    };
    Ok(service.remove_grant(caller, grant.grant.id.clone()).await?)
}

async fn find(
    service: &Service,
    caller: &Caller,
    id: String,
    begin: String,
) -> Result<Vec<GrantState>> {
    let is_named =
        move |grant: &Grant| grant.id.as_str() == id || grant.id.as_str().starts_with(&begin);
    Ok(service.find_grants(caller, is_named).await?)
}

/// What the rules say about a tool call, without asking anybody.
pub(crate) async fn check(
    service: &Service,
    caller: &Caller,
    params: wire::CheckRulesParams,
) -> Result<RuleCheck> {
    caller.refuse_agents()?;
    let check = CheckRequest {
        tool: params.tool,
        input: params.input.map(convert::json),
        cwd: absolute(params.cwd)?,
        agent: find_filter(service, caller, params.agent_id).await?,
    };
    Ok(service.check_rules(caller, check).await?)
}

/// What a rule would have done with the asks on the record.
pub(crate) async fn backtest(
    service: &Service,
    caller: &Caller,
    params: wire::BacktestRuleParams,
) -> Result<BacktestReport> {
    caller.refuse_agents()?;
    let limit = params
        .limit
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let effect = effect(params.effect);
    Ok(service
        .backtest_rule(caller, params.rule, effect, limit)
        .await?)
}

/// Suggested rules.
#[derive(Default)]
pub(crate) struct RuleAdvice {
    /// For one ask, narrowest first.
    pub(crate) candidates: Vec<SuggestedRule>,
    /// From what people always allowed.
    pub(crate) mined: Vec<RuleProposal>,
}

/// Rules for one ask, or from the record if no ask is named.
pub(crate) async fn suggest(
    service: &Service,
    caller: &Caller,
    params: wire::SuggestRulesParams,
) -> Result<RuleAdvice> {
    caller.refuse_agents()?;
    let Some(id) = params.approval_id else {
        let mined = service.mine_rules(caller).await?;
        return Ok(RuleAdvice {
            mined,
            ..RuleAdvice::default()
        });
    };
    let approval = approvals::load(service, caller, id).await?;
    let id = approval.ask.id.clone();
    Ok(RuleAdvice {
        candidates: service.suggestions(caller, id).await?,
        ..RuleAdvice::default()
    })
}

/// The files that [`trust`] may be called for, with what they say.
pub(crate) async fn list_untrusted(
    service: &Service,
    caller: &Caller,
    params: wire::RulesParams,
) -> Result<Vec<UntrustedRuleFile>> {
    caller.refuse_agents()?;
    let cwd = absolute(params.cwd)?;
    Ok(service.untrusted_rules(caller, cwd).await?)
}

/// Lets a project's rule file allow things, exactly as it was read.
pub(crate) async fn trust(
    service: &Service,
    caller: Caller,
    params: wire::TrustRulesParams,
) -> Result<()> {
    caller.require_operator()?;
    Ok(service
        .trust_rules(caller, params.file, params.digest)
        .await?)
}

/// Allows an agent's asks without a person for a while, or ends that.
pub(crate) async fn set_bypass(
    service: &Service,
    caller: Caller,
    agent_id: String,
    body: wire::BypassBody,
) -> Result<(Agent, OpenCounts)> {
    caller.require_operator()?;
    let agent = find_id(service, &caller, &agent_id)?;
    service
        .set_bypass(caller.clone(), agent.clone(), body.for_ms)
        .await?;
    Ok(service.load_agent(&caller, agent).await?)
}

/// The key of the project that a directory belongs to.
pub(super) async fn project_at(
    service: &Service,
    caller: &Caller,
    folder: String,
) -> Result<String> {
    let cwd = absolute(Some(folder.clone()))?;
    let project = service.rules(caller, cwd).await?.project;
    project.ok_or_else(|| {
        let message = format!("`{folder}` belongs to no project");
        ApiError::plain(Reason::BadRule, message)
    })
}

/// Allow, where none is named.
fn effect(effect: Option<HostEffect>) -> Effect {
    match effect {
        None | Some(HostEffect::Allow) => Effect::Allow,
        // An unknown word was refused when the parameters were parsed. If it came here all the
        // same, it must not allow.
        Some(HostEffect::Ask | HostEffect::Unknown) => Effect::Ask,
        Some(HostEffect::Deny) => Effect::Deny,
    }
}

fn absolute(folder: Option<String>) -> Result<Option<String>> {
    match folder {
        Some(folder) if !folder.starts_with('/') => Err(ApiError::plain(
            Reason::InvalidParams,
            format!("`{folder}` is not an absolute path"),
        )),
        folder => Ok(folder),
    }
}
