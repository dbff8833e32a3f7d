//! The daemon against a real file system.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod rulebook;
