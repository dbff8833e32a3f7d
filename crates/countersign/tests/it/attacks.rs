//! Agents that try to pass for a person by what they do with the descriptors of their connections. Each attack is played
//! from inside a managed agent, an external one and a session with hooks, by every door, with an operator's token
//! that the attacker came to know and without one.

mod attacker;
mod descriptors;
mod requests;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::Agent;
use crate::hook::before_tool;
use crate::hook::session::Session;
use crate::host::{Host, poll};
use crate::scene::{Scene, asks};
use crate::wire::Wire;
use attacker::{Attack, Plan, Relay, Trick};
use requests::Target;

/// What another asked, which no agent may read.
const SECRET: &str = "the-ask-of-another";

/// A host with something to answer, and a folder for what attackers leave.
struct Stage<'a> {
    host: &'a Host,
    folder: TempDir,
    person: Wire,
    _relay: Relay,
}

impl<'a> Stage<'a> {
    async fn set(host: &'a Host) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut person = Wire::unix(&host.socket()).await;
        let ask = json!({ "action": SECRET, "system_level": true, "timeout_ms": 600_000 });
        person.ok("host.request_approval", ask).await;
        let relay = Relay::start(&folder.path().join("relay.sock"));
        Self {
            host,
            folder,
            person,
            _relay: relay,
        }
    }

    async fn login_path(&mut self) -> String {
        let made = self.person.ok("host.create_ticket", json!({})).await;
        let url = made["url"].as_str().unwrap();
        let origin = format!("http://{}", self.host.address);
        url.strip_prefix(&origin).unwrap().to_owned()
    }

    /// Every trick by every door. `certain` are the tricks by which a known token must not help.
    async fn attacks(&mut self, approval: &str, certain: &[Trick]) -> Vec<Attack> {
        let (token, ticket) = (self.host.token(), self.login_path().await);
        let target = |token| Target {
            host: &self.host.address,
            approval,
            token,
            ticket: &ticket,
        };
        let unix = format!("unix:{}", self.host.socket().display());
        let mut attacks = Vec::new();
        let mut add = |kind: &str, trick: Trick, address: &str, door: &str, request: Vec<u8>| {
            attacks.push(Attack {
                name: format!("{kind}, {trick:?}, {door}"),
                trick,
                address: address.to_owned(),
                request,
            });
        };
        for trick in possible_tricks() {
            if certain.contains(&trick) {
                for (door, request) in target(Some(&token)).all() {
                    add("known token", trick, &self.host.address, door, request);
                }
            }
            let (rest, frames) = (target(None).rest_answer(), target(None).websocket_answer());
            add("no token", trick, &self.host.address, "rest answer", rest);
            add(
                "no token",
                trick,
                &self.host.address,
                "websocket answer",
                frames,
            );
            // Another user does not even get to the Unix socket.
            let reaches_unix = trick != Trick::OtherUserConnects;
            for (door, request) in target(None).all().into_iter().filter(|_| reaches_unix) {
                add("unix socket", trick, &unix, door, request);
            }
        }
        attacks
    }

    fn write_plan(&self, attacks: Vec<Attack>) -> std::path::PathBuf {
        let plan = Plan {
            attacks,
            relay: self.folder.path().join("relay.sock"),
            answers: self.folder.path().join("answers"),
        };
        let file = self.folder.path().join("plan");
        // An attacker that waits for it must not read half of it.
        let unfinished = self.folder.path().join("plan.tmp");
        std::fs::write(&unfinished, serde_json::to_vec(&plan).unwrap()).unwrap();
        std::fs::rename(unfinished, &file).unwrap();
        file
    }

    /// What came of each attack, by its name.
    fn answers(&self) -> Vec<(String, String)> {
        let file = self.folder.path().join("answers");
        let text = poll("the attacks to end", || std::fs::read(&file).ok());
        std::fs::remove_file(&file).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Nothing was answered, made, shown or given away, and the record names the agent.
    async fn assert_held(&mut self, agent: &str, approval: &str, tokens: usize) {
        let answers = self.answers();
        assert!(answers.len() > 100, "{}", answers.len());
        for (name, answer) in &answers {
            assert_eq!(gained(answer), Vec::<&str>::new(), "{name}: {answer}");
            assert!(
                !answer.starts_with("the child could not"),
                "{name}: {answer}"
            );
        }
        let params = json!({ "approval_id": approval });
        let row = self.person.ok("host.approval", params).await;
        assert_eq!(row["status"], "pending", "{row}");
        let listed = self.person.ok("host.tokens", json!({})).await;
        assert_eq!(listed.as_array().unwrap().len(), tokens, "{listed}");
        let kinds = json!({ "kinds": ["approval.resolve_refused"], "limit": 100 });
        let refused = self.person.ok("host.events", kinds).await;
        let named: Vec<_> = refused
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["agent_id"])
            .collect();
        assert!(!named.is_empty());
        assert!(named.iter().all(|named| *named == agent), "{named:?}");
    }
}

/// What an attacker would have gained by an answer.
fn gained(answer: &str) -> Vec<&'static str> {
    let gains = [
        ("\"state\":\"allowed\"", "an answer"),
        ("\"token\":\"", "a token"),
        ("countersign_session=", "a cookie"),
        (SECRET, "what another asked"),
    ];
    let gained = gains.into_iter().filter(|(sign, _)| answer.contains(sign));
    gained.map(|(_, what)| what).collect()
}

/// Those that this user can play.
#[expect(clippy::print_stderr, reason = "whoever runs the tests must know")]
fn possible_tricks() -> Vec<Trick> {
    let can_change_user = rustix::process::getuid().is_root() && can_run_as_nobody();
    let mut tricks = Trick::ALL.to_vec();
    if !can_change_user {
        eprintln!(
            "left out: tricks with another user's process, which need root and a binary that others can run"
        );
        tricks.retain(|trick| !trick.needs_root());
    }
    tricks
}

fn can_run_as_nobody() -> bool {
    let program = std::env::current_exe().unwrap();
    let mut test = Command::new("setpriv");
    test.args([
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "test",
        "-x",
    ]);
    let ended = test.arg(program).status();
    ended.is_ok_and(|ended| ended.success())
}

/// All but the one in which the hand-over may win against the host's look: without a cgroup that names who created the
/// socket, that is work handed to an unrelated process.
fn without_race() -> Vec<Trick> {
    let mut tricks = possible_tricks();
    tricks.retain(|trick| *trick != Trick::HandedAtOnce);
    tricks
}

#[tokio::test]
async fn an_external_agent_gains_nothing_by_what_it_does_with_descriptors() {
    let host = Host::start();
    let mut stage = Stage::set(&host).await;
    let mut agent = Agent::connected(&host, &mut stage.person, "coder").await;
    let ask = json!({ "action": "rm", "timeout_ms": 600_000 });
    let id = agent.ok("host.request_approval", ask).await["id"].take();
    let id = id.as_str().unwrap();
    let attacks = stage.attacks(id, &without_race()).await;
    let line = attacker::line(&stage.write_plan(attacks));
    let ended = agent.run_program(&["sh", "-c", &line]).await;
    assert_eq!(ended["code"], 0, "{ended}");
    stage.assert_held("coder", id, 2).await;
}

#[tokio::test]
async fn a_session_with_hooks_gains_nothing_by_what_it_does_with_descriptors() {
    let host = Host::start();
    let mut stage = Stage::set(&host).await;
    let mut session = Session::start(host.home());
    let waiting = session.hook(&before_tool("1f3220cb", "t1", "make"));
    let id = own_ask(&mut stage.person).await;
    let attacks = stage.attacks(&id, &without_race()).await;
    let line = attacker::line(&stage.write_plan(attacks));
    session.run_line(&format!("{line} &"));
    stage.assert_held("claude-1f3220cb", &id, 1).await;
    waiting.kill();
}

#[tokio::test]
async fn a_managed_agent_gains_nothing_by_what_it_does_with_descriptors() {
    let scene = Scene::begin(&[]);
    let mut stage = Stage::set(&scene.host).await;
    let status = stage.person.ok("host.status", json!({})).await;
    let certain = if status["containment"]["holds_detached"] == true {
        possible_tricks()
    } else {
        without_race()
    };
    let plan = stage.folder.path().join("plan");
    let attack = attacker::line(&plan);
    let started = format!(
        "(until [ -e {} ]; do sleep 0.05; done; {attack}; true) >/dev/null 2>&1 &",
        plan.display()
    );
    let steps = json!([{ "run": started }, asks("a1", "make", &json!([]))]);
    let agent = scene.spawn(&mut stage.person, "eve", &steps).await;
    let id = own_ask(&mut stage.person).await;
    let attacks = stage.attacks(&id, &certain).await;
    let file = stage.write_plan(attacks);
    assert_eq!(file, plan);
    stage.assert_held(agent.as_str().unwrap(), &id, 1).await;
    scene.end_all(&mut stage.person).await;
}

/// What an agent leaves behind is doubted by every door, whether its session still has a leader or not.
#[tokio::test]
async fn what_an_external_agent_leaves_behind_is_not_believed() {
    for goes_on in ["true", "sleep 60"] {
        let host = Host::start();
        let mut stage = Stage::set(&host).await;
        let mut agent = Agent::connected(&host, &mut stage.person, "coder").await;
        let ask = json!({ "action": "rm", "timeout_ms": 600_000 });
        let id = agent.ok("host.request_approval", ask).await["id"].take();
        leave_attacker_behind(&mut agent, &stage, goes_on).await;
        let attacks = stage.attacks(id.as_str().unwrap(), &[Trick::None]).await;
        let attacks = attacks.into_iter().filter(|one| one.trick == Trick::None);
        stage.write_plan(attacks.collect());
        for (name, answer) in stage.answers() {
            assert_eq!(gained(&answer), Vec::<&str>::new(), "{name}: {answer}");
            let refused = answer.contains("may belong to an agent") || name.starts_with("no token");
            assert!(refused, "{name}: {answer}");
        }
    }
}

/// Starts an attacker that waits for its plan, and returns when its parent has ended. The leader of its session then
/// does `goes_on`.
async fn leave_attacker_behind(agent: &mut Agent, stage: &Stage<'_>, goes_on: &str) {
    let (plan, left) = (
        stage.folder.path().join("plan"),
        stage.folder.path().join("left"),
    );
    let attack = attacker::line(&plan);
    let waiting = format!(
        "until [ -e {} ]; do sleep 0.05; done; {attack}",
        plan.display()
    );
    let leader = format!("(({waiting}) &); touch {}; {goes_on}", left.display());
    let script = stage.folder.path().join("leader.sh");
    std::fs::write(&script, leader).unwrap();
    let started = format!("setsid sh {} >/dev/null 2>&1 &", script.display());
    agent.run_program(&["sh", "-c", &started]).await;
    poll("the attacker to be left behind", || {
        left.exists().then_some(())
    });
}

/// The ask that is open besides the one of another.
async fn own_ask(person: &mut Wire) -> String {
    for _ in 0..2000 {
        let open = person
            .ok("host.approvals", json!({ "status": "pending" }))
            .await;
        let open = open.as_array().unwrap();
        if let Some(own) = open.iter().find(|row| row["action"] != SECRET) {
            return own["id"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("nothing was asked");
}

/// The same requests from a process that is nobody's, so that a refusal above is one of the caller.
#[tokio::test]
async fn who_is_no_agent_and_does_not_hide_is_served() {
    let host = Host::start();
    let mut stage = Stage::set(&host).await;
    let (mut attacks, token) = (Vec::new(), host.token());
    for trick in [Trick::None, Trick::TwoHolders, Trick::HandedBeforeRequest] {
        let ask = json!({ "action": "x", "system_level": true, "timeout_ms": 600_000 });
        for door in 0..8 {
            let id = stage.person.ok("host.request_approval", ask.clone()).await["id"].take();
            let target = Target {
                host: &host.address,
                approval: id.as_str().unwrap(),
                token: Some(&token),
                ticket: &stage.login_path().await,
            };
            let (name, request) = target.all().swap_remove(door);
            attacks.push(Attack {
                name: name.to_owned(),
                trick,
                address: host.address.clone(),
                request,
            });
        }
    }
    let answers = run_apart(&stage, attacks);
    for (door, answer) in &answers {
        let expected: &[&str] = match door.as_str() {
            "rest answer" | "websocket answer" => &["an answer"],
            "rest mint" | "websocket mint" => &["a token"],
            "ticket" => &["a cookie"],
            "mcp" => &[],
            _ => &["what another asked"],
        };
        let gained = gained(answer);
        assert!(
            expected.iter().all(|what| gained.contains(what)),
            "{door}: {answer}"
        );
    }
}

/// Runs attacks from a process that is no agent's.
fn run_apart(stage: &Stage<'_>, attacks: Vec<Attack>) -> Vec<(String, String)> {
    let line = attacker::line(&stage.write_plan(attacks));
    let started = Command::new("sh").args(["-c", &line]).status().unwrap();
    assert!(started.success());
    stage.answers()
}

fn parked_answer(stage: &Stage<'_>, approval: &Value) -> Attack {
    let token = stage.host.token();
    let target = Target {
        host: &stage.host.address,
        approval: approval.as_str().unwrap(),
        token: Some(&token),
        ticket: "",
    };
    Attack {
        name: "parked".to_owned(),
        trick: Trick::ParkedAfterRequest,
        address: stage.host.address.clone(),
        request: target.rest_answer(),
    }
}

async fn answer_while_parked(home: TempDir) -> (String, Value) {
    let host = Host::start_in(home, &[]);
    let mut stage = Stage::set(&host).await;
    let ask = json!({ "action": "x", "system_level": true, "timeout_ms": 600_000 });
    let id = stage.person.ok("host.request_approval", ask).await["id"].take();
    // With an agent about, the host looks at all processes each time.
    let _agent = Agent::connected(&host, &mut stage.person, "coder").await;
    let attack = parked_answer(&stage, &id);
    let (_, answer) = run_apart(&stage, vec![attack]).swap_remove(0);
    let status = stage.person.ok("host.status", json!({})).await;
    (answer, status["unnamed_callers"].clone())
}

#[tokio::test]
async fn a_caller_that_hides_is_nobody_unless_the_operator_allows_it() {
    let (answer, allowed) = answer_while_parked(tempfile::tempdir().unwrap()).await;
    assert_eq!(allowed, false);
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(
        answer.contains("the calling process cannot be identified"),
        "{answer}"
    );
    assert!(answer.contains("unnamed_callers"), "{answer}");

    let home = tempfile::tempdir().unwrap();
    let config = "[server]\nunnamed_callers = true\n";
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let (answer, allowed) = answer_while_parked(home).await;
    assert_eq!(allowed, true);
    assert_eq!(gained(&answer), ["an answer"], "{answer}");
}

/// Even then an agent that is seen is that agent.
#[tokio::test]
async fn where_unnamed_callers_are_allowed_agents_still_cannot_answer() {
    let home = tempfile::tempdir().unwrap();
    let config = "[server]\nunnamed_callers = true\n";
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let host = Host::start_in(home, &[]);
    let mut stage = Stage::set(&host).await;
    let mut agent = Agent::connected(&host, &mut stage.person, "coder").await;
    let ask = json!({ "action": "rm", "timeout_ms": 600_000 });
    let id = agent.ok("host.request_approval", ask).await["id"].take();
    let attacks = [Trick::None, Trick::TwoHolders, Trick::Inherited].map(|trick| Attack {
        trick,
        ..parked_answer(&stage, &id)
    });
    let line = attacker::line(&stage.write_plan(attacks.into()));
    agent.run_program(&["sh", "-c", &line]).await;
    for (_, answer) in stage.answers() {
        assert!(answer.contains("agents_cannot_answer"), "{answer}");
    }
    let said = run_cli(host.home(), "doctor") + &run_cli(host.home(), "status");
    assert_eq!(
        said.matches("over TCP a token is enough").count(),
        2,
        "{said}"
    );
}

fn run_cli(home: &Path, words: &str) -> String {
    let ended = crate::host::command(home)
        .args(words.split(' '))
        .output()
        .unwrap();
    String::from_utf8(ended.stdout).unwrap()
}
