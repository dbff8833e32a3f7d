//! What becomes of the requests that an earlier host left.
//!
//! Invariant: a request whose ask is no longer open is cancelled, never served.

use std::collections::HashSet;
use std::sync::Arc;

use countersign_core::{AgentId, ApprovalId, Duty, ManagedAgent};

use super::{ClientRequests, is_terminal_request};
use crate::driver::agent_connection::RequestKey;
use crate::driver::connection_state::WaitingRequest;
use crate::service::Service;
use crate::supervisor::StateView;

/// The asks that the record still knows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::driver) struct RecordedAsks {
    /// They are open, or their answer is a duty.
    waiting: HashSet<ApprovalId>,
    /// An earlier ask allowed them.
    covered: HashSet<ApprovalId>,
}

impl RecordedAsks {
    /// The asks of one agent.
    pub(in crate::driver) async fn load(service: &Service, agent: &AgentId) -> Self {
        let agent = agent.clone();
        let read = service.read_state(move |view| Self::find(view, &agent));
        // If the loop does not answer, no ask counts as open: its request is cancelled, not served.
        read.await.unwrap_or_default()
    }

    /// What was covered as of when the run was taken up counts as well.
    pub(in crate::driver) fn with_covered(mut self, managed: &ManagedAgent) -> Self {
        self.covered.extend(managed.covered.iter().cloned());
        self
    }

    fn find(view: StateView<'_>, agent: &AgentId) -> Self {
        let state = view.state;
        let mut waiting: HashSet<ApprovalId> = state
            .open_approvals()
            .filter(|open| open.ask.agent.as_ref() == Some(agent))
            .map(|open| open.ask.id.clone())
            .collect();
        for duty in state.duties_of(agent) {
            if let Duty::Answer(approval) = duty {
                waiting.insert(approval.ask.id.clone());
            }
        }
        let managed = state
            .find_agent(agent)
            .and_then(|agent| agent.managed.as_ref());
        let covered = managed.map(|managed| managed.covered.iter().cloned().collect());
        Self {
            waiting,
            covered: covered.unwrap_or_default(),
        }
    }
}

impl ClientRequests {
    /// Continues with the requests that an earlier host left: those that were allowed are served,
    /// those that wait for a decision go on waiting, the others are cancelled.
    pub(in crate::driver) fn resume(
        self: &Arc<Self>,
        left: Vec<WaitingRequest>,
        asks: &RecordedAsks,
    ) {
        for waiting in left {
            self.resume_one(waiting, asks);
        }
    }

    fn resume_one(self: &Arc<Self>, waiting: WaitingRequest, asks: &RecordedAsks) {
        let request = RequestKey {
            id: waiting.request,
            line: waiting.line,
        };
        match (waiting.ask, waiting.want) {
            // The earlier host may have served it; to repeat one of these does no harm.
            (None, Some(want)) if is_terminal_request(&want) => self.serve_terminal(request, want),
            // Its answer comes as a duty, sooner or later.
            (Some(ask), _) if asks.waiting.contains(&ask) => {}
            (Some(ask), Some(_)) if asks.covered.contains(&ask) => {
                self.serve_covered(request, &ask);
            }
            (_, Some(_)) => self.cancel(request, "the host was replaced"),
            (Some(ask), None) => self.cancel_ask(&request.id, &ask),
            (None, None) => {}
        }
    }
}
