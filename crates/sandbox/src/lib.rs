//! What the kernel lets an agent and its commands do.
//!
//! A [`SandboxProfile`] is what a person writes. [`resolve`] turns it, for one agent in one folder, into a
//! [`ConfinementPlan`], which holds nothing but paths and numbers. [`confine`] enforces a plan on its own
//! process and then runs the agent's program: bubblewrap decides what exists, Landlock what may change,
//! a seccomp filter which system calls are left.
//!
//! Invariant: a plan is enforced as a whole or the program is not run.

mod bubblewrap;
mod confine;
mod detect;
#[cfg(target_os = "linux")]
pub mod escape;
#[cfg(target_os = "linux")]
mod file_rules;
mod mounts;
#[cfg(target_os = "linux")]
mod network;
mod plan;
mod profile;
mod resolve;
#[cfg(target_os = "linux")]
mod syscall_filter;
#[cfg(target_os = "linux")]
mod system_calls;

pub use confine::{ConfineError, ConfineStage, NetworkEntry, confine, confined_command};
pub use detect::{MissingLayer, SandboxSupport, detect};
#[cfg(target_os = "linux")]
pub use network::{AgentNetwork, NetworkNamespaces, PROXY_PORT, receive_network};
pub use plan::{ConfinementPlan, NetworkAccess};
pub use profile::{RepositorySandbox, RequiredLevel, SandboxLimits, SandboxProfile};
pub use resolve::{ProfilePlaces, ResolveError, resolve};
