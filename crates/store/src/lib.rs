//!
//! Invariants: an append is whole or not at all; when it returns, it survives power loss; one
//! host at a time writes; nothing here decides anything.
#![forbid(unsafe_code)]

mod audit;
mod chain;
mod contract;
mod fault;
pub mod memory;
mod sqlite;

pub use audit::{AuditReport, ExportedEvent, Problem, export, verify};
pub use contract::{
    ApprovalQuery, EventQuery, History, Log, QuestionQuery, RescuedRecord, Status, StoreError,
};
pub use sqlite::{SqliteHistory, SqliteLog, check, open};
