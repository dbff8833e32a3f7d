//! The little HTTP/1.1 that clients of a model need: one request and one response a connection.
//!
//! Invariant: a request that is not whole is dropped without an answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// The longest request taken. Agents send their whole conversation each time, and images in it.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// The longest head taken.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// A request.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    /// `POST`, for one.
    pub(super) method: String,
    /// Where to, without the query.
    pub(super) path: String,
    /// What was sent.
    pub(super) body: Vec<u8>,
}

/// Reads one request; nothing if the client went away or speaks something else.
pub(super) fn read(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut input = BufReader::new(stream);
    let Some(head) = read_head(&mut input)? else {
        return Ok(None);
    };
    let mut start = head.lines().next().unwrap_or_default().split(' ');
    let (Some(method), Some(target)) = (start.next(), start.next()) else {
        return Ok(None);
    };
    if header(&head, "expect").is_some() {
        (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = read_body(&mut input, &head)?;
    Ok(Some(Request {
        method: method.to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        body,
    }))
}

fn read_head(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut limited = input.take(HEAD_BYTES_MAX);
    while !head.ends_with(b"\r\n\r\n") {
        if limited.read_until(b'\n', &mut head)? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

fn read_body(input: &mut impl BufRead, head: &str) -> io::Result<Vec<u8>> {
    let chunked = header(head, "transfer-encoding").is_some_and(|value| value.contains("chunked"));
    if chunked {
        return read_chunks(input);
    }
    let length = header(head, "content-length").map_or(Ok(0), |value| size(&value, 10))?;
    read_exactly(input, length)
}

fn read_chunks(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        input.take(HEAD_BYTES_MAX).read_line(&mut line)?;
        let length = size(line.split(';').next().unwrap_or_default(), 16)?;
        // Each chunk, the last one too, is followed by an end of line.
        let mut chunk = read_exactly(input, length + 2)?;
        chunk.truncate(chunk.len().saturating_sub(2));
        body.append(&mut chunk);
        if length == 0 {
            return Ok(body);
        }
        if body.len() as u64 > BODY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

fn read_exactly(input: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if input.take(length).read_to_end(&mut body)? as u64 == length {
        Ok(body)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn size(text: &str, radix: u32) -> io::Result<u64> {
    match u64::from_str_radix(text.trim(), radix) {
        Ok(size) if size <= BODY_BYTES_MAX => Ok(size),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut named = fields.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    named
        .next()
        .map(|(_, value)| value.trim().to_ascii_lowercase())
}

/// Writes the head of a response whose body ends with the connection.
pub(super) fn write_head(
    mut stream: &TcpStream,
    status: u16,
    content_type: &str,
) -> io::Result<()> {
    let reason = if status < 400 { "OK" } else { "Scripted" };
    write!(
        stream,
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\ncache-control: no-cache\r\nconnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::{header, read_body, read_head};

    #[test]
    fn bodies_are_read_by_length_and_by_chunks() {
        for (sent, expected) in [
            ("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", "hi"),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1;x=y\r\n!\r\n0\r\n\r\n",
                "hi!",
            ),
            ("GET / HTTP/1.1\r\n\r\n", ""),
        ] {
            let mut input = sent.as_bytes();
            let head = read_head(&mut input).expect("reads").expect("a head");
            let body = read_body(&mut input, &head).expect("a body");
            assert_eq!(String::from_utf8_lossy(&body), expected);
        }
    }

    #[test]
    fn half_a_request_is_none() {
        assert_eq!(
            read_head(&mut "POST / HTTP".as_bytes()).expect("reads"),
            None
        );
        let head = "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n";
        assert!(read_body(&mut "hi".as_bytes(), head).is_err());
    }

    #[test]
    fn headers_are_found_in_any_case() {
        assert_eq!(
            header("X\r\ncontent-LENGTH:  7\r\n", "content-length"),
            Some("7".to_owned())
        );
    }
}
