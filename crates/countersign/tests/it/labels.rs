//! Agents in groups: labels and profiles, merging what they did, and files in their prompts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::host::{Host, command, poll};
use crate::managed::{PROGRAM, script};

/// A host, and a repository to work in.
struct Group {
    host: Host,
    folder: tempfile::TempDir,
}

impl Group {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = "[profiles.review]\nmode = \"careful\"\nprompt_prefix = \"Be brief.\"\n\
                      labels = { team = \"web\" }\n";
        std::fs::write(home.path().join("config.toml"), config).unwrap();
        let group = Self {
            host: Host::start_in(home, &[]),
            folder: tempfile::tempdir().unwrap(),
        };
        let repo = group.repo();
        std::fs::create_dir(&repo).unwrap();
        std::fs::write(repo.join("a"), "one\n").unwrap();
        for words in [
            &["init", "-q", "-b", "main"] as &[&str],
            &["config", "user.name", "t"],
            &["config", "user.email", "t@example.org"],
            &["add", "-A"],
            &["commit", "-qm", "one"],
        ] {
            git(&repo, words);
        }
        group
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("repo")
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = command(self.host.home());
        command.args(words).current_dir(self.repo());
        command.output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// The exit code and what was printed, data first.
    fn text(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run(words);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// Starts a scripted agent.
    fn spawn(&self, words: &[&str], prompt: &str) {
        let line = format!("'{PROGRAM}' demo agent");
        let state = format!("SCRIPTED_AGENT_STATE={}", self.folder.path().display());
        let start = ["spawn", "--command", &line, "--env", &state];
        let (code, text) = self.text(&[&start, words, &[prompt]].concat());
        assert_eq!(code, Some(0), "{text}");
    }

    fn asks(&self, words: &[&str]) -> Vec<String> {
        let rows = self.json(&[&["inbox"], words].concat());
        let rows = rows["approvals"].as_array().unwrap().iter();
        let mut commands: Vec<_> = rows
            .map(|row| row["input"]["command"].as_str().unwrap().to_owned())
            .collect();
        commands.sort();
        commands
    }
}

fn git(folder: &Path, words: &[&str]) -> String {
    let done = Command::new("git")
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// Asks about two commands, one after the other.
fn asking(first: &str, second: &str) -> String {
    let ask = |call: &str, command: &str| {
        json!({ "ask": { "tool": {
            "call": call, "title": command, "kind": "execute", "input": { "command": command },
        } } })
    };
    script(&json!([ask("c1", first), ask("c2", second)]))
}

#[test]
fn labels_choose_what_is_listed_and_where_rules_and_bypasses_count() {
    let group = Group::new();
    group.spawn(
        &["--name", "web", "--label", "team=web"],
        &asking("make web", "make more"),
    );
    group.spawn(
        &["--name", "api", "--label", "team=api"],
        &asking("make api", "make more"),
    );
    poll("both to ask", || {
        (group.asks(&[]) == ["make api", "make web"]).then_some(())
    });
    assert_eq!(group.asks(&["--label", "team=web"]), ["make web"]);
    let (_, listed) = group.text(&["ls", "--label", "team=api"]);
    assert!(
        listed.contains("team=api") && !listed.contains("team=web"),
        "{listed}"
    );
    let (code, added) = group.text(&["rules", "add", "Bash(make:*)", "--label", "team=web"]);
    assert!(
        code == Some(0) && added.contains("label team=web"),
        "{added}"
    );
    let (code, text) = group.text(&["wait", "web"]);
    assert_eq!((code, text.as_str()), (Some(0), "web is idle\n"));
    assert_eq!(group.asks(&[]), ["make api"]);
    let (code, text) = group.text(&["bypass", "--label", "team=none", "--for", "5m"]);
    assert_eq!(code, Some(11), "{text}");
    let (code, text) = group.text(&["bypass", "--label", "team=api", "--for", "5m"]);
    let notice = "applies to the 1 agent that has this label now; \
                  agents started later with it are not included\n";
    assert!(
        code == Some(0) && text.starts_with("api is bypassed for ") && text.ends_with(notice),
        "{text}"
    );
    assert_eq!(group.text(&["wait", "api"]).0, Some(0));
    // One that is started later with the label asks.
    group.spawn(
        &["--name", "later", "--label", "team=api"],
        &asking("make later", "make more"),
    );
    poll("it to ask", || {
        (group.asks(&["--agent", "later"]) == ["make later"]).then_some(())
    });
    let (_, text) = group.text(&["bypass", "--label", "team=api", "--off"]);
    assert_eq!(
        text,
        "bypass off: api asks again\nbypass off: later asks again\n\
         applies to the 2 agents that have this label now; \
         agents started later with it are not included\n"
    );
    assert_eq!(
        group.text(&["spawn", "--agent", "x", "--label", "team"]).0,
        Some(2)
    );
}

#[test]
fn a_profile_from_the_configuration_is_what_an_agent_is_started_with() {
    let group = Group::new();
    group.spawn(&["--name", "ann", "--profile", "review", "--wait"], "hello");
    let (_, logs) = group.text(&["logs", "ann"]);
    assert!(logs.contains("You said: Be brief."), "{logs}");
    let agents = group.json(&["ls"]);
    let rows = agents.as_array().or(agents["agents"].as_array()).unwrap();
    let managed = &rows[0]["managed"];
    assert_eq!(managed["labels"], json!({ "team": "web" }), "{managed}");
    let (code, text) = group.text(&["spawn", "--profile", "none", "x"]);
    assert!(code == Some(2) && text.contains("it has: review"), "{text}");
}

#[test]
fn a_worktree_is_listed_merged_and_removed() {
    let group = Group::new();
    let work = "echo two > b && git add b && git commit -qm two";
    let steps = script(&json!([{ "run": work }]));
    group.spawn(&["--name", "ann", "--worktree", "--wait"], &steps);
    let rows = group.json(&["worktree", "list"]);
    let rows = rows["worktrees"].as_array().unwrap();
    assert_eq!(
        (&rows[0]["agent_name"], &rows[0]["branch"]),
        (&json!("ann"), &json!("countersign/ann"))
    );
    let (code, text) = group.text(&["worktree", "merge", "ann"]);
    assert!(
        code == Some(0) && text.starts_with("merged into main: ") && text.contains("fast-forward"),
        "{text}"
    );
    assert_eq!(
        std::fs::read_to_string(group.repo().join("b")).unwrap(),
        "two\n"
    );
    // The same file, changed on both sides.
    let again = script(&json!([{ "run": "echo theirs > a && git commit -qam theirs" }]));
    assert_eq!(group.text(&["send", "ann", &again, "--wait"]).0, Some(0));
    std::fs::write(group.repo().join("a"), "ours\n").unwrap();
    git(&group.repo(), &["commit", "-qam", "ours"]);
    let before = git(&group.repo(), &["rev-parse", "HEAD"]);
    let (code, text) = group.text(&["worktree", "merge", "ann"]);
    assert!(
        code == Some(1) && text.contains("nothing was merged") && text.contains("conflict in a"),
        "{text}"
    );
    assert_eq!(git(&group.repo(), &["rev-parse", "HEAD"]), before);
    assert_eq!(git(&group.repo(), &["status", "--porcelain"]), "");
}

#[test]
fn images_and_files_go_with_a_prompt() {
    let group = Group::new();
    let image = group.folder.path().join("shot.png");
    std::fs::write(&image, b"\x89PNG").unwrap();
    std::fs::write(group.repo().join("note.txt"), "a note").unwrap();
    let image = image.to_str().unwrap();
    group.spawn(&["--name", "ann", "--attach", image, "--wait"], "look");
    let (_, logs) = group.text(&["logs", "ann"]);
    assert!(
        logs.contains("[image image/png iVBORw==]")
            && logs.contains("shot.png: image/png, 4 bytes"),
        "{logs}"
    );
    let (code, text) = group.text(&["send", "ann", "--attach", "note.txt", "read", "--wait"]);
    assert!(
        code == Some(0) && text.contains("[resource a note]"),
        "{text}"
    );
    for file in ["nothing", "."] {
        let (code, text) = group.text(&["send", "ann", "--attach", file, "read"]);
        assert!(code != Some(0) && text.contains("attach"), "{text}");
    }
}
