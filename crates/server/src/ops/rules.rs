//! Operations on rules: seen, made, taken back, tried out.
//!
//! Invariant: agents reach none of them, and observers only those that change nothing.

use countersign_core::event::{Effect, Grant, GrantScope};
use countersign_core::{Agent, AgentId, ApprovalId, Caller, GrantDraft, OpenCounts, Timestamp};
use countersign_daemon::{CheckRequest, Service};
use countersign_protocol as wire;
use countersign_protocol::{HostAgent, HostEffect, Reason};

use super::{Result, approval, one_of, prefixed};
use crate::api_error::ApiError;
use crate::convert;
use crate::convert::rules as words;

/// Every rule that counts in a folder, or everywhere.
pub(crate) async fn rules(
    service: &Service,
    caller: &Caller,
    params: wire::RulesParams,
) -> Result<wire::RulesResult> {
    caller.refuse_agents()?;
    let overview = service.rules(caller, absolute(params.cwd)?).await?;
    Ok(words::overview(overview))
}

/// What is wrong with rule files, for every screen to say.
pub(crate) async fn problems(service: &Service, caller: &Caller) -> Result<Vec<wire::RuleProblem>> {
    let problems = service.rule_problems(caller).await?;
    Ok(problems.into_iter().map(words::problem).collect())
}

/// Agents whose asks are let through now.
pub(crate) fn bypassed(agents: &[(Agent, OpenCounts)], now: Timestamp) -> Vec<wire::BypassRow> {
    let row = |agent: &Agent| {
        let until = agent.bypass_until.filter(|until| *until > now)?;
        Some(wire::BypassRow {
            agent_id: agent.id().to_string(),
            name: agent.profile.name.clone(),
            until: convert::time(until),
        })
    };
    agents.iter().filter_map(|(agent, _)| row(agent)).collect()
}

/// Makes a rule with a leash.
pub(crate) async fn add_rule(
    service: &Service,
    caller: Caller,
    params: wire::AddRuleParams,
) -> Result<wire::AddedRule> {
    caller.require_operator()?;
    let project = match params.project {
        Some(folder) => Some(project_at(service, &caller, folder).await?),
        None => None,
    };
    let draft = GrantDraft {
        rule: params.rule,
        effect: effect(params.effect),
        scope: GrantScope {
            agent: params.agent,
            project,
            session: params.session.map(AgentId::new),
        },
        expires_in_ms: params.expires_in_ms,
        uses: params.uses,
        origin: None,
    };
    let added = service.add_grant(caller, draft).await?;
    Ok(wire::AddedRule {
        grant: words::grant(&added.grant),
        settled: added.settled,
        warnings: added.warnings,
    })
}

/// Takes a grant back, named by its id or an abbreviation that fits no other.
pub(crate) async fn remove_rule(
    service: &Service,
    caller: Caller,
    id: String,
) -> Result<wire::GrantRow> {
    caller.require_operator()?;
    let begin = prefixed("grant-", &id);
    let fits = {
        let (id, begin) = (id.clone(), begin.clone());
        move |grant: &Grant| grant.id.as_str() == id || grant.id.as_str().starts_with(&begin)
    };
    // Nothing is the beginning of every name, and no name.
    let found = match begin.as_str() {
        "grant-" => Vec::new(),
        _ => service.find_grants(&caller, fits).await?,
    };
    let exact = found.iter().find(|found| found.grant.id.as_str() == id);
    let grant = match exact {
        Some(exact) => exact,
        None => one_of(&found, &id, "rule", Reason::UnknownRule)?,
    };
    let removed = service.remove_grant(caller, grant.grant.id.clone()).await?;
    Ok(words::grant(&removed))
}

/// What the rules say of a tool call, without asking anybody.
pub(crate) async fn check_rules(
    service: &Service,
    caller: &Caller,
    params: wire::CheckRulesParams,
) -> Result<wire::CheckedRules> {
    caller.refuse_agents()?;
    let check = CheckRequest {
        tool: params.tool,
        input: params.input.map(convert::json),
        cwd: absolute(params.cwd)?,
        agent: params.agent_id.map(AgentId::new),
    };
    let checked = service.check_rules(caller, check).await?;
    Ok(wire::CheckedRules {
        candidates: checked
            .candidates
            .into_iter()
            .map(words::candidate)
            .collect(),
        verdict: words::verdict(&checked.verdict),
    })
}

/// What a rule would have done with the asks on the record.
pub(crate) async fn backtest_rule(
    service: &Service,
    caller: &Caller,
    params: wire::BacktestRuleParams,
) -> Result<wire::BacktestResult> {
    caller.refuse_agents()?;
    let limit = params
        .limit
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let effect = effect(params.effect);
    let result = service
        .backtest_rule(caller, params.rule, effect, limit)
        .await?;
    Ok(words::backtest(&result))
}

/// Rules for one ask, or what the record speaks for.
pub(crate) async fn suggest_rules(
    service: &Service,
    caller: &Caller,
    params: wire::SuggestRulesParams,
) -> Result<wire::RuleSuggestions> {
    caller.refuse_agents()?;
    let Some(id) = params.approval_id else {
        let mined = service.mine_rules(caller).await?;
        return Ok(wire::RuleSuggestions {
            candidates: Vec::new(),
            mined: mined.into_iter().map(words::mined).collect(),
        });
    };
    let id = ApprovalId::new(approval(service, caller, id).await?.id);
    let candidates = service.suggestions(caller, id).await?;
    Ok(wire::RuleSuggestions {
        candidates: candidates.into_iter().map(words::candidate).collect(),
        mined: Vec::new(),
    })
}

/// Lets a project's file loosen, exactly as it was read.
pub(crate) async fn trust_rules(
    service: &Service,
    caller: Caller,
    params: wire::TrustRulesParams,
) -> Result<()> {
    caller.require_operator()?;
    Ok(service
        .trust_rules(caller, params.file, params.digest)
        .await?)
}

/// Lets an agent's asks through for a while, or no longer.
pub(crate) async fn set_bypass(
    service: &Service,
    caller: Caller,
    agent_id: String,
    body: wire::BypassBody,
) -> Result<HostAgent> {
    caller.require_operator()?;
    let agent = AgentId::new(agent_id);
    service
        .set_bypass(caller.clone(), agent.clone(), body.for_ms)
        .await?;
    Ok(convert::agent(&service.load_agent(&caller, agent).await?))
}

/// What stands for the project that a folder belongs to.
pub(super) async fn project_at(
    service: &Service,
    caller: &Caller,
    folder: String,
) -> Result<String> {
    let cwd = absolute(Some(folder.clone()))?;
    let project = service.rules(caller, cwd).await?.project;
    project.ok_or_else(|| {
        let words = format!("`{folder}` belongs to no project");
        ApiError::plain(Reason::BadRule, words)
    })
}

/// Allow, where none is named.
fn effect(effect: Option<HostEffect>) -> Effect {
    match effect {
        None | Some(HostEffect::Allow) => Effect::Allow,
        // An unknown word was refused when the parameters were read; if it were not, it must not allow.
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
