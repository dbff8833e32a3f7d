//! Exit codes: the one list of what each number means to a script.
//!
//! Invariant: 0 is returned by `ask` only when exactly what was asked is allowed.

use std::fmt::Write as _;
use std::process::ExitCode;

use countersign_protocol::{HostApproval, HostApprovalState};

/// How the command ended, as a script sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CliExit {
    Ok = 0,
    Failure = 1,
    Usage = 2,
    Denied = 3,
    Answered = 4,
    Expired = 5,
    Cancelled = 6,
    NoHost = 7,
    PassedToOwner = 8,
    AlreadyAnswered = 9,
    Refused = 10,
    UnknownId = 11,
    Asks = 12,
    TimedOut = 13,
}

/// Every code with its meaning, in order.
const MEANINGS: [(CliExit, &str); 14] = [
    (CliExit::Ok, "success; for `ask`: allowed exactly as asked"),
    (CliExit::Failure, "failure"),
    (CliExit::Usage, "usage error"),
    (CliExit::Denied, "the ask was denied, or would be"),
    (
        CliExit::Answered,
        "answered with an option that neither allows nor denies, or with an edited input",
    ),
    (CliExit::Expired, "the ask expired"),
    (
        CliExit::Cancelled,
        "the ask was cancelled, or its asker disconnected",
    ),
    (
        CliExit::NoHost,
        "no host is running, or the connection was lost",
    ),
    (
        CliExit::PassedToOwner,
        "passed to the program that owns the ask",
    ),
    (
        CliExit::AlreadyAnswered,
        "somebody answered first: with another answer, or with the same one and --remember saved no rule; `rules backtest`: a past decision contradicts the rule",
    ),
    (CliExit::Refused, "not allowed"),
    (
        CliExit::UnknownId,
        "no such id, or an abbreviation that matches more than one",
    ),
    (
        CliExit::Asks,
        "for `rules check`: no rule decides, a person would be asked",
    ),
    (
        CliExit::TimedOut,
        "for `wait`: timed out before all agents were idle",
    ),
];

impl CliExit {
    pub(crate) fn failure_if(failed: bool) -> Self {
        if failed { Self::Failure } else { Self::Ok }
    }

    /// Of two results of one command, the one a script has to know about.
    pub(crate) fn worse(self, other: Self) -> Self {
        if other.severity() > self.severity() {
            other
        } else {
            self
        }
    }

    fn severity(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::PassedToOwner => 1,
            Self::AlreadyAnswered => 2,
            Self::UnknownId => 3,
            _ => 4,
        }
    }

    /// The list as `--help` prints it.
    pub(crate) fn help() -> String {
        let mut text = String::from("Exit codes:\n");
        for (exit, meaning) in MEANINGS {
            let code = exit as u8;
            let _ = writeln!(text, "  {code:>2}  {meaning}");
        }
        text.push_str("\nThe host is reached through its Unix socket, or with --url and a token in COUNTERSIGN_TOKEN.\n");
        text.push_str("COUNTERSIGN_HOME=DIR keeps all files in one folder.");
        text
    }

    /// How an ask that ended reads to the script that asked. `None` while it is open.
    pub(crate) fn of_ask(row: &HostApproval) -> Option<Self> {
        match row.state {
            HostApprovalState::Pending => None,
            // Allowed with another input is not what was asked. A script that goes on with its own
            // command must not see success.
            HostApprovalState::Allowed if row.edited_input.is_none() => Some(Self::Ok),
            HostApprovalState::Allowed | HostApprovalState::Answered => Some(Self::Answered),
            HostApprovalState::Denied => Some(Self::Denied),
            HostApprovalState::Expired => Some(Self::Expired),
            HostApprovalState::Cancelled | HostApprovalState::Gone => Some(Self::Cancelled),
            // A state that a newer host may have: never a success.
            HostApprovalState::Unknown => Some(Self::Failure),
        }
    }
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    #[test]
    fn of_several_results_the_worst_counts() {
        let all = [
            CliExit::Ok,
            CliExit::UnknownId,
            CliExit::Usage,
            CliExit::PassedToOwner,
            CliExit::AlreadyAnswered,
        ];
        let worst = |exits: &[CliExit]| exits.iter().copied().fold(CliExit::Ok, CliExit::worse);
        assert_eq!(worst(&all), CliExit::Usage);
        assert_eq!(worst(&all[3..]), CliExit::AlreadyAnswered);
        assert_eq!(worst(&[]), CliExit::Ok);
    }

    #[test]
    fn only_an_unchanged_allow_is_zero() {
        let codes: Vec<_> = [
            "pending",
            "allowed",
            "denied",
            "answered",
            "expired",
            "cancelled",
            "gone",
            "new",
        ]
        .into_iter()
        .map(|state| {
            CliExit::of_ask(&HostApproval {
                state: state.into(),
                ..test_rows::approval()
            })
        })
        .collect();
        let expected = [
            None,
            Some(CliExit::Ok),
            Some(CliExit::Denied),
            Some(CliExit::Answered),
            Some(CliExit::Expired),
            Some(CliExit::Cancelled),
            Some(CliExit::Cancelled),
            Some(CliExit::Failure),
        ];
        assert_eq!(codes, expected);
        let edited = HostApproval {
            state: "allowed".into(),
            edited_input: Some(test_rows::raw(r#"{"command":"true"}"#)),
            ..test_rows::approval()
        };
        assert_eq!(CliExit::of_ask(&edited), Some(CliExit::Answered));
    }
}
