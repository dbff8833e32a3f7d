//! What the host wants of the editor for one agent, across as many hosts as it takes.
//!
//! Invariant: a call is given once. While this runs, the host knows that the editor is there.

use countersign_agents::editor::{SessionEvent, SessionFact};
use countersign_agents::{EditorAbilities, EditorCall};
use countersign_protocol::{EditorCallsParams, method};
use tokio::sync::{mpsc, oneshot};

use crate::client::{CallError, HostClient, HostEndpoint};
use crate::reconnect::{RetryLimit, is_lost, reconnect};

/// See the module.
pub(super) struct EditorCallFeed {
    pub(super) endpoint: HostEndpoint,
    pub(super) session: String,
    /// What this process calls itself.
    pub(super) editor_id: String,
    pub(super) serves: EditorAbilities,
    pub(super) facts: mpsc::Sender<(String, SessionFact)>,
    /// Dropped as soon as the host knows that the editor is there, or refused it.
    pub(super) announced: Option<oneshot::Sender<()>>,
}

impl EditorCallFeed {
    /// Gives calls until nobody wants them, or the host refuses: then it knows of no editor, and what it wanted of
    /// one fails.
    pub(super) async fn run(mut self) {
        let mut after = 0;
        let mut connected = HostClient::connect(&self.endpoint).await;
        loop {
            let error = match &mut connected {
                Ok(client) => match self.serve(client, &mut after).await {
                    Some(error) => error.into(),
                    None => return,
                },
                Err(_) => match connected {
                    Err(error) => error,
                    Ok(_) => return,
                },
            };
            if !is_lost(&error) {
                return;
            }
            connected = reconnect(&self.endpoint, RetryLimit::Unlimited).await;
        }
    }

    /// Nothing if nobody wants the calls any more.
    async fn serve(&mut self, client: &mut HostClient, after: &mut u64) -> Option<CallError> {
        loop {
            let params = EditorCallsParams {
                agent_id: self.session.clone(),
                editor_id: self.editor_id.clone(),
                terminals: self.serves.terminals,
                files: self.serves.files,
                after: *after,
                // The first time only to say that the editor is there.
                wait_ms: self.announced.is_some().then_some(0),
            };
            let calls = match client.call::<method::EditorCalls>(&params).await {
                Ok(calls) => calls,
                Err(error) => return Some(error),
            };
            self.announced = None;
            for row in calls {
                *after = row.id.max(*after);
                // One that a newer host words differently is not answered, and its caller gives up.
                let Ok(call) = serde_json::from_str::<EditorCall>(row.call.text()) else {
                    continue;
                };
                let event = SessionEvent::Called { id: row.id, call };
                let fact = (self.session.clone(), SessionFact::Event(event));
                self.facts.send(fact).await.ok()?;
            }
        }
    }
}
