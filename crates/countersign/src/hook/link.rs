//! The way to the host: one request over the Unix socket, said again to the next host if this one goes
//! away before it has answered.
//!
//! Invariants: the same request has the same id however often it is said, so that it is one ask; an
//! answer counts only if it is whole.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use countersign_core::limits::FRAME_BYTES_MAX;
use countersign_protocol::{HookParams, HookResult};
use serde::Deserialize;

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

pub(super) struct HostLink<'a> {
    socket: &'a Path,
    deadline: Instant,
}

impl<'a> HostLink<'a> {
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
            params.wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            match self.attempt(params, left) {
                HookAttempt::Answered(result) => return Ok(*result),
                HookAttempt::Refused(message) => return Err(HookFailure::Unjudged(message)),
                HookAttempt::Absent if !was_there => {
                    let message = "no Countersign host is running, so Claude asks here".to_owned();
                    return Err(HookFailure::Unjudged(message));
                }
                HookAttempt::Absent => {}
                HookAttempt::Lost => was_there = true,
            }
            thread::sleep(AGAIN.min(left));
        }
    }

    fn attempt(&self, params: &HookParams, left: Duration) -> HookAttempt {
        let Ok(mut stream) = UnixStream::connect(self.socket) else {
            return HookAttempt::Absent;
        };
        match exchange(&mut stream, params, left) {
            Ok(reply) => read_reply(&reply),
            Err(_) => HookAttempt::Lost,
        }
    }
}

fn exchange(stream: &mut UnixStream, params: &HookParams, left: Duration) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))?;
    let body = serde_json::to_vec(params)?;
    let head = format!(
        "POST /api/v1/hooks/claude HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut request = head.into_bytes();
    request.extend_from_slice(&body);
    stream.write_all(&request)?;
    let mut reply = Vec::with_capacity(1024);
    let most = FRAME_BYTES_MAX as u64;
    stream.take(most).read_to_end(&mut reply)?;
    Ok(reply)
}

/// Half an answer is the same as none: its host went away while it spoke.
fn read_reply(reply: &[u8]) -> HookAttempt {
    let garbage =
        || HookAttempt::Refused("countersign: the program on the socket is not a host".to_owned());
    if reply.is_empty() {
        return HookAttempt::Lost;
    }
    let Some(split) = reply.windows(4).position(|end| end == b"\r\n\r\n") else {
        return if reply.starts_with(b"HTTP/1.1 ") || b"HTTP/1.1 ".starts_with(reply) {
            HookAttempt::Lost
        } else {
            garbage()
        };
    };
    let (head, body) = (&reply[..split], &reply[split + 4..]);
    let Some((status, length)) = str::from_utf8(head).ok().and_then(read_head) else {
        return garbage();
    };
    if body.len() < length {
        return HookAttempt::Lost;
    }
    match (status, body.len() == length) {
        (_, false) => garbage(),
        (200, true) => serde_json::from_slice(body).map_or_else(
            |_| garbage(),
            |result| HookAttempt::Answered(Box::new(result)),
        ),
        (status, true) => refusal(status, body),
    }
}

fn read_head(head: &str) -> Option<(u16, usize)> {
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?;
    let status = status.get(..3)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    Some((status, length?.trim().parse().ok()?))
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
        match read_reply(reply.as_bytes()) {
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
