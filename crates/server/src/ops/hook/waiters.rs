//! What hooks share while the host runs: which asks the prompts of tools have claimed, and the lock
//! under which sessions are registered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign_core::limits::{HOOK_CLAIMS_KEPT, HOOK_JOIN_MS};
use countersign_core::{ApprovalId, Caller};
use tokio_util::task::TaskTracker;

use crate::ServerState;

#[derive(Default)]
pub(crate) struct HookWaiters {
    claims: Mutex<VecDeque<(ApprovalId, String)>>,
    /// Held while a session is registered, so that its first two hooks register one agent.
    pub(super) registering: tokio::sync::Mutex<()>,
    pub(super) tasks: TaskTracker,
}

impl HookWaiters {
    /// Claims an ask for the prompt with this request id. False if another prompt has claimed it.
    pub(super) fn claim(&self, approval: &ApprovalId, request: &str) -> bool {
        let mut claims = self.claims();
        let earlier = claims.iter().find(|(claimed, _)| claimed == approval);
        if let Some((_, by)) = earlier {
            return by == request;
        }
        // A claim matters for `HOOK_JOIN_MS` only, and the oldest are long past that.
        if claims.len() == HOOK_CLAIMS_KEPT {
            claims.pop_front();
        }
        claims.push_back((approval.clone(), request.to_owned()));
        true
    }

    /// Whether another prompt than this one has claimed the ask.
    pub(super) fn is_claimed(&self, approval: &ApprovalId, request: &str) -> bool {
        let claims = self.claims();
        claims
            .iter()
            .any(|(claimed, by)| claimed == approval && by != request)
    }

    fn claims(&self) -> std::sync::MutexGuard<'_, VecDeque<(ApprovalId, String)>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves an ask open for the prompt of its tool, and withdraws it if no prompt claims it in
    /// time: an answer would then reach nobody.
    pub(super) fn leave_to_prompt(state: &Arc<ServerState>, caller: Caller, approval: ApprovalId) {
        let waiting = state.clone();
        state.hook_waiters.tasks.spawn(async move {
            let state = waiting;
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(HOOK_JOIN_MS)) => {}
                () = state.shutdown.cancelled() => return,
            }
            if !state.hook_waiters.is_claimed(&approval, "") {
                withdraw(&state, caller, approval, "it was left to the terminal").await;
            }
        });
    }
}

/// Withdraws an ask. One that ended meanwhile stays as it ended.
pub(super) async fn withdraw(
    state: &ServerState,
    caller: Caller,
    approval: ApprovalId,
    message: &str,
) {
    let withdrawn = state
        .service
        .cancel_approval(caller, approval, Some(message.to_owned()));
    drop(withdrawn.await);
}

/// What becomes of an ask whose hook leaves before it has an answer.
#[derive(Clone, Copy)]
pub(super) enum AbandonedAsk {
    IsWithdrawn,
    /// The tool's own prompt takes it over, or it is withdrawn after all.
    IsLeftToPrompt,
}

/// Withdraws an ask, or leaves it to the prompt, when it is dropped before the wait for the ask has
/// ended.
pub(super) struct HookWaiter {
    left: Option<(Arc<ServerState>, Caller, ApprovalId)>,
    abandoned: AbandonedAsk,
}

impl HookWaiter {
    pub(super) fn new(
        state: &Arc<ServerState>,
        caller: &Caller,
        approval: &ApprovalId,
        abandoned: AbandonedAsk,
    ) -> Self {
        Self {
            left: Some((state.clone(), caller.clone(), approval.clone())),
            abandoned,
        }
    }

    /// The wait or the host has ended, and the ask stays as it is.
    pub(super) fn stays(mut self) {
        self.left = None;
    }
}

impl Drop for HookWaiter {
    fn drop(&mut self) {
        let Some((state, caller, approval)) = self.left.take() else {
            return;
        };
        // A host that ends drops its waiters too. The ask stays open, and the hook sends its
        // request to the next host.
        if state.shutdown.is_cancelled() {
            return;
        }
        if matches!(self.abandoned, AbandonedAsk::IsLeftToPrompt) {
            HookWaiters::leave_to_prompt(&state, caller, approval);
            return;
        }
        let tasks = state.hook_waiters.tasks.clone();
        tasks.spawn(async move {
            let message = "the session no longer waits for an answer";
            withdraw(&state, caller, approval, message).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_keeps_what_it_claimed_and_others_do_not_get_it() {
        let waiters = HookWaiters::default();
        let one = ApprovalId::new("approval-1");
        assert!(!waiters.is_claimed(&one, ""));
        assert!(waiters.claim(&one, "a"));
        assert!(waiters.claim(&one, "a"));
        assert!(!waiters.claim(&one, "b"));
        assert!(waiters.is_claimed(&one, "b"));
        assert!(!waiters.is_claimed(&one, "a"));
        for number in 0..HOOK_CLAIMS_KEPT {
            assert!(waiters.claim(&ApprovalId::new(format!("other-{number}")), "c"));
        }
        assert!(!waiters.is_claimed(&one, "b"));
    }
}
