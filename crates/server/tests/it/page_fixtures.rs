//! Recorded events for the tests of the web page, kept true: what its state becomes by events must be what a snapshot
//! says.
//!
//! `COUNTERSIGN_BLESS=1 cargo test -p countersign-server --test it page_fixtures` writes the file anew.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use crate::golden::check_golden;
use crate::host::Host;
use crate::wire::Wire;

/// One reader of events, and what it was sent step by step.
struct Recorder<'a> {
    host: &'a Host,
    reader: Wire,
    operator: Wire,
    steps: Vec<Value>,
}

impl Recorder<'_> {
    async fn act(&mut self, what: &str, method: &str, params: Value) -> Value {
        let result = self.operator.ok(method, params).await;
        self.record(what).await;
        result
    }

    /// The events since the step before, and the snapshot after them.
    async fn record(&mut self, what: &str) {
        let mut snapshot = snapshot(self.host).await;
        let shown = snapshot["events"].as_array().unwrap();
        let last = shown.iter().map(|event| event["sequence"].as_u64()).max();
        let mut events: Vec<Value> = Vec::new();
        while events.last().map(|event| event["sequence"].as_u64()) != last {
            events.push(self.reader.event().await);
        }
        keep_notes(&mut snapshot);
        self.steps
            .push(json!({ "what": what, "events": events, "snapshot": snapshot }));
    }
}

async fn snapshot(host: &Host) -> Value {
    let mut wire = Wire::operator(host).await;
    wire.ok("host.subscribe", json!({ "brief": true })).await
}

/// Of the newest events of a snapshot the page takes the notes alone.
fn keep_notes(snapshot: &mut Value) {
    let events = snapshot["events"].as_array_mut().unwrap();
    events.retain(|event| event["kind"] == "agent.parent_notified");
}

fn ask(agent: &str, tool: &str, input: &Value) -> Value {
    json!({
        "action": format!("Use {tool}"), "agent_id": agent, "tool": tool, "input": input,
        "cwd": "/p", "system_level": true,
    })
}

async fn tell_story(recorder: &mut Recorder<'_>) {
    for agent in ["fix", "docs"] {
        let params = json!({ "id": agent, "name": agent, "kind": "coder", "project": "/p" });
        recorder
            .act("an agent registers", "host.register_agent", params)
            .await;
    }
    let tests = ask("fix", "Bash", &json!({ "command": "cargo test" }));
    let tests = recorder
        .act("a command is asked", "host.request_approval", tests)
        .await;
    let content = "a line of text\n".repeat(400);
    let write = json!({ "content": content, "file_path": "/p/long.txt" });
    let write = ask("docs", "Write", &write);
    let write = recorder
        .act("a large file is asked", "host.request_approval", write)
        .await;
    let params = json!({ "question": "Which title?", "agent_id": "docs" });
    let question = recorder
        .act("a question is asked", "host.ask_question", params)
        .await;
    let params = json!({
        "approval_id": tests["id"], "resolution": "approve", "remember": true, "considered_ms": 2_000,
    });
    recorder
        .act(
            "the command is allowed and remembered",
            "host.resolve_approval",
            params,
        )
        .await;
    let command = json!({ "command": "cargo test" });
    for (agent, what) in [
        ("docs", "the same of another agent is asked"),
        ("fix", "the same is allowed by the grant"),
    ] {
        let again = ask(agent, "Bash", &command);
        recorder.act(what, "host.request_approval", again).await;
    }
    let params = json!({
        "approval_id": write["id"], "resolution": "deny", "message": "not this file",
    });
    recorder
        .act(
            "the file is denied with a message",
            "host.resolve_approval",
            params,
        )
        .await;
    let params = json!({
        "question_id": question["id"], "answer": "The second", "considered_ms": 500,
    });
    recorder
        .act("the question is answered", "host.answer_question", params)
        .await;
    tell_of_many(recorder).await;
    let params = json!({ "agent_id": "fix", "status": "running", "current_task": "tests" });
    recorder
        .act("an agent says what it does", "host.set_status", params)
        .await;
    let fetch = ask("fix", "WebFetch", &json!({ "url": "https://example.org" }));
    let fetch = recorder
        .act("a page is asked", "host.request_approval", fetch)
        .await;
    let params = json!({ "approval_id": fetch["id"], "message": "no longer needed" });
    recorder
        .act("the ask is withdrawn", "host.cancel_approval", params)
        .await;
    recorder
        .act(
            "an agent leaves",
            "host.unregister_agent",
            json!({ "agent_id": "docs" }),
        )
        .await;
}

/// Several answers at once, a bypass, and a question that nobody needs answered any more.
async fn tell_of_many(recorder: &mut Recorder<'_>) {
    let mut answers = Vec::new();
    for (host, resolution) in [("a", "approve"), ("b", "deny")] {
        let url = json!({ "url": format!("https://{host}.example") });
        let fetch = ask("fix", "WebFetch", &url);
        let row = recorder
            .act("a page is asked", "host.request_approval", fetch)
            .await;
        answers.push(json!({ "approval_id": row["id"], "resolution": resolution }));
    }
    recorder
        .act(
            "two asks are answered together",
            "host.resolve_approvals",
            json!({ "answers": answers }),
        )
        .await;
    for (what, for_ms) in [
        ("a bypass begins", json!(60_000)),
        ("the bypass ends", Value::Null),
    ] {
        let params = json!({ "agent_id": "fix", "for_ms": for_ms });
        recorder.act(what, "host.set_bypass", params).await;
    }
    let params = json!({ "question": "Which font?", "agent_id": "docs" });
    recorder
        .act("another question is asked", "host.ask_question", params)
        .await;
}

#[tokio::test]
async fn the_pages_recorded_events_are_true() {
    let host = Host::start();
    let mut reader = Wire::operator(&host).await;
    let mut start = reader.ok("host.subscribe", json!({ "brief": true })).await;
    keep_notes(&mut start);
    let operator = Wire::operator(&host).await;
    let mut recorder = Recorder {
        host: &host,
        reader,
        operator,
        steps: Vec::new(),
    };
    tell_story(&mut recorder).await;
    let recorded = json!({ "start": start, "steps": recorder.steps });
    let recorded = Normaliser::default().normalise(recorded);
    let text = serde_json::to_string_pretty(&recorded).unwrap();
    check_golden("web/test/fixtures/story.json", &format!("{text}\n"));
}

/// Gives everything that differs from run to run the same value in each.
#[derive(Default)]
struct Normaliser {
    ids: HashMap<String, String>,
}

impl Normaliser {
    fn normalise(&mut self, value: Value) -> Value {
        match value {
            Value::Object(members) => Value::Object(self.normalise_members(members)),
            Value::Array(items) => items.into_iter().map(|item| self.normalise(item)).collect(),
            Value::String(text) if is_time(&text) => json!("2026-01-01T00:00:00.000000Z"),
            Value::String(text) => Value::String(self.normalise_text(&text)),
            other => other,
        }
    }

    fn normalise_members(&mut self, members: Map<String, Value>) -> Map<String, Value> {
        // Sorted, because the order of members depends on features of `serde_json` that other crates choose.
        let sorted: BTreeMap<String, Value> = members.into_iter().collect();
        let members = sorted.into_iter().map(|(key, value)| {
            let value = match key.as_str() {
                "pid" => json!(1),
                "version" => json!("0.0.0"),
                _ => self.normalise(value),
            };
            (key, value)
        });
        members.collect()
    }

    fn normalise_text(&mut self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let mut shown = String::new();
        for piece in text.split_inclusive(|c| !is_part(c)) {
            let word = piece.trim_end_matches(|c| !is_part(c));
            shown.push_str(&self.normalise_word(word));
            shown.push_str(&piece[word.len()..]);
        }
        shown
    }

    /// An id that was made by chance, numbered in the order in which it was first seen. Those of events are made from
    /// their number.
    fn normalise_word(&mut self, word: &str) -> String {
        // Connections have no kind in front.
        let (kind, digits) = word.rsplit_once('-').unwrap_or(("client", word));
        let is_random = digits.len() == 12 && digits.chars().all(|c| c.is_ascii_hexdigit());
        if !is_random || kind == "event" {
            return word.to_owned();
        }
        let next = self.ids.len() + 1;
        let id = self.ids.entry(word.to_owned());
        id.or_insert_with(|| format!("{kind}-{next:012}")).clone()
    }
}

/// `2026-01-01T00:00:00.000000Z`
fn is_time(text: &str) -> bool {
    text.len() == 27 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
}
