//! Countersign in front of Countersign: the agent of one host is `countersign acp`, with another host and a scripted
//! agent behind it. An editor at the first host works with both gates.

use serde_json::{Value, json};

use super::client::{Editor, scripted};
use crate::managed::PROGRAM;
use crate::scene::{Scene, asks, rested};
use crate::wire::Wire;

/// Two hosts, the second behind the first.
struct HostChain {
    front: Scene,
    back: Scene,
}

impl HostChain {
    fn begin() -> Self {
        Self {
            front: Scene::begin(&[]),
            back: Scene::begin(&[]),
        }
    }

    /// The second host as an agent of the first.
    fn agent_line(&self) -> String {
        let [flag, line] = scripted(&self.back);
        let (home, mark) = (self.back.host.home().display(), self.front.mark());
        format!(
            "env 'COUNTERSIGN_HOME={home}' 'SCENE_MARK={mark}' '{PROGRAM}' acp {flag} \"{line}\""
        )
    }

    /// An editor at the first host.
    fn editor(&self) -> Editor {
        Editor::start_with(&self.front, &["--command", &self.agent_line()])
    }

    /// The only agent of each host.
    async fn agents(&self) -> [Value; 2] {
        let mut found = [Value::Null, Value::Null];
        for (scene, agent) in [&self.front, &self.back].into_iter().zip(&mut found) {
            let mut wire = Wire::operator(&scene.host).await;
            let agents = wire.ok("host.agents", json!({})).await;
            assert_eq!(agents.as_array().unwrap().len(), 1, "{agents}");
            *agent = agents[0].clone();
        }
        found
    }
}

fn ask_steps(call: &str) -> Value {
    json!([asks(call, "make all", &json!([{ "say": "it ran" }]))])
}

/// How the asks of a host ended, oldest first.
async fn endings(scene: &Scene) -> Vec<Value> {
    let mut wire = Wire::operator(&scene.host).await;
    let params = json!({ "status": "all", "limit": 100 });
    let rows = wire.ok("host.approvals", params).await;
    let mut rows = rows.as_array().unwrap().clone();
    rows.sort_by_key(|row| row["sequence"].as_u64());
    rows.iter().map(|row| row["state"].clone()).collect()
}

#[tokio::test]
async fn a_prompt_and_its_permissions_go_through_both_hosts() {
    let chain = HostChain::begin();
    let mut editor = chain.editor();
    let session = editor.open(&chain.front);
    let prompt = editor.prompt(&session, &json!([{ "say": "hello" }]));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "hello");
    for (option, said) in [("allow-once", "it ran"), ("deny", "c1 was denied")] {
        let prompt = editor.prompt(&session, &ask_steps("c1"));
        let request = editor.asked("session/request_permission");
        assert_eq!(
            request["params"]["toolCall"]["rawInput"]["command"],
            "make all"
        );
        editor.choose(&request, option);
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        assert_eq!(editor.said("agent_message_chunk"), said);
    }
    for scene in [&chain.front, &chain.back] {
        assert_eq!(endings(scene).await, ["allowed", "denied"]);
    }
}

#[tokio::test]
async fn an_answer_at_the_host_behind_withdraws_the_ask_in_front() {
    let chain = HostChain::begin();
    let mut editor = chain.editor();
    let session = editor.open(&chain.front);
    let prompt = editor.prompt(&session, &ask_steps("c1"));
    let request = editor.asked("session/request_permission");
    let mut behind = Wire::operator(&chain.back.host).await;
    let open = behind
        .ok("host.approvals", json!({ "status": "pending" }))
        .await;
    let params = json!({ "approval_id": open[0]["id"], "resolution": "approve" });
    behind.ok("host.resolve_approval", params).await;
    let cancelled = editor.told("$/cancel_request");
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "it ran");
    assert_eq!(endings(&chain.front).await, ["cancelled"]);
    assert_eq!(endings(&chain.back).await, ["allowed"]);
}

#[tokio::test]
async fn an_answer_too_soon_in_front_is_automatic_behind() {
    let chain = HostChain::begin();
    let mut editor = chain.editor();
    let session = editor.open(&chain.front);
    let mut behind = Wire::subscriber(&chain.back.host).await;
    let mut front = Wire::subscriber(&chain.front.host).await;
    editor.prompt(&session, &ask_steps("c1"));
    let ask = front.event_of("approval.requested").await;
    let params = json!({ "approval_id": ask["payload"]["id"], "resolution": "approve" });
    front.ok("host.resolve_approval", params).await;
    behind.event_of("editor.answer_refused").await;
    assert_eq!(endings(&chain.back).await, ["pending"]);
}

#[tokio::test]
async fn a_cancelled_prompt_ends_the_turn_at_both_hosts() {
    let chain = HostChain::begin();
    let mut editor = chain.editor();
    let session = editor.open(&chain.front);
    let steps = json!([{ "say": "working" }, { "sleep_ms": 60_000 }]);
    let prompt = editor.prompt(&session, &steps);
    editor.update("agent_message_chunk");
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    let [_, behind] = chain.agents().await;
    let mut wire = Wire::operator(&chain.back.host).await;
    assert_eq!(rested(&mut wire, &behind["id"]).await["state"], "idle");
}

#[tokio::test]
async fn a_session_is_loaded_through_both_hosts() {
    let mut chain = HostChain::begin();
    let mut editor = chain.editor();
    let session = editor.open(&chain.front);
    let prompt = editor.prompt(&session, &json!([{ "say": "old" }]));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    drop(editor);
    // By another editor, while the agent in front lives.
    let mut second = chain.editor();
    second.load(&chain.front, &session);
    assert_eq!(second.said("agent_message_chunk"), "old");
    // After the agent in front ended, which loads the session behind it when it is prompted.
    let mut front = Wire::operator(&chain.front.host).await;
    front
        .ok("host.kill_agent", json!({ "agent_id": session }))
        .await;
    rested(&mut front, &json!(session)).await;
    chain.back.host.restart();
    let prompt = second.prompt(&session, &json!([{ "say": "new" }]));
    assert_eq!(second.stop_reason(prompt), "end_turn");
    assert_eq!(second.said("agent_message_chunk"), "new");
    let [_, behind] = chain.agents().await;
    assert_eq!(behind["managed"]["turns"], 2, "it is the same agent");
}
