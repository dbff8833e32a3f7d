//! The host is killed or replaced while an agent asks, is answered or works, and the next host goes on:
//! whatever was asked is still asked, and whatever was allowed runs exactly once.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::alike;
use super::stage::{Stage, WAIT};
use super::stories::{ended, ending};
use super::told;
use crate::host::poll;

/// The inbox has these asks and no others, under the ids they had.
pub(super) fn are_open(stage: &Stage, asks: &[&Value]) {
    let inbox: Value = serde_json::from_str(&stage.ok(&["inbox", "--json"])).unwrap();
    let mut open: Vec<&Value> = inbox["approvals"].as_array().unwrap().iter().collect();
    open.sort_by_key(|row| row["sequence"].as_u64());
    let open: Vec<&Value> = open.iter().map(|row| &row["id"]).collect();
    let asked: Vec<&Value> = asks.iter().map(|ask| &ask["id"]).collect();
    assert_eq!(open, asked, "{inbox}");
}

/// An agent has asked, the host was killed, and another one is there.
async fn asked_and_killed(stage: &mut Stage) -> (Actor, Value) {
    let actor = stage.spawn("ann", &told::adds());
    let ask = stage.ask(&actor).await;
    let runner = stage.runner(&actor).await;
    let process = actor.child_of(runner);
    stage.restart_host().await;
    are_open(stage, &[&ask]);
    let row = stage.row(&actor).await;
    let open = (&row["state"], &row["open_approvals"]);
    assert_eq!(open, (&json!("awaiting_permission"), &json!(1)), "{row}");
    assert_eq!(actor.child_of(runner), process);
    (actor, ask)
}

/// The allowed command ran once, the agent went on to the end, and nothing was told twice.
pub(super) async fn ran_once(stage: &mut Stage, actor: &Actor, ask: &Value) {
    let end = stage.turn_ended(actor, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    assert_eq!(actor.lines_of("ran"), ["ran"]);
    let told = ended("allowed", "operator", "delivered");
    assert_eq!(ending(stage, ask).await, told);
    assert_eq!(stage.asks_of(actor).await.len(), 1);
    // Defect says its last words when its turn is over.
    let last = told::words_when_allowed(stage.kind);
    stage.hears(actor, "assistant", last).await;
    let story = stage.story(actor).await;
    let spoken = story.iter().filter(|entry| entry["type"] == "assistant");
    let spoken: Vec<&str> = spoken
        .map(|entry| entry["text"].as_str().unwrap())
        .collect();
    let first = told::first_words(stage.kind);
    let told = spoken.concat();
    let times = [first, last].map(|words| told.matches(words).count());
    assert_eq!((spoken[0], times), (first, [1, 1]), "{spoken:?}");
}

async fn an_ask_is_approved_at_the_next_host(mut stage: Stage) {
    let (actor, ask) = asked_and_killed(&mut stage).await;
    assert!(!actor.has("ran"));
    let ask = stage.approve(&ask).await;
    ran_once(&mut stage, &actor, &ask).await;
    stage.end(&actor).await;
}

async fn an_ask_is_denied_at_the_next_host(mut stage: Stage) {
    let (actor, ask) = asked_and_killed(&mut stage).await;
    let words = "Call it something else.";
    let ask = stage.deny(&ask, &["-m", words]).await;
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], told::stop_when_denied(stage.kind), "{end}");
    if !told::takes_denial_message(stage.kind) {
        stage.turn_ended(&actor, 2).await;
    }
    stage.ok(&["wait", "ann", "--timeout", WAIT]);
    assert!(stage.model_received(words));
    assert!(!actor.has("ran"));
    let told = ended("denied", "operator", "delivered");
    assert_eq!(ending(&mut stage, &ask).await, told);
    stage.end(&actor).await;
}

async fn a_turn_is_interrupted_at_the_next_host(mut stage: Stage) {
    let (actor, ask) = asked_and_killed(&mut stage).await;
    stage.ok(&["interrupt", "ann", "--reason", "wrong folder"]);
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "cancelled", "{end}");
    let row = stage.approval(&ask).await;
    let why = (&row["state"], &row["message"]);
    let expected = (&json!("cancelled"), &json!("its turn was interrupted"));
    assert_eq!(why, expected, "{row}");
    let next = told::script(&json!([{ "say": "Still here." }]));
    stage.ok(&["send", "ann", &next]);
    let end = stage.turn_ended(&actor, 2).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    stage.hears(&actor, "assistant", "Still here.").await;
    assert!(!actor.has("ran"));
    stage.end(&actor).await;
}

async fn two_asks_are_answered_at_the_next_host(mut stage: Stage) {
    match stage.kind {
        RealAgent::Claude | RealAgent::ClaudeCode => two_reads(&mut stage).await,
        RealAgent::Codex => two_commands(&mut stage).await,
        _ => two_agents(&mut stage).await,
    }
}

/// Claude asks for two things at once only if both are reads.
async fn two_reads(stage: &mut Stage) {
    let outside = stage.outside();
    let read = |name: &str| {
        std::fs::write(outside.join(name), format!("text of {name}")).unwrap();
        json!({ "read": { "path": outside.join(name) } })
    };
    let both = json!([{ "parallel": [read("one"), read("two")] }]);
    let actor = stage.spawn("ann", &told::script(&both));
    let asks = [stage.ask(&actor).await, stage.ask(&actor).await];
    stage.restart_host().await;
    are_open(stage, &[&asks[0], &asks[1]]);
    stage.approve(&asks[1]).await;
    stage.deny(&asks[0], &[]).await;
    stage.turn_ended(&actor, 1).await;
    assert!(stage.model_received("text of two"));
    assert!(!stage.model_received("text of one"));
    stage.end(&actor).await;
}

async fn two_commands(stage: &mut Stage) {
    let adds = |word: &str| json!({ "shell": format!("echo {word} >> {word}") });
    let both = json!([{ "parallel": [adds("one"), adds("two")] }]);
    let actor = stage.spawn("ann", &told::script(&both));
    let asks = [stage.ask(&actor).await, stage.ask(&actor).await];
    stage.restart_host().await;
    are_open(stage, &[&asks[0], &asks[1]]);
    // The later one is answered first.
    stage.approve(&asks[1]).await;
    stage.approve(&asks[0]).await;
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    assert_eq!(
        ["one", "two"].map(|name| actor.lines_of(name)),
        [["one"], ["two"]]
    );
    stage.end(&actor).await;
}

async fn two_agents(stage: &mut Stage) {
    let actors = ["ann", "bob"].map(|name| stage.spawn(name, &told::adds()));
    let asks = [stage.ask(&actors[0]).await, stage.ask(&actors[1]).await];
    stage.restart_host().await;
    let mut order = [&asks[0], &asks[1]];
    order.sort_by_key(|ask| ask["sequence"].as_u64());
    are_open(stage, &order);
    let allowed = stage.approve(&asks[1]).await;
    stage.deny(&asks[0], &[]).await;
    ran_once(stage, &actors[1], &allowed).await;
    stage.turn_ended(&actors[0], 1).await;
    assert!(!actors[0].has("ran"));
    for actor in &actors {
        stage.end(actor).await;
    }
}

/// How a command that runs loses its host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It is killed, and the command ends while there is none.
    Absent,
    /// Another takes over, and the command ends afterwards.
    Replaced,
}

async fn a_command_ends_without_a_host(stage: Stage) {
    a_command_runs_on(stage, Change::Absent).await;
}

async fn a_command_runs_on_while_the_host_is_replaced(stage: Stage) {
    a_command_runs_on(stage, Change::Replaced).await;
}

/// Two agents do the same, one of them under one host: what is told of them is the same.
async fn a_command_runs_on(mut stage: Stage, change: Change) {
    let bob = begins(&mut stage, "bob").await;
    go_on(&bob);
    stage.turn_ended(&bob, 1).await;
    let ann = begins(&mut stage, "ann").await;
    match change {
        Change::Absent => {
            let heard = results(&stage);
            stage.host.kill();
            go_on(&ann);
            poll("the command to end", || ann.has("over").then_some(()));
            if told::runs_commands_itself(stage.kind) {
                let hears = || (results(&stage) > heard).then_some(());
                poll("its model to hear", hears);
            }
            stage.host.start_again();
        }
        Change::Replaced => {
            stage.host.replace();
            go_on(&ann);
        }
    }
    stage.listen_again().await;
    let end = stage.turn_ended(&ann, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    let mut stories = Vec::new();
    for actor in [&ann, &bob] {
        let effects = ["ran", "over"].map(|name| actor.lines_of(name));
        assert_eq!(effects, [["ran"], ["over"]]);
        let last = told::words_when_allowed(stage.kind);
        stage.hears(actor, "assistant", last).await;
        stage.end(actor).await;
        stories.push(alike::story(&mut stage, actor).await);
    }
    assert_eq!(stories[0], stories[1]);
}

/// An agent whose command has begun, and waits.
async fn begins(stage: &mut Stage, name: &str) -> Actor {
    let actor = stage.spawn(name, &told::waits());
    let ask = stage.ask(&actor).await;
    stage.approve(&ask).await;
    poll("the command to begin", || actor.has("ran").then_some(()));
    actor
}

fn go_on(actor: &Actor) {
    std::fs::write(actor.file("go"), "").unwrap();
}

/// How often a model heard what the command printed last.
fn results(stage: &Stage) -> usize {
    let received = stage.model.received();
    let has = |texts: &&Vec<String>| texts.iter().any(|text| text.contains("199\n200"));
    received.iter().filter(has).count()
}

/// Whatever a command runs in is known to the next host, which can end it.
async fn a_running_command_is_interrupted_at_the_next_host(mut stage: Stage) {
    let actor = stage.spawn("ann", &told::runs_on("begun"));
    let ask = stage.ask(&actor).await;
    let ask = stage.approve(&ask).await;
    poll("the command to begin", || actor.has("begun").then_some(()));
    stage.restart_host().await;
    stage.ok(&["interrupt", "ann"]);
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "cancelled", "{end}");
    if told::ends_what_it_ran(stage.kind) {
        let gone = || (!actor.runs("tail -f")).then_some(());
        poll("the command to end", gone);
    }
    let told = ended("allowed", "operator", "delivered");
    assert_eq!(ending(&mut stage, &ask).await, told);
    stage.end(&actor).await;
}

macro_rules! outlived_by {
    ($($module:ident $agent:ident;)+) => {
        $(
            mod $module {
                use countersign_testkit::real::RealAgent;

                use super::Stage;

                outlived_by!(@ $agent
                    an_ask_is_approved_at_the_next_host
                    an_ask_is_denied_at_the_next_host
                    a_turn_is_interrupted_at_the_next_host
                    a_running_command_is_interrupted_at_the_next_host
                    two_asks_are_answered_at_the_next_host
                    a_command_ends_without_a_host
                    a_command_runs_on_while_the_host_is_replaced
                );
            }
        )+
    };
    (@ $agent:ident $($story:ident)+) => {
        $(
            #[tokio::test]
            async fn $story() {
                if let Some(stage) = Stage::set(RealAgent::$agent).await {
                    super::$story(stage).await;
                }
            }
        )+
    };
}

outlived_by! { claude_acp Claude; claude ClaudeCode; codex Codex; defect Defect; }

/// Agents of which fewer stories are told here: their commands do not tell how far they are.
macro_rules! asked_of {
    ($($module:ident $agent:ident;)+) => {
        $(
            mod $module {
                use countersign_testkit::real::RealAgent;

                use super::Stage;

                outlived_by!(@ $agent
                    an_ask_is_approved_at_the_next_host
                    an_ask_is_denied_at_the_next_host
                    a_turn_is_interrupted_at_the_next_host
                    two_asks_are_answered_at_the_next_host
                );
            }
        )+
    };
}

asked_of! { gemini Gemini; opencode Opencode; }
