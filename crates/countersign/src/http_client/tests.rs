use super::*;

/// The data of all events, or the kind of the failure.
fn events(answer: &str) -> Result<Vec<String>, io::ErrorKind> {
    let mut answer = HttpResponse::read(answer.as_bytes()).map_err(|error| error.kind())?;
    assert!(answer.is_event_stream);
    let mut found = Vec::new();
    while let Some(event) = answer.next_event(64).map_err(|error| error.kind())? {
        found.push(event);
    }
    Ok(found)
}

fn body(answer: &str, bytes_max: usize) -> Result<String, io::ErrorKind> {
    let body = HttpResponse::read(answer.as_bytes()).and_then(|mut head| head.read_body(bytes_max));
    body.map(|body| String::from_utf8(body).unwrap())
        .map_err(|error| error.kind())
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn events_are_read_across_chunks() {
    let answer = format!(
        "{STREAM}f\r\n: wait\ndata: on\r\n8;x=y\r\ne\ndata:t\r\n5\r\nwo\r\n\n\r\n0\r\n\r\n"
    );
    let expected = vec!["one\ntwo\n".to_owned()];
    assert_eq!(events(&answer), Ok(expected));
}

#[test]
fn a_cut_off_answer_is_an_error_wherever_it_ends() {
    let whole = format!("{STREAM}8\r\ndata: a\n\r\n1\r\n\n\r\n0\r\n");
    assert_eq!(events(&whole), Ok(vec!["a\n".to_owned()]));
    for end in 0..whole.len() {
        let cut = &whole[..end];
        assert_eq!(events(cut), Err(io::ErrorKind::UnexpectedEof), "{cut:?}");
    }
    // The stream may end, but not inside an event.
    let unfinished = format!("{STREAM}8\r\ndata: a\n\r\n0\r\n\r\n");
    assert_eq!(events(&unfinished), Err(io::ErrorKind::UnexpectedEof));
}

#[test]
fn a_body_has_a_length_and_a_bound() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
    assert_eq!(body(answer, 3), Ok("abc".to_owned()));
    assert_eq!(body(answer, 2), Err(io::ErrorKind::InvalidData));
    assert_eq!(
        body(&answer[..answer.len() - 1], 3),
        Err(io::ErrorKind::UnexpectedEof)
    );
    let empty = "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(body(empty, 3), Ok(String::new()));
}

#[test]
fn what_is_not_http_is_told_apart_from_a_cut_off_answer() {
    let long_line = format!("HTTP/1.1 200 {}", "x".repeat(HEAD_BYTES_MAX));
    let long_head = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(200));
    for answer in [
        "allow",
        "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n",
        &long_line,
        &long_head,
    ] {
        assert_eq!(body(answer, 9), Err(io::ErrorKind::InvalidData), "{answer}");
    }
}

#[test]
fn bytes_after_the_body_are_seen() {
    let mut answer =
        HttpResponse::read(&b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab"[..]).unwrap();
    assert_eq!(answer.read_body(9).unwrap(), b"a");
    let failed = answer.expect_end().unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::InvalidData);
}
