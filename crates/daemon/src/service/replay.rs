//! Rules against the past: what a rule would have settled, and which rules people have been
//! applying by hand.
//!
//! Only what a person decided counts: what rules, a bypass, an agent or time ended says nothing
//! about what people want.

use std::collections::{BTreeSet, HashMap};

use countersign_core::event::{Effect, Outcome};
use countersign_core::limits::PAGE_ROWS_MAX;
use countersign_core::{Approval, ApprovalId, By, Caller, Role, Timestamp};
use countersign_rules::{RuleSet, Verdict};
use countersign_store::{ApprovalQuery, History, Status, StoreError};

use crate::gate::{Assessed, Unread};
use crate::rulebook::Rulebook;

use super::rules::{parse_rule, refuse_agents};
use super::{Result, Service};

/// Ended asks that are looked at unless the caller says otherwise.
const LOOKED_AT: usize = 10_000;
/// Ended asks that are looked at at most.
const LOOKED_AT_MAX: usize = 100_000;
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
pub struct Backtest {
    /// Decisions made by hand that were looked at.
    pub examined: usize,
    /// Those the rule alone would have settled.
    pub settled: usize,
    /// Those of them that the person decided in the same way.
    pub agreed: usize,
    /// The others.
    pub contradicted: Vec<Contradiction>,
    /// Asks that rules settled at the time.
    pub already_settled_by_rules: usize,
    /// Asks that ended in any other way, or of which no rule can speak.
    pub skipped_by_others: usize,
}

/// A decision that a rule would have made otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    /// The ask.
    pub approval: ApprovalId,
    /// What was decided.
    pub decided: Outcome,
    /// Who decided.
    pub by: By,
    /// What the rule says.
    pub verdict: Verdict,
}

/// A rule that people have been applying by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Mined {
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
    ) -> Result<Backtest> {
        refuse_agents(caller)?;
        let mut rules = RuleSet::default();
        rules.insert(parse_rule(effect, &rule)?);
        let rulebook = self.shared.rulebook.clone();
        let limit = limit.unwrap_or(LOOKED_AT).min(LOOKED_AT_MAX);
        self.history(move |history| backtest(history, &rulebook, &rules, limit))
            .await
    }

    /// Rules that were always applied by hand, and never against.
    pub async fn mine_rules(&self, caller: &Caller) -> Result<Vec<Mined>> {
        refuse_agents(caller)?;
        let rulebook = self.shared.rulebook.clone();
        self.history(move |history| mine(history, &rulebook)).await
    }
}

/// An ask that a person decided, taken apart.
struct Decided {
    id: ApprovalId,
    outcome: Outcome,
    edited: bool,
    by: By,
    at: Timestamp,
    /// Tool, folder and input, to tell whether the same was asked again.
    words: String,
    assessed: Assessed,
}

/// What the past holds, newest first.
#[derive(Default)]
struct Past {
    by_hand: Vec<Decided>,
    settled: usize,
    others: usize,
}

impl Past {
    fn read(
        history: &dyn History,
        rulebook: &Rulebook,
        limit: usize,
    ) -> std::result::Result<Self, StoreError> {
        let mut past = Self::default();
        let mut query = ApprovalQuery {
            status: Some(Status::Ended),
            dismissed: true,
            ..ApprovalQuery::default()
        };
        let mut left = limit;
        while left > 0 {
            query.limit = left.min(PAGE_ROWS_MAX);
            let page = history.approvals(&query)?;
            left = if page.len() < query.limit {
                0
            } else {
                left - page.len()
            };
            query.opened_before = page.last().map(|approval| approval.opened);
            for approval in &page {
                past.sort(rulebook, approval);
            }
        }
        Ok(past)
    }

    fn sort(&mut self, rulebook: &Rulebook, approval: &Approval) {
        let Some(ended) = &approval.ended else {
            return;
        };
        let by = &ended.ending.by;
        match by.role {
            Role::Operator => match decided(rulebook, approval) {
                Some(decided) => self.by_hand.push(decided),
                None => self.others += 1,
            },
            Role::Host if ended.ending.verdict.is_some() => self.settled += 1,
            Role::Host | Role::Observer | Role::Agent(_) => self.others += 1,
        }
    }
}

/// What a person decided about an ask that rules can speak of.
fn decided(rulebook: &Rulebook, approval: &Approval) -> Option<Decided> {
    let (ask, ended) = (&approval.ask, approval.ended.as_ref()?);
    let outcome = ended.ending.outcome;
    if !matches!(
        outcome,
        Outcome::Allowed | Outcome::Denied | Outcome::Answered
    ) {
        return None;
    }
    let unread = Unread {
        tool: ask.tool.clone()?,
        input: ask.input.clone(),
        cwd: ask.cwd.clone(),
        project: None,
    };
    let input = ask.input.as_ref().map_or("", |input| input.text());
    let cwd = ask.cwd.as_deref().unwrap_or_default();
    Some(Decided {
        words: format!("{}\n{cwd}\n{input}", unread.tool),
        id: ask.id.clone(),
        outcome,
        edited: ended.ending.edited_input.is_some(),
        by: ended.ending.by.clone(),
        at: ended.at,
        assessed: Assessed::read(rulebook, &unread),
    })
}

fn backtest(
    history: &dyn History,
    rulebook: &Rulebook,
    rules: &RuleSet,
    limit: usize,
) -> std::result::Result<Backtest, StoreError> {
    let past = Past::read(history, rulebook, limit)?;
    let mut test = Backtest {
        examined: past.by_hand.len(),
        already_settled_by_rules: past.settled,
        skipped_by_others: past.others,
        ..Backtest::default()
    };
    for decided in past.by_hand {
        let verdict = decided.assessed.judged_by(rules);
        if !is_settled(&verdict) {
            continue;
        }
        test.settled += 1;
        if agrees(&decided, verdict.effect) {
            test.agreed += 1;
        } else if test.contradicted.len() < CONTRADICTIONS_MAX {
            test.contradicted.push(Contradiction {
                approval: decided.id,
                decided: decided.outcome,
                by: decided.by,
                verdict,
            });
        }
    }
    Ok(test)
}

/// Whether the rule settles it. The floor denies without any rule, and that is not its work.
fn is_settled(verdict: &Verdict) -> bool {
    match verdict.effect {
        Effect::Allow => true,
        Effect::Ask => false,
        Effect::Deny => {
            let denied = |part: &countersign_rules::VerdictPart| {
                part.effect == Effect::Deny && part.rule.is_some()
            };
            verdict.parts.iter().any(denied)
        }
    }
}

/// Who changed the input before allowing it did not want it as it was asked.
fn agrees(decided: &Decided, effect: Effect) -> bool {
    match effect {
        Effect::Allow => decided.outcome == Outcome::Allowed && !decided.edited,
        Effect::Deny => decided.outcome == Outcome::Denied,
        Effect::Ask => false,
    }
}

fn mine(history: &dyn History, rulebook: &Rulebook) -> std::result::Result<Vec<Mined>, StoreError> {
    let past = Past::read(history, rulebook, LOOKED_AT)?;
    let (allowed, others): (Vec<_>, Vec<_>) = past
        .by_hand
        .into_iter()
        .partition(|decided| agrees(decided, Effect::Allow));
    let mut found: HashMap<String, Mined> = HashMap::new();
    let mut offered: HashMap<&str, BTreeSet<String>> = HashMap::new();
    for decided in &allowed {
        // What was asked in the same words before gets the same rules.
        let known = offered.contains_key(decided.words.as_str());
        if !known && offered.len() >= DISTINCT_MAX {
            continue;
        }
        let rules = offered.entry(&decided.words).or_insert_with(|| {
            let candidates = decided.assessed.suggest_alone(rulebook);
            let rules = candidates.into_iter().map(|candidate| candidate.rule);
            rules.collect()
        });
        for rule in rules.iter() {
            count(&mut found, rule, decided);
        }
    }
    let mut mined: Vec<Mined> = found
        .into_values()
        .filter(|mined| mined.allowed >= MINED_TIMES)
        .collect();
    mined.sort_by(|a, b| (b.allowed, b.last_at, &a.rule).cmp(&(a.allowed, a.last_at, &b.rule)));
    mined.retain(|mined| !others.iter().any(|other| covers(&mined.rule, other)));
    mined.truncate(MINED_MAX);
    Ok(mined)
}

fn count(found: &mut HashMap<String, Mined>, rule: &str, decided: &Decided) {
    let mined = found.entry(rule.to_owned()).or_insert_with(|| Mined {
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
fn covers(rule: &str, decided: &Decided) -> bool {
    let Ok(entry) = parse_rule(Effect::Allow, rule) else {
        return true;
    };
    let mut rules = RuleSet::default();
    rules.insert(entry);
    let verdict = decided.assessed.judged_by(&rules);
    verdict
        .parts
        .iter()
        .any(|part| part.effect == Effect::Allow)
}
