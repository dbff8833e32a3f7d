//! One cell of the table, played: an agent asks, somebody is killed at a moment, and what became of
//! it is seen from outside.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Kind, Moment, Victim};
use crate::host::{PATIENCE, poll};
use crate::scene::{Scene, asks, line_of, next_ask, rested, terminal, told};
use crate::wire::Wire;

/// What the agent says of a terminal that it used.
const TERMINAL_USED: &str = "\
    terminal/create: {\"terminalId\":\"term-1\"}\
    terminal/wait_for_exit: {\"exitCode\":0,\"signal\":null}\
    terminal/output: {\"output\":\"\",\"truncated\":false,\"exitStatus\":{\"exitCode\":0,\"signal\":null}}\
    terminal/release: {}";

/// What a person's no becomes for an agent that wished for something.
macro_rules! denied {
    () => {
        r#"{"code":-32010,"message":"not permitted: deny by script"}"#
    };
}

/// What everybody can see once it is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The answers that people were asked for again after the kill.
    pub(super) answered_again: usize,
    /// How each ask ended, and what is known of telling it.
    pub(super) asks: Vec<String>,
    /// How often the effect is there.
    pub(super) ran: usize,
    /// The agent's state.
    pub(super) agent: String,
    /// What people read of its end.
    pub(super) words: String,
}

/// A scene in which an agent asks once.
struct Play {
    scene: Scene,
    desk: TempDir,
    kind: Kind,
}

/// Plays a cell; whoever is asked after the kill answers `again`.
pub(super) async fn play(kind: Kind, moment: Moment, victim: Victim, again: &str) -> Seen {
    let mut play = Play::begin(kind, moment);
    let id = play.reach(moment).await;
    let earlier = moment.has_run(kind).then(|| play.wait_for_effect());
    play.kill(victim);
    let mut wire = Wire::operator(&play.scene.host).await;
    play.open("before");
    let seen = if victim == Victim::Host {
        play.open("after");
        let answered_again = play.answer_until_idle(&mut wire, &id, again).await;
        play.see(&mut wire, &id, answered_again).await
    } else {
        rested(&mut wire, &id).await;
        // Its end is on the record only when nothing of it is left.
        assert_eq!(play.scene.described(), Vec::<String>::new());
        play.see(&mut wire, &id, 0).await
    };
    let said = told(&mut wire, &id).await;
    play.check_story(&said, moment, (victim, &seen));
    if let Some(earlier) = earlier {
        assert_eq!(play.trace(), Some(earlier), "it was done again");
    }
    play.scene.end_all(&mut wire).await;
    poll("its runner to go", || {
        play.scene.runners().is_empty().then_some(())
    });
    seen
}

/// What people read of an agent whose runner is killed when the host has heard a word of it.
pub(super) async fn last_words() -> String {
    let desk = tempfile::tempdir().unwrap();
    let hold = desk.path().join("hold");
    let at = format!("text_heard:1:{}", hold.display());
    let scene = Scene::begin(&[("COUNTERSIGN_HOLD_AT", &at)]);
    let mut wire = Wire::operator(&scene.host).await;
    let id = scene
        .spawn(&mut wire, "ann", &json!([{ "say": "hello" }, "silence"]))
        .await;
    poll("the word", || hold.exists().then_some(()));
    kill_and_wait(&scene.runners());
    std::fs::remove_file(&hold).unwrap();
    rested(&mut wire, &id).await;
    told(&mut wire, &id).await
}

/// What is to be seen, said and read when the host is killed right after it wrote a file, and somebody
/// else changes the file before the next one comes.
pub(super) async fn file_changed_meanwhile(moment: Moment) -> (Seen, String, Vec<String>) {
    let mut play = Play::begin(Kind::Write, moment);
    let id = play.reach(moment).await;
    play.wait_for_effect();
    play.scene.host.kill();
    std::fs::write(play.scene.path("effects"), "theirs\n").unwrap();
    play.open("after");
    play.scene.host.start_disarmed();
    let mut wire = Wire::operator(&play.scene.host).await;
    let answered_again = play.answer_until_idle(&mut wire, &id, "approve").await;
    let seen = play.see(&mut wire, &id, answered_again).await;
    let said = told(&mut wire, &id).await;
    play.scene.end_all(&mut wire).await;
    (seen, said, play.scene.effects())
}

impl Play {
    /// With a host that stands still at the moment, or an agent that does.
    fn begin(kind: Kind, moment: Moment) -> Self {
        let desk = tempfile::tempdir().unwrap();
        let hold = desk.path().join("hold");
        let hold = format!("{}:1:{}", moment.point, hold.display());
        let scene = Scene::begin(&[("COUNTERSIGN_HOLD_AT", &hold)]);
        let play = Self { scene, desk, kind };
        if moment.point.is_empty() {
            play.close("before");
        }
        play.close("after");
        play
    }

    fn path(&self, name: &str) -> PathBuf {
        self.desk.path().join(name)
    }

    /// Whoever comes to this gate waits.
    fn close(&self, gate: &str) {
        std::fs::write(self.path(gate), "").unwrap();
    }

    fn open(&self, gate: &str) {
        drop(std::fs::remove_file(self.path(gate)));
    }

    /// A step that says that the agent came to a gate, and waits there while it is closed.
    fn gate(&self, name: &str) -> Value {
        let gate = self.path(name);
        let gate = gate.display();
        json!({ "run": format!("touch {gate}.reached; while [ -e {gate} ]; do sleep 0.01; done") })
    }

    /// What the agent asks for, as a person and its words show it.
    fn wish(&self) -> String {
        match self.kind {
            Kind::Permission | Kind::Terminal => self.scene.adds("once"),
            Kind::Write => format!("Write {}", self.scene.path("effects")),
        }
    }

    /// An agent that leaves a daemon, asks for one thing, and waits before it ends its turn.
    fn steps(&self) -> Value {
        let wish = self.wish();
        let asking = match self.kind {
            Kind::Permission => asks("a1", &wish, &json!([{ "run": wish }])),
            Kind::Terminal => terminal(&wish),
            Kind::Write => {
                json!({ "write": { "path": self.scene.path("effects"), "content": "once\n" } })
            }
        };
        json!([
            { "run": "(setsid sleep 1000 > /dev/null 2>&1 &)" },
            self.gate("before"),
            { "say": "<" },
            asking,
            { "say": ">" },
            self.gate("after"),
        ])
    }

    /// Goes on until the moment has come, and gives the agent.
    async fn reach(&self, moment: Moment) -> Value {
        let mut wire = Wire::subscriber(&self.scene.host).await;
        let id = self.scene.spawn(&mut wire, "ann", &self.steps()).await;
        if moment.is_answered() {
            let asked = next_ask(&mut wire).await;
            let params = json!({ "approval_id": asked["id"], "resolution": moment.answer });
            // The host may stand still before it replies.
            wire.request("host.resolve_approval", params).await;
        }
        let sign = if moment.point.is_empty() {
            "before.reached"
        } else {
            "hold"
        };
        poll("the moment", || self.path(sign).exists().then_some(()));
        id
    }

    fn wait_for_effect(&self) -> (u64, i64) {
        poll("the effect", || {
            (self.scene.effects() == ["once"]).then(|| self.trace())?
        })
    }

    /// What changes whenever somebody writes the effect again.
    fn trace(&self) -> Option<(u64, i64)> {
        let found = std::fs::metadata(self.scene.path("effects")).ok()?;
        Some((found.ino(), found.mtime_nsec()))
    }

    /// Kills somebody and has the host go on, or the next one.
    fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::Host => {
                self.scene.host.kill();
                self.open("hold");
                self.scene.host.start_disarmed();
            }
            Victim::Runner => kill_and_wait(&self.scene.runners()),
            Victim::Agent => {
                // What the agent is about to start looks like it for a moment.
                let runners = self.scene.runners();
                let mut agents = self.scene.processes();
                agents.retain(|pid| line_of(*pid).contains(" demo agent"));
                agents.retain(|pid| runners.iter().any(|runner| is_child(*pid, *runner)));
                kill_and_wait(&agents);
            }
        }
        self.open("hold");
    }

    /// Answers whatever is asked until the agent rests; says how often that was.
    async fn answer_until_idle(&self, wire: &mut Wire, id: &Value, again: &str) -> usize {
        let begin = std::time::Instant::now();
        let mut answered = 0;
        loop {
            let asks = rows(wire, "host.approvals").await;
            for ask in asks.iter().filter(|ask| ask["state"] == "pending") {
                let params = json!({ "approval_id": ask["id"], "resolution": again });
                wire.ok("host.resolve_approval", params).await;
                answered += 1;
            }
            let settled = asks.iter().all(is_settled);
            let agents = rows(wire, "host.agents").await;
            let agent = agents.iter().find(|agent| agent["id"] == *id).unwrap();
            if settled && agent["state"] != "running" && agent["state"] != "awaiting_permission" {
                return answered;
            }
            assert!(begin.elapsed() < PATIENCE, "{agent}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Nothing is missing in what the agent said and nothing is there twice; one that was killed may
    /// have been heard less far, but not less than what came before its ask.
    fn check_story(&self, said: &str, moment: Moment, (victim, seen): (Victim, &Seen)) {
        let is_denied = seen.asks == ["denied, delivered"];
        let answered = match (self.kind, is_denied) {
            (Kind::Permission, false) => "ran: ",
            (Kind::Permission, true) => "a1 was denied",
            (Kind::Terminal, false) => TERMINAL_USED,
            (Kind::Terminal, true) => concat!("terminal/create failed: ", denied!()),
            (Kind::Write, false) => "fs/write_text_file: {}",
            (Kind::Write, true) => concat!("fs/write_text_file failed: ", denied!()),
        };
        let whole = format!("ran: ran: <{answered}>ran: ");
        if victim == Victim::Host {
            assert_eq!(said, whole);
        } else {
            assert!(whole.starts_with(said), "{said}");
            assert!(
                moment.point.is_empty() || said.starts_with("ran: ran: <"),
                "{said}"
            );
        }
    }

    async fn see(&self, wire: &mut Wire, id: &Value, answered_again: usize) -> Seen {
        let asks = rows(wire, "host.approvals").await;
        let word = |ask: &Value, key: &str| ask[key].as_str().unwrap_or("nothing").to_owned();
        let asks = asks
            .iter()
            .map(|ask| format!("{}, {}", word(ask, "state"), word(ask, "delivery")));
        let agents = rows(wire, "host.agents").await;
        let agent = agents.iter().find(|agent| agent["id"] == *id).unwrap();
        let words = agent["managed"]["message"].as_str().unwrap_or_default();
        Seen {
            answered_again,
            asks: asks.collect(),
            ran: self.scene.effects().len(),
            agent: word(agent, "state"),
            words: words.replace(&self.wish(), "THE WISH"),
        }
    }
}

/// Whether nothing more will be known of telling how an ask ended.
fn is_settled(ask: &Value) -> bool {
    ask["delivery"].is_string() && ask["delivery"] != "attempted"
}

async fn rows(wire: &mut Wire, method: &str) -> Vec<Value> {
    let listed = wire.ok(method, json!({})).await;
    listed.as_array().unwrap().clone()
}

fn is_child(pid: i32, parent: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains(&format!("\nPPid:\t{parent}\n"))
}

/// What was killed is gone when this returns.
fn kill_and_wait(pids: &[i32]) {
    assert_eq!(pids.len(), 1, "{pids:?}");
    for pid in pids {
        kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
        poll("it to end", || has_ended(*pid).then_some(()));
    }
}

/// Whether it holds no pipe any more: every thread of it has ended, whoever has yet to hear of it.
fn has_ended(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.map_or(0, Iterator::count);
    status.is_empty() || (status.contains("\nState:\tZ") && threads <= 1)
}
