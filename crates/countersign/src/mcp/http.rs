//! As much HTTP as one call needs: one request on a connection of its own, and its answer as JSON or as
//! a stream of events.
//!
//! Invariant: whatever the other end says, only bounded memory is used, and an answer that was cut off
//! is an error, never an end.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;

use countersign_core::limits::MCP_LINE_BYTES_MAX;

/// The head of an answer: a few lines.
const HEAD_BYTES_MAX: u64 = 64 * 1024;

/// What goes out.
pub(super) struct HttpPost<'a> {
    pub(super) headers: &'a [(&'static str, String)],
    pub(super) body: &'a [u8],
}

/// The answer, as far as its head says.
pub(super) struct HttpResponse {
    pub(super) status: u16,
    is_stream: bool,
    body: BufReader<ResponseBody>,
}

/// Sends a request and reads the head of its answer.
pub(super) fn post(mut stream: UnixStream, post: &HttpPost<'_>) -> io::Result<HttpResponse> {
    let mut head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
        post.body.len()
    );
    let headers = post.headers.iter();
    let parts = headers.flat_map(|(name, value)| [name, ": ", value, "\r\n"]);
    head.extend(parts.chain(["\r\n"]));
    stream.write_all(head.as_bytes())?;
    stream.write_all(post.body)?;
    stream.flush()?;
    read_head(BufReader::new(stream))
}

fn read_head(mut stream: BufReader<UnixStream>) -> io::Result<HttpResponse> {
    let mut head = (&mut stream).take(HEAD_BYTES_MAX);
    let status = read_line(&mut head)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| bad("no status"))?;
    let (mut length, mut is_chunked, mut is_stream) = (None, false, false);
    loop {
        let line = read_line(&mut head)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("no header"))?;
        let value = value.trim().to_ascii_lowercase();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok(),
            "transfer-encoding" => is_chunked = value == "chunked",
            "content-type" => is_stream = value.starts_with("text/event-stream"),
            _ => {}
        }
    }
    let left = match length {
        _ if is_chunked => BodyRemainder::Chunk(0),
        Some(length) => BodyRemainder::Bytes(length),
        None => BodyRemainder::Bytes(0),
    };
    let body = BufReader::new(ResponseBody { stream, left });
    Ok(HttpResponse {
        status,
        is_stream,
        body,
    })
}

fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8(line).map_err(|_| bad("not text"))?;
    Ok(line.trim_end_matches('\r').to_owned())
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl HttpResponse {
    /// The next message, or nothing when the answer is over.
    pub(super) fn next_message(&mut self) -> io::Result<Option<String>> {
        if self.is_stream {
            return self.next_event();
        }
        let mut whole = String::new();
        let limit = MCP_LINE_BYTES_MAX as u64;
        let read = (&mut self.body)
            .take(limit + 1)
            .read_to_string(&mut whole)?;
        if read > MCP_LINE_BYTES_MAX {
            return Err(bad("the answer is too long"));
        }
        Ok(Some(whole).filter(|whole| !whole.trim().is_empty()))
    }

    /// Comments and fields besides the data are passed over.
    fn next_event(&mut self) -> io::Result<Option<String>> {
        let mut event = String::new();
        loop {
            let mut line = Vec::new();
            let limit = MCP_LINE_BYTES_MAX as u64;
            (&mut self.body).take(limit).read_until(b'\n', &mut line)?;
            if line.pop() != Some(b'\n') {
                return if line.is_empty() && event.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
            let line = String::from_utf8(line).map_err(|_| bad("not text"))?;
            let line = line.trim_end_matches('\r');
            if line.is_empty() && !event.is_empty() {
                return Ok(Some(event));
            }
            if let Some(data) = line.strip_prefix("data:") {
                event.push_str(data.strip_prefix(' ').unwrap_or(data));
                event.push('\n');
            }
            if event.len() > MCP_LINE_BYTES_MAX {
                return Err(bad("the answer is too long"));
            }
        }
    }
}

/// The body of an answer, without what frames it.
struct ResponseBody {
    stream: BufReader<UnixStream>,
    left: BodyRemainder,
}

/// What is still to come.
enum BodyRemainder {
    /// This much of the whole.
    Bytes(u64),
    /// This much of a piece, and then more pieces.
    Chunk(u64),
    /// Nothing.
    Nothing,
}

impl Read for ResponseBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let BodyRemainder::Chunk(0) = self.left {
            self.begin_chunk()?;
        }
        let (BodyRemainder::Bytes(left) | BodyRemainder::Chunk(left)) = self.left else {
            return Ok(0);
        };
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        let wanted = wanted.min(buffer.len());
        // Nothing is read where nothing is wanted: that would wait for what never comes.
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.stream.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let left = left - read as u64;
        self.left = match self.left {
            BodyRemainder::Chunk(_) => {
                if left == 0 {
                    self.end_chunk()?;
                }
                BodyRemainder::Chunk(left)
            }
            BodyRemainder::Bytes(_) | BodyRemainder::Nothing => BodyRemainder::Bytes(left),
        };
        Ok(read)
    }
}

impl ResponseBody {
    fn begin_chunk(&mut self) -> io::Result<()> {
        let line = read_line(&mut (&mut self.stream).take(HEAD_BYTES_MAX))?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| bad("no size"))?;
        self.left = if size == 0 {
            BodyRemainder::Nothing
        } else {
            BodyRemainder::Chunk(size)
        };
        Ok(())
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        let end = read_line(&mut (&mut self.stream).take(HEAD_BYTES_MAX))?;
        if end.is_empty() {
            Ok(())
        } else {
            Err(bad("a piece without an end"))
        }
    }
}
