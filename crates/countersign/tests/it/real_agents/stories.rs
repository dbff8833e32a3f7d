//! The stories that are told of every agent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::stage::{Stage, WAIT, strike};
use super::told;
use crate::host::poll;

/// The ask is what was to be asked, and the agent waits for it.
async fn check_ask(stage: &mut Stage, actor: &Actor, ask: &Value, file: &str) {
    if told::follows_scripts(stage.kind) {
        let asked = (&ask["tool"], &ask["input"]["command"]);
        assert_eq!(
            asked,
            (&json!("Bash"), &json!(told::command(file))),
            "{ask}"
        );
    } else {
        let path = ask["input"]["path"]
            .as_str()
            .or(ask["input"]["file_path"].as_str());
        assert_eq!(path, Some("/home/user/project/config.json"), "{ask}");
    }
    assert_eq!(ask["options"], json!(["approve", "deny"]));
    let row = stage.row(actor).await;
    let open = (&row["state"], &row["open_approvals"]);
    assert_eq!(open, (&json!("awaiting_permission"), &json!(1)), "{row}");
    stage
        .hears(actor, "assistant", told::first_words(stage.kind))
        .await;
}

/// What the record has of an ask: how it ended, and what became of the answer.
pub(super) async fn ending(stage: &mut Stage, ask: &Value) -> (String, String, String) {
    let row = stage.settled(ask).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&row["state"]),
        text(&row["resolved_by"]["role"]),
        text(&row["delivery"]),
    )
}

pub(super) fn ended(state: &str, role: &str, delivery: &str) -> (String, String, String) {
    (state.to_owned(), role.to_owned(), delivery.to_owned())
}

/// What an agent used, by the names of what is known.
async fn used(stage: &mut Stage, actor: &Actor) -> Vec<String> {
    let row = stage.row(actor).await;
    let usage = row["managed"]["usage"].as_object().unwrap();
    let known = usage.iter().filter(|(_, value)| value.as_u64() > Some(0));
    known.map(|(name, _)| name.clone()).collect()
}

pub(super) use super::tools::asks_upwards;

pub(super) async fn allowed(mut stage: Stage) {
    let actor = stage.spawn("ann", &told::makes("made"));
    let ask = stage.ask(&actor).await;
    check_ask(&mut stage, &actor, &ask, "made").await;
    assert!(!actor.has("made"));
    let ask = stage.approve(&ask).await;
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    stage.ok(&["wait", "ann", "--timeout", WAIT]);
    assert_eq!(actor.has("made"), told::follows_scripts(stage.kind));
    let words = told::words_when_allowed(stage.kind);
    stage.hears(&actor, "assistant", words).await;
    let told = ended("allowed", "operator", "delivered");
    assert_eq!(ending(&mut stage, &ask).await, told);
    assert_eq!(stage.asks_of(&actor).await.len(), 1);
    assert_eq!(used(&mut stage, &actor).await, told::accounts(stage.kind));
    stage.end(&actor).await;
}

pub(super) async fn denied_with_words(mut stage: Stage) {
    let actor = stage.spawn("ann", &told::makes("made"));
    let ask = stage.ask(&actor).await;
    let words = "Call it something else.";
    let ask = stage.deny(&ask, &["-m", words]).await;
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], told::stop_when_denied(stage.kind), "{end}");
    if told::takes_denial_message(stage.kind) {
        stage.hears(&actor, "tool_result", words).await;
        assert!(stage.model_received(words));
    } else {
        // Where the protocol has no place for them in an answer, they come as the next message.
        stage.hears(&actor, "user", words).await;
    }
    if told::takes_denial_message(stage.kind) {
        stage.ok(&["wait", "ann", "--timeout", WAIT]);
    } else if told::follows_scripts(stage.kind) {
        stage.turn_ended(&actor, 2).await;
        stage.ok(&["wait", "ann", "--timeout", WAIT]);
        assert!(stage.model_received(words));
    } else {
        // It tells its one story again.
        let again = stage.ask(&actor).await;
        stage.approve(&again).await;
        stage.turn_ended(&actor, 2).await;
    }
    assert!(!actor.has("made"));
    let row = stage.approval(&ask).await;
    assert_eq!(row["message"], words);
    let told = ended("denied", "operator", "delivered");
    assert_eq!(ending(&mut stage, &ask).await, told);
    stage.end(&actor).await;
}

pub(super) async fn interrupted(mut stage: Stage) {
    let actor = stage.spawn("ann", &told::makes("made"));
    let ask = stage.ask(&actor).await;
    stage.ok(&["interrupt", "ann", "--reason", "wrong folder"]);
    let end = stage.turn_ended(&actor, 1).await;
    let reason = told::stop_when_asked_and_interrupted(stage.kind);
    assert_eq!(end["reason"], reason, "{end}");
    let row = stage.approval(&ask).await;
    let why = (&row["state"], &row["message"]);
    let expected = (&json!("cancelled"), &json!("its turn was interrupted"));
    assert_eq!(why, expected, "{row}");
    if told::follows_scripts(stage.kind) {
        interrupted_while_running(&mut stage, &actor).await;
    }
    assert!(!actor.has("made"));
    stage.end(&actor).await;
}

async fn interrupted_while_running(stage: &mut Stage, actor: &Actor) {
    stage.ok(&["send", "ann", &told::runs_on("begun")]);
    let ask = stage.ask(actor).await;
    stage.approve(&ask).await;
    poll("the command to begin", || actor.has("begun").then_some(()));
    stage.ok(&["interrupt", "ann"]);
    let end = stage.turn_ended(actor, 2).await;
    assert_eq!(end["reason"], "cancelled", "{end}");
    if told::ends_what_it_ran(stage.kind) {
        let gone = || (!actor.runs("tail -f")).then_some(());
        poll("the command to end", gone);
    }
    stage.ok(&[
        "send",
        "ann",
        &told::script(&json!([{ "say": "Still here." }])),
    ]);
    let end = stage.turn_ended(actor, 3).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    stage.hears(actor, "assistant", "Still here.").await;
}

/// An agent that was told something and has asked for more, as whoever strikes it finds it.
async fn asks_again(stage: &mut Stage) -> (Actor, Value) {
    let actor = stage.spawn("ann", &told::makes("made"));
    let first = stage.ask(&actor).await;
    stage.approve(&first).await;
    stage.turn_ended(&actor, 1).await;
    stage.ok(&["send", "ann", &told::makes("more")]);
    let ask = stage.ask(&actor).await;
    (actor, ask)
}

pub(super) async fn struck(mut stage: Stage) {
    let (actor, ask) = asks_again(&mut stage).await;
    let runner = stage.runner(&actor).await;
    strike(actor.child_of(runner));
    let how = "its process was ended by SIGKILL in the middle of a turn";
    failed(&mut stage, &actor, &ask, how).await;
    goes_on(&mut stage, &actor, "send").await;
    assert!(!actor.has("more"));
    stage.end(&actor).await;
}

pub(super) async fn runner_struck(mut stage: Stage) {
    let (actor, ask) = asks_again(&mut stage).await;
    strike(stage.runner(&actor).await);
    failed(&mut stage, &actor, &ask, "its runner ended").await;
    goes_on(&mut stage, &actor, "send").await;
    assert!(!actor.has("more"));
    stage.end(&actor).await;
}

/// The run is over and says how; nothing of it is left, and its ask is over with it.
async fn failed(stage: &mut Stage, actor: &Actor, ask: &Value, how: &str) {
    let exited = stage.next(actor, "agent.exited").await;
    assert_eq!(exited["end"], "failed", "{exited}");
    let message = exited["message"].as_str().unwrap();
    assert!(message.contains(how), "{message}");
    assert_eq!(actor.processes(), Vec::<String>::new());
    let row = stage.approval(ask).await;
    let end = (&row["state"], &row["message"], &row["delivery"]);
    assert_eq!(
        end,
        (&json!("cancelled"), &exited["message"], &json!("withdrawn"))
    );
}

pub(super) async fn host_and_runner_struck(mut stage: Stage) {
    let (actor, ask) = asks_again(&mut stage).await;
    let runner = stage.runner(&actor).await;
    stage.host.kill();
    strike(runner);
    stage.host.start_again();
    stage.listen_again().await;
    // The next host is ready: nothing of the agent is left.
    assert_eq!(actor.processes(), Vec::<String>::new());
    let row = stage.row(&actor).await;
    let state = (&row["state"], &row["open_approvals"]);
    assert_eq!(state, (&json!("stopped"), &json!(0)), "{row}");
    let row = stage.approval(&ask).await;
    assert_eq!(row["state"], "cancelled", "{row}");
    let message = row["message"].as_str().unwrap();
    assert!(message.contains("the host that ran it ended"), "{row}");
    goes_on(&mut stage, &actor, "resume").await;
    assert!(!actor.has("more"));
    stage.end(&actor).await;
}

/// The agent is brought back by a message or by name, does what it is told, and knows what was
/// said before. One that cannot says so.
async fn goes_on(stage: &mut Stage, actor: &Actor, how: &str) {
    let next = told::script(&json!([{ "say": "Back again." }]));
    if !told::can_resume(stage.kind) {
        for words in [&["send", "ann", &next] as &[&str], &["resume", "ann"]] {
            let refused = stage.run(words);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success(), "{refused:?}");
            assert!(said.contains("cannot"), "{said}");
        }
        return;
    }
    if stage.kind == RealAgent::Gemini {
        next_minute().await;
    }
    let before = totals(stage, actor).await;
    if how == "resume" {
        stage.ok(&["resume", "ann"]);
        stage.ok(&["wait", "ann", "--timeout", WAIT]);
    }
    stage.ok(&["send", "ann", &next]);
    stage.hears(actor, "assistant", "Back again.").await;
    stage.ok(&["wait", "ann", "--timeout", WAIT]);
    let after = totals(stage, actor).await;
    let grows = before
        .iter()
        .zip(&after)
        .all(|(before, after)| before < after);
    assert!(
        grows && before.len() == after.len(),
        "{before:?}, {after:?}"
    );
    let received = stage.model.received();
    let last = received
        .iter()
        .rev()
        .find(|texts| texts.iter().any(|text| text.contains("Back again.")));
    let knows = |text: &String| text.contains(&told::command("made"));
    assert!(
        last.is_some_and(|texts| texts.iter().any(knows)),
        "{last:?}"
    );
}

/// Gemini CLI names what it stores after the minute, and loads no session in the minute in which the
/// session began.
async fn next_minute() {
    let minute = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_secs() / 60
    };
    let begin = minute();
    while minute() == begin {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What an agent used over all its runs, as far as it says so.
async fn totals(stage: &mut Stage, actor: &Actor) -> Vec<u64> {
    let row = stage.row(actor).await;
    let names = ["cost_micro_usd", "tokens_in", "tokens_out"];
    let known = names
        .iter()
        .map(|name| row["managed"]["usage"][name].as_u64());
    known.flatten().collect()
}

pub(super) async fn two_at_once(mut stage: Stage) {
    match stage.kind {
        RealAgent::Claude | RealAgent::ClaudeCode => two_reads(&mut stage).await,
        RealAgent::Codex => two_commands(&mut stage).await,
        // Not from one agent, because these have one ask open at a time: the example has one story,
        // Gemini CLI 0.61.0 runs the calls of a message one after the other (`await this.runTool` in a
        // loop), and opencode 1.18.33 queues the permission requests of a session. Of defect it is not
        // known that it ever sends two.
        RealAgent::Example | RealAgent::Defect | RealAgent::Gemini | RealAgent::Opencode => {
            two_agents(&mut stage).await;
        }
    }
}

async fn two_reads(stage: &mut Stage) {
    let outside = stage.outside();
    let read = |name: &str| {
        std::fs::write(outside.join(name), format!("text of {name}")).unwrap();
        json!({ "read": { "path": outside.join(name) } })
    };
    let both = json!([{ "parallel": [read("one"), read("two")] }]);
    let actor = stage.spawn("ann", &told::script(&both));
    let asks = [stage.ask(&actor).await, stage.ask(&actor).await];
    let paths = asks.each_ref().map(|ask| ask["input"]["file_path"].clone());
    let expected = ["one", "two"].map(|name| json!(outside.join(name)));
    assert_eq!(paths, expected);
    assert_eq!(stage.row(&actor).await["open_approvals"], 2);
    stage.approve(&asks[1]).await;
    stage.deny(&asks[0], &[]).await;
    stage.turn_ended(&actor, 1).await;
    assert!(stage.model_received("text of two"));
    assert!(!stage.model_received("text of one"));
    stage.end(&actor).await;
}

async fn two_commands(stage: &mut Stage) {
    let both = json!([{ "parallel": [{ "shell": told::command("one") }, { "shell": told::command("two") }] }]);
    let actor = stage.spawn("ann", &told::script(&both));
    let asks = [stage.ask(&actor).await, stage.ask(&actor).await];
    assert_eq!(stage.row(&actor).await["open_approvals"], 2);
    // The later one is answered first.
    stage.approve(&asks[1]).await;
    stage.approve(&asks[0]).await;
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    assert_eq!(["one", "two"].map(|name| actor.has(name)), [true, true]);
    one_of_two_denied(stage, &actor).await;
    stage.end(&actor).await;
}

/// Codex ends the turn then, and says nothing of the other ask.
async fn one_of_two_denied(stage: &mut Stage, actor: &Actor) {
    let [three, four] = ["three", "four"].map(|name| json!({ "shell": told::command(name) }));
    let both = json!([{ "parallel": [three, four] }]);
    stage.ok(&["send", "ann", &told::script(&both)]);
    let asks = [stage.ask(actor).await, stage.ask(actor).await];
    stage.deny(&asks[0], &[]).await;
    stage.turn_ended(actor, 2).await;
    let row = stage.approval(&asks[1]).await;
    let end = (&row["state"], &row["message"]);
    let expected = (&json!("cancelled"), &json!("the agent withdrew it"));
    assert_eq!(end, expected);
    assert_eq!(
        ["three", "four"].map(|name| actor.has(name)),
        [false, false]
    );
}

async fn two_agents(stage: &mut Stage) {
    let actors = ["ann", "bob"].map(|name| stage.spawn(name, &told::makes("made")));
    let asks = [stage.ask(&actors[0]).await, stage.ask(&actors[1]).await];
    let inbox: Value = serde_json::from_str(&stage.ok(&["inbox", "--json"])).unwrap();
    assert_eq!(
        inbox["approvals"].as_array().map(Vec::len),
        Some(2),
        "{inbox}"
    );
    stage.approve(&asks[1]).await;
    stage.deny(&asks[0], &[]).await;
    for actor in &actors {
        stage.turn_ended(actor, 1).await;
    }
    let made = actors.each_ref().map(|actor| actor.has("made"));
    assert_eq!(made, [false, told::follows_scripts(stage.kind)]);
    for actor in &actors {
        stage.end(actor).await;
    }
}
