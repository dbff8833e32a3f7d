//! What hooks need to know of each other while the host runs: which tool call has asked at its own
//! terminal by now, and who is just being registered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign_core::limits::{HOOK_CLAIMS_KEPT, HOOK_JOIN_MS};
use countersign_core::{ApprovalId, Caller};
use tokio_util::task::TaskTracker;

use crate::ServerState;

/// Shared by all hooks of a host.
#[derive(Default)]
pub(crate) struct HookWaiters {
    claims: Mutex<VecDeque<(ApprovalId, String)>>,
    /// Held while a session is registered, so that its first two hooks make one agent.
    pub(super) registering: tokio::sync::Mutex<()>,
    pub(super) tasks: TaskTracker,
}

impl HookWaiters {
    /// Takes an ask for the prompt of one tool call. False if another prompt has it.
    pub(super) fn claim(&self, approval: &ApprovalId, request: &str) -> bool {
        let mut claims = self.claims();
        let earlier = claims.iter().find(|(claimed, _)| claimed == approval);
        if let Some((_, by)) = earlier {
            return by == request;
        }
        if claims.len() == HOOK_CLAIMS_KEPT {
            claims.pop_front();
        }
        claims.push_back((approval.clone(), request.to_owned()));
        true
    }

    /// Whether a prompt other than this one has the ask.
    pub(super) fn is_claimed(&self, approval: &ApprovalId, request: &str) -> bool {
        let claims = self.claims();
        claims
            .iter()
            .any(|(claimed, by)| claimed == approval && by != request)
    }

    fn claims(&self) -> std::sync::MutexGuard<'_, VecDeque<(ApprovalId, String)>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hook has left the ask to its tool's own prompt. If that does not come and wait for the same
    /// ask, nobody is there to hear an answer.
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

/// Takes an ask back. One that ended meanwhile stays as it ended.
pub(super) async fn withdraw(
    state: &ServerState,
    caller: Caller,
    approval: ApprovalId,
    words: &str,
) {
    let withdrawn = state
        .service
        .cancel_approval(caller, approval, Some(words.to_owned()));
    drop(withdrawn.await);
}

/// Takes the ask back if whoever waits for it leaves before it was answered.
pub(super) struct Waiter {
    left: Option<(Arc<ServerState>, Caller, ApprovalId)>,
}

impl Waiter {
    pub(super) fn new(state: &Arc<ServerState>, caller: &Caller, approval: &ApprovalId) -> Self {
        Self {
            left: Some((state.clone(), caller.clone(), approval.clone())),
        }
    }

    /// The wait is over, or the host is: the ask stays.
    pub(super) fn stays(mut self) {
        self.left = None;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let Some((state, caller, approval)) = self.left.take() else {
            return;
        };
        // A host that ends drops its waiters too; the next one is asked again.
        if state.shutdown.is_cancelled() {
            return;
        }
        let tasks = state.hook_waiters.tasks.clone();
        tasks.spawn(async move {
            let words = "the session no longer waits for an answer";
            withdraw(&state, caller, approval, words).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_keeps_what_it_claimed_and_others_do_not_get_it() {
        let desk = HookWaiters::default();
        let one = ApprovalId::new("approval-1");
        assert!(!desk.is_claimed(&one, ""));
        assert!(desk.claim(&one, "a"));
        assert!(desk.claim(&one, "a"));
        assert!(!desk.claim(&one, "b"));
        assert!(desk.is_claimed(&one, "b"));
        assert!(!desk.is_claimed(&one, "a"));
        for number in 0..HOOK_CLAIMS_KEPT {
            assert!(desk.claim(&ApprovalId::new(format!("other-{number}")), "c"));
        }
        assert!(!desk.is_claimed(&one, "b"));
    }
}
