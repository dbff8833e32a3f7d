//! Claude Code that the host did not start, with `request_permission` as its permission-prompt-tool.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use countersign_testkit::real::claude_executable;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::stage::Stage;
use super::told::script;
use crate::host::PATIENCE;
use crate::managed::PROGRAM;

/// A session in a terminal of its own, which was given a prompt.
struct Session {
    child: Child,
    work: PathBuf,
}

impl Session {
    /// Starts it, and waits until it asks.
    async fn asks(stage: &mut Stage, steps: &Value) -> (Self, Value) {
        let [home, work] = stage.folders_of("outside");
        let recipe = stage.kind.prepare(&home, stage.model.port).unwrap();
        let socket = stage.host.socket();
        let server = json!({ "command": PROGRAM, "args": ["mcp", "--socket", socket] });
        let servers = json!({ "mcpServers": { "countersign": server } });
        let child = Command::new(claude_executable().expect("what the adapter runs"))
            .args(["-p", &script(steps), "--strict-mcp-config", "--mcp-config"])
            .arg(servers.to_string())
            .args([
                "--permission-prompt-tool",
                "mcp__countersign__request_permission",
            ])
            .env_clear()
            .envs(recipe.env)
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let asked = stage.event(|event| event["kind"] == "approval.requested");
        let asked = asked.await["payload"].take();
        (Self { child, work }, asked)
    }

    async fn ended(self) -> Output {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait_with_output());
        ended.await.expect("an end in time").unwrap()
    }
}

fn touches(file: &str) -> Value {
    json!([{ "shell": format!("touch {file}") }])
}

pub(super) async fn prompt_tool_allows(mut stage: Stage) {
    let (session, asked) = Session::asks(&mut stage, &touches("made")).await;
    assert_eq!(
        (&asked["tool"], &asked["input"]["command"]),
        (&json!("Bash"), &json!("touch made"))
    );
    let agents = stage.wire.ok("host.agents", json!({})).await;
    assert_eq!(
        (&agents[0]["id"], &agents[0]["kind"]),
        (&asked["agent_id"], &json!("mcp-client"))
    );
    assert!(!session.work.join("made").exists());
    stage.approve(&asked);
    let made = session.work.join("made");
    let ended = session.ended().await;
    assert!(ended.status.success() && made.exists(), "{ended:?}");
}

pub(super) async fn prompt_tool_denies_with_words(mut stage: Stage) {
    let (session, asked) = Session::asks(&mut stage, &touches("made")).await;
    stage.ok(&[
        "deny",
        asked["id"].as_str().unwrap(),
        "-m",
        "Call it something else.",
    ]);
    let made = session.work.join("made");
    let ended = session.ended().await;
    assert!(!made.exists(), "{ended:?}");
    assert!(stage.model_received("Call it something else."), "{ended:?}");
}

pub(super) async fn prompt_tool_runs_what_a_person_made_of_it(mut stage: Stage) {
    let (session, asked) = Session::asks(&mut stage, &touches("made")).await;
    let edited = json!({ "command": "touch another" }).to_string();
    let id = asked["id"].as_str().unwrap();
    stage.ok(&["approve", id, "--edit-input", &edited]);
    let [made, another] = ["made", "another"].map(|name| session.work.join(name));
    let ended = session.ended().await;
    assert_eq!(
        (made.exists(), another.exists()),
        (false, true),
        "{ended:?}"
    );
}

/// The session's own shell is the session, whatever it says.
pub(super) async fn prompt_tool_cannot_be_answered_by_its_session(mut stage: Stage) {
    let home = stage.host.home().display().to_string();
    let command = format!(
        "COUNTERSIGN_HOME={home} {PROGRAM} inbox --json > inbox; \
         COUNTERSIGN_HOME={home} {PROGRAM} stop --all > stopped 2>&1; echo $? > code"
    );
    let (session, asked) = Session::asks(&mut stage, &json!([{ "shell": command }])).await;
    stage.approve(&asked);
    let code = session.work.join("code");
    let ended = session.ended().await;
    let code = std::fs::read_to_string(code);
    assert_eq!(code.unwrap_or_default().trim(), "10", "{ended:?}");
}
