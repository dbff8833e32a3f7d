//! Claude has a gate of its own. Nothing that opens it opens ours, by whichever protocol it is run.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::stage::Stage;
use super::told;

/// Spawn's own list of tools leaves the gate as it is: a tool that is named there still asks.
async fn a_tool_that_it_may_use_is_still_asked_about(kind: RealAgent) {
    let Some(mut stage) = Stage::set(kind).await else {
        return;
    };
    let tools = ["--allow-tool", "Bash", "--disallow-tool", "Read"];
    let steps = json!([{ "shell": told::command("made") }]);
    let actor = stage.spawn_with("ann", &told::script(&steps), &tools);
    let ask = stage.ask(&actor).await;
    assert_eq!(ask["tool"], "Bash", "{ask}");
    stage.deny(&ask, &[]).await;
    stage.turn_ended(&actor, 1).await;
    assert!(!actor.has("made"));
    let write = json!([{ "write": { "path": actor.file("made"), "content": "x" } }]);
    stage.ok(&["send", "ann", &told::script(&write)]);
    stage.hears(&actor, "assistant", "no tool fits Write").await;
    assert_eq!(stage.asks_of(&actor).await.len(), 1);
    stage.end(&actor).await;
}

/// What it would read and run without a word is asked about like the rest, so that a deny holds.
async fn what_it_finds_harmless_is_asked_about(kind: RealAgent) {
    let rules = "allow = [\"Bash(ls)\"]\ndeny = [\"Read(./secret)\"]\n";
    let Some(mut stage) = Stage::set_with(kind, rules).await else {
        return;
    };
    let [_, work] = stage.folders_of("ann");
    std::fs::write(work.join("secret"), "hidden text").unwrap();
    let read = json!({ "read": { "path": work.join("secret") } });
    let steps = json!([read, { "shell": "cat secret" }, { "shell": "ls" }]);
    let actor = stage.spawn("ann", &told::script(&steps));
    stage.turn_ended(&actor, 1).await;
    let asks = stage.asks_of(&actor).await;
    let ends = asks.iter().map(|ask| (&ask["tool"], &ask["state"]));
    let ends: Vec<(&Value, &Value)> = ends.collect();
    let [read, bash, denied, allowed] =
        ["Read", "Bash", "denied", "allowed"].map(|word| json!(word));
    let expected = [(&read, &denied), (&bash, &denied), (&bash, &allowed)];
    assert_eq!(ends, expected);
    assert!(!stage.model_received("hidden text"));
    stage.end(&actor).await;
}

/// Neither a person's settings, nor a repository's, nor a mode let it act without us.
async fn its_settings_and_modes_do_not_let_it_act_unasked(kind: RealAgent) {
    let Some(mut stage) = Stage::set(kind).await else {
        return;
    };
    let allow = json!({ "permissions": {
        "allow": ["Bash", "Bash(touch:*)", "Write", "Edit", "Read"], "defaultMode": "acceptEdits",
    } });
    for folder in stage.folders_of("ann") {
        let folder = folder.join(".claude");
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["settings.json", "settings.local.json"] {
            std::fs::write(folder.join(name), allow.to_string()).unwrap();
        }
    }
    let [_, work] = stage.folders_of("ann");
    let write = json!({ "write": { "path": work.join("made"), "content": "x" } });
    let steps = json!([{ "shell": told::command("made") }, write]);
    let actor = stage.spawn_with("ann", &told::script(&steps), &["--mode", "acceptEdits"]);
    for tool in ["Bash", "Write"] {
        let ask = stage.ask(&actor).await;
        assert_eq!(ask["tool"], tool, "{ask}");
        stage.deny(&ask, &[]).await;
    }
    stage.turn_ended(&actor, 1).await;
    assert!(!actor.has("made"));
    stage.end(&actor).await;
}

/// A repository's hook cannot answer for a person, neither before it asks nor while it does.
async fn a_repositorys_hook_does_not_let_it_act_unasked(kind: RealAgent) {
    let Some(mut stage) = Stage::set(kind).await else {
        return;
    };
    let [_, work] = stage.folders_of("ann");
    let hook = |says: &Value| {
        let says = json!({ "hookSpecificOutput": says });
        let hook = format!("touch {}/hooked; echo '{says}'", work.display());
        json!([{ "matcher": "", "hooks": [{ "type": "command", "command": hook }] }])
    };
    let before = json!({ "hookEventName": "PreToolUse", "permissionDecision": "allow" });
    let asked =
        json!({ "hookEventName": "PermissionRequest", "decision": { "behavior": "allow" } });
    let settings = json!({ "hooks": {
        "PreToolUse": hook(&before), "PermissionRequest": hook(&asked),
    } });
    std::fs::create_dir_all(work.join(".claude")).unwrap();
    std::fs::write(work.join(".claude/settings.json"), settings.to_string()).unwrap();
    let actor = stage.spawn("ann", &told::makes("made"));
    let ask = stage.ask(&actor).await;
    stage.deny(&ask, &[]).await;
    stage.turn_ended(&actor, 1).await;
    assert!(!actor.has("made"));
    assert!(!actor.has("hooked"));
    stage.end(&actor).await;
}

macro_rules! gated {
    ($($module:ident $agent:ident;)+) => {
        $(
            mod $module {
                use countersign_testkit::real::RealAgent;

                gated!(@ $agent
                    a_tool_that_it_may_use_is_still_asked_about
                    what_it_finds_harmless_is_asked_about
                    its_settings_and_modes_do_not_let_it_act_unasked
                    a_repositorys_hook_does_not_let_it_act_unasked
                );
            }
        )+
    };
    (@ $agent:ident $($story:ident)+) => {
        $(
            #[tokio::test]
            async fn $story() {
                super::$story(RealAgent::$agent).await;
            }
        )+
    };
}

gated! { claude_acp Claude; claude ClaudeCode; }
