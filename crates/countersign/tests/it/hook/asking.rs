//! One tool call is one ask, whichever of its hooks comes, and an answer counts for that call alone.

use serde_json::{Value, json};

use super::session::Session;
use super::{at_prompt, before_prompt, before_tool, decision};
use crate::host::Host;
use crate::wire::Wire;

struct Scene {
    host: Host,
    wire: Wire,
    session: Session,
}

impl Scene {
    async fn set(config: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let rules = "allow = [\"Bash(ls)\"]\ndeny = [\"Bash(rm:*)\"]\n";
        std::fs::write(home.path().join("rules.toml"), rules).unwrap();
        write_config(home.path(), config);
        let host = Host::start_in(home, &[]);
        Self {
            wire: Wire::operator(&host).await,
            session: Session::start(host.home()),
            host,
        }
    }

    /// What hooks that run from now on read.
    fn configure(&self, config: &str) {
        write_config(self.host.home(), config);
    }

    /// All asks, oldest first: state and message.
    async fn asks(&mut self) -> Vec<Value> {
        let rows = self
            .wire
            .ok("host.approvals", json!({ "limit": 100 }))
            .await;
        let mut rows: Vec<Value> = serde_json::from_value(rows).unwrap();
        rows.reverse();
        rows
    }

    async fn states(&mut self) -> Vec<String> {
        let asks = self.asks().await;
        let state = |ask: &Value| ask["state"].as_str().unwrap().to_owned();
        asks.iter().map(state).collect()
    }

    /// The one ask that is open, when it is.
    async fn open(&mut self) -> Value {
        let begin = std::time::Instant::now();
        loop {
            let asks = self.asks().await;
            let mut open: Vec<Value> = asks
                .into_iter()
                .filter(|ask| ask["state"] == "pending")
                .collect();
            match open.len() {
                0 => assert!(begin.elapsed() < crate::host::PATIENCE, "nothing was asked"),
                1 => return open.remove(0),
                _ => panic!("more than one ask is open: {open:?}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    async fn resolve(&mut self, ask: &Value, answer: Value) {
        let mut params = answer;
        params["approval_id"] = ask["id"].clone();
        self.wire.ok("host.resolve_approval", params).await;
    }

    async fn approve(&mut self, ask: &Value) {
        self.resolve(ask, json!({ "resolution": "approve" })).await;
    }

    async fn ended(&mut self, ask: &Value) -> Value {
        let params = json!({ "approval_id": ask["id"], "timeout_ms": 30_000 });
        self.wire.ok("host.wait_approval", params).await
    }
}

fn write_config(home: &std::path::Path, config: &str) {
    let config = format!("[hook]\n{config}\n");
    std::fs::write(home.join("config.toml"), config).unwrap();
}

#[tokio::test]
async fn rules_allow_nothing_once_the_record_is_lost() {
    let mut scene = Scene::set("").await;
    let (word, reason) = decision(&scene.session.said(&before_tool("s1", "t1", "ls")));
    assert_eq!(word, "allow", "{reason}");
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("countersign.db{suffix}");
        std::fs::remove_file(scene.host.home().join(name)).unwrap();
    }
    let said = scene.session.said(&before_tool("s1", "t2", "ls"));
    assert_ne!(decision(&said).0, "allow", "{said}");
    let said = scene.session.said(&before_tool("s2", "t3", "ls"));
    assert_ne!(decision(&said).0, "allow", "{said}");
}

#[tokio::test]
async fn rules_answer_at_once() {
    let mut scene = Scene::set("").await;
    let (word, reason) = decision(&scene.session.said(&before_tool("s1", "t1", "ls")));
    assert_eq!(word, "allow", "{reason}");
    let (word, reason) = decision(&scene.session.said(&before_tool("s1", "t2", "rm x")));
    assert_eq!(word, "deny");
    assert!(reason.contains("rm"), "{reason}");
    let asks = scene.asks().await;
    let told = [
        "state",
        "turn",
        "tool_call_id",
        "cwd",
        "tool",
        "delivery",
        "deliveries",
    ];
    let told = |ask: &Value| told.map(|name| ask[name].clone());
    let expected = [
        [
            json!("allowed"),
            json!("s1"),
            json!("t1"),
            json!("/tmp"),
            json!("Bash"),
            json!("delivered"),
            json!(1),
        ],
        [
            json!("denied"),
            json!("s1"),
            json!("t2"),
            json!("/tmp"),
            json!("Bash"),
            json!("delivered"),
            json!(1),
        ],
    ];
    assert_eq!(asks.iter().map(told).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_person_answers_with_words_and_with_another_input() {
    let mut scene = Scene::set("").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    let ask = scene.open().await;
    assert_eq!(ask["input"], json!({ "command": "make" }));
    scene.approve(&ask).await;
    assert_eq!(decision(&hook.said()).0, "allow");

    let hook = scene.session.hook(&before_tool("s1", "t2", "make"));
    let ask = scene.open().await;
    let no = json!({ "resolution": "deny", "message": "not on a Friday" });
    scene.resolve(&ask, no).await;
    let (word, reason) = decision(&hook.said());
    assert_eq!(word, "deny");
    assert!(reason.contains("not on a Friday"), "{reason}");

    let hook = scene.session.hook(&before_tool("s1", "t3", "make"));
    let ask = scene.open().await;
    let edited = json!({ "resolution": "approve", "edited_input": { "command": "make -n" } });
    scene.resolve(&ask, edited).await;
    let said: Value = serde_json::from_str(&hook.said()).unwrap();
    let output = &said["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "allow");
    assert_eq!(output["updatedInput"], json!({ "command": "make -n" }));
    // Its settings make Claude Code ask at the terminal all the same: about what will run.
    let said = scene.session.said(&before_prompt("s1", "make -n"));
    assert_eq!(at_prompt(&said)["behavior"], "allow");
    assert_eq!(scene.states().await, ["allowed", "denied", "allowed"]);
}

#[tokio::test]
async fn an_answer_counts_for_its_own_call_and_for_no_other() {
    let mut scene = Scene::set("").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    let ask = scene.open().await;
    scene.approve(&ask).await;
    assert_eq!(decision(&hook.said()).0, "allow");
    // The prompt of the same call needs no second answer; the prompt of another does.
    let said = scene.session.said(&before_prompt("s1", "make"));
    assert_eq!(at_prompt(&said), json!({ "behavior": "allow" }));
    let second = scene.session.hook(&before_prompt("s1", "make"));
    let ask = scene.open().await;
    scene.resolve(&ask, json!({ "resolution": "deny" })).await;
    assert_eq!(at_prompt(&second.said())["behavior"], "deny");
    // The same command again, the same id even: another call is another ask.
    for call in ["t2", "t2"] {
        let hook = scene.session.hook(&before_tool("s1", call, "make"));
        let ask = scene.open().await;
        scene.resolve(&ask, json!({ "resolution": "deny" })).await;
        assert_eq!(decision(&hook.said()).0, "deny");
    }
    let other = scene.session.hook(&before_prompt("s1", "make install"));
    let ask = scene.open().await;
    scene.approve(&ask).await;
    assert_eq!(at_prompt(&other.said())["behavior"], "allow");
    let expected = ["allowed", "denied", "denied", "denied", "allowed"];
    assert_eq!(scene.states().await, expected);
}

#[tokio::test]
async fn when_nobody_answers_it_is_a_no_and_the_ask_is_over() {
    let mut scene = Scene::set("limit_seconds = 3").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    let ask = scene.open().await;
    let (word, reason) = decision(&hook.said());
    assert_eq!(word, "deny");
    // The host says it, or the hook itself if the host is too slow.
    assert!(reason.contains("in time"), "{reason}");
    let row = scene.ended(&ask).await;
    assert_ne!(row["state"], "allowed");
    let late = json!({ "approval_id": ask["id"], "resolution": "approve" });
    let error = scene.wire.no("host.resolve_approval", late).await;
    assert_eq!(error["data"]["reason"], "already_resolved");
}

#[tokio::test]
async fn left_to_the_terminal_the_same_ask_goes_on_with_its_prompt() {
    let mut scene = Scene::set("limit_seconds = 2\non_timeout = \"ask\"").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    let ask = scene.open().await;
    assert_eq!(decision(&hook.said()).0, "ask");
    // The prompt waits for a person, who needs more time here than the hook above had.
    scene.configure("limit_seconds = 60\non_timeout = \"ask\"");
    let prompt = scene.session.hook(&before_prompt("s1", "make"));
    assert_eq!(scene.open().await["id"], ask["id"]);
    scene.approve(&ask).await;
    assert_eq!(at_prompt(&prompt.said()), json!({ "behavior": "allow" }));
    assert_eq!(scene.states().await, ["allowed"]);
}

/// A hook that runs out of time before the host does says so by itself and leaves. The prompt that
/// follows is about the same ask, so an answer to it is not lost.
#[tokio::test]
async fn a_hook_that_left_without_the_hosts_answer_leaves_its_ask_to_the_prompt() {
    let mut scene = Scene::set("on_timeout = \"ask\"").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    let ask = scene.open().await;
    hook.kill();
    scene.session.said(&before_tool("s1", "t0", "ls"));
    let prompt = scene.session.hook(&before_prompt("s1", "make"));
    scene.approve(&ask).await;
    assert_eq!(at_prompt(&prompt.said()), json!({ "behavior": "allow" }));
    assert_eq!(scene.states().await, ["allowed", "allowed"]);
}

/// Settings of a person and of a project may both have the hook. The first of them to give up gives up
/// the call.
#[tokio::test]
async fn two_hooks_for_one_event_wait_for_one_answer() {
    let mut scene = Scene::set("").await;
    let one = scene.session.hook(&before_tool("s1", "t1", "make"));
    scene.open().await;
    let event = before_tool("s1", "t1", "make");
    let two = scene.session.hook_within(&event, 4);
    assert_eq!(decision(&two.said()).0, "deny");
    assert_eq!(decision(&one.said()).0, "deny");
    assert_eq!(scene.states().await, ["cancelled"]);
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_taken_back() {
    let mut scene = Scene::set("").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    let ask = scene.open().await;
    hook.kill();
    let row = scene.ended(&ask).await;
    assert_eq!(row["state"], "cancelled");
    assert_eq!(row["message"], "the session no longer waits for an answer");
}

#[tokio::test]
async fn a_host_that_is_killed_is_followed_by_the_next_with_the_same_ask() {
    let mut scene = Scene::set("").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    let ask = scene.open().await;
    scene.host.restart();
    scene.wire = Wire::operator(&scene.host).await;
    assert_eq!(scene.open().await["id"], ask["id"]);
    scene.approve(&ask).await;
    assert_eq!(decision(&hook.said()).0, "allow");
    assert_eq!(scene.states().await, ["allowed"]);
}

#[tokio::test]
async fn a_host_that_is_replaced_keeps_the_ask_of_a_prompt_too() {
    let mut scene = Scene::set("").await;
    let hook = scene.session.hook(&before_prompt("s1", "make"));
    let ask = scene.open().await;
    scene.host.replace();
    scene.wire = Wire::operator(&scene.host).await;
    assert_eq!(scene.open().await["id"], ask["id"]);
    let no = json!({ "resolution": "deny", "message": "later" });
    scene.resolve(&ask, no).await;
    let said = at_prompt(&hook.said());
    assert_eq!(said["behavior"], "deny");
    assert!(
        said["message"].as_str().unwrap().contains("later"),
        "{said}"
    );
    assert_eq!(scene.states().await, ["denied"]);
}

#[tokio::test]
async fn stopping_everything_answers_a_hook_with_no() {
    let mut scene = Scene::set("").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    scene.open().await;
    scene.wire.ok("host.stop_all", json!({})).await;
    assert_eq!(decision(&hook.said()).0, "deny");
}

#[tokio::test]
async fn too_large_an_input_is_left_to_the_terminal() {
    let mut scene = Scene::set("").await;
    let large = "x".repeat(3 * 1024 * 1024);
    let (word, reason) = decision(&scene.session.said(&before_tool("s1", "t1", &large)));
    assert_eq!(word, "ask");
    assert!(reason.contains("input"), "{reason}");
    let asks = scene.asks().await;
    assert_eq!(asks, Vec::<Value>::new());
}

/// A rule that is made while a hook waits answers it.
#[tokio::test]
async fn a_new_rule_answers_a_hook_that_waits() {
    let mut scene = Scene::set("").await;
    let hook = scene.session.hook(&before_tool("s1", "t1", "make"));
    scene.open().await;
    let rule = json!({ "rule": "Bash(make)", "effect": "allow" });
    scene.wire.ok("host.add_rule", rule).await;
    assert_eq!(decision(&hook.said()).0, "allow");
}

#[tokio::test]
async fn a_question_to_people_stays_in_the_terminal_and_is_seen_to_wait() {
    let mut scene = Scene::set("").await;
    let question = json!({ "question": "Which one?", "options": [{ "label": "a" }] });
    let input = json!({ "questions": [question] });
    let mut call = before_tool("s1", "t1", "");
    call["tool_name"] = json!("AskUserQuestion");
    call["tool_input"] = input;
    let (word, reason) = decision(&scene.session.said(&call));
    assert_eq!(word, "ask", "{reason}");
    assert_eq!(scene.asks().await, Vec::<Value>::new());
    let agents = scene.wire.ok("host.agents", json!({})).await;
    let shown = (&agents[0]["state"], &agents[0]["current_task"]);
    let expected = (
        json!("paused"),
        json!("waits for your answer in its terminal"),
    );
    assert_eq!(shown, (&expected.0, &expected.1), "{agents}");
    // The next call of the session says that somebody answered.
    let call = before_tool("s1", "t2", "ls");
    assert_eq!(decision(&scene.session.said(&call)).0, "allow");
    let agents = scene.wire.ok("host.agents", json!({})).await;
    let shown = (&agents[0]["state"], &agents[0]["current_task"]);
    assert_eq!(shown, (&json!("running"), &Value::Null), "{agents}");
}
