//! The doors, each against a server in this process on a record of its own: the host wire, REST with SSE, MCP, tokens,
//! owners, browsers and input that does not fit. Agents are processes of their own.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod host;

use countersign_testkit::doors::{http, shape, wire};

mod agent {
    pub(crate) use countersign_testkit::doors::agent::Agent;
    use countersign_testkit::doors::agent::play_agent;

    /// Not a test of its own: the process of an [`Agent`], idle unless it was started as one.
    #[tokio::test]
    async fn plays_an_agent() {
        play_agent(|_| panic!("the command line is tested with the built binary")).await;
    }
}

mod agent_files;
mod answer_origin;
mod approvals;
mod ask_views;
mod bad_input;
mod browsers;
mod golden;
mod host_wire;
mod mcp;
mod notify;
mod openapi_document;
mod owners;
mod page_fixtures;
mod replay;
mod request_log;
mod rest;
mod strict_requests;
mod subscriptions;
mod tokens;
mod web_page;
