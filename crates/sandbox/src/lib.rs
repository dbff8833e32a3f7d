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
#[cfg(target_os = "linux")]
mod descriptor_passing;
mod detect;
#[cfg(target_os = "linux")]
pub mod escape;
#[cfg(target_os = "linux")]
mod file_rules;
#[cfg(target_os = "linux")]
mod held_open;
mod inherited;
mod mounts;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod open_listener;
mod plan;
mod profile;
mod resolve;
#[cfg(target_os = "linux")]
mod syscall_filter;
#[cfg(target_os = "linux")]
mod syscall_notices;
#[cfg(target_os = "linux")]
mod system_calls;
#[cfg(target_os = "linux")]
mod write_boundary;

pub use confine::{
    ConfineError, ConfineStage, InheritedEntries, NetworkEntry, confine, confined_command,
    withheld_name,
};
pub use detect::{MissingLayer, SandboxSupport, detect};
#[cfg(target_os = "linux")]
pub use held_open::OpenKind;
pub use inherited::close_inherited_on_exec;
#[cfg(target_os = "linux")]
pub use network::{AgentNetwork, NetworkNamespaces, receive_network};
#[cfg(target_os = "linux")]
pub use open_listener::{HeldCall, OpenListener};
pub use plan::{ConfinementPlan, NetworkAccess, PROXY_PORT};
pub use profile::{HoldTime, RepositorySandbox, RequiredLevel, SandboxLimits, SandboxProfile};
pub use resolve::{ProfilePlaces, ResolveError, resolve};
#[cfg(target_os = "linux")]
pub use write_boundary::WriteBoundary;
