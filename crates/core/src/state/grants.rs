//! Grants, and which of them count; trusted rule files; bypasses.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{AgentBypassChanged, Effect, Grant, GrantCreated, GrantUse, RulesTrusted};
use crate::grant::{AskerScope, GrantState};
use crate::ids::{AgentId, GrantId, Timestamp};

use super::{DeadlineTarget, State};
impl State {
    /// Grants by id.
    pub fn grants(&self) -> impl ExactSizeIterator<Item = &GrantState> {
        self.grants.values()
    }
    pub fn find_grant(&self, id: &GrantId) -> Option<&GrantState> {
        self.grants.get(id)
    }

    /// The names that operators gave an agent: those of live tokens made for it, and the name of one
    /// that the host runs. Never a name that an agent chose, for itself or for its child: it could
    /// choose one for which a person allowed something.
    pub fn operator_names_of(&self, agent: &AgentId, now: Timestamp) -> impl Iterator<Item = &str> {
        let tokens = self.tokens_by_agent.get(agent).into_iter().flatten();
        let run = self
            .find_managed(agent)
            .filter(|(_, managed)| managed.has_operator_name);
        tokens
            .filter_map(|id| self.tokens.get(id))
            .filter(move |token| token.expires_at.is_none_or(|end| now < end))
            .map(|token| token.name.as_str())
            .chain(run.map(|(agent, _)| agent.profile.name.as_str()))
    }

    /// The name of an agent that the host runs, whoever chose it. What asks or denies by name counts for
    /// it: whoever writes such a rule sees the agent under this name.
    pub fn managed_name_of(&self, agent: &AgentId) -> Option<&str> {
        let (agent, _) = self.find_managed(agent)?;
        Some(&agent.profile.name)
    }

    /// Whether a grant counts at this instant for whoever asks, at least once.
    pub fn grant_counts(&self, id: &GrantId, asking: AskerScope<'_>, now: Timestamp) -> bool {
        self.grants.get(id).is_some_and(|grant| {
            !grant.has_expired(now) && grant.has_left(1) && self.is_in_scope(grant, asking, now)
        })
    }

    fn is_in_scope(&self, grant: &GrantState, asking: AskerScope<'_>, now: Timestamp) -> bool {
        let scope = &grant.grant.scope;
        let named = scope.agent.as_ref().is_none_or(|name| {
            asking.agent.is_some_and(|agent| {
                let restricts = grant.grant.effect > Effect::Allow;
                (restricts && self.managed_name_of(agent) == Some(name))
                    || self
                        .operator_names_of(agent, now)
                        .any(|given| given == name)
            })
        });
        let here = scope
            .project
            .as_ref()
            .is_none_or(|project| asking.project == Some(project));
        // An agent that has ended stays listed, but its session is over.
        let session = scope.session.as_ref().is_none_or(|session| {
            let agent = self.agents.get(session);
            asking.agent == Some(session) && agent.is_some_and(|agent| !agent.base.is_terminal())
        });
        named && here && session && self.has_labels(asking.agent, &scope.labels)
    }

    /// Whether an agent has all of these labels. Only agents that the host runs have any.
    fn has_labels(&self, agent: Option<&AgentId>, labels: &BTreeMap<String, String>) -> bool {
        let managed = agent
            .and_then(|agent| self.agents.get(agent))
            .and_then(|agent| agent.managed.as_ref());
        labels.iter().all(|(key, value)| {
            managed.is_some_and(|managed| managed.options.labels.get(key) == Some(value))
        })
    }

    /// A grant that says the same as this one and was not used up in part.
    pub(crate) fn find_equal_grant(&self, wanted: &Grant) -> Option<&GrantState> {
        let same_rule = self.grants_by_rule.get(&wanted.rule)?;
        let mut found = same_rule.iter().filter_map(|id| self.grants.get(id));
        found.find(|found| {
            let grant = &found.grant;
            (grant.effect, &grant.scope) == (wanted.effect, &wanted.scope)
                && (grant.expires_at, grant.uses) == (wanted.expires_at, wanted.uses)
                // One that was used in part is another: whoever makes it again wants the full
                // number of uses.
                && found.uses_left == wanted.uses
        })
    }

    /// The grants that end with an agent.
    pub(crate) fn session_grants(&self, agent: &AgentId) -> impl Iterator<Item = &GrantId> {
        self.session_grants.get(agent).into_iter().flatten()
    }

    /// Rule files that were trusted, each with the digest of the content that was trusted last.
    pub fn trusted_files(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.trusted
            .iter()
            .map(|(file, digest)| (file.as_str(), digest.as_str()))
    }
}

/// Changing.
impl State {
    pub(super) fn apply_grant_created(&mut self, at: Timestamp, event: &GrantCreated) {
        self.changed.grants.insert(event.grant.id.clone());
        self.put_grant(GrantState {
            grant: event.grant.clone(),
            created_at: at,
            uses_left: event.grant.uses,
            fired: 0,
            last_used: None,
        });
    }

    pub(super) fn put_grant(&mut self, state: GrantState) {
        let grant = &state.grant;
        let id = grant.id.clone();
        self.grants_by_rule
            .entry(grant.rule.clone())
            .or_default()
            .insert(id.clone());
        if let Some(session) = &grant.scope.session {
            let grants = self.session_grants.entry(session.clone()).or_default();
            grants.insert(id.clone());
        }
        if let Some(end) = grant.expires_at {
            self.deadlines
                .insert((end, DeadlineTarget::Grant(id.clone())));
        }
        self.grants.insert(id, state);
    }

    pub(super) fn remove_grant(&mut self, id: &GrantId) {
        let Some(state) = self.grants.remove(id) else {
            return;
        };
        self.changed.grants.insert(id.clone());
        let grant = &state.grant;
        remove_from_index(&mut self.grants_by_rule, &grant.rule, id);
        if let Some(session) = &grant.scope.session {
            remove_from_index(&mut self.session_grants, session, id);
        }
        if let Some(end) = grant.expires_at {
            self.deadlines
                .remove(&(end, DeadlineTarget::Grant(id.clone())));
        }
    }

    /// Only what a grant allows is counted against its uses.
    pub(super) fn apply_grant_used(&mut self, at: Timestamp, used: &GrantUse) {
        let Some(grant) = self.grants.get_mut(&used.grant) else {
            return;
        };
        grant.fired += u64::from(used.times);
        grant.last_used = Some(at);
        if grant.grant.effect == Effect::Allow {
            grant.uses_left = grant.uses_left.map(|left| left.saturating_sub(used.times));
        }
        self.changed.grants.insert(used.grant.clone());
    }

    pub(super) fn apply_bypass(&mut self, at: Timestamp, event: &AgentBypassChanged) {
        let Some(agent) = self.agents.get_mut(&event.agent) else {
            return;
        };
        let earlier = std::mem::replace(&mut agent.bypass_until, event.until);
        agent.updated_at = at;
        self.changed.agents.insert(event.agent.clone());
        self.move_bypass(&event.agent, earlier, event.until);
    }

    pub(super) fn move_bypass(
        &mut self,
        agent: &AgentId,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) {
        if let Some(from) = from {
            self.deadlines
                .remove(&(from, DeadlineTarget::Bypass(agent.clone())));
        }
        if let Some(to) = to {
            self.deadlines
                .insert((to, DeadlineTarget::Bypass(agent.clone())));
        }
    }

    pub(super) fn apply_trusted(&mut self, event: &RulesTrusted) {
        let (file, digest) = (event.file.clone(), event.digest.clone());
        self.changed
            .rest
            .trusted
            .push((file.clone(), digest.clone()));
        self.trusted.insert(file, digest);
    }
}

fn remove_from_index<K: std::hash::Hash + Eq>(
    index: &mut std::collections::HashMap<K, BTreeSet<GrantId>>,
    key: &K,
    id: &GrantId,
) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}
