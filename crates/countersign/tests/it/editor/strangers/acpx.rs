//! `acpx`, the headless client: its answers are automatic, so they count only where that is configured.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use countersign_testkit::real::AcpClient;
use tempfile::TempDir;

use super::{ClientStory, ask_script, found, program};
use crate::host::poll;
use crate::managed::PROGRAM;
use crate::scene::Scene;
use crate::wire::Wire;

/// Longer than any agent takes to start and to answer, in seconds.
const TIMEOUT: &str = "90";

/// `acpx` with an agent behind `countersign acp`.
pub(super) struct AcpxClient<'a> {
    programs: [PathBuf; 2],
    scene: &'a Scene,
    agent: String,
    home: TempDir,
}

impl<'a> AcpxClient<'a> {
    /// Nothing if it is not there.
    pub(super) fn find(scene: &'a Scene, story: &ClientStory) -> Option<Self> {
        Some(Self {
            programs: found(AcpClient::Acpx)?,
            scene,
            agent: format!("'{PROGRAM}' acp --command \"{}\"", story.agent),
            home: tempfile::tempdir().unwrap(),
        })
    }

    fn command(&self, policy: &str, words: &[&str]) -> Command {
        let [node, script] = &self.programs;
        let mut command = program(self.scene, node);
        command.arg(script);
        // What it leaves behind to take more prompts ends after so many seconds, if no session is closed. A prompt that
        // comes at that moment is refused, so it is longer than anything takes between two prompts.
        command.args([policy, "--ttl", "20", "--timeout", TIMEOUT]);
        command.args(["--agent", &self.agent]).args(words);
        command.env("HOME", self.home.path()).stdin(Stdio::null());
        command
    }

    /// Its exit code and everything it printed.
    pub(super) fn run(&self, policy: &str, words: &[&str]) -> (Option<i32>, String) {
        let output = self.command(policy, words).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.code(), text)
    }

    pub(super) fn ok(&self, policy: &str, words: &[&str]) -> String {
        let (code, text) = self.run(policy, words);
        assert_eq!(code, Some(0), "{words:?}: {text}");
        text
    }

    /// Begins a session under a name, and gives its id.
    fn open(&self, name: &str) -> String {
        let mut command = self.command("--deny-all", &["sessions", "new", "--name", name]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Sends a prompt that makes the file `begun` and does not end, and cancels it then.
    fn cancel(&self, name: &str, prompt: &str) -> String {
        let mut prompting = self.command("--approve-all", &["prompt", "-s", name, prompt]);
        let prompting = prompting.stdout(Stdio::piped()).spawn().unwrap();
        let begun = self.scene.folder().join("begun");
        poll("the agent to begin", || begun.exists().then_some(()));
        self.ok("--deny-all", &["cancel", "-s", name]);
        let output = prompting.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// What `acpx` printed of each part of a story.
pub(super) struct AcpxSession {
    pub(super) allowed: String,
    pub(super) denied: String,
    pub(super) beside: String,
    pub(super) cancelled: String,
    pub(super) resumed: String,
}

pub(super) fn run(client: &AcpxClient<'_>, story: &ClientStory) -> AcpxSession {
    let [allow, deny, words, _] = &story.prompts;
    let first = client.open("one");
    let second = client.open("two");
    assert_ne!(first, second);
    let prompt = |policy: &str, name: &str, text: &str| {
        // A denial is an exit code of its own in some ways of running, and not in others.
        client.run(policy, &["prompt", "-s", name, text]).1
    };
    let session = AcpxSession {
        allowed: prompt("--approve-all", "one", allow),
        denied: prompt("--deny-all", "one", deny),
        beside: prompt("--deny-all", "two", words),
        cancelled: client.cancel("two", &story.running),
        resumed: {
            let arguments = [
                "sessions",
                "new",
                "--name",
                "again",
                "--resume-session",
                &first,
            ];
            let opened = client.ok("--deny-all", &arguments);
            assert!(opened.contains(&first), "{opened}");
            prompt("--deny-all", "again", words)
        },
    };
    // The third is the first under another name.
    for name in ["two", "again"] {
        client.ok("--deny-all", &["sessions", "close", name]);
    }
    session
}

/// A scene in which automatic answers of editors count.
pub(super) fn trust_automatic() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let config = "[editor]\nautomatic = \"allow\"\n";
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    home
}

#[test]
fn acpx_runs_sessions() {
    let scene = Scene::begin_in(trust_automatic(), &[]);
    let story = ClientStory::scripted(&scene);
    let Some(client) = AcpxClient::find(&scene, &story) else {
        return;
    };
    let seen = run(&client, &story);
    assert!(seen.allowed.contains("it ran"), "{}", seen.allowed);
    assert!(seen.denied.contains("c2 was denied"), "{}", seen.denied);
    assert!(seen.beside.contains("beside it"), "{}", seen.beside);
    assert!(
        seen.cancelled.contains("[done] cancelled"),
        "{}",
        seen.cancelled
    );
    assert!(seen.resumed.contains("beside it"), "{}", seen.resumed);
    // A prompt without a session, and its exit codes.
    let text = client.ok("--approve-all", &["exec", &ask_script("c3")]);
    assert!(text.contains("it ran"), "{text}");
    let (code, text) = client.run("--deny-all", &["exec", &ask_script("c4")]);
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("c4 was denied"), "{text}");
}

#[tokio::test]
async fn what_acpx_approves_by_itself_does_not_count_and_it_says_why() {
    let scene = Scene::begin(&[]);
    let story = ClientStory::scripted(&scene);
    let Some(client) = AcpxClient::find(&scene, &story) else {
        return;
    };
    let mut wire = Wire::subscriber(&scene.host).await;
    let mut prompting = client.command("--approve-all", &["exec", &ask_script("c1")]);
    let prompting = prompting.stdout(Stdio::piped()).spawn().unwrap();
    wire.event_of("editor.answer_refused").await;
    let open = wire
        .ok("host.approvals", serde_json::json!({ "status": "pending" }))
        .await;
    let params = serde_json::json!({ "approval_id": open[0]["id"], "resolution": "deny" });
    wire.ok("host.resolve_approval", params).await;
    let output = prompting.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("c1 was denied"), "{text}");
    assert!(
        text.contains("an automatic answer of the editor was not taken"),
        "{text}"
    );
}
