//! What people read on the terminal about asks, questions, rules, changes and input.
//!
//! Invariant: text from agents is escaped here, before any screen shows it.

pub mod approvals;
pub mod choices;
pub mod decisions;
pub mod diff;
pub mod escape;
pub mod inbox_item;
pub mod markdown;
pub mod notes;
pub mod questions;
pub mod rules;
pub mod search_hits;
pub mod transcript;
pub mod viewers;
