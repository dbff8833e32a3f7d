//! Frames on a link: the length of what follows, the length of the head, the head as JSON, the body.
//! Both lengths are four bytes, the highest first.
//!
//! Invariants: a frame is written at once; one that is longer than the bound is neither written nor
//! read, and nothing is set aside for it.

use std::io;

use countersign_core::limits::LINK_FRAME_BYTES_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What one length takes.
const LENGTH: usize = size_of::<u32>();

/// Writes one frame and flushes it. Given up half way, the link is of no more use.
pub(crate) async fn write_frame(
    out: &mut (impl AsyncWrite + Unpin),
    head: &impl Serialize,
    body: &[u8],
) -> io::Result<()> {
    out.write_all(&encode(head, body)?).await?;
    out.flush().await
}

/// Gives the bytes of one frame.
pub(super) fn encode(head: &impl Serialize, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 2 * LENGTH];
    serde_json::to_writer(&mut frame, head)?;
    let head_bytes = to_length(frame.len() - 2 * LENGTH)?;
    let whole = to_length(frame.len() - LENGTH + body.len())?;
    frame[..LENGTH].copy_from_slice(&whole);
    frame[LENGTH..2 * LENGTH].copy_from_slice(&head_bytes);
    frame.extend_from_slice(body);
    Ok(frame)
}

/// Reads one frame: its head and its body. Nothing at all if the link ended between two frames; an
/// end within one is an error. Given up half way, the link is of no more use.
pub(crate) async fn read_frame<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<(T, Vec<u8>)>> {
    // Only before the first byte of a frame is the end of the link a clean end.
    let Some(whole) = read_first_length(from).await? else {
        return Ok(None);
    };
    let head_bytes = read_length(from).await?;
    let body_bytes = whole
        .checked_sub(LENGTH)
        .and_then(|rest| rest.checked_sub(head_bytes))
        .ok_or_else(|| invalid("a frame is shorter than its head"))?;
    // Both lengths were checked against the bound, so that nobody can make us reserve more.
    let head = read_bytes(from, head_bytes).await?;
    let body = read_bytes(from, body_bytes).await?;
    Ok(Some((serde_json::from_slice(&head)?, body)))
}

async fn read_first_length(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<usize>> {
    let mut length = [0; LENGTH];
    let read = from.read(&mut length).await?;
    if read == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[read..]).await?;
    parse_length(length).map(Some)
}

async fn read_length(from: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
    let mut length = [0; LENGTH];
    from.read_exact(&mut length).await?;
    parse_length(length)
}

async fn read_bytes(from: &mut (impl AsyncRead + Unpin), bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = vec![0; bytes];
    from.read_exact(&mut read).await?;
    Ok(read)
}

fn parse_length(length: [u8; LENGTH]) -> io::Result<usize> {
    usize::try_from(u32::from_be_bytes(length))
        .ok()
        .filter(|&length| length <= LINK_FRAME_BYTES_MAX)
        .ok_or_else(|| invalid("a frame is too long"))
}

fn to_length(bytes: usize) -> io::Result<[u8; LENGTH]> {
    u32::try_from(bytes)
        .ok()
        .filter(|_| bytes <= LINK_FRAME_BYTES_MAX)
        .map(u32::to_be_bytes)
        .ok_or_else(|| invalid("a frame would be too long"))
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(mut bytes: &[u8]) -> Vec<Result<(String, Vec<u8>), io::ErrorKind>> {
        let mut frames = Vec::new();
        loop {
            match read_frame::<String>(&mut bytes).await {
                Ok(Some(frame)) => frames.push(Ok(frame)),
                Ok(None) => return frames,
                Err(error) => {
                    frames.push(Err(error.kind()));
                    return frames;
                }
            }
        }
    }

    #[tokio::test]
    async fn frames_come_out_as_they_went_in() {
        let mut link = Vec::new();
        write_frame(&mut link, &"one", b"\0body").await.unwrap();
        write_frame(&mut link, &"two", b"").await.unwrap();
        let expected = [
            Ok(("one".to_owned(), b"\0body".to_vec())),
            Ok(("two".to_owned(), Vec::new())),
        ];
        assert_eq!(read_all(&link).await, expected);
    }

    #[tokio::test]
    async fn an_end_within_a_frame_is_an_error() {
        let frame = encode(&"one", b"body").unwrap();
        for end in 1..frame.len() {
            let expected = [Err(io::ErrorKind::UnexpectedEof)];
            assert_eq!(read_all(&frame[..end]).await, expected, "after {end} bytes");
        }
    }

    #[tokio::test]
    async fn lengths_that_cannot_be_are_refused() {
        let long = u32::try_from(LINK_FRAME_BYTES_MAX + 1)
            .unwrap()
            .to_be_bytes();
        let cases: [&[u8]; 3] = [&long, b"\0\0\0\x03\0\0\0\0", b"\0\0\0\x06\0\0\0\x03\"\""];
        for bytes in cases {
            let expected = [Err(io::ErrorKind::InvalidData)];
            assert_eq!(read_all(bytes).await, expected, "{bytes:?}");
        }
        let body = vec![0; LINK_FRAME_BYTES_MAX];
        assert!(encode(&"one", &body).is_err());
    }
}
