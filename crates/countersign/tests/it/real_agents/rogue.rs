//! A child that tries to answer: its own ask, its sibling's and its orchestrator's, by every door. And an
//! orchestrator, which answers only what a person let it.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::family::{Family, spawns};
use super::told::{command, host_tool};
use crate::host::poll;

const BOTH: &str = "allow = [\"SpawnAgent(codex)\", \"SpawnAgent(claude)\"]\n";

/// What a child does that knows the ids of asks. For each it tries the command line on the socket and
/// with the operator's token, REST with that token, and MCP; it leaves what came of it in a line.
fn write_tries(family: &Family, child: &Actor) {
    let host = &family.stage.host;
    let bin = env!("CARGO_BIN_EXE_countersign");
    let home = host.home().display();
    let socket = host.socket();
    let socket = socket.display();
    let address = &host.address;
    let token = host.token_file();
    let token = token.display();
    let (name, port) = address.split_once(':').unwrap();
    let script = format!(
        r#"export COUNTERSIGN_HOME={home}
token={token}
until [ -e ids ]; do sleep 0.05; done
for id in $(cat ids); do
  {bin} approve $id; a=$?
  {bin} approve $id --url ws://{address}/ --token-file $token; b=$?
  exec 3<>/dev/tcp/{name}/{port}
  printf 'POST /api/v1/approvals/%s/resolution HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer %s\r\ncontent-type: application/json\r\ncontent-length: 24\r\nconnection: close\r\n\r\n{{"resolution":"approve"}}' "$id" "$(cat $token)" >&3
  c=$(head -n 1 <&3 | cut -d ' ' -f 2)
  exec 3<&-
  call='{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"resolve_approval","arguments":{{"approval_id":"'$id'","decision":"allow"}}}}}}'
  : >said
  {{ echo "$call"; until [ -s said ]; do sleep 0.05; done; }} | {bin} mcp --socket {socket} >said
  d=$(grep -o agent_not_allowed said | head -n 1)
  echo "$a $b $c $d" >>tried.tmp
done
mv tried.tmp tried
"#
    );
    std::fs::write(child.file("tries.sh"), script).unwrap();
}

/// The asks that are open, by the names of those who asked.
async fn open_asks(family: &mut Family, askers: &[(&str, &str)]) -> Vec<Value> {
    let mut asks = Vec::new();
    for (agent, words) in askers {
        let fits = |event: &Value| {
            let asked = &event["payload"];
            event["kind"] == "approval.requested"
                && event["agent_id"] == *agent
                && asked["action"].as_str().unwrap().contains(words)
        };
        asks.push(family.stage.event(fits).await["payload"].take());
    }
    asks
}

#[tokio::test]
async fn a_child_cannot_answer_anybody_by_any_door() {
    tries_are_refused("").await;
}

/// Neither a session of its own nor an empty environment makes it somebody else.
#[tokio::test]
async fn a_child_that_hides_cannot_answer_anybody_either() {
    tries_are_refused("setsid env -i").await;
}

async fn tries_are_refused(prefix: &str) {
    let beside = format!("{prefix} bash tries.sh >/dev/null 2>&1 &");
    let resolves = json!({ "tool": host_tool("resolve_approval"), "input": {} });
    let tries = json!([{ "shell": beside }, { "shell": command("own") }, resolves]);
    let steps = json!([
        spawns("codex", "cody", &json!([{ "shell": command("made") }])),
        spawns("claude", "ann", &tries),
        spawns("gemini", "gem", &json!([])),
    ]);
    let Some(mut family) = Family::set(RealAgent::Claude, BOTH, &steps).await else {
        return;
    };
    let cody = family.child("cody").await;
    let ann = family.child("ann").await;
    write_tries(&family, &ann);
    let begin = family.stage.ask(&ann).await;
    family.stage.approve(&begin).await;
    let boss = family.boss.id.clone();
    let askers = [
        (ann.id.as_str(), "touch own"),
        (cody.id.as_str(), "touch made"),
        (boss.as_str(), "start an agent: gemini"),
    ];
    let asks = open_asks(&mut family, &askers).await;
    let ids: Vec<&str> = asks.iter().map(|ask| ask["id"].as_str().unwrap()).collect();
    std::fs::write(ann.file("ids.tmp"), ids.join("\n")).unwrap();
    std::fs::rename(ann.file("ids.tmp"), ann.file("ids")).unwrap();
    poll("it to try", || ann.has("tried").then_some(()));
    assert_eq!(ann.lines_of("tried"), ["10 10 403 agent_not_allowed"; 3]);
    let stage = &mut family.stage;
    let kinds = json!({ "kinds": ["approval.resolve_refused"], "limit": 100 });
    let tries = stage.wire.ok("host.events", kinds).await;
    // Whoever asks the command line is refused a look at what others ask, and gets no further.
    for (ask, on_record) in asks.iter().zip([3, 1, 1]) {
        let row = stage.approval(ask).await;
        assert_eq!(row["status"], "pending", "{row}");
        let tries = tries.as_array().unwrap().iter();
        let of_this = tries.filter(|event| event["payload"]["approval_id"] == ask["id"]);
        let by: Vec<&Value> = of_this.map(|event| &event["agent_id"]).collect();
        assert_eq!(by, vec![&json!(ann.id); on_record]);
        stage.deny(ask, &[]).await;
    }
    // The tool is not even there for it.
    stage.hears(&ann, "assistant", "no tool fits").await;
    stage.turn_ended(&ann, 1).await;
    assert_eq!((ann.has("own"), cody.has("made")), (false, false));
    family.end(&[&ann, &cody]).await;
}

/// The orchestrator tries to allow an ask, and the number of the turn in which it does.
async fn boss_allows(family: &mut Family, ask: &Value, turn: u64) -> Value {
    let input = json!({ "approval_id": ask["id"], "decision": "allow" });
    family.tell_boss(&json!([{ "tool": host_tool("resolve_approval"), "input": input }]));
    let stage = &mut family.stage;
    stage.turn_ended(&family.boss, turn).await;
    stage.approval(ask).await
}

#[tokio::test]
async fn an_orchestrator_allows_what_its_ceiling_covers_and_nothing_else() {
    let steps = json!([{ "shell": "touch made" }, { "shell": "touch other" }]);
    let spawn = json!([spawns("claude", "ann", &steps)]);
    let Some(mut family) = Family::set(RealAgent::Claude, BOTH, &spawn).await else {
        return;
    };
    let ann = family.child("ann").await;
    let ask = family.stage.ask(&ann).await;
    family.stage.turn_ended(&family.boss, 1).await;
    let row = boss_allows(&mut family, &ask, 2).await;
    assert_eq!(row["status"], "pending", "{row}");
    let rule = ["ceiling", "boss", "--rule", "Bash(touch made)"];
    family.stage.ok(&rule);
    let row = boss_allows(&mut family, &ask, 3).await;
    let by = json!({ "agent_id": family.boss.id, "name": family.boss.name, "role": "agent" });
    assert_eq!(
        (&row["state"], &row["resolved_by"]),
        (&json!("allowed"), &by)
    );
    let other = family.stage.ask(&ann).await;
    assert!(ann.has("made"));
    let row = boss_allows(&mut family, &other, 4).await;
    assert_eq!(row["status"], "pending", "{row}");
    family.stage.ok(&["ceiling", "boss", "--clear"]);
    let stage = &mut family.stage;
    stage.deny(&other, &[]).await;
    stage.turn_ended(&ann, 1).await;
    assert!(!ann.has("other"));
    for words in [
        "may answer no asks: a person must give it a ceiling first",
        "its ceiling does not cover it, so a person decides",
    ] {
        assert!(stage.model_received(words), "{words}");
    }
    family.end(&[&ann]).await;
}
