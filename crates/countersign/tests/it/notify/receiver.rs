//! A server on loopback that takes what channels send.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A message as it came.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedMessage {
    path: String,
    webhook_id: Option<String>,
    pub(crate) body: Value,
}

impl ReceivedMessage {
    /// What tells a repetition: in a header of webhooks, in the body for ntfy.
    pub(crate) fn id(&self) -> String {
        let in_body = self.body["sequence_id"].as_str().map(str::to_owned);
        self.webhook_id.clone().or(in_body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        let text = self.body["message"].as_str();
        text.or(self.body["data"]["text"].as_str())
            .unwrap()
            .to_owned()
    }
}

/// The server. It lives as long as the test process.
pub(crate) struct Receiver {
    pub(crate) address: String,
    messages: Arc<Mutex<Vec<ReceivedMessage>>>,
    status: Arc<AtomicU16>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap().to_string(),
            messages: Arc::default(),
            status: Arc::new(AtomicU16::new(200)),
        };
        let (messages, status) = (receiver.messages.clone(), receiver.status.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (messages, status) = (messages.clone(), status.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &messages, &status));
            }
        });
        receiver
    }

    /// What it says to everything from here on.
    pub(crate) fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// Forgets what came; how many messages that were.
    pub(crate) fn forget(&self) -> usize {
        std::mem::take(&mut *self.messages.lock().unwrap()).len()
    }

    pub(crate) fn messages(&self, path: &str) -> Vec<ReceivedMessage> {
        let messages = self.messages.lock().unwrap();
        let found = messages.iter().filter(|message| message.path == path);
        found.cloned().collect()
    }

    pub(crate) fn count(&self, path: &str) -> usize {
        self.messages(path).len()
    }

    pub(crate) fn texts(&self, path: &str) -> Vec<String> {
        self.messages(path)
            .iter()
            .map(ReceivedMessage::text)
            .collect()
    }

    pub(crate) fn message_about(&self, path: &str, text: &str) -> ReceivedMessage {
        let mut messages = self.messages(path).into_iter();
        messages.find(|message| message.text() == text).unwrap()
    }
}

fn serve(mut stream: TcpStream, messages: &Mutex<Vec<ReceivedMessage>>, status: &AtomicU16) {
    let mut buffer = Vec::new();
    // One connection may bring several requests; a host that is killed just ends it.
    while let Some(message) = read_request(&mut stream, &mut buffer) {
        messages.lock().unwrap().push(message);
        let status = status.load(Ordering::SeqCst);
        let reply = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nno");
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<ReceivedMessage> {
    let mut chunk = [0; 4096];
    loop {
        if let Some((message, taken)) = parse(buffer) {
            buffer.drain(..taken);
            return Some(message);
        }
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        buffer.extend_from_slice(&chunk[..read]);
    }
}

/// A whole request and its length, if it has come.
fn parse(bytes: &[u8]) -> Option<(ReceivedMessage, usize)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned())
    };
    let length: usize = header("content-length")?.parse().unwrap();
    let body = rest.get(..length)?;
    let message = ReceivedMessage {
        path: head.split(' ').nth(1).unwrap().to_owned(),
        webhook_id: header("webhook-id"),
        body: serde_json::from_str(body).unwrap(),
    };
    Some((message, head.len() + 4 + length))
}
