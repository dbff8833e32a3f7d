//! The daemon against a real file system.

mod rulebook;
