//! The Agent Client Protocol, version 1, as its agent: what an editor starts and speaks to.
//!
//! [`EditorConnection`] is a machine without I/O. Lines of the editor, replies of the host and facts
//! about the agents that the editor follows go in; lines for the editor and calls to the host come out.
//! A session of the editor is an agent of the host, and has its id.
//!
//! Invariants: every request of the editor is answered once; an ask is answered for the editor's user
//! only by an option that the request offered, and never because something failed, ended or was not
//! understood; nothing that must outlive this process is kept here, so that hosts and editors may come
//! and go.

mod ask;
mod client;
mod host_call;
mod notes;
mod open;
mod permission;
mod prompt;
mod question;
mod requests;
mod served_calls;
mod session;
mod settings;
mod tool_calls;
mod updates;
mod window;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use countersign_core::limits::EDITOR_AUTOMATIC_MS;

use crate::acp::envelope::{self, AcpMessage};
use crate::adapter::RequestId;

pub use ask::{
    AskAnswer, AskGuard, AskOutcome, EditorAsk, EditorDiff, EditorQuestion, FieldForm, FormField,
};
pub use host_call::{CallId, EditorHostCall, HostCallError, HostReply, ListedSession};
pub use session::{
    AgentPhase, SessionChoices, SessionCommand, SessionEvent, SessionFact, SessionOption,
    SessionSnapshot,
};
pub use settings::{
    AutomaticAllows, EditorAnswers, EditorSettings, EditorTerminals, TerminalViewer,
};

use client::ClientAbilities;
use host_call::PendingCall;
use served_calls::{ServedKind, StartedCommands};
use session::EditorSession;

/// The connection to one editor.
#[derive(Debug)]
pub struct EditorConnection {
    settings: EditorSettings,
    client: ClientAbilities,
    sessions: BTreeMap<String, EditorSession>,
    /// Calls to the host that have no reply yet.
    calls: BTreeMap<CallId, PendingCall>,
    /// Our requests that the editor has not answered.
    asked: BTreeMap<u64, UnansweredRequest>,
    started: StartedCommands,
    next_call: u64,
    next_request: u64,
}

/// A request of ours that the editor has not answered.
#[derive(Debug)]
struct UnansweredRequest {
    about: AskedRequest,
    /// When it was written, if that matters. Until then no answer to it is a person's.
    written_ms: Option<u64>,
}

/// How long a request was in front of the editor's user; nothing if it was not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConsideredMs(Option<u64>);

impl ConsideredMs {
    /// Whether an answer came sooner than a person can read and answer.
    fn is_automatic(self) -> bool {
        self.0.is_none_or(|waited| waited < EDITOR_AUTOMATIC_MS)
    }
}

/// What a request of ours is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AskedRequest {
    Permission {
        session: String,
        ask: String,
    },
    AskForm {
        session: String,
        ask: String,
    },
    Question {
        session: String,
        question: String,
    },
    Window {
        session: String,
        terminal: String,
        title: String,
    },
    /// Something that the host wants of the editor.
    Served {
        session: String,
        call: u64,
        kind: ServedKind,
    },
}

impl AskedRequest {
    /// Whether a person is to answer, so that it matters how soon the answer comes.
    fn is_for_people(&self) -> bool {
        match self {
            Self::Permission { .. } | Self::AskForm { .. } | Self::Question { .. } => true,
            Self::Window { .. } | Self::Served { .. } => false,
        }
    }
}

/// What is to be done, in this order: lines first.
#[derive(Debug, Default)]
pub struct EditorOutput {
    pub lines: Vec<EditorLine>,
    pub calls: Vec<(CallId, EditorHostCall)>,
}

/// One line for the editor.
#[derive(Debug)]
pub struct EditorLine {
    /// With the line feed at its end.
    pub bytes: Vec<u8>,
    /// The request whose answer may not come too soon: [`EditorConnection::note_written`] wants to know
    /// when it was written.
    pub timed: Option<u64>,
}

impl EditorOutput {
    fn line(&mut self, bytes: Vec<u8>) {
        self.lines.push(EditorLine { bytes, timed: None });
    }

    fn result(&mut self, request: &RequestId, result: &Value) {
        self.line(envelope::result(request, result));
    }

    fn error(&mut self, request: &RequestId, code: i64, message: &str) {
        self.line(envelope::error(request, code, message));
    }

    fn update(&mut self, session: &str, update: &Value) {
        let params = json!({"sessionId": session, "update": update});
        self.line(envelope::notification("session/update", &params));
    }
}

impl EditorConnection {
    /// A connection on which nothing was said yet.
    pub fn new(settings: EditorSettings) -> Self {
        Self {
            settings,
            client: ClientAbilities::default(),
            sessions: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            started: StartedCommands::default(),
            next_call: 0,
            next_request: 0,
        }
    }

    /// Takes one line of the editor, without its end. `now_ms` is any clock that only rises.
    pub fn handle_line(&mut self, line: &[u8], now_ms: u64) -> EditorOutput {
        let mut output = EditorOutput::default();
        match envelope::parse(line) {
            Ok(AcpMessage::Request { id, method, params }) => {
                self.handle_request(&mut output, id, &method, params);
            }
            Ok(AcpMessage::Notification { method, params }) => {
                self.handle_notification(&mut output, &method, params);
            }
            Ok(AcpMessage::Response { id, outcome }) => {
                let ours = id.0.parse().ok();
                if let Some(open) = ours.and_then(|id: u64| self.asked.remove(&id)) {
                    let waited = open.written_ms.map(|at| now_ms.saturating_sub(at));
                    let considered = ConsideredMs(waited);
                    self.handle_response(&mut output, open.about, outcome, considered);
                }
            }
            Err(noise) if noise.trim().is_empty() => {}
            Err(_) => {
                let no_id = RequestId("null".to_owned());
                output.error(&no_id, -32700, "this line is not a JSON-RPC message");
            }
        }
        output
    }

    /// Answers a line that was too long to be taken.
    pub fn refuse_long_line(&self) -> EditorOutput {
        let mut output = EditorOutput::default();
        let no_id = RequestId("null".to_owned());
        output.error(&no_id, -32600, "the line is too long");
        output
    }

    /// Takes the reply to a call.
    pub fn handle_reply(
        &mut self,
        call: CallId,
        reply: Result<HostReply, HostCallError>,
    ) -> EditorOutput {
        let mut output = EditorOutput::default();
        if let Some(pending) = self.calls.remove(&call) {
            self.finish_call(&mut output, pending, reply);
        }
        output
    }

    /// Takes what happened to an agent that is followed. Facts about others are left aside.
    pub fn handle_fact(&mut self, session: &str, fact: SessionFact) -> EditorOutput {
        let mut output = EditorOutput::default();
        if self.sessions.contains_key(session) {
            self.apply_fact(&mut output, session, fact);
        }
        output
    }

    /// A request with a [`EditorLine::timed`] was written at this instant.
    pub fn note_written(&mut self, request: u64, now_ms: u64) {
        if let Some(open) = self.asked.get_mut(&request) {
            open.written_ms = Some(now_ms);
        }
    }

    fn call(&mut self, output: &mut EditorOutput, call: EditorHostCall, pending: PendingCall) {
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.calls.insert(id, pending);
        output.calls.push((id, call));
    }

    /// Sends a request to the editor and remembers what it is about.
    fn ask_editor(
        &mut self,
        output: &mut EditorOutput,
        method: &str,
        params: &Value,
        about: AskedRequest,
    ) -> u64 {
        let id = self.next_request;
        self.next_request += 1;
        let timed = about.is_for_people().then_some(id);
        output.lines.push(EditorLine {
            bytes: envelope::request(id, method, params),
            timed,
        });
        let written_ms = None;
        self.asked
            .insert(id, UnansweredRequest { about, written_ms });
        id
    }

    /// Tells the editor that the answer to a request of ours is no longer wanted.
    fn cancel_request(&mut self, output: &mut EditorOutput, request: u64) {
        if self.asked.remove(&request).is_some() {
            let params = json!({"requestId": request});
            output.line(envelope::notification("$/cancel_request", &params));
        }
    }
}
