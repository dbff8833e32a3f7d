//! One call, from the line that asks to the line that answers, across as many hosts as it takes.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign_core::limits::{MCP_HOST_WAIT_MS, MCP_PROGRESS_MS, MCP_RETRY_MS, MCP_RETRY_MS_MAX};

use super::Bridge;
use super::http::{self, Post};
use super::message::{self, Outgoing, Request};

/// A call that is not answered yet, as whoever cancels it sees it.
#[derive(Default)]
pub(super) struct Underway {
    state: Mutex<State>,
    cancelled: Condvar,
}

#[derive(Default)]
struct State {
    is_cancelled: bool,
    stream: Option<UnixStream>,
}

impl Underway {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Whoever cancels from now on closes this connection.
    fn hold(&self, stream: &UnixStream) -> io::Result<()> {
        let mut state = self.state();
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
enum Lost {
    /// Nothing was done: no host was there, or it said that it does nothing now.
    Unheard,
    /// It may have been done.
    Unknown,
    /// The host said no.
    Refused(String),
}

struct Call<'a> {
    bridge: &'a Bridge,
    request: &'a Request,
    underway: &'a Underway,
    post: Post<'a>,
    /// Words on progress so far.
    told: u64,
}

/// Performs a call and answers it, unless it is cancelled.
pub(super) fn perform(
    bridge: &Bridge,
    request: &Request,
    line: &[u8],
    number: u64,
    underway: &Underway,
) {
    let headers = headers(bridge, request, number);
    let mut call = Call {
        bridge,
        request,
        underway,
        post: Post {
            headers: &headers,
            body: line,
        },
        told: 0,
    };
    call.until_answered();
    bridge.finish(&request.id, underway);
}

fn headers(bridge: &Bridge, request: &Request, number: u64) -> Vec<(&'static str, String)> {
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
    headers
}

impl Call<'_> {
    fn until_answered(&mut self) {
        let began = Instant::now();
        let mut pause = Duration::from_millis(MCP_RETRY_MS);
        let mut told_at = began;
        loop {
            let lost = match self.attempt() {
                Ok(()) => return,
                Err(_) if self.underway.is_cancelled() => return,
                Err(lost) => lost,
            };
            match lost {
                Lost::Refused(words) => return self.refuse(&words),
                Lost::Unknown if !self.request.is_repeatable() => return self.unknown(),
                Lost::Unheard | Lost::Unknown => {}
            }
            if began.elapsed() > Duration::from_millis(MCP_HOST_WAIT_MS) {
                return self
                    .refuse("no host has been there for a long time: `countersign up` starts one");
            }
            self.underway.pause(pause);
            pause = (pause * 2).min(Duration::from_millis(MCP_RETRY_MS_MAX));
            if told_at.elapsed() >= Duration::from_millis(MCP_PROGRESS_MS) {
                told_at = Instant::now();
                self.progress("waiting for the host to come back");
            }
        }
    }

    /// One attempt. An answer has been passed on when this is well.
    fn attempt(&mut self) -> Result<(), Lost> {
        let stream = UnixStream::connect(&self.bridge.socket).map_err(|_| Lost::Unheard)?;
        self.underway.hold(&stream).map_err(|_| Lost::Unheard)?;
        let mut answer = http::post(stream, &self.post).map_err(|_| Lost::Unknown)?;
        if answer.status == 503 {
            return Err(Lost::Unheard);
        }
        loop {
            let message = answer.next_message().map_err(|_| Lost::Unknown)?;
            let message = message.ok_or(Lost::Unknown)?;
            match message::read_reply(&message) {
                Outgoing::Answer => {
                    self.pass_on(&message);
                    return Ok(());
                }
                Outgoing::Progress(words) => self.progress(words.as_deref().unwrap_or_default()),
                Outgoing::Other => self.bridge.out.message(&message),
                Outgoing::HostEnds => return Err(Lost::Unknown),
                Outgoing::Broken if answer.status == 500 => return Err(Lost::Unknown),
                Outgoing::Broken => return Err(Lost::Refused(refusal(answer.status, &message))),
            }
        }
    }

    /// Only what is still wanted is passed on.
    fn pass_on(&self, message: &str) {
        if self.request.method == "initialize" {
            *self.bridge.version() = message::agreed_version(message);
        }
        if self.bridge.finish(&self.request.id, self.underway) {
            self.bridge.out.message(message);
        }
    }

    fn progress(&mut self, words: &str) {
        if let Some(token) = &self.request.progress_token {
            self.told += 1;
            self.bridge.out.progress(token, self.told, words);
        }
    }

    fn refuse(&self, words: &str) {
        if self.bridge.finish(&self.request.id, self.underway) {
            self.bridge.out.refuse(&self.request.id, -32_000, words);
        }
    }

    fn unknown(&self) {
        let words = "the host went away before it answered, so this may or may not have been done: \
                     look first, with list_agents or read_transcript, before you do it again";
        if self.bridge.finish(&self.request.id, self.underway) {
            self.bridge.out.tool_error(&self.request.id, words);
        }
    }
}

/// The host's words, if it has some.
fn refusal(status: u16, body: &str) -> String {
    let words: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let words = words.and_then(|body| Some(body.pointer("/error/message")?.as_str()?.to_owned()));
    words.unwrap_or_else(|| format!("the host answered with {status}: {}", body.trim()))
}
