//! Approvals: opened, ended, kept for a while.

use std::sync::Arc;

use crate::agent::OpenCounts;
use crate::approval::{Approval, ApprovalEnd};
use crate::event::{
    AnswerAttempted, AnswerDelivery, AnswerSettled, ApprovalAttached, ApprovalDismissed,
    ApprovalRequested, ApprovalResolved, Ask, AskAttachment,
};
use crate::ids::{AgentId, ApprovalId, ClientId, Seq, Timestamp};
use crate::limits::{RECENT_ENDED_BYTES_KEPT, RECENT_ENDED_KEPT};
use crate::snapshot::AnswerChange;

use super::connections::{hold, release};
use super::{DeadlineTarget, State, ask_key};

impl State {
    pub(super) fn apply_requested(&mut self, seq: Seq, at: Timestamp, event: &ApprovalRequested) {
        let ask = event.ask.clone();
        // What nothing ties to its connection must not end with it.
        let client = if ask.attachment == AskAttachment::None {
            None
        } else {
            ask.client.clone()
        };
        self.changed.approvals.insert(ask.id.clone());
        self.open_approval(Approval {
            ask,
            opened: seq,
            created_at: at,
            client,
            lapses_at: None,
            ended: None,
            delivery: AnswerDelivery::Waiting,
            deliveries: 0,
            dismissed: false,
        });
    }

    pub(super) fn open_approval(&mut self, approval: Approval) {
        let ask = approval.ask.clone();
        if let Some(agent) = &ask.agent {
            self.open.entry(agent.clone()).or_default().approvals += 1;
        }
        *self.open_bytes.entry(ask.agent.clone()).or_default() += ask.bytes();
        self.open_bytes_total += ask.bytes();
        if let Some(key) = ask_key(&ask) {
            self.ask_keys.insert(key, ask.id.clone());
        }
        if let Some(key) = &ask.idempotency_key {
            self.idempotency
                .insert((ask.by.key.clone(), key.clone()), ask.id.clone());
        }
        if let Some(deadline) = ask.deadline {
            self.deadlines
                .insert((deadline, DeadlineTarget::Approval(ask.id.clone())));
        }
        if let Some(client) = &approval.client {
            let held = hold(&mut self.held, &mut self.lapses, client, approval.lapses_at);
            held.approvals.insert(ask.id.clone());
        }
        self.approvals.insert(ask.id.clone(), approval);
    }

    pub(super) fn apply_resolved(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &ApprovalResolved,
    ) -> Option<Arc<Ask>> {
        let mut approval = self.approvals.remove(&event.approval)?;
        // `take_changes` looks for these among the open ones; the ended form is pushed below.
        self.changed.approvals.remove(&event.approval);
        let ask = approval.ask.clone();
        self.forget_open(&approval);
        approval.ended = Some(ApprovalEnd {
            ending: event.ending.clone(),
            seq,
            at,
        });
        approval.delivery = event.delivery;
        approval.lapses_at = None;
        self.changed.rest.approvals.push(approval.clone());
        self.note_allowed(at, &approval);
        self.keep_recent(approval);
        for used in &event.grants_used {
            self.apply_grant_used(at, used);
        }
        Some(ask)
    }

    pub(super) fn forget_open(&mut self, approval: &Approval) {
        // Whatever `open_approval` indexes has to leave here: a deadline that stayed would wake the
        // host again and again for nothing.
        let ask = &approval.ask;
        if let Some(agent) = &ask.agent {
            self.close_one(agent, |open| open.approvals -= 1);
        }
        self.release_bytes(ask);
        // A later ask for the same tool call may own the key by now.
        if let Some(key) = ask_key(ask)
            && self.ask_keys.get(&key) == Some(&ask.id)
        {
            self.ask_keys.remove(&key);
        }
        if let Some(key) = &ask.idempotency_key {
            self.idempotency.remove(&(ask.by.key.clone(), key.clone()));
        }
        if let Some(deadline) = ask.deadline {
            self.deadlines
                .remove(&(deadline, DeadlineTarget::Approval(ask.id.clone())));
        }
        if let Some(client) = &approval.client {
            release(&mut self.held, &mut self.lapses, client, |held| {
                held.approvals.remove(&ask.id);
            });
        }
    }

    /// Keeps the newest that ended, and at least the very newest.
    pub(super) fn keep_recent(&mut self, approval: Approval) {
        self.recent_bytes += approval.ask.bytes();
        self.recent.push_back(approval);
        // The newest stays whatever its size: the event that follows it records that its answer is
        // on its way, and an answer that is not in memory cannot be owed.
        while self.recent.len() > 1
            && (self.recent.len() > RECENT_ENDED_KEPT
                || self.recent_bytes > RECENT_ENDED_BYTES_KEPT)
        {
            let oldest = self.recent.pop_front();
            self.recent_bytes -= oldest.map_or(0, |oldest| oldest.ask.bytes());
        }
    }

    pub(super) fn recount_recent(&mut self) {
        self.recent_bytes = self
            .recent
            .iter()
            .map(|approval| approval.ask.bytes())
            .sum();
    }

    pub(super) fn release_bytes(&mut self, ask: &Ask) {
        self.open_bytes_total = self.open_bytes_total.saturating_sub(ask.bytes());
        if let Some(bytes) = self.open_bytes.get_mut(&ask.agent) {
            *bytes = bytes.saturating_sub(ask.bytes());
            if *bytes == 0 {
                self.open_bytes.remove(&ask.agent);
            }
        }
    }

    pub(super) fn close_one(&mut self, agent: &AgentId, close: impl FnOnce(&mut OpenCounts)) {
        if let Some(open) = self.open.get_mut(agent) {
            close(open);
            if *open == OpenCounts::default() {
                self.open.remove(agent);
            }
        }
    }

    pub(super) fn apply_attached(&mut self, event: &ApprovalAttached) {
        self.attach(&event.approval, Some(&event.client));
    }

    pub(super) fn attach(&mut self, id: &ApprovalId, to: Option<&ClientId>) {
        let Some(approval) = self.approvals.get_mut(id) else {
            return;
        };
        let from = std::mem::replace(&mut approval.client, to.cloned());
        approval.lapses_at = None;
        if let Some(from) = from {
            release(&mut self.held, &mut self.lapses, &from, |held| {
                held.approvals.remove(id);
            });
        }
        if let Some(to) = to {
            let held = hold(&mut self.held, &mut self.lapses, to, None);
            held.approvals.insert(id.clone());
        }
        self.changed.approvals.insert(id.clone());
    }

    pub(super) fn apply_dismissed(&mut self, event: &ApprovalDismissed) {
        self.recent
            .retain(|approval| approval.opened != event.opened);
        self.recount_recent();
        // Off the list, but still owed until its agent has the answer.
        let owed = self.owed.values_mut();
        for approval in owed.filter_map(|owed| owed.get_mut(&event.opened)) {
            approval.dismissed = true;
        }
        self.changed.rest.dismissed.push(event.opened);
    }

    pub(super) fn apply_attempted(&mut self, event: &AnswerAttempted) {
        if let Some(approval) = self.find_recent(event.opened) {
            approval.delivery = AnswerDelivery::Attempted;
            approval.deliveries = event.deliveries;
        }
        // After the change above, because what is owed is a copy of it.
        self.mark_owed(event.opened);
        self.changed.rest.answers.push(AnswerChange {
            opened: event.opened,
            delivery: AnswerDelivery::Attempted,
            deliveries: Some(event.deliveries),
        });
    }

    pub(super) fn apply_settled(&mut self, event: &AnswerSettled) {
        if let Some(approval) = self.find_recent(event.opened) {
            approval.delivery = event.delivery;
        }
        self.settle_owed(event.opened);
        let change = AnswerChange {
            opened: event.opened,
            delivery: event.delivery,
            deliveries: None,
        };
        self.changed.rest.answers.push(change);
    }

    pub(super) fn find_recent(&mut self, opened: Seq) -> Option<&mut Approval> {
        self.recent
            .iter_mut()
            .rev()
            .find(|approval| approval.opened == opened)
    }
}
