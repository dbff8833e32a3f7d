//! A person's own terminals on the real binary: they outlive their host, and only operators reach them.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::{Host, poll};
use crate::wire::Wire;

/// Opens a shell without a person's own settings.
pub(crate) async fn open(wire: &mut Wire) -> Value {
    let params =
        json!({ "command": "PS1='$ ' exec sh", "cwd": "/tmp", "columns": 200, "rows": 24 });
    wire.ok("host.open_terminal", params).await["id"].take()
}

async fn type_text(wire: &mut Wire, id: &Value, text: &str) {
    let data = BASE64_STANDARD.encode(text);
    let params = json!({ "terminal_id": id, "data": data });
    let written = wire.ok("host.write_terminal", params).await;
    assert_eq!(written["written"], text.len());
}

/// Reads from the beginning until a text was written.
async fn read_until(wire: &mut Wire, id: &Value, text: &str) -> String {
    let (mut output, mut after) = (Vec::new(), json!(0));
    loop {
        let params = json!({ "terminal_id": id, "after": after, "wait": true });
        let piece = wire.ok("host.own_terminal_output", params).await;
        output.extend(
            BASE64_STANDARD
                .decode(piece["data"].as_str().unwrap())
                .unwrap(),
        );
        after = piece["next"].clone();
        let shown = String::from_utf8_lossy(&output).into_owned();
        if shown.contains(text) {
            return shown;
        }
        assert_ne!(piece["ended"], true, "no `{text}` in {shown}");
    }
}

/// What is between two marks, which the echo of the typed line does not have.
async fn read_between(wire: &mut Wire, id: &Value, start: &str, end: &str) -> String {
    let shown = read_until(wire, id, end).await;
    let (_, rest) = shown.split_once(start).unwrap();
    rest.split_once(end).unwrap().0.to_owned()
}

async fn row(wire: &mut Wire, id: &Value) -> Value {
    let rows = wire.ok("host.own_terminals", json!({})).await;
    let mut rows = rows.as_array().unwrap().iter();
    rows.find(|row| row["id"] == *id)
        .cloned()
        .unwrap_or_default()
}

async fn events(wire: &mut Wire, kind: &str) -> Vec<Value> {
    let found = wire.ok("host.events", json!({ "kinds": [kind] })).await;
    found.as_array().unwrap().clone()
}

#[tokio::test]
async fn a_terminal_outlives_its_host_killed_and_replaced() {
    let mut host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = open(&mut wire).await;
    type_text(&mut wire, &id, "kept=value; echo \"be\"\"fore\"\n").await;
    read_until(&mut wire, &id, "before").await;
    host.kill();
    host.start_again();
    let mut wire = Wire::operator(&host).await;
    type_text(&mut wire, &id, "echo \"after-kill-$kept\"\n").await;
    let shown = read_until(&mut wire, &id, "after-kill-value").await;
    assert!(shown.contains("before"), "{shown}");
    host.replace();
    let mut wire = Wire::operator(&host).await;
    let size = json!({ "terminal_id": id, "columns": 91, "rows": 33 });
    wire.ok("host.resize_terminal", size).await;
    type_text(&mut wire, &id, "echo \"size-$(stty size)-$kept\"\n").await;
    read_until(&mut wire, &id, "size-33 91-value").await;
    let listed = row(&mut wire, &id).await;
    assert_eq!(
        (&listed["columns"], &listed["rows"], &listed["exit_code"]),
        (&json!(91), &json!(33), &Value::Null),
        "{listed}"
    );
    type_text(&mut wire, &id, "exit 7\n").await;
    poll_exit(&mut wire, &id).await;
    let ended = events(&mut wire, "terminal.ended").await;
    assert_eq!(ended[0]["payload"]["exit_code"], 7, "{ended:?}");
    wire.ok("host.close_terminal", json!({ "terminal_id": id }))
        .await;
    assert_eq!(row(&mut wire, &id).await, Value::Null);
    assert_eq!(events(&mut wire, "terminal.ended").await.len(), 1);
}

/// Waits until its end is on the record.
async fn poll_exit(wire: &mut Wire, id: &Value) {
    while events(wire, "terminal.ended").await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(row(wire, id).await["exit_code"], 7);
}

/// A lock or a pipe of whoever started the host would otherwise be held for as long as the terminal is open.
#[tokio::test]
async fn a_terminal_inherits_no_descriptor_of_whoever_started_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let name = "inherited-by-mistake";
    let file = std::fs::File::create(folder.path().join(name)).unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let host = Host::start();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC).unwrap();
    let mut wire = Wire::operator(&host).await;
    let id = open(&mut wire).await;
    let line = "ls -l /proc/$$/fd /proc/$PPID/fd; echo \"li\"\"sted\"\n";
    type_text(&mut wire, &id, line).await;
    let shown = read_until(&mut wire, &id, "listed").await;
    assert!(
        shown.contains("/dev/pts") && !shown.contains(name),
        "{shown}"
    );
    wire.ok("host.close_terminal", json!({ "terminal_id": id }))
        .await;
}

#[tokio::test]
async fn closing_a_terminal_leaves_no_process() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = open(&mut wire).await;
    let line = "sleep 1000 & a=$!; setsid sleep 1000 & nohup sh -c 'trap \"\" HUP TERM; sleep 1000' >/dev/null & \
                (setsid sh -c 'sleep 1000' &); echo \"pi\"\"ds:$$ $a $!:e\"\"nd\"\n";
    type_text(&mut wire, &id, line).await;
    let listed = read_between(&mut wire, &id, "pids:", ":end").await;
    let pids: Vec<u32> = listed.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3, "{listed}");
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let marked = || processes_of(id.as_str().unwrap());
    assert!(!marked().is_empty());
    wire.ok("host.close_terminal", json!({ "terminal_id": id }))
        .await;
    poll("its processes to end", || {
        let over = pids.iter().all(|pid| !is_alive(*pid));
        (over && marked().is_empty()).then_some(())
    });
    let folder = host.home().join("own-terminals");
    poll("its files to be removed", || {
        let mut left = std::fs::read_dir(&folder).unwrap().flatten();
        let is_left = left.any(|entry| entry.path().is_dir());
        (!is_left).then_some(())
    });
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Processes whose command line has this word: runners have the folder of their terminal there.
fn processes_of(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.contains(word)).collect()
}

#[tokio::test]
async fn the_record_has_who_opened_and_closed_it_and_nothing_that_was_typed() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = open(&mut wire).await;
    type_text(&mut wire, &id, "echo never-recorded-word\n").await;
    read_until(&mut wire, &id, "\r\nnever-recorded-word").await;
    wire.ok("host.close_terminal", json!({ "terminal_id": id }))
        .await;
    let opened = events(&mut wire, "terminal.opened").await;
    let payload = &opened[0]["payload"];
    assert_eq!(
        (&payload["terminal"], &payload["cwd"], &payload["command"]),
        (&id, &json!("/tmp"), &json!("PS1='$ ' exec sh")),
        "{opened:?}"
    );
    assert!(payload["by"]["name"].is_string(), "{opened:?}");
    let ended = events(&mut wire, "terminal.ended").await;
    assert!(ended[0]["payload"]["by"]["name"].is_string(), "{ended:?}");
    for file in files_below(host.home()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let word = b"never-recorded-word";
        let found = bytes.windows(word.len()).any(|window| window == word);
        assert!(!found, "{}", file.display());
    }
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn calls(id: &Value) -> [(&'static str, Value); 6] {
    [
        ("host.own_terminals", json!({})),
        ("host.open_terminal", json!({ "cwd": "/tmp" })),
        (
            "host.write_terminal",
            json!({ "terminal_id": id, "data": "eA==" }),
        ),
        (
            "host.resize_terminal",
            json!({ "terminal_id": id, "columns": 9, "rows": 9 }),
        ),
        ("host.own_terminal_output", json!({ "terminal_id": id })),
        ("host.close_terminal", json!({ "terminal_id": id })),
    ]
}

fn routes(id: &str) -> [(&'static str, String, Value); 6] {
    let path = |end: &str| format!("/api/v1/terminals{end}");
    [
        ("GET", path(""), Value::Null),
        ("POST", path(""), json!({ "cwd": "/tmp" })),
        (
            "POST",
            path(&format!("/{id}/input")),
            json!({ "data": "eA==" }),
        ),
        (
            "PUT",
            path(&format!("/{id}/size")),
            json!({ "columns": 9, "rows": 9 }),
        ),
        ("GET", path(&format!("/{id}/output")), Value::Null),
        ("DELETE", path(&format!("/{id}")), Value::Null),
    ]
}

#[tokio::test]
async fn agents_and_observers_reach_no_terminal() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let id = open(&mut operator).await;
    // Nothing is printed after the prompt, so the row stays as it is.
    read_until(&mut operator, &id, "$ ").await;
    let before = row(&mut operator, &id).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    for (method, params) in calls(&id) {
        let error = agent.no(method, params).await;
        assert_eq!(error["data"]["reason"], "agent_not_allowed", "{method}");
    }
    let made = json!({ "role": "observer" });
    let made = operator.ok("host.create_token", made).await;
    let mut observer = Wire::connect(&host, made["token"].as_str().unwrap()).await;
    for (method, params) in calls(&id) {
        let error = observer.no(method, params).await;
        assert_eq!(
            error["data"]["reason"], "observer_cannot_change",
            "{method}"
        );
    }
    // An operator's token changes nothing for an agent's process.
    let bearer = format!("Bearer {}", host.token());
    for (method, path, body) in routes(id.as_str().unwrap()) {
        let request = json!({
            "method": method, "path": path, "body": body, "headers": [["authorization", bearer]],
        });
        let answer = agent.http(&host.address, request).await;
        assert_eq!(answer["status"], 403, "{method} {path} {answer}");
    }
    assert_eq!(row(&mut operator, &id).await, before);
    operator
        .ok("host.close_terminal", json!({ "terminal_id": id }))
        .await;
}

#[tokio::test]
async fn the_runner_serves_nobody_but_the_host() {
    use std::io::{Read as _, Write as _};

    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = open(&mut wire).await;
    let socket = format!("run/terminals/{}.sock", id.as_str().unwrap());
    let mut stream = std::os::unix::net::UnixStream::connect(host.home().join(socket)).unwrap();
    let head = br#"{"call":"write"}"#;
    let body = b"echo stolen\n";
    let bytes = |count: usize| u32::try_from(count).unwrap().to_be_bytes();
    let frame = [
        &bytes(4 + head.len() + body.len()),
        &bytes(head.len()),
        &head[..],
        &body[..],
    ]
    .concat();
    // It may close the connection before it has read all of this, and then its reply is lost.
    drop(stream.write_all(&frame));
    let mut reply = Vec::new();
    drop(stream.read_to_end(&mut reply));
    let reply = String::from_utf8_lossy(&reply);
    assert!(
        reply.is_empty() || reply.contains("only a host is served"),
        "{reply}"
    );
    type_text(&mut wire, &id, "echo \"be\"\"low\"\n").await;
    let shown = read_until(&mut wire, &id, "below").await;
    assert!(!shown.contains("stolen"), "{shown}");
    wire.ok("host.close_terminal", json!({ "terminal_id": id }))
        .await;
}

#[tokio::test]
async fn what_runs_in_a_terminal_is_a_person() {
    let mut host = Host::start();
    let mut wire = Wire::operator(&host).await;
    // While an agent that the host did not start lives, orphans of unknown origin are refused.
    let _agent = Agent::connected(&host, &mut wire, "coder").await;
    let ask = json!({
        "action": "make", "tool": "Bash", "input": { "command": "make" }, "system_level": true,
        "timeout_ms": 600_000,
    });
    let asked = wire.ok("host.request_approval", ask).await["id"].take();
    let id = open(&mut wire).await;
    // Its runner has lost the parent that started it.
    host.kill();
    host.start_again();
    let mut wire = Wire::operator(&host).await;
    let program = env!("CARGO_BIN_EXE_countersign");
    let line = format!(
        "{program} approve {}; echo \"code-$?-e\"\"nd\"\n",
        asked.as_str().unwrap()
    );
    type_text(&mut wire, &id, &line).await;
    let shown = read_until(&mut wire, &id, "-end").await;
    assert!(shown.contains("code-0-end"), "{shown}");
    let state = wire
        .ok("host.approval", json!({ "approval_id": asked }))
        .await;
    assert_eq!(state["state"], "allowed", "{state}");
    // No token of the host, and no mark of an agent, is in its environment.
    type_text(
        &mut wire,
        &id,
        "env | grep -c '^COUNTERSIGN_TOKEN\\|^COUNTERSIGN_TREE'; echo \"co\"\"unted\"\n",
    )
    .await;
    let shown = read_until(&mut wire, &id, "counted").await;
    assert!(shown.contains("\r\n0\r\ncounted"), "{shown}");
    wire.ok("host.close_terminal", json!({ "terminal_id": id }))
        .await;
}

#[tokio::test]
async fn what_cannot_be_opened_says_why_and_leaves_nothing() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    for params in [
        json!({ "cwd": "/nowhere/at/all" }),
        json!({ "cwd": "/tmp", "columns": 0, "rows": 10 }),
    ] {
        let error = wire.no("host.open_terminal", params).await;
        assert_eq!(error["data"]["reason"], "cannot_start", "{error}");
    }
    let error = wire
        .no("host.open_terminal", json!({ "cwd": "relative" }))
        .await;
    assert!(
        error["message"].as_str().unwrap().contains("the folder"),
        "{error}"
    );
    assert_eq!(wire.ok("host.own_terminals", json!({})).await, json!([]));
}
