//! An orchestrator and its children on a stage: children are started by the orchestrator alone, by their
//! names in the catalog, and each kind has a home of its own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use countersign_testkit::model::ScriptedModel;
use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::stage::{Stage, is_there};
use super::told::{host_tool, script};

/// The kinds that children are of: what the catalog calls each, and the variable that names its command.
const KINDS: [(RealAgent, &str, &str); 3] = [
    (RealAgent::Codex, "codex", "COUNTERSIGN_AGENT_CODEX"),
    (RealAgent::ClaudeCode, "claude", "COUNTERSIGN_AGENT_CLAUDE"),
    (
        RealAgent::Claude,
        "claude-acp",
        "COUNTERSIGN_AGENT_CLAUDE_ACP",
    ),
];

pub(super) struct Family {
    pub(super) stage: Stage,
    pub(super) boss: Actor,
}

impl Family {
    /// An orchestrator that follows these steps, if all who take part are there.
    pub(super) async fn set(kind: RealAgent, rules: &str, steps: &Value) -> Option<Self> {
        let mut stage = stage(kind, rules, &[]).await?;
        let boss = orchestrator(&mut stage, steps);
        Some(Self { stage, boss })
    }

    /// A child, once it was started.
    pub(super) async fn child(&mut self, name: &str) -> Actor {
        let spawned = |event: &Value| {
            event["kind"] == "agent.spawned" && event["payload"]["agent"]["name"] == name
        };
        let event = self.stage.event(spawned).await;
        let kind = event["payload"]["options"]["agent"].as_str().unwrap();
        Actor {
            id: event["agent_id"].as_str().unwrap().to_owned(),
            name: name.to_owned(),
            work: self.boss.file(name),
            home: self.stage.folders_of(kind)[0].clone(),
        }
    }

    /// Tells the orchestrator to do something, as a person.
    pub(super) fn tell_boss(&self, steps: &Value) {
        self.stage.ok(&["send", "boss", &script(steps)]);
    }

    /// What was said to the orchestrator in place of a person, oldest first.
    pub(super) async fn parent_messages(&mut self) -> Vec<String> {
        let story = self.stage.story(&self.boss).await;
        let texts = story.iter().filter(|entry| entry["type"] == "user");
        let texts = texts.map(|entry| entry["text"].as_str().unwrap().to_owned());
        let is_parent_message = |text: &String| text.starts_with("[countersign] ");
        texts.filter(is_parent_message).collect()
    }

    /// Ends the children, then the orchestrator, and looks at what they leave behind.
    pub(super) async fn end(&mut self, children: &[&Actor]) {
        for child in children {
            self.stage.end(child).await;
        }
        self.stage.end(&self.boss).await;
    }

    /// Waits for a parent message that begins so.
    pub(super) async fn hears(&mut self, words: &str) {
        self.stage.hears(&self.boss, "user", words).await;
    }
}

/// What an orchestrator hears of an agent that is done.
pub(super) fn done(child: &Actor) -> String {
    format!(
        "[countersign] Agent `{}` ({}) is done with what you told it (end_turn); `read_transcript` \
         shows what it did",
        child.name, child.id
    )
}

/// A step of an orchestrator: it starts a child in a folder of its own.
pub(super) fn spawns(kind: &str, name: &str, steps: &Value) -> Value {
    let input = json!({ "agent": kind, "name": name, "cwd": name, "prompt": script(steps) });
    json!({ "tool": host_tool("spawn_agent"), "input": input })
}

/// A stage whose host finds the children's commands.
pub(super) async fn stage(
    kind: RealAgent,
    rules: &str,
    environment: &[(&'static str, &str)],
) -> Option<Stage> {
    if !KINDS.iter().all(|(kind, _, _)| is_there(*kind)) {
        return None;
    }
    let model = ScriptedModel::start().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().canonicalize().unwrap();
    let commands = KINDS.map(|(kind, name, variable)| {
        let command = write_command(&root.join(name), kind, model.port);
        (variable, command.to_str().unwrap().to_owned())
    });
    let commands = commands.iter();
    let mut all: Vec<(&'static str, &str)> = commands.map(|(n, c)| (*n, c.as_str())).collect();
    all.extend(environment);
    let stage = Stage::set_around((model, scratch), kind, rules, &all).await;
    Some(stage)
}

/// A command that starts a child with all that it needs, as a person would have set it up.
fn write_command(own: &Path, kind: RealAgent, model_port: u16) -> PathBuf {
    let home = own.join("home");
    std::fs::create_dir_all(&home).unwrap();
    let recipe = kind.prepare(&home, model_port).unwrap();
    let variables = recipe.env.iter();
    let exports = variables.map(|(name, value)| format!("export {name}='{value}'\n"));
    let words: Vec<String> = recipe.command.iter().map(|w| format!("'{w}'")).collect();
    let exports = exports.collect::<String>();
    let text = format!("#!/bin/sh\n{exports}exec {} \"$@\"\n", words.join(" "));
    let file = own.join("command");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// Starts the orchestrator, with a folder for each child that it may start.
pub(super) fn orchestrator(stage: &mut Stage, steps: &Value) -> Actor {
    let [_, work] = stage.folders_of("boss");
    for child in ["ann", "cody"] {
        std::fs::create_dir_all(work.join(child)).unwrap();
    }
    stage.spawn_with("boss", &script(steps), &["--role", "orchestrator"])
}
