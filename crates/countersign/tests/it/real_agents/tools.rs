//! The host's own tools: every agent is given them, and may call them without being asked about.

use serde_json::{Value, json};

use super::stage::Stage;
use super::told::{host_tool, script};

/// It asks whoever gave it its task, gets the answer, and nobody was asked for permission.
pub(super) async fn asks_upwards(mut stage: Stage) {
    let tool = host_tool(stage.kind, "ask_orchestrator");
    let question = json!({ "question": "Which port?" });
    let steps = json!([{ "tool": tool, "input": question }]);
    let actor = stage.spawn("asker", &script(&steps));
    let id = stage.question(&actor).await;
    assert!(actor.runs(" mcp --socket "), "{:?}", actor.processes());
    stage.ok(&["answer", &id, "port 7000"]);
    stage.turn_ended(&actor, 1).await;
    stage.hears(&actor, "assistant", "port 7000").await;
    assert_eq!(stage.asks_waited_for(&actor).await, Vec::<Value>::new());
    stage.end(&actor).await;
}

pub(super) async fn explore(mut stage: Stage) {
    let steps = json!([{ "tool": "nope", "input": {} }]);
    let actor = stage.spawn("asker", &script(&steps));
    stage.turn_ended(&actor, 1).await;
    let story = stage.story(&actor).await;
    std::fs::write(
        format!("/tmp/explore-{:?}.json", stage.kind),
        serde_json::to_string_pretty(&story).unwrap(),
    )
    .unwrap();
    stage.end(&actor).await;
}
