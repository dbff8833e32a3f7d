//! What people read on the terminal about asks, questions, rules, changes and input.
//!
//! Invariant: text from agents is escaped here, before any screen shows it.

pub(crate) mod approvals;
pub(crate) mod diff;
pub(crate) mod escape;
pub(crate) mod json;
pub(crate) mod questions;
pub(crate) mod rules;
