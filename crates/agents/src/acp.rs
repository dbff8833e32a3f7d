//! The Agent Client Protocol, version 1, as its client.
//!
//! [`Acp`] is a machine without I/O over a [`State`](state::State) that is plain data: our requests
//! that wait for a response, the agent's requests that wait for an answer, and what was negotiated.
//! Message types are those of the official schema; envelopes, and what does not fit those types, are
//! read by us, so that nothing an agent says is lost because a type has no place for it.
//!
//! Invariants: each request of the agent is answered at most once; a request for permission is never
//! answered with an error; a line that is no message is never answered; an allow is written only
//! for [`Order::Answer`] and only as the agent's option for "this once".
//!
//! Names and ids are made of what a message is about, and never counted: a second [`Acp`] that goes
//! on from an earlier state says the same under the same names, in whatever order it is told to, and
//! understands the responses to what the first one sent. An order must be given again before the
//! response to it is heard again.
//!
//! Asks that end because of [`Order::Interrupt`] are answered as cancelled at once and told as
//! [`Happening::Withdrawn`] before anything else by the next [`Adapter::hear`]; whoever gives the
//! order knows already and need not wait for it.

mod call;
mod choice;
mod command;
mod envelope;
mod handshake;
mod permission;
mod state;
mod tool;
mod translate;
mod want;

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
    Adapter, Happening, Heard, Line, Order, OrderError, RequestId, RestoreError, TurnEnd, meaning,
};
use envelope::{Failure, Message};
use state::{Ours, Phase, State, Theirs, Wish};

/// One connection to an ACP agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acp {
    state: State,
}

impl Acp {
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

    fn take_request(&mut self, heard: &mut Heard, request: &Request<'_>) {
        let state = &mut self.state;
        if state.theirs.remove(&request.id).is_some() {
            heard.happenings.push(Happening::Withdrawn {
                request: request.id.clone(),
            });
        }
        let is_permission = request.method == CLIENT_METHOD_NAMES.session_request_permission;
        if state.theirs.len() >= AGENT_REQUESTS_MAX {
            let refusal = if is_permission {
                permission::cancelled(&request.id, request.line)
            } else {
                want::refused(request, envelope::FAILED, "too many requests are open")
            };
            heard.lines.push(refusal);
        } else if is_permission {
            permission::take(state, heard, request);
        } else {
            want::take(state, heard, request);
        }
    }

    fn take_notification(&mut self, heard: &mut Heard, method: &str, params: Option<&RawValue>) {
        if method == CLIENT_METHOD_NAMES.session_update {
            translate::take(&mut self.state, heard, params);
        } else if method == "$/cancel_request" {
            self.take_cancellation(heard, params);
        } else if !method.starts_with("$/") && !method.starts_with('_') {
            let noise = format!("the agent sent `{}`", envelope::shorten(method));
            heard.happenings.push(Happening::Noise(noise));
        }
    }

    /// The agent takes a request back. Its answer says so, because a request must have one.
    fn take_cancellation(&mut self, heard: &mut Heard, params: Option<&RawValue>) {
        let Some(request) = params.and_then(cancelled_id) else {
            return;
        };
        let Some(Theirs { line, wish }) = self.state.theirs.remove(&request) else {
            return;
        };
        let answer = if wish.is_permission() {
            permission::cancelled(&request, line)
        } else {
            let words = "request cancelled";
            let bytes = envelope::error(&request, envelope::REQUEST_CANCELLED, words);
            Line::about(line, meaning::CANCELLED, bytes)
        };
        heard.lines.push(answer);
        heard.happenings.push(Happening::Withdrawn { request });
    }

    fn take_response(
        &mut self,
        heard: &mut Heard,
        (id, line): (&RequestId, u64),
        outcome: Result<&RawValue, Failure>,
    ) {
        let ours = id.0.parse().ok();
        let Some(ours) = ours.and_then(|id: u64| self.state.ours.remove(&id)) else {
            let words = match outcome {
                Err(failure) => failure.words(),
                Ok(_) => format!("a response nobody waits for: {}", id.0),
            };
            heard.happenings.push(Happening::Noise(words));
            return;
        };
        let state = &mut self.state;
        match ours {
            Ours::Initialize => handshake::take_initialized(state, heard, line, outcome),
            Ours::OpenSession => handshake::take_session(state, heard, line, outcome),
            Ours::SetMode { mode, .. } => choice::take_mode(state, heard, mode, outcome),
            Ours::SetModel { model, .. } => choice::take_model(state, heard, model, outcome),
            Ours::Prompt { turn } => end_turn(state, heard, turn, outcome),
        }
    }

    /// Begins a turn, or says again what began the one that runs.
    fn prompt(&mut self, turn: u32, messages: &[String]) -> Result<Vec<Line>, OrderError> {
        let state = &mut self.state;
        let Some(session) = state.session.clone() else {
            return Err(OrderError::NotReady);
        };
        let running = state.turn();
        if state.phase != Phase::Open || running.is_some_and(|running| running != turn) {
            return Err(OrderError::NotReady);
        }
        if running.is_none() {
            state.begin_turn();
        }
        let blocks: Vec<Value> = messages
            .iter()
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        let id = state.expect(Ours::Prompt { turn });
        let params = json!({"sessionId": session, "prompt": blocks});
        let bytes = envelope::request(id, AGENT_METHOD_NAMES.session_prompt, &params);
        Ok(vec![Line::own("prompt", turn, bytes)])
    }

    /// Cancels the turn, and with it every open ask: the protocol wants each of them answered so.
    fn interrupt(&mut self) -> Vec<Line> {
        let state = &mut self.state;
        let (Some(session), Some(turn)) = (&state.session, state.turn()) else {
            return Vec::new();
        };
        let params = json!({"sessionId": session});
        let bytes = envelope::notification(AGENT_METHOD_NAMES.session_cancel, &params);
        let mut lines = vec![Line::own("interrupt", turn, bytes)];
        state.interrupted = true;
        let asks = state
            .theirs
            .extract_if(.., |_, theirs| theirs.wish.is_permission());
        for (request, theirs) in asks {
            lines.push(permission::cancelled(&request, theirs.line));
            state.withdrawn.push(request);
        }
        lines
    }
}

/// A request of the agent.
struct Request<'a> {
    id: RequestId,
    /// The number of its line.
    line: u64,
    method: &'a str,
    params: Option<&'a RawValue>,
}

impl Adapter for Acp {
    fn hear(&mut self, line: &[u8], number: u64) -> Heard {
        let mut heard = Heard::default();
        for request in std::mem::take(&mut self.state.withdrawn) {
            heard.happenings.push(Happening::Withdrawn { request });
        }
        match envelope::parse(line) {
            Ok(Message::Request { id, method, params }) => {
                let request = Request {
                    id,
                    line: number,
                    method: &method,
                    params,
                };
                self.take_request(&mut heard, &request);
            }
            Ok(Message::Notification { method, params }) => {
                self.take_notification(&mut heard, &method, params);
            }
            Ok(Message::Response { id, outcome }) => {
                self.take_response(&mut heard, (&id, number), outcome);
            }
            Err(noise) if noise.trim().is_empty() => {}
            Err(noise) => heard.happenings.push(Happening::Noise(noise)),
        }
        heard
    }

    fn order(&mut self, order: Order) -> Result<Vec<Line>, OrderError> {
        let state = &mut self.state;
        match order {
            Order::Start(start) => handshake::start(state, start),
            Order::Prompt { turn, messages } => self.prompt(turn, &messages),
            Order::Answer { request, answer } => permission::answer(state, &request, answer),
            Order::Serve { request, served } => want::answer(state, &request, served),
            Order::Interrupt => Ok(self.interrupt()),
            Order::SetMode { revision, mode } => choice::set_mode(state, revision, &mode),
            Order::SetModel { revision, model } => choice::set_model(state, revision, &model),
        }
    }

    fn state(&self) -> Json {
        Json::from_value(&self.state).unwrap_or_default()
    }

    fn open_requests(&self) -> Vec<u64> {
        let mut lines: Vec<u64> = self
            .state
            .theirs
            .values()
            .map(|theirs| theirs.line)
            .collect();
        lines.sort_unstable();
        lines
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
    envelope::read_id(params.request_id)
}

/// The turn is over: what it left open is closed. Nothing is written for asks it left behind, since
/// nobody waits for them any more; terminals may outlive a turn and stay as they are.
fn end_turn(state: &mut State, heard: &mut Heard, turn: u32, outcome: Result<&RawValue, Failure>) {
    let left = state.theirs.extract_if(.., |_, theirs| {
        matches!(
            theirs.wish,
            Wish::Permission { .. } | Wish::Read | Wish::Write | Wish::CreateTerminal
        )
    });
    for (request, _) in left {
        heard.happenings.push(Happening::Withdrawn { request });
    }
    state.interrupted = false;
    let left_open = state.calls.close();
    let (reason, message, usage) = match outcome {
        Ok(result) => translate::read_stop(result),
        Err(failure) => ("error".to_owned(), Some(failure.words()), None),
    };
    heard.happenings.push(Happening::TurnEnded {
        turn,
        end: TurnEnd {
            reason,
            message,
            usage,
            left_open,
        },
    });
}
