//! Terminals and files that an agent leaves to the host. Defect is the one that does.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::stage::Stage;
use super::told;

/// What an agent asked for, and how each ended.
async fn asked(stage: &mut Stage, actor: &Actor) -> Vec<(Value, Value)> {
    let asks = stage.asks_of(actor).await;
    let pair = |ask: &Value| (ask["tool"].clone(), ask["state"].clone());
    asks.iter().map(pair).collect()
}

/// A command that was allowed runs in the host's terminal without a second ask, and what it printed
/// reaches the agent.
#[tokio::test]
async fn an_allowed_command_runs_in_the_hosts_terminal() {
    let Some(mut stage) = Stage::set(RealAgent::Defect).await else {
        return;
    };
    let command = "echo made in $PPID > made; printf 'from the %s' terminal; exit 3";
    let actor = stage.spawn("ann", &told::script(&json!([{ "shell": command }])));
    let ask = stage.ask(&actor).await;
    stage.approve(&ask).await;
    let pass = stage.next(&actor, "approval.pass_used").await;
    assert_eq!(pass["approval"], ask["id"], "{pass}");
    stage.turn_ended(&actor, 1).await;
    assert!(actor.has("made"));
    assert!(stage.model_received("from the terminal"));
    let expected = [(json!("Bash"), json!("allowed"))];
    assert_eq!(asked(&mut stage, &actor).await, expected);
    stage.end(&actor).await;
}

/// A file is written as it was allowed, without a second ask; reading one is an ask of its own.
#[tokio::test]
async fn files_are_written_as_allowed_and_read_once_allowed() {
    let Some(mut stage) = Stage::set(RealAgent::Defect).await else {
        return;
    };
    let write =
        |actor: &str, content: &str| json!({ "write": { "path": actor, "content": content } });
    let actor = stage.spawn(
        "ann",
        &told::script(&json!([write("note", "first\nsecond\n")])),
    );
    let ask = stage.ask(&actor).await;
    assert_eq!(ask["tool"], "Edit", "{ask}");
    stage.approve(&ask).await;
    let pass = stage.next(&actor, "approval.pass_used").await;
    assert_eq!(pass["approval"], ask["id"], "{pass}");
    stage.turn_ended(&actor, 1).await;
    let written = std::fs::read_to_string(actor.file("note")).unwrap();
    assert_eq!(written, "first\nsecond\n");
    let read = json!([{ "read": { "path": "note" } }]);
    stage.ok(&["send", "ann", &told::script(&read)]);
    let ask = stage.ask(&actor).await;
    let path = json!({ "file_path": actor.file("note") });
    assert_eq!((&ask["tool"], &ask["input"]), (&json!("Read"), &path));
    stage.approve(&ask).await;
    stage.turn_ended(&actor, 2).await;
    assert!(stage.model_received("second"));
    stage.end(&actor).await;
}

/// Rules settle files too.
#[tokio::test]
async fn rules_hold_for_files_that_the_host_serves() {
    let rules = "allow = [\"Read(./**)\", \"Edit(./**)\"]\ndeny = [\"Read(**/secret)\"]\n";
    let Some(mut stage) = Stage::set_with(RealAgent::Defect, rules).await else {
        return;
    };
    let steps = json!([
        { "write": { "path": "note", "content": "written" } },
        { "read": { "path": "note" } },
        { "shell": "true" },
    ]);
    let actor = stage.spawn("ann", &told::script(&steps));
    std::fs::write(actor.file("secret"), "hidden").unwrap();
    let ask = stage
        .event(|event| event["kind"] == "approval.requested" && event["payload"]["tool"] == "Bash")
        .await;
    stage.approve(&ask["payload"]).await;
    stage.turn_ended(&actor, 1).await;
    assert!(stage.model_received("written"));
    stage.ok(&[
        "send",
        "ann",
        &told::script(&json!([{ "read": { "path": "secret" } }])),
    ]);
    stage.turn_ended(&actor, 2).await;
    assert!(!stage.model_received("hidden"));
    let asks = stage.asks_of(&actor).await;
    let last = asks.last().unwrap();
    assert_eq!(
        (&last["tool"], &last["state"]),
        (&json!("Read"), &json!("denied"))
    );
    stage.end(&actor).await;
}
