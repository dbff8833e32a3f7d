//! Calls to the host, and what is done with their replies.

use countersign_core::Json;
use serde_json::{Value, json};

use super::ask::AskAnswer;
use super::session::SessionOpenKind;
use super::{EditorConnection, EditorOutput};
use crate::acp::envelope;
use crate::adapter::RequestId;
use crate::shells::{EditorAbilities, EditorCallError, EditorReply};

/// The number of a call, by which its reply is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What the host is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum EditorHostCall {
    /// Start an agent, or find the one that the editor was told to attach to.
    StartAgent {
        cwd: String,
        /// The editor's MCP servers by name, in the form of Claude Code's configuration.
        mcp_servers: Option<Json>,
    },
    ListAgents {
        /// Only those that work in this folder.
        cwd: Option<String>,
        /// `next` of the page before.
        after: Option<String>,
    },
    /// Give the facts about an agent from now on; with `replay`, first what it said so far; with
    /// `terminals`, also what runs in its terminals.
    Follow {
        session: String,
        replay: bool,
        terminals: bool,
        /// What the editor does for the host.
        serves: EditorAbilities,
    },
    Unfollow {
        session: String,
    },
    SendMessage {
        session: String,
        text: String,
    },
    Interrupt {
        session: String,
    },
    Configure {
        session: String,
        mode: Option<String>,
        model: Option<String>,
    },
    Archive {
        session: String,
    },
    AnswerAsk {
        ask: String,
        answer: AskAnswer,
        /// How long it was in front of the person.
        considered_ms: Option<u64>,
    },
    AnswerQuestion {
        question: String,
        text: String,
        /// How long it was in front of the person.
        considered_ms: Option<u64>,
    },
    /// What the editor answered to a call of the host.
    AnswerEditorCall {
        session: String,
        call: u64,
        reply: Result<EditorReply, EditorCallError>,
    },
    /// Put something about an agent on the record.
    Record {
        session: String,
        message: String,
    },
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq)]
pub enum HostReply {
    Done,
    Started {
        session: String,
    },
    Listed {
        sessions: Vec<ListedSession>,
        next: Option<String>,
    },
}

/// An agent as a list of sessions shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    pub id: String,
    pub cwd: String,
    pub title: String,
    /// RFC 3339.
    pub updated_at: String,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostCallError {
    /// For a person.
    pub message: String,
    /// Whether what was named is not there.
    pub not_found: bool,
}

/// What a reply is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PendingCall {
    NewSession {
        request: RequestId,
    },
    List {
        request: RequestId,
    },
    Prompt {
        session: String,
        request: RequestId,
    },
    Choose {
        request: RequestId,
        answer: Value,
    },
    Delete {
        request: RequestId,
        session: String,
    },
    /// An answer of the editor's user, and the note under which the editor is told if it did not count.
    Answer {
        session: String,
        ask: String,
    },
    /// Nobody waits for it.
    Unanswered,
}

impl EditorConnection {
    pub(super) fn finish_call(
        &mut self,
        output: &mut EditorOutput,
        pending: PendingCall,
        reply: Result<HostReply, HostCallError>,
    ) {
        match (pending, reply) {
            (PendingCall::NewSession { request }, Ok(HostReply::Started { session })) => {
                self.follow(output, session, request, SessionOpenKind::New);
            }
            (PendingCall::List { request }, Ok(HostReply::Listed { sessions, next })) => {
                output.result(&request, &listed(&sessions, next));
            }
            (PendingCall::Choose { request, answer }, Ok(_)) => output.result(&request, &answer),
            (PendingCall::Delete { request, session }, Ok(_)) => {
                self.forget(output, &session);
                output.result(&request, &json!({}));
            }
            // A prompt that was taken is answered by the end of its turn, not by this reply.
            (PendingCall::Prompt { session, request }, Err(error)) => {
                self.drop_prompt(&session, &request);
                refuse(output, &request, &error);
            }
            // The ask may be answered elsewhere still, and an editor has no answer to its own
            // answer.
            (PendingCall::Answer { session, ask }, Err(error)) => {
                self.note_on_ask(output, &session, &ask, &error.message);
            }
            (
                PendingCall::NewSession { request }
                | PendingCall::List { request }
                | PendingCall::Choose { request, .. }
                | PendingCall::Delete { request, .. },
                failed,
            ) => refuse(output, &request, &failed.err().unwrap_or_else(unexpected)),
            (PendingCall::Prompt { .. } | PendingCall::Answer { .. }, Ok(_))
            | (PendingCall::Unanswered, _) => {}
        }
    }
}

fn unexpected() -> HostCallError {
    HostCallError {
        message: "the host answered something else than it was asked".to_owned(),
        not_found: false,
    }
}

pub(super) fn refuse(output: &mut EditorOutput, request: &RequestId, error: &HostCallError) {
    let code = if error.not_found {
        envelope::RESOURCE_NOT_FOUND
    } else {
        envelope::INTERNAL_ERROR
    };
    output.error(request, code, &error.message);
}

fn listed(sessions: &[ListedSession], next: Option<String>) -> Value {
    let rows: Vec<Value> = sessions
        .iter()
        .map(|row| {
            json!({
                "sessionId": row.id, "cwd": row.cwd, "title": row.title, "updatedAt": row.updated_at,
            })
        })
        .collect();
    let mut result = json!({"sessions": rows});
    if let Some(next) = next {
        result["nextCursor"] = json!(next);
    }
    result
}
