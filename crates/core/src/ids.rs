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

            /// The text of the id.
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

    /// Milliseconds from `earlier` to this instant, zero if it lies ahead.
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1000
    }
}
