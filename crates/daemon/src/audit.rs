//! Reading the record without a host: proving it whole, writing it out.

pub use countersign_store::{AuditReport, ExportedEvent, Problem, export, verify};
