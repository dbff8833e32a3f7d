//! Reading the record without a host: proving it whole, writing it out, and whether this version can.

pub use countersign_store::{AuditReport, ExportedEvent, Problem, check, export, verify};
