//! Asking: an ask of an agent enters the loop, with all that came before it.

use std::sync::Arc;

use countersign_agents::adapter::{PermissionAnswer, PermissionAsk, RequestId};
use countersign_core::limits::MANAGED_ASK_TIMEOUT_MS;
use countersign_core::{APPROVE, ApprovalId, AskRequest, DENY, ManagedAsk};

use crate::crash;
use crate::ids::new_approval_id;
use crate::reply::{CommandReply, ServiceError};

use super::agent_connection::{LinkLost, OpenRequest};
use super::output_reader::OutputReader;
use super::request_digest;
use super::run::Run;

/// Why an ask did not come about.
pub(super) enum AskError {
    /// The loop said no.
    Refused(ServiceError),
    /// Nobody knows what became of it.
    Lost,
}

impl Run {
    pub(super) async fn handle_permission_ask(
        self: &Arc<Self>,
        ask: PermissionAsk,
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        reader.in_turn = true;
        let passes = ask.binds.iter();
        let passes = passes.map(|bound| request_digest::digest(bound, &self.folder));
        let options = [(ask.can_allow, APPROVE), (true, DENY)];
        let options = options.into_iter().filter(|(can, _)| *can);
        let own = ManagedAsk {
            request: ask.request.0.clone(),
            passes: passes.collect(),
            takes_denial_message: ask.takes_denial_message,
            can_edit: ask.can_edit,
            ..ManagedAsk::default()
        };
        let request = AskRequest {
            tool_call: Some(ask.tool_call),
            tool: ask.tool,
            input: ask.input,
            details: ask.details,
            options: options.map(|(_, option)| option.to_owned()).collect(),
            ..self.ask_request(ask.title, own, reader)
        };
        let id = request.id.clone();
        let open = OpenRequest {
            line: ask.line,
            ask: Some(id.clone()),
            want: None,
            opened: None,
            started: false,
        };
        self.connection().add_request(ask.request.clone(), open);
        match self.submit_ask(request, reader).await {
            Ok(_) => Ok(()),
            Err(AskError::Refused(error)) => {
                self.refuse(&ask.request, &id, &error.to_string());
                Ok(())
            }
            Err(AskError::Lost) => Err(LinkLost),
        }
    }

    /// An ask that cannot even be asked is denied, with the reason.
    fn refuse(self: &Arc<Self>, request: &RequestId, ask: &ApprovalId, why: &str) {
        let message = Some(format!("this could not be asked: {why}"));
        let stop = false;
        let answer = PermissionAnswer::Deny { message, stop };
        let sent = self.connection().refuse(request, ask, answer);
        self.confirm_when_written(sent);
    }

    /// Sends an ask into the loop, with what became of earlier answers and how far the agent was
    /// heard. What comes after it in the pipe waits for the commit: it must not overtake an ask that
    /// could not be committed.
    pub(super) async fn submit_ask(
        &self,
        request: AskRequest,
        reader: &mut OutputReader,
    ) -> Result<CommandReply, AskError> {
        let mut before = self.take_settlements();
        before.extend(self.reported(&mut reader.transcript));
        let mark = self.snapshot_unless_partial(reader);
        let checkpoint = mark.as_ref().map(|mark| self.checkpoint(mark));
        crash::point("ask_heard");
        let asked = match self.service.send_ask(request, before, checkpoint).await {
            Ok(asked) => asked.accepted().await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(reply) => {
                crash::point("ask_accepted");
                self.acknowledge(reader, mark);
                crash::point("ask_acknowledged");
                Ok(reply)
            }
            Err(error @ ServiceError::Rejected(_)) => Err(AskError::Refused(error)),
            Err(error) => {
                tracing::warn!(agent = %self.agent, %error, "an ask was not recorded");
                Err(AskError::Lost)
            }
        }
    }

    /// What every ask of this agent has in common.
    pub(super) fn ask_request(
        &self,
        action: String,
        own: ManagedAsk,
        reader: &mut OutputReader,
    ) -> AskRequest {
        let timeout = self.ask_timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS);
        AskRequest {
            agent: Some(self.agent.clone()),
            system_level: true,
            timeout_ms: (timeout > 0).then_some(timeout),
            cwd: Some(self.folder.to_string_lossy().into_owned()),
            managed: Some(Box::new(ManagedAsk {
                run: self.number,
                entries: reader.transcript.take(),
                ..own
            })),
            ..AskRequest::new(self.caller.clone(), new_approval_id(), action)
        }
    }
}
