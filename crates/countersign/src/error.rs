//! What can go wrong in a command, with the exit code and the next thing to try.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use countersign_core::error_causes;
use countersign_protocol::Reason;
use serde::Serialize;

use crate::client::CallError;
use crate::exit::CliExit;

/// Why a command did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("no host is running at `{address}`")]
    NoHost {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("the program at `{address}` does not speak the host protocol")]
    Handshake {
        address: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("{}", call_message(.0))]
    Call(#[source] CallError),
    #[error("{what}")]
    Usage { what: String, hint: Option<String> },
    #[error("{what}")]
    UnknownId { what: String, hint: Option<String> },
    #[error("{what}")]
    Failed { what: String, hint: Option<String> },
    #[error("{what}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
    #[error("the host could not run")]
    Host(#[source] Box<dyn Error + Send + Sync>),
    #[error("the output was closed")]
    OutputClosed,
}

/// An error for scripts. Stable: members are added, never renamed or removed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorDocument {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl From<CallError> for CliError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

fn call_message(error: &CallError) -> String {
    match error {
        // A refusal may quote what an agent wrote.
        CallError::Refused(refusal) => {
            crate::render::escape::block(&refusal.describe()).into_owned()
        }
        CallError::Lost(_) => "the connection to the host was lost".into(),
        CallError::Slow { method } => format!("the host did not answer `{method}` in time"),
        CallError::Unexpected { method, .. } => {
            format!("the host's answer to `{method}` was not understood")
        }
    }
}

impl CliError {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        let (what, hint) = (what.into(), None);
        Self::Usage { what, hint }
    }

    pub(crate) fn unknown_id(what: impl Into<String>) -> Self {
        let (what, hint) = (what.into(), None);
        Self::UnknownId { what, hint }
    }

    pub(crate) fn failed(what: impl Into<String>) -> Self {
        let (what, hint) = (what.into(), None);
        Self::Failed { what, hint }
    }

    /// The same error with the next thing to try.
    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Usage { hint, .. } | Self::UnknownId { hint, .. } | Self::Failed { hint, .. } =
            &mut self
        {
            *hint = Some(text.into());
        }
        self
    }

    /// `action` is what could not be done to the file: `read`, `write`.
    pub(crate) fn file(action: &str, path: impl AsRef<Path>, source: io::Error) -> Self {
        let path = path.as_ref().display();
        Self::io(format!("could not {action} `{path}`"), source)
    }

    /// Somebody may listen there, but not in time.
    pub(crate) fn no_answer(address: String, late: tokio::time::error::Elapsed) -> Self {
        let source = late.into();
        Self::NoHost { address, source }
    }

    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io {
            what: what.into(),
            source,
        }
    }

    pub(crate) fn exit(&self) -> CliExit {
        match self {
            Self::NoHost { .. } => CliExit::NoHost,
            Self::Usage { .. } => CliExit::Usage,
            Self::UnknownId { .. } => CliExit::UnknownId,
            Self::Call(error) => call_exit(error),
            Self::OutputClosed => CliExit::Ok,
            Self::Handshake { .. } | Self::Failed { .. } | Self::Io { .. } | Self::Host(_) => {
                CliExit::Failure
            }
        }
    }

    /// Whether the next ask may fare better: it was refused for what it is, and the host is there.
    pub(crate) fn is_about_one_ask(&self) -> bool {
        let is_refused = matches!(self, Self::Call(CallError::Refused(_)));
        is_refused && self.exit() != CliExit::NoHost || matches!(self, Self::Usage { .. })
    }

    /// The next command to try, where there is one.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoHost { .. } => Some("start one with `countersign up --detach`".into()),
            Self::Handshake { .. } => Some("see what runs there with `countersign doctor`".into()),
            Self::Call(CallError::Refused(refusal)) if refusal.saved_no_rule() => {
                Some("save the rule with `countersign rules add RULE`".into())
            }
            Self::Call(CallError::Refused(refusal)) => {
                refusal.reason.and_then(reason_hint).map(str::to_owned)
            }
            Self::Call(CallError::Unexpected { .. }) => Some(
                "compare versions with `countersign doctor`; restart the host after an upgrade"
                    .into(),
            ),
            Self::Call(_) => Some("check the host with `countersign status`".into()),
            Self::Usage { hint, .. } | Self::UnknownId { hint, .. } | Self::Failed { hint, .. } => {
                hint.clone()
            }
            Self::Host(_) => Some("find the cause with `countersign doctor`".into()),
            Self::Io { .. } | Self::OutputClosed => None,
        }
    }

    /// The word for it that scripts can rely on: the host's reason where the host refused.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NoHost { .. } => "no_host",
            Self::Handshake { .. } => "not_a_host",
            Self::Usage { .. } => "usage",
            Self::UnknownId { .. } => "unknown_id",
            Self::Failed { .. } => "failed",
            Self::Io { .. } => "io",
            Self::Host(_) => "host_failed",
            Self::OutputClosed => "output_closed",
            Self::Call(CallError::Refused(refusal)) => {
                refusal.reason.map_or("refused", Reason::as_str)
            }
            Self::Call(CallError::Lost(_)) => "connection_lost",
            Self::Call(CallError::Slow { .. }) => "timeout",
            Self::Call(CallError::Unexpected { .. }) => "unexpected_answer",
        }
    }

    /// The error as `--json` prints it.
    pub(crate) fn document(&self) -> ErrorDocument {
        let causes = self.causes();
        let message = [vec![self.to_string()], causes].concat().join(": ");
        ErrorDocument {
            code: self.code(),
            message,
            hint: self.hint(),
        }
    }

    /// What led to it, in words.
    fn causes(&self) -> Vec<String> {
        // A failed call prints as its cause, so only what led to that is left to say.
        let error: &(dyn Error + 'static) = match self {
            // Without a host the cause is always a missing or refused socket, which the hint covers.
            Self::NoHost { .. } => return Vec::new(),
            Self::Call(error) => error,
            _ => self,
        };
        error_causes(error).map(ToString::to_string).collect()
    }

    /// The error, its causes, a blank line and the hint.
    pub(crate) fn report(&self) -> String {
        let mut text = format!("error: {self}\n");
        for cause in self.causes() {
            let _ = writeln!(text, "  because: {cause}");
        }
        if let Some(hint) = self.hint() {
            let _ = write!(text, "\nhint: {hint}\n");
        }
        text
    }
}

fn call_exit(error: &CallError) -> CliExit {
    let CallError::Refused(refusal) = error else {
        return match error {
            CallError::Lost(_) => CliExit::NoHost,
            _ => CliExit::Failure,
        };
    };
    match refusal.reason {
        Some(
            Reason::UnknownApproval
            | Reason::UnknownAgent
            | Reason::UnknownQuestion
            | Reason::UnknownDevice
            | Reason::UnknownToken
            | Reason::UnknownEvent
            | Reason::UnreadableTerminal
            | Reason::UnknownFile
            | Reason::UnknownRule
            | Reason::UnknownEventKind
            | Reason::AmbiguousId,
        ) => CliExit::UnknownId,
        Some(Reason::AlreadyResolved) => CliExit::AlreadyAnswered,
        Some(
            Reason::AgentsCannotAnswer
            | Reason::AgentNotAllowed
            | Reason::FileOutside
            | Reason::ObserverCannotChange
            | Reason::NotYourApproval
            | Reason::OwnerNotConnected
            | Reason::OwnedElsewhere
            | Reason::NotADescendant
            | Reason::NotAnOrchestrator
            | Reason::AboveCeiling
            | Reason::Wider
            | Reason::HasChildren
            | Reason::ReservedKind
            | Reason::NotManaged
            | Reason::RunByHost
            | Reason::AuthRequired
            | Reason::AuthFailed
            | Reason::WrongOrigin,
        ) => CliExit::Refused,
        Some(Reason::NotAnOption | Reason::InvalidParams | Reason::BadRule) => CliExit::Usage,
        Some(Reason::ShuttingDown) => CliExit::NoHost,
        _ => CliExit::Failure,
    }
}

fn reason_hint(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::UnknownApproval | Reason::UnknownQuestion => {
            Some("see what is open with `countersign inbox`")
        }
        Reason::UnknownAgent | Reason::AgentEnded => Some("see the agents with `countersign ls`"),
        Reason::NotManaged | Reason::RunByHost => Some(
            "`countersign spawn` starts agents that the host runs; see them with `countersign ls`",
        ),
        Reason::StillRuns => Some("end it with `countersign kill` first"),
        Reason::NoWorktree => {
            Some("start an agent with `countersign spawn --worktree` to have one")
        }
        Reason::NameTaken => Some("see who has it with `countersign ls --all`"),
        Reason::NoTurn => Some("send it a message with `countersign send`"),
        Reason::CannotWithdraw => Some("see what still waits with `countersign queue AGENT`"),
        Reason::CannotResume | Reason::CannotFork => {
            Some("start a new one with `countersign spawn`")
        }
        Reason::UnknownToken => Some("see the tokens with `countersign token list`"),
        Reason::UnknownRule => Some("see the rules with `countersign rules list`"),
        Reason::BadRule => Some(
            "rules look like `Bash(git status:*)` or `Read(./src/**)`; see `countersign rules add --help`",
        ),
        Reason::UnknownEvent => Some("see the newest events with `countersign events`"),
        Reason::CannotStart => Some("see what can be started here with `countersign agents`"),
        Reason::AmbiguousId => Some(
            "give an id in full; `countersign inbox --json` and `countersign ls --json` print ids",
        ),
        Reason::AlreadyResolved => Some("see how it ended with `countersign show ID`"),
        Reason::AgentsCannotAnswer | Reason::AgentNotAllowed => {
            Some("agents can ask but not answer: run this from a terminal that no agent started")
        }
        Reason::HasChildren => {
            Some("choose with `countersign kill NAME --children end` or `--children keep`")
        }
        Reason::NotAnOrchestrator => Some(
            "`countersign ls` shows which agents are orchestrators; `spawn --role orchestrator` starts one",
        ),
        Reason::NotADescendant => {
            Some("an orchestrator can act only on agents that it or its agents started")
        }
        Reason::AboveCeiling => Some(
            "a person must answer it, or allow the orchestrator more with `countersign ceiling NAME --rule RULE`",
        ),
        Reason::Wider => {
            Some("allow what it needs with `countersign rules add` or `approve --remember`")
        }
        Reason::ObserverCannotChange => Some("use an operator token, or the Unix socket"),
        Reason::OwnerNotConnected => {
            Some("only the program that owns the ask can answer it, and it is not connected")
        }
        Reason::AuthRequired | Reason::AuthFailed => {
            Some("create a token with `countersign token create` and set COUNTERSIGN_TOKEN")
        }
        Reason::NotAnOption => Some("see the options with `countersign show ID`"),
        Reason::IdempotencyConflict => {
            Some("use another --key, or repeat exactly the ask that used it")
        }
        Reason::StoreUnavailable => Some("find the cause with `countersign doctor`"),
        Reason::ShuttingDown => Some("restart it with `countersign up --detach`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::HostRefusal;

    fn refused(reason: Reason) -> CliError {
        let data = serde_json::json!({"reason": reason.as_str()});
        CliError::Call(CallError::Refused(HostRefusal::new(
            -32003,
            "no".into(),
            Some(data),
        )))
    }

    #[test]
    fn a_refusal_has_its_own_code_and_next_step() {
        let error = refused(Reason::AmbiguousId);
        assert_eq!(error.exit(), CliExit::UnknownId);
        assert_eq!(
            error.report(),
            "error: no\n\nhint: give an id in full; `countersign inbox --json` and `countersign ls --json` print ids\n"
        );
        assert_eq!(
            refused(Reason::AlreadyResolved).exit(),
            CliExit::AlreadyAnswered
        );
        assert_eq!(refused(Reason::AgentsCannotAnswer).exit(), CliExit::Refused);
        assert_eq!(refused(Reason::TooMany).exit(), CliExit::Failure);
    }

    #[test]
    fn a_script_gets_the_hosts_word_for_the_error() {
        let document = |error: CliError| serde_json::to_value(error.document()).unwrap();
        assert_eq!(
            document(refused(Reason::UnknownApproval)),
            serde_json::json!({
                "code": "unknown_approval", "message": "no",
                "hint": "see what is open with `countersign inbox`",
            })
        );
        let file = CliError::file("read", "/x", io::Error::other("broken"));
        assert_eq!(
            document(file),
            serde_json::json!({ "code": "io", "message": "could not read `/x`: broken", "hint": null })
        );
    }

    #[test]
    fn a_missing_host_names_the_command_that_starts_one() {
        let error = CliError::NoHost {
            address: "/run/host.sock".into(),
            source: io::Error::new(io::ErrorKind::NotFound, "no such file"),
        };
        assert_eq!(error.exit(), CliExit::NoHost);
        assert_eq!(
            error.report(),
            "error: no host is running at `/run/host.sock`\n\n\
             hint: start one with `countersign up --detach`\n"
        );
    }
}
