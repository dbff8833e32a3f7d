//! Names of things: each id is a type of its own, cheap to clone.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is: ids chosen by clients are theirs.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{:?}", &self.0)
            }
        }
    )*};
}

ids! {
    /// An agent, managed or external.
    AgentId;
    /// One ask for permission.
    ApprovalId;
    /// One question that waits for words.
    QuestionId;
    /// A device that registered itself.
    DeviceId;
    /// One connection through a door; gone with it.
    ClientId;
    /// A token's public name; the token itself is kept only as a hash.
    TokenId;
    /// A remembered decision.
    GrantId;
    /// Who a principal is across connections: a uid, a token, an agent.
    PrincipalKey;
}

/// The number of a committed event. Rises, and may have gaps for a reader.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A wall-clock instant in microseconds since 1970, UTC. Passed in, never read here.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This instant moved into the future; saturates instead of wrapping.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// For people: date and time to the minute, rounded down, in UTC.
    pub fn to_utc(self) -> String {
        let minutes = self.0 / 60_000_000;
        let (days, minute) = (minutes / 1_440, minutes % 1_440);
        // Days are counted from the first of March, so that the leap day is the year's last.
        let days = days + 719_468;
        // An era has 400 years, after which the calendar repeats; 719,468 days lie between its
        // beginning in the year 0 and 1970.
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (year, month) = if month < 10 {
            (era * 400 + year, month + 3)
        } else {
            (era * 400 + year + 1, month - 9)
        };
        let (hour, minute) = (minute / 60, minute % 60);
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }

    /// Milliseconds from `earlier` to this instant, zero if it lies ahead.
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_as_dates() {
        let read = |seconds: u64| Timestamp(seconds * 1_000_000).to_utc();
        assert_eq!(
            [
                read(0),
                read(951_782_399),
                read(951_782_400),
                read(1_794_767_513)
            ],
            [
                "1970-01-01 00:00 UTC",
                "2000-02-28 23:59 UTC",
                "2000-02-29 00:00 UTC",
                "2026-11-15 18:31 UTC"
            ]
        );
    }
}
