//! Error codes and reasons: stable names for everything that can be refused.

use serde::{Deserialize, Serialize};

// The host wire's codes, which are not always JSON-RPC's: it uses "internal error" for every plain
// error of a method, and for parameters that do not fit as well.
/// The codes of JSON-RPC errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The frame is not JSON.
    Parse = -32700,
    /// No such method.
    UnknownMethod = -32601,
    /// The parameters do not fit: for `host.dismiss_approval`, and for unknown fields.
    InvalidParams = -32602,
    /// Any plain error of a method.
    Plain = -32603,
    /// The caller must authenticate first; the connection is closed.
    AuthRequired = -32001,
    /// Refused; `data.reason` says why.
    Refused = -32003,
    /// No common protocol version.
    Version = -32006,
    /// A required capability is missing.
    Capability = -32008,
}

// One row for each reason, because the name on the wire and the HTTP status belong together: a
// reason without a status does not compile.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal;)*) => {
        /// Why something was refused, the same on every door.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The HTTP status that goes with it.
            pub fn http_status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// The reason of that name. A client gets `None` for one that is newer than itself.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

reasons! {
    /// No such approval.
    UnknownApproval = "unknown_approval", 404;
    /// No such agent.
    UnknownAgent = "unknown_agent", 404;
    /// No such question.
    UnknownQuestion = "unknown_question", 404;
    /// No such device.
    UnknownDevice = "unknown_device", 404;
    /// No such token.
    UnknownToken = "unknown_token", 404;
    /// There is no such terminal any more, or nothing can be read from it.
    UnreadableTerminal = "unreadable_terminal", 404;
    /// There is no such file or folder in the agent's folder.
    UnknownFile = "unknown_file", 404;
    /// The path leads out of the agent's folder, or to a file of the host.
    FileOutside = "file_outside", 403;
    /// The file is not what its writer read; `data.digest` is of what is there, `null` if nothing is.
    FileChanged = "file_changed", 409;
    /// No such grant.
    UnknownRule = "unknown_rule", 404;
    /// The rule cannot be parsed, or its limits make no sense.
    BadRule = "bad_rule", 422;
    /// The agent has ended.
    AgentEnded = "agent_ended", 409;
    /// The host did not start the agent, so it cannot control it.
    NotManaged = "not_managed", 409;
    /// The host runs the agent and reports its state itself.
    RunByHost = "run_by_host", 409;
    /// Another agent has the name.
    NameTaken = "name_taken", 409;
    /// No turn runs that could be ended.
    NoTurn = "no_turn", 409;
    /// The message no longer waits for its agent, or is not the caller's to take back.
    CannotWithdraw = "cannot_withdraw", 409;
    /// The agent has no session that can be resumed.
    CannotResume = "cannot_resume", 409;
    /// The agent would fail to start: its program, folder or repository is missing.
    CannotStart = "cannot_start", 422;
    /// The agent has no session that another could begin from.
    CannotFork = "cannot_fork", 409;
    /// The agent is not an orchestrator.
    NotAnOrchestrator = "not_an_orchestrator", 409;
    /// An orchestrator reaches only its descendants.
    NotADescendant = "not_a_descendant", 403;
    /// The orchestrator's ceiling does not cover it.
    AboveCeiling = "above_ceiling", 403;
    /// A child would have more rights than its parent.
    Wider = "wider", 403;
    /// `children` must say what happens to the agents below it; `data.children` lists them.
    HasChildren = "has_children", 409;
    /// The agent must end first.
    StillRuns = "still_runs", 409;
    /// The agent has no worktree.
    NoWorktree = "no_worktree", 409;
    /// No such event, or its content was erased.
    UnknownEvent = "unknown_event", 404;
    /// No event has this kind.
    UnknownEventKind = "unknown_event_kind", 422;
    /// An abbreviation that fits more than one.
    AmbiguousId = "ambiguous_id", 409;
    /// Somebody answered before; `data` says who, when and what.
    AlreadyResolved = "already_resolved", 409;
    /// Its owner is not connected.
    OwnerNotConnected = "owner_not_connected", 409;
    /// Not one of the options; `data.options` lists them.
    NotAnOption = "not_an_option", 422;
    /// It is still open.
    ApprovalPending = "approval_pending", 409;
    /// It belongs to somebody else.
    NotYourApproval = "not_your_approval", 403;
    /// Another connection owns that agent or device.
    OwnedElsewhere = "owned_elsewhere", 409;
    /// Agents ask; they do not answer.
    AgentsCannotAnswer = "agents_cannot_answer", 403;
    /// Agents may not do this.
    AgentNotAllowed = "agent_not_allowed", 403;
    /// Observers change nothing.
    ObserverCannotChange = "observer_cannot_change", 403;
    /// The same key was used for another request.
    IdempotencyConflict = "idempotency_conflict", 409;
    /// Too much is open already.
    TooMany = "too_many", 429;
    /// A text, list or document is over its limit.
    TooLarge = "too_large", 413;
    /// That kind of event is the host's own.
    ReservedKind = "reserved_kind", 403;
    /// The event is needed by something that is still open.
    StillNeeded = "still_needed", 409;
    /// The parameters do not fit.
    InvalidParams = "invalid_params", 400;
    /// There is no such path.
    UnknownPath = "unknown_path", 404;
    /// The path does not take that method; the `Allow` header names those it takes.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The body must be `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The request needs a token.
    AuthRequired = "auth_required", 401;
    /// The token is unknown or has expired, or the caller cannot be identified.
    AuthFailed = "auth_failed", 401;
    /// Addressed to another host name, or sent by a page of another origin.
    WrongOrigin = "wrong_origin", 403;
    /// The record cannot be written; nothing is allowed until it can.
    StoreUnavailable = "store_unavailable", 503;
    /// Something outside the host failed; the message says what.
    Failed = "failed", 500;
    /// The host is ending.
    ShuttingDown = "shutting_down", 503;
}

/// The body of every refusal and failure over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong: a reason for programs, a message for people, and what belongs to the reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorDetail {
    // Flattened, so that programs find the fields of `data` on the host wire beside the message
    // here.
    /// What belongs to the reason, such as `limit` or `options`.
    #[serde(flatten)]
    pub data: serde_json::Map<String, serde_json::Value>,
    /// For people.
    pub message: String,
    /// For programs.
    pub reason: Reason,
}
