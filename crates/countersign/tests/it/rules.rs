//! Rules and grants through the doors: what settles an ask, what does not, and who may change it.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::agent::Agent;
use crate::host::{Host, PATIENCE};
use crate::http::Rest;
use crate::wire::Wire;

/// A host whose user has these rules.
fn host_with(rules: &str) -> Host {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("rules.toml"), rules).unwrap();
    Host::start_in(home, &[])
}

/// A repository with nothing in it.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    folder
}

fn write_project_rules(project: &Path, rules: &str) {
    let folder = project.join(".countersign");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("rules.toml"), rules).unwrap();
}

fn ask_in(folder: &Path, command: &str) -> Value {
    json!({
        "action": "work", "system_level": true, "tool": "Bash",
        "input": { "command": command }, "cwd": folder.canonicalize().unwrap(),
    })
}

async fn ask(wire: &mut Wire, folder: &Path, command: &str) -> Value {
    wire.ok("host.request_approval", ask_in(folder, command))
        .await
}

fn state(row: &Value) -> &str {
    row["state"].as_str().unwrap()
}

async fn state_of(wire: &mut Wire, row: &Value) -> String {
    let params = json!({ "approval_id": row["id"] });
    state(&wire.ok("host.approval", params).await).to_owned()
}

/// Waits until an edit of a file is noticed: the rules say this of a command.
async fn until(wire: &mut Wire, folder: &Path, command: &str, effect: &str) {
    let begin = std::time::Instant::now();
    loop {
        let params = json!({
            "tool": "Bash", "input": { "command": command }, "cwd": folder.canonicalize().unwrap(),
        });
        let checked = wire.ok("host.check_rules", params).await;
        if checked["verdict"]["effect"] == effect {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{command}: {checked}");
    }
}

#[tokio::test]
async fn a_rule_in_the_users_file_settles_an_ask_at_once() {
    let host = host_with("allow = [\n  \"Bash(git status:*)\",\n]\n");
    let project = project();
    let mut wire = Wire::operator(&host).await;
    let row = ask(&mut wire, project.path(), "git status --short").await;
    assert_eq!(
        (state(&row), &row["resolution"], &row["resolved_by"]["role"]),
        ("allowed", &json!("approve"), &json!("host"))
    );
    let file = host.home().join("rules.toml");
    let file = file.to_str().unwrap();
    let part = json!({
        "kind": "command", "subject": "git status --short", "effect": "allow", "floor": false,
        "rule": { "rule": "Bash(git status:*)", "effect": "allow", "source": file, "line": 2 },
    });
    assert_eq!(row["verdict"]["effect"], "allow");
    assert_eq!(row["verdict"]["parts"], json!([part]));
    let text = row["verdict"]["text"].as_str().unwrap();
    assert!(text.contains(&format!("{file}:2")), "{text}");
    let mixed = ask(&mut wire, project.path(), "git status && make").await;
    let effects: Vec<_> = mixed["verdict"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["effect"].as_str().unwrap())
        .collect();
    assert_eq!((state(&mixed), effects), ("pending", vec!["allow", "ask"]));
}

#[tokio::test]
async fn a_rule_that_denies_names_itself_to_the_asker() {
    let host = host_with("allow = [\"Bash(git:*)\"]\ndeny = [\"Bash(git push:*)\"]\n");
    let project = project();
    let mut wire = Wire::operator(&host).await;
    let row = ask(
        &mut wire,
        project.path(),
        "git status; env git push --force",
    )
    .await;
    assert_eq!(
        (state(&row), &row["resolution"]),
        ("denied", &json!("deny"))
    );
    let message = row["message"].as_str().unwrap();
    assert!(message.contains("Bash(git push:*)"), "{message}");
}

#[tokio::test]
async fn a_remembered_answer_settles_what_waits_and_what_comes() {
    let host = Host::start();
    let (here, elsewhere) = (project(), project());
    let mut wire = Wire::operator(&host).await;
    let first = ask(&mut wire, here.path(), "cargo test").await;
    let waiting = ask(&mut wire, here.path(), "cargo test").await;
    let other = ask(&mut wire, elsewhere.path(), "cargo test").await;
    let different = ask(&mut wire, here.path(), "cargo publish").await;
    let remember = json!({ "rules": ["Bash(cargo test:*)"], "scope": "project" });
    let params = json!({
        "approval_id": first["id"], "resolution": "approve", "remember": remember,
    });
    let answered = wire.ok("host.resolve_approval", params).await;
    let grant = &answered["remembered"][0];
    assert_eq!(
        (&grant["rule"], &grant["origin"], &grant["effect"]),
        (&json!("Bash(cargo test:*)"), &first["id"], &json!("allow"))
    );
    assert!(grant["expires_at"].is_string(), "{grant}");
    let next = ask(&mut wire, here.path(), "cargo test --workspace").await;
    assert_eq!(next["verdict"]["parts"][0]["rule"]["grant"], grant["id"]);
    let states = [
        state_of(&mut wire, &waiting).await,
        state_of(&mut wire, &next).await,
        state_of(&mut wire, &other).await,
        state_of(&mut wire, &different).await,
    ];
    assert_eq!(states, ["allowed", "allowed", "pending", "pending"]);
    let listed = wire.ok("host.rules", json!({})).await;
    assert_eq!(listed["grants"][0]["fired"], 2, "{listed}");
}

#[tokio::test]
async fn the_usual_memory_is_the_narrowest_rule_for_the_project() {
    let host = Host::start();
    let here = project();
    let mut wire = Wire::operator(&host).await;
    let first = ask(&mut wire, here.path(), "cargo test -p core").await;
    let params = json!({ "approval_id": first["id"] });
    let suggested = wire.ok("host.suggest_rules", params).await;
    let narrowest = &suggested["candidates"][0]["rule"];
    let params = json!({
        "approval_id": first["id"], "resolution": "approve", "remember": true,
    });
    let answered = wire.ok("host.resolve_approval", params).await;
    assert_eq!(answered["remembered"][0]["rule"], *narrowest, "{suggested}");
    assert!(answered["remembered"][0]["scope"]["project"].is_string());
    let again = ask(&mut wire, here.path(), "cargo test -p core").await;
    assert_eq!(state(&again), "allowed");
}

#[tokio::test]
async fn a_denial_is_remembered_too() {
    let host = host_with("allow = [\"Bash(cargo:*)\"]\n");
    let here = project();
    let mut wire = Wire::operator(&host).await;
    let first = ask(&mut wire, here.path(), "make deploy").await;
    let remember = json!({ "rules": ["Bash(make deploy)"], "scope": "always" });
    let params = json!({
        "approval_id": first["id"], "resolution": "deny", "remember": remember,
    });
    wire.ok("host.resolve_approval", params).await;
    let again = ask(&mut wire, here.path(), "cargo test && make deploy").await;
    assert_eq!(state(&again), "denied");
}

#[tokio::test]
async fn a_grant_for_one_use_fires_once_and_a_revoked_one_never() {
    let mut host = Host::start();
    let here = project();
    let token = host.token();
    let mut wire = Wire::operator(&host).await;
    let params = json!({ "rule": "Bash(make)", "uses": 1 });
    wire.ok("host.add_rule", params).await;
    let first = ask(&mut wire, here.path(), "make").await;
    let second = ask(&mut wire, here.path(), "make").await;
    assert_eq!((state(&first), state(&second)), ("allowed", "pending"));
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let added = rest
        .send("POST", "/api/v1/rules", json!({ "rule": "Bash(ls:*)" }))
        .await;
    assert_eq!(added.status, 200, "{added:?}");
    let id = added.json()["id"].as_str().unwrap().to_owned();
    let allowed = ask(&mut wire, here.path(), "ls -l").await;
    let removed = rest
        .send(
            "DELETE",
            &format!("/api/v1/rules/{}", &id[..12]),
            Value::Null,
        )
        .await;
    assert_eq!((removed.status, &removed.json()["fired"]), (200, &json!(1)));
    let asked = ask(&mut wire, here.path(), "ls -l").await;
    assert_eq!((state(&allowed), state(&asked)), ("allowed", "pending"));
    let again = rest
        .send("DELETE", &format!("/api/v1/rules/{id}"), Value::Null)
        .await;
    assert_eq!(again.refusal(), (404, "unknown_rule".to_owned()));
    host.restart();
    let mut wire = Wire::operator(&host).await;
    let third = ask(&mut wire, here.path(), "make").await;
    assert_eq!(state(&third), "pending");
}

#[tokio::test]
async fn grants_outlive_the_host() {
    let mut host = Host::start();
    let here = project();
    let mut wire = Wire::operator(&host).await;
    let folder = here.path().canonicalize().unwrap();
    let params =
        json!({ "rule": "Bash(cargo test:*)", "project": folder, "expires_in_ms": 3_600_000 });
    let added = wire.ok("host.add_rule", params).await;
    ask(&mut wire, here.path(), "cargo test").await;
    host.restart();
    let mut wire = Wire::operator(&host).await;
    let row = ask(&mut wire, here.path(), "cargo test").await;
    assert_eq!(state(&row), "allowed");
    let listed = wire.ok("host.rules", json!({})).await;
    let grant = &listed["grants"][0];
    assert_eq!((&grant["id"], &grant["fired"]), (&added["id"], &json!(2)));
}

#[tokio::test]
async fn an_agent_changes_no_rule_by_any_door() {
    let host = Host::start();
    let here = project();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    let asked = agent
        .ok("host.request_approval", ask_in(here.path(), "make"))
        .await;
    let calls = [
        ("host.rules", json!({})),
        ("host.add_rule", json!({ "rule": "Bash" })),
        ("host.remove_rule", json!({ "id": "grant-1" })),
        ("host.check_rules", json!({ "tool": "Bash" })),
        ("host.backtest_rule", json!({ "rule": "Bash(make)" })),
        ("host.suggest_rules", json!({ "approval_id": asked["id"] })),
        ("host.suggest_rules", json!({})),
        ("host.untrusted_rules", json!({})),
        ("host.trust_rules", json!({ "file": "/x", "digest": "0" })),
        (
            "host.set_bypass",
            json!({ "agent_id": "coder", "for_ms": 1000 }),
        ),
    ];
    for (method, params) in calls {
        let error = agent.no(method, params).await;
        assert_eq!(error["data"]["reason"], "agent_not_allowed", "{method}");
    }
    let answer = json!({ "approval_id": asked["id"], "resolution": "approve", "remember": true });
    let error = agent.no("host.resolve_approval", answer).await;
    assert_eq!(error["data"]["reason"], "agents_cannot_answer");
    let bearer = format!("Bearer {}", host.token());
    let routes = [
        ("GET", "/api/v1/rules", Value::Null),
        ("POST", "/api/v1/rules", json!({ "rule": "Bash" })),
        ("DELETE", "/api/v1/rules/grant-1", Value::Null),
        ("POST", "/api/v1/rules/check", json!({ "tool": "Bash" })),
        (
            "POST",
            "/api/v1/rules/backtest",
            json!({ "rule": "Bash(make)" }),
        ),
        ("GET", "/api/v1/rules/suggestions", Value::Null),
        (
            "POST",
            "/api/v1/rules/trust",
            json!({ "file": "/x", "digest": "0" }),
        ),
        (
            "POST",
            "/api/v1/agents/coder/bypass",
            json!({ "for_ms": 1000 }),
        ),
    ];
    for (method, path, body) in routes {
        let request = json!({
            "method": method, "path": path, "body": body, "headers": [["authorization", bearer]],
        });
        let answer = agent.http(&host.address, request).await;
        assert_eq!(answer["status"], 403, "{method} {path} {answer}");
    }
    for words in [
        vec!["rules", "add", "Bash"],
        vec!["rules", "import", "--write"],
        vec!["bypass", "coder", "--for", "1h"],
        vec!["rules", "trust", "--yes", here.path().to_str().unwrap()],
        vec![
            "approve",
            asked["id"].as_str().unwrap(),
            "--remember",
            "--rule",
            "Bash",
        ],
    ] {
        let ended = agent.run(&words).await;
        assert_eq!(ended["code"], 10, "{words:?} {ended}");
    }
    let listed = operator.ok("host.rules", json!({})).await;
    assert_eq!(listed["grants"], json!([]));
    assert_eq!(state_of(&mut operator, &asked).await, "pending");
}

#[tokio::test]
async fn an_observer_sees_rules_and_changes_none() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let made = operator
        .ok("host.create_token", json!({ "role": "observer" }))
        .await;
    let mut observer = Wire::connect(&host, made["token"].as_str().unwrap()).await;
    observer.ok("host.rules", json!({})).await;
    let params = json!({ "tool": "Bash", "input": { "command": "ls" }, "cwd": "/" });
    let checked = observer.ok("host.check_rules", params).await;
    assert_eq!(checked["verdict"]["effect"], "ask");
    for (method, params) in [
        ("host.add_rule", json!({ "rule": "Bash(ls)" })),
        ("host.remove_rule", json!({ "id": "grant-1" })),
        ("host.trust_rules", json!({ "file": "/x", "digest": "0" })),
        (
            "host.set_bypass",
            json!({ "agent_id": "coder", "for_ms": 1000 }),
        ),
    ] {
        let error = observer.no(method, params).await;
        assert_eq!(
            error["data"]["reason"], "observer_cannot_change",
            "{method}"
        );
    }
}

#[tokio::test]
async fn a_bypass_is_seen_everywhere_lifts_no_deny_and_ends() {
    let host = host_with("deny = [\"Bash(rm:*)\"]\n");
    let here = project();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    agent
        .ok("host.register_agent", json!({ "name": "coder" }))
        .await;
    let params = json!({ "agent_id": "coder", "for_ms": 600_000 });
    let row = operator.ok("host.set_bypass", params).await;
    assert!(row["bypass_until"].is_string(), "{row}");
    let status = operator.ok("host.status", json!({})).await;
    assert_eq!(status["bypassed"][0]["agent_id"], "coder");
    let snapshot = operator.ok("host.subscribe", json!({})).await;
    assert_eq!(snapshot["agents"][0]["bypass_until"], row["bypass_until"]);
    let mut states = Vec::new();
    for command in ["make", "make && rm x", "echo > .git/config"] {
        let asked = agent
            .ok("host.request_approval", ask_in(here.path(), command))
            .await;
        states.push(state(&asked).to_owned());
    }
    assert_eq!(states, ["allowed", "denied", "pending"]);
    let params = json!({ "agent_id": "coder", "for_ms": null });
    let row = operator.ok("host.set_bypass", params).await;
    assert_eq!(row.get("bypass_until"), None);
    let asked = agent
        .ok("host.request_approval", ask_in(here.path(), "make"))
        .await;
    assert_eq!(state(&asked), "pending");
    let params = json!({ "agent_id": "coder", "for_ms": 1 });
    operator.ok("host.set_bypass", params).await;
    let begin = std::time::Instant::now();
    while operator.ok("host.status", json!({})).await["bypassed"] != json!([]) {
        assert!(begin.elapsed() < PATIENCE, "the bypass did not end");
    }
    let asked = agent
        .ok("host.request_approval", ask_in(here.path(), "make clean"))
        .await;
    assert_eq!(state(&asked), "pending");
}

#[tokio::test]
async fn a_file_that_breaks_keeps_its_denies_and_allows_nothing_until_mended() {
    let rules = "allow = [\"Bash(make)\"]\ndeny = [\"Bash(rm:*)\"]\n";
    let host = host_with(rules);
    let here = project();
    let mut wire = Wire::operator(&host).await;
    wire.ok("host.add_rule", json!({ "rule": "Bash(ls)" }))
        .await;
    let file = host.home().join("rules.toml");
    std::fs::write(&file, format!("{rules}deny = [\"Bash(\"]\n")).unwrap();
    until(&mut wire, here.path(), "make", "ask").await;
    let mut states = Vec::new();
    for command in ["make", "ls", "rm x"] {
        states.push(state(&ask(&mut wire, here.path(), command).await).to_owned());
    }
    assert_eq!(states, ["pending", "pending", "denied"]);
    let status = wire.ok("host.status", json!({})).await;
    let problem = &status["rule_problems"][0];
    assert_eq!(
        (&problem["file"], &problem["line"], &problem["suspends"]),
        (&json!(file), &json!(3), &json!(true)),
        "{status}"
    );
    let snapshot = wire.ok("host.subscribe", json!({})).await;
    assert_eq!(snapshot["rule_problems"], status["rule_problems"]);
    std::fs::write(&file, rules).unwrap();
    until(&mut wire, here.path(), "make", "allow").await;
    assert_eq!(state(&ask(&mut wire, here.path(), "make").await), "allowed");
    let status = wire.ok("host.status", json!({})).await;
    assert_eq!(status["rule_problems"], json!([]));
}

#[tokio::test]
async fn a_projects_file_tightens_at_once_and_loosens_only_when_trusted() {
    let host = host_with("allow = [\"Bash(make:*)\"]\n");
    let here = project();
    let mut wire = Wire::operator(&host).await;
    write_project_rules(
        here.path(),
        "allow = [\"Bash(cargo test:*)\"]\ndeny = [\"Bash(make deploy)\"]\n",
    );
    until(&mut wire, here.path(), "make deploy", "deny").await;
    let denied = ask(&mut wire, here.path(), "make deploy").await;
    let waits = ask(&mut wire, here.path(), "cargo test").await;
    assert_eq!((state(&denied), state(&waits)), ("denied", "pending"));
    let folder = here.path().canonicalize().unwrap();
    let listed = wire.ok("host.rules", json!({ "cwd": folder })).await;
    let file = &listed["untrusted"][0];
    let text = "allow = [\"Bash(cargo test:*)\"]\ndeny = [\"Bash(make deploy)\"]\n";
    let digest = countersign_core::hex(&Sha256::digest(text));
    let untrusted = json!([{ "file": file, "digest": digest, "text": text }]);
    let params = json!({ "cwd": folder });
    assert_eq!(wire.ok("host.untrusted_rules", params).await, untrusted);
    let trust = |digest: &str| json!({ "file": file, "digest": digest });
    wire.ok("host.trust_rules", trust(&"0".repeat(64))).await;
    assert_eq!(state_of(&mut wire, &waits).await, "pending");
    let trusted = std::process::Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(["rules", "trust", "--yes", folder.to_str().unwrap()])
        .env("COUNTERSIGN_HOME", host.home())
        .output()
        .unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    let shown = String::from_utf8_lossy(&trusted.stdout);
    assert!(shown.contains("allow Bash(cargo test:*)"), "{shown}");
    assert_eq!(state_of(&mut wire, &waits).await, "allowed");
    write_project_rules(here.path(), "allow = [\"Bash(cargo:*)\"]\n");
    until(&mut wire, here.path(), "cargo test", "ask").await;
    let edited = ask(&mut wire, here.path(), "cargo test").await;
    assert_eq!(state(&edited), "pending", "an edit needs trust again");
}

#[tokio::test]
async fn a_name_counts_only_where_an_operator_gave_it_and_a_session_only_while_it_lasts() {
    let host = Host::start();
    let here = project();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    let mut other = Agent::connected(&host, &mut operator, "other").await;
    let name = json!({ "name": "coder" });
    agent.ok("host.register_agent", name.clone()).await;
    other.ok("host.register_agent", name).await;
    for (command, scope) in [("make a", "agent"), ("make b", "session")] {
        let asked = agent
            .ok("host.request_approval", ask_in(here.path(), command))
            .await;
        let params = json!({
            "approval_id": asked["id"], "resolution": "approve",
            "remember": { "rules": [format!("Bash({command})")], "scope": scope },
        });
        operator.ok("host.resolve_approval", params).await;
    }
    let mut states = Vec::new();
    for command in ["make a", "make b"] {
        for agent in [&mut agent, &mut other] {
            let asked = agent
                .ok("host.request_approval", ask_in(here.path(), command))
                .await;
            states.push(state(&asked).to_owned());
        }
    }
    assert_eq!(states, ["allowed", "pending", "allowed", "pending"]);
    agent
        .ok("host.unregister_agent", json!({ "agent_id": "coder" }))
        .await;
    let grants = operator.ok("host.rules", json!({})).await["grants"].take();
    let scopes: Vec<_> = grants
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["scope"].clone())
        .collect();
    assert_eq!(scopes, [json!({ "agent": "coder" })]);
}

#[tokio::test]
async fn a_misspelt_leash_or_an_edited_input_remembers_nothing() {
    let host = Host::start();
    let here = project();
    let mut wire = Wire::operator(&host).await;
    let asked = ask(&mut wire, here.path(), "make").await;
    let answer = |remember: Value, edited: Value| {
        json!({
            "approval_id": asked["id"], "resolution": "approve", "remember": remember,
            "edited_input": edited,
        })
    };
    let edited = json!({ "command": "make clean" });
    for (params, reason) in [
        (
            answer(json!({ "scop": "session" }), Value::Null),
            "invalid_params",
        ),
        (
            answer(json!({ "rules": ["Bash("] }), Value::Null),
            "bad_rule",
        ),
        (answer(json!({ "uses": 0 }), Value::Null), "bad_rule"),
        (answer(json!(true), edited), "bad_rule"),
    ] {
        let error = wire.no("host.resolve_approval", params.clone()).await;
        assert_eq!(error["data"]["reason"], reason, "{params} {error}");
    }
    assert_eq!(state_of(&mut wire, &asked).await, "pending");
    let listed = wire.ok("host.rules", json!({})).await;
    assert_eq!(listed["grants"], json!([]));
}

#[tokio::test]
async fn every_operation_on_rules_has_its_route() {
    let host = host_with("allow = [\"Bash(ls)\"]\n");
    let here = project();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let listed = rest.get("/api/v1/rules?cwd=/").await;
    assert_eq!(listed.json()["files"][0]["rule"], "Bash(ls)");
    let relative = rest.get("/api/v1/rules?cwd=x").await;
    assert_eq!(relative.refusal(), (400, "invalid_params".to_owned()));
    let asked = rest
        .send(
            "POST",
            "/api/v1/approvals",
            ask_in(here.path(), "cargo test"),
        )
        .await;
    let path = format!("/api/v1/approvals/{}", asked.json()["id"].as_str().unwrap());
    let suggested = rest.get(&format!("{path}/suggestions")).await.json();
    assert_eq!(suggested["candidates"][0]["rule"], "Bash(cargo test)");
    let body = json!({ "resolution": "approve", "remember": true });
    let answered = rest.send("POST", &format!("{path}/resolution"), body).await;
    assert_eq!(answered.json()["remembered"][0]["rule"], "Bash(cargo test)");
    // Its reply may have been lost: the same request again is answered in the same way.
    let body = json!({ "resolution": "approve", "remember": true });
    let again = rest.send("POST", &format!("{path}/resolution"), body).await;
    assert_eq!(again.json()["remembered"], answered.json()["remembered"]);
    let late = json!({ "resolution": "approve", "remember": { "rules": ["Bash(make:*)"] } });
    let late = rest.send("POST", &format!("{path}/resolution"), late).await;
    assert_eq!(late.refusal(), (409, "already_resolved".to_owned()));
    assert_eq!(late.json()["error"]["remembered"], json!([]), "{late:?}");
    let call = json!({ "tool": "Bash", "input": { "command": "ls; make" }, "cwd": "/" });
    let checked = rest.send("POST", "/api/v1/rules/check", call).await.json();
    assert_eq!(
        checked["verdict"]["text"].as_str().unwrap().lines().count(),
        3
    );
    let rule = json!({ "rule": "Bash(cargo:*)", "effect": "deny" });
    let tested = rest.send("POST", "/api/v1/rules/backtest", rule).await;
    let tested = tested.json();
    assert_eq!(
        (&tested["settled"], &tested["contradicted"][0]["decided"]),
        (&json!(1), &json!("allowed")),
        "{tested}"
    );
    assert_eq!(rest.get("/api/v1/rules/suggestions").await.status, 200);
    let wrong = json!({ "rule": "Bash(" });
    let refused = rest.send("POST", "/api/v1/rules", wrong).await;
    assert_eq!(refused.refusal(), (422, "bad_rule".to_owned()));
    let trust = json!({ "file": "/x/.countersign/rules.toml", "digest": "0".repeat(64) });
    let trusted = rest.send("POST", "/api/v1/rules/trust", trust).await;
    assert_eq!(trusted.status, 204, "{trusted:?}");
    rest.send("POST", "/api/v1/agents", json!({ "id": "a", "name": "A" }))
        .await;
    let bypass = json!({ "for_ms": 60_000 });
    let row = rest.send("POST", "/api/v1/agents/a/bypass", bypass).await;
    assert!(row.json()["bypass_until"].is_string(), "{row:?}");
}

#[tokio::test]
async fn the_users_rules_are_denied_to_agents_wherever_they_are() {
    let host = host_with("allow = [\"Bash\", \"Edit\", \"Read\"]\n");
    let mut wire = Wire::operator(&host).await;
    let home = host.home().display();
    let cases = [
        ("Edit", "file_path", format!("{home}/rules.toml"), "deny"),
        (
            "Read",
            "file_path",
            format!("{home}/countersign.db-wal"),
            "deny",
        ),
        ("Read", "file_path", format!("{home}/project/x"), "allow"),
        ("Bash", "command", format!("mv {home} /tmp/x"), "ask"),
    ];
    for (tool, field, value, effect) in cases {
        let params = json!({ "tool": tool, "input": { field: value }, "cwd": "/" });
        let checked = wire.ok("host.check_rules", params).await;
        assert_eq!(checked["verdict"]["effect"], effect, "{value}: {checked}");
    }
}

#[tokio::test]
async fn nothing_names_no_rule() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let deny = json!({ "rule": "Bash(rm:*)", "effect": "deny" });
    let added = wire.ok("host.add_rule", deny).await;
    let id = added["id"].as_str().unwrap();
    for id in ["", "grant-"] {
        let error = wire.no("host.remove_rule", json!({ "id": id })).await;
        assert_eq!(error["data"]["reason"], "unknown_rule", "{error}");
    }
    let begin = id[..10].to_owned();
    let removed = wire.ok("host.remove_rule", json!({ "id": begin })).await;
    assert_eq!(removed["id"], id);
}
