//! Tokens, marks of processes, and what was erased.

use crate::event::{ProcessMarked, ProcessesForgotten, RecordRedacted, TokenCreated, TokenRenewed};
use crate::ids::{Seq, Timestamp, TokenId};
use crate::principal::Role;
use crate::snapshot::{AccessToken, ProcessMark};

use super::State;

impl State {
    pub(super) fn apply_token_created(&mut self, at: Timestamp, event: &TokenCreated) {
        let token = AccessToken {
            id: event.token.clone(),
            role: event.role.clone(),
            name: event.name.clone(),
            hash: event.hash.clone(),
            created_at: at,
            expires_at: event.expires_at,
            device: event.device.clone(),
            last_seen: event.device.is_some().then_some(at),
        };
        self.changed
            .rest
            .tokens
            .push((token.id.clone(), Some(token.clone())));
        self.put_token(token);
    }

    pub(super) fn apply_token_renewed(&mut self, at: Timestamp, event: &TokenRenewed) {
        let Some(token) = self.tokens.get_mut(&event.token) else {
            return;
        };
        token.expires_at = Some(event.expires_at);
        token.last_seen = Some(at);
        let renewed = Some(token.clone());
        self.changed
            .rest
            .tokens
            .push((event.token.clone(), renewed));
    }

    pub(super) fn put_token(&mut self, token: AccessToken) {
        self.tokens_by_hash
            .insert(token.hash.clone(), token.id.clone());
        if let Role::Agent(agent) = &token.role {
            let tokens = self.tokens_by_agent.entry(agent.clone()).or_default();
            tokens.insert(token.id.clone());
        }
        self.tokens.insert(token.id.clone(), token);
    }

    pub(super) fn remove_token(&mut self, id: &TokenId) {
        if let Some(token) = self.tokens.remove(id) {
            self.tokens_by_hash.remove(&token.hash);
            if let Role::Agent(agent) = &token.role
                && let Some(tokens) = self.tokens_by_agent.get_mut(agent)
            {
                tokens.remove(id);
                if tokens.is_empty() {
                    self.tokens_by_agent.remove(agent);
                }
            }
            self.changed.rest.tokens.push((id.clone(), None));
        }
    }

    pub(super) fn apply_marked(&mut self, event: &ProcessMarked) {
        self.marks.insert(event.process, event.agent.clone());
        let rest = &mut self.changed.rest;
        // The store adds marks before it removes some, so a mark that came back within one commit must
        // not be among those to remove.
        rest.marks_removed
            .retain(|removed| *removed != event.process);
        rest.marks_added.push(ProcessMark {
            process: event.process,
            agent: event.agent.clone(),
        });
    }

    pub(super) fn apply_forgotten(&mut self, event: &ProcessesForgotten) {
        for process in &event.processes {
            self.marks.remove(process);
            let rest = &mut self.changed.rest;
            rest.marks_added.retain(|added| added.process != *process);
            rest.marks_removed.push(*process);
        }
    }

    pub(super) fn apply_redacted(&mut self, event: &RecordRedacted) {
        self.recent.retain(|approval| {
            approval.opened != event.seq
                && approval
                    .ended
                    .as_ref()
                    .is_none_or(|ended| ended.seq != event.seq)
        });
        self.recount_recent();
        self.changed.rest.redacted.push(event.seq);
    }

    pub(super) fn apply_pruned(&mut self, before: Seq) {
        self.recent.retain(|approval| approval.opened >= before);
        self.recount_recent();
        let pruned_before = &mut self.changed.rest.pruned_before;
        *pruned_before = (*pruned_before).max(Some(before));
    }
}
