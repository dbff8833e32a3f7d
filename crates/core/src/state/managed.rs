//! Managed agents: what became of them, and what they are owed.

use std::sync::Arc;

use crate::agent::Agent;
use crate::approval::Approval;
use crate::event::{
    AgentArchived, AgentConfigured, AgentExited, AgentLaunched, AgentProfile, AgentReady,
    AgentRenamed, AgentReported, AgentRunRequested, AgentSpawned, AnswerDelivery, ApprovalOutcome,
    BaseState, MessageQueued, MessageWithdrawn, PassUsed, PromptMessage, SpawnOptions, TokenUsage,
    TranscriptAdded, TurnEnded, TurnInterrupted, TurnStarted, WorktreeChanged,
};
use crate::ids::{AgentId, Seq, Timestamp};
use crate::limits::PASSES_MAX;
use crate::managed::{AllowedActions, Duty, ManagedAgent, Pass, RunState, Turn, duties};

use super::{DeadlineTarget, State};
impl State {
    /// What is owed for one agent.
    pub fn duties_of(&self, agent: &AgentId) -> Vec<Duty> {
        let owed = self
            .owed
            .get(agent)
            .into_iter()
            .flat_map(|owed| owed.values());
        self.agents
            .get(agent)
            .map_or_else(Vec::new, |agent| duties(agent, owed.cloned()))
    }

    /// Agents that have, or are about to have, a process.
    pub fn live_agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values().filter(|agent| {
            let managed = agent.managed.as_ref();
            managed.is_some_and(|managed| managed.is_live())
        })
    }

    /// What an agent is known as if the host runs it.
    pub(crate) fn find_managed(&self, id: &AgentId) -> Option<(&Agent, &ManagedAgent)> {
        let agent = self.agents.get(id)?;
        Some((agent, agent.managed.as_deref()?))
    }

    /// Answers that an agent is being told.
    pub(crate) fn owed_to(&self, agent: &AgentId) -> impl Iterator<Item = &Approval> {
        self.owed
            .get(agent)
            .into_iter()
            .flat_map(|owed| owed.values())
    }

    /// An earlier ask of the agent for the same input that was allowed, and whose answer may or may
    /// not have reached the agent.
    pub(crate) fn find_unknown_twin(&self, agent: &AgentId, digest: &str) -> Option<&Approval> {
        self.recent.iter().rev().find(|approval| {
            // Nearly always false, so it is compared first.
            approval.delivery == AnswerDelivery::Unknown
                && approval.ask.agent.as_ref() == Some(agent)
                && approval.ask.input_digest.as_deref() == Some(digest)
                && approval
                    .ended
                    .as_ref()
                    .is_some_and(|ended| ended.ending.outcome == ApprovalOutcome::Allowed)
        })
    }
}

/// Changing.
impl State {
    pub(super) fn apply_spawned(&mut self, at: Timestamp, event: &AgentSpawned) {
        self.put_agent(Agent {
            profile: event.agent.clone(),
            base: BaseState::Starting,
            current_task: None,
            owner: event.by.key.clone(),
            client: None,
            lapses_at: None,
            bypass_until: None,
            managed: Some(Arc::new(ManagedAgent::new(event.options.clone(), at))),
            registered_at: at,
            updated_at: at,
        });
    }

    pub(super) fn apply_run_requested(&mut self, at: Timestamp, event: &AgentRunRequested) {
        self.edit_managed(&event.agent, at, |managed| {
            // Session, worktree and queue stay: the run continues where the last one ended.
            managed.run = event.run;
            managed.run_state = RunState::Requested;
            managed.process = None;
            managed.ended_at = None;
            managed.message = None;
        });
    }

    pub(super) fn apply_worktree_changed(&mut self, at: Timestamp, event: &WorktreeChanged) {
        self.edit_managed(&event.agent, at, |managed| {
            managed.worktree.clone_from(&event.worktree);
        });
    }

    pub(super) fn apply_launched(&mut self, at: Timestamp, event: &AgentLaunched) {
        self.edit_managed(&event.agent, at, |managed| {
            // The runner is recorded before its process exists, so that a host that is killed in between
            // can find what it started.
            if managed.run_state == RunState::Requested && event.process.is_some() {
                managed.run_state = RunState::Launched;
            }
            managed.process = event.process;
            managed.runner = event.runner.clone();
            managed.sandbox.clone_from(&event.sandbox);
        });
    }

    pub(super) fn apply_ready(&mut self, at: Timestamp, event: &AgentReady) {
        self.edit_managed(&event.agent, at, |managed| {
            // A session may still open after the agent was told to stop; it stops all the same.
            if managed.run_state != RunState::Stopping {
                managed.run_state = RunState::Ready;
            }
            managed.session = Some(event.session.clone());
            managed.resumable = event.resumable;
        });
    }

    pub(super) fn apply_stop_requested(&mut self, at: Timestamp, agent: &AgentId) {
        self.edit_managed(agent, at, |managed| managed.run_state = RunState::Stopping);
    }

    pub(super) fn apply_exited(&mut self, at: Timestamp, event: &AgentExited) {
        self.edit_managed(&event.agent, at, |managed| {
            // The queue stays: its messages may start the next run.
            managed.run_state = RunState::Gone;
            managed.process = None;
            managed.turn = None;
            managed.forget_allowed();
            managed.allowed = AllowedActions::default();
            managed.ended_at = Some(at);
            managed.message = Some(event.message.clone());
        });
    }

    pub(super) fn apply_renamed(&mut self, at: Timestamp, event: &AgentRenamed) {
        if let Some(mut agent) = self.agents.get(&event.agent).cloned() {
            agent.profile = Arc::new(AgentProfile {
                name: event.name.clone(),
                ..AgentProfile::clone(&agent.profile)
            });
            // Only operators rename agents.
            if let Some(managed) = &mut agent.managed {
                Arc::make_mut(managed).has_operator_name = true;
            }
            agent.updated_at = at;
            self.put_agent(agent);
        }
    }

    pub(super) fn apply_archived(&mut self, at: Timestamp, event: &AgentArchived) {
        self.edit_managed(&event.agent, at, |managed| {
            managed.archived = event.archived;
        });
    }

    pub(super) fn apply_configured(&mut self, at: Timestamp, event: &AgentConfigured) {
        self.edit_managed(&event.agent, at, |managed| {
            // Counted, so that choosing the same mode again is sent again: the agent may have left
            // it.
            managed.configured += 1;
            let options = SpawnOptions::clone(&managed.options);
            managed.options = Arc::new(SpawnOptions {
                mode: event.mode.clone().or(options.mode),
                model: event.model.clone().or(options.model),
                ..options
            });
        });
    }

    pub(super) fn apply_reported(&mut self, at: Timestamp, event: &AgentReported) {
        let event = event.clone();
        self.edit_managed(&event.agent, at, |managed| {
            managed.mode = event.mode.or(managed.mode.take());
            managed.model = event.model.or(managed.model.take());
            managed.title = event.title.or(managed.title.take());
            managed.offers = event.offers.or(std::mem::take(&mut managed.offers));
            if let Some(plan) = event.plan {
                managed.plan = plan;
            }
            if let Some(usage) = event.usage {
                add_usage_report(managed, usage);
            }
        });
    }

    pub(super) fn apply_message_queued(&mut self, at: Timestamp, event: &MessageQueued) {
        self.edit_managed(&event.agent, at, |managed| {
            managed.messages += 1;
            managed.queue.push_back(PromptMessage {
                number: managed.messages,
                ..event.message.clone()
            });
        });
    }

    pub(super) fn apply_message_withdrawn(&mut self, at: Timestamp, event: &MessageWithdrawn) {
        self.edit_managed(&event.agent, at, |managed| {
            managed
                .queue
                .retain(|message| message.number != event.number);
        });
    }

    pub(super) fn apply_messages_dropped(&mut self, at: Timestamp, agent: &AgentId) {
        self.edit_managed(agent, at, |managed| managed.queue.clear());
    }

    pub(super) fn apply_turn_started(&mut self, at: Timestamp, event: &TurnStarted) {
        self.edit_managed(&event.agent, at, |managed| {
            let count = (event.messages as usize).min(managed.queue.len());
            managed.turns = event.turn;
            // A pass counts only in the turn in which it was given.
            managed.forget_allowed();
            managed.turn = Some(Turn {
                number: event.turn,
                messages: managed.queue.drain(..count).collect(),
                started_at: at,
                deadline: event.deadline,
                interrupted: false,
                calls: Vec::new(),
            });
        });
    }

    pub(super) fn apply_turn_interrupted(&mut self, at: Timestamp, event: &TurnInterrupted) {
        self.edit_managed(&event.agent, at, |managed| {
            if let Some(turn) = &mut managed.turn {
                turn.interrupted = true;
                turn.deadline = event.deadline;
            }
            // Nothing more starts in an interrupted turn, not even what was allowed before.
            managed.forget_allowed();
        });
    }

    pub(super) fn apply_turn_ended(&mut self, at: Timestamp, event: &TurnEnded) {
        self.edit_managed(&event.agent, at, |managed| {
            managed.turn = None;
            managed.forget_allowed();
            managed.allowed = AllowedActions::default();
            if let Some(usage) = event.usage {
                managed.used = managed.used.plus(usage);
            }
        });
    }

    pub(super) fn apply_transcript_added(&mut self, at: Timestamp, event: &TranscriptAdded) {
        self.edit_managed(&event.agent, at, |managed| {
            let turn = managed.turn.as_mut();
            if let Some(turn) = turn.filter(|turn| turn.number == event.turn) {
                for entry in &event.entries {
                    turn.record_entry(entry);
                }
            }
        });
    }

    pub(super) fn apply_pass_used(&mut self, at: Timestamp, event: &PassUsed) {
        self.edit_managed(&event.agent, at, |managed| {
            // One of them only: the same thing allowed twice is two passes.
            let used = managed
                .passes
                .iter()
                .position(|pass| pass.approval == event.approval && pass.digest == event.digest);
            if let Some(used) = used {
                managed.passes.remove(used);
            }
            managed.cover(event.covers.clone());
        });
    }

    /// What an ask stands for may run once it is allowed, and may have run from then on.
    pub(super) fn note_allowed(&mut self, at: Timestamp, approval: &Approval) {
        let ended = approval.ended.as_ref();
        let allowed = ended.is_some_and(|ended| ended.ending.outcome == ApprovalOutcome::Allowed);
        let (Some(agent), Some(_)) = (&approval.ask.agent, &approval.ask.request) else {
            return;
        };
        if !allowed {
            return;
        }
        self.edit_managed(&agent.clone(), at, |managed| {
            let passes = approval.ask.passes.iter().map(|digest| Pass {
                approval: approval.ask.id.clone(),
                digest: digest.clone(),
            });
            managed.passes.extend(passes);
            // The oldest go. A request whose pass is gone is asked again, which is safe.
            let surplus = managed.passes.len().saturating_sub(PASSES_MAX);
            managed.passes.drain(..surplus);
            managed.allowed.add(&approval.ask.action);
        });
    }

    /// An answer is on its way to a managed agent.
    pub(super) fn mark_owed(&mut self, opened: Seq) {
        let Some(approval) = self.find_recent(opened).cloned() else {
            return;
        };
        self.put_owed(approval);
    }

    pub(super) fn put_owed(&mut self, approval: Approval) {
        if let (Some(agent), Some(_)) = (&approval.ask.agent, &approval.ask.request) {
            let owed = self.owed.entry(agent.clone()).or_default();
            owed.insert(approval.opened, approval);
        }
    }

    /// It arrived, or never will.
    pub(super) fn settle_owed(&mut self, opened: Seq) {
        // The event names no agent; few agents are owed anything, so all of them are searched.
        self.owed.retain(|_, owed| {
            owed.remove(&opened);
            !owed.is_empty()
        });
    }

    pub(super) fn edit_managed(
        &mut self,
        id: &AgentId,
        at: Timestamp,
        change: impl FnOnce(&mut ManagedAgent),
    ) {
        let Some(agent) = self.agents.get_mut(id) else {
            return;
        };
        let Some(managed) = &mut agent.managed else {
            return;
        };
        // Every change of a managed agent comes through here, so that none forgets the deadline's
        // index.
        let before = turn_deadline(managed);
        let managed = Arc::make_mut(managed);
        change(managed);
        managed.last_activity = at;
        let after = turn_deadline(managed);
        self.changed.agents.insert(id.clone());
        self.move_turn_deadline(id, before, after);
    }

    pub(super) fn move_turn_deadline(
        &mut self,
        id: &AgentId,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) {
        if let Some(at) = from {
            self.deadlines
                .remove(&(at, DeadlineTarget::Turn(id.clone())));
        }
        if let Some(at) = to {
            self.deadlines
                .insert((at, DeadlineTarget::Turn(id.clone())));
        }
    }
}

/// When the host ends an agent's turn, or the agent itself. One that is being ended has no more time
/// to run out of.
pub(super) fn turn_deadline(managed: &ManagedAgent) -> Option<Timestamp> {
    let turn = managed.turn.as_ref();
    let turn = turn.filter(|_| managed.run_state != RunState::Stopping);
    turn.and_then(|turn| turn.deadline)
}

/// What a session used only rises; less than before means that it is counted from the beginning
/// again.
fn add_usage_report(managed: &mut ManagedAgent, usage: TokenUsage) {
    let before = managed.session_usage;
    if usage.cost_micro_usd < before.cost_micro_usd && usage.cost_micro_usd.is_some() {
        let over = TokenUsage {
            cost_micro_usd: before.cost_micro_usd,
            ..TokenUsage::default()
        };
        managed.used = managed.used.plus(over);
    }
    managed.session_usage = latest_usage(before, usage);
}

fn latest_usage(before: TokenUsage, after: TokenUsage) -> TokenUsage {
    TokenUsage {
        tokens_in: after.tokens_in.or(before.tokens_in),
        tokens_out: after.tokens_out.or(before.tokens_out),
        cost_micro_usd: after.cost_micro_usd.or(before.cost_micro_usd),
        context_used: after.context_used.or(before.context_used),
        context_size: after.context_size.or(before.context_size),
    }
}
