//! What people read on the terminal about asks, questions, rules, changes and input.
//!
//! Invariant: text from agents is escaped here, before any screen shows it.

pub(crate) mod approvals;
pub(crate) mod choices;
pub(crate) mod decisions;
pub(crate) mod diff;
pub(crate) mod escape;
pub(crate) mod inbox_item;
pub(crate) mod notes;
pub(crate) mod questions;
pub(crate) mod rules;
