//! One length for each request. A request with `Content-Length` and `Transfer-Encoding` has two,
//! and a proxy between the caller and the host may use the other one (request smuggling).
//!
//! hyper uses the chunks and removes the length before a handler sees it. So the header lines are
//! counted as they arrive: a line that was counted and is in no request that hyper passed on
//! belongs to a request that has both. It errs on the side of refusing: such a line in a body
//! counts too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::http::{HeaderMap, header};
use countersign_protocol::Reason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::api_error::ApiError;
use crate::capacity::ProcessShare;

const NAME: &[u8] = b"content-length";

/// The lengths of one connection: lines that came in, and requests that had one.
#[derive(Debug, Default)]
pub(crate) struct LengthLines {
    received: AtomicU64,
    matched: AtomicU64,
}

impl LengthLines {
    /// Refuses a request that has chunks and a length. Called once for each request, in their
    /// order.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        if headers.contains_key(header::TRANSFER_ENCODING) {
            // Read when the head is complete: all its lines are counted by now. A client that sends
            // its next request early can only raise the count, which refuses.
            let received = self.received.load(Ordering::Acquire);
            if received > self.matched.load(Ordering::Acquire) {
                let message = "a request has a `Content-Length` or a `Transfer-Encoding`, not both";
                return Err(ApiError::plain(Reason::InvalidParams, message));
            }
        } else if headers.contains_key(header::CONTENT_LENGTH) {
            self.matched.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// A stream whose incoming lines are counted.
pub(crate) struct WatchedStream<S> {
    stream: S,
    lines: Arc<LengthLines>,
    scanner: LineScanner,
    // Here because the stream lives exactly as long as the connection, also after an upgrade.
    _share: Option<ProcessShare>,
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(stream: S, lines: Arc<LengthLines>, share: Option<ProcessShare>) -> Self {
        Self {
            stream,
            lines,
            scanner: LineScanner::default(),
            _share: share,
        }
    }
}

/// Finds lines that begin with the name and a colon, however they are cut into pieces.
#[derive(Debug, Default)]
struct LineScanner {
    /// How much of the name this line has so far; `None` if it is another line. A connection begins
    /// with a request line, which is never the header.
    matched: Option<usize>,
}

impl LineScanner {
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut found = 0;
        loop {
            let Some(matched) = self.matched else {
                let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                    return found;
                };
                bytes = &bytes[end + 1..];
                self.matched = Some(0);
                continue;
            };
            let Some((&byte, rest)) = bytes.split_first() else {
                return found;
            };
            if matched == NAME.len() && byte == b':' {
                found += 1;
            }
            let goes_on = NAME.get(matched) == Some(&byte.to_ascii_lowercase());
            self.matched = goes_on.then_some(matched + 1);
            // A newline is left for the search above, which begins the next line.
            if goes_on || byte != b'\n' {
                bytes = rest;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let found = self.scanner.count(&buffer.filled()[before..]);
        if found > 0 {
            self.lines.received.fetch_add(found, Ordering::AcqRel);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_wherever_the_pieces_end() {
        let text = b"POST / HTTP/1.1\r\nhost: x\r\nCoNtent-Length: 3\r\nx-content-length: 1\r\n\
            content-lengths: 2\ncontent-length:5\n\ncontent-lengt\ncontent-length";
        for size in 1..text.len() {
            let mut scanner = LineScanner::default();
            let found: u64 = text.chunks(size).map(|piece| scanner.count(piece)).sum();
            assert_eq!(found, 2, "in pieces of {size}");
        }
    }

    #[test]
    fn a_length_that_no_request_shows_is_refused_beside_chunks() {
        let headers = |name: &'static str, value: &'static str| {
            let value = axum::http::HeaderValue::from_static(value);
            HeaderMap::from_iter([(axum::http::HeaderName::from_static(name), value)])
        };
        let (length, chunks) = (
            headers("content-length", "3"),
            headers("transfer-encoding", "chunked"),
        );
        let lines = LengthLines::default();
        assert!(lines.check(&chunks).is_ok());
        lines.received.fetch_add(1, Ordering::AcqRel);
        assert!(lines.check(&length).is_ok());
        assert!(lines.check(&chunks).is_ok());
        lines.received.fetch_add(1, Ordering::AcqRel);
        assert!(lines.check(&chunks).is_err());
    }
}
