//! Rules, verdicts and grants, from the domain to the wire.

use countersign_core::GrantState;
use countersign_core::event::{Effect, GrantScope, PartKind, RuleRef, Verdict, VerdictPart};
use countersign_daemon::{
    BacktestContradiction, BacktestReport, ListedRule, RuleFileProblem, RuleProposal,
    RulesOverview, SuggestedRule,
};
use countersign_protocol::{
    BacktestResult, FileRule, GrantRow, HostEffect, HostRule, HostVerdict, HostVerdictPart,
    MinedRule, RuleCandidate, RuleProblem, RuleScope, RulesResult,
};

use super::{approval_state, time, who};

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

pub(crate) fn grant(state: &GrantState) -> GrantRow {
    let mut row = new_grant(&state.grant, state.created_at);
    row.fired = state.fired;
    row.last_used = state.last_used.map(time);
    row.uses_left = state.uses_left;
    row
}

/// The row of a grant that has not been used yet.
pub(crate) fn new_grant(
    grant: &countersign_core::event::Grant,
    created_at: countersign_core::Timestamp,
) -> GrantRow {
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
        scope: scope(&grant.scope),
        uses: grant.uses,
        uses_left: grant.uses,
    }
}

fn scope(scope: &GrantScope) -> RuleScope {
    RuleScope {
        agent: scope.agent.clone(),
        project: scope.project.clone(),
        session: scope.session.as_ref().map(ToString::to_string),
    }
}

pub(crate) fn overview(overview: RulesOverview) -> RulesResult {
    RulesResult {
        files: overview.files.iter().map(file_rule).collect(),
        grants: overview.grants.iter().map(grant).collect(),
        problems: overview.problems.into_iter().map(problem).collect(),
        project: overview.project,
        suspended: overview.suspended,
        untrusted: overview.untrusted,
    }
}

fn file_rule(listed: &ListedRule) -> FileRule {
    FileRule {
        counts: listed.counts,
        rule: rule(&listed.rule),
    }
}

pub(crate) fn problem(problem: RuleFileProblem) -> RuleProblem {
    RuleProblem {
        file: problem.file,
        line: problem.line,
        message: problem.message,
        suspends: problem.suspends,
    }
}

pub(crate) fn candidate(candidate: SuggestedRule) -> RuleCandidate {
    RuleCandidate {
        note: candidate.note,
        part: candidate.part,
        rule: candidate.rule,
    }
}

pub(crate) fn mined(mined: RuleProposal) -> MinedRule {
    MinedRule {
        allowed: mined.allowed,
        examples: mined.examples.iter().map(ToString::to_string).collect(),
        last_at: time(mined.last_at),
        rule: mined.rule,
    }
}

pub(crate) fn backtest(result: &BacktestReport) -> BacktestResult {
    BacktestResult {
        agreed: result.agreed,
        already_settled_by_rules: result.already_settled_by_rules,
        contradicted: result.contradicted.iter().map(contradiction).collect(),
        examined: result.examined,
        settled: result.settled,
        skipped_by_others: result.skipped_by_others,
    }
}

fn contradiction(row: &BacktestContradiction) -> countersign_protocol::Contradiction {
    countersign_protocol::Contradiction {
        approval_id: row.approval.to_string(),
        by: who(&row.by),
        decided: approval_state(row.decided),
        verdict: verdict(&row.verdict),
    }
}
