//! `countersign acp`: editors, played by a client of the Agent Client Protocol over real pipes, with
//! scripted agents behind a real host.

mod attached;
mod chained;
pub(crate) mod client;
mod commands;
mod files;
mod hosts;
mod permissions;
mod races;
mod sessions;
mod strangers;
