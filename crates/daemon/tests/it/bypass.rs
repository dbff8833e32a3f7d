//! A bypass lets through what would ask, and nothing that must not pass.

use countersign_core::AgentId;
use countersign_core::event::Effect;

use crate::fixture::{Host, ann, draft, outcome, request};

#[tokio::test]
async fn a_bypass_turns_ask_into_allow_and_lifts_no_deny_and_no_floor() {
    let host = Host::start().await;
    host.register("bot").await;
    let open = host.asks("bot", "make test").await;
    let floor = host.asks("bot", "echo x > .git/hooks/pre-commit").await;
    host.service
        .add_grant(ann(), draft(Effect::Deny, "Bash(git push:*)"))
        .await
        .unwrap();
    let agent = host
        .service
        .set_bypass(ann(), AgentId::new("bot"), Some(3_600_000))
        .await
        .unwrap();
    assert!(agent.bypass_until.is_some());
    assert_eq!(host.shows(&open).await, "Allowed by bypass");
    assert_eq!(host.shows(&floor).await, "open");
    let host = host.restart().await;
    let asks = async |command: &str| outcome(&host.asks("bot", command).await);
    assert_eq!(asks("make test").await, "Allowed by bypass");
    assert_eq!(asks("git push").await, "Denied by rules");
    assert_eq!(asks("echo x > .git/hooks/pre-commit").await, "open");
    let mut bare = request("bot", "make test");
    bare.tool = None;
    let bare = host.service.request_approval(bare).await.unwrap();
    assert_eq!(outcome(&bare), "Allowed by bypass");
    assert_eq!(outcome(&host.asks("other", "make test").await), "open");
    host.service
        .set_bypass(ann(), AgentId::new("bot"), None)
        .await
        .unwrap();
    assert_eq!(asks("make test").await, "open");
}
