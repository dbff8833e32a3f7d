//! A stage for agents that others wrote: a host, the scripted model, and for each agent an empty
//! home and a folder to work in.
//!
//! Invariant: an agent that is missing is said on stderr, past the test runner's capture; where all
//! must be there, it fails the test.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Output;

use countersign_core::REPLACED;
use countersign_testkit::model::ScriptedModel;
use countersign_testkit::real::RealAgent;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::actor::{Actor, runners};
use crate::host::{CRASH_AT, DEFAULT_SANDBOX, Host, command, poll};
use crate::wire::Wire;

/// `1` where every agent must be there but defect, which is a long build; `all` where that too.
const REQUIRED: &str = "COUNTERSIGN_AGENTS_REQUIRED";

/// What a stage hears of; more would only be read and dropped.
const KINDS: [&str; 12] = [
    "agent.spawned",
    "agent.launched",
    "agent.exited",
    "approval.requested",
    "approval.resolved",
    "approval.pass_used",
    "answer.settled",
    "question.asked",
    "question.ended",
    "turn.started",
    "turn.ended",
    "transcript.added",
];

pub(super) struct Stage {
    pub(super) kind: RealAgent,
    pub(super) host: Host,
    pub(super) wire: Wire,
    pub(super) model: ScriptedModel,
    seen: Vec<Value>,
    /// The newest event that was read: whatever came after it is heard of the next host.
    cursor: u64,
    scratch: TempDir,
}

impl Stage {
    /// Nothing, with a line that says so, if the agent is not there.
    pub(super) async fn set(kind: RealAgent) -> Option<Self> {
        Self::set_with(kind, "").await
    }

    /// With these rules of the user.
    pub(super) async fn set_with(kind: RealAgent, rules: &str) -> Option<Self> {
        Self::set_in(kind, rules, &[]).await
    }

    /// With a host that kills itself at this point.
    pub(super) async fn set_to_crash(kind: RealAgent, point: &str) -> Option<Self> {
        Self::set_in(kind, "", &[(CRASH_AT, point)]).await
    }

    /// In the sandbox that agents get by default.
    pub(super) async fn set_confined(kind: RealAgent) -> Option<Self> {
        Self::set_confined_with(kind, "").await
    }

    /// In the sandbox that agents get by default, with these rules of the user.
    pub(super) async fn set_confined_with(kind: RealAgent, rules: &str) -> Option<Self> {
        Self::set_in(kind, rules, &[DEFAULT_SANDBOX]).await
    }

    async fn set_in(
        kind: RealAgent,
        rules: &str,
        environment: &[(&'static str, &str)],
    ) -> Option<Self> {
        if !is_there(kind) {
            return None;
        }
        let model = ScriptedModel::start().unwrap();
        let scratch = tempfile::tempdir().unwrap();
        Some(Self::set_around((model, scratch), kind, rules, environment).await)
    }

    /// With a model and folders that were there before the host.
    pub(super) async fn set_around(
        (model, scratch): (ScriptedModel, TempDir),
        kind: RealAgent,
        rules: &str,
        environment: &[(&'static str, &str)],
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        if !rules.is_empty() {
            std::fs::write(home.path().join("rules.toml"), rules).unwrap();
        }
        let config = sandbox_config(&model, &scratch);
        std::fs::write(home.path().join("config.toml"), config).unwrap();
        let host = Host::start_apart(home, environment);
        Self {
            kind,
            wire: listen(&host, 0).await,
            host,
            model,
            seen: Vec::new(),
            cursor: 0,
            scratch,
        }
    }

    /// The host dies at once, and another takes its place.
    pub(super) async fn restart_host(&mut self) {
        self.host.restart();
        self.listen_again().await;
    }

    /// Goes on where the wire to an earlier host ended.
    pub(super) async fn listen_again(&mut self) {
        self.wire = listen(&self.host, self.cursor).await;
    }

    /// A folder that no agent works in.
    pub(super) fn outside(&self) -> PathBuf {
        let outside = self.scratch.path().canonicalize().unwrap().join("outside");
        std::fs::create_dir_all(&outside).unwrap();
        outside
    }

    pub(super) fn spawn(&mut self, name: &str, prompt: &str) -> Actor {
        self.spawn_with(name, prompt, &[])
    }

    /// The home and the working folder of an agent that may not be there yet.
    pub(super) fn folders_of(&self, name: &str) -> [PathBuf; 2] {
        let own = self.scratch.path().canonicalize().unwrap().join(name);
        let folders = [own.join("home"), own.join("work")];
        for folder in &folders {
            std::fs::create_dir_all(folder).unwrap();
        }
        folders
    }

    /// With more words on the command line.
    pub(super) fn spawn_with(&mut self, name: &str, prompt: &str, more: &[&str]) -> Actor {
        self.start(name, &[more, &["--", prompt]].concat())
    }

    /// Without a word.
    pub(super) fn spawn_idle(&mut self, name: &str) -> Actor {
        self.start(name, &[])
    }

    fn start(&mut self, name: &str, more: &[&str]) -> Actor {
        let [home, work] = self.folders_of(name);
        let recipe = self.kind.prepare(&home, self.model.port).unwrap();
        let cwd = work.to_str().unwrap();
        let mut env: Vec<String> = recipe.env.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let program = if let Some(known) = self.kind.catalog_name() {
            // By its name, so that its sandbox knows what is its own.
            let variable = known.to_ascii_uppercase().replace('-', "_");
            env.push(format!(
                "COUNTERSIGN_AGENT_{variable}={}",
                json!(recipe.command)
            ));
            vec!["--agent".to_owned(), known.to_owned()]
        } else {
            let line: Vec<String> = recipe.command.iter().map(|w| format!("'{w}'")).collect();
            vec!["--command".to_owned(), line.join(" ")]
        };
        // A host that is to kill itself may end before the agent is ready.
        let mut words = vec!["spawn", "--json", "--no-wait", "--name", name, "--cwd", cwd];
        words.extend(program.iter().map(String::as_str));
        words.extend(env.iter().flat_map(|pair| ["--env", pair]));
        words.extend(more);
        let row: Value = serde_json::from_str(&self.ok(&words)).unwrap();
        Actor {
            id: row["id"].as_str().unwrap().to_owned(),
            name: name.to_owned(),
            work,
            home,
        }
    }

    pub(super) fn run(&self, words: &[&str]) -> Output {
        command(self.host.home()).args(words).output().unwrap()
    }

    /// What a command prints that succeeds.
    pub(super) fn ok(&self, words: &[&str]) -> String {
        let ended = self.run(words);
        assert!(ended.status.success(), "{words:?}: {ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    }

    /// The next event that fits; those before it are kept.
    pub(super) async fn event(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&fits) {
            return self.seen.remove(at);
        }
        loop {
            let event = self.wire.event().await;
            self.cursor = event["sequence"].as_u64().unwrap();
            if fits(&event) {
                return event;
            }
            self.seen.push(event);
        }
    }

    /// The next event of a kind about an agent.
    pub(super) async fn next(&mut self, actor: &Actor, kind: &str) -> Value {
        let fits = |event: &Value| event["kind"] == kind && event["agent_id"] == actor.id;
        self.event(fits).await["payload"].take()
    }

    /// The next ask of an agent that waits for a person.
    pub(super) async fn ask(&mut self, actor: &Actor) -> Value {
        self.next(actor, "approval.requested").await
    }

    pub(super) async fn approval(&mut self, ask: &Value) -> Value {
        let params = json!({ "approval_id": ask["id"] });
        self.wire.ok("host.approval", params).await
    }

    /// Approves an ask, or the one that replaced it, and gives the one that was approved.
    pub(super) async fn approve(&mut self, ask: &Value) -> Value {
        self.answer(ask, "approve", &[]).await
    }

    /// Denies an ask, or the one that replaced it, and gives the one that was denied.
    pub(super) async fn deny(&mut self, ask: &Value, options: &[&str]) -> Value {
        self.answer(ask, "deny", options).await
    }

    async fn answer(&mut self, ask: &Value, command: &str, options: &[&str]) -> Value {
        let mut ask = ask.clone();
        loop {
            let id = ask["id"].as_str().unwrap();
            let answered = self.run(&[&[command, id], options].concat());
            if answered.status.success() {
                return ask;
            }
            ask = self.replacement_of(&ask, &answered).await;
        }
    }

    /// The ask that replaced one which could not be answered. An agent may say more about a tool
    /// call after it asked, and when it does is a matter of time.
    async fn replacement_of(&mut self, ask: &Value, refused: &Output) -> Value {
        let row = self.approval(ask).await;
        assert_eq!(row["message"], REPLACED, "{refused:?}");
        let call = (&row["agent_id"], &row["tool_call_id"]);
        let asks_again = |event: &Value| {
            let asked = &event["payload"];
            event["kind"] == "approval.requested"
                && (&asked["agent_id"], &asked["tool_call_id"]) == call
        };
        self.event(asks_again).await["payload"].take()
    }

    /// Every ask of an agent that ended and was not replaced, oldest first.
    pub(super) async fn asks_of(&mut self, actor: &Actor) -> Vec<Value> {
        let params = json!({ "status": "resolved", "agent_id": actor.id });
        let mut rows = self.wire.ok("host.approvals", params).await;
        let rows = rows.as_array_mut().map(std::mem::take);
        let mut rows = rows.unwrap_or_default();
        rows.retain(|row| row["message"] != REPLACED);
        rows.sort_by_key(|row| row["sequence"].as_u64());
        rows
    }

    /// The next question of an agent, by its id.
    pub(super) async fn question(&mut self, actor: &Actor) -> String {
        let asked = self.next(actor, "question.asked").await;
        asked["id"].as_str().unwrap().to_owned()
    }

    /// What an agent asked that no rule settled at once, by tool.
    pub(super) async fn asks_waited_for(&mut self, actor: &Actor) -> Vec<Value> {
        let rows = self.asks_of(actor).await;
        let by_people = rows
            .into_iter()
            .filter(|row| row["resolved_by"]["role"] != "host");
        by_people.map(|mut row| row["tool"].take()).collect()
    }

    /// The end of a turn, and why it ended.
    pub(super) async fn turn_ended(&mut self, actor: &Actor, turn: u64) -> Value {
        loop {
            let ended = self.next(actor, "turn.ended").await;
            if ended["turn"] == turn {
                return ended;
            }
        }
    }

    pub(super) async fn row(&mut self, actor: &Actor) -> Value {
        let agents = self.wire.ok("host.agents", json!({})).await;
        let mut agents = agents.as_array().unwrap().iter();
        agents.find(|row| row["id"] == actor.id).unwrap().clone()
    }

    /// Waits until the transcript has this text in an entry of this type.
    pub(super) async fn hears(&mut self, actor: &Actor, entry: &str, text: &str) {
        while !self.has_said(actor, entry, text).await {
            self.next(actor, "transcript.added").await;
        }
    }

    async fn has_said(&mut self, actor: &Actor, entry: &str, text: &str) -> bool {
        let story = self.story(actor).await;
        let has =
            |row: &Value| row["type"] == entry && row["text"].as_str().unwrap().contains(text);
        story.iter().any(has)
    }

    /// Everything an agent said and did, text that belongs together in one piece.
    pub(super) async fn story(&mut self, actor: &Actor) -> Vec<Value> {
        let params = json!({ "agent_id": actor.id, "limit": 1000 });
        let page = self.wire.ok("host.transcript", params).await;
        assert_eq!(page["more"], false);
        let mut story: Vec<Value> = Vec::new();
        for part in page["parts"].as_array().unwrap() {
            for entry in part["entries"].as_array().unwrap() {
                let is_text = entry["type"] == "assistant";
                let last = story
                    .last_mut()
                    .filter(|last| is_text && last["type"] == "assistant");
                match last {
                    Some(last) => {
                        let both =
                            [&last["text"], &entry["text"]].map(|text| text.as_str().unwrap());
                        last["text"] = both.concat().into();
                    }
                    None => story.push(entry.clone()),
                }
            }
        }
        story
    }

    /// Whether a request to the model carried this text.
    pub(super) fn model_received(&self, text: &str) -> bool {
        let received = self.model.received();
        received.iter().flatten().any(|said| said.contains(text))
    }

    /// The process that stands between the host and an agent.
    pub(super) async fn runner(&mut self, actor: &Actor) -> u32 {
        loop {
            let launched = self.next(actor, "agent.launched").await;
            if let Some(pid) = launched["process"]["pid"].as_u64() {
                return u32::try_from(pid).unwrap();
            }
        }
    }

    /// What became of an answer, once that is on the record.
    pub(super) async fn settled(&mut self, ask: &Value) -> Value {
        loop {
            let row = self.approval(ask).await;
            if row["delivery"] != "attempted" {
                return row;
            }
            self.event(|event| event["kind"] == "answer.settled").await;
        }
    }

    /// Ends an agent, unless it ended, and looks at what it leaves behind: no process, no call that
    /// was not closed.
    pub(super) async fn end(&mut self, actor: &Actor) {
        if !has_ended(&self.row(actor).await) {
            self.ok(&["kill", &actor.name]);
            while self.row(actor).await["state"] != "stopped" {
                self.next(actor, "agent.exited").await;
            }
        }
        assert_eq!(actor.processes(), Vec::<String>::new());
        let story = self.story(actor).await;
        assert_eq!(open_calls(&story), Vec::<Value>::new());
        let nameless = story.iter().find(|entry| entry["title"] == "");
        assert_eq!(nameless, None, "a call that was named keeps its name");
        let agents = self.wire.ok("host.agents", json!({})).await;
        if agents.as_array().unwrap().iter().all(has_ended) {
            let gone = || runners(self.host.home()).is_empty().then_some(());
            poll("the runners to go", gone);
        }
    }
}

fn has_ended(row: &Value) -> bool {
    ["stopped", "error", "done"].contains(&row["state"].as_str().unwrap())
}

/// Calls whose end nobody told.
fn open_calls(story: &[Value]) -> Vec<Value> {
    let mut open: Vec<Value> = Vec::new();
    for entry in story {
        let id = &entry["id"];
        match entry["type"].as_str().unwrap() {
            "tool_use" if !open.contains(id) => open.push(id.clone()),
            "tool_result" => open.retain(|one| one != id),
            _ => {}
        }
    }
    open
}

/// The default, in which the model is reached, and what lies beside the folders of agents is there to be read.
fn sandbox_config(model: &ScriptedModel, scratch: &TempDir) -> String {
    let scratch = scratch.path().canonicalize().unwrap();
    let (scratch, port) = (scratch.display(), model.port);
    format!(
        "[sandbox.work]\nread = [\"/\", \"{scratch}\"]\ndomains = [\"@model\", \"localhost:{port}\"]\n"
    )
}

async fn listen(host: &Host, after: u64) -> Wire {
    let mut wire = Wire::operator(host).await;
    let params = json!({ "kinds": KINDS, "after": after });
    wire.ok("host.subscribe", params).await;
    wire
}

/// Whether the agent is there; says so if it is not.
pub(crate) fn is_there(kind: RealAgent) -> bool {
    let Err(why) = kind.available() else {
        return true;
    };
    let required = std::env::var(REQUIRED).unwrap_or_default();
    let may_miss = match required.as_str() {
        "" | "0" => true,
        "1" => kind == RealAgent::Defect,
        _ => false,
    };
    assert!(may_miss, "{why}");
    let thread = std::thread::current();
    let story = thread.name().unwrap_or("a story of real agents");
    let line = format!("skipped {story}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    false
}

/// Kills a process as the machine would.
pub(super) fn strike(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.unwrap(), Signal::KILL).unwrap();
}

/// How long the command line waits for an agent.
pub(super) const WAIT: &str = "90s";
