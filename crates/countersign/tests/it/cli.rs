//! What a person types, and what a script gets back.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A host in a scratch folder; dropping it ends the host.
struct Home(tempfile::TempDir);

impl Home {
    fn up() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let up = home.run(&["up", "--detach", "--listen", "127.0.0.1:0"]);
        assert_eq!(up.status.code(), Some(0), "{up:?}");
        home
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command
            .args(words)
            .env("COUNTERSIGN_HOME", self.0.path())
            .stdin(Stdio::null());
        command
            .env_remove("COUNTERSIGN_URL")
            .env_remove("COUNTERSIGN_TOKEN");
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn code(&self, words: &[&str]) -> Option<i32> {
        self.run(words).status.code()
    }

    fn text(&self, words: &[&str]) -> String {
        String::from_utf8(self.run(words).stdout)
            .unwrap()
            .trim()
            .to_owned()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_slice(&self.run(&[words, &["--json"]].concat()).stdout).unwrap()
    }

    /// Runs `ask` until `decide` was called with the id of what it asked.
    fn asked(&self, words: &[&str], decide: impl FnOnce(&str)) -> (Option<i32>, String) {
        let mut ask = self.command(&[&["ask"], words].concat());
        let ask = ask
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let id = (0..1_000)
            .find_map(|_| {
                Some(
                    self.json(&["inbox"])["approvals"].get(0)?["id"]
                        .as_str()?
                        .to_owned(),
                )
            })
            .unwrap();
        decide(&id);
        let output = ask.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }

    fn kill(&self) {
        let pid = self.json(&["status"])["pid"].to_string();
        assert!(
            Command::new("kill")
                .args(["-9", &pid])
                .status()
                .unwrap()
                .success()
        );
        while Path::new(&format!("/proc/{pid}/fd"))
            .read_dir()
            .is_ok_and(|mut open| open.next().is_some())
        {
            std::thread::yield_now();
        }
        // The last of its threads may hold the socket a moment longer.
        while std::os::unix::net::UnixStream::connect(self.0.path().join("run/host.sock")).is_ok() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.run(&["down"]);
    }
}

#[test]
fn a_script_asks_and_a_person_answers() {
    let home = Home::up();
    let allowed = home.asked(
        &["Deploy", "--tool", "Bash", "--input", r#"{"command":"ls"}"#],
        |id| {
            let short = &id["approval-".len()..][..6];
            assert_eq!(home.code(&["approve", short, "--option", "maybe"]), Some(2));
            assert_eq!(home.code(&["approve", short, "--message", "go"]), Some(0));
            assert_eq!(
                home.code(&["approve", short]),
                Some(0),
                "the same answer again is a success"
            );
            assert_eq!(home.code(&["deny", short]), Some(9));
        },
    );
    assert_eq!(allowed, (Some(0), "approve\ngo\n".into()));
    let denied = home.asked(&["Deploy"], |id| {
        assert_eq!(home.code(&["deny", id]), Some(0));
    });
    assert_eq!(denied, (Some(3), "deny\n".into()));
    let edited = home.asked(&["Deploy", "--input", "{}"], |id| {
        assert_eq!(
            home.code(&["approve", id, "--edit-input", r#"{"a":1}"#]),
            Some(0)
        );
    });
    assert_eq!(edited, (Some(4), "approve\n".into()));
    let other = home.asked(&["Where?", "--option", "eu", "--option", "us"], |id| {
        assert_eq!(home.code(&["approve", id]), Some(2), "no option allows it");
        assert_eq!(home.code(&["approve", id, "--option", "eu"]), Some(0));
    });
    assert_eq!(other, (Some(4), "eu\n".into()));
    assert_eq!(home.code(&["show", "nothing"]), Some(11));
    assert_eq!(home.code(&["audit", "verify"]), Some(0));
}

#[test]
fn an_ask_outlives_the_host() {
    let home = Home::up();
    let answer = home.asked(&["Survive"], |id| {
        home.kill();
        assert_eq!(home.code(&["inbox"]), Some(7));
        assert_eq!(home.code(&["up", "--detach", "--no-listen"]), Some(0));
        assert_eq!(home.code(&["approve", id]), Some(0));
    });
    assert_eq!(answer, (Some(0), "approve\n".into()));
}

#[test]
fn a_token_is_printed_alone_and_says_what_its_bearer_may() {
    let home = Home::up();
    let url = format!(
        "ws://{}/",
        home.json(&["status"])["listen"].as_str().unwrap()
    );
    let with = |role: &str, words: &[&str]| {
        let token = home.text(&[
            "token",
            "create",
            "--role",
            role,
            "--expires",
            "1h",
            "--name",
            "ci",
        ]);
        let mut command = home.command(words);
        command
            .env("COUNTERSIGN_URL", &url)
            .env("COUNTERSIGN_TOKEN", token)
            .output()
            .unwrap()
    };
    let status = with("operator", &["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(
        (&status["you"]["name"], &status["you"]["role"]),
        (&"ci".into(), &"operator".into())
    );
    home.asked(&["Deploy"], |id| {
        assert_eq!(with("observer", &["approve", id]).status.code(), Some(10));
        assert_eq!(with("agent", &["approve", id]).status.code(), Some(10));
        assert_eq!(with("operator", &["deny", id]).status.code(), Some(0));
    });
}

#[test]
fn a_second_host_and_a_missing_one_are_told_apart() {
    let home = Home::up();
    assert_eq!(home.code(&["up", "--detach"]), Some(1));
    assert_eq!(home.code(&["down"]), Some(0));
    assert_eq!(home.code(&["status"]), Some(7));
    std::fs::write(home.0.path().join("config.toml"), "listen = \"none\"\n").unwrap();
    assert_eq!(home.code(&["doctor"]), Some(0));
    std::fs::write(home.0.path().join("config.toml"), "listn = \"none\"\n").unwrap();
    assert_eq!(home.code(&["doctor"]), Some(1));
}
