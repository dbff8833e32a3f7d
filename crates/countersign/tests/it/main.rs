//! The doors of the built binary, as clients, scripts, browsers and agents meet them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod agent;
mod host;
mod http;
mod shape;
mod wire;

mod agents_cannot_answer;
mod approvals;
mod bad_input;
mod browsers;
mod host_wire;
mod owners;
mod replay;
mod rest;
mod store_trouble;
mod tokens;
