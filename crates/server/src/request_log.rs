//! The log of requests: one span and one access line for each, whichever door it came through.
//!
//! The span has the fields `request`, `method`, `principal`, `agent` and `approval`. The access
//! line is written inside it when the request ends, with the outcome and the milliseconds it took.
//! Requests that were refused, failed or took long, and asks that were not allowed, are logged at
//! level `info` or `warn`. All others are at level `debug`: a host serves thousands in a second, and
//! writing their lines would take a sixth of its processor time.
//! A caller that is refused gets the value of `request` as `request_id`, so that an error report
//! leads to the line.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use countersign_core::event::ApprovalOutcome;
use countersign_core::{Approval, ApprovalId, Principal};
use countersign_daemon::new_request_id;
use countersign_protocol::Reason;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

const REQUEST_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Characters of a method, path or message that a line shows: callers choose how long those are.
const TEXT_CHARS_MAX: usize = 300;

/// The target of access lines: `COUNTERSIGN_LOG=info,requests=debug` logs every request.
const REQUESTS: &str = "requests";

/// A request that takes longer than this is logged although it succeeded, unless it waits for somebody.
const SLOW_REQUEST_MS: u64 = 1_000;

/// The outcome of a request that ended before its response, as when its connection was closed.
const ABANDONED: &str = "abandoned";

tokio::task_local! {
    static CURRENT: RequestLog;
}

/// One request while it is served.
#[derive(Clone)]
pub(crate) struct RequestLog(Arc<LoggedRequest>);

struct LoggedRequest {
    id: String,
    span: Span,
    began: Instant,
    /// Whether it may take as long as a person or an agent does, so that its time says nothing.
    waits: bool,
    findings: Mutex<RequestFindings>,
}

/// What became known while the request was served.
#[derive(Default)]
struct RequestFindings {
    has_principal: bool,
    has_approval: bool,
    ask_state: Option<String>,
    /// Whether the ask has ended in another way than by being allowed.
    is_ask_refused: bool,
    status: Option<StatusCode>,
    error: Option<(Reason, String)>,
}

impl RequestLog {
    /// Begins a request. `method` is the method of the wire, or the HTTP method and its route.
    pub(crate) fn begin(method: &str, waits: bool) -> Self {
        Self::with_id(new_request_id(), method, waits)
    }

    /// A request that came inside of this one, as a tool call does in MCP. It has the same id.
    pub(crate) fn begin_inner(&self, method: &str) -> Self {
        Self::with_id(self.0.id.clone(), method, true)
    }

    fn with_id(id: String, method: &str, waits: bool) -> Self {
        // Recorded as strings, which the formatter escapes: callers choose methods and ids, and
        // could forge a line with a newline.
        let method = truncate(method);
        let span = tracing::info_span!(
            "request",
            request = %id,
            method = method.as_str(),
            principal = Empty,
            agent = Empty,
            approval = Empty,
        );
        Self(Arc::new(LoggedRequest {
            id,
            span,
            began: Instant::now(),
            waits,
            findings: Mutex::default(),
        }))
    }

    /// Serves the request inside its span, and writes its access line when it ends, however it
    /// does.
    pub(crate) async fn serve<T>(self, serving: impl Future<Output = T>) -> T {
        let mut line = AccessLine {
            request: self.clone(),
            is_answered: false,
        };
        let span = self.0.span.clone();
        let served = CURRENT.scope(self, serving).instrument(span).await;
        line.is_answered = true;
        served
    }

    pub(crate) fn note_principal(&self, principal: &Principal) {
        let mut findings = self.findings();
        // The formatter prints a field as often as it is recorded, and REST identifies its caller
        // before and after the body.
        if findings.has_principal {
            return;
        }
        findings.has_principal = true;
        self.0.span.record("principal", principal.name.as_ref());
        if let Some(agent) = principal.agent() {
            self.0.span.record("agent", agent.as_str());
        }
    }

    fn note_approval(&self, approval: &ApprovalId) {
        let mut findings = self.findings();
        if !findings.has_approval {
            findings.has_approval = true;
            let id = truncate(approval.as_str());
            self.0.span.record("approval", id.as_str());
        }
    }

    fn findings(&self) -> MutexGuard<'_, RequestFindings> {
        self.0
            .findings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records the caller of the current request.
pub(crate) fn note_principal(principal: &Principal) {
    with_current(|request| request.note_principal(principal));
}

/// Records the approval that the current request is about.
pub(crate) fn note_approval(approval: &ApprovalId) {
    with_current(|request| request.note_approval(approval));
}

/// Records an approval and its state, as the caller gets it.
pub(crate) fn note_ask(approval: &Approval) {
    with_current(|request| {
        request.note_approval(&approval.ask.id);
        let state = match &approval.ended {
            None => "pending".to_owned(),
            Some(ended) => format!("{:?}", ended.ending.outcome).to_lowercase(),
        };
        let outcome = approval.ended.as_ref().map(|ended| ended.ending.outcome);
        let mut findings = request.findings();
        findings.ask_state = Some(state);
        findings.is_ask_refused =
            outcome.is_some_and(|outcome| outcome != ApprovalOutcome::Allowed);
    });
}

/// Records the error that the caller gets. Returns the id under which the request is logged.
pub(crate) fn note_error(reason: Reason, message: &str) -> Option<String> {
    with_current(|request| {
        request.findings().error = Some((reason, truncate(message)));
        request.0.id.clone()
    })
}

fn with_current<T>(note: impl FnOnce(&RequestLog) -> T) -> Option<T> {
    CURRENT.try_with(note).ok()
}

fn truncate(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// The layer around every HTTP request.
pub(crate) async fn log_request(mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    // The route and not the path, which may contain a login ticket or the code of a notification.
    let path = route.map_or_else(|| request.uri().path(), MatchedPath::as_str);
    let method = format!("{} {path}", request.method());
    let query = request.uri().query().unwrap_or_default();
    let waits = path == "/mcp" || query.split('&').any(|part| part.starts_with("wait="));
    let log = RequestLog::with_id(new_request_id(), &method, waits);
    request.extensions_mut().insert(log.clone());
    let id = HeaderValue::from_str(&log.0.id);
    let serving = async move {
        let response = next.run(request).await;
        with_current(|request| request.findings().status = Some(response.status()));
        response
    };
    let mut response = log.serve(serving).await;
    if let Ok(id) = id {
        response.headers_mut().insert(REQUEST_HEADER, id);
    }
    response
}

/// Writes the access line when it is dropped: if the caller disconnects, the future of its request
/// is dropped before it ends.
struct AccessLine {
    request: RequestLog,
    is_answered: bool,
}

impl Drop for AccessLine {
    fn drop(&mut self) {
        let LoggedRequest {
            span, began, waits, ..
        } = &*self.request.0;
        let _inside = span.enter();
        let findings = self.request.findings();
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let ask = findings.ask_state.as_deref();
        match (&findings.error, findings.status) {
            _ if !self.is_answered => {
                tracing::info!(target: REQUESTS, outcome = ABANDONED, ms, ask, "access");
            }
            (Some((reason, error)), _) if is_worth_a_warning(*reason) => {
                tracing::warn!(target: REQUESTS, outcome = reason.as_str(), ms, ask, error, "access");
            }
            (Some((reason, error)), _) => {
                tracing::info!(target: REQUESTS, outcome = reason.as_str(), ms, ask, error, "access");
            }
            (None, Some(status)) if status.as_u16() >= 400 => {
                tracing::info!(target: REQUESTS, outcome = status.as_str(), ms, "access");
            }
            (None, _) if findings.is_ask_refused || (ms >= SLOW_REQUEST_MS && !*waits) => {
                tracing::info!(target: REQUESTS, outcome = "ok", ms, ask, "access");
            }
            (None, _) => tracing::debug!(target: REQUESTS, outcome = "ok", ms, ask, "access"),
        }
    }
}

/// Whether the refusal may be an attack, or the host cannot do its work.
fn is_worth_a_warning(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::AuthRequired
            | Reason::AuthFailed
            | Reason::WrongOrigin
            | Reason::AgentsCannotAnswer
            | Reason::StoreUnavailable
            | Reason::Failed
    )
}
