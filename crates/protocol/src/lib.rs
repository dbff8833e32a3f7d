//! The wire contract: what clients of every door send and get.
//!
//! Invariants: a released field keeps its name and meaning, results only ever grow, and `status`
//! holds the host wire's own values while ours are in `state`. Nothing here knows how a request is
//! served.
#![forbid(unsafe_code)]

mod agent_files;
mod ask_view;
mod editors;
mod envelope;
mod error;
mod hooks;
mod listed_ask;
mod managed;
pub mod method;
mod notify;
mod own_terminals;
mod params;
mod rows;
mod rules;
mod scalar;
mod search;
mod states;
mod target;
mod terminals;
mod transcript;

pub use agent_files::*;
pub use ask_view::*;
pub use editors::*;
pub use envelope::{EVENT_FRAME_START, EVENT_NOTIFICATION, ErrorObject, Request};
pub use error::{ErrorBody, ErrorCode, ErrorDetail, Reason};
pub use hooks::*;
pub use listed_ask::ListedAsk;
pub use managed::*;
pub use method::{Method, MethodName};
pub use notify::*;
pub use own_terminals::*;
pub use params::*;
pub use rows::*;
pub use rules::*;
pub use scalar::{Raw, Time};
pub use search::*;
pub use states::*;
pub use target::{AgentTarget, ApprovalTarget, QuestionTarget};
pub use terminals::*;
pub use transcript::*;

/// The kind of an event sent with `host.notify` that names none.
pub const NOTIFICATION_KIND_DEFAULT: &str = "host.notification";

/// The host wire's protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u64 = 3;
