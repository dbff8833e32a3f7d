//! Checkpoints: how far a host heard an agent, and what it needs to go on from there.
//!
//! Invariant: a checkpoint is committed together with what came of everything up to its place, so
//! that a host that comes after hears nothing twice and misses nothing. It is no fact about the
//! world, so it is not an event: the state neither holds checkpoints nor makes them.

use crate::ids::AgentId;
use crate::json::Json;

/// How far one run of an agent was heard.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    pub agent: AgentId,
    pub run: u32,
    /// The number of the last line whose consequences are committed.
    pub offset: u64,
    /// The whole side of whoever hears the agent, as of that line.
    pub state: Json,
}
