//! The same clients with real agents behind `countersign acp`, which use the scripted model.

use countersign_testkit::model::ScriptedModel;
use countersign_testkit::real::{AcpClient, RealAgent};
use serde_json::json;
use tempfile::TempDir;

use super::acpx::{self, AcpxClient};
use super::{ClientStory, run_sdk};
use crate::managed::script;
use crate::real_agents::is_there;
use crate::scene::Scene;

/// A real agent, the model that it asks, and the host that runs it.
struct RealScene {
    kind: RealAgent,
    scene: Scene,
    story: ClientStory,
    _model: ScriptedModel,
    _home: TempDir,
}

impl RealScene {
    /// Nothing if the agent is not there.
    fn begin(kind: RealAgent, host_home: TempDir) -> Option<Self> {
        if !is_there(kind) {
            return None;
        }
        let scene = Scene::begin_apart(host_home);
        let model = ScriptedModel::start().unwrap();
        let home = tempfile::tempdir().unwrap();
        let recipe = kind.prepare(home.path(), model.port).unwrap();
        let mark = ("SCENE_MARK".to_owned(), scene.mark().to_owned());
        let variables = recipe.env.iter().chain([&mark]);
        let words = variables.map(|(name, value)| format!("'{name}={value}'"));
        let words = words.chain(recipe.command.iter().map(|word| format!("'{word}'")));
        let words: Vec<String> = words.collect();
        let makes = |file: &str| {
            let command = format!("touch {file} && echo made");
            script(&json!([{ "say": "First words. " }, { "shell": command }]))
        };
        let endless = "touch begun && tail -f /dev/null";
        let story = ClientStory {
            agent: format!("env {}", words.join(" ")),
            prompts: [
                makes("allowed"),
                makes("denied"),
                script(&json!([{ "say": "Beside it. " }])),
                script(&json!([{ "say": "Working. " }, { "shell": endless }])),
            ],
            running: script(&json!([{ "shell": endless }])),
        };
        Some(Self {
            kind,
            scene,
            story,
            _model: model,
            _home: home,
        })
    }

    /// What agents did of what they asked for.
    fn made_files(&self) -> Vec<&'static str> {
        let folder = self.scene.folder();
        let files = ["allowed", "denied", "begun"].into_iter();
        files.filter(|name| folder.join(name).exists()).collect()
    }

    fn stop_when_denied(&self) -> &'static str {
        match self.kind {
            RealAgent::Codex => "cancelled",
            _ => "end_turn",
        }
    }
}

fn check_sdk(client: AcpClient, kind: RealAgent) {
    let Some(real) = RealScene::begin(kind, tempfile::tempdir().unwrap()) else {
        return;
    };
    let Some(seen) = run_sdk(client, &real.scene, &real.story) else {
        return;
    };
    let stops = ["end_turn", real.stop_when_denied(), "end_turn", "cancelled"];
    assert_eq!(seen.stops, stops);
    let [before, after] = &seen.said;
    for words in [
        "First words. ",
        "The script is over. The last result: ",
        "Beside it. ",
        "Working. ",
    ] {
        assert!(before.contains(words), "{words}: {before}");
    }
    assert!(after.contains("First words. "), "{after}");
    assert!(
        !after.contains("Beside it. "),
        "that is the other session: {after}"
    );
    assert!(seen.asked.len() >= 2, "{:?}", seen.asked);
    assert_eq!(real.made_files(), ["allowed"]);
}

fn check_acpx(kind: RealAgent) {
    let Some(real) = RealScene::begin(kind, acpx::trust_automatic()) else {
        return;
    };
    let Some(client) = AcpxClient::find(&real.scene, &real.story) else {
        return;
    };
    let seen = acpx::run(&client, &real.story);
    let over = "The script is over. The last result: ";
    assert!(seen.allowed.contains(over), "{}", seen.allowed);
    let end = format!("[done] {}", real.stop_when_denied());
    assert!(seen.denied.contains(&end), "{}", seen.denied);
    assert!(seen.beside.contains("Beside it. "), "{}", seen.beside);
    assert!(
        seen.cancelled.contains("[done] cancelled"),
        "{}",
        seen.cancelled
    );
    assert!(seen.resumed.contains("Beside it. "), "{}", seen.resumed);
    assert_eq!(real.made_files(), ["allowed", "begun"]);
}

/// A test for each client and agent.
macro_rules! with_real_agents {
    ($($module:ident, $agent:ident;)+) => {
        $(
            mod $module {
                use countersign_testkit::real::{AcpClient, RealAgent};

                #[test]
                fn the_typescript_sdk() {
                    super::check_sdk(AcpClient::TypeScriptSdk, RealAgent::$agent);
                }

                #[test]
                fn the_python_sdk() {
                    super::check_sdk(AcpClient::PythonSdk, RealAgent::$agent);
                }

                #[test]
                fn acpx() {
                    super::check_acpx(RealAgent::$agent);
                }
            }
        )+
    };
}

with_real_agents! {
    claude, Claude;
    codex, Codex;
    gemini, Gemini;
    opencode, Opencode;
}
