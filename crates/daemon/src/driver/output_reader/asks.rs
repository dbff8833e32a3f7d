//! Asks: what an agent wants to do enters the loop, with everything that it said before.

use countersign_agents::adapter::{
    ClientRequest, ClientRequestError, PermissionAnswer, PermissionAsk, RequestId,
};
use countersign_agents::runner::HeldTarget;
use countersign_core::limits::{CLIENT_REQUESTS_MAX, MANAGED_ASK_TIMEOUT_MS};
use countersign_core::{APPROVE, ApprovalId, AskRequest, DENY, Json, ManagedAsk};

use crate::ids::new_approval_id;
use crate::reply::{CommandReply, ServiceError};

use super::{OutputReader, ReadOutput};
use crate::driver::agent_connection::{OpenRequest, RequestKey};
use crate::driver::client_requests::is_terminal_request;
use crate::driver::request_description::RequestDescription;
use crate::driver::request_digest;

/// An ask that is submitted at the end of its line.
pub(super) struct QueuedAsk {
    pub(super) request: Box<AskRequest>,
    pub(super) subject: AskSubject,
}

/// What an ask is for, and so what follows if it is not opened.
pub(super) struct AskSubject {
    ask: ApprovalId,
    request: AskedRequest,
}

enum AskedRequest {
    Permission(RequestId),
    /// A file or a terminal.
    Client(RequestKey),
}

impl OutputReader {
    pub(super) fn handle_permission_ask(&mut self, ask: PermissionAsk) {
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
        let open = OpenRequest {
            line: ask.line,
            ask: Some(request.id.clone()),
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
        self.queue_ask(request, AskedRequest::Permission(ask.request));
    }

    /// An ask that the loop refused to open is denied, with the reason.
    fn deny_unasked(&self, request: &RequestId, ask: &ApprovalId, error: &ServiceError) {
        let answer = PermissionAnswer::Deny {
            message: Some(refusal_message(error)),
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
    ) {
        let requests = self.parts.requests.clone();
        let request = RequestKey { id, line };
        if is_terminal_request(&want) {
            requests.add(&request, None, &want, None);
            requests.serve_terminal(request, want);
            return;
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
            Ok(described) => self.ask_for_request(request, &want, described),
            Err(error) => {
                requests.add(&request, None, &want, None);
                requests.send_response(request, Err(error));
            }
        }
    }

    /// Something waits at the runner. What an earlier host was told of has its ask already.
    pub(super) async fn handle_hold(&mut self, hold: u64, target: HeldTarget) {
        // No id of the agent's own: those are JSON.
        let id = RequestId(format!("held-{hold}"));
        if self.parts.connection.lock().has_request(&id) {
            return;
        }
        let want = ClientRequest::ReleaseHold { hold, target };
        self.handle_client_request(id, 0, want).await;
    }

    fn ask_for_request(
        &mut self,
        request: RequestKey,
        want: &ClientRequest,
        described: RequestDescription,
    ) {
        let own = ManagedAsk {
            request: request.id.0.clone(),
            takes_denial_message: true,
            covered_by: described.covered_by,
            ..ManagedAsk::default()
        };
        let ask = AskRequest {
            tool: Some(described.tool.to_owned()),
            input: Json::from_value(&described.input).ok(),
            details: described
                .details
                .and_then(|details| Json::from_value(&details).ok())
                .unwrap_or_default(),
            tool_call: Some(format!("request {}", request.id.0)),
            ..self.ask_request(described.action, own)
        };
        let (id, opened) = (ask.id.clone(), described.opened);
        let requests = &self.parts.requests;
        requests.add(&request, Some(id), want, Some(opened));
        self.queue_ask(ask, AskedRequest::Client(request));
    }

    fn queue_ask(&mut self, ask: AskRequest, request: AskedRequest) {
        let subject = AskSubject {
            ask: ask.id.clone(),
            request,
        };
        self.queue(ReadOutput::Ask(QueuedAsk {
            request: Box::new(ask),
            subject,
        }));
    }

    /// What the loop made of an ask. Its answer comes as a duty; one that was not opened has none.
    pub(super) fn handle_ask_reply(
        &self,
        subject: AskSubject,
        reply: Result<CommandReply, ServiceError>,
    ) {
        let requests = &self.parts.requests;
        let AskSubject { ask, request } = subject;
        match (reply, request) {
            (Ok(CommandReply::Covered(_)), AskedRequest::Client(request)) => {
                requests.serve_covered(request, &ask);
            }
            (Ok(_), _) => {}
            (Err(error), AskedRequest::Permission(request)) => {
                self.deny_unasked(&request, &ask, &error);
            }
            (Err(error), AskedRequest::Client(request)) => {
                let message = refusal_message(&error);
                requests.send_response(request, Err(ClientRequestError::NotPermitted(message)));
            }
        }
    }

    /// What every ask of this agent has in common.
    fn ask_request(&self, action: String, own: ManagedAsk) -> AskRequest {
        let timeout = self.parts.ask_timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS);
        let folder = &self.parts.requests.workspace().folder;
        AskRequest {
            agent: Some(self.parts.key.agent.clone()),
            system_level: true,
            timeout_ms: (timeout > 0).then_some(timeout),
            cwd: Some(folder.to_string_lossy().into_owned()),
            managed: Some(Box::new(ManagedAsk {
                run: self.parts.key.number,
                ..own
            })),
            ..AskRequest::new(self.parts.caller.clone(), new_approval_id(), action)
        }
    }
}

fn refusal_message(error: &ServiceError) -> String {
    format!("permission could not be requested: {error}")
}
