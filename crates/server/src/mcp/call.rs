//! One call of a tool: its caller, its idempotency key, and progress reports while it waits.

use std::time::Duration;

use axum::http::request::Parts;
use countersign_core::limits::MCP_PROGRESS_MS;
use countersign_core::{AgentId, Caller};
use countersign_daemon::Service;
use countersign_protocol::Reason;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ProgressNotificationParam};
use rmcp::service::RequestContext;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::reply::ToolFailure;
use crate::ServerState;
use crate::api_error::ApiError;
use crate::request_log::RequestLog;

/// The bridge sends the same value with every repetition of a call.
const KEY_HEADER: &str = "idempotency-key";

/// A call while it is performed.
pub(super) struct ToolCall<'a> {
    pub(super) state: &'a ServerState,
    pub(super) caller: Caller,
    /// Whether the caller is an orchestrator.
    pub(super) steers: bool,
    context: &'a RequestContext<RoleServer>,
}

/// The caller, as it was identified before the request reached the MCP library.
pub(super) fn caller(context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let caller = parts.and_then(|parts| parts.extensions.get::<Caller>());
    let caller = caller.cloned();
    caller.ok_or_else(|| ErrorData::internal_error("the caller is not known", None))
}

/// Refuses if the connection belongs to another caller than the one that made the call.
pub(super) async fn confirm_caller(
    state: &ServerState,
    caller: &Caller,
    context: &RequestContext<RoleServer>,
) -> Result<(), ToolFailure> {
    let Some(parts) = context.extensions.get::<Parts>() else {
        return Ok(());
    };
    let now = super::identify(state, parts).await?;
    if now.principal.key == caller.principal.key {
        return Ok(());
    }
    let message = "auth failed: the connection now belongs to another caller";
    Err(ApiError::plain(Reason::AuthFailed, message).into())
}

/// The log of a tool call, with the id of the HTTP request around it.
pub(super) fn request_log(context: &RequestContext<RoleServer>, tool: &str) -> RequestLog {
    // From the extensions, because the library performs the call in another task, where the log of
    // the HTTP request is not the current one.
    let method = format!("tools/call {tool}");
    let parts = context.extensions.get::<Parts>();
    match parts.and_then(|parts| parts.extensions.get::<RequestLog>()) {
        Some(outer) => outer.begin_inner(&method),
        None => RequestLog::begin(&method, true),
    }
}

impl<'a> ToolCall<'a> {
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

    pub(super) fn agent(&self) -> Option<&AgentId> {
        self.caller.principal.agent()
    }

    /// The idempotency key of the call: a repetition with the same key is not a second call.
    pub(super) fn key(&self) -> Option<String> {
        let parts = self.context.extensions.get::<Parts>()?;
        let key = parts.headers.get(KEY_HEADER)?.to_str().ok()?;
        // The prefix keeps it apart from keys that the same agent uses on other doors.
        Some(format!("mcp-call:{key}"))
    }

    /// Waits for `done` and reports progress every few seconds, because clients end calls that stay
    /// silent. Ends early if the caller went away or the host ends.
    pub(super) async fn await_with_progress<T>(
        &self,
        message: &str,
        done: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ToolFailure> {
        let period = Duration::from_millis(MCP_PROGRESS_MS);
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reports = 0.0;
        tokio::pin!(done);
        loop {
            // The outcome first: one that is ready must not be lost to a disconnect that comes at
            // the same time, since an answered ask counts as delivered.
            tokio::select! {
                biased;
                outcome = &mut done => return Ok(outcome?),
                () = self.state.shutdown.cancelled() => return Err(ToolFailure::HostEnds),
                () = self.context.ct.cancelled() => return Err(ToolFailure::CallerGone),
                _ = ticks.tick() => {
                    reports += 1.0;
                    self.report_progress(reports, message).await;
                }
            }
        }
    }

    async fn report_progress(&self, reports: f64, message: &str) {
        let Some(token) = self.context.meta.get_progress_token() else {
            return;
        };
        let progress = ProgressNotificationParam::new(token, reports).with_message(message);
        // If the caller is gone, its cancellation ends the wait.
        drop(self.context.peer.notify_progress(progress).await);
    }
}
