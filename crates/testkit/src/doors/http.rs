//! Plain HTTP by hand, so that every header can be forged.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::PATIENCE;
use super::shape::take_request_id;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// The body, without the id of the request that an error carries.
    pub fn json(&self) -> Value {
        let mut body: Value =
            serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"));
        if let Some(error) = body.get_mut("error").filter(|error| error.is_object()) {
            take_request_id(error);
        }
        body
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Status and reason of a refusal.
    pub fn refusal(&self) -> (u16, String) {
        let reason = self.json()["error"]["reason"].as_str().unwrap().to_owned();
        (self.status, reason)
    }
}

/// One request on a connection of its own. Without a `host` header of the caller's, the right one is sent.
pub async fn http(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    http_over(stream, address, method, path, headers, body).await
}

pub async fn http_over(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let head = head(address, method, path, headers, body.len());
    // A host that refuses a body early closes before all of it is written.
    drop(stream.write_all((head + body).as_bytes()).await);
    let mut reader = BufReader::new(stream);
    let (status, headers) = read_head(&mut reader).await;
    let mut body = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, reader.read_to_end(&mut body));
    drop(reading.await.unwrap());
    Answer {
        status,
        headers,
        body: String::from_utf8(body).unwrap(),
    }
}

fn head(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    length: usize,
) -> String {
    let mut lines = vec![
        format!("{method} {path} HTTP/1.1"),
        "connection: close".to_owned(),
    ];
    if !headers.iter().any(|(name, _)| *name == "host") {
        lines.push(format!("host: {address}"));
    }
    if length > 0 {
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            lines.push("content-type: application/json".to_owned());
        }
        lines.push(format!("content-length: {length}"));
    }
    lines.extend(
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}")),
    );
    lines.join("\r\n") + "\r\n\r\n"
}

async fn read_head(reader: &mut BufReader<impl AsyncRead + Unpin>) -> (u16, Vec<(String, String)>) {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let reading = tokio::time::timeout(PATIENCE, reader.read_line(&mut line));
        reading.await.unwrap().unwrap();
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines[1..].iter().map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    });
    (status, headers.collect())
}

/// An operator's way to REST.
pub struct Rest<'a> {
    pub address: &'a str,
    pub token: &'a str,
}

impl Rest<'_> {
    pub async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let headers = [("authorization", bearer.as_str())];
        http(self.address, method, path, &headers, &body).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, Value::Null).await
    }
}

/// Events as a stream.
pub struct EventStream {
    reader: BufReader<TcpStream>,
}

impl EventStream {
    pub async fn open(address: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = head(address, "GET", path, headers, 0);
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader).await;
        assert_eq!(status, 200, "{headers:?}");
        Self { reader }
    }

    /// The next event's id and content, or nothing at the end. Lengths of chunks, comments and
    /// blanks are passed over.
    pub async fn next(&mut self) -> Option<(u64, Value)> {
        let mut id = None;
        loop {
            let mut line = String::new();
            let reading = tokio::time::timeout(PATIENCE, self.reader.read_line(&mut line));
            if reading.await.unwrap().unwrap() == 0 {
                return None;
            }
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.trim().parse().unwrap());
            } else if let Some(text) = line.strip_prefix("data: ") {
                let event = serde_json::from_str(text).unwrap();
                return Some((id.expect("an id before the content"), event));
            }
        }
    }
}
