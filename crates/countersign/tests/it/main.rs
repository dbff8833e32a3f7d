//! What needs the built binary: its command line, hooks, agents that it runs, and its end at any instant. Each test has
//! a host of its own. The doors by themselves are tested in `server/tests/it`.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a story that cannot go on has failed"
)]

mod host;
mod scene;

use countersign_testkit::doors::{http, mcp, shape, wire};

mod agent {
    pub(crate) use countersign_testkit::doors::agent::Agent;
    use countersign_testkit::doors::agent::play_agent;

    /// Not a test of its own: the process of an [`Agent`], idle unless it was started as one.
    #[tokio::test]
    async fn plays_an_agent() {
        play_agent(crate::host::command).await;
    }
}

mod agents_cannot_answer;
mod attacks;
mod cli;
mod completion;
mod crash;
mod editor;
mod hook;
mod labels;
mod lost_record;
mod managed;
mod managed_attacks;
mod managed_cli;
mod managed_gate;
mod managed_kills;
mod managed_load;
mod managed_queue;
mod managed_terminals;
mod mcp_bridge;
mod mcp_inspector;
mod mcp_orchestrator;
mod notify;
mod orchestrators;
mod outlive_attacks;
mod outlive_cli;
mod outlive_held;
mod outlive_load;
mod outlive_table;
mod own_terminals;
mod real_agents;
mod rules;
mod rules_cli;
mod sandbox;
mod sandbox_network;
mod sandbox_opens;
mod service;
mod shell;
mod slow_reader;
mod starter_rules;
mod store_trouble;
mod strict_http;
mod tokens;
mod tui;
