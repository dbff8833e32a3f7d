//! The hierarchy of agents: which orchestrator started which agent. A parent is set when its child is
//! spawned and never changes.

use std::collections::BTreeMap;

use crate::agent::Agent;
use crate::event::{
    AgentCeilingChanged, MessageRepeated, ParentMessage, ParentMessageWithdrawn, ParentNotified,
    QuestionEscalated,
};
use crate::ids::{AgentId, GrantId, Timestamp};
use crate::limits::{HIERARCHY_DEPTH_MAX, NOTE_KEYS_MAX};
use crate::managed::{ManagedAgent, RunState};

use super::{DeadlineTarget, State};
impl State {
    /// The orchestrator that started an agent, if one did.
    pub fn parent_of(&self, agent: &AgentId) -> Option<&AgentId> {
        let managed = self.agents.get(agent)?.managed.as_ref()?;
        managed.options.parent.as_ref()
    }

    /// Everybody above an agent, the nearest first.
    pub fn ancestors_of(&self, agent: &AgentId) -> impl Iterator<Item = &AgentId> {
        std::iter::successors(self.parent_of(agent), |above| self.parent_of(above))
            // Spawning keeps to this depth; here it also ends a loop in a damaged record.
            .take(HIERARCHY_DEPTH_MAX)
    }

    /// Whether `ancestor` is an orchestrator somewhere above `agent`. Nobody is above itself.
    pub fn is_ancestor(&self, ancestor: &AgentId, agent: &AgentId) -> bool {
        self.find_orchestrator(ancestor).is_some()
            && ancestor != agent
            && self.ancestors_of(agent).any(|above| above == ancestor)
    }

    /// Everybody below an agent, by id.
    pub fn descendants_of(&self, agent: &AgentId) -> Vec<&Agent> {
        let mut children: BTreeMap<&AgentId, Vec<&Agent>> = BTreeMap::new();
        for child in self.agents.values() {
            if let Some(parent) = self.parent_of(child.id()) {
                children.entry(parent).or_default().push(child);
            }
        }
        let mut found: BTreeMap<&AgentId, &Agent> = BTreeMap::new();
        let mut next = vec![agent];
        while let Some(above) = next.pop() {
            // Taken out as it is visited, so that a loop in a damaged record ends.
            for child in children.remove(above).into_iter().flatten() {
                if found.insert(child.id(), child).is_none() {
                    next.push(child.id());
                }
            }
        }
        found.into_values().collect()
    }

    /// What is known of an orchestrator.
    pub fn find_orchestrator(&self, id: &AgentId) -> Option<&ManagedAgent> {
        let managed = self.agents.get(id)?.managed.as_deref()?;
        managed.is_orchestrator().then_some(managed)
    }

    /// The parent of an agent, if it can be told something.
    pub(crate) fn listening_parent(&self, agent: &AgentId) -> Option<&AgentId> {
        let parent = self.parent_of(agent)?;
        let managed = self.find_orchestrator(parent)?;
        // One that is being stopped is left out: a message in its queue would start it again.
        let listens = matches!(
            managed.run_state,
            RunState::Requested | RunState::Launched | RunState::Ready
        );
        listens.then_some(parent)
    }

    /// The agent that an ask was allowed to start.
    pub fn find_started_by(&self, approval: &crate::ids::ApprovalId) -> Option<&Agent> {
        self.agents.values().find(|agent| {
            let managed = agent.managed.as_ref();
            managed.is_some_and(|managed| managed.options.allowed_by.as_ref() == Some(approval))
        })
    }

    /// Grants that an orchestrator made under its ceiling.
    pub(crate) fn ceiling_grants(&self, agent: &AgentId) -> impl Iterator<Item = &GrantId> {
        let made = self.grants.iter();
        made.filter(move |(_, grant)| grant.grant.ceiling.as_ref() == Some(agent))
            .map(|(id, _)| id)
    }
}

/// Changing.
impl State {
    pub(super) fn apply_parent_notified(&mut self, at: Timestamp, event: &ParentNotified) {
        let Some(key) = event.key.clone() else { return };
        self.edit_managed(&event.agent, at, |managed| {
            managed.note_keys.push_back(key);
            let surplus = managed.note_keys.len().saturating_sub(NOTE_KEYS_MAX);
            managed.note_keys.drain(..surplus);
        });
    }

    pub(super) fn apply_message_repeated(&mut self, at: Timestamp, event: &MessageRepeated) {
        self.edit_managed(&event.agent, at, |managed| {
            let mut waiting = managed.queue.iter_mut();
            let said = waiting.find(|message| message.is_note(&event.from, &event.text));
            if let Some(ParentMessage::Note { times, .. }) =
                said.and_then(|said| said.parent_message.as_mut())
            {
                *times = times.saturating_add(1);
            }
        });
    }

    pub(super) fn apply_parent_message_withdrawn(
        &mut self,
        at: Timestamp,
        event: &ParentMessageWithdrawn,
    ) {
        self.edit_managed(&event.agent, at, |managed| {
            managed
                .queue
                .retain(|message| !message.is_question(&event.question));
        });
    }

    pub(super) fn apply_question_escalated(&mut self, event: &QuestionEscalated) {
        let Some(question) = self.questions.get_mut(&event.question) else {
            return;
        };
        question.escalated = true;
        let (changed, at) = (question.clone(), question.text.escalates_at);
        self.changed.rest.questions.push(changed);
        if let Some(at) = at {
            let what = DeadlineTarget::Escalation(event.question.clone());
            self.deadlines.remove(&(at, what));
        }
    }

    pub(super) fn apply_ceiling(&mut self, at: Timestamp, event: &AgentCeilingChanged) {
        let before = self.find_managed(&event.agent);
        let before = before.and_then(|(_, managed)| ceiling_end(managed));
        self.edit_managed(&event.agent, at, |managed| {
            managed.ceiling.clone_from(&event.ceiling);
        });
        // `edit_managed` keeps only the deadline of the turn up to date.
        let after = event.ceiling.as_ref().and_then(|ceiling| ceiling.until);
        self.move_ceiling(&event.agent, before, after);
    }

    pub(super) fn move_ceiling(
        &mut self,
        agent: &AgentId,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) {
        if let Some(at) = from {
            let what = DeadlineTarget::Ceiling(agent.clone());
            self.deadlines.remove(&(at, what));
        }
        if let Some(at) = to {
            let what = DeadlineTarget::Ceiling(agent.clone());
            self.deadlines.insert((at, what));
        }
    }
}

/// When what an orchestrator may settle ends.
pub(super) fn ceiling_end(managed: &ManagedAgent) -> Option<Timestamp> {
    managed.ceiling.as_ref()?.until
}
