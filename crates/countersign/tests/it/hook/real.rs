//! Claude Code itself, in sessions that the host did not start, with the settings that `hook install`
//! writes. It is asked by the scripted model, and left out where it is not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_testkit::model::ScriptedModel;
use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::{Host, PATIENCE, command, poll};
use crate::real_agents::claude_process::{self, ClaudeProcess};
use crate::real_agents::is_there;
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
            wire: Wire::operator(&host).await,
            host,
            model: ScriptedModel::start().unwrap(),
            scratch: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(stage.work()).unwrap();
        let mut install = command(stage.host.home());
        install.args(["hook", "install", "claude", "--project", "--yes"]);
        let installed = install.current_dir(stage.work()).output().unwrap();
        assert!(installed.status.success(), "{installed:?}");
        Some(stage)
    }

    fn work(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join("work")
    }

    fn has(&self, file: &str) -> bool {
        self.work().join(file).exists()
    }

    /// Starts a session that follows these steps.
    fn claude(&self, more: &[&str], steps: &Value) -> ClaudeProcess {
        let home = self.scratch.path().join("home");
        let recipe = RealAgent::ClaudeCode
            .prepare(&home, self.model.port)
            .unwrap();
        let out = self.scratch.path().join("out");
        let mut claude = Command::new(&recipe.command[0]);
        claude.args(&recipe.command[1..]).arg("-p").args(more);
        claude.arg(format!("Follow the script. <script>{steps}</script>"));
        claude.env_clear().envs(recipe.env);
        claude.env("COUNTERSIGN_HOME", self.host.home());
        ClaudeProcess::start(claude, &self.work(), out)
    }

    async fn ask(&mut self) -> Value {
        let begin = std::time::Instant::now();
        loop {
            let pending = json!({ "status": "pending" });
            let mut rows = self.wire.ok("host.approvals", pending).await;
            if rows[0].is_object() {
                return rows[0].take();
            }
            assert!(begin.elapsed() < PATIENCE, "nothing was asked");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    async fn answer(&mut self, ask: &Value, mut answer: Value) {
        answer["approval_id"] = ask["id"].clone();
        self.wire.ok("host.resolve_approval", answer).await;
    }

    fn model_received(&self, words: &str) -> bool {
        let received = self.model.received();
        received.iter().flatten().any(|text| text.contains(words))
    }
}

fn pair(command: &str, state: &str) -> (String, String) {
    (command.to_owned(), state.to_owned())
}

fn approve() -> Value {
    json!({ "resolution": "approve" })
}

#[tokio::test]
async fn a_rule_allows_and_a_rule_denies() {
    let rules = "allow = [\"Bash(echo:*)\"]\ndeny = [\"Bash(touch:*)\"]\n";
    let Some(mut stage) = Stage::set(rules).await else {
        return;
    };
    let steps = json!([{ "shell": "echo by rule" }, { "shell": "touch made" }]);
    stage.claude(&[], &steps).ended();
    assert!(stage.model_received("by rule"));
    assert!(!stage.has("made"));
    let expected = [
        pair("echo by rule", "allowed"),
        pair("touch made", "denied"),
    ];
    assert_eq!(claude_process::asks(&mut stage.wire).await, expected);
    let agents = claude_process::agents(&mut stage.wire).await;
    assert_eq!(agents.len(), 1);
    assert_eq!(agents[0]["state"], "done");
    assert_eq!(agents[0]["project"], json!(stage.work()));
}

#[tokio::test]
async fn a_person_allows_and_denies_with_words() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let steps = json!([{ "shell": "touch made" }, { "shell": "touch more" }]);
    let mut claude = stage.claude(&[], &steps);
    let ask = stage.ask().await;
    assert_eq!(ask["input"]["command"], "touch made");
    assert!(!stage.has("made"));
    stage.answer(&ask, approve()).await;
    let ask = stage.ask().await;
    assert!(stage.has("made"));
    let no = json!({ "resolution": "deny", "message": "one file is enough" });
    stage.answer(&ask, no).await;
    claude.ended();
    assert!(!stage.has("more"));
    assert!(stage.model_received("one file is enough"));
    let expected = [pair("touch made", "allowed"), pair("touch more", "denied")];
    assert_eq!(claude_process::asks(&mut stage.wire).await, expected);
}

#[tokio::test]
async fn what_a_person_changed_is_what_runs() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let mut claude = stage.claude(&[], &json!([{ "shell": "touch made" }]));
    let ask = stage.ask().await;
    let edited = json!({ "command": "touch other && echo edited" });
    let answer = json!({ "resolution": "approve", "edited_input": edited });
    stage.answer(&ask, answer).await;
    claude.ended();
    assert_eq!((stage.has("made"), stage.has("other")), (false, true));
    assert!(stage.model_received("edited"));
}

/// Its own settings make it ask at its terminal as well; that is the same ask.
#[tokio::test]
async fn what_its_own_settings_ask_about_is_asked_once() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let settings = stage.work().join(".claude/settings.local.json");
    fs::write(settings, r#"{"permissions":{"ask":["Bash(touch:*)"]}}"#).unwrap();
    let steps = json!([{ "shell": "touch made" }, { "shell": "touch made" }]);
    let mut claude = stage.claude(&[], &steps);
    let ask = stage.ask().await;
    stage.answer(&ask, approve()).await;
    let ask = stage.ask().await;
    assert!(stage.has("made"));
    stage.answer(&ask, json!({ "resolution": "deny" })).await;
    claude.ended();
    let expected = [pair("touch made", "allowed"), pair("touch made", "denied")];
    assert_eq!(claude_process::asks(&mut stage.wire).await, expected);
}

#[tokio::test]
async fn an_interrupt_takes_the_ask_back() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let mut claude = stage.claude(&[], &json!([{ "shell": "touch made" }]));
    let ask = stage.ask().await;
    claude.interrupt();
    let wait = json!({ "approval_id": ask["id"], "timeout_ms": 30_000 });
    let row = stage.wire.ok("host.wait_approval", wait).await;
    assert_eq!(row["state"], "cancelled");
    claude.ended();
    assert!(!stage.has("made"));
}

#[tokio::test]
async fn a_session_that_is_taken_up_again_is_the_same_agent() {
    let Some(mut stage) = Stage::set("allow = [\"Bash(echo:*)\"]\n").await else {
        return;
    };
    let session = "5d1f9c1e-3f51-4d3b-9b0a-0a7c1f6f2b11";
    let first = stage
        .claude(
            &["--session-id", session],
            &json!([{ "shell": "echo one" }]),
        )
        .ended();
    assert!(first.contains("one"), "{first}");
    let before = claude_process::agents(&mut stage.wire).await;
    let mut claude = stage.claude(&["--resume", session], &json!([{ "shell": "touch made" }]));
    let ask = stage.ask().await;
    assert_eq!(ask["agent_id"], "claude-5d1f9c1e");
    stage.answer(&ask, approve()).await;
    claude.ended();
    assert!(stage.has("made"));
    let after = claude_process::agents(&mut stage.wire).await;
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_eq!(after[0]["id"], "claude-5d1f9c1e");
    assert_ne!(after[0]["pid"], before[0]["pid"]);
}

#[tokio::test]
async fn an_ask_outlives_the_host_it_was_made_to() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let mut claude = stage.claude(&[], &json!([{ "shell": "echo ran >> ran" }]));
    let ask = stage.ask().await;
    stage.host.restart();
    stage.wire = Wire::operator(&stage.host).await;
    assert_eq!(stage.ask().await["id"], ask["id"]);
    stage.answer(&ask, approve()).await;
    claude.ended();
    let ran = fs::read_to_string(stage.work().join("ran")).unwrap();
    assert_eq!(ran, "ran\n");
    assert_eq!(
        claude_process::asks(&mut stage.wire).await,
        [pair("echo ran >> ran", "allowed")]
    );
}

#[tokio::test]
async fn without_a_host_nothing_runs_that_nobody_allowed() {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    stage.host.kill();
    // Nobody sits at a terminal here, so what would be asked there is not allowed.
    let said = stage
        .claude(&[], &json!([{ "shell": "touch made" }]))
        .ended();
    assert!(said.contains("no Countersign host is running"), "{said}");
    assert!(!stage.has("made"));
}

#[tokio::test]
async fn a_hook_whose_program_is_gone_blocks() {
    let Some(stage) = Stage::set("").await else {
        return;
    };
    let settings = stage.work().join(".claude/settings.json");
    let text = fs::read_to_string(&settings).unwrap();
    let own = env!("CARGO_BIN_EXE_countersign");
    assert!(text.contains(own), "{text}");
    fs::write(&settings, text.replace(own, "/nowhere/countersign")).unwrap();
    stage
        .claude(&[], &json!([{ "shell": "touch made" }]))
        .ended();
    assert!(!stage.has("made"));
    assert!(stage.model_received("/nowhere/countersign"));
}

/// The host that runs an agent is asked by it. Its hook neither asks as well nor answers.
#[tokio::test]
async fn a_managed_agent_with_the_hook_asks_once() {
    if !is_there(RealAgent::Claude) {
        return;
    }
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    let home = stage.scratch.path().join("home");
    fs::create_dir(&home).unwrap();
    let recipe = RealAgent::Claude.prepare(&home, stage.model.port).unwrap();
    let line = recipe.command.iter().map(|word| format!("'{word}'"));
    let line = line.collect::<Vec<_>>().join(" ");
    let mut spawn = command(stage.host.home());
    spawn.args(["spawn", "--name", "ann", "--command", &line]);
    spawn.arg("--cwd").arg(stage.work());
    let own = (
        "COUNTERSIGN_HOME".to_owned(),
        stage.host.home().display().to_string(),
    );
    for (name, value) in recipe.env.into_iter().chain([own]) {
        spawn.args(["--env", &format!("{name}={value}")]);
    }
    let steps = json!([{ "shell": "touch made" }]);
    spawn
        .arg("--")
        .arg(format!("Follow the script. <script>{steps}</script>"));
    let spawned = spawn.output().unwrap();
    assert!(spawned.status.success(), "{spawned:?}");
    let ask = stage.ask().await;
    assert_eq!(ask["input"]["command"], "touch made");
    stage.answer(&ask, approve()).await;
    let waited = command(stage.host.home())
        .args(["wait", "ann", "--timeout", "60s"])
        .output()
        .unwrap();
    assert!(waited.status.success(), "{waited:?}");
    assert!(stage.has("made"));
    assert_eq!(
        claude_process::asks(&mut stage.wire).await,
        [pair("touch made", "allowed")]
    );
    let agents = claude_process::agents(&mut stage.wire).await;
    assert_eq!((agents.len(), &agents[0]["name"]), (1, &json!("ann")));
}

/// What an agent that knows its ask's id tries, by the socket, by the wire and by REST with a token
/// that it stole. It waits for the id in a file, and leaves what came of it in another.
fn write_tries(stage: &Stage) {
    let bin = env!("CARGO_BIN_EXE_countersign");
    let token = stage.host.token_file();
    let (host, port) = stage.host.address.split_once(':').unwrap();
    let address = &stage.host.address;
    let token = token.display();
    let script = format!(
        r#"until [ -e id ]; do sleep 0.05; done
id=$(cat id)
{bin} approve $id; a=$?
{bin} approve $id --url ws://{address}/ --token-file {token}; b=$?
exec 3<>/dev/tcp/{host}/{port}
printf 'POST /api/v1/approvals/%s/resolution HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer %s\r\ncontent-type: application/json\r\ncontent-length: 24\r\nconnection: close\r\n\r\n{{"resolution":"approve"}}' "$id" "$(cat {token})" >&3
c=$(head -n 1 <&3 | cut -d ' ' -f 2)
echo "$a $b $c" >tried.tmp
mv tried.tmp tried
"#
    );
    fs::write(stage.work().join("tries.sh"), script).unwrap();
}

/// What it has let run beside it is no longer its child when the shell that started it ends.
#[tokio::test]
async fn it_cannot_answer_its_own_ask_by_any_door() {
    a_try_to_answer_itself_is_refused("", "10 10 403\n").await;
}

/// Without its environment nobody knows whose process it is, and then it is nobody's.
#[tokio::test]
async fn it_cannot_answer_from_an_empty_environment() {
    let emptied = "env -i PATH=\"$PATH\" COUNTERSIGN_HOME=\"$COUNTERSIGN_HOME\"";
    a_try_to_answer_itself_is_refused(emptied, "1 10 401\n").await;
}

async fn a_try_to_answer_itself_is_refused(prefix: &str, expected: &str) {
    let Some(mut stage) = Stage::set("").await else {
        return;
    };
    write_tries(&stage);
    let tries = format!("{prefix} bash tries.sh >/dev/null 2>&1 &");
    let steps = json!([{ "shell": tries }, { "shell": "touch made" }]);
    let mut claude = stage.claude(&[], &steps);
    let ask = stage.ask().await;
    stage.answer(&ask, approve()).await;
    let ask = stage.ask().await;
    assert_eq!(ask["input"]["command"], "touch made");
    let id = ask["id"].as_str().unwrap();
    write_whole(&stage.work().join("id"), id);
    let tried = stage.work().join("tried");
    let tried = poll("it to try", || fs::read_to_string(&tried).ok());
    assert_eq!(tried, expected);
    assert_eq!(stage.ask().await["id"], id);
    stage.answer(&ask, json!({ "resolution": "deny" })).await;
    claude.ended();
    assert!(!stage.has("made"));
}

fn write_whole(path: &Path, text: &str) {
    let beside = path.with_extension("tmp");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}
