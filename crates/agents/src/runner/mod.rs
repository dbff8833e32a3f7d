//! Runners: one small process for each managed agent, between it and the host.
//!
//! A runner starts the agent, owns its pipes and is the parent of every terminal the agent runs
//! through us. The host drives it over a link and may be killed, replaced or absent meanwhile.
//!
//! Invariants: a runner decides nothing; what the agent said is kept until a host has committed it;
//! what a host says is written to the agent once, whatever is repeated; of everything that was said
//! to the agent the runner knows whether it was written.

mod alive;
mod folder;
mod frame;
mod last_words;
mod link;
mod record;
mod shells;
mod start;
mod wire;

pub use folder::{clear, find_left};
pub use last_words::LastWords;
pub use link::{
    LaunchRefused, Line, Link, LinkError, LinkEvent, LinkLine, Receipt, WriteError, Written,
    connect,
};
pub use record::RunnerRecord;
pub use shells::RunnerShells;
pub use start::{RunnerProcess, StartError, StartSpec, default_command, end_left, start};
