//! Notifications, tokens, marks of processes, and what is erased from the record.

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, Seq, Timestamp, TokenId};
use crate::json::Json;
use crate::principal::{RecordedActor, Role};

/// See `Event::NotificationSent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotificationSent {
    /// The kind its sender gave it; never one of ours.
    pub kind: String,
    /// The agent it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    pub message: String,
    /// What its sender attached.
    pub payload: Json,
    pub by: RecordedActor,
}

/// See `Event::TokenCreated`. The token itself is nowhere; its hash lies in a table apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenCreated {
    /// The token's public name.
    pub token: TokenId,
    /// What its bearer may do.
    pub role: Role,
    /// Who its bearer is on the record.
    pub name: String,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// SHA-256 of the token. It is random and long, so this gives nothing away.
    pub hash: String,
    /// The browser that holds it, if it is the token of a login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<LoginDevice>,
    pub by: RecordedActor,
}

/// A browser that logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginDevice {
    /// What its user calls it.
    pub name: String,
    /// How long it stays logged in without being used.
    pub session_ms: u64,
}

/// See `Event::TokenRenewed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRenewed {
    pub token: TokenId,
    /// When it ends now.
    pub expires_at: Timestamp,
}

/// See `Event::TokenRevoked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRevoked {
    pub token: TokenId,
    /// Who withdrew it.
    pub by: RecordedActor,
}

/// See `Event::ProcessMarked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessMarked {
    /// The agent it is.
    pub agent: AgentId,
    pub process: ProcessKey,
}

/// A process, named so that a reused number is another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessKey {
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

/// See `Event::ProcessesForgotten`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessesForgotten {
    /// The processes that are gone.
    pub processes: Vec<ProcessKey>,
}

/// See `Event::RecordRedacted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordRedacted {
    /// The event whose payload is gone.
    pub seq: Seq,
    pub reason: String,
    pub by: RecordedActor,
}

/// See `Event::RecordPruned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordPruned {
    /// The oldest event that is kept.
    pub before: Seq,
    /// Who erased the rest.
    pub by: RecordedActor,
}

/// See `Event::TerminalOpened`. What is typed and written there is nowhere on the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TerminalOpened {
    pub terminal: String,
    pub cwd: String,
    /// What runs in it.
    pub command: String,
    pub by: RecordedActor,
}

/// See `Event::TerminalEnded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TerminalEnded {
    pub terminal: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it, as `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Who closed it; nobody, if its program ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<RecordedActor>,
}
