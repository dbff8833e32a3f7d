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

    /// Runs these asks until `decide` was called with their ids, in the order of the arguments.
    fn asked_together(
        &self,
        asks: &[[&str; 3]],
        decide: impl FnOnce(&[String]),
    ) -> Vec<Option<i32>> {
        let mut running = Vec::new();
        let mut ids: Vec<String> = Vec::new();
        for [action, tool, input] in asks {
            let words = ["ask", action, "--tool", tool, "--input", input];
            let mut ask = self.command(&words);
            let ask = ask.stdout(Stdio::null()).stderr(Stdio::null());
            running.push(ask.spawn().unwrap());
            let id = (0..1_000).find_map(|_| {
                let inbox = self.json(&["inbox"]);
                let rows = inbox["approvals"].as_array()?;
                let id = rows.get(ids.len())?["id"].as_str()?;
                Some(id.to_owned())
            });
            ids.push(id.unwrap());
        }
        decide(&ids);
        let codes = running.iter_mut().map(|ask| ask.wait().unwrap().code());
        codes.collect()
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
fn several_asks_are_answered_together_and_only_those_that_were_named_or_listed() {
    let home = Home::up();
    let same = ["Look", "Bash", r#"{"command":"ls"}"#];
    let other = ["Where", "Bash", r#"{"command":"pwd"}"#];
    let codes = home.asked_together(&[same, other, same, other], |ids| {
        let short = |id: &str| id["approval-".len()..][..8].to_owned();
        let [first, second, third, fourth] = ids else {
            panic!("{ids:?}")
        };
        let listed = home.text(&["inbox"]);
        assert!(
            listed.contains(&format!("same as {}", short(first))),
            "{listed}"
        );
        let open = || home.json(&["inbox"])["approvals"].as_array().unwrap().len();
        assert_eq!(home.code(&["approve"]), Some(2), "more than one is open");
        assert_eq!(
            home.code(&["approve", first, "--same"]),
            Some(2),
            "nobody said yes"
        );
        assert_eq!(
            home.code(&["approve", first, third, "--edit-input", "{}"]),
            Some(2)
        );
        assert_eq!(home.code(&["approve", first, third, "--remember"]), Some(2));
        assert_eq!(open(), 4);
        let done = home.run(&["approve", first, "--same", "--yes"]);
        let said = String::from_utf8(done.stdout).unwrap();
        assert_eq!(
            (done.status.code(), said.lines().count()),
            (Some(0), 2),
            "{said}"
        );
        assert_eq!(
            home.code(&["deny", second, "nothing", "-m", "no"]),
            Some(11)
        );
        assert_eq!(open(), 1, "the others got their answer");
        assert_eq!(home.code(&["approve"]), Some(2), "not a terminal");
        let only = home.json(&["deny", "--yes"]);
        assert_eq!(
            (&only["id"], &only["state"]),
            (&fourth.as_str().into(), &"denied".into())
        );
    });
    assert_eq!(codes, [Some(0), Some(3), Some(0), Some(3)]);
    assert_eq!(home.code(&["approve"]), Some(11), "no ask is open");
}

#[test]
fn an_ask_shows_what_will_run_first_and_the_rest_on_request() {
    let home = Home::up();
    let input = r#"{"command":"cargo test","timeout":5}"#;
    home.asked_together(&[["cargo test", "Bash", input]], |ids| {
        let shown = home.text(&["show", &ids[0]]);
        let names: Vec<_> = shown
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(names[..3], ["tool", "command", "input"], "{shown}");
        assert_eq!(
            shown.matches("cargo test").count(),
            2,
            "the command and its part: {shown}"
        );
        assert!(
            shown.contains("timeout: 5") && shown.contains("(--full shows them)"),
            "{shown}"
        );
        let full = home.text(&["show", &ids[0], "--full"]);
        assert!(
            full.contains("digest") && full.contains("history"),
            "{full}"
        );
        home.run(&["deny", &ids[0]]);
    });
}

#[test]
fn a_script_gets_errors_and_lists_as_documents() {
    let home = Home::up();
    let error = |words: &[&str]| {
        let output = home.run(&[words, &["--json"]].concat());
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        let code = error["error"]["code"].as_str().unwrap().to_owned();
        let members: Vec<_> = error["error"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(members, ["code", "message", "hint"], "{error}");
        (output.status.code(), code)
    };
    assert_eq!(
        error(&["show", "nothing"]),
        (Some(11), "unknown_approval".into())
    );
    assert_eq!(error(&["approve"]), (Some(11), "unknown_id".into()));
    assert_eq!(error(&["spwan"]), (Some(2), "usage".into()));
    for (words, name) in [
        (&["ls"][..], "agents"),
        (&["agents"], "agents"),
        (&["token", "list"], "tokens"),
        (&["events"], "events"),
        (&["doctor"], "checks"),
        (&["inbox"], "approvals"),
        (&["rules", "list"], "grants"),
    ] {
        let document = home.json(words);
        assert!(document[name].is_array(), "{words:?}: {document}");
    }
    assert!(home.json(&["events"])["next"].is_u64());
    home.asked(&["Deploy", "--input", "{}"], |id| {
        let row = home.json(&["show", id]);
        assert_eq!(
            (&row["state"], row.get("status")),
            (&"pending".into(), None)
        );
        let done = home.json(&["deny", id, "nothing"]);
        assert_eq!(done["approvals"][0]["state"], "denied", "{done}");
        assert_eq!(
            done["errors"][0]["error"]["code"], "unknown_approval",
            "{done}"
        );
    });
    assert_eq!(home.code(&["down"]), Some(0));
    assert_eq!(error(&["ls"]), (Some(7), "no_host".into()));
}

#[test]
fn help_is_found_by_its_word_and_without_a_command() {
    let home = Home(tempfile::tempdir().unwrap());
    let help = home.text(&["help", "approve"]);
    assert!(help.contains("Usage: countersign approve"), "{help}");
    let alone = home.run(&[]);
    let text = String::from_utf8(alone.stdout).unwrap();
    assert_eq!(alone.status.code(), Some(2));
    assert!(
        text.contains("Run agents:") && text.contains("  fork "),
        "{text}"
    );
    assert_eq!(home.code(&["stop"]), Some(7), "no host is running");
}

#[test]
fn colour_is_for_terminals_unless_it_is_asked_for() {
    let home = Home::up();
    home.asked(
        &["Deploy", "--tool", "Bash", "--input", r#"{"command":"ls"}"#],
        |id| {
            let with = |words: &[&str]| home.text(&[&["show", id], words].concat());
            assert!(!with(&[]).contains('\u{1b}'));
            assert!(with(&["--color", "always"]).contains("\u{1b}["));
            let mut command = home.command(&["show", id, "--color", "never"]);
            let output = command.env("CLICOLOR_FORCE", "1").output().unwrap();
            assert!(!output.stdout.contains(&0x1b));
            assert_eq!(home.code(&["stop"]), Some(2), "nobody said yes");
            home.run(&["deny", id]);
        },
    );
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
