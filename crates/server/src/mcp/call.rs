//! One call of a tool: who calls, under which key, and how it is kept alive while somebody is awaited.

use std::time::Duration;

use axum::http::request::Parts;
use countersign_core::limits::MCP_PROGRESS_MS;
use countersign_core::{AgentId, Caller};
use countersign_daemon::Service;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ProgressNotificationParam};
use rmcp::service::RequestContext;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::reply::Stop;
use crate::ServerState;
use crate::api_error::ApiError;
use crate::request_log::RequestLog;

/// The header under which a call that is repeated is known to be the same.
const KEY_HEADER: &str = "idempotency-key";

/// A call while it is performed.
pub(super) struct Call<'a> {
    pub(super) state: &'a ServerState,
    pub(super) caller: Caller,
    /// Whether the caller is an orchestrator.
    pub(super) steers: bool,
    context: &'a RequestContext<RoleServer>,
}

/// Who calls, as the door found out before anything else.
pub(super) fn caller(context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let caller = parts.and_then(|parts| parts.extensions.get::<Caller>());
    let caller = caller.cloned();
    caller.ok_or_else(|| ErrorData::internal_error("the caller is not known", None))
}

/// The log of a tool call. It is performed by another task than the one that serves the HTTP request around it.
pub(super) fn request_log(context: &RequestContext<RoleServer>, tool: &str) -> RequestLog {
    let method = format!("tools/call {tool}");
    let parts = context.extensions.get::<Parts>();
    match parts.and_then(|parts| parts.extensions.get::<RequestLog>()) {
        Some(outer) => outer.begin_inner(&method),
        None => RequestLog::begin(&method),
    }
}

impl<'a> Call<'a> {
    pub(super) fn new(
        state: &'a ServerState,
        caller: Caller,
        steers: bool,
        context: &'a RequestContext<RoleServer>,
    ) -> Self {
        Self {
            state,
            caller,
            steers,
            context,
        }
    }

    pub(super) fn service(&self) -> &'a Service {
        &self.state.service
    }

    /// The agent that calls: the tools are for agents alone.
    pub(super) fn agent(&self) -> Option<&AgentId> {
        self.caller.principal.agent()
    }

    /// What the caller calls this call, so that a repetition is not a second one.
    pub(super) fn key(&self) -> Option<String> {
        let parts = self.context.extensions.get::<Parts>()?;
        let key = parts.headers.get(KEY_HEADER)?.to_str().ok()?;
        Some(format!("mcp-call:{key}"))
    }

    /// Waits for `done`; every few seconds the caller is told that it is waited for. Ends early if
    /// the caller went away or the host ends.
    pub(super) async fn await_with_progress<T>(
        &self,
        words: &str,
        done: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, Stop> {
        let period = Duration::from_millis(MCP_PROGRESS_MS);
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = 0.0;
        tokio::pin!(done);
        loop {
            tokio::select! {
                biased;
                outcome = &mut done => return Ok(outcome?),
                () = self.state.shutdown.cancelled() => return Err(Stop::HostEnds),
                () = self.context.ct.cancelled() => return Err(Stop::CallerGone),
                _ = ticks.tick() => {
                    told += 1.0;
                    self.tell_progress(told, words).await;
                }
            }
        }
    }

    async fn tell_progress(&self, told: f64, words: &str) {
        let Some(token) = self.context.meta.get_progress_token() else {
            return;
        };
        let progress = ProgressNotificationParam::new(token, told).with_message(words);
        // Whoever cannot be told is gone, which shows by itself.
        drop(self.context.peer.notify_progress(progress).await);
    }
}
