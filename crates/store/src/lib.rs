//! The durable event log, the read models beside it, and the audit of both.
//!
//! Invariants: an append is whole or not at all; when it returns, it survives power loss; one
//! host at a time writes; nothing here decides anything.
#![forbid(unsafe_code)]

mod contract;

pub use contract::{ApprovalQuery, EventQuery, History, Log, QuestionQuery, Status, StoreError};
