//! The server: one thread with a runtime of its own, so that tests without a runtime can start a model.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::conversation::{self, Conversation, Item, Reply};
use super::message::{Frame, Message};
use super::{anthropic, gemini, responses};

/// The longest request taken. Agents send their whole conversation each time, and images in it.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Requests that are remembered: more than any test makes.
const RECEIVED_MAX: usize = 200;

/// A model that listens until it is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    shutdown: CancellationToken,
    received: Arc<Received>,
    thread: Option<JoinHandle<()>>,
}

/// The texts of the newest requests.
type Received = Mutex<VecDeque<Vec<String>>>;

struct ModelState {
    /// Gets one line about every request.
    observe: Box<dyn Fn(&str) + Send + Sync>,
    received: Arc<Received>,
    /// Makes the ids of this model differ from those of every other.
    nonce: u128,
    messages: AtomicU64,
}

/// One of the APIs.
struct ModelApi {
    read: fn(&Value) -> Conversation,
    whole: fn(&Message) -> Value,
    frames: fn(&Message) -> Vec<Frame>,
    failure: fn(u16) -> Value,
}

const ANTHROPIC: ModelApi = ModelApi {
    read: anthropic::read,
    whole: anthropic::whole,
    frames: anthropic::frames,
    failure: anthropic::failure,
};
const RESPONSES: ModelApi = ModelApi {
    read: responses::read,
    whole: responses::whole,
    frames: responses::frames,
    failure: responses::failure,
};

const GEMINI: ModelApi = ModelApi {
    read: gemini::read,
    whole: gemini::whole,
    frames: gemini::frames,
    failure: gemini::failure,
};
const GEMINI_STREAM: ModelApi = ModelApi {
    read: gemini::read_streamed,
    ..GEMINI
};

impl ScriptedModel {
    /// Listens on a free port.
    pub fn start() -> io::Result<Self> {
        Self::listen(0, |_| {})
    }

    /// Listens on this port, or on a free one for 0, and describes every request in one line.
    pub fn listen(port: u16, observe: impl Fn(&str) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let shutdown = CancellationToken::new();
        let received = Arc::new(Received::default());
        let state = Arc::new(ModelState {
            observe: Box::new(observe),
            received: Arc::clone(&received),
            nonce: nonce(),
            messages: AtomicU64::new(0),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let serving = shutdown
            .clone()
            .run_until_cancelled_owned(serve(listener, state));
        let thread = thread::Builder::new()
            .name("scripted-model".to_owned())
            // Requests that are still being answered end with the runtime.
            .spawn(move || drop(runtime.block_on(serving)))?;
        Ok(Self {
            port,
            shutdown,
            received,
            thread: Some(thread),
        })
    }

    /// What each of the newest requests carried in the user's role or as a tool's result, oldest
    /// first. Side questions, which offer no tools, are left out.
    pub fn received(&self) -> Vec<Vec<String>> {
        let received = self.received.lock();
        let received = received.unwrap_or_else(PoisonError::into_inner);
        received.iter().cloned().collect()
    }

    /// Waits until the process is ended.
    pub fn serve(mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn nonce() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos())
}

async fn serve(listener: TcpListener, state: Arc<ModelState>) -> io::Result<()> {
    // Events of a stream are small: without this each of them would wait for the client's acknowledgement.
    let listener = tokio::net::TcpListener::from_std(listener)?
        .tap_io(|stream| drop(stream.set_nodelay(true)));
    let router = Router::new()
        .fallback(answer)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(state);
    axum::serve(listener, router).await
}

/// Clients differ in whether the base URL they are given ends with `/v1`, so both forms are served.
async fn answer(
    State(state): State<Arc<ModelState>>,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    let request = format!("{method} {}", uri.path());
    let route = uri.path().trim_start_matches("/v1");
    let (outcome, response) = match (method.as_str(), route) {
        ("POST", "/messages") => state.speak(&ANTHROPIC, &body).await,
        ("POST", "/responses") => state.speak(&RESPONSES, &body).await,
        // The model is a part of the path, and what is wanted of it comes last.
        ("POST", path) if path.ends_with(":streamGenerateContent") => {
            state.speak(&GEMINI_STREAM, &body).await
        }
        ("POST", path) if path.ends_with(":generateContent") => state.speak(&GEMINI, &body).await,
        ("POST", path) if path.ends_with(":countTokens") => (
            "counts tokens".to_owned(),
            Json(gemini::count_tokens()).into_response(),
        ),
        ("POST", "/messages/count_tokens") => (
            "counts tokens".to_owned(),
            Json(anthropic::count_tokens()).into_response(),
        ),
        ("GET" | "HEAD", "/models") => (
            "lists no models".to_owned(),
            Json(json!({"object": "list", "data": [], "models": []})).into_response(),
        ),
        _ => ("is unknown".to_owned(), failure(&RESPONSES, 404)),
    };
    (state.observe)(&format!("{request} {outcome}"));
    response
}

impl ModelState {
    /// The response to a request, and what the observer is told about it.
    async fn speak(&self, api: &ModelApi, body: &[u8]) -> (String, Response) {
        let Ok(body) = serde_json::from_slice(body) else {
            return ("is not JSON".to_owned(), failure(api, 400));
        };
        let conversation = (api.read)(&body);
        self.remember(&conversation);
        let reply = conversation::reply(&conversation);
        let outcome = format!("{reply:?}");
        let parts = match reply {
            Reply::Fails(status) => return (outcome, failure(api, status)),
            Reply::Message(parts) => parts,
        };
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        let message = Message {
            id: format!("{:x}{number:04x}", self.nonce),
            model: conversation.model,
            parts,
        };
        if conversation.stream {
            return (outcome, stream_frames((api.frames)(&message)));
        }
        tokio::time::sleep(message.pauses()).await;
        (outcome, Json((api.whole)(&message)).into_response())
    }

    fn remember(&self, conversation: &Conversation) {
        if conversation.offers.is_empty() {
            return;
        }
        let texts = conversation.items.iter().map(|item| match item {
            Item::User(text) | Item::Result(text) => text.clone(),
        });
        let received = self.received.lock();
        let mut received = received.unwrap_or_else(PoisonError::into_inner);
        while received.len() >= RECEIVED_MAX {
            received.pop_front();
        }
        received.push_back(texts.collect());
    }
}

fn failure(api: &ModelApi, status: u16) -> Response {
    let body = (api.failure)(status);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(body)).into_response()
}

fn stream_frames(frames: Vec<Frame>) -> Response {
    let texts = stream::iter(frames).then(|frame| async move {
        if let Frame::Pause(duration) = frame {
            tokio::time::sleep(duration).await;
        }
        Ok::<_, Infallible>(frame.to_text())
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::from_stream(texts)).into_response()
}
