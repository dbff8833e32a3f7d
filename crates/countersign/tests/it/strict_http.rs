//! HTTP as somebody in between could read it otherwise, and more of it than anybody needs.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use crate::host::{Host, PATIENCE, command};

/// Sends bytes as they are and gives back everything that comes, to the end of the connection.
async fn exchange(host: &Host, request: &str) -> String {
    let stream = TcpStream::connect(&host.address).await.unwrap();
    exchange_over(stream, request).await
}

async fn exchange_over(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    // A host that refuses early closes before all of it is written.
    drop(stream.write_all(request.as_bytes()).await);
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer));
    drop(reading.await.unwrap());
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

#[tokio::test]
async fn a_target_with_another_host_is_refused() {
    let host = Host::start();
    let (address, token) = (&host.address, host.token());
    let rest = format!(
        "HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    for (target, expected) in [
        ("/api/v1/status".to_owned(), "200"),
        (format!("http://{address}/api/v1/status"), "200"),
        ("http://evil.example/api/v1/status".to_owned(), "403"),
        ("https://evil.example:443/api/v1/status".to_owned(), "403"),
        (format!("http://x@{address}/api/v1/status"), "403"),
    ] {
        let answer = exchange(&host, &format!("GET {target} {rest}")).await;
        assert_eq!(status(&answer), expected, "{target}: {answer}");
    }
    let answer = exchange(&host, &format!("CONNECT evil.example:443 {rest}")).await;
    assert_eq!(status(&answer), "403", "{answer}");
    let request = "GET http://evil.example/api/v1/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let stream = UnixStream::connect(host.socket()).await.unwrap();
    let answer = exchange_over(stream, request).await;
    assert_eq!(status(&answer), "403", "{answer}");
}

#[tokio::test]
async fn a_request_with_two_lengths_is_refused_and_its_connection_ends() {
    let host = Host::start();
    let (address, token) = (&host.address, host.token());
    let head = format!(
        "POST /api/v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\n"
    );
    let chunks = "2\r\n{}\r\n0\r\n\r\n";
    // Whoever believes the length sees a second request behind the first.
    let smuggled = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
    for lengths in [
        "content-length: 2\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 2\r\n",
        "Transfer-Encoding: chunked\nCONTENT-LENGTH:2\n",
        "transfer-encoding: chunked\r\ncontent-length: x\r\n",
    ] {
        let request = format!("{head}{lengths}\r\n{chunks}{smuggled}");
        let answer = exchange(&host, &request).await;
        assert_eq!(status(&answer), "400", "{lengths:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    // Either alone is served, also one after the other on one connection.
    let by_length = format!("{head}content-length: 2\r\n\r\n{{}}");
    let by_chunks =
        format!("{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n{chunks}");
    let answer = exchange(&host, &format!("{by_length}{by_chunks}")).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(events(&host).await, 2);
}

async fn events(host: &Host) -> usize {
    let token = host.token();
    let rest = crate::http::Rest {
        address: &host.address,
        token: &token,
    };
    let answer = rest.get("/api/v1/events").await;
    answer.json().as_array().unwrap().len()
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let host = Host::start();
    let address = &host.address;
    let request = |line: &str, headers: &str| {
        format!("GET {line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n")
    };
    let one = |size: usize| format!("x-long: {}\r\n", "x".repeat(size));
    let many = "x-more: y\r\n".repeat(200);
    for (line, headers, expected) in [
        ("/healthz".to_owned(), one(16 * 1024), "200"),
        ("/healthz".to_owned(), one(40 * 1024), "431"),
        ("/healthz".to_owned(), one(100 * 1024), "431"),
        ("/healthz".to_owned(), one(1024 * 1024), "431"),
        ("/healthz".to_owned(), one(1024).repeat(90), "431"),
        ("/healthz".to_owned(), many, "431"),
        (format!("/{}", "x".repeat(100 * 1024)), String::new(), "431"),
    ] {
        let answer = exchange(&host, &request(&line, &headers)).await;
        assert_eq!(
            status(&answer),
            expected,
            "{} {}",
            line.len(),
            headers.len()
        );
    }
}

/// More connections than the host may have files: the Unix socket still has room.
#[tokio::test]
async fn a_flood_on_tcp_leaves_the_unix_socket_its_room() {
    const FILES: u32 = 128;
    let host = Host::start_with_files(FILES);
    let mut flood = Vec::new();
    // Those that wait to be accepted are in the system's queue, which takes about as many.
    for _ in 0..FILES + 32 {
        let mut stream = TcpStream::connect(&host.address).await.unwrap();
        drop(stream.write_all(b"GET /api/v1/stat").await);
        flood.push(stream);
    }
    for _ in 0..20 {
        let answered = command(host.home()).args(["status", "--json"]).output();
        let answered = answered.unwrap();
        assert!(answered.status.success(), "{answered:?}");
    }
    drop(flood);
    let address = &host.address;
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    assert_eq!(status(&exchange(&host, &request).await), "200");
}

/// One process takes all it can get on the Unix socket: others still get in.
#[tokio::test]
async fn a_flood_on_the_unix_socket_leaves_others_their_room() {
    let host = Host::start_with_files(256);
    let mut flood = Vec::new();
    for _ in 0..100 {
        let mut stream = UnixStream::connect(host.socket()).await.unwrap();
        drop(stream.write_all(b"GET /api/v1/stat").await);
        flood.push(stream);
    }
    for _ in 0..5 {
        let answered = command(host.home()).args(["status", "--json"]).output();
        let answered = answered.unwrap();
        assert!(answered.status.success(), "{answered:?}");
    }
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let stream = UnixStream::connect(host.socket()).await.unwrap();
    assert_eq!(status(&exchange_over(stream, request).await), "429");
}
