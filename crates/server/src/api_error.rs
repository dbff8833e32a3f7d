//! API errors: every rejection and every failure in one form, which each door prints in its own
//! way.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use countersign_core::{Approval, Question, Rejection};
use countersign_daemon::ServiceError;
use countersign_protocol::{ErrorBody, ErrorCode, ErrorDetail, ErrorObject, Raw, Reason, Time};
use serde_json::{Map, Value};

use crate::convert::approvals::{self, ViewDetail};
use crate::convert::{self, AgentNames};
use crate::request_log;

/// What went wrong: a code for the host wire, a reason for programs, a message for people.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    data: Map<String, Value>,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            data: Map::new(),
        }
    }

    pub(crate) fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Refused, reason, message)
    }

    pub(crate) fn plain(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Plain, reason, message)
    }

    /// A value that does not fit, with serde's message.
    pub(crate) fn invalid(error: &serde_json::Error) -> Self {
        // Without the line and column, as on the host wire. They would count from the start of the
        // parameters, which is not what the caller sent.
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        Self::plain(
            Reason::InvalidParams,
            message.strip_suffix(&place).unwrap_or(&message),
        )
    }

    /// The code JSON-RPC names for bad parameters, with its prefix.
    pub(crate) fn into_invalid_params(self) -> Self {
        let message = format!("invalid params: {}", self.message);
        Self {
            code: ErrorCode::InvalidParams,
            message,
            ..self
        }
    }

    /// The same error under the code for refusals.
    pub(crate) fn into_refusal(self) -> Self {
        Self {
            code: ErrorCode::Refused,
            ..self
        }
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// Writes the error into the access line, and the id of that line into the error.
    fn note_in_log(&mut self) {
        if let Some(request) = request_log::note_error(self.reason, &self.message) {
            self.data.insert("request_id".to_owned(), request.into());
        }
    }

    /// As a JSON-RPC error.
    pub(crate) fn into_error(mut self) -> ErrorObject {
        self.note_in_log();
        let mut data = self.data;
        data.insert("reason".to_owned(), self.reason.as_str().into());
        let data = serde_json::value::to_raw_value(&data)
            .ok()
            .map(|raw| Raw(raw.into()));
        ErrorObject {
            code: self.code as i64,
            message: self.message,
            data,
        }
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Rejected(rejection) => rejection.into(),
            // Unreadable rules are an outage as well: without them nothing can be judged.
            ServiceError::Store(_) | ServiceError::RulesUnreadable(_) => {
                Self::plain(Reason::StoreUnavailable, error.to_string())
            }
            ServiceError::World(_) => Self::plain(Reason::Failed, error.to_string()),
            ServiceError::ShuttingDown => Self::plain(Reason::ShuttingDown, error.to_string()),
        }
    }
}

/// The one mapping of rejections to the wire, with the codes of the host wire.
impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        // `plain` or `refused` follows the host wire where it knows the case: -32603 for what is
        // unknown or malformed, -32003 with a reason for what is understood and not allowed.
        match rejection {
            Rejection::UnknownApproval(_) => Self::plain(Reason::UnknownApproval, message),
            Rejection::UnknownAgent(_) => Self::plain(Reason::UnknownAgent, message),
            Rejection::UnknownQuestion(_) => Self::plain(Reason::UnknownQuestion, message),
            Rejection::UnknownDevice(_) => Self::plain(Reason::UnknownDevice, message),
            Rejection::UnknownToken(_) => Self::plain(Reason::UnknownToken, message),
            Rejection::UnreadableTerminal { .. } => {
                Self::plain(Reason::UnreadableTerminal, message)
            }
            Rejection::UnknownFile(_) => Self::plain(Reason::UnknownFile, message),
            Rejection::FileOutside(_) => Self::refused(Reason::FileOutside, message),
            Rejection::FileChanged { digest, .. } => {
                Self::refused(Reason::FileChanged, message).with("digest", digest)
            }
            Rejection::TerminalNotOpened(_) => Self::plain(Reason::CannotStart, message),
            Rejection::UnknownGrant(_) => Self::plain(Reason::UnknownRule, message),
            Rejection::BadGrant(_) => Self::plain(Reason::BadRule, message),
            Rejection::AgentEnded(_) => Self::plain(Reason::AgentEnded, message),
            Rejection::NotManaged(_) => Self::refused(Reason::NotManaged, message),
            Rejection::RunByHost(_) => Self::refused(Reason::RunByHost, message),
            Rejection::NameTaken(_) => Self::refused(Reason::NameTaken, message),
            Rejection::UnknownKind(_)
            | Rejection::NothingToRun
            | Rejection::BadMcpServers(_)
            | Rejection::BadName(_)
            | Rejection::BadLabel(_)
            | Rejection::BadAttachment(_)
            | Rejection::BadFilePath(_)
            | Rejection::OnlyAgents
            | Rejection::NotAbsolute(_) => Self::plain(Reason::InvalidParams, message),
            Rejection::StillRuns(_) | Rejection::AgentEnding(_) => {
                Self::refused(Reason::StillRuns, message)
            }
            Rejection::NoWorktree(_) => Self::refused(Reason::NoWorktree, message),
            Rejection::NoTurn(_) => Self::refused(Reason::NoTurn, message),
            Rejection::CannotWithdraw { .. } => Self::refused(Reason::CannotWithdraw, message),
            Rejection::CannotResume(_) => Self::refused(Reason::CannotResume, message),
            Rejection::CannotFork { .. } => Self::refused(Reason::CannotFork, message),
            Rejection::CannotStart(_) => Self::refused(Reason::CannotStart, message),
            Rejection::BypassTooLong { limit_ms } | Rejection::TokenLifetime { limit_ms } => {
                Self::plain(Reason::InvalidParams, message).with("limit_ms", limit_ms)
            }
            Rejection::UnknownEvent(_) => Self::plain(Reason::UnknownEvent, message),
            Rejection::AlreadyResolved(approval) => already_resolved(&approval, message),
            Rejection::NotRemembered(approval) => {
                already_resolved(&approval, message).with("remembered", Vec::<Value>::new())
            }
            Rejection::AlreadyAnswered(question) => already_answered(&question, message),
            Rejection::OwnerNotConnected { approval, owner } => {
                Self::refused(Reason::OwnerNotConnected, message)
                    .with("approval_id", approval.as_str())
                    .with("owner_client_id", owner.as_str())
            }
            Rejection::NotAnOption {
                approval, options, ..
            } => Self::refused(Reason::NotAnOption, message)
                .with("approval_id", approval.as_str())
                .with("options", options),
            Rejection::ApprovingNotOffered(_) => Self::refused(Reason::NotAnOption, message),
            Rejection::NothingToEdit
            | Rejection::NothingToStop
            | Rejection::NeedsAnswers(_)
            | Rejection::BadAnswers { .. } => Self::refused(Reason::InvalidParams, message),
            Rejection::ApprovalPending(_) => Self::refused(Reason::ApprovalPending, message),
            Rejection::NotYourApproval(_) => Self::refused(Reason::NotYourApproval, message),
            Rejection::AgentTaken(_)
            | Rejection::AgentOwnedElsewhere(_)
            | Rejection::DeviceTaken(_)
            | Rejection::DeviceOwnedElsewhere(_) => Self::plain(Reason::OwnedElsewhere, message),
            Rejection::AgentsCannotAnswer(_) => Self::refused(Reason::AgentsCannotAnswer, message),
            Rejection::NotADescendant(_) => Self::refused(Reason::NotADescendant, message),
            Rejection::NotAnOrchestrator(_) => Self::refused(Reason::NotAnOrchestrator, message),
            Rejection::NoCeiling(_) | Rejection::AboveCeiling(_) => {
                Self::refused(Reason::AboveCeiling, message)
            }
            Rejection::Wider(_) | Rejection::NoBypassForChildren(_) => {
                Self::refused(Reason::Wider, message)
            }
            Rejection::HasChildren { children, .. } => {
                Self::refused(Reason::HasChildren, message).with("children", children)
            }
            Rejection::AgentNotAllowed(_)
            | Rejection::SpawnNotAllowed(_)
            | Rejection::EditorTerminalsNotAllowed => {
                Self::refused(Reason::AgentNotAllowed, message)
            }
            Rejection::ObserverCannotChange => Self::refused(Reason::ObserverCannotChange, message),
            Rejection::IdempotencyConflict(_) => {
                Self::refused(Reason::IdempotencyConflict, message)
            }
            Rejection::TooMany { limit, .. } => {
                Self::refused(Reason::TooMany, message).with("limit", limit)
            }
            Rejection::TooLarge { limit, .. } | Rejection::TooDeep { limit, .. } => {
                Self::refused(Reason::TooLarge, message).with("limit", limit)
            }
            Rejection::ReservedKind(_) => Self::refused(Reason::ReservedKind, message),
            Rejection::StillNeeded(_) => Self::refused(Reason::StillNeeded, message),
        }
    }
}

fn already_answered(question: &Question, message: String) -> ApiError {
    let row = serde_json::to_value(convert::question(question, AgentNames::unknown()));
    ApiError::refused(Reason::AlreadyResolved, message).with("question", row.unwrap_or_default())
}

fn already_resolved(approval: &Approval, message: String) -> ApiError {
    let error = ApiError::refused(Reason::AlreadyResolved, message)
        .with("approval_id", approval.ask.id.as_str());
    let Some(ended) = &approval.ended else {
        return error;
    };
    let row = approvals::row(approval, AgentNames::unknown(), ViewDetail::Short);
    let row = serde_json::to_value(row).unwrap_or_default();
    error
        .with("resolution", ended.ending.resolution.as_str())
        .with("resolved_at", Time(ended.at.0).to_string())
        .with("resolved_by", ended.ending.by.name.as_ref())
        .with("approval", row)
}

/// As an HTTP response: the status that belongs to the reason, with the same message and data.
impl IntoResponse for ApiError {
    fn into_response(mut self) -> Response {
        self.note_in_log();
        let status = StatusCode::from_u16(self.reason.http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = ErrorDetail {
            data: self.data,
            message: self.message,
            reason: self.reason,
        };
        (status, Json(ErrorBody { error })).into_response()
    }
}
