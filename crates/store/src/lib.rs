//! The durable event log, the read models folded from it, and the audit that proves it whole.
//!
//! Invariants: an append is whole or not at all; when it returns, it survives power loss; one
//! host at a time writes; nothing here decides anything.
#![forbid(unsafe_code)]

mod audit;
mod chain;
mod contract;
mod failure;
pub mod memory;
mod search;
mod sqlite;

pub use audit::{AuditProblem, AuditReport, ExportedEvent, export, verify};
pub use contract::{
    ApprovalQuery, EventHistory, EventLog, EventQuery, QuestionQuery, RescuedRecord, StatusFilter,
    StoreError,
};
pub use search::{SearchHit, SearchPage, SearchQuery};
pub use sqlite::{SqliteHistory, SqliteLog, check_database, open};
