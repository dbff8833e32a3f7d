//! Runners: one small process for each managed agent, between it and the host.
//!
//! A runner starts the agent, owns its pipes and is the parent of every terminal the agent runs
//! through us. The host drives it over a link and may be killed, replaced or absent meanwhile.
//!
//! Invariants: a runner decides nothing; what the agent said is kept until a host has committed it;
//! what a host says is written to the agent once, whatever is repeated; of everything that was said
//! to the agent the runner knows whether it was written.

#[cfg_attr(not(test), expect(dead_code, reason = "the runner follows"))]
mod frame;
mod record;
#[expect(dead_code, reason = "the runner follows")]
mod wire;

pub use record::RunnerRecord;
