//! The engine held against what it must answer.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a case that cannot be read has failed")]

mod corpus;
