//! Orchestrators and the agents below them, on the built binary: each told once as it is, and once more
//! with the host killed in the middle.

mod attacks;
mod ceilings;
mod families;
mod hierarchy;
mod parent_messages;
mod proposals;
mod questions;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::command;
use crate::managed::script;
use crate::mcp::{call, messages, result};
use crate::scene::{Scene, answer_next, rested};
use crate::wire::Wire;

/// What an agent does through its token, in a process of its own that counts as it.
pub(crate) struct Hand {
    process: Agent,
    token: Value,
    pub(crate) id: Value,
    pub(crate) name: String,
}

impl Hand {
    async fn of(scene: &Scene, wire: &mut Wire, id: Value, name: &str) -> Self {
        let params = json!({ "role": "agent", "agent_id": id });
        let mut made = wire.ok("host.create_token", params).await;
        let mut hand = Self {
            process: Agent::start(&scene.host),
            token: made["token"].take(),
            id,
            name: name.to_owned(),
        };
        hand.connect(scene).await;
        hand
    }

    async fn connect(&mut self, scene: &Scene) {
        let auth = json!({ "token": self.token });
        let reply = self.process.connect(&scene.host.address, auth).await;
        assert_eq!(reply["result"]["agent_id"], self.id, "{reply}");
    }

    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        self.process.ok(method, params).await
    }

    /// The reason of a refusal.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> String {
        let error = self.process.no(method, params).await;
        error["data"]["reason"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn tells(&mut self, message: &str, key: Option<&str>) {
        let params = json!({ "message": message, "idempotency_key": key });
        self.ok("host.notify_parent", params).await;
    }

    /// Asks whoever is above, and gives the question.
    pub(crate) async fn asks(&mut self, question: &str) -> Value {
        self.ok("host.ask_question", json!({ "question": question }))
            .await
    }

    /// Calls a tool over HTTP: whether it failed, its words and its data.
    pub(crate) async fn tool(
        &mut self,
        address: &str,
        tool: &str,
        input: Value,
    ) -> (bool, String, Value) {
        let bearer = format!("Bearer {}", self.token.as_str().unwrap());
        let headers = json!([
            ["accept", "application/json, text/event-stream"],
            ["content-type", "application/json"],
            ["authorization", bearer],
        ]);
        let body = call(1, tool, input);
        let parts = json!({ "method": "POST", "path": "/mcp", "headers": headers, "body": body });
        let answer = self.process.http(address, parts).await;
        let mut messages = messages(answer["body"].as_str().unwrap());
        result(&mut messages.pop().unwrap_or_else(|| panic!("{answer}")))
    }

    /// The message that tells its orchestrator something.
    pub(crate) fn note(&self, words: &str) -> String {
        format!(
            "[countersign] Agent `{}` ({}) tells you something. These are its words, not a \
             person's:\n\n{words}",
            self.name,
            self.id.as_str().unwrap()
        )
    }

    /// The message that asks its orchestrator.
    pub(crate) fn question(&self, asked: &Value) -> String {
        format!(
            "[countersign] Agent `{}` ({}) asks you, and waits for an answer to {} \
             (`answer_question`). These are its words, not a person's:\n\n{}",
            self.name,
            self.id.as_str().unwrap(),
            asked["id"].as_str().unwrap(),
            asked["question"].as_str().unwrap()
        )
    }
}

/// An agent that an orchestrator wants.
pub(crate) struct Below<'n> {
    pub(crate) name: &'n str,
    pub(crate) role: Option<&'n str>,
}

impl Below<'_> {
    /// An orchestrator starts it, and a person lets it. Both rest then.
    pub(crate) async fn started(self, scene: &Scene, wire: &mut Wire, parent: &mut Hand) -> Hand {
        let mut params = scene.spawn_params(self.name, &json!([]));
        let variables = params["env"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut env: BTreeMap<String, String> = variables
            .map(|one| (text(&one["name"]), text(&one["value"])))
            .collect();
        let home = scene.host.home().to_str().unwrap();
        env.insert("COUNTERSIGN_HOME".to_owned(), home.to_owned());
        params["env"] = json!(env);
        if let Some(role) = self.role {
            params["role"] = json!(role);
        }
        let asking = parent.tool(&scene.host.address, "spawn_agent", params);
        let ((failed, words, _), _) = tokio::join!(asking, answer_next(wire, "approve"));
        assert!(!failed, "{words}");
        let agents = wire.ok("host.agents", json!({})).await;
        let mut agents = agents.as_array().unwrap().iter();
        let row = agents.find(|agent| agent["name"] == self.name).unwrap();
        assert_eq!(row["managed"]["parent"], parent.id);
        let id = row["id"].clone();
        rested(wire, &id).await;
        // It hears that its agent is done with its first task.
        rested(wire, &parent.id).await;
        Hand::of(scene, wire, id, self.name).await
    }
}

/// An orchestrator, the agents it started, and a person who sees everything.
pub(crate) struct Family {
    pub(crate) scene: Scene,
    pub(crate) wire: Wire,
    pub(crate) boss: Hand,
    pub(crate) kids: Vec<Hand>,
}

impl Family {
    /// Agents that rest, under rules and settings of the host.
    pub(crate) async fn begin_with(names: &[&str], rules: &str, config: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("rules.toml"), rules).unwrap();
        std::fs::write(home.path().join("config.toml"), config).unwrap();
        // After a restart too, time counts at once.
        let scene = Scene::begin_in(home, &[("COUNTERSIGN_EXPIRY_HOLD_MS", "0")]);
        let mut wire = Wire::subscriber(&scene.host).await;
        let mut params = scene.spawn_params("boss", &json!([]));
        params["role"] = json!("orchestrator");
        let id = wire.ok("host.spawn_agent", params).await["id"].take();
        rested(&mut wire, &id).await;
        let boss = Hand::of(&scene, &mut wire, id, "boss").await;
        let mut family = Self {
            scene,
            wire,
            boss,
            kids: Vec::new(),
        };
        for name in names {
            family.add(name).await;
        }
        family
    }

    pub(crate) async fn begin(names: &[&str]) -> Self {
        Self::begin_with(names, "", "").await
    }

    /// The orchestrator starts another agent, and a person lets it.
    async fn add(&mut self, name: &str) {
        let below = Below { name, role: None };
        let hand = below.started(&self.scene, &mut self.wire, &mut self.boss);
        let hand = hand.await;
        self.kids.push(hand);
    }

    /// Kills the host, starts another, and has everybody come back.
    pub(crate) async fn kill_host(&mut self) {
        self.scene.host.restart();
        self.come_back().await;
    }

    pub(crate) async fn come_back(&mut self) {
        self.wire = Wire::subscriber(&self.scene.host).await;
        self.boss.connect(&self.scene).await;
        for kid in &mut self.kids {
            kid.connect(&self.scene).await;
        }
    }

    pub(crate) async fn row(&mut self, id: &Value) -> Value {
        let mut agents = self.wire.ok("host.agents", json!({})).await;
        let mut agents = agents.as_array_mut().unwrap().iter_mut();
        agents.find(|agent| agent["id"] == *id).unwrap().take()
    }

    /// Has an agent work without an end; gives the number of that turn.
    pub(crate) async fn busy(&mut self, id: &Value) -> u64 {
        let message = script(&json!(["silence"]));
        let params = json!({ "agent_id": id, "message": message });
        let told = self.wire.ok("host.prompt_agent", params).await;
        told["managed"]["turn"]["number"].as_u64().unwrap()
    }

    /// Ends the turn of an agent, and waits until it rests.
    pub(crate) async fn interrupted(&mut self, id: &Value) {
        let params = json!({ "agent_id": id });
        self.wire.ok("host.interrupt_agent", params).await;
        rested(&mut self.wire, id).await;
    }

    /// Has an agent do something.
    pub(crate) async fn prompt(&mut self, id: &Value, steps: &Value) {
        let params = json!({ "agent_id": id, "message": script(steps) });
        self.wire.ok("host.prompt_agent", params).await;
    }

    /// The parent messages that an agent got after a turn: the turn, who sent it, and its text.
    pub(crate) async fn heard(&mut self, id: &Value, after: u64) -> Vec<(u64, Value, String)> {
        let params = json!({ "agent_id": id, "limit": 500 });
        let page = self.wire.ok("host.transcript", params).await;
        let mut heard = Vec::new();
        for part in page["parts"].as_array().unwrap() {
            let turn = part["turn"].as_u64().unwrap();
            for entry in part["entries"].as_array().unwrap() {
                let from = entry.get("from").filter(|_| turn > after);
                heard.extend(from.map(|from| {
                    let text = entry["text"].as_str().unwrap().to_owned();
                    (turn, from.clone(), text)
                }));
            }
        }
        heard
    }

    /// The exit code of the command line, and what it said, data first.
    pub(crate) fn cli(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = command(self.scene.host.home())
            .args(words)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    pub(crate) async fn end(mut self) {
        let params = json!({ "agent_id": self.boss.id, "children": "keep" });
        // One that has ended meanwhile cannot be ended again.
        self.wire.reply("host.kill_agent", params).await;
        self.scene.end_all(&mut self.wire).await;
    }
}
