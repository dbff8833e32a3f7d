//! Runners: one small process for each managed agent, between it and the host.
//!
//! A runner starts the agent, owns its pipes and is the parent of every terminal the agent runs
//! through us. The host drives it over a link and may be killed, replaced or absent meanwhile.
//!
//! Invariants: a runner decides nothing; what the agent said is kept until a host has committed it;
//! what a host says is written to the agent once, whatever is repeated; of everything that was said
//! to the agent the runner knows whether it was written.

mod agent;
mod backlog;
mod calls;
mod frame;
mod hosts;
mod hub;
mod items;
mod last_words;
mod names;
mod peers;
mod record;
mod run;
mod socket;
mod state;
mod wire;

use hub::Runner;
pub use last_words::{LastWords, read_last_words};
pub use record::RunnerRecord;
pub use run::{RunnerFailure, run};

/// The record of a runner, in its folder.
const RECORD_FILE: &str = "record.json";

/// What a runner could not keep in memory.
const SPILL_FILE: &str = "spill";

/// Everything that may lie in the folder of a runner; `runner` is its process, by whoever started it.
const FILES: [&str; 4] = [RECORD_FILE, SPILL_FILE, last_words::FILE, "runner"];
