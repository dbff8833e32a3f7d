//! The scripted agent's side of the pipe: lines out, and the answers to its requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex as StdMutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, oneshot, watch};

type ResponseWaiters = HashMap<String, oneshot::Sender<Value>>;

pub(super) struct ScriptedWire {
    out: Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    answers: StdMutex<ResponseWaiters>,
    next_id: AtomicU64,
    unasked: AtomicU64,
    string_ids: bool,
    end: watch::Sender<Option<u8>>,
}

impl ScriptedWire {
    pub(super) fn new(out: impl AsyncWrite + Send + Unpin + 'static, string_ids: bool) -> Self {
        Self {
            out: Mutex::new(Box::new(out)),
            answers: StdMutex::default(),
            next_id: AtomicU64::new(0),
            unasked: AtomicU64::new(0),
            string_ids,
            end: watch::Sender::new(None),
        }
    }

    /// Ends the whole agent.
    pub(super) fn end(&self, code: u8) {
        self.end.send_replace(Some(code));
    }

    /// Waits until the agent is to end.
    pub(super) async fn ended(&self) -> u8 {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(code) => code.unwrap_or(0),
            Err(_) => 0,
        }
    }

    pub(super) async fn write(&self, bytes: &[u8]) {
        let mut out = self.out.lock().await;
        // The host went away, so there is nobody left to play for.
        if out.write_all(bytes).await.is_err() || out.flush().await.is_err() {
            self.end(0);
        }
    }

    pub(super) async fn send(&self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    pub(super) async fn notify(&self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.send(&message).await;
    }

    pub(super) async fn answer(&self, id: &Value, answer: Result<Value, (i64, String)>) {
        let message = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                let error = json!({"code": code, "message": message});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        self.send(&message).await;
    }

    pub(super) fn next_id(&self) -> Value {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        if self.string_ids {
            json!(format!("request-{id}"))
        } else {
            json!(id)
        }
    }

    /// Sends a request; the whole response comes through what is given back.
    pub(super) async fn request(
        &self,
        id: &Value,
        method: &str,
        params: &Value,
    ) -> oneshot::Receiver<Value> {
        let (sender, receiver) = oneshot::channel();
        self.waiting(|answers| answers.insert(id.to_string(), sender));
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        receiver
    }

    pub(super) fn take_response(&self, id: &Value, response: Value) {
        let waiter = self.waiting(|answers| answers.remove(&id.to_string()));
        if let Some(waiter) = waiter {
            // Whoever waited may have gone with its turn.
            let _gone = waiter.send(response).is_err();
        } else {
            self.unasked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Answers that came without a request, or a second time.
    pub(super) fn unasked(&self) -> u64 {
        self.unasked.load(Ordering::Relaxed)
    }

    fn waiting<T>(&self, act: impl FnOnce(&mut ResponseWaiters) -> T) -> T {
        act(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
