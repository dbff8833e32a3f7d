//! Claude Code in sessions that the host did not start, with `request_permission` as the tool that it
//! asks for permission: over the bridge, and over HTTP with a bearer.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use countersign_testkit::model::ScriptedModel;
use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::claude_process::{self, ClaudeProcess};
use super::stage::is_there;
use super::told::{ADDS, host_tool, script};
use crate::host::Host;
use crate::wire::Wire;

struct Stage {
    host: Host,
    wire: Wire,
    model: ScriptedModel,
    scratch: TempDir,
}

impl Stage {
    async fn set(rules: &str) -> Option<Self> {
        if !is_there(RealAgent::ClaudeCode) {
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("rules.toml"), rules).unwrap();
        let host = Host::start_in(home, &[]);
        let stage = Self {
            wire: listen(&host, 0).await,
            host,
            model: ScriptedModel::start().unwrap(),
            scratch: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(stage.work()).unwrap();
        Some(stage)
    }

    fn work(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join("work")
    }

    fn has(&self, file: &str) -> bool {
        self.work().join(file).exists()
    }

    /// The server as an agent starts it, known by its process.
    fn bridge(&self) -> Value {
        let socket = self.host.socket();
        json!({ "command": env!("CARGO_BIN_EXE_countersign"), "args": ["mcp", "--socket", socket] })
    }

    /// The server as a client far away reaches it, known by its bearer.
    async fn by_bearer(&mut self) -> Value {
        let params = json!({ "role": "agent", "agent_id": "remote" });
        let made = self.wire.ok("host.create_token", params).await;
        let bearer = format!("Bearer {}", made["token"].as_str().unwrap());
        let url = format!("http://{}/mcp", self.host.address);
        json!({ "type": "http", "url": url, "headers": { "Authorization": bearer } })
    }

    /// Starts a session that follows these steps.
    fn claude(&self, server: &Value, more: &[&str], steps: &Value) -> ClaudeProcess {
        let home = self.scratch.path().join("home");
        let recipe = RealAgent::ClaudeCode
            .prepare(&home, self.model.port)
            .unwrap();
        let servers = json!({ "mcpServers": { "countersign": server } }).to_string();
        let asks = host_tool("request_permission");
        let out = self.scratch.path().join("out");
        let mut claude = Command::new(&recipe.command[0]);
        claude.args(&recipe.command[1..]).args(more);
        claude.args(["-p", "--permission-prompt-tool", &asks]);
        claude.args(["--strict-mcp-config", "--mcp-config", &servers, "--"]);
        claude.arg(script(steps)).env_clear().envs(recipe.env);
        ClaudeProcess::start(claude, &self.work(), out)
    }

    /// The next ask that waits for a person.
    async fn ask(&mut self) -> Value {
        self.wire.event_of("approval.requested").await["payload"].take()
    }

    async fn answer(&mut self, ask: &Value, mut answer: Value) -> Value {
        answer["approval_id"] = ask["id"].clone();
        self.wire.ok("host.resolve_approval", answer).await
    }

    async fn approve(&mut self, ask: &Value) -> Value {
        self.answer(ask, json!({ "resolution": "approve" })).await
    }

    fn model_received(&self, words: &str) -> bool {
        let received = self.model.received();
        received.iter().flatten().any(|text| text.contains(words))
    }
}

async fn listen(host: &Host, after: u64) -> Wire {
    let mut wire = Wire::operator(host).await;
    let params = json!({ "kinds": ["approval.requested"], "after": after });
    wire.ok("host.subscribe", params).await;
    wire
}

fn pair(command: &str, state: &str) -> (String, String) {
    (command.to_owned(), state.to_owned())
}

/// One command is allowed, one is denied, and one is changed: what was decided is what it does.
async fn is_allowed_denied_and_changed(stage: &mut Stage, server: &Value) -> Vec<Value> {
    let steps = json!([
        { "shell": "touch made" }, { "shell": "touch more" }, { "shell": "touch third" },
    ]);
    let mut claude = stage.claude(server, &[], &steps);
    let first = stage.ask().await;
    assert_eq!(
        (&first["tool"], &first["input"]["command"]),
        (&json!("Bash"), &json!("touch made")),
        "{first}"
    );
    assert!(!stage.has("made"));
    stage.approve(&first).await;
    let second = stage.ask().await;
    assert!(stage.has("made"));
    let no = json!({ "resolution": "deny", "message": "one file is enough" });
    stage.answer(&second, no).await;
    let third = stage.ask().await;
    let edited = json!({ "command": "touch other && echo edited" });
    let changed = json!({ "resolution": "approve", "edited_input": edited });
    stage.answer(&third, changed).await;
    let said = claude.ended();
    assert!(said.contains("edited"), "{said}");
    assert!(stage.model_received("one file is enough"));
    let files = ["made", "more", "third", "other"].map(|file| stage.has(file));
    assert_eq!(files, [true, false, false, true]);
    let expected = [
        pair("touch made", "allowed"),
        pair("touch more", "denied"),
        pair("touch third", "allowed"),
    ];
    assert_eq!(claude_process::asks(&mut stage.wire).await, expected);
    vec![first, second, third]
}

#[tokio::test]
async fn over_the_bridge_it_does_what_a_person_decided() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let server = stage.bridge();
    let asks = is_allowed_denied_and_changed(&mut stage, &server).await;
    let agents = claude_process::agents(&mut stage.wire).await;
    let ids: Vec<&Value> = agents.iter().map(|agent| &agent["id"]).collect();
    assert_eq!(ids, [&asks[0]["agent_id"]]);
    assert_eq!(agents[0]["kind"], "mcp-client", "{agents:?}");
}

#[tokio::test]
async fn over_http_it_does_what_a_person_decided() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let server = stage.by_bearer().await;
    for ask in is_allowed_denied_and_changed(&mut stage, &server).await {
        assert_eq!(ask["agent_id"], "remote", "{ask}");
    }
}

#[tokio::test]
async fn rules_decide_before_a_person_is_asked() {
    let rules = "allow = [\"Bash(touch made)\"]\ndeny = [\"Bash(touch more)\"]\n";
    let Some(mut stage) = Stage::set(rules).await else {
        return;
    };
    let steps = json!([{ "shell": "touch made" }, { "shell": "touch more" }]);
    let server = stage.bridge();
    stage.claude(&server, &[], &steps).ended();
    assert_eq!((stage.has("made"), stage.has("more")), (true, false));
    let expected = [pair("touch made", "allowed"), pair("touch more", "denied")];
    assert_eq!(claude_process::asks(&mut stage.wire).await, expected);
}

#[tokio::test]
async fn an_interrupt_takes_the_ask_back() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let server = stage.bridge();
    let mut claude = stage.claude(&server, &[], &json!([{ "shell": "touch made" }]));
    let ask = stage.ask().await;
    claude.interrupt();
    let wait = json!({ "approval_id": ask["id"], "timeout_ms": 30_000 });
    let row = stage.wire.ok("host.wait_approval", wait).await;
    let ended = (&row["state"], &row["message"]);
    let expected = (&json!("cancelled"), &json!("its asker stopped waiting"));
    assert_eq!(ended, expected, "{row}");
    claude.ended();
    assert!(!stage.has("made"));
}

#[tokio::test]
async fn an_ask_outlives_the_host_it_was_made_to() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let server = stage.bridge();
    let mut claude = stage.claude(&server, &[], &json!([{ "shell": ADDS }]));
    let ask = stage.ask().await;
    stage.host.restart();
    stage.wire = listen(&stage.host, ask["sequence"].as_u64().unwrap()).await;
    assert!(!stage.has("ran"));
    let row = stage.approve(&ask).await;
    assert_eq!(row["state"], "allowed", "{row}");
    claude.ended();
    let ran = fs::read_to_string(stage.work().join("ran")).unwrap();
    assert_eq!(ran, "ran\n");
    assert_eq!(
        claude_process::asks(&mut stage.wire).await,
        [pair(ADDS, "allowed")]
    );
}

#[tokio::test]
async fn a_session_goes_on_at_the_next_host() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let session = "5d1f9c1e-3f51-4d3b-9b0a-0a7c1f6f2b12";
    let server = stage.bridge();
    let steps = json!([{ "shell": "touch made" }]);
    let mut claude = stage.claude(&server, &["--session-id", session], &steps);
    let ask = stage.ask().await;
    stage.approve(&ask).await;
    claude.ended();
    stage.host.restart();
    stage.wire = listen(&stage.host, 0).await;
    assert_eq!(stage.ask().await["id"], ask["id"]);
    let steps = json!([{ "shell": "touch more" }]);
    let mut claude = stage.claude(&server, &["--resume", session], &steps);
    let ask = stage.ask().await;
    assert_eq!(ask["input"]["command"], "touch more");
    stage.approve(&ask).await;
    claude.ended();
    assert_eq!((stage.has("made"), stage.has("more")), (true, true));
    // It knows what was said before.
    let received = stage.model.received();
    let newest = received.last().unwrap().concat();
    assert!(newest.contains("touch made"), "{newest}");
}
