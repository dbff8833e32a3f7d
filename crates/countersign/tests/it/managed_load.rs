//! Many agents at once, and a loud one: nothing is lost, nothing is answered twice, and nobody waits
//! for what another says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::host::{Host, poll};
use crate::wire::Wire;

const AGENTS: usize = 20;
const ASKS: u64 = 60;
const LEDGER: &str = "ledger";
/// More than anybody asks in a test.
const ALWAYS: u64 = 1_000_000;
const UPDATES: u64 = 50_000;
/// Rows are few if each holds at least so many updates.
const UPDATES_PER_ROW: usize = 50;

/// A host whose rules allow one command, an operator, and a folder for agents.
async fn begin() -> (Host, Wire, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let rules = "allow = [\"Bash(git status:*)\"]\ndeny = [\"Bash(git push:*)\"]\n";
    std::fs::write(home.path().join("rules.toml"), rules).unwrap();
    let host = Host::start_in(home, &[]);
    let wire = Wire::operator(&host).await;
    (host, wire, tempfile::tempdir().unwrap())
}

/// Starts an agent in a folder of its own, with something to do.
async fn spawn(wire: &mut Wire, folder: &Path, name: &str, steps: &Value) -> Value {
    let folder = folder.join(name);
    std::fs::create_dir(&folder).unwrap();
    let params = json!({
        "name": name, "cwd": folder, "prompt": format!("<script>{steps}</script>"),
        "command": [env!("CARGO_BIN_EXE_countersign"), "demo", "agent"],
    });
    wire.ok("host.spawn_agent", params).await["id"].take()
}

fn asks(command: &str, count: u64, at_once: u64) -> Value {
    json!({ "ask_many": {
        "command": command, "count": count, "at_once": at_once, "ledger": LEDGER,
    } })
}

async fn rest(wire: &mut Wire, agent: &Value) {
    // Each call is short, so that one that hangs is found at once.
    for _ in 0..10 {
        let params = json!({ "agent_id": agent, "timeout_ms": 20_000 });
        let found = wire.ok("host.wait_agents", params).await;
        if found["reached"] == true {
            assert_eq!(found["agents"][0]["state"], "idle", "{found}");
            return;
        }
    }
    panic!("{agent} does not come to rest");
}

/// How often each answer was given to each ask, as the agent saw it, and answers nobody waited for.
fn ledger(folder: &Path) -> (BTreeMap<String, u64>, Option<u64>) {
    let text = std::fs::read_to_string(folder.join(LEDGER)).unwrap_or_default();
    let (mut answers, mut unasked) = (BTreeMap::new(), None);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["unasked", count] => unasked = Some(count.parse().unwrap()),
            [number, answer, ..] => *answers.entry(format!("{number} {answer}")).or_default() += 1,
            _ => panic!("a line `{line}`"),
        }
    }
    (answers, unasked)
}

/// Every event of these kinds, oldest first.
async fn events(wire: &mut Wire, kinds: &str) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), json!(0));
    loop {
        let params = json!({ "after": after, "limit": 1000, "kinds": kinds });
        let page = wire.ok("host.events", params).await;
        let Some(last) = page.as_array().unwrap().last() else {
            return found;
        };
        after = last["sequence"].clone();
        found.extend(page.as_array().unwrap().iter().cloned());
    }
}

#[tokio::test]
async fn twenty_agents_lose_no_ask_and_get_no_answer_twice() {
    let (_host, mut wire, folder) = begin().await;
    let steps = json!([asks("git status {n}", ASKS, 3), asks("git push {n}", 10, 1)]);
    let mut agents = Vec::new();
    for index in 0..AGENTS {
        let name = format!("agent-{index}");
        agents.push(spawn(&mut wire, folder.path(), &name, &steps).await);
    }
    for agent in &agents {
        rest(&mut wire, agent).await;
    }
    let allowed = (0..ASKS).map(|number| (format!("{number} allow"), 1));
    let denied = (0..10).map(|number| (format!("{number} deny"), 1));
    let expected = (allowed.chain(denied).collect(), Some(0));
    for index in 0..AGENTS {
        let folder = folder.path().join(format!("agent-{index}"));
        assert_eq!(ledger(&folder), expected, "agent-{index}");
    }
    let all = AGENTS * (usize::try_from(ASKS).unwrap() + 10);
    for (kind, name) in [
        ("approval.resolved", "id"),
        ("answer.attempted", "approval"),
    ] {
        let found = events(&mut wire, kind).await;
        let ids: BTreeSet<String> = found
            .iter()
            .map(|event| event["payload"][name].to_string())
            .collect();
        assert_eq!((ids.len(), found.len()), (all, all), "{kind}");
    }
}

/// What an agent said, in one piece, with the place in the log of each row of it.
async fn said(wire: &mut Wire, agent: &Value) -> (String, Vec<u64>) {
    let (mut said, mut rows, mut after) = (String::new(), Vec::new(), Value::Null);
    loop {
        let params = json!({ "agent_id": agent, "after": after, "limit": 100 });
        let page = wire.ok("host.transcript", params).await;
        for part in page["parts"].as_array().unwrap() {
            let entries = part["entries"].as_array().unwrap().iter();
            let text = entries.filter(|entry| entry["type"] == "assistant");
            let text: String = text.map(|entry| entry["text"].as_str().unwrap()).collect();
            if !text.is_empty() {
                said.push_str(&text);
                rows.push(part["sequence"].as_u64().unwrap());
            }
        }
        if page["more"] == false {
            return (said, rows);
        }
        after = page["next"].clone();
    }
}

#[tokio::test]
async fn a_flood_is_stored_whole_in_few_rows_and_holds_up_nobody() {
    let (_host, mut wire, folder) = begin().await;
    let steps = json!([asks("git status {n}", ALWAYS, 1)]);
    let mut askers = Vec::new();
    for name in ["ann", "bea", "cleo"] {
        askers.push(spawn(&mut wire, folder.path(), name, &steps).await);
        let folder = folder.path().join(name);
        poll("the first answer", || {
            (!ledger(&folder).0.is_empty()).then_some(())
        });
    }
    let flood = json!([{ "updates": { "count": UPDATES, "bytes": 20 } }]);
    let loud = spawn(&mut wire, folder.path(), "loud", &flood).await;
    rest(&mut wire, &loud).await;
    for asker in &askers {
        let params = json!({ "agent_id": asker });
        wire.ok("host.interrupt_agent", params).await;
        rest(&mut wire, asker).await;
    }
    let (said, rows) = said(&mut wire, &loud).await;
    let text = "x".repeat(20);
    let lines = (0..UPDATES).map(|number| format!("{number} {text}\n"));
    assert!(said == lines.collect::<String>(), "{} bytes", said.len());
    let updates = usize::try_from(UPDATES).unwrap();
    assert!(rows.len() * UPDATES_PER_ROW < updates, "{}", rows.len());

    let during = rows[0]..rows[rows.len() - 1];
    let resolved = events(&mut wire, "approval.resolved").await;
    for asker in &askers {
        let meanwhile = resolved.iter().filter(|event| {
            let at = event["sequence"].as_u64().unwrap();
            event["agent_id"] == *asker && during.contains(&at)
        });
        assert!(meanwhile.count() > 0, "{asker}");
    }
}
