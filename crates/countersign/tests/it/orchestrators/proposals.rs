//! What an orchestrator proposes about screens: an ask each, kept only when it was allowed, and never what decides.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Family;
use crate::scene::{answer_next, next_ask};

const LAYOUT: &str = "[[tab]]\ntitle = \"Wide\"\nroot = { panel = \"inbox\" }\n";

fn settings(family: &Family, name: &str) -> PathBuf {
    family.scene.host.home().join("tui").join(name)
}

/// Proposes, has a person answer, and gives whether it failed and what the agent was told.
async fn proposed(family: &mut Family, tool: &str, input: Value, answer: &str) -> (bool, String) {
    let address = family.scene.host.address.clone();
    let asking = family.boss.tool(&address, tool, input);
    let ((failed, told, _), _) = tokio::join!(asking, answer_next(&mut family.wire, answer));
    (failed, told)
}

#[tokio::test]
async fn a_proposal_is_kept_only_when_it_is_allowed() {
    let mut family = Family::begin(&[]).await;
    let wide = json!({ "name": "wide", "layout": LAYOUT });
    let file = settings(&family, "layouts/wide.toml");
    let (failed, told) = proposed(&mut family, "propose_layout", wide.clone(), "deny").await;
    assert!(failed && told.contains("denied by"), "{told}");
    assert!(!file.exists());
    let (failed, told) = proposed(&mut family, "propose_layout", wide, "approve").await;
    assert!(!failed, "{told}");
    assert_eq!(
        told,
        "saved the layout `wide`; open screens show it within seconds"
    );
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.ends_with(LAYOUT), "{text}");
    let key = json!({ "command": "go.feed", "keys": ["Ctrl-x"] });
    let (failed, told) = proposed(&mut family, "propose_key_binding", key, "approve").await;
    assert!(!failed, "{told}");
    let text = std::fs::read_to_string(settings(&family, "proposed-keys.toml")).unwrap();
    assert_eq!(text, "\"go.feed\" = [\"Ctrl-x\"]\n");
    let address = family.scene.host.address.clone();
    let (failed, told, _) = family.boss.tool(&address, "list_layouts", json!({})).await;
    assert!(!failed);
    assert_eq!(told, "4 layouts: home, review, orchestrator, wide");
    family.end().await;
}

#[tokio::test]
async fn what_a_person_edited_is_what_is_kept_and_what_decides_is_refused() {
    let mut family = Family::begin(&[]).await;
    let address = family.scene.host.address.clone();
    let input = json!({ "name": "wide", "layout": LAYOUT });
    let asking = family.boss.tool(&address, "save_layout", input);
    let answering = async {
        let ask = next_ask(&mut family.wire).await;
        assert_eq!(ask["tool"], "mcp__countersign__save_layout");
        assert_eq!(ask["action"], "save the layout wide");
        let edited = json!({ "name": "../../rules", "layout": LAYOUT });
        let answer =
            json!({ "approval_id": ask["id"], "resolution": "approve", "edited_input": edited });
        family.wire.ok("host.resolve_approval", answer).await
    };
    let ((failed, told, _), _) = tokio::join!(asking, answering);
    assert!(
        failed && told.contains("a name has 1 to 40 letters"),
        "{told}"
    );
    // These never become an ask.
    let attacks = [
        (
            "save_layout",
            json!({ "name": "../keys", "layout": LAYOUT }),
        ),
        (
            "propose_layout",
            json!({ "name": "home", "layout": LAYOUT }),
        ),
        (
            "propose_theme",
            json!({ "name": "dim", "theme": "text = \"#000000\"" }),
        ),
        (
            "propose_key_binding",
            json!({ "command": "ask.approve", "keys": ["x"] }),
        ),
        (
            "propose_key_binding",
            json!({ "command": "go.feed", "keys": ["y"] }),
        ),
        (
            "propose_key_binding",
            json!({ "command": "go.feed", "keys": ["a"] }),
        ),
    ];
    for (tool, input) in attacks {
        let (failed, told, data) = family.boss.tool(&address, tool, input.clone()).await;
        assert!(failed, "{tool} {input}: {told}");
        assert_eq!(data["reason"], "invalid_params", "{told}");
    }
    assert!(!family.scene.host.home().join("tui").exists());
    family.end().await;
}

#[tokio::test]
async fn a_rule_may_allow_a_proposal() {
    let rules = "allow = [\"mcp__countersign__save_layout\"]\n";
    let mut family = Family::begin_with(&[], rules, "").await;
    let address = family.scene.host.address.clone();
    let input = json!({ "name": "wide", "layout": LAYOUT });
    let (failed, told, _) = family.boss.tool(&address, "save_layout", input).await;
    assert!(!failed, "{told}");
    assert!(settings(&family, "layouts/wide.toml").exists());
    family.end().await;
}
