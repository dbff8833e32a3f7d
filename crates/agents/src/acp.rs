//! The Agent Client Protocol, version 1, as its client.
//!
//! [`AcpAdapter`] is a machine without I/O over a [`AcpState`](state::AcpState) that is plain data: our requests
//! that wait for a response, the agent's requests that wait for an answer, and what was negotiated.
//! Message types are those of the official schema; envelopes, and what does not fit those types, are
//! read by us, so that nothing an agent says is lost because a type has no place for it.
//!
//! Invariants: each request of the agent is answered at most once; a request for permission is never
//! answered with an error; a line that is no message is never answered; an allow is written only
//! for [`AgentCommand::Answer`] and only as the agent's option for "this once".
//!
//! Names and ids are made of what a message is about, and never counted: a second [`AcpAdapter`] that goes
//! on from an earlier state says the same under the same names, in whatever order it is told to, and
//! understands the responses to what the first one sent. An order must be given again before the
//! response to it is output again.
//!
//! Asks that end because of [`AgentCommand::Interrupt`] are answered as cancelled at once and told as
//! [`AgentEvent::Withdrawn`] before anything else by the next [`Adapter::handle_line`]; whoever gives the
//! order knows already and need not wait for it.

mod attachment;
mod call;
mod choice;
mod client_requests;
mod command;
mod elicitation;
pub(crate) mod envelope;
mod handshake;
mod permission;
mod state;
mod tool;
mod translate;

#[cfg(test)]
mod names_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tests;

use agent_client_protocol_schema::v1::{AGENT_METHOD_NAMES, CLIENT_METHOD_NAMES};
use countersign_core::Json;
use countersign_core::limits::AGENT_REQUESTS_MAX;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::adapter::{
    Adapter, AdapterOutput, AgentCommand, AgentEvent, AgentWrite, AttachedFile, CommandError,
    RequestId, RestoreError, TurnEnd, WriteKind,
};
use crate::protocols::ProtocolSupport;
use envelope::{AcpError, AcpMessage};
use state::{AcpPhase, AcpState, PendingKind, PendingRequest, SentRequest};

/// One connection to an ACP agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcpAdapter {
    state: AcpState,
}

/// The Agent Client Protocol, as the host has to know it.
pub(crate) struct AcpProtocol;

impl ProtocolSupport for AcpProtocol {
    fn new_adapter(&self) -> Box<dyn Adapter> {
        Box::new(AcpAdapter::new())
    }

    fn restore_adapter(&self, state: &Json) -> Result<Box<dyn Adapter>, RestoreError> {
        Ok(Box::new(AcpAdapter::restore(state)?))
    }
}

impl AcpAdapter {
    /// A connection on which nothing was said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on with a connection from what [`Adapter::state`] gave.
    pub fn restore(state: &Json) -> Result<Self, RestoreError> {
        Ok(Self {
            state: serde_json::from_str(state.text())?,
        })
    }

    fn handle_request(&mut self, output: &mut AdapterOutput, request: &AcpRequest<'_>) {
        let state = &mut self.state;
        // The agent used the id of a request that is still open. The answer would be ambiguous, so the
        // earlier one is given up.
        if state.pending.remove(&request.id).is_some() {
            output.withdraw(request.id.clone());
        }
        let is_permission = request.method == CLIENT_METHOD_NAMES.session_request_permission;
        let is_form = request.method == CLIENT_METHOD_NAMES.elicitation_create;
        if state.pending.len() >= AGENT_REQUESTS_MAX {
            let refusal = if is_permission {
                permission::encode_cancelled(&request.id, request.line)
            } else if is_form {
                elicitation::encode_cancelled(&request.id, request.line)
            } else {
                client_requests::encode_refusal(
                    request,
                    envelope::FAILED,
                    "too many requests are open",
                )
            };
            output.writes.push(refusal);
        } else if is_permission {
            permission::handle_request(state, output, request);
        } else if is_form {
            elicitation::handle_request(state, output, request);
        } else {
            client_requests::handle_request(state, output, request);
        }
    }

    fn handle_notification(
        &mut self,
        output: &mut AdapterOutput,
        method: &str,
        params: Option<&RawValue>,
    ) {
        if method == CLIENT_METHOD_NAMES.session_update {
            translate::handle_update(&mut self.state, output, params);
        } else if method == "$/cancel_request" {
            self.handle_cancellation(output, params);
        // The protocol lets clients ignore `$/` methods, and leaves `_` to extensions.
        } else if !method.starts_with("$/") && !method.starts_with('_') {
            let noise = format!("the agent sent `{}`", envelope::truncate_noise(method));
            output.events.push(AgentEvent::Noise(noise));
        }
    }

    /// The agent takes a request back. Its answer says so, because a request must have one.
    fn handle_cancellation(&mut self, output: &mut AdapterOutput, params: Option<&RawValue>) {
        let Some(request) = params.and_then(cancelled_id) else {
            return;
        };
        let Some(PendingRequest { line, kind }) = self.state.pending.remove(&request) else {
            return;
        };
        let answer = if kind.is_ask() {
            encode_cancelled(&kind, &request, line)
        } else {
            let message = "request cancelled";
            let bytes = envelope::error(&request, envelope::REQUEST_CANCELLED, message);
            AgentWrite::reply_to(line, WriteKind::Cancelled, bytes)
        };
        output.writes.push(answer);
        output.withdraw(request);
    }

    fn handle_response(
        &mut self,
        output: &mut AdapterOutput,
        id: &RequestId,
        line: u64,
        outcome: Result<&RawValue, AcpError>,
    ) {
        // Ours are numbers; any other id answers something we did not ask.
        let ours = id.0.parse().ok();
        let Some(ours) = ours.and_then(|id: u64| self.state.sent.remove(&id)) else {
            let message = match outcome {
                Err(failure) => failure.describe(),
                Ok(_) => format!("a response nobody waits for: {}", id.0),
            };
            output.events.push(AgentEvent::Noise(message));
            return;
        };
        let state = &mut self.state;
        match ours {
            SentRequest::Initialize => {
                handshake::handle_initialize_response(state, output, line, outcome);
            }
            SentRequest::OpenSession => {
                handshake::handle_session_response(state, output, line, outcome);
            }
            SentRequest::SetMode { mode, .. } => {
                choice::handle_mode_response(state, output, mode, outcome);
            }
            SentRequest::SetModel { model, .. } => {
                choice::handle_model_response(state, output, model, outcome);
            }
            SentRequest::Prompt { turn } => end_turn(state, output, turn, outcome),
        }
    }

    /// Begins a turn, or says again what began the one that runs.
    fn prompt(
        &mut self,
        turn: u32,
        messages: &[String],
        attachments: &[AttachedFile],
    ) -> Result<Vec<AgentWrite>, CommandError> {
        let state = &mut self.state;
        let Some(session) = state.session.clone() else {
            return Err(CommandError::NotReady);
        };
        let running = state.turn();
        if state.phase != AcpPhase::Open || running.is_some_and(|running| running != turn) {
            return Err(CommandError::NotReady);
        }
        // A repeated order must not forget what was learned since the turn began.
        if running.is_none() {
            state.begin_turn();
        }
        let texts = messages
            .iter()
            .map(|text| json!({"type": "text", "text": text}));
        let files = attachments
            .iter()
            .map(|file| attachment::encode(state.prompt_abilities, file));
        let blocks: Vec<Value> = texts.chain(files).collect();
        let id = state.record_sent(SentRequest::Prompt { turn });
        let params = json!({"sessionId": session, "prompt": blocks});
        let bytes = envelope::request(id, AGENT_METHOD_NAMES.session_prompt, &params);
        Ok(vec![AgentWrite::own("prompt", turn, bytes)])
    }

    /// Cancels the turn, and with it every open ask: the protocol wants each of them answered so.
    fn interrupt(&mut self) -> Vec<AgentWrite> {
        let state = &mut self.state;
        let (Some(session), Some(turn)) = (&state.session, state.turn()) else {
            return Vec::new();
        };
        let params = json!({"sessionId": session});
        let bytes = envelope::notification(AGENT_METHOD_NAMES.session_cancel, &params);
        let mut lines = vec![AgentWrite::own("interrupt", turn, bytes)];
        // Asks that come from now on are cancelled as they arrive: the agent may have sent them
        // before it read this.
        state.interrupted = true;
        let asks = state
            .pending
            .extract_if(.., |_, theirs| theirs.kind.is_ask());
        for (request, theirs) in asks {
            lines.push(encode_cancelled(&theirs.kind, &request, theirs.line));
            state.withdrawn.push(request);
        }
        lines
    }
}

/// A request of the agent.
struct AcpRequest<'a> {
    id: RequestId,
    /// The number of its line.
    line: u64,
    method: &'a str,
    params: Option<&'a RawValue>,
}

impl Adapter for AcpAdapter {
    fn handle_line(&mut self, line: &[u8], number: u64) -> AdapterOutput {
        let mut output = AdapterOutput::default();
        // Before anything of this line: an ask in it may use the id of one that was withdrawn.
        for request in std::mem::take(&mut self.state.withdrawn) {
            output.withdraw(request);
        }
        match envelope::parse(line) {
            Ok(AcpMessage::Request { id, method, params }) => {
                let request = AcpRequest {
                    id,
                    line: number,
                    method: &method,
                    params,
                };
                self.handle_request(&mut output, &request);
            }
            Ok(AcpMessage::Notification { method, params }) => {
                self.handle_notification(&mut output, &method, params);
            }
            Ok(AcpMessage::Response { id, outcome }) => {
                self.handle_response(&mut output, &id, number, outcome);
            }
            Err(noise) if noise.trim().is_empty() => {}
            Err(noise) => output.events.push(AgentEvent::Noise(noise)),
        }
        output
    }

    fn apply_command(&mut self, order: AgentCommand) -> Result<Vec<AgentWrite>, CommandError> {
        let state = &mut self.state;
        match order {
            AgentCommand::Start(start) => handshake::start(state, start),
            AgentCommand::Prompt {
                turn,
                messages,
                attachments,
            } => self.prompt(turn, &messages, &attachments),
            AgentCommand::Answer { request, answer } => {
                let open = state.pending.get(&request).map(|theirs| &theirs.kind);
                if matches!(open, Some(PendingKind::Form { .. })) {
                    elicitation::answer(state, &request, answer)
                } else {
                    permission::answer(state, &request, answer)
                }
            }
            AgentCommand::Serve { request, served } => {
                client_requests::answer(state, &request, served)
            }
            AgentCommand::Interrupt => Ok(self.interrupt()),
            AgentCommand::SetMode { revision, mode } => choice::set_mode(state, revision, &mode),
            AgentCommand::SetModel { revision, model } => {
                choice::set_model(state, revision, &model)
            }
        }
    }

    fn state(&self) -> Json {
        Json::from_value(&self.state).unwrap_or_default()
    }

    fn open_requests(&self) -> Vec<u64> {
        let mut lines: Vec<u64> = self
            .state
            .pending
            .values()
            .map(|theirs| theirs.line)
            .collect();
        lines.sort_unstable();
        lines
    }
}

/// The end of an ask that nobody answered.
fn encode_cancelled(kind: &PendingKind, request: &RequestId, line: u64) -> AgentWrite {
    match kind {
        PendingKind::Form { .. } => elicitation::encode_cancelled(request, line),
        _ => permission::encode_cancelled(request, line),
    }
}

fn cancelled_id(params: &RawValue) -> Option<RequestId> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    let params: Params<'_> = serde_json::from_str(params.get()).ok()?;
    envelope::parse_id(params.request_id)
}

/// The turn is over: what it left open is closed. Nothing is written for asks it left behind, since
/// nobody waits for them any more; terminals may outlive a turn and stay as they are.
fn end_turn(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    turn: u32,
    outcome: Result<&RawValue, AcpError>,
) {
    let left = state.pending.extract_if(.., |_, theirs| {
        matches!(
            theirs.kind,
            PendingKind::Permission { .. }
                | PendingKind::Form { .. }
                | PendingKind::Read
                | PendingKind::Write
                | PendingKind::CreateTerminal
        )
    });
    for (request, _) in left {
        output.withdraw(request);
    }
    state.interrupted = false;
    let left_open = state.calls.close();
    let end = match outcome {
        Ok(result) => translate::read_stop(result),
        Err(error) => TurnEnd {
            reason: "error".to_owned(),
            message: Some(error.describe()),
            ..TurnEnd::default()
        },
    };
    output.events.push(AgentEvent::TurnEnded {
        turn,
        end: TurnEnd { left_open, ..end },
    });
}
