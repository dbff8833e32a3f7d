//! The wire contract: what clients of every door send and get.
//!
//! Invariants: a released field keeps its name and meaning, results only ever grow, and `status`
//! holds the host wire's own words while ours stand beside it in `state`. Nothing here knows how
//! a request is served.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod envelope;
mod error;
mod hooks;
mod managed;
mod params;
mod rows;
mod rules;
mod scalar;
mod transcript;

pub use envelope::{ErrorObject, Notification, Request};
pub use error::{ErrorBody, ErrorCode, ErrorDetail, Reason};
pub use hooks::*;
pub use managed::*;
pub use params::*;
pub use rows::*;
pub use rules::*;
pub use scalar::{Raw, Time};
pub use transcript::*;

/// The host wire's protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u64 = 3;
