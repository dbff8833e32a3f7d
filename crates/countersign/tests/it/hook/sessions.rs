//! Which agent a session is: found by its process, whatever it says.

use serde_json::{Value, json};

use super::session::{Session, typed};
use super::{before_tool, decision, event};
use crate::host::{Host, PATIENCE};
use crate::http::Rest;
use crate::wire::Wire;

const SESSION: &str = "1f3220cb-0f6e-460f-8fc5-05b04752bc96";

async fn agents(wire: &mut Wire) -> Vec<Value> {
    let rows = wire.ok("host.agents", json!({})).await;
    serde_json::from_value(rows).unwrap()
}

/// Id, name and state of each agent.
async fn shown(wire: &mut Wire) -> Vec<[String; 3]> {
    let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let rows = agents(wire).await;
    let shown = rows
        .iter()
        .map(|row| ["id", "name", "state"].map(|name| word(row, name)));
    shown.collect()
}

fn row(id: &str, name: &str, state: &str) -> [String; 3] {
    [id, name, state].map(str::to_owned)
}

async fn open_ask(wire: &mut Wire) -> String {
    let begin = std::time::Instant::now();
    loop {
        let rows = wire
            .ok("host.approvals", json!({ "status": "pending" }))
            .await;
        if let Some(id) = rows[0]["id"].as_str() {
            return id.to_owned();
        }
        assert!(begin.elapsed() < PATIENCE, "nothing was asked");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_session_is_an_agent_from_its_start_to_its_end() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut session = Session::start(host.home());
    let id = "claude-1f3220cb";
    session.said(&event(SESSION, "SessionStart", "/tmp/some project"));
    let rows = agents(&mut wire).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["kind"], "claude-code");
    assert_eq!(rows[0]["project"], "/tmp/some project");
    assert_eq!(rows[0]["pid"], session.pid());
    assert_eq!(rows[0]["metadata"]["session_id"], SESSION);
    assert_eq!(shown(&mut wire).await, [row(id, "some project", "idle")]);

    let hook = session.hook(&before_tool(SESSION, "t1", "make"));
    let ask = open_ask(&mut wire).await;
    assert_eq!(
        shown(&mut wire).await,
        [row(id, "some project", "awaiting_permission")]
    );
    let answer = json!({ "approval_id": ask, "resolution": "approve" });
    wire.ok("host.resolve_approval", answer).await;
    hook.said();
    assert_eq!(shown(&mut wire).await, [row(id, "some project", "running")]);
    session.said(&event(SESSION, "Stop", "/tmp/some project"));
    assert_eq!(shown(&mut wire).await, [row(id, "some project", "idle")]);
    session.said(&event(SESSION, "SessionEnd", "/tmp/some project"));
    assert_eq!(shown(&mut wire).await, [row(id, "some project", "done")]);

    // `/clear`: the same process goes on under another id, and is the same agent.
    let other = "99999999-0f6e-460f-8fc5-05b04752bc96";
    session.said(&event(other, "SessionStart", "/tmp/some project"));
    let rows = agents(&mut wire).await;
    assert_eq!(rows[0]["metadata"]["session_id"], other);
    assert_eq!(shown(&mut wire).await, [row(id, "some project", "idle")]);
}

#[tokio::test]
async fn what_it_tells_its_person_is_heard_here() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut session = Session::start(host.home());
    let mut notice = event(SESSION, "Notification", "/tmp");
    notice["message"] = json!("Claude is waiting for your input");
    session.said(&notice);
    let kinds = json!({ "kinds": ["hook.notification"], "limit": 10 });
    let events = wire.ok("host.events", kinds).await;
    assert_eq!(events[0]["message"], "Claude is waiting for your input");
    assert_eq!(events[0]["agent_id"], "claude-1f3220cb");
}

#[tokio::test]
async fn two_sessions_that_say_the_same_id_are_two_agents_while_both_live() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut one = Session::start(host.home());
    let mut two = Session::start(host.home());
    let start = event(SESSION, "SessionStart", "/tmp");
    one.said(&start);
    two.said(&start);
    let ids = |rows: Vec<[String; 3]>| rows.into_iter().map(|[id, ..]| id).collect::<Vec<_>>();
    let both = ["claude-1f3220cb", "claude-1f3220cb-2"];
    assert_eq!(ids(shown(&mut wire).await), both);
    // One that ended without a word is followed by the same session in another process.
    one.kill();
    let mut three = Session::start(host.home());
    three.said(&start);
    assert_eq!(ids(shown(&mut wire).await), both);
    let rows = agents(&mut wire).await;
    assert_eq!(rows[0]["pid"], three.pid());
}

#[tokio::test]
async fn a_process_that_is_gone_has_stopped() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut one = Session::start(host.home());
    one.said(&event(SESSION, "SessionStart", "/tmp"));
    one.kill();
    let mut other = Session::start(host.home());
    other.said(&event("other", "SessionStart", "/tmp"));
    let expected = [
        row("claude-1f3220cb", "tmp", "stopped"),
        row("claude-other", "tmp", "idle"),
    ];
    assert_eq!(shown(&mut wire).await, expected);
}

/// A session that another one started is that other one, and does not end it.
#[tokio::test]
async fn a_session_inside_another_is_the_same_agent() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut session = Session::start(host.home());
    session.said(&event(SESSION, "SessionStart", "/tmp"));
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner.sh");
    let input = folder.path().join("in");
    std::fs::write(&input, event("inner", "SessionEnd", "/tmp").to_string()).unwrap();
    let script = format!(
        "\"$BIN\" hook claude --timeout 60 <{}; true\n",
        input.display()
    );
    std::fs::write(&inner, script).unwrap();
    let ended = session.run(&format!("status >/dev/null; sh {}", inner.display()));
    assert_eq!(
        (ended.code.as_str(), ended.out.as_str()),
        ("0", "{}\n"),
        "{ended:?}"
    );
    assert_eq!(
        shown(&mut wire).await,
        [row("claude-1f3220cb", "tmp", "idle")]
    );
}

#[tokio::test]
async fn a_person_who_runs_it_by_hand_does_not_become_an_agent() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    std::fs::write(&input, before_tool(SESSION, "t1", "ls").to_string()).unwrap();
    let line = format!("\"$BIN\" hook claude <{}; true", input.display());
    let ended = typed(host.home(), &line);
    let (word, reason) = decision(&ended.out);
    assert_eq!(word, "ask");
    assert!(
        reason.contains("this hook was not run by an agent: it was started by a person's shell"),
        "{reason}"
    );
    assert_eq!(shown(&mut wire).await, Vec::<[String; 3]>::new());
    let ended = typed(host.home(), "\"$BIN\" status >/dev/null; true");
    assert_eq!((ended.code.as_str(), ended.err.as_str()), ("0", ""));
}

#[tokio::test]
async fn a_session_cannot_answer_by_any_door() {
    let mut host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut session = Session::start(host.home());
    let hook = session.hook(&before_tool(SESSION, "t1", "make"));
    let ask = open_ask(&mut wire).await;
    for _ in 0..2 {
        let token = host.token_file();
        let lines = [
            format!("approve {ask}"),
            format!(
                "approve {ask} --url ws://{}/ --token-file {}",
                host.address,
                token.display()
            ),
            "rules add \"Bash(make)\" --yes".to_owned(),
        ];
        for line in &lines {
            let ended = session.run(line);
            assert_ne!(ended.code, "0", "{line}: {ended:?}");
        }
        assert_eq!(session.run(&lines[0]).code, "10");
        assert_eq!(session.run(&lines[1]).code, "10");
        host.restart();
    }
    let mut wire = Wire::operator(&host).await;
    assert_eq!(open_ask(&mut wire).await, ask);
    let answer = json!({ "approval_id": ask, "resolution": "deny" });
    wire.ok("host.resolve_approval", answer).await;
    assert_eq!(decision(&hook.said()).0, "deny");
}

#[tokio::test]
async fn hooks_come_by_the_socket_alone() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let event = json!({ "event": "idle", "session_id": "s" });
    let answer = rest
        .send("POST", "/api/v1/hooks/claude", event.clone())
        .await;
    assert_eq!(answer.status, 401);
    let mut wire = Wire::operator(&host).await;
    let error = wire.no("host.hook", event).await;
    assert_eq!(error["data"]["reason"], "auth_failed", "{error}");
}

/// The same operation over the other door of the socket.
#[tokio::test]
async fn an_agent_that_speaks_json_rpc_says_the_same() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut agent = crate::agent::Agent::connected(&host, &mut wire, "coder").await;
    agent.connect_unix().await;
    let ask = json!({
        "hook": "claude", "event": "ask", "session_id": "s", "tool": "Bash",
        "input": { "command": "make" }, "wait_ms": 0,
    });
    let told = agent.ok("host.hook", ask).await;
    assert_eq!(told["decision"], "deny", "{told}");
    assert_eq!(told["agent_id"], "coder");
    let unknown = json!({ "hook": "vim", "event": "idle", "session_id": "s" });
    let error = agent.no("host.hook", unknown).await;
    assert_eq!(error["data"]["reason"], "invalid_params");
}
