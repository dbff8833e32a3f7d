//! Exit codes: the one list of what each number means to a script.
//!
//! Invariant: 0 is returned by `ask` only when exactly what was asked is allowed.

use std::fmt::Write as _;
use std::process::ExitCode;

use countersign_protocol::HostApproval;

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
    (CliExit::Ok, "done; for `ask`: allowed exactly as asked"),
    (CliExit::Failure, "something failed"),
    (CliExit::Usage, "the command line does not fit"),
    (CliExit::Denied, "the ask was denied, or would be"),
    (
        CliExit::Answered,
        "answered otherwise: with another option, or allowed with an edited input",
    ),
    (CliExit::Expired, "the ask expired"),
    (
        CliExit::Cancelled,
        "the ask was cancelled, or its asker is gone",
    ),
    (CliExit::NoHost, "no host is running, or it went away"),
    (CliExit::PassedToOwner, "passed to its owner, who decides"),
    (
        CliExit::AlreadyAnswered,
        "somebody answered before, and differently",
    ),
    (CliExit::Refused, "you may not do that"),
    (
        CliExit::UnknownId,
        "no such id, or the abbreviation fits more than one",
    ),
    (
        CliExit::Asks,
        "for `rules check`: no rule settles it, a person would be asked",
    ),
    (
        CliExit::TimedOut,
        "for `wait`: time ran out, and not all of them are idle",
    ),
];

impl CliExit {
    /// The list as `--help` prints it.
    pub(crate) fn help() -> String {
        let mut text = String::from("Exit codes:\n");
        for (exit, meaning) in MEANINGS {
            let code = exit as u8;
            let _ = writeln!(text, "  {code:>2}  {meaning}");
        }
        text.push_str("\nThe host is found through its socket, or with --url and a token in COUNTERSIGN_TOKEN.\n");
        text.push_str("COUNTERSIGN_HOME=DIR keeps everything in one folder.");
        text
    }

    /// How an ask that ended reads to the script that asked. `None` while it is open.
    pub(crate) fn of_ask(row: &HostApproval) -> Option<Self> {
        match row.state.as_str() {
            "pending" => None,
            "allowed" if row.edited_input.is_none() => Some(Self::Ok),
            "allowed" | "answered" => Some(Self::Answered),
            "denied" => Some(Self::Denied),
            "expired" => Some(Self::Expired),
            "cancelled" | "gone" => Some(Self::Cancelled),
            _ => Some(Self::Failure),
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
