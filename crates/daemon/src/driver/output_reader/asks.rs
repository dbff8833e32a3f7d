//! Asks: what an agent wants to do enters the loop, with everything that it said before.

use countersign_agents::adapter::{
    ClientRequest, ClientRequestError, PermissionAnswer, PermissionAsk, RequestId,
};
use countersign_core::limits::{CLIENT_REQUESTS_MAX, MANAGED_ASK_TIMEOUT_MS};
use countersign_core::{APPROVE, ApprovalId, AskRequest, DENY, Json, ManagedAsk};

use crate::crash;
use crate::ids::new_approval_id;
use crate::reply::{CommandReply, ServiceError};

use super::OutputReader;
use crate::driver::agent_connection::{LinkLost, OpenRequest, RequestKey};
use crate::driver::client_requests::is_terminal_request;
use crate::driver::request_description::RequestDescription;
use crate::driver::request_digest;

/// Why an ask was not opened.
enum AskError {
    /// The loop refused it.
    Refused(ServiceError),
    /// Nobody knows what became of it.
    Lost,
}

impl OutputReader {
    pub(super) async fn handle_permission_ask(
        &mut self,
        ask: PermissionAsk,
    ) -> Result<(), LinkLost> {
        self.in_turn = true;
        let folder = &self.parts.requests.workspace().folder;
        let own = ManagedAsk {
            request: ask.request.0.clone(),
            passes: ask
                .binds
                .iter()
                .map(|bound| request_digest::digest(bound, folder))
                .collect(),
            takes_denial_message: ask.takes_denial_message,
            can_edit: ask.can_edit,
            ..ManagedAsk::default()
        };
        let approve = ask.can_allow.then_some(APPROVE);
        let request = AskRequest {
            tool_call: Some(ask.tool_call),
            tool: ask.tool,
            input: ask.input,
            details: ask.details,
            options: approve
                .into_iter()
                .chain([DENY])
                .map(str::to_owned)
                .collect(),
            ..self.ask_request(ask.title, own)
        };
        let id = request.id.clone();
        let open = OpenRequest {
            line: ask.line,
            ask: Some(id.clone()),
            want: None,
            opened: None,
            started: false,
        };
        // Known before it is asked: a rule may answer at once, and the answer must find the
        // request.
        self.parts
            .connection
            .lock()
            .add_request(ask.request.clone(), open);
        match self.submit_ask(request).await {
            Ok(_) => Ok(()),
            Err(AskError::Refused(error)) => {
                self.deny_unasked(&ask.request, &id, &error);
                Ok(())
            }
            Err(AskError::Lost) => Err(LinkLost),
        }
    }

    /// An ask that the loop refused to open is denied, with the reason.
    fn deny_unasked(&self, request: &RequestId, ask: &ApprovalId, error: &ServiceError) {
        let answer = PermissionAnswer::Deny {
            message: Some(format!("permission could not be requested: {error}")),
            stop: false,
        };
        let connection = &self.parts.connection;
        let sent = connection.lock().refuse(request, ask, answer);
        connection.confirm_when_written(sent);
    }

    /// Handles a request for a file or a terminal. Using a terminal that was opened needs no
    /// permission; everything else is asked.
    pub(super) async fn handle_client_request(
        &mut self,
        id: RequestId,
        line: u64,
        want: ClientRequest,
    ) -> Result<(), LinkLost> {
        let requests = self.parts.requests.clone();
        let request = RequestKey { id, line };
        if is_terminal_request(&want) {
            requests.add(&request, None, &want, None);
            requests.serve_terminal(request, want);
            return Ok(());
        }
        // Counted before it is described: describing opens the file, which this bounds.
        let asked = self.parts.connection.lock().count_asked_requests();
        let described = if asked >= CLIENT_REQUESTS_MAX {
            let message = "too many requests wait for an answer".to_owned();
            Err(ClientRequestError::Failed(message))
        } else {
            requests.workspace().describe(want.clone()).await
        };
        match described {
            Ok(described) => self.ask_for_request(request, want, described).await,
            Err(error) => {
                requests.add(&request, None, &want, None);
                requests.send_response(request, Err(error));
                Ok(())
            }
        }
    }

    async fn ask_for_request(
        &mut self,
        request: RequestKey,
        want: ClientRequest,
        described: RequestDescription,
    ) -> Result<(), LinkLost> {
        let requests = self.parts.requests.clone();
        let own = ManagedAsk {
            request: request.id.0.clone(),
            takes_denial_message: true,
            covered_by: described.covered_by,
            ..ManagedAsk::default()
        };
        let ask = AskRequest {
            tool: Some(described.tool.to_owned()),
            input: Json::from_value(&described.input).ok(),
            tool_call: Some(format!("request {}", request.id.0)),
            ..self.ask_request(described.action, own)
        };
        let id = ask.id.clone();
        requests.add(&request, Some(id.clone()), &want, Some(described.opened));
        match self.submit_ask(ask).await {
            Ok(CommandReply::Covered(_)) => requests.serve_covered(request, &id),
            // Its answer comes as a duty.
            Ok(_) => {}
            Err(AskError::Refused(error)) => {
                let message = format!("permission could not be requested: {error}");
                requests.send_response(request, Err(ClientRequestError::NotPermitted(message)));
            }
            Err(AskError::Lost) => return Err(LinkLost),
        }
        Ok(())
    }

    /// Submits an ask, with settlements of earlier answers and how far the output was read. The next
    /// line waits for this commit: nothing may overtake an ask that could not be committed.
    async fn submit_ask(&mut self, request: AskRequest) -> Result<CommandReply, AskError> {
        let before = self.take_inputs();
        let snapshot = self.snapshot_unless_partial();
        let checkpoint = snapshot.as_ref().map(|snapshot| self.checkpoint(snapshot));
        crash::point("ask_heard");
        let service = &self.parts.service;
        let asked = match service.send_ask(request, before, checkpoint).await {
            Ok(asked) => asked.accepted().await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(reply) => {
                crash::point("ask_accepted");
                self.acknowledge(snapshot);
                crash::point("ask_acknowledged");
                Ok(reply)
            }
            // The loop has decided, so the agent can be told. Any other error may be the store's;
            // the line is then read again over the next link.
            Err(error @ ServiceError::Rejected(_)) => Err(AskError::Refused(error)),
            Err(error) => {
                tracing::warn!(agent = %self.parts.key.agent, %error, "an ask was not recorded");
                Err(AskError::Lost)
            }
        }
    }

    /// What every ask of this agent has in common.
    fn ask_request(&mut self, action: String, own: ManagedAsk) -> AskRequest {
        let timeout = self.parts.ask_timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS);
        let folder = &self.parts.requests.workspace().folder;
        AskRequest {
            agent: Some(self.parts.key.agent.clone()),
            system_level: true,
            timeout_ms: (timeout > 0).then_some(timeout),
            cwd: Some(folder.to_string_lossy().into_owned()),
            managed: Some(Box::new(ManagedAsk {
                run: self.parts.key.number,
                entries: self.transcript.take(),
                ..own
            })),
            ..AskRequest::new(self.parts.caller.clone(), new_approval_id(), action)
        }
    }
}
