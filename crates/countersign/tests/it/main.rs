//! Stories told on the built binary: its command line, its doors as clients, scripts, browsers and
//! agents meet them, and its end at any instant. Each has a host of its own.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a story that cannot go on has failed"
)]

mod agent;
mod host;
mod http;
mod scene;
mod shape;
mod wire;

mod agents_cannot_answer;
mod approvals;
mod attacks;
mod bad_input;
mod browsers;
mod cli;
mod crash;
mod hook;
mod host_wire;
mod lost_record;
mod managed;
mod managed_attacks;
mod managed_cli;
mod managed_gate;
mod managed_kills;
mod managed_load;
mod managed_terminals;
mod mcp;
mod mcp_bridge;
mod mcp_inspector;
mod mcp_orchestrator;
mod orchestrators;
mod outlive_attacks;
mod outlive_cli;
mod outlive_held;
mod outlive_load;
mod outlive_table;
mod owners;
mod real_agents;
mod replay;
mod rest;
mod rules;
mod rules_cli;
mod store_trouble;
mod strict_http;
mod strict_requests;
mod tokens;
