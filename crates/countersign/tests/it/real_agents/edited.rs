//! Agents that others wrote in an editor: `countersign acp` in front of them.

use countersign_testkit::real::RealAgent;
use serde_json::json;

use super::stage::Stage;
use super::told;
use crate::editor::client::Editor;
use crate::host::command;

/// An allow, a denial and the sessions' list through an editor.
async fn plays_in_an_editor(kind: RealAgent) {
    let Some(mut stage) = Stage::set(kind).await else {
        return;
    };
    let [home, work] = stage.folders_of("ann");
    let recipe = kind.prepare(&home, stage.model.port).unwrap();
    let variables = recipe.env.iter();
    let variables = variables.map(|(name, value)| format!("'{name}={value}'"));
    let words = recipe.command.iter().map(|word| format!("'{word}'"));
    let line: Vec<String> = variables.chain(words).collect();
    let mut program = command(stage.host.home());
    program.args(["acp", "--command", &format!("env {}", line.join(" "))]);
    let mut editor = Editor::launch(program);
    editor.initialize(&json!({}));
    let opened = editor.ok("session/new", &json!({ "cwd": work, "mcpServers": [] }));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let prompt = editor.prompt_text(&session, &told::makes("made"));
    let request = editor.asked("session/request_permission");
    assert!(!work.join("made").exists());
    editor.choose(&request, "allow-once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(work.join("made").exists(), told::follows_scripts(kind));
    let prompt = editor.prompt_text(&session, &told::makes("refused"));
    let request = editor.asked("session/request_permission");
    editor.choose(&request, "deny");
    // Some agents end their turn with a denial, and some go on.
    let reason = editor.stop_reason(prompt);
    assert!(
        ["end_turn", "cancelled"].contains(&reason.as_str()),
        "{reason}"
    );
    assert!(!work.join("refused").exists());
    let listed = editor.ok("session/list", &json!({ "cwd": work }));
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str());
    drop(editor);
    let params = json!({ "agent_id": session, "children": "keep" });
    stage.wire.ok("host.kill_agent", params).await;
    let params = json!({ "agent_id": session, "until": "ended", "timeout_ms": 30_000 });
    let ended = stage.wire.ok("host.wait_agents", params).await;
    assert_eq!(ended["reached"], true, "{ended}");
}

macro_rules! played_by {
    ($($test:ident: $agent:ident;)+) => {$(
        #[tokio::test]
        async fn $test() {
            plays_in_an_editor(RealAgent::$agent).await;
        }
    )+};
}

played_by! {
    the_example_plays_in_an_editor: Example;
    claude_plays_in_an_editor: Claude;
    codex_plays_in_an_editor: Codex;
    gemini_plays_in_an_editor: Gemini;
    opencode_plays_in_an_editor: Opencode;
    defect_plays_in_an_editor: Defect;
}
