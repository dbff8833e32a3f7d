//! Agents that the host runs, as a person at a terminal meets them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::host::{Host, command, poll};
use crate::managed::{PROGRAM, script};

/// A host, and a repository to work in.
struct Desk {
    host: Host,
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self {
            host: Host::start(),
            folder: tempfile::tempdir().unwrap(),
        };
        let repo = desk.repo();
        std::fs::create_dir(&repo).unwrap();
        std::fs::write(repo.join("a"), "one\n").unwrap();
        for words in [
            &["init", "-q", "-b", "main"] as &[&str],
            &["add", "-A"],
            &["commit", "-qm", "one"],
        ] {
            git(&repo, words);
        }
        desk
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("repo")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(self.host.home());
        command.args(words).current_dir(self.repo());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
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
    fn spawn(&self, words: &[&str], steps: &Value) -> (Option<i32>, String) {
        let line = format!("'{PROGRAM}' demo agent");
        let state = format!("SCRIPTED_AGENT_STATE={}", self.folder.path().display());
        let prompt = script(steps);
        let start = ["spawn", "--command", &line, "--env", &state];
        self.text(&[&start, words, &[&prompt]].concat())
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

#[test]
fn a_message_that_waits_is_listed_and_withdrawn() {
    let desk = Desk::new();
    let steps = json!([{ "sleep_ms": 600_000 }]);
    desk.spawn(&["--name", "ann"], &steps);
    for message in ["and the docs", "stop after that"] {
        poll("the message to wait", || {
            (desk.json(&["ls"])["agents"][0]["managed"]["turns"] == 1).then_some(())
        });
        let (code, said) = desk.text(&["send", "ann", message]);
        assert!(
            code == Some(0) && said.starts_with("queued: ann gets it"),
            "{said}"
        );
    }
    let (_, list) = desk.text(&["queue", "ann"]);
    let rows: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["NUMBER", "AGE", "FROM", "TEXT"]);
    assert_eq!(
        (rows[1][0], &rows[1][3..]),
        ("2", &["and", "the", "docs"][..])
    );
    let withdraw = ["queue", "ann", "--withdraw", "2"];
    assert_eq!(
        desk.text(&withdraw),
        (Some(0), "and the docs\nwithdrew message 2\n".to_owned())
    );
    let (code, refused) = desk.text(&withdraw);
    assert!(
        code == Some(1) && refused.contains("cannot be withdrawn: it no longer waits"),
        "{refused}"
    );
    // The first one is what it works on.
    let (code, refused) = desk.text(&["queue", "ann", "--withdraw", "1"]);
    assert!(
        code == Some(1) && refused.contains("the agent already has it"),
        "{refused}"
    );
    let left = desk.json(&["queue", "ann"]);
    assert_eq!(left["messages"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left["messages"][0]["text"], "stop after that");
    desk.text(&["kill", "ann"]);
}

#[test]
fn a_person_starts_an_agent_lets_it_work_and_reads_what_it_did() {
    let desk = Desk::new();
    let line = "echo two > b";
    let steps = json!([
        { "say": "hello\n" },
        { "ask": {
            "tool": { "call": "c1", "title": "Harmless", "kind": "execute", "input": { "command": line } },
            "on_allow": [{ "terminal": { "command": "sh", "args": ["-c", line] } }],
        } },
    ]);
    let (code, said) = desk.spawn(&["--name", "ann", "--worktree"], &steps);
    assert_eq!(
        (code, said.as_str()),
        (Some(0), "ann\nfollow it with `countersign logs -f ann`\n")
    );
    let ask = poll("the ask", || {
        desk.json(&["inbox"])["approvals"].get(0).cloned()
    });
    let tree = desk.repo().with_file_name("repo.worktrees").join("ann");
    assert_eq!(ask["cwd"], tree.to_str().unwrap());
    let (_, inbox) = desk.text(&["inbox"]);
    assert!(
        inbox.contains("ann") && inbox.contains(&format!("Bash: {line}")),
        "{inbox}"
    );
    let (_, listed) = desk.text(&["ls"]);
    assert!(
        listed.contains("awaiting_permission") && listed.ends_with("1 agent, 1 needs you\n"),
        "{listed}"
    );
    assert_eq!(desk.text(&["wait", "ann", "--timeout", "1s"]).0, Some(13));
    assert!(
        listed.contains("BRANCH") && listed.contains("ELAPSED"),
        "{listed}"
    );
    let all = ["approve", "--agent", "ann", "--all"];
    assert_eq!(desk.text(&all).0, Some(2), "nobody said yes");
    assert_eq!(desk.text(&[&all[..], &["--yes"]].concat()).0, Some(0));
    assert_eq!(
        desk.text(&["wait", "ann"]),
        (Some(0), "ann is idle\n".into())
    );
    let (_, logs) = desk.text(&["logs", "ann"]);
    assert!(
        logs.contains("| hello\n") && logs.contains("* Bash: echo two > b"),
        "{logs}"
    );
    let decision = logs
        .lines()
        .position(|line| line.starts_with("@ allowed by "));
    let call = logs
        .lines()
        .position(|line| line.starts_with("* Bash: echo two > b"));
    assert!(call.is_some() && call < decision, "{logs}");
    let diff = desk.json(&["diff", "ann"]);
    let file = json!({ "path": "b", "status": "added", "added": 1, "removed": 0 });
    assert_eq!(
        (&diff["files"], &diff["truncated"]),
        (&json!([file]), &json!(false))
    );
    let (code, text) = desk.text(&["diff", "ann"]);
    assert!(
        code == Some(0) && text.contains("+++ b/b\n@@ -0,0 +1 @@\n+two\n"),
        "{text}"
    );
    let (_, text) = desk.text(&["diff", "ann", "--stat"]);
    assert_eq!(
        text,
        "STATUS  ADDED  REMOVED  FILE\nadded   +1     -0       b\n"
    );
}

#[test]
fn a_worktree_with_work_is_kept_until_it_may_go() {
    let desk = Desk::new();
    let steps = json!([{ "run": "echo two > b" }]);
    assert_eq!(
        desk.spawn(&["--name", "ann", "--worktree", "--wait"], &steps)
            .0,
        Some(0)
    );
    let (code, said) = desk.text(&["worktree", "remove", "ann"]);
    assert!(
        code == Some(1) && said.contains("countersign kill"),
        "{said}"
    );
    assert_eq!(desk.text(&["archive", "ann"]).1, "archived ann\n");
    let (code, said) = desk.text(&["worktree", "remove", "ann"]);
    assert_eq!(
        (code, said.as_str()),
        (
            Some(1),
            "error: the worktree was kept: `b` is not committed\n\nhint: commit the work, or delete it with --discard\n"
        )
    );
    let (code, said) = desk.text(&["worktree", "remove", "--discard", "ann"]);
    assert_eq!((code, said.as_str()), (Some(0), "removed the worktree\n"));
    assert!(
        !desk
            .repo()
            .with_file_name("repo.worktrees")
            .join("ann")
            .exists()
    );
}

#[test]
fn agents_are_told_interrupted_ended_renamed_and_put_away_by_name() {
    let desk = Desk::new();
    assert_eq!(
        desk.spawn(&["--name", "ann"], &json!(["silence"])).0,
        Some(0)
    );
    let turn = || desk.json(&["ls"])["agents"][0]["managed"]["turn"]["number"].as_u64();
    poll("the turn", || turn().filter(|turn| *turn == 1));
    let (code, said) = desk.text(&["send", "ann", "second"]);
    assert_eq!(
        (code, said.as_str()),
        (Some(0), "queued: ann gets it when this turn ends\n")
    );
    let (code, said) = desk.text(&["interrupt", "ann", "--reason", "enough"]);
    assert_eq!((code, said.as_str()), (Some(0), "interrupted ann\n"));
    assert_eq!(desk.text(&["wait", "ann"]).0, Some(0));
    let (_, logs) = desk.text(&["logs", "ann"]);
    let interrupted = logs
        .lines()
        .find(|line| line.starts_with("@ interrupted by "));
    assert!(
        interrupted.is_some_and(|line| line.ends_with(": enough")),
        "{logs}"
    );
    let (code, said) = desk.text(&["send", "--wait", "ann", "third"]);
    assert_eq!((code, said.as_str()), (Some(0), "You said: third\n"));
    assert_eq!(
        desk.text(&["rename", "ann", "bea"]).1,
        "renamed ann to bea\n"
    );
    let (code, said) = desk.text(&["kill", "ann"]);
    assert!(
        code == Some(11) && said.contains("hint: see the agents"),
        "{said}"
    );
    assert_eq!(desk.text(&["kill", "bea"]), (Some(0), "bea ended\n".into()));
    assert_eq!(desk.text(&["archive", "bea"]).1, "archived bea\n");
    assert_eq!(
        (
            desk.json(&["ls"])["agents"].clone(),
            desk.json(&["ls", "--all"])["agents"][0]["name"].clone()
        ),
        (json!([]), json!("bea"))
    );
    assert_eq!(desk.text(&["unarchive", "bea"]).1, "restored bea\n");
    assert_eq!(desk.text(&["resume", "bea"]).1, "restarting bea\n");
    let (code, said) = desk.text(&["send", "--wait", "bea", "fourth"]);
    assert_eq!((code, said.as_str()), (Some(0), "You said: fourth\n"));
}

#[test]
fn a_story_is_followed_as_it_happens() {
    let desk = Desk::new();
    assert_eq!(
        desk.spawn(&["--name", "ann", "--wait"], &json!([{ "say": "first" }]))
            .1,
        "first\n"
    );
    let mut follow = desk.command(&["logs", "-f", "ann"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut until = |wanted: &str| {
        let mut lines = lines.by_ref().map(Result::unwrap);
        assert!(lines.any(|line| line == wanted), "{wanted}");
    };
    until("| first");
    assert_eq!(desk.text(&["send", "ann", "second"]).0, Some(0));
    until("> second");
    until("| You said: second");
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn an_agent_that_cannot_be_started_fails_with_words() {
    let desk = Desk::new();
    let failed = |words: &[&str], message: &str| {
        let hint = "see what can be started here with `countersign agents`";
        let expected = format!("error: {message}\n\nhint: {hint}\n");
        assert_eq!(desk.text(words), (Some(1), expected));
    };
    failed(
        &["spawn", "--command", "/nowhere/agent", "hi"],
        "there is no program `/nowhere/agent`; install it, put its folder on PATH, or give its whole path",
    );
    let line = format!("'{PROGRAM}' demo agent");
    let plain = desk.folder.path().canonicalize().unwrap();
    let plain = plain.to_str().unwrap();
    failed(
        &[
            "spawn",
            "--command",
            &line,
            "--cwd",
            plain,
            "--worktree",
            "hi",
        ],
        &format!("`{plain}` is not inside a git repository"),
    );
    assert_eq!(desk.json(&["ls", "--all"]), json!({ "agents": [] }));
    let (code, said) = desk.text(&["spawn", "--command", "false", "--name", "ann", "hi"]);
    assert!(
        code == Some(1) && said.starts_with("error: ann could not start: "),
        "{said}"
    );
    let (code, said) = desk.text(&["spawn", "--command", "false", "--no-wait", "hi"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = desk.text(&["spawn", "--agent", "nobody", "hi"]);
    assert!(code == Some(2), "{said}");
    assert_eq!(desk.text(&["spawn", "hi"]).0, Some(2));
    let known = desk.json(&["agents"]);
    assert!(
        known["agents"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["name"] == "claude"),
        "{known}"
    );
}

#[test]
fn an_agent_that_is_ending_is_restarted_when_it_has_ended() {
    let desk = Desk::new();
    let steps = json!([{ "say": "hello" }]);
    assert_eq!(desk.spawn(&["--name", "ann", "--wait"], &steps).0, Some(0));
    assert_eq!(
        desk.text(&["resume", "ann"]),
        (Some(0), "ann is already running (idle)\n".into())
    );
    assert_eq!(
        desk.text(&["kill", "--no-wait", "ann"]),
        (Some(0), "ending ann…\n".into())
    );
    assert_eq!(
        desk.text(&["resume", "ann"]),
        (Some(0), "restarting ann\n".into())
    );
    let (code, said) = desk.text(&["send", "--wait", "ann", "again"]);
    assert_eq!((code, said.as_str()), (Some(0), "You said: again\n"));
    // A message that waits starts the next run with the end of this one, which nobody sees between.
    assert_eq!(desk.text(&["kill", "--no-wait", "ann"]).0, Some(0));
    assert_eq!(desk.text(&["send", "ann", "third"]).0, Some(0));
    assert_eq!(desk.text(&["resume", "ann"]).0, Some(0));
    assert_eq!(desk.text(&["wait", "ann"]).0, Some(0));
}

#[test]
fn names_stand_for_agents_in_filters_and_unknown_ones_are_refused() {
    let desk = Desk::new();
    let steps = json!([{ "ask": {
        "tool": { "call": "c1", "title": "Harmless", "kind": "execute", "input": { "command": "ls" } },
    } }]);
    assert_eq!(desk.spawn(&["--name", "ann"], &steps).0, Some(0));
    assert_eq!(
        desk.spawn(&["--name", "bea"], &json!(["silence"])).0,
        Some(0)
    );
    let ask = poll("the ask", || {
        desk.json(&["inbox", "--agent", "ann"])["approvals"]
            .get(0)
            .cloned()
    });
    assert_eq!(ask["agent_name"], "ann");
    assert_eq!(
        desk.json(&["inbox", "--agent", "bea"])["approvals"],
        json!([])
    );
    let (_, told) = desk.text(&["events", "--agent", "ann", "--kinds", "turn.started"]);
    assert!(
        told.contains("turn.started [ann]  ann started turn 1\n"),
        "{told}"
    );
    for words in [
        &["inbox", "--agent", "nobody"] as &[&str],
        &["events", "--agent", "nobody"],
        &["events", "--follow", "--after", "1", "--agent", "nobody"],
        &["events", "--kinds", "approval.asked"],
        &["logs", "nobody"],
        &["bypass", "nobody", "--for", "1m"],
    ] {
        assert_eq!(desk.text(words).0, Some(11), "{words:?}");
    }
}

#[test]
fn the_demo_runs_real_agents_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let demo = home.path().join("demo");
    let mut run = command(home.path())
        .args(["demo", "run", "--home"])
        .arg(&demo)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let json = |words: &[&str]| -> Value {
        let output = command(&demo).args(words).arg("--json").output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    poll("three asks", || {
        (json(&["inbox"])["approvals"].as_array()?.len() == 3).then_some(())
    });
    let agents = json(&["ls"])["agents"].take();
    let mut names: Vec<_> = agents
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    names.sort_by_key(|name| name.as_str());
    assert_eq!(names, ["builder", "deployer", "writer"]);
    let pids: Vec<PathBuf> = children_of(&demo);
    assert_eq!(pids.len(), 3, "{pids:?}");
    let told = Command::new("kill")
        .args(["-INT", &run.id().to_string()])
        .status();
    assert!(told.unwrap().success());
    assert_eq!(run.wait().unwrap().code(), Some(0));
    poll("the agents' end", || {
        pids.iter().all(|pid| !pid.exists()).then_some(())
    });
}

/// Processes that play an agent in a folder.
fn children_of(folder: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let plays = |process: &PathBuf| {
        let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let place = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        words.contains(" demo agent ") && place.starts_with(folder.canonicalize().unwrap())
    };
    processes.map(|entry| entry.path()).filter(plays).collect()
}

#[test]
fn transcripts_are_searched_by_words() {
    let desk = Desk::new();
    let steps = json!([{ "say": "The parser drops\u{1b}[2J it." }]);
    assert_eq!(desk.spawn(&["--name", "ann", "--wait"], &steps).0, Some(0));
    let (code, shown) = desk.text(&["search", "drops", "PARS"]);
    assert_eq!(code, Some(0));
    let texts: Vec<&str> = shown.lines().skip(1).collect();
    // What the agent said, and the message that told it so.
    assert_eq!(texts.len(), 2, "{shown}");
    assert!(
        texts[0].ends_with("ann    | The parser drops\\u{1b}[2J it."),
        "{shown}"
    );
    assert!(texts[1].contains("  > "), "{shown}");
    let found = desk.json(&["search", "parser", "--agent", "ann", "--limit", "1"]);
    let hit = &found["hits"][0];
    assert_eq!(
        (&hit["kind"], &hit["agent_name"], &hit["excerpt"]),
        (
            &json!("assistant"),
            &json!("ann"),
            &json!([
                { "text": "The " },
                { "hit": true, "text": "parser" },
                { "text": " drops\u{1b}[2J it." },
            ])
        )
    );
    assert_eq!(found["next"], hit["sequence"]);
    assert_eq!(
        desk.text(&["search", "lexer"]),
        (Some(0), "nothing was found\n".into())
    );
    assert_eq!(
        desk.text(&["search", "parser", "--agent", "nobody"]).0,
        Some(11)
    );
    // Nothing in it is a word.
    assert_eq!(desk.text(&["search", "\" *"]).0, Some(2));
}
