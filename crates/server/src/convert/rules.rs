//! Rules, verdicts and grants, from the domain to the wire.

use countersign_core::event::{Effect, Grant, GrantScope, PartKind, RuleRef, Verdict, VerdictPart};
use countersign_core::{Agent, GrantState, OpenCounts, Timestamp};
use countersign_daemon::{
    BacktestContradiction, BacktestReport, GrantAdded, ListedRule, RuleArea, RuleCheck,
    RuleFileProblem, RuleProposal, RulesOverview, SuggestedRule, UntrustedRuleFile,
};
use countersign_protocol as wire;
use countersign_protocol::{
    BacktestResult, FileRule, GrantRow, HostEffect, HostRule, HostRuleArea, HostVerdict,
    HostVerdictPart, MinedRule, RuleCandidate, RuleProblem, RuleScope, RulesResult,
};

use super::approvals::outcome;
use super::{AgentNames, name_of, time, who};
use crate::ops::rules::RuleAdvice;

fn effect(effect: Effect) -> HostEffect {
    match effect {
        Effect::Allow => HostEffect::Allow,
        Effect::Ask => HostEffect::Ask,
        Effect::Deny => HostEffect::Deny,
    }
}

pub(crate) fn verdict(verdict: &Verdict) -> HostVerdict {
    HostVerdict {
        effect: effect(verdict.effect),
        parts: verdict.parts.iter().map(part).collect(),
        text: countersign_daemon::explain(verdict),
    }
}

fn part(part: &VerdictPart) -> HostVerdictPart {
    HostVerdictPart {
        effect: effect(part.effect),
        floor: part.floor,
        kind: kind_name(part.kind).to_owned(),
        reason: part.reason.clone(),
        rule: part.rule.as_ref().map(rule),
        subject: part.subject.clone(),
    }
}

fn kind_name(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Command => "command",
        PartKind::Read => "read",
        PartKind::Write => "write",
        PartKind::Fetch => "fetch",
        PartKind::Tool => "tool",
    }
}

fn rule(rule: &RuleRef) -> HostRule {
    HostRule {
        effect: effect(rule.effect),
        grant: rule.grant.as_ref().map(ToString::to_string),
        line: rule.line,
        rule: rule.rule.clone(),
        source: rule.source.clone(),
    }
}

pub(crate) fn grant(state: &GrantState, names: AgentNames<'_>) -> GrantRow {
    let mut row = new_grant(&state.grant, state.created_at, names);
    row.fired = state.fired;
    row.last_used = state.last_used.map(time);
    row.uses_left = state.uses_left;
    row
}

/// The row of a grant that has not been used yet.
pub(crate) fn new_grant(grant: &Grant, created_at: Timestamp, names: AgentNames<'_>) -> GrantRow {
    GrantRow {
        by: who(&grant.by),
        created_at: time(created_at),
        effect: effect(grant.effect),
        expires_at: grant.expires_at.map(time),
        fired: 0,
        id: grant.id.to_string(),
        last_used: None,
        origin: grant.origin.as_ref().map(ToString::to_string),
        rule: grant.rule.clone(),
        scope: scope(&grant.scope, names),
        uses: grant.uses,
        uses_left: grant.uses,
    }
}

fn scope(scope: &GrantScope, names: AgentNames<'_>) -> RuleScope {
    RuleScope {
        agent: scope.agent.clone(),
        project: scope.project.clone(),
        session: scope.session.as_ref().map(ToString::to_string),
        session_name: name_of(scope.session.as_ref(), names),
        labels: scope.labels.clone(),
    }
}

pub(super) fn overview(overview: &RulesOverview, names: AgentNames<'_>) -> RulesResult {
    RulesResult {
        files: overview.files.iter().map(file_rule).collect(),
        grants: overview
            .grants
            .iter()
            .map(|row| grant(row, names))
            .collect(),
        problems: overview.problems.iter().map(problem).collect(),
        project: overview.project.clone(),
        suspended: overview.suspended.clone(),
        untrusted: overview.untrusted.clone(),
    }
}

pub(super) fn untrusted_file(found: &UntrustedRuleFile) -> wire::UntrustedFileRow {
    wire::UntrustedFileRow {
        file: found.file.clone(),
        digest: found.digest.clone(),
        text: found.text.to_string(),
    }
}

fn file_rule(listed: &ListedRule) -> FileRule {
    FileRule {
        area: match listed.area {
            RuleArea::Anywhere => None,
            RuleArea::Folder => Some(HostRuleArea::Folder),
            RuleArea::Worktree => Some(HostRuleArea::Worktree),
            RuleArea::Sandbox => Some(HostRuleArea::Sandbox),
        },
        counts: listed.counts,
        rule: rule(&listed.rule),
    }
}

pub(crate) fn problem(problem: &RuleFileProblem) -> RuleProblem {
    RuleProblem {
        file: problem.file.clone(),
        line: problem.line,
        message: problem.message.clone(),
        suspends: problem.suspends,
    }
}

pub(super) fn added(added: &GrantAdded, names: AgentNames<'_>) -> wire::AddedRule {
    wire::AddedRule {
        grant: grant(&added.grant, names),
        settled: added.settled,
        warnings: added.warnings.clone(),
    }
}

pub(super) fn check(check: &RuleCheck) -> wire::CheckedRules {
    wire::CheckedRules {
        candidates: check.candidates.iter().map(candidate).collect(),
        verdict: verdict(&check.verdict),
    }
}

pub(super) fn advice(advice: &RuleAdvice) -> wire::RuleSuggestions {
    wire::RuleSuggestions {
        candidates: advice.candidates.iter().map(candidate).collect(),
        mined: advice.mined.iter().map(mined).collect(),
    }
}

/// Agents whose asks are allowed without a person now.
pub(crate) fn bypassed(agents: &[(Agent, OpenCounts)], now: Timestamp) -> Vec<wire::BypassRow> {
    let bypassed = agents.iter().filter_map(|(agent, _)| {
        let until = agent.bypass_until.filter(|until| *until > now)?;
        Some(wire::BypassRow {
            agent_id: agent.id().to_string(),
            name: agent.profile.name.clone(),
            until: time(until),
        })
    });
    bypassed.collect()
}

fn candidate(candidate: &SuggestedRule) -> RuleCandidate {
    RuleCandidate {
        note: candidate.note.clone(),
        part: candidate.part,
        rule: candidate.rule.clone(),
    }
}

fn mined(mined: &RuleProposal) -> MinedRule {
    MinedRule {
        allowed: mined.allowed,
        examples: mined.examples.iter().map(ToString::to_string).collect(),
        last_at: time(mined.last_at),
        rule: mined.rule.clone(),
    }
}

pub(super) fn backtest(result: &BacktestReport) -> BacktestResult {
    BacktestResult {
        agreed: result.agreed,
        already_settled_by_rules: result.already_settled_by_rules,
        contradicted: result.contradicted.iter().map(contradiction).collect(),
        examined: result.examined,
        settled: result.settled,
        skipped_by_others: result.skipped_by_others,
        would_settle: result
            .would_settle
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

fn contradiction(row: &BacktestContradiction) -> wire::Contradiction {
    wire::Contradiction {
        approval_id: row.approval.to_string(),
        by: who(&row.by),
        decided: outcome(row.decided),
        verdict: verdict(&row.verdict),
    }
}
