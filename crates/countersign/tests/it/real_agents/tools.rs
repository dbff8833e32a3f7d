//! The host's own tools: every agent is given them, and may call them without being asked about.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::stage::Stage;
use super::told::{asks_about_host_tools, host_tool, host_tool_of, script};

/// It asks whoever gave it its task, gets the answer, and nobody was asked for permission.
pub(super) async fn asks_upwards(mut stage: Stage) {
    let tool = host_tool_of(stage.kind, "ask_orchestrator");
    let question = json!({ "question": "Which port?" });
    let steps = json!([{ "tool": tool, "input": question }]);
    let actor = stage.spawn("asker", &script(&steps));
    if asks_about_host_tools(stage.kind) {
        let ask = stage.ask(&actor).await;
        stage.approve(&ask).await;
    }
    let id = stage.question(&actor).await;
    assert!(actor.runs(" mcp --socket "), "{:?}", actor.processes());
    stage.ok(&["answer", &id, "port 7000"]);
    stage.turn_ended(&actor, 1).await;
    stage.hears(&actor, "assistant", "port 7000").await;
    if !asks_about_host_tools(stage.kind) {
        assert_eq!(stage.asks_waited_for(&actor).await, Vec::<Value>::new());
    }
    stage.end(&actor).await;
}

#[tokio::test]
async fn what_people_deny_of_the_hosts_tools_stays_denied() {
    let rules = "deny = [\"mcp__countersign__notify_orchestrator\"]\n";
    let Some(mut stage) = Stage::set_with(RealAgent::Claude, rules).await else {
        return;
    };
    let tool = host_tool("notify_orchestrator");
    let steps = json!([{ "tool": tool, "input": { "message": "hello" } }]);
    let actor = stage.spawn("asker", &script(&steps));
    stage.turn_ended(&actor, 1).await;
    let asks = stage.asks_of(&actor).await;
    let states: Vec<&Value> = asks.iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["denied"], "{asks:?}");
    stage.end(&actor).await;
}
