//! One call, from the line that asks to the line that answers, across as many hosts as it takes.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign_core::limits::{
    MCP_HOST_WAIT_MS, MCP_LINE_BYTES_MAX, MCP_PROGRESS_MS, MCP_RETRY_MS, MCP_RETRY_MS_MAX,
};

use super::McpBridge;
use super::message::{self, HostMessage, McpRequest};
use crate::http_client::{self, HttpPost, HttpResponse};

/// A call that is not answered yet, as whoever cancels it sees it.
#[derive(Default)]
pub(super) struct CancellableCall {
    state: Mutex<PendingCallState>,
    cancelled: Condvar,
}

#[derive(Default)]
struct PendingCallState {
    is_cancelled: bool,
    stream: Option<UnixStream>,
}

impl CancellableCall {
    /// Ends the wait. Nothing is answered.
    pub(super) fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        if let Some(stream) = state.stream.take() {
            // Whoever waits for the answer sees the end of it.
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
        self.cancelled.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, PendingCallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Whoever cancels from now on closes this connection.
    fn hold_connection(&self, stream: &UnixStream) -> io::Result<()> {
        let mut state = self.state();
        // Under the lock that `cancel` takes: a cancel before this line is seen here, and one after it
        // closes the connection. There is no gap in which it gets lost.
        if state.is_cancelled {
            return Err(io::ErrorKind::Interrupted.into());
        }
        state.stream = Some(stream.try_clone()?);
        Ok(())
    }

    fn pause(&self, time: Duration) {
        let state = self.state();
        let waiting = self
            .cancelled
            .wait_timeout_while(state, time, |state| !state.is_cancelled);
        drop(waiting);
    }
}

/// How an attempt came out, if it did not come to an answer.
enum AttemptFailure {
    /// Nothing was done: no host was there, or it said that it does nothing now.
    NotReceived,
    /// It may have been done.
    Unknown,
    /// The host said no.
    Refused(String),
}

struct RelayedCall<'a> {
    bridge: &'a McpBridge,
    request: &'a McpRequest,
    underway: &'a CancellableCall,
    post: HttpPost<'a>,
    /// Words on progress so far.
    told: u64,
}

/// Performs a call and answers it, unless it is cancelled.
pub(super) fn perform(
    bridge: &McpBridge,
    request: &McpRequest,
    line: &[u8],
    number: u64,
    underway: &CancellableCall,
) {
    let headers = headers(bridge, request, number);
    let mut call = RelayedCall {
        bridge,
        request,
        underway,
        post: HttpPost {
            path: "/mcp",
            headers: &headers,
            body: line,
        },
        told: 0,
    };
    call.retry_until_answered();
    bridge.finish(&request.id, underway);
}

fn headers(bridge: &McpBridge, request: &McpRequest, number: u64) -> Vec<(&'static str, String)> {
    // The nonce is new in each process and the number in each line: a repetition has the same key, and
    // no other request has it.
    let key = format!("{}-{number}", bridge.nonce);
    let mut headers = vec![
        ("Idempotency-Key", key),
        ("Countersign-Bridge", "stdio".to_owned()),
    ];
    let agreed = bridge.version().clone();
    let version = request.version.clone().or(agreed);
    if request.method != "initialize" {
        headers.extend(version.map(|version| ("MCP-Protocol-Version", version)));
        headers.push(("Mcp-Method", request.method.clone()));
        headers.extend(request.tool.clone().map(|tool| ("Mcp-Name", tool)));
    }
    // What could end a header early is no name of anything.
    headers.retain(|(_, value)| value.bytes().all(|byte| (b'!'..=b'~').contains(&byte)));
    // Added last: ours, and with a blank in it.
    headers.push(("Accept", "application/json, text/event-stream".to_owned()));
    headers
}

impl RelayedCall<'_> {
    fn retry_until_answered(&mut self) {
        let began = Instant::now();
        let mut pause = Duration::from_millis(MCP_RETRY_MS);
        let mut told_at = began;
        loop {
            let lost = match self.attempt() {
                Ok(()) => return,
                // Who cancels wants no answer any more, not even an error.
                Err(_) if self.underway.is_cancelled() => return,
                Err(lost) => lost,
            };
            match lost {
                AttemptFailure::Refused(message) => return self.refuse(&message),
                // The request may have been carried out before the connection broke. Sent again, a
                // message could reach an agent twice, so the caller is told to look instead.
                AttemptFailure::Unknown if !self.request.is_repeatable() => {
                    return self.report_unknown_outcome();
                }
                AttemptFailure::NotReceived | AttemptFailure::Unknown => {}
            }
            if began.elapsed() > Duration::from_millis(MCP_HOST_WAIT_MS) {
                return self.refuse("no host is running: start one with `countersign up`");
            }
            self.underway.pause(pause);
            pause = (pause * 2).min(Duration::from_millis(MCP_RETRY_MS_MAX));
            // A client may give up on a call that shows no progress.
            if told_at.elapsed() >= Duration::from_millis(MCP_PROGRESS_MS) {
                told_at = Instant::now();
                self.progress("waiting for the host");
            }
        }
    }

    /// One attempt. An answer has been passed on when this is well.
    fn attempt(&mut self) -> Result<(), AttemptFailure> {
        let stream =
            UnixStream::connect(&self.bridge.socket).map_err(|_| AttemptFailure::NotReceived)?;
        self.underway
            .hold_connection(&stream)
            .map_err(|_| AttemptFailure::NotReceived)?;
        let mut answer =
            http_client::post(stream, &self.post).map_err(|_| AttemptFailure::Unknown)?;
        // A host that starts or ends refuses before it does anything, so even what must not be done
        // twice may be sent again.
        if answer.status == 503 {
            return Err(AttemptFailure::NotReceived);
        }
        loop {
            let message = next_message(&mut answer).map_err(|_| AttemptFailure::Unknown)?;
            let message = message.ok_or(AttemptFailure::Unknown)?;
            match message::read_host_message(&message) {
                HostMessage::Answer => {
                    self.deliver_answer(&message);
                    return Ok(());
                }
                HostMessage::Progress(message) => {
                    self.progress(message.as_deref().unwrap_or_default());
                }
                HostMessage::Other => self.bridge.out.message(&message),
                HostMessage::HostEnds => return Err(AttemptFailure::Unknown),
                // A host that failed inside may have acted before it failed.
                HostMessage::Broken if answer.status == 500 => return Err(AttemptFailure::Unknown),
                HostMessage::Broken => {
                    return Err(AttemptFailure::Refused(refusal(answer.status, &message)));
                }
            }
        }
    }

    /// Only what is still wanted is passed on.
    fn deliver_answer(&self, message: &str) {
        // Later requests name the agreed version in a header. The host keeps no session that would know
        // it.
        if self.request.method == "initialize" {
            *self.bridge.version() = message::agreed_version(message);
        }
        if self.bridge.finish(&self.request.id, self.underway) {
            self.bridge.out.message(message);
        }
    }

    fn progress(&mut self, message: &str) {
        if let Some(token) = &self.request.progress_token {
            self.told += 1;
            self.bridge.out.progress(token, self.told, message);
        }
    }

    fn refuse(&self, message: &str) {
        if self.bridge.finish(&self.request.id, self.underway) {
            self.bridge.out.refuse(&self.request.id, -32_000, message);
        }
    }

    fn report_unknown_outcome(&self) {
        let message = "the connection to the host was lost before it answered, so this may or may not have been done: \
                     check with list_agents or read_transcript before you repeat it";
        if self.bridge.finish(&self.request.id, self.underway) {
            self.bridge.out.tool_error(&self.request.id, message);
        }
    }
}

/// The next message of an answer: all of it, or the next event of a stream. Nothing if it is over.
fn next_message(answer: &mut HttpResponse<UnixStream>) -> io::Result<Option<String>> {
    if answer.is_event_stream {
        return answer.next_event(MCP_LINE_BYTES_MAX);
    }
    let body = String::from_utf8(answer.read_body(MCP_LINE_BYTES_MAX)?);
    let body = body.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some(body).filter(|body| !body.trim().is_empty()))
}

/// The host's words, if it has some.
fn refusal(status: u16, body: &str) -> String {
    let message: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message =
        message.and_then(|body| Some(body.pointer("/error/message")?.as_str()?.to_owned()));
    message.unwrap_or_else(|| format!("the host answered with {status}: {}", body.trim()))
}
