//! One request to the host over its Unix socket, and the answer: for the hook and the MCP bridge.
//!
//! Blocking and free of any runtime: a hook runs before each step of an agent, and there is one bridge
//! for each agent, so both must start fast and stay small.
//!
//! Invariants: whatever the other end sends, only bounded memory is used; an answer that was cut off is
//! an error and never an end. What is not HTTP at all has the kind `InvalidData`, so that callers can
//! tell a host that went away from a program that is not a host.

use std::io::{self, BufRead, BufReader, Read, Write};

/// The head of an answer, or one line that frames a chunk.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// More lines than any host sends.
const HEAD_LINES_MAX: usize = 100;

const VERSION: &[u8] = b"HTTP/1.1 ";

pub(crate) struct HttpPost<'a> {
    pub(crate) path: &'static str,
    /// Sent as they are: whoever fills them in keeps line breaks out.
    pub(crate) headers: &'a [(&'static str, String)],
    /// JSON.
    pub(crate) body: &'a [u8],
}

/// An answer whose head was read; the body is read on demand.
pub(crate) struct HttpResponse<S> {
    pub(crate) status: u16,
    pub(crate) is_event_stream: bool,
    body: ResponseBody<S>,
}

/// Sends a request and reads the head of its answer. The connection serves this one request.
pub(crate) fn post<S: Read + Write>(
    mut stream: S,
    post: &HttpPost<'_>,
) -> io::Result<HttpResponse<S>> {
    let mut head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n",
        post.path,
        post.body.len()
    );
    for (name, value) in post.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(post.body)?;
    stream.flush()?;
    HttpResponse::read(stream)
}

impl<S: Read> HttpResponse<S> {
    pub(crate) fn read(stream: S) -> io::Result<Self> {
        let mut stream = BufReader::new(stream);
        // Byte by byte: a program that is not a host may send less than a line and then wait, and an
        // answer that was cut off inside these bytes must not look like one that is not HTTP.
        for expected in VERSION {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            if byte[0] != *expected {
                return Err(malformed("not HTTP/1.1"));
            }
        }
        let status = head_line(&mut stream)?;
        let status = status.get(..3).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| malformed("no status"))?;
        let (mut remainder, mut is_event_stream) = (None, false);
        for _ in 0..HEAD_LINES_MAX {
            let line = head_line(&mut stream)?;
            if line.is_empty() {
                // Without a length, an answer that was cut off would look whole.
                let remainder = remainder.ok_or_else(|| malformed("no length"))?;
                return Ok(Self {
                    status,
                    is_event_stream,
                    body: ResponseBody { stream, remainder },
                });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed("no header"))?;
            let value = value.trim().to_ascii_lowercase();
            match name.to_ascii_lowercase().as_str() {
                "transfer-encoding" if value == "chunked" => {
                    remainder = Some(BodyRemainder::FirstChunk);
                }
                "content-length" => {
                    let length = value.parse().map_err(|_| malformed("no length"))?;
                    // Chunks say where they end themselves, so they win over a length.
                    remainder.get_or_insert(BodyRemainder::Length(length));
                }
                "content-type" => is_event_stream = value.starts_with("text/event-stream"),
                _ => {}
            }
        }
        Err(malformed("the head is too long"))
    }

    /// The whole body.
    pub(crate) fn read_body(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        // One byte more than allowed tells a body that is too long from one that just fits.
        (&mut self.body)
            .take(bytes_max as u64 + 1)
            .read_to_end(&mut whole)?;
        if whole.len() > bytes_max {
            return Err(malformed("the answer is too long"));
        }
        Ok(whole)
    }

    /// Fails if anything follows the body: a host closes the connection after its one answer.
    pub(crate) fn expect_end(&mut self) -> io::Result<()> {
        match self.body.stream.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(malformed("more than one answer")),
        }
    }

    /// The data of the next server-sent event, or nothing at the end of the stream. Comments and other
    /// fields are skipped.
    pub(crate) fn next_event(&mut self, bytes_max: usize) -> io::Result<Option<String>> {
        let mut event = String::new();
        while let Some(line) = read_line(&mut self.body, bytes_max)? {
            if line.is_empty() && !event.is_empty() {
                return Ok(Some(event));
            }
            if let Some(data) = line.strip_prefix("data:") {
                event.push_str(data.strip_prefix(' ').unwrap_or(data));
                event.push('\n');
            }
            if event.len() > bytes_max {
                return Err(malformed("the answer is too long"));
            }
        }
        // Only an empty line completes an event.
        if event.is_empty() {
            Ok(None)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn head_line(input: &mut impl BufRead) -> io::Result<String> {
    read_line(input, HEAD_BYTES_MAX)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A line without its end, or nothing where the input ends before it.
fn read_line(input: &mut impl BufRead, bytes_max: usize) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    input.take(bytes_max as u64).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(if line.len() + 1 == bytes_max {
            malformed("a line is too long")
        } else {
            io::ErrorKind::UnexpectedEof.into()
        });
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    let line = String::from_utf8(line).map_err(|_| malformed("not UTF-8"))?;
    Ok(Some(line))
}

/// The body of an answer, without what frames it.
struct ResponseBody<S> {
    stream: BufReader<S>,
    remainder: BodyRemainder,
}

/// What is still to come.
#[derive(Clone, Copy)]
enum BodyRemainder {
    /// So many bytes, then nothing.
    Length(u64),
    /// The line with the size of the first chunk.
    FirstChunk,
    /// So many bytes of a chunk, then its line end and another chunk.
    Chunk(u64),
}

impl<S: Read> ResponseBody<S> {
    fn begin_chunk(&mut self) -> io::Result<()> {
        let size = head_line(&mut self.stream)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| malformed("no chunk size"))?;
        // A chunk of no bytes is the last one; what may follow it is about the answer, not of it.
        self.remainder = match size {
            0 => BodyRemainder::Length(0),
            size => BodyRemainder::Chunk(size),
        };
        Ok(())
    }
}

impl<S: Read> BufRead for ResponseBody<S> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // The line end of a chunk is read only when more is wanted: an event that is whole must not
        // wait for bytes that the host may send much later.
        match self.remainder {
            BodyRemainder::FirstChunk => self.begin_chunk()?,
            BodyRemainder::Chunk(0) => {
                if !head_line(&mut self.stream)?.is_empty() {
                    return Err(malformed("a chunk without an end"));
                }
                self.begin_chunk()?;
            }
            BodyRemainder::Chunk(_) | BodyRemainder::Length(_) => {}
        }
        let (BodyRemainder::Chunk(left) | BodyRemainder::Length(left)) = self.remainder else {
            return Ok(&[]);
        };
        // Where nothing is left nothing is read: that would wait for what never comes.
        if left == 0 {
            return Ok(&[]);
        }
        let buffered = self.stream.fill_buf()?;
        if buffered.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        Ok(&buffered[..buffered.len().min(left)])
    }

    fn consume(&mut self, amount: usize) {
        self.stream.consume(amount);
        if let BodyRemainder::Chunk(left) | BodyRemainder::Length(left) = &mut self.remainder {
            *left -= amount as u64;
        }
    }
}

impl<S: Read> Read for ResponseBody<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
