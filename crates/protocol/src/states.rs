//! States, roles and effects as words on the wire.
//!
//! Invariant: a word that this version does not know is read as `Unknown`, which is never an
//! allowing, pending or ended state. What callers send is read strictly instead: see `strict`.

use std::fmt;

use serde::de::{Error as _, IntoDeserializer as _};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

// A word is a `tt`, because the derived schema cannot read a `literal` that a macro passes on.
/// Enums whose variants are words on the wire.
macro_rules! wire_enums {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:tt,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
            // Also the default, so that a field which an older host does not send allows nothing.
            /// A word that this version does not know.
            #[default]
            #[serde(rename = "unknown", other)]
            Unknown,
        }

        impl $name {
            const WORDS: &[&str] = &[$($word,)*];

            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Unknown => "unknown",
                }
            }

            /// Reads one of the words and refuses every other.
            pub fn strict<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                match Self::from(text.as_str()) {
                    Self::Unknown => Err(D::Error::unknown_variant(&text, Self::WORDS)),
                    known => Ok(known),
                }
            }

            /// The same for a field that may be absent or null.
            pub fn strict_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
                let text = Option::<String>::deserialize(deserializer)?;
                text.map(|text| Self::strict(text.into_deserializer())).transpose()
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    _ => Self::Unknown,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                // `pad` and not `write_str`, so that tables can align it.
                out.pad(self.as_str())
            }
        }
    )*};
}

wire_enums! {
    /// The host wire's word for what an agent does.
    HostAgentStatus {
        Idle = "idle",
        Running = "running",
        WaitingForApproval = "waiting_for_approval",
        Paused = "paused",
        Completed = "completed",
        Errored = "errored",
        Stopped = "stopped",
    }

    /// What an agent does.
    HostAgentState {
        Starting = "starting",
        Running = "running",
        Idle = "idle",
        AwaitingPermission = "awaiting_permission",
        Waiting = "waiting",
        Paused = "paused",
        Done = "done",
        Error = "error",
        Stopped = "stopped",
    }

    /// Which allows need a second act on a screen that answers.
    DecideConfirm {
        Always = "always",
        /// Those of asks with warnings, and of asks that a rule or the floor wants asked.
        Risky = "risky",
        /// Those of asks with warnings.
        Never = "never",
    }

    /// What a text is in which a search found something.
    SearchHitKind {
        /// A message to the agent.
        User = "user",
        /// Text of the agent.
        Assistant = "assistant",
        /// What the agent thought.
        Thinking = "thinking",
        /// What a tool is used for.
        ToolUse = "tool_use",
        /// What the agent plans.
        Plan = "plan",
        /// A message of the host, or of the agent about itself.
        Notice = "notice",
    }

    /// How an answer came in.
    HostDoor {
        /// The host's page in a browser.
        Web = "web",
        /// Another client's WebSocket, over TCP.
        Websocket = "websocket",
        Rest = "rest",
        /// The Unix socket, which the command line uses.
        Socket = "socket",
        Mcp = "mcp",
        Hook = "hook",
    }

    /// The host wire's word for whether an ask was answered.
    HostApprovalStatus {
        Pending = "pending",
        Resolved = "resolved",
    }

    /// Whether and how an ask ended.
    HostApprovalState {
        Pending = "pending",
        Allowed = "allowed",
        Denied = "denied",
        /// Ended with an option that is neither an allow nor a denial.
        Answered = "answered",
        Cancelled = "cancelled",
        Expired = "expired",
        /// The agent that asked has ended or disconnected.
        Gone = "gone",
    }

    /// What became of the answer to an ask.
    HostDelivery {
        Waiting = "waiting",
        Attempted = "attempted",
        Delivered = "delivered",
        Withdrawn = "withdrawn",
    }

    /// Whether and how a question ended.
    HostQuestionState {
        Pending = "pending",
        Answered = "answered",
        Cancelled = "cancelled",
        Expired = "expired",
    }

    /// The role of a caller.
    HostRole {
        Operator = "operator",
        Observer = "observer",
        Agent = "agent",
        Host = "host",
    }

    /// The role of an agent among others.
    HostAgentRole {
        /// It starts agents of its own.
        Orchestrator = "orchestrator",
    }

    /// What a rule or a verdict says.
    HostEffect {
        Allow = "allow",
        Ask = "ask",
        Deny = "deny",
    }

    /// Where an allow of a file counts, if not everywhere.
    HostRuleArea {
        /// In the folder that the agent works in.
        Folder = "folder",
        /// In a git worktree of the agent's own.
        Worktree = "worktree",
        /// For commands of an agent in a sandbox of level `full`.
        Sandbox = "sandbox",
    }
}

impl HostAgentState {
    /// Whether the agent has ended. It may be started again.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Error | Self::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_read_by_clients_and_refused_by_hosts() {
        let read: HostApprovalState = serde_json::from_str(r#""paused""#).unwrap();
        assert_eq!(read, HostApprovalState::Unknown);
        let mut sent = serde_json::Deserializer::from_str(r#""paused""#);
        let refused = HostEffect::strict(&mut sent).unwrap_err().to_string();
        let expected = "unknown variant `paused`, expected one of `allow`, `ask`, `deny`";
        assert!(refused.starts_with(expected), "{refused}");
    }

    fn documented<T: utoipa::PartialSchema>() -> serde_json::Value {
        let schema = serde_json::to_value(T::schema()).unwrap();
        schema["enum"].clone()
    }

    #[test]
    fn the_document_lists_the_words_as_they_are_sent() {
        macro_rules! check {
            ($($name:ident)*) => {$(
                let sent: Vec<&str> = $name::WORDS.iter().copied().chain(["unknown"]).collect();
                assert_eq!(documented::<$name>(), serde_json::json!(sent));
            )*};
        }
        check! {
            HostAgentStatus HostAgentState HostApprovalStatus HostApprovalState HostDelivery HostQuestionState
            HostRole HostAgentRole HostEffect HostRuleArea
        }
    }
}
