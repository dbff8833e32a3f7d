//! The host's own tools: every agent is given them, and may call them without being asked about.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::stage::Stage;
use super::told::{host_tool, script};

/// It asks whoever gave it its task, gets the answer, and nobody was asked for permission.
pub(super) async fn asks_upwards(mut stage: Stage) {
    let tool = host_tool("ask_orchestrator");
    let question = json!({ "question": "Which port?" });
    let steps = json!([{ "tool": tool, "input": question }]);
    let actor = stage.spawn("asker", &script(&steps));
    // What it asks without naming the tool, nobody but a person can settle.
    if stage.kind == RealAgent::Defect {
        let ask = stage.ask(&actor).await;
        stage.approve(&ask).await;
    }
    let id = stage.question(&actor).await;
    assert!(actor.runs(" mcp --socket "), "{:?}", actor.processes());
    stage.ok(&["answer", &id, "port 7000"]);
    stage.turn_ended(&actor, 1).await;
    stage.hears(&actor, "assistant", "port 7000").await;
    if stage.kind != RealAgent::Defect {
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
