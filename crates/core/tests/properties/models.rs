//! Read models as any store must keep them: changes go in, a snapshot comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_core::event::{AnswerDelivery, Device, ProcessKey};
use countersign_core::limits::RECENT_ENDED_KEPT;
use countersign_core::{
    AccessToken, Agent, AgentId, Approval, CommitChanges, DeviceId, GrantId, GrantState,
    PrincipalKey, ProcessMark, Question, Seq, Snapshot, TokenId,
};

#[derive(Default)]
pub(crate) struct Models {
    head: Seq,
    agents: BTreeMap<AgentId, Agent>,
    approvals: BTreeMap<Seq, Approval>,
    questions: BTreeMap<Seq, Question>,
    devices: BTreeMap<DeviceId, Arc<Device>>,
    tokens: BTreeMap<TokenId, AccessToken>,
    marks: BTreeMap<ProcessKey, AgentId>,
    grants: BTreeMap<GrantId, GrantState>,
    trusted: BTreeMap<String, String>,
}

impl Models {
    pub(crate) fn find_keyed_question(
        &self,
        principal: &PrincipalKey,
        key: &str,
    ) -> Option<&Question> {
        self.questions.values().find(|question| {
            let text = &question.text;
            text.by.key == *principal && text.key.as_deref() == Some(key)
        })
    }

    pub(crate) fn write(&mut self, head: Seq, changes: CommitChanges) {
        self.head = head;
        for (id, agent) in changes.agents {
            put(&mut self.agents, id, agent);
        }
        for approval in changes.approvals {
            self.approvals.insert(approval.opened, approval);
        }
        for change in changes.answers {
            if let Some(approval) = self.approvals.get_mut(&change.opened) {
                approval.delivery = change.delivery;
                approval.deliveries = change.deliveries.unwrap_or(approval.deliveries);
            }
        }
        for opened in changes.dismissed {
            if let Some(approval) = self.approvals.get_mut(&opened) {
                approval.dismissed = true;
            }
        }
        for question in changes.questions {
            self.questions.insert(question.opened, question);
        }
        for device in changes.devices {
            self.devices.insert(device.id.clone(), device);
        }
        for (id, token) in changes.tokens {
            put(&mut self.tokens, id, token);
        }
        for mark in changes.marks_added {
            self.marks.insert(mark.process, mark.agent);
        }
        for process in changes.marks_removed {
            self.marks.remove(&process);
        }
        for (id, grant) in changes.grants {
            put(&mut self.grants, id, grant);
        }
        self.trusted.extend(changes.trusted);
        for seq in changes.redacted {
            self.erase(|event| event == seq);
        }
        if let Some(before) = changes.pruned_before {
            self.erase(|event| event < before);
        }
    }

    /// A row leaves with either of its events. What is open is never erased, so a store that is
    /// told to do so has found a fault.
    fn erase(&mut self, gone: impl Fn(Seq) -> bool) {
        self.approvals.retain(|opened, approval| {
            let erased = gone(*opened) || approval.ended.as_ref().is_some_and(|end| gone(end.seq));
            assert!(!erased || !approval.is_pending(), "an open ask was erased");
            !erased
        });
        self.questions.retain(|opened, question| {
            assert!(
                !gone(*opened) || !question.is_pending(),
                "an open question was erased"
            );
            !gone(*opened)
        });
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let approvals = self.approvals.values();
        let (open, mut ended): (Vec<_>, Vec<_>) = approvals
            .filter(|approval| !approval.dismissed)
            .cloned()
            .partition(Approval::is_pending);
        let undelivered = self.approvals.values().filter(|approval| {
            approval.delivery == AnswerDelivery::Attempted && approval.ask.request.is_some()
        });
        let undelivered = undelivered.cloned().collect();
        ended.sort_by_key(|approval| approval.ended.as_ref().map(|end| end.seq));
        Snapshot {
            head: self.head,
            agents: self.agents.values().cloned().collect(),
            open_approvals: open,
            recent_approvals: ended.split_off(ended.len().saturating_sub(RECENT_ENDED_KEPT)),
            undelivered,
            open_questions: self
                .questions
                .values()
                .filter(|question| question.is_pending())
                .cloned()
                .collect(),
            devices: self.devices.values().cloned().collect(),
            tokens: self.tokens.values().cloned().collect(),
            marks: self
                .marks
                .iter()
                .map(|(process, agent)| ProcessMark {
                    process: *process,
                    agent: agent.clone(),
                })
                .collect(),
            grants: self.grants.values().cloned().collect(),
            trusted: self.trusted.clone().into_iter().collect(),
            checkpoints: Vec::new(),
        }
    }

    pub(crate) fn find_keyed(&self, principal: &PrincipalKey, key: &str) -> Option<&Approval> {
        self.approvals
            .values()
            .rev()
            .find(|approval| approval.answers_key(principal, key))
    }

    pub(crate) fn find_approval(&self, id: &countersign_core::ApprovalId) -> Option<&Approval> {
        self.approvals
            .values()
            .find(|approval| approval.ask.id == *id)
    }
}

fn put<K: Ord, V>(table: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => table.insert(key, value),
        None => table.remove(&key),
    };
}
