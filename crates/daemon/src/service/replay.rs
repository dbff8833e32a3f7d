//! Rules against the past: what a rule would have settled, and which rules people have been
//! applying by hand.
//!
//! Only what a person decided counts: what rules, a bypass, an agent or time ended says nothing
//! about what people want.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use countersign_core::event::{ApprovalOutcome, Effect};
use countersign_core::limits::{OPEN_ASKS_TRIED_MAX, PAGE_ROWS_MAX};
use countersign_core::{Approval, ApprovalId, Caller, RecordedActor, Role, Timestamp};
use countersign_rules::{RuleSet, Verdict};
use countersign_store::{ApprovalQuery, EventHistory, StatusFilter, StoreError};
use sha2::{Digest as _, Sha256};

use crate::gate::{AskFacts, AssessedAsk};
use crate::rulebook::Rulebook;

use super::judgement::open_asks;
use super::rules::parse_rule;
use super::{Service, ServiceResult};

/// Ended asks that are looked at unless the caller says otherwise.
const ASKS_READ: usize = 10_000;
/// Ended asks that are looked at at most.
const ASKS_READ_MAX: usize = 100_000;
/// Contradictions that are listed.
const CONTRADICTIONS_MAX: usize = 1_000;
/// Different asks for which rules are sought: each costs a thousand verdicts.
const DISTINCT_MAX: usize = 500;
/// Mined rules that are listed.
const MINED_MAX: usize = 20;
/// How often a rule must have been applied by hand to be worth having.
const MINED_TIMES: usize = 3;
/// Asks that show what a mined rule is about.
const EXAMPLES: usize = 3;

/// What a rule would have done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BacktestReport {
    /// Decisions made by hand that were looked at.
    pub examined: usize,
    /// Those the rule alone would have settled.
    pub settled: usize,
    /// Those of them that the person decided in the same way.
    pub agreed: usize,
    /// The others.
    pub contradicted: Vec<BacktestContradiction>,
    /// Asks that rules settled at the time.
    pub already_settled_by_rules: usize,
    /// Asks that ended in any other way, or of which no rule can speak.
    pub skipped_by_others: usize,
    /// Open asks that would end with the rule if it were made now, oldest first.
    pub would_settle: Vec<ApprovalId>,
}

/// A decision that a rule would have made otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct BacktestContradiction {
    /// The ask.
    pub approval: ApprovalId,
    /// What was decided.
    pub decided: ApprovalOutcome,
    /// Who decided.
    pub by: RecordedActor,
    /// What the rule says.
    pub verdict: Verdict,
}

/// A rule that people have been applying by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleProposal {
    /// The rule.
    pub rule: String,
    /// How often what it covers was allowed by hand.
    pub allowed: usize,
    /// When it last was.
    pub last_at: Timestamp,
    /// Some of the asks, the newest first.
    pub examples: Vec<ApprovalId>,
}

/// The past.
impl Service {
    /// Replays what was decided by hand with one rule and nothing else.
    pub async fn backtest_rule(
        &self,
        caller: &Caller,
        rule: String,
        effect: Effect,
        limit: Option<usize>,
    ) -> ServiceResult<BacktestReport> {
        caller.refuse_agents()?;
        let mut rules = RuleSet::default();
        rules.insert(parse_rule(effect, &rule)?);
        let rulebook = self.shared.rulebook.clone();
        let limit = limit.unwrap_or(ASKS_READ).min(ASKS_READ_MAX);
        let rules = Arc::new(rules);
        let would_settle = self.find_settled_by(rules.clone()).await?;
        let report = self
            .history(move |history| backtest(history, &rulebook, &rules, limit))
            .await?;
        Ok(BacktestReport {
            would_settle,
            ..report
        })
    }

    /// The open asks that one more rule would settle.
    async fn find_settled_by(&self, rules: Arc<RuleSet>) -> ServiceResult<Vec<ApprovalId>> {
        let mut open = self.read(open_asks).await?;
        open.truncate(OPEN_ASKS_TRIED_MAX);
        let facts: Vec<AskFacts> = open.iter().map(|ask| self.open_ask_facts(ask)).collect();
        let settled = self.read_rules(move |rulebook| {
            let asks = open.iter().zip(&facts).filter(|(ask, facts)| {
                let alone = AssessedAsk::assess(rulebook, facts).judge_by(&rules);
                would_settle(ask.verdict.as_deref(), &alone)
            });
            asks.map(|(ask, _)| ask.id.clone()).collect()
        });
        // Nothing if the rules cannot be read: then no rule settles anything.
        Ok(settled.await.unwrap_or_default())
    }

    /// Rules that were always applied by hand, and never against.
    pub async fn mine_rules(&self, caller: &Caller) -> ServiceResult<Vec<RuleProposal>> {
        caller.refuse_agents()?;
        let rulebook = self.shared.rulebook.clone();
        self.history(move |history| mine(history, &rulebook)).await
    }
}

/// An ask that a person decided, taken apart.
struct DecidedAsk {
    id: ApprovalId,
    outcome: ApprovalOutcome,
    edited: bool,
    by: RecordedActor,
    at: Timestamp,
    /// Of tool, folder and input, to tell whether the same was asked again.
    digest: [u8; 32],
    assessed: AssessedAsk,
}

/// How an ask ended, as far as rules are concerned.
enum PastDecision {
    ByHand(Box<DecidedAsk>),
    ByRules,
    Otherwise,
}

/// Looks at what ended, newest first. Nothing is kept: inputs are large and there are many.
fn visit_ended(
    history: &dyn EventHistory,
    rulebook: &Rulebook,
    limit: usize,
    mut look: impl FnMut(PastDecision),
) -> Result<(), StoreError> {
    let mut query = ApprovalQuery {
        status: Some(StatusFilter::Ended),
        dismissed: true,
        ..ApprovalQuery::default()
    };
    let mut left = limit;
    while left > 0 {
        query.limit = left.min(PAGE_ROWS_MAX);
        // A page is short where its rows are large; only an empty one is the end.
        let page = history.approvals(&query)?;
        left = if page.is_empty() {
            0
        } else {
            left.saturating_sub(page.len())
        };
        query.opened_before = page.last().map(|approval| approval.opened);
        for approval in &page {
            if let Some(ended) = classify(rulebook, approval) {
                look(ended);
            }
        }
    }
    Ok(())
}

fn classify(rulebook: &Rulebook, approval: &Approval) -> Option<PastDecision> {
    let ending = &approval.ended.as_ref()?.ending;
    let sorted = match ending.by.role {
        Role::Operator => assess_decided(rulebook, approval)
            .map_or(PastDecision::Otherwise, |decided| {
                PastDecision::ByHand(decided.into())
            }),
        Role::Host if ending.verdict.is_some() => PastDecision::ByRules,
        Role::Host | Role::Observer | Role::Agent(_) => PastDecision::Otherwise,
    };
    Some(sorted)
}

/// What a person decided about an ask that rules can speak of.
fn assess_decided(rulebook: &Rulebook, approval: &Approval) -> Option<DecidedAsk> {
    let (ask, ended) = (&approval.ask, approval.ended.as_ref()?);
    let outcome = ended.ending.outcome;
    if !matches!(
        outcome,
        ApprovalOutcome::Allowed | ApprovalOutcome::Denied | ApprovalOutcome::Answered
    ) {
        return None;
    }
    let facts = AskFacts {
        tool: ask.tool.clone()?,
        input: ask.input.clone(),
        cwd: ask.cwd.clone(),
        project: None,
        own_tool: false,
        in_sandbox: false,
        ancestors: Vec::new(),
    };
    let input = ask.input.as_ref().map_or("", |input| input.text());
    let cwd = ask.cwd.as_deref().unwrap_or_default();
    let message = format!("{}\n{cwd}\n{input}", facts.tool);
    Some(DecidedAsk {
        digest: Sha256::digest(message).into(),
        id: ask.id.clone(),
        outcome,
        edited: ended.ending.edited_input.is_some(),
        by: ended.ending.by.clone(),
        at: ended.at,
        assessed: AssessedAsk::assess(rulebook, &facts),
    })
}

fn backtest(
    history: &dyn EventHistory,
    rulebook: &Rulebook,
    rules: &RuleSet,
    limit: usize,
) -> Result<BacktestReport, StoreError> {
    let mut test = BacktestReport::default();
    visit_ended(history, rulebook, limit, |ended| match ended {
        PastDecision::ByHand(decided) => test.replay(*decided, rules),
        PastDecision::ByRules => test.already_settled_by_rules += 1,
        PastDecision::Otherwise => test.skipped_by_others += 1,
    })?;
    Ok(test)
}

impl BacktestReport {
    fn replay(&mut self, decided: DecidedAsk, rules: &RuleSet) {
        self.examined += 1;
        let verdict = decided.assessed.judge_by(rules);
        if !is_settled(&verdict) {
            return;
        }
        self.settled += 1;
        if agrees(&decided, verdict.effect) {
            self.agreed += 1;
        } else if self.contradicted.len() < CONTRADICTIONS_MAX {
            self.contradicted.push(BacktestContradiction {
                approval: decided.id,
                decided: decided.outcome,
                by: decided.by,
                verdict,
            });
        }
    }
}

/// Whether an open ask would end if a rule were added to those that left it open. `alone` is what the
/// new rule says without the others.
fn would_settle(others: Option<&Verdict>, alone: &Verdict) -> bool {
    if alone.effect == Effect::Deny {
        return is_settled(alone);
    }
    let Some(others) = others.filter(|others| others.parts.len() == alone.parts.len()) else {
        return false;
    };
    let mut parts = others.parts.iter().zip(&alone.parts);
    parts.all(|(other, new)| {
        let is_left_open = other.effect == Effect::Ask && other.rule.is_none() && !other.floor;
        other.subject == new.subject
            && (other.effect == Effect::Allow || is_left_open && new.effect == Effect::Allow)
    })
}

/// Whether the rule settles it. The floor denies without any rule, and that is not its work.
fn is_settled(verdict: &Verdict) -> bool {
    match verdict.effect {
        Effect::Allow => true,
        Effect::Ask => false,
        Effect::Deny => {
            let mut parts = verdict.parts.iter();
            parts.any(|part| part.effect == Effect::Deny && part.rule.is_some())
        }
    }
}

/// Who changed the input before allowing it did not want it as it was asked.
fn agrees(decided: &DecidedAsk, effect: Effect) -> bool {
    match effect {
        Effect::Allow => decided.outcome == ApprovalOutcome::Allowed && !decided.edited,
        Effect::Deny => decided.outcome == ApprovalOutcome::Denied,
        Effect::Ask => false,
    }
}

fn mine(history: &dyn EventHistory, rulebook: &Rulebook) -> Result<Vec<RuleProposal>, StoreError> {
    let mut found: HashMap<String, RuleProposal> = HashMap::new();
    let mut offered: HashMap<[u8; 32], BTreeSet<String>> = HashMap::new();
    let mut others: HashMap<[u8; 32], DecidedAsk> = HashMap::new();
    visit_ended(history, rulebook, ASKS_READ, |ended| match ended {
        PastDecision::ByHand(decided) if agrees(&decided, Effect::Allow) => {
            // Asks with the same tool, folder and input get the same rules, which are sought once.
            if offered.len() >= DISTINCT_MAX && !offered.contains_key(&decided.digest) {
                return;
            }
            let rules = offered.entry(decided.digest).or_insert_with(|| {
                let candidates = decided.assessed.suggest_alone(rulebook);
                let rules = candidates.into_iter().map(|candidate| candidate.rule);
                rules.collect()
            });
            for rule in rules.iter() {
                count(&mut found, rule, &decided);
            }
        }
        PastDecision::ByHand(decided) => {
            others.insert(decided.digest, *decided);
        }
        PastDecision::ByRules | PastDecision::Otherwise => {}
    })?;
    let mut mined: Vec<RuleProposal> = found
        .into_values()
        .filter(|mined| mined.allowed >= MINED_TIMES)
        .collect();
    mined.sort_by(|a, b| (b.allowed, b.last_at, &a.rule).cmp(&(a.allowed, a.last_at, &b.rule)));
    // Lazily: only as many are held against the past as are listed, because each costs a verdict
    // for every decision that went another way.
    let unopposed = mined.into_iter().filter(|mined| {
        let mut others = others.values();
        !others.any(|other| covers(&mined.rule, other))
    });
    Ok(unopposed.take(MINED_MAX).collect())
}

fn count(found: &mut HashMap<String, RuleProposal>, rule: &str, decided: &DecidedAsk) {
    let mined = found
        .entry(rule.to_owned())
        .or_insert_with(|| RuleProposal {
            rule: rule.to_owned(),
            allowed: 0,
            last_at: decided.at,
            examples: Vec::new(),
        });
    mined.allowed += 1;
    mined.last_at = mined.last_at.max(decided.at);
    if mined.examples.len() < EXAMPLES {
        mined.examples.push(decided.id.clone());
    }
}

/// Whether the rule would allow any part of an ask. One that cannot be read covers everything.
fn covers(rule: &str, decided: &DecidedAsk) -> bool {
    let Ok(entry) = parse_rule(Effect::Allow, rule) else {
        return true;
    };
    let mut rules = RuleSet::default();
    rules.insert(entry);
    let verdict = decided.assessed.judge_by(&rules);
    verdict
        .parts
        .iter()
        .any(|part| part.effect == Effect::Allow)
}
