//! Many agents that stream, ask and run commands, while their host is killed and replaced again and
//! again: nothing is lost, nothing comes twice, and no host is larger than the one before.
//!
//! The agents do the same all the time until a file tells them to rest. What they do is known from the
//! number of an ask alone: what is said before it, what it is answered, and by whom.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::managed::{PROGRAM, script};
use crate::scene::{Scene, told};
use crate::wire::Wire;

const AGENTS: usize = 20;
/// Asks of one agent that are open together.
const AT_ONCE: u64 = 2;
/// Lines that are said before each ask.
const LINES: u64 = 5;
const WORDS: &str = "of what is said, with some signs: é ✓ \"\\";
/// How long an agent rests after its answers, about.
const PAUSE_US: u64 = 30_000;
/// More than anybody asks in a test.
const ALWAYS: u64 = 1_000_000;

/// How often the host is killed, unless more is wanted; it is replaced once for each ten.
const KILLS: u64 = 40;
/// After so many hosts the first memory is taken.
const FIRST_HOSTS: u64 = 20;
/// How much longer than the moment it is ready a host lives, at most.
const LIFE_MS: u64 = 200;
/// A host that is killed before it is ready had at most so long.
const BIRTH_MS: u64 = 250;
/// How much more a host may hold at the end: what the store keeps of a record that has grown, which has
/// a bound of 12 MB.
const GROWTH_BYTES: u64 = 12 * 1024 * 1024;

/// Numbers that end with 0, 1 or 2 are allowed by rule, those with 3 are denied by rule, and a person
/// answers the others.
const RULES: &str = "allow = [\"Bash(./job *0)\", \"Bash(./job *1)\", \"Bash(./job *2)\"]\n\
                     deny = [\"Bash(./job *3)\"]\n";

fn is_allowed(number: u64) -> bool {
    number % 10 < 3 || (number % 10 > 3 && number.is_multiple_of(2))
}

/// What the command does, so that running twice shows in two places.
const JOB: &str = "#!/bin/sh\necho $1 >> effects\necho did $1\n";

struct Crowd {
    scene: Scene,
    agents: Vec<Value>,
    random: u64,
    /// How many hosts there have been.
    hosts: u64,
    /// How often the agents were told to work.
    phases: u64,
}

impl Crowd {
    async fn begin() -> Self {
        let mut crowd = Self {
            scene: Scene::begin_with_rules(RULES),
            agents: Vec::new(),
            random: 7,
            hosts: 1,
            phases: 0,
        };
        std::fs::write(crowd.scene.path("quiet.json"), r#"{"quiet":true}"#).unwrap();
        let mut wire = Wire::operator(&crowd.scene.host).await;
        for index in 0..AGENTS {
            let params = crowd.spawn_params(index);
            let id = wire.ok("host.spawn_agent", params).await["id"].take();
            crowd.agents.push(id);
        }
        crowd.rest(&mut wire).await;
        crowd
    }

    fn spawn_params(&self, index: usize) -> Value {
        let folder = self.folder(index);
        std::fs::create_dir(&folder).unwrap();
        let job = folder.join("job");
        std::fs::write(&job, JOB).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&job, executable).unwrap();
        let mut params = self
            .scene
            .spawn_params(&format!("agent-{index}"), &json!([]));
        params["cwd"] = json!(folder);
        let quiet = self.scene.path("quiet.json");
        params["command"] = json!([PROGRAM, "demo", "agent", "--script", quiet]);
        params
    }

    fn folder(&self, index: usize) -> PathBuf {
        self.scene.folder().join(format!("agent-{index}"))
    }

    /// Tells everybody to work until they are told to rest.
    async fn work(&mut self) {
        self.phases += 1;
        let phase = self.phases;
        let steps = json!([{ "ask_many": {
            "count": ALWAYS, "command": format!("./job {phase}-{{n}}"), "ledger": ledger_name(phase),
            "at_once": AT_ONCE, "pause_us": PAUSE_US, "lines": LINES, "words": WORDS, "runs": true,
            "until": self.scene.path(&format!("rest-{phase}")),
        } }]);
        let mut wire = Wire::operator(&self.scene.host).await;
        for agent in &self.agents {
            let params = json!({ "agent_id": agent, "message": script(&steps) });
            wire.ok("host.prompt_agent", params).await;
        }
    }

    /// Tells everybody to rest, and gives the memory of a host that starts then.
    async fn pause(&mut self) -> u64 {
        let file = self.scene.path(&format!("rest-{}", self.phases));
        std::fs::write(file, "").unwrap();
        let mut wire = Wire::operator(&self.scene.host).await;
        self.rest(&mut wire).await;
        self.scene.host.restart();
        let mut wire = Wire::operator(&self.scene.host).await;
        self.rest(&mut wire).await;
        self.scene.host.resident()
    }

    async fn rest(&self, wire: &mut Wire) {
        for agent in &self.agents {
            let params = json!({ "agent_id": agent, "timeout_ms": 25_000 });
            let found = wire.ok("host.wait_agents", params).await;
            let row = &found["agents"][0];
            assert_eq!(
                (&found["reached"], &row["state"]),
                (&json!(true), &json!("idle")),
                "{found}"
            );
        }
    }

    /// The host ends and the next one comes, so often.
    async fn change_hosts(&mut self, kills: u64) {
        for _ in 0..kills {
            self.hosts += 1;
            self.live(LIFE_MS).await;
            let before_ready = self.choose(4) == 0;
            let life = Duration::from_millis(self.choose(BIRTH_MS));
            tokio::task::block_in_place(|| {
                if before_ready {
                    self.scene.host.restart_and_kill(life);
                    self.scene.host.start_disarmed();
                } else {
                    self.scene.host.restart();
                }
            });
            if self.hosts.is_multiple_of(10) {
                self.live(LIFE_MS).await;
                tokio::task::block_in_place(|| self.scene.host.replace());
            }
        }
    }

    /// The moment of a kill is chosen by nobody.
    async fn live(&mut self, most_ms: u64) {
        let life = Duration::from_millis(self.choose(most_ms));
        tokio::time::sleep(life).await;
    }

    fn choose(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % below
    }
}

fn ledger_name(phase: u64) -> String {
    format!("ledger-{phase}")
}

/// Answers whatever is in the inbox, on whichever host, until dropped.
async fn answer_all(socket: PathBuf) {
    loop {
        if let Some(mut wire) = Wire::try_unix(&socket).await {
            while answer_open(&mut wire).await.is_some() {}
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Nothing if the host is gone.
async fn answer_open(wire: &mut Wire) -> Option<()> {
    let params = json!({ "status": "pending", "limit": 100 });
    let open = wire.try_reply("host.approvals", params).await?;
    for ask in open["result"].as_array()? {
        let command = ask["input"]["command"].as_str().unwrap();
        let (_, number) = command.rsplit_once('-').unwrap();
        let resolution = if is_allowed(number.parse().unwrap()) {
            "approve"
        } else {
            "deny"
        };
        let params = json!({ "approval_id": ask["id"], "resolution": resolution });
        let reply = wire.try_reply("host.resolve_approval", params).await?;
        assert!(reply.get("result").is_some(), "{reply}");
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    Some(())
}

/// What was told to an agent: how often each answer to each ask, and answers that nobody waited for.
fn read_ledger(file: &Path) -> (BTreeMap<(u64, String), u64>, Vec<String>) {
    let text = std::fs::read_to_string(file).unwrap();
    let (mut answers, mut rest) = (BTreeMap::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split(' ');
        match words.next().unwrap().parse() {
            Ok(number) => {
                let answer = (number, words.next().unwrap().to_owned());
                *answers.entry(answer).or_default() += 1;
            }
            Err(_) => rest.push(line.to_owned()),
        }
    }
    (answers, rest)
}

fn expected_ledger(count: u64) -> (BTreeMap<(u64, String), u64>, Vec<String>) {
    let answer = |number| if is_allowed(number) { "allow" } else { "deny" };
    let answers = (0..count).map(|number| ((number, answer(number).to_owned()), 1));
    (answers.collect(), vec!["unasked 0".to_owned()])
}

fn jobs(phase: u64, numbers: std::ops::Range<u64>) -> impl Iterator<Item = String> {
    let allowed = numbers.filter(|number| is_allowed(*number));
    allowed.map(move |number| format!("{phase}-{number}"))
}

/// What an agent says that asked so often.
fn expected_story(phase: u64, count: u64) -> String {
    let mut story = String::new();
    for first in (0..count).step_by(usize::try_from(AT_ONCE).unwrap()) {
        let batch = first..count.min(first + AT_ONCE);
        for (number, line) in batch
            .clone()
            .flat_map(|n| (0..LINES).map(move |line| (n, line)))
        {
            writeln!(story, "{number}.{line} {WORDS}").unwrap();
        }
        for job in jobs(phase, batch) {
            writeln!(story, "did {job}").unwrap();
        }
    }
    story
}

/// Returns how often an agent asked.
async fn check_agent(crowd: &Crowd, wire: &mut Wire, index: usize) -> u64 {
    let (mut story, mut effects, mut asked) = (String::new(), Vec::new(), 0);
    for phase in 1..=crowd.phases {
        let ledger = read_ledger(&crowd.folder(index).join(ledger_name(phase)));
        let count = ledger.0.len() as u64;
        assert_eq!(ledger, expected_ledger(count), "agent-{index}");
        story.push_str(&expected_story(phase, count));
        effects.extend(jobs(phase, 0..count));
        asked += count;
    }
    let done = std::fs::read_to_string(crowd.folder(index).join("effects")).unwrap();
    assert_eq!(done.lines().collect::<Vec<_>>(), effects, "agent-{index}");
    let said = told(wire, &crowd.agents[index]).await;
    assert_same(&said, &story, index);
    asked
}

/// Says where two long texts part.
fn assert_same(said: &str, expected: &str, index: usize) {
    let pairs = said.lines().zip(expected.lines());
    let parted = pairs
        .enumerate()
        .find(|(_, (said, expected))| said != expected);
    assert_eq!(parted, None, "agent-{index}");
    assert_eq!(said.len(), expected.len(), "agent-{index}");
}

/// How many events of a kind there are, and about how many approvals.
async fn count_events(wire: &mut Wire, kind: &str, name: &str) -> (usize, usize) {
    let (mut ids, mut count, mut after) = (std::collections::BTreeSet::new(), 0, json!(0));
    loop {
        let params = json!({ "after": after, "limit": 1000, "kinds": kind });
        let page = wire.ok("host.events", params).await;
        let page = page.as_array().unwrap();
        let Some(last) = page.last() else {
            return (count, ids.len());
        };
        after = last["sequence"].clone();
        count += page.len();
        ids.extend(page.iter().map(|event| event["payload"][name].to_string()));
    }
}

async fn check_all(crowd: &Crowd) -> u64 {
    let mut wire = Wire::operator(&crowd.scene.host).await;
    let mut asked = 0;
    for index in 0..AGENTS {
        asked += check_agent(crowd, &mut wire, index).await;
    }
    let all = usize::try_from(asked).unwrap();
    for (kind, name) in [("approval.requested", "id"), ("approval.resolved", "id")] {
        assert_eq!(
            count_events(&mut wire, kind, name).await,
            (all, all),
            "{kind}"
        );
    }
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_agents_lose_nothing_and_repeat_nothing_while_hosts_come_and_go() {
    let kills = std::env::var("COUNTERSIGN_OUTLIVE_KILLS");
    let kills = kills.map_or(KILLS, |kills| kills.parse().unwrap());
    let mut crowd = Crowd::begin().await;
    let mut person = tokio::task::JoinSet::new();
    person.spawn(answer_all(crowd.scene.host.socket()));
    let rest = kills.saturating_sub(FIRST_HOSTS);
    let mut memory = Vec::new();
    for hosts in [FIRST_HOSTS, rest / 2, rest - rest / 2] {
        crowd.work().await;
        crowd.change_hosts(hosts).await;
        memory.push(crowd.pause().await);
    }
    let asked = check_all(&crowd).await;
    let told = format!("{kills} kills, {asked} asks, memory {memory:?}");
    assert!(memory[2] < memory[0] + GROWTH_BYTES, "{told}");
    let mut wire = Wire::operator(&crowd.scene.host).await;
    crowd.scene.end_all(&mut wire).await;
}
