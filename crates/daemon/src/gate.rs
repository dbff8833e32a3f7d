//! The gate: what the rules and the grants in memory say of an ask.
//!
//! Assessing an ask costs most and needs neither grants nor state, so it is done outside the loop.
//! Grants change from input to input, so an ask is judged inside the loop, against the very state
//! that the decision is made from. Invariant: the grants here are those of the state.

mod assessed_ask;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use countersign_core::event::{Effect, Grant};
use countersign_core::{
    AgentId, AskJudgment, AskerScope, DelegationVerdict, Event, GrantId, State, Timestamp,
};
use countersign_rules::{
    EntryKey, LayerAllows, LayerView, RuleEntry, RuleOrigin, RuleSet, Verdict,
};

use crate::rulebook::DirRules;

use assessed_ask::AncestorAssessment;
pub(crate) use assessed_ask::{AskFacts, AssessedAsk};

/// How often an ask is judged again because a grant had too few uses left. Each time at least one more
/// grant is left out; an ask that needs more rounds waits for a person.
const SPENT_MAX: usize = 8;

/// The grants of the state as rules.
#[derive(Default)]
pub(crate) struct Gate {
    rules: RuleSet,
    keys: HashMap<GrantId, EntryKey>,
    /// Those with a number of uses.
    counted: HashSet<GrantId>,
    /// Grants that ask or deny and cannot be read: while there is one, nothing is allowed by rule.
    unreadable: BTreeMap<GrantId, String>,
}

impl Gate {
    /// The grants of a state.
    pub(crate) fn from_state(state: &State) -> Self {
        let mut gate = Self::default();
        for grant in state.grants() {
            gate.insert(&grant.grant);
        }
        gate
    }

    /// Follows an event that was applied to the state.
    pub(crate) fn apply_event(&mut self, event: &Event) {
        match event {
            Event::GrantCreated(e) => self.insert(&e.grant),
            Event::GrantRemoved(e) => self.remove(&e.grant),
            _ => {}
        }
    }

    /// Some grants as rules.
    pub(crate) fn rules_of(grants: &[Arc<Grant>]) -> RuleSet {
        let mut gate = Self::default();
        for grant in grants {
            gate.insert(grant);
        }
        gate.rules
    }

    fn insert(&mut self, grant: &Grant) {
        let id = grant.id.clone();
        match RuleEntry::parse(grant.effect, &grant.rule, RuleOrigin::grant(id.clone())) {
            Ok(entry) => {
                let key = self.rules.insert(entry);
                self.keys.insert(id.clone(), key);
                if grant.uses.is_some() {
                    self.counted.insert(id);
                }
            }
            Err(error) => {
                tracing::error!(grant = %id, %error, "a grant cannot be read");
                // An allow that cannot be read allows nothing, which is what its absence means.
                if grant.effect > Effect::Allow {
                    let message = format!("grant `{}` cannot be read: {error}", grant.rule);
                    self.unreadable.insert(id, message);
                }
            }
        }
    }

    fn remove(&mut self, id: &GrantId) {
        self.unreadable.remove(id);
        self.counted.remove(id);
        if let Some(key) = self.keys.remove(id) {
            self.rules.remove(key);
        }
    }

    /// What all rules say of an ask at this instant. Grants with a number of uses are looked at
    /// only if nothing else allows it, and then only those that have enough of them left.
    pub(crate) fn judge(
        &self,
        state: &State,
        assessed: &AssessedAsk,
        agent: Option<&AgentId>,
        now: Timestamp,
    ) -> AskJudgment {
        let asking = AskerScope {
            agent,
            project: assessed.rules.project.as_deref(),
        };
        let names = RuleNames::of_agent(state, agent, now);
        let judge = |leaves_out: &dyn Fn(&GrantId) -> bool| {
            let counts = |id: &GrantId| !leaves_out(id) && state.grant_counts(id, asking, now);
            self.judge_with(&counts, &names, assessed)
        };
        // Without the counted grants first: where anything else allows, no use is spent.
        let mut verdict = judge(&|id| self.counted.contains(id));
        if verdict.effect == Effect::Ask && !self.counted.is_empty() {
            // Which grant allows which part follows from the judgement, so it has to be judged
            // first and judged again without those that would be used more often than they may.
            let mut spent: Vec<GrantId> = Vec::new();
            for _ in 0..SPENT_MAX {
                verdict = judge(&|id| spent.contains(id));
                let more = overspent_grants(state, &verdict);
                if more.is_empty() {
                    break;
                }
                spent.extend(more);
            }
        }
        // Whatever an orchestrator may not do itself, it must not have done by an agent it started.
        for ancestor in &assessed.ancestors {
            let there = self.judge_for_ancestor(state, assessed, ancestor, asking, now);
            if there.effect > verdict.effect {
                verdict = there;
            }
        }
        AskJudgment {
            verdict: Arc::new(verdict),
            cwd: assessed.cwd.clone(),
            project: assessed.rules.project.clone(),
        }
    }

    /// What counts for an ancestor of an agent counts for the agent too. What allows the agent alone
    /// still does.
    fn judge_for_ancestor(
        &self,
        state: &State,
        assessed: &AssessedAsk,
        ancestor: &AncestorAssessment,
        asking: AskerScope<'_>,
        now: Timestamp,
    ) -> Verdict {
        let parent = AskerScope {
            agent: Some(&ancestor.agent),
            project: asking.project,
        };
        let mut names = RuleNames::of_agent(state, asking.agent, now);
        names.extend(RuleNames::of_agent(state, Some(&ancestor.agent), now));
        let is_for = |entry: &RuleEntry| names.admit(entry);
        let counts = |entry: &RuleEntry| {
            let grant = entry.origin.grant.as_ref();
            grant.is_some_and(|id| {
                state.grant_counts(id, asking, now) || state.grant_counts(id, parent, now)
            })
        };
        let grants = LayerView {
            rules: &self.rules,
            admits: &counts,
            allows: &self.grants_allow(&ancestor.rules),
        };
        ancestor.judge_ask(assessed, &is_for, grants)
    }

    /// What counts for the answer of an orchestrator to an ask: its ceiling as it is now, and what the
    /// rules say of its own doing the same.
    pub(crate) fn judge_delegate(
        &self,
        state: &State,
        assessed: &AssessedAsk,
        orchestrator: &AgentId,
        now: Timestamp,
    ) -> DelegationVerdict {
        let managed = state.find_orchestrator(orchestrator);
        let ceiling = managed.and_then(|managed| managed.ceiling_at(now));
        let rules = ceiling.map(|ceiling| ceiling.rules.iter());
        let mut held = RuleSet::default();
        // A rule that cannot be read allows nothing.
        let readable = rules
            .into_iter()
            .flatten()
            .filter_map(|rule| RuleEntry::parse(Effect::Allow, rule, RuleOrigin::ceiling()).ok());
        for entry in readable {
            held.insert(entry);
        }
        let own = self.judge(state, assessed, Some(orchestrator), now);
        DelegationVerdict {
            by_ceiling: assessed.judge_by(&held).effect,
            to_itself: own.verdict.effect,
        }
    }

    fn judge_with(
        &self,
        counts: &dyn Fn(&GrantId) -> bool,
        names: &RuleNames,
        assessed: &AssessedAsk,
    ) -> Verdict {
        let is_for = |entry: &RuleEntry| names.admit(entry);
        let counts = |entry: &RuleEntry| entry.origin.grant.as_ref().is_some_and(counts);
        let grants = LayerView {
            rules: &self.rules,
            admits: &counts,
            allows: &self.grants_allow(&assessed.rules),
        };
        assessed.judge_layers(&assessed.layers(&is_for, grants))
    }

    fn grants_allow(&self, rules: &DirRules) -> LayerAllows {
        let unreadable = self.unreadable.values().next();
        let reason = rules.suspended.as_ref().or(unreadable);
        match reason {
            Some(reason) => LayerAllows::Suspended(reason.clone()),
            None => LayerAllows::Count,
        }
    }
}

/// Grants that would have to allow more parts than they may.
fn overspent_grants(state: &State, verdict: &Verdict) -> Vec<GrantId> {
    let mut times: BTreeMap<&GrantId, u32> = BTreeMap::new();
    for grant in verdict.grants() {
        *times.entry(grant).or_default() += 1;
    }
    let spent = times.into_iter().filter(|(id, times)| {
        let left = state.find_grant(id).and_then(|grant| grant.uses_left);
        verdict.effect == Effect::Allow && left.is_some_and(|left| left < *times)
    });
    spent.map(|(id, _)| id.clone()).collect()
}

/// The names by which rules are for an agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleNames {
    /// Those that operators gave it.
    given: Vec<String>,
    /// Those that count only for rules that ask or deny: an orchestrator may have chosen them.
    restricting: Vec<String>,
}

impl RuleNames {
    pub(crate) fn of_agent(state: &State, agent: Option<&AgentId>, now: Timestamp) -> Self {
        let Some(agent) = agent else {
            return Self::default();
        };
        let given = state.operator_names_of(agent, now);
        Self {
            given: given.map(str::to_owned).collect(),
            restricting: state
                .managed_name_of(agent)
                .map(str::to_owned)
                .into_iter()
                .collect(),
        }
    }

    fn extend(&mut self, other: Self) {
        self.given.extend(other.given);
        self.restricting.extend(other.restricting);
    }

    /// Whether a rule of a file is for everybody, or for an agent with these names.
    fn admit(&self, entry: &RuleEntry) -> bool {
        let is_for = |names: &[String]| names.iter().any(|name| entry.is_for(Some(name)));
        entry.is_for(None)
            || is_for(&self.given)
            || (entry.effect > Effect::Allow && is_for(&self.restricting))
    }
}
