//! The first day: no rules, an offer of some, and what they settle.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use countersign_rules::StarterSet;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::host::{Host, command, poll};
use crate::managed::{PROGRAM, script};

/// A home without rules, and a repository with one commit and one change.
struct FirstDay {
    home: tempfile::TempDir,
    folder: tempfile::TempDir,
}

impl FirstDay {
    fn new() -> Self {
        let day = Self {
            home: tempfile::tempdir().unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        let repo = day.repo();
        std::fs::create_dir(&repo).unwrap();
        std::fs::write(repo.join("a.txt"), "one\n").unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "-qm", "one"]);
        day
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("repo")
    }

    fn rules(&self) -> PathBuf {
        self.home.path().join("rules.toml")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(self.home.path());
        // Nobody's rules of other tools.
        command
            .env("HOME", self.folder.path())
            .args(words)
            .current_dir(self.folder.path());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).stdin(Stdio::null()).output().unwrap()
    }

    fn text(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run(words);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Runs a command at a terminal on which these lines were typed; gives what the terminal showed.
    fn typed(&self, words: &[&str], lines: &str) -> (Option<i32>, String) {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let name = name.to_str().unwrap();
        let screen = || File::options().read(true).write(true).open(name).unwrap();
        let mut command = self.command(words);
        command.stdin(screen()).stdout(screen()).stderr(screen());
        let mut child = command.spawn().unwrap();
        // With the last handle of the other side the terminal ends.
        drop(command);
        let mut terminal = File::from(terminal);
        terminal.write_all(lines.as_bytes()).unwrap();
        // Read while it runs, or a full terminal would block the program.
        let mut shown = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = terminal.read(&mut buffer) {
            shown.extend_from_slice(&buffer[..read]);
        }
        let code = child.wait().unwrap().code();
        (code, String::from_utf8_lossy(&shown).into_owned())
    }
}

fn git(folder: &Path, words: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status();
    assert!(done.unwrap().success(), "{words:?}");
}

/// A step that asks for a tool and then ends.
fn asks(call: &str, title: &str, kind: &str, input: &Value) -> Value {
    json!({ "ask": { "tool": { "call": call, "title": title, "kind": kind, "input": input } } })
}

/// Plays two reads, `ls`, `git diff`, one edit and one test run in a worktree, in a sandbox; gives the
/// asks that waited for a person, in their order.
fn play(day: FirstDay, sandbox: &str) -> Vec<String> {
    let tree = day.repo().with_file_name("repo.worktrees").join("ann");
    let file = |name: &str| json!({ "file_path": tree.join(name) });
    let edit = json!({ "file_path": tree.join("a.txt"), "old_string": "one", "new_string": "two" });
    let run = |line: &str| json!({ "command": line });
    let steps = json!([
        asks("c1", "Read", "read", &file("a.txt")),
        asks("c2", "Read", "read", &file("b.txt")),
        asks("c3", "ls", "execute", &run("ls")),
        asks("c4", "git diff", "execute", &run("git diff")),
        asks("c5", "Edit", "edit", &edit),
        asks("c6", "cargo test", "execute", &run("cargo test")),
    ]);
    let repo = day.repo();
    let FirstDay { home, folder } = day;
    let host = Host::start_in(home, &[]);
    let (line, prompt) = (format!("'{PROGRAM}' demo agent"), script(&steps));
    let spawned = command(host.home())
        .args(["spawn", "--command", &line, "--name", "ann", "--worktree"])
        .args(["--sandbox", sandbox, &prompt])
        .current_dir(repo)
        .output()
        .unwrap();
    assert!(spawned.status.success(), "{spawned:?}");
    let cli = |words: &[&str]| -> Value {
        let mut command = command(host.home());
        let output = command.args(words).arg("--json").output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let mut asked = Vec::new();
    let next = || {
        let ask = cli(&["inbox"])["approvals"].get(0).cloned();
        let is_idle = || cli(&["ls"])["agents"][0]["state"] == "idle";
        ask.map(Some).or_else(|| is_idle().then_some(None))
    };
    while let Some(ask) = poll("an ask, or the end of the turn", next) {
        let input = &ask["input"];
        let what = input["command"].as_str().or(ask["tool"].as_str());
        asked.push(what.unwrap().to_owned());
        cli(&["approve", ask["id"].as_str().unwrap()]);
    }
    drop(folder);
    asked
}

#[test]
fn the_starter_rules_leave_one_ask_of_six() {
    let all = ["Read", "Read", "ls", "git diff", "Edit", "cargo test"];
    assert_eq!(play(FirstDay::new(), "open"), all);
    let day = FirstDay::new();
    let (code, said) = day.text(&["rules", "init", "--starter", "edit", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(play(day, "open"), ["cargo test"]);
    let day = FirstDay::new();
    let (code, said) = day.text(&["rules", "init", "--starter", "read", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(play(day, "open"), ["Edit", "cargo test"]);
}

#[test]
fn the_starter_rules_leave_no_ask_of_six_in_a_sandbox() {
    // The sandbox alone answers nothing.
    let all = ["Read", "Read", "ls", "git diff", "Edit", "cargo test"];
    assert_eq!(play(FirstDay::new(), "work"), all);
    let init = ["rules", "init", "--starter", "sandbox", "--yes"];
    for (sandbox, asked) in [("work", &[][..]), ("open", &["cargo test"])] {
        let day = FirstDay::new();
        let (code, said) = day.text(&init);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(play(day, sandbox), asked, "{sandbox}");
    }
}

#[test]
fn nothing_is_written_without_a_yes() {
    let day = FirstDay::new();
    let (code, said) = day.text(&["rules", "init"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not a terminal: name the rules"), "{said}");
    let (code, said) = day.text(&["rules", "init", "--starter", "read"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(StarterSet::Read.toml()), "{said}");
    assert!(
        said.contains("not a terminal: confirm with --yes"),
        "{said}"
    );
    let (code, said) = day.typed(&["rules", "init", "--starter", "read"], "n\n");
    assert_eq!(code, Some(1), "{said}");
    assert!(!day.rules().exists());
    let (code, said) = day.typed(&["rules", "init"], "2\ny\n");
    assert_eq!(code, Some(0), "{said}");
    let text = std::fs::read_to_string(day.rules()).unwrap();
    assert_eq!(text, StarterSet::Edit.toml());
}

#[test]
fn a_file_with_rules_keeps_them_and_gets_what_it_lacks() {
    let day = FirstDay::new();
    let own = "# mine\ndeny = [\"Bash(rm:*)\"]\n";
    std::fs::write(day.rules(), own).unwrap();
    let done = day.json(&["rules", "init", "--starter", "read", "--yes"]);
    assert_eq!(done["written"], true, "{done}");
    let text = std::fs::read_to_string(day.rules()).unwrap();
    assert!(text.starts_with(own), "{text}");
    assert_eq!(text[own.len()..], *done["added"].as_str().unwrap());
    let codes = ["ls", "rm x"].map(|line| day.text(&["rules", "explain", line]).0);
    assert_eq!(codes, [Some(0), Some(0)]);
    let (code, said) = day.text(&["rules", "init", "--starter", "read", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing to write"), "{said}");
    assert_eq!(std::fs::read_to_string(day.rules()).unwrap(), text);
}

#[test]
fn the_rules_of_other_tools_are_imported_if_wanted() {
    let day = FirstDay::new();
    let claude = day.folder.path().join(".claude");
    std::fs::create_dir(&claude).unwrap();
    let settings = json!({ "permissions": { "allow": ["Bash(npm run lint)"] } });
    std::fs::write(claude.join("settings.json"), settings.to_string()).unwrap();
    let (code, said) = day.typed(&["rules", "init"], "4\ny\ny\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("Also import the rules that claude has here?"),
        "{said}"
    );
    let text = std::fs::read_to_string(day.rules()).unwrap();
    assert!(text.contains("Bash(npm run lint)"), "{text}");
    let args = ["rules", "init", "--starter", "read", "--import", "--yes"];
    assert_eq!(day.text(&args).0, Some(0));
    let text = std::fs::read_to_string(day.rules()).unwrap();
    assert_eq!(text.matches("npm run lint").count(), 1, "{text}");
}

#[test]
fn up_offers_rules_once_to_a_person_at_a_terminal() {
    let offered = |said: &str| said.contains("There are no rules yet");
    let up = ["up", "--detach", "--listen", "127.0.0.1:0"];
    let day = FirstDay::new();
    let (code, said) = day.text(&up);
    assert_eq!((code, offered(&said)), (Some(0), false), "{said}");
    assert_eq!(day.text(&["down"]).0, Some(0));
    let (code, said) = day.typed(&up, "\n");
    assert_eq!((code, offered(&said)), (Some(0), true), "{said}");
    assert!(!day.rules().exists());
    // Declined: not offered again, neither here nor by `spawn`.
    let spawn = ["spawn", "--agent", "no-such-agent", "x"];
    let (code, said) = day.typed(&spawn, "1\ny\n");
    assert_eq!((code == Some(0), offered(&said)), (false, false), "{said}");
    std::fs::remove_file(day.home.path().join("starter-rules-declined")).unwrap();
    let json = [&spawn[..], &["--json"]].concat();
    assert!(!offered(&day.typed(&json, "1\ny\n").1));
    let (code, said) = day.typed(&spawn, "1\ny\n");
    assert_eq!((code == Some(0), offered(&said)), (false, true), "{said}");
    let text = std::fs::read_to_string(day.rules()).unwrap();
    assert_eq!(text, StarterSet::Read.toml());
    assert!(!offered(&day.typed(&spawn, "1\ny\n").1));
    assert_eq!(day.text(&["down"]).0, Some(0));
}

/// A folder of programs that only print their version.
fn programs(versions: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, version) in versions {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

#[test]
fn doctor_looks_at_agents_git_node_and_rules() {
    let day = FirstDay::new();
    let grades = |day: &FirstDay, programs: &Path| -> Vec<(String, String)> {
        let mut command = day.command(&["doctor", "--json"]);
        let output = command.env("PATH", programs).output().unwrap();
        let checks: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let checks = checks["checks"].as_array().unwrap().iter();
        let wanted = ["rules", "known agents", "git", "node"];
        checks
            .map(|check| (text(&check["what"]), text(&check["grade"])))
            .filter(|(what, _)| wanted.contains(&what.as_str()))
            .collect()
    };
    let graded = |grades: [&str; 4]| -> Vec<(String, String)> {
        let what = ["rules", "known agents", "git", "node"].map(str::to_owned);
        what.into_iter().zip(grades.map(str::to_owned)).collect()
    };
    let none = programs(&[]);
    assert_eq!(grades(&day, none.path()), graded(["warn"; 4]));
    let old = programs(&[
        ("git", "git version 2.20.1"),
        ("node", "v16.0.0"),
        ("claude", "1"),
    ]);
    assert_eq!(
        grades(&day, old.path()),
        graded(["warn", "ok", "warn", "warn"])
    );
    day.text(&["rules", "init", "--starter", "read", "--yes"]);
    let new = programs(&[
        ("git", "git version 2.47.3"),
        ("node", "v24.1.0"),
        ("claude", "1"),
    ]);
    assert_eq!(grades(&day, new.path()), graded(["ok"; 4]));
}

#[test]
fn agents_are_listed_without_a_host() {
    let day = FirstDay::new();
    let here = programs(&[("claude", "1")]);
    let mut command = day.command(&["agents", "--json"]);
    let output = command.env("PATH", here.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows["agents"].as_array().unwrap();
    let installed = rows.iter().filter(|row| row["installed"] == true);
    let names: Vec<_> = installed.map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["claude"]);
    let mut command = day.command(&["agents"]);
    let output = command.env("PATH", here.path()).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(said.contains("no host is running"), "{said}");
}
