//! The way to the host: one request over the Unix socket, said again to the next host if this one goes
//! away before it has answered.
//!
//! Invariants: the same request has the same id however often it is said, so that it is one ask; an
//! answer counts only if it is whole.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use countersign_core::limits::FRAME_BYTES_MAX;
use countersign_protocol::{HookParams, HookResult};
use serde::Deserialize;

use crate::http_client::{self, HttpPost, HttpResponse};

/// How long to wait before a host that went away is looked for again.
const AGAIN: Duration = Duration::from_millis(100);

/// What the hook keeps back of its own time, so that the host is the first to see that it is over.
const HOSTS_LEAD: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HookFailure {
    /// Time is over.
    Late,
    /// No host can decide; in words.
    Unjudged(String),
}

/// What came of one attempt.
enum HookAttempt {
    Answered(Box<HookResult>),
    /// No host listens on the socket.
    Absent,
    /// Somebody was there and is gone.
    Lost,
    /// Somebody answered, and it is no answer of a host to this.
    Refused(String),
}

pub(super) struct HookLink<'a> {
    socket: &'a Path,
    deadline: Instant,
}

impl<'a> HookLink<'a> {
    pub(super) fn new(socket: &'a Path, deadline: Instant) -> Self {
        Self { socket, deadline }
    }

    /// Tells the host, and waits for its answer. A host that was there once is waited for.
    pub(super) fn ask_host(&self, params: &mut HookParams) -> Result<HookResult, HookFailure> {
        let mut was_there = false;
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(HookFailure::Late);
            }
            let wait = left.saturating_sub(HOSTS_LEAD);
            // Computed for each attempt, because earlier ones used up a part of the time.
            params.wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            match self.attempt(params, left) {
                HookAttempt::Answered(result) => return Ok(*result),
                HookAttempt::Refused(message) => return Err(HookFailure::Unjudged(message)),
                // Nobody to wait for: the prompt in the terminal is quicker. A host that was there a
                // moment ago may hold this very ask and is on its way back, after a crash or an
                // upgrade.
                HookAttempt::Absent if !was_there => {
                    let message = "no Countersign host is running".to_owned();
                    return Err(HookFailure::Unjudged(message));
                }
                HookAttempt::Absent => {}
                HookAttempt::Lost => was_there = true,
            }
            // Repeating is safe: the request keeps its id, so the next host finds the ask instead
            // of opening a second one.
            thread::sleep(AGAIN.min(left));
        }
    }

    fn attempt(&self, params: &HookParams, left: Duration) -> HookAttempt {
        let Ok(stream) = UnixStream::connect(self.socket) else {
            return HookAttempt::Absent;
        };
        match exchange(stream, params, left) {
            Ok(response) => read_response(response),
            Err(error) => failed_attempt(&error),
        }
    }
}

fn exchange(
    stream: UnixStream,
    params: &HookParams,
    left: Duration,
) -> io::Result<HttpResponse<UnixStream>> {
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))?;
    let post = HttpPost {
        path: "/api/v1/hooks/claude",
        headers: &[],
        body: &serde_json::to_vec(params)?,
    };
    http_client::post(stream, &post)
}

fn read_response<S: Read>(mut response: HttpResponse<S>) -> HookAttempt {
    let status = response.status;
    let body = response
        .read_body(FRAME_BYTES_MAX)
        // Bytes behind the body mean that this is not one answer, so none of it is believed.
        .and_then(|body| response.expect_end().map(|()| body));
    match body {
        Ok(body) if status == 200 => serde_json::from_slice(&body).map_or_else(
            |_| not_a_host(),
            |result| HookAttempt::Answered(Box::new(result)),
        ),
        Ok(body) => refusal(status, &body),
        Err(error) => failed_attempt(&error),
    }
}

/// Half an answer is the same as none: its host went away while it sent it, and the next host is asked
/// the same. What no host sends ends the wait instead.
fn failed_attempt(error: &io::Error) -> HookAttempt {
    match error.kind() {
        io::ErrorKind::InvalidData => not_a_host(),
        _ => HookAttempt::Lost,
    }
}

fn not_a_host() -> HookAttempt {
    HookAttempt::Refused("countersign: the program on the socket is not a host".to_owned())
}

fn refusal(status: u16, body: &[u8]) -> HookAttempt {
    #[derive(Deserialize)]
    struct Refusal {
        error: ErrorBody,
    }
    #[derive(Deserialize)]
    struct ErrorBody {
        message: String,
        reason: String,
    }
    match serde_json::from_slice::<Refusal>(body) {
        // The next host answers.
        Ok(refusal) if refusal.error.reason == "shutting_down" => HookAttempt::Lost,
        Ok(refusal) => HookAttempt::Refused(format!("countersign: {}", refusal.error.message)),
        Err(_) => HookAttempt::Refused(format!(
            "countersign: the host answered with status {status}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(reply: &str) -> &'static str {
        let attempt = match HttpResponse::read(reply.as_bytes()) {
            Ok(response) => read_response(response),
            Err(error) => failed_attempt(&error),
        };
        match attempt {
            HookAttempt::Answered(_) => "told",
            HookAttempt::Absent => "absent",
            HookAttempt::Lost => "lost",
            HookAttempt::Refused(_) => "refused",
        }
    }

    #[test]
    fn only_a_whole_answer_counts() {
        let body = r#"{"agent_id":"a","decision":"allow"}"#;
        let whole = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(kind(&whole), "told");
        for end in [0, 4, 20, whole.len() - 1] {
            assert_eq!(kind(&whole[..end]), "lost", "{end}");
        }
        let told = format!("{whole} ");
        for garbage in [
            "allow",
            "HTTP/1.1 200 OK\r\n\r\n{\"decision\":\"allow\"}",
            "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            told.as_str(),
            "HTTP/1.1 500 no\r\ncontent-length: 2\r\n\r\n{}",
        ] {
            assert_eq!(kind(garbage), "refused", "{garbage}");
        }
    }

    #[test]
    fn a_host_that_ends_is_followed_by_another() {
        let body = r#"{"error":{"reason":"shutting_down","message":"m"}}"#;
        let reply = |body: &str| {
            format!(
                "HTTP/1.1 503 x\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        assert_eq!(kind(&reply(body)), "lost");
        assert_eq!(
            kind(&reply(&body.replace("shutting_down", "too_large"))),
            "refused"
        );
    }
}
