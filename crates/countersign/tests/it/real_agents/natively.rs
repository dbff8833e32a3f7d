//! Claude Code by its own stream: what other agents cannot be told.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::stage::{Stage, WAIT};
use super::stories::{ended, ending};
use super::told;

async fn set() -> Option<Stage> {
    Stage::set(RealAgent::ClaudeCode).await
}

/// Everything it said, in one piece.
async fn words_of(stage: &mut Stage, actor: &Actor) -> String {
    let story = stage.story(actor).await;
    let spoken = story.iter().filter(|entry| entry["type"] == "assistant");
    spoken
        .map(|entry| entry["text"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn an_edited_input_is_what_runs() {
    let Some(mut stage) = set().await else { return };
    let [_, work] = stage.folders_of("ann");
    let write = json!({ "write": { "path": work.join("made"), "content": "as asked" } });
    let actor = stage.spawn("ann", &told::script(&json!([write])));
    let ask = stage.ask(&actor).await;
    let asked = json!({ "file_path": work.join("made"), "content": "as asked" });
    assert_eq!((&ask["tool"], &ask["input"]), (&json!("Write"), &asked));
    let id = ask["id"].as_str().unwrap();
    let edited = json!({ "file_path": work.join("made"), "content": "as edited" });
    for wrong in ["7", "[]"] {
        let refused = stage.run(&["approve", id, "--edit-input", wrong]);
        assert!(!refused.status.success(), "{refused:?}");
    }
    stage.ok(&["approve", id, "--edit-input", &edited.to_string()]);
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    assert_eq!(actor.lines_of("made"), ["as edited"]);
    let row = stage.settled(&ask).await;
    assert_eq!((&row["input"], &row["edited_input"]), (&asked, &edited));
    stage.end(&actor).await;
}

#[tokio::test]
async fn a_denial_can_end_the_turn() {
    for kind in [RealAgent::ClaudeCode, RealAgent::Claude] {
        if let Some(stage) = Stage::set(kind).await {
            denied_for_good(stage).await;
        }
    }
}

async fn denied_for_good(mut stage: Stage) {
    let both = json!([{ "shell": told::command("one") }, { "shell": told::command("two") }]);
    let actor = stage.spawn("ann", &told::script(&both));
    let ask = stage.ask(&actor).await;
    stage.ok(&[
        "deny",
        ask["id"].as_str().unwrap(),
        "--stop",
        "-m",
        "Stop here.",
    ]);
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "cancelled", "{end}");
    let told = ended("denied", "operator", "delivered");
    assert_eq!(ending(&mut stage, &ask).await, told);
    // The turn is over and nothing begins another.
    let row = stage.row(&actor).await;
    assert_eq!(
        (&row["state"], &row["managed"]["queued"]),
        (&json!("idle"), &json!(0))
    );
    let next = told::script(&json!([{ "say": "Still here." }]));
    stage.ok(&["send", "ann", &next]);
    let end = stage.turn_ended(&actor, 2).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    assert_eq!(stage.asks_of(&actor).await.len(), 1);
    assert!(!actor.has("one") && !actor.has("two"));
    stage.end(&actor).await;
}

#[tokio::test]
async fn its_mode_and_model_can_be_changed_between_turns() {
    let Some(mut stage) = set().await else { return };
    let say = |words: &str| told::script(&json!([{ "say": words }]));
    let actor = stage.spawn_with("ann", &say("One. "), &["--model", "opus"]);
    stage.turn_ended(&actor, 1).await;
    let row = stage.row(&actor).await;
    let before = row["managed"]["model"].as_str().unwrap().to_owned();
    assert!(before.contains("opus"), "{row}");
    let params = json!({ "agent_id": actor.id, "mode": "plan", "model": "sonnet" });
    stage.wire.ok("host.configure_agent", params).await;
    stage.ok(&["send", "ann", &say("Two. ")]);
    stage.turn_ended(&actor, 2).await;
    let row = stage.row(&actor).await;
    let now = row["managed"]["model"].as_str().unwrap();
    assert!(now.contains("sonnet"), "{row}");
    assert_eq!(row["managed"]["mode"], "plan", "{row}");
    assert_eq!(
        words_of(&mut stage, &actor).await.matches("Two. ").count(),
        1
    );
    stage.end(&actor).await;
}

/// It comes in many pieces and once more as a whole.
#[tokio::test]
async fn long_words_are_told_once() {
    let Some(mut stage) = set().await else { return };
    let long: Vec<String> = (0..400)
        .map(|number: u32| format!("word{number}"))
        .collect();
    let long = long.join(" ");
    let actor = stage.spawn("ann", &told::script(&json!([{ "say": long }])));
    stage.turn_ended(&actor, 1).await;
    let words = words_of(&mut stage, &actor).await;
    assert_eq!(words, format!("{long}The script is over."));
    stage.end(&actor).await;
}

#[tokio::test]
async fn it_goes_on_with_its_session_after_the_host_was_restarted() {
    let Some(mut stage) = set().await else { return };
    let actor = stage.spawn("ann", &told::makes("made"));
    let ask = stage.ask(&actor).await;
    stage.approve(&ask).await;
    stage.turn_ended(&actor, 1).await;
    let session = stage.row(&actor).await["managed"]["session"].clone();
    stage.end(&actor).await;
    stage.restart_host().await;
    stage.ok(&["resume", "ann"]);
    stage.ok(&["wait", "ann", "--timeout", WAIT]);
    stage.ok(&[
        "send",
        "ann",
        &told::script(&json!([{ "say": "Back again." }])),
    ]);
    stage.turn_ended(&actor, 2).await;
    stage.hears(&actor, "assistant", "Back again.").await;
    assert_eq!(stage.row(&actor).await["managed"]["session"], session);
    assert!(knows(&stage, "Back again.", &told::command("made")));
    stage.end(&actor).await;
}

/// Whether the newest request to the model with some words had others as well.
fn knows(stage: &Stage, newest: &str, others: &str) -> bool {
    let received = stage.model.received();
    let has = |texts: &[String], words: &str| texts.iter().any(|text| text.contains(words));
    let last = received.iter().rev().find(|texts| has(texts, newest));
    last.is_some_and(|texts| has(texts, others))
}

/// A session in which nothing was said is kept by nobody, and begins anew.
#[tokio::test]
async fn one_that_was_told_nothing_can_be_started_again() {
    let Some(mut stage) = set().await else { return };
    let actor = stage.spawn_idle("ann");
    stage.ok(&["wait", "ann", "--timeout", WAIT]);
    stage.end(&actor).await;
    stage.ok(&["resume", "ann"]);
    stage.ok(&[
        "send",
        "ann",
        &told::script(&json!([{ "say": "Back again." }])),
    ]);
    stage.turn_ended(&actor, 1).await;
    stage.hears(&actor, "assistant", "Back again.").await;
    stage.end(&actor).await;
}

#[tokio::test]
async fn a_session_that_is_gone_is_said_in_words() {
    let Some(mut stage) = set().await else { return };
    let actor = stage.spawn("ann", &told::script(&json!([{ "say": "One." }])));
    stage.turn_ended(&actor, 1).await;
    stage.ok(&["wait", "ann", "--timeout", WAIT]);
    stage.end(&actor).await;
    std::fs::remove_dir_all(actor.home.join(".claude/projects")).unwrap();
    stage.ok(&["resume", "ann"]);
    let fits = |event: &Value| event["kind"] == "agent.exited" && event["payload"]["run"] == 2;
    let exited = stage.event(fits).await["payload"].take();
    assert_eq!(exited["end"], "failed", "{exited}");
    let words = exited["message"].as_str().unwrap();
    assert!(words.contains("could not resume the session"), "{words}");
    assert!(words.contains("No conversation found"), "{words}");
}

/// A second agent knows what the first was told, and from there on each goes its own way.
#[tokio::test]
async fn a_fork_goes_on_from_where_the_other_stands() {
    let Some(mut stage) = set().await else { return };
    let say = |words: &str| told::script(&json!([{ "say": words }]));
    let ann = stage.spawn("ann", &told::makes("made"));
    let ask = stage.ask(&ann).await;
    stage.approve(&ask).await;
    stage.turn_ended(&ann, 1).await;
    let fork = ["fork", "ann", "--json", "--name", "bob"];
    let row = stage.ok(&[&fork[..], &[&say("Forked.")]].concat());
    let row: Value = serde_json::from_str(&row).unwrap();
    let bob = Actor {
        id: row["id"].as_str().unwrap().to_owned(),
        name: "bob".to_owned(),
        work: ann.work.clone(),
        home: ann.home.clone(),
    };
    stage.turn_ended(&bob, 1).await;
    assert!(knows(&stage, "Forked.", &told::command("made")));
    let first = stage.row(&ann).await["managed"]["session"].clone();
    let second = stage.row(&bob).await["managed"]["session"].clone();
    assert_ne!(first, second);
    stage.ok(&["send", "ann", &say("Still ann.")]);
    stage.turn_ended(&ann, 2).await;
    assert!(!knows(&stage, "Still ann.", "Forked."));
    stage.ok(&["kill", "bob"]);
    stage.ok(&["wait", "bob", "--timeout", WAIT]);
    stage.ok(&["send", "bob", &say("Bob again.")]);
    stage.turn_ended(&bob, 2).await;
    assert!(knows(&stage, "Bob again.", "Forked."));
    assert!(!knows(&stage, "Bob again.", "Still ann."));
    assert_eq!(stage.row(&bob).await["managed"]["session"], second);
    stage.ok(&["kill", "bob"]);
    stage.ok(&["wait", "bob", "--timeout", WAIT]);
    stage.end(&ann).await;
}

#[tokio::test]
async fn an_agent_without_a_session_to_begin_from_is_not_forked() {
    for (kind, why) in [
        (
            RealAgent::Example,
            "only agents that run as Claude Code natively can be forked",
        ),
        (RealAgent::ClaudeCode, "nothing was said to it yet"),
    ] {
        let Some(mut stage) = Stage::set(kind).await else {
            continue;
        };
        let actor = stage.spawn_idle("ann");
        stage.ok(&["wait", "ann", "--timeout", WAIT]);
        let refused = stage.run(&["fork", "ann"]);
        assert!(!refused.status.success(), "{refused:?}");
        let words = String::from_utf8(refused.stderr).unwrap();
        assert!(words.contains(why), "{words}");
        stage.end(&actor).await;
    }
}
