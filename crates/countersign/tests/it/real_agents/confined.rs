//! Agents in the sandbox that they get by default: what they do there, what they cannot, and how they bear waiting.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use countersign_rules::StarterSet;
use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::stage::Stage;
use super::told;

/// How long a connection waits for its answer, in seconds.
const HELD: &str = "COUNTERSIGN_TEST_HELD_SECONDS";
const HELD_USUALLY: u64 = 2;

/// A server outside of every sandbox.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            drop(stream.read(&mut [0; 4096]));
            let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nPUBLISHED";
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    port
}

/// Connects by the one way out, and by another. In a file of its own, because agents quote commands in different ways.
fn connects(port: u16) -> String {
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128\n\
         printf 'GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3\n\
         cat <&3\n\
         (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null || echo NO-OTHER-WAY\n"
    )
}

/// The next ask of an agent with this tool; those before it are approved.
async fn ask_of_tool(stage: &mut Stage, actor: &Actor, tool: &str) -> Value {
    loop {
        let ask = stage.ask(actor).await;
        if ask["tool"] == tool {
            return ask;
        }
        assert_eq!(ask["tool"], "Bash", "{ask}");
        stage.approve(&ask).await;
    }
}

async fn waits_at_the_door(mut stage: Stage) {
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "as it was").unwrap();
    let port = serve();
    let [_, work] = stage.folders_of("ann");
    std::fs::write(work.join("door.sh"), connects(port)).unwrap();
    std::fs::write(
        work.join("remove.sh"),
        format!("rm -f {}; echo REMOVED $?\n", victim.display()),
    )
    .unwrap();
    let steps = json!([
        { "shell": told::command("made") },
        { "shell": "bash door.sh" },
        { "shell": "bash remove.sh" },
    ]);
    let actor = stage.spawn("ann", &told::script(&steps));
    let ask = ask_of_tool(&mut stage, &actor, "Network").await;
    let expected = json!({ "address": "127.0.0.1", "port": port });
    assert_eq!(ask["input"], expected, "{ask}");
    let sandbox = stage.approval(&ask).await["sandbox"].take();
    assert_eq!(sandbox, json!({ "profile": "work", "level": "full" }));
    let held = std::env::var(HELD).ok().and_then(|text| text.parse().ok());
    tokio::time::sleep(Duration::from_secs(held.unwrap_or(HELD_USUALLY))).await;
    assert!(!stage.model_received("PUBLISHED"));
    stage.approve(&ask).await;
    let last = ask_of_tool(&mut stage, &actor, "Bash").await;
    stage.approve(&last).await;
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    for text in ["PUBLISHED", "NO-OTHER-WAY", "REMOVED 1"] {
        assert!(stage.model_received(text), "{text}");
    }
    assert!(actor.has("made"));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "as it was");
    stage.end(&actor).await;
}

/// Commands of a day's work. Without rules a person is asked about each of them.
const WORK: [&str; 6] = [
    "mkdir -p src && touch src/made",
    "seq 1 10 > numbers",
    "sh -c 'sort -r numbers > sorted'",
    "cp sorted src/made",
    "chmod +x src/made",
    "rm numbers sorted",
];

/// Has an agent do that work; gives how often a person was asked.
async fn count_asks(mut stage: Stage) -> usize {
    let steps: Vec<Value> = WORK.iter().map(|line| json!({ "shell": line })).collect();
    let actor = stage.spawn("ann", &told::script(&json!(steps)));
    let mut count = 0;
    loop {
        let fits = |event: &Value| {
            event["agent_id"] == actor.id
                && (event["kind"] == "approval.requested" || event["kind"] == "turn.ended")
        };
        let event = stage.event(fits).await;
        if event["kind"] == "turn.ended" {
            break;
        }
        if stage.approval(&event["payload"]).await["state"] == "pending" {
            count += 1;
            stage.approve(&event["payload"]).await;
        }
    }
    let made = std::fs::read_to_string(actor.work.join("src/made")).unwrap();
    assert_eq!(made.lines().count(), 10);
    stage.end(&actor).await;
    count
}

/// With the starter rules for sandboxes, which are the same outside of one.
async fn asks_less_in_a_sandbox(kind: RealAgent) {
    let rules = StarterSet::Sandbox.toml();
    let Some(stage) = Stage::set_confined_with(kind, rules).await else {
        return;
    };
    let confined = count_asks(stage).await;
    let open = Stage::set_with(kind, rules).await.unwrap();
    let open = count_asks(open).await;
    assert_eq!(confined, 0, "{open} outside");
    // Some agents ask less often than others on their own.
    assert!((4..=WORK.len()).contains(&open), "{open}");
}

macro_rules! confined {
    ($($name:ident, $agent:ident;)+) => {
        $(
            mod $name {
                use countersign_testkit::real::RealAgent;

                use super::Stage;

                #[tokio::test]
                async fn waits_at_the_door() {
                    if let Some(stage) = Stage::set_confined(RealAgent::$agent).await {
                        super::waits_at_the_door(stage).await;
                    }
                }

                #[tokio::test]
                async fn asks_less_in_a_sandbox() {
                    super::asks_less_in_a_sandbox(RealAgent::$agent).await;
                }
            }
        )+
    };
}

confined! {
    claude, ClaudeCode;
    claude_acp, Claude;
    codex, Codex;
    gemini, Gemini;
    opencode, Opencode;
    defect, Defect;
}
