//! The server: a thread that accepts and one for each request.
//!
//! Threads and blocking reads are used for want of anything more: a test has a handful of agents,
//! and whoever starts the model needs no runtime.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::conversation::{self, Conversation, Item, Reply};
use super::http::{self, Request};
use super::message::{Frame, Message};
use super::{anthropic, chat, responses};

/// How long a client may take to send its request, or to read what is sent to it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Requests that are remembered: more than any story makes, and no load for a model that runs on.
const RECEIVED_MAX: usize = 200;

/// A model that listens until it is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    stopped: Arc<AtomicBool>,
    received: Arc<Received>,
    accepting: Option<JoinHandle<()>>,
}

/// Hears of every request, in one line.
type Observer = Box<dyn Fn(&str) + Send + Sync>;

/// The texts of the newest requests.
type Received = Mutex<VecDeque<Vec<String>>>;

struct Shared {
    observe: Observer,
    received: Arc<Received>,
    /// Sets the ids of this model apart from those of every other.
    nonce: u64,
    messages: AtomicU64,
}

/// One of the APIs.
struct Dialect {
    read: fn(&Value) -> Conversation,
    whole: fn(&Message) -> Value,
    frames: fn(&Message) -> Vec<Frame>,
    failure: fn(u16) -> Value,
}

const ANTHROPIC: Dialect = Dialect {
    read: anthropic::read,
    whole: anthropic::whole,
    frames: anthropic::frames,
    failure: anthropic::failure,
};
const CHAT: Dialect = Dialect {
    read: chat::read,
    whole: chat::whole,
    frames: chat::frames,
    failure: chat::failure,
};
const RESPONSES: Dialect = Dialect {
    read: responses::read,
    whole: responses::whole,
    frames: responses::frames,
    failure: chat::failure,
};

impl ScriptedModel {
    /// Listens on a port that was free.
    pub fn start() -> io::Result<Self> {
        Self::listen(0, |_| {})
    }

    /// Listens on this port, or on a free one for 0, and tells of every request in one line.
    pub fn listen(port: u16, observe: impl Fn(&str) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let stopped = Arc::new(AtomicBool::new(false));
        let received = Arc::new(Received::default());
        let shared = Arc::new(Shared {
            observe: Box::new(observe),
            received: Arc::clone(&received),
            nonce: nonce(),
            messages: AtomicU64::new(0),
        });
        let flag = Arc::clone(&stopped);
        let accepting = thread::Builder::new()
            .name("scripted-model".to_owned())
            .spawn(move || accept(&listener, &flag, &shared))?;
        Ok(Self {
            port,
            stopped,
            received,
            accepting: Some(accepting),
        })
    }

    /// What each of the newest requests carried in the user's role or as a tool's result, oldest
    /// first. Side questions, which offer no tools, are left out.
    pub fn received(&self) -> Vec<Vec<String>> {
        let received = self.received.lock();
        let received = received.unwrap_or_else(PoisonError::into_inner);
        received.iter().cloned().collect()
    }

    /// Waits for ever.
    pub fn serve(mut self) {
        if let Some(accepting) = self.accepting.take() {
            drop(accepting.join());
        }
    }
}

impl Drop for ScriptedModel {
    /// Requests that are being answered are not waited for.
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let woken = TcpStream::connect(address).is_ok();
        if let Some(accepting) = self.accepting.take().filter(|_| woken) {
            drop(accepting.join());
        }
    }
}

fn nonce() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.as_nanos());
    u64::try_from(nanos & u128::from(u64::MAX)).unwrap_or_default()
}

fn accept(listener: &TcpListener, stopped: &AtomicBool, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        let (Ok(stream), shared) = (stream, Arc::clone(shared)) else {
            continue;
        };
        let thread = thread::Builder::new().name("scripted-answer".to_owned());
        // A client that goes away is none of our business; a thread that cannot be started shows
        // as a connection without an answer.
        drop(thread.spawn(move || drop(answer(&stream, &shared))));
    }
}

fn answer(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let Some(request) = http::read(stream)? else {
        return Ok(());
    };
    let route = request.path.trim_start_matches("/v1").to_owned();
    match (request.method.as_str(), route.as_str()) {
        ("POST", "/messages") => speak(&ANTHROPIC, &request, stream, shared),
        ("POST", "/messages/count_tokens") => {
            tell(shared, &request, "counts tokens");
            send(stream, 200, &anthropic::count_tokens())
        }
        ("POST", "/chat/completions") => speak(&CHAT, &request, stream, shared),
        ("POST", "/responses") => speak(&RESPONSES, &request, stream, shared),
        ("GET" | "HEAD", "/models") => {
            tell(shared, &request, "lists no models");
            send(
                stream,
                200,
                &json!({"object": "list", "data": [], "models": []}),
            )
        }
        _ => {
            tell(shared, &request, "is unknown");
            send(stream, 404, &chat::failure(404))
        }
    }
}

fn tell(shared: &Shared, request: &Request, what: &str) {
    (shared.observe)(&format!("{} {} {what}", request.method, request.path));
}

fn speak(
    dialect: &Dialect,
    request: &Request,
    stream: &TcpStream,
    shared: &Shared,
) -> io::Result<()> {
    let Ok(body) = serde_json::from_slice(&request.body) else {
        tell(shared, request, "is no JSON");
        return send(stream, 400, &(dialect.failure)(400));
    };
    let conversation = (dialect.read)(&body);
    remember(shared, &conversation);
    let reply = conversation::reply(&conversation);
    tell(shared, request, &format!("{reply:?}"));
    let parts = match reply {
        Reply::Fails(status) => return send(stream, status, &(dialect.failure)(status)),
        Reply::Message(parts) => parts,
    };
    let number = shared.messages.fetch_add(1, Ordering::Relaxed);
    let message = Message {
        id: format!("{:x}{number:04x}", shared.nonce),
        model: conversation.model,
        parts,
    };
    if conversation.stream {
        return send_frames(stream, (dialect.frames)(&message));
    }
    thread::sleep(message.pauses());
    send(stream, 200, &(dialect.whole)(&message))
}

fn remember(shared: &Shared, conversation: &Conversation) {
    if conversation.offers.is_empty() {
        return;
    }
    let texts = conversation.items.iter().map(|item| match item {
        Item::User(text) | Item::Result(text) => text.clone(),
    });
    let received = shared.received.lock();
    let mut received = received.unwrap_or_else(PoisonError::into_inner);
    while received.len() >= RECEIVED_MAX {
        received.pop_front();
    }
    received.push_back(texts.collect());
}

fn send(mut stream: &TcpStream, status: u16, body: &Value) -> io::Result<()> {
    http::write_head(stream, status, "application/json")?;
    stream.write_all(body.to_string().as_bytes())
}

fn send_frames(mut stream: &TcpStream, frames: Vec<Frame>) -> io::Result<()> {
    http::write_head(stream, 200, "text/event-stream")?;
    for frame in frames {
        if let Frame::Pause(duration) = frame {
            thread::sleep(duration);
        }
        stream.write_all(frame.to_text().as_bytes())?;
    }
    Ok(())
}
