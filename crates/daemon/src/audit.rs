//! Reading the record without a host: proving it whole, writing it out, and whether this version can.

pub use countersign_store::{
    AuditProblem, AuditReport, ExportedEvent, check_database, export, verify,
};
