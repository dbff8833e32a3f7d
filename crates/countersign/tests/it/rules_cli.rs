//! Rules on the command line: with a host and without.

use std::process::Output;

use serde_json::{Value, json};

use crate::host::{Host, command, poll};
use crate::wire::Wire;

struct Typed<'a>(&'a Host);

impl Typed<'_> {
    fn run(&self, words: &[&str]) -> Output {
        command(self.0.home())
            .args(words)
            .current_dir(self.0.home())
            .output()
            .unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    fn text(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run(words);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }
}

async fn ask(wire: &mut Wire, command: &str) -> String {
    let params = json!({
        "action": "work", "system_level": true, "tool": "Bash",
        "input": { "command": command }, "cwd": "/",
    });
    let row = wire.ok("host.request_approval", params).await;
    row["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_adds_checks_lists_and_removes_a_rule() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("rules.toml"), "deny = [\"Bash(rm:*)\"]\n").unwrap();
    let host = Host::start_in(home, &[]);
    let typed = Typed(&host);
    let mut wire = Wire::operator(&host).await;
    let waiting = ask(&mut wire, "make").await;
    let (code, said) = typed.text(&["rules", "add", "Bash(make:*)", "--expires", "30d"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("open asks it answered: 1"), "{said}");
    let row = typed.json(&["show", &waiting]);
    assert_eq!(row["state"], "allowed");
    let codes = ["make all", "rm x", "ls"].map(|words| typed.text(&["rules", "check", words]).0);
    assert_eq!(codes, [Some(0), Some(3), Some(12)]);
    let listed = typed.json(&["rules", "list"]);
    let id = listed["grants"][0]["id"].as_str().unwrap();
    let (_, said) = typed.text(&["rules", "list"]);
    assert!(said.contains("rules.toml:1"), "{said}");
    assert!(said.contains("used once"), "{said}");
    let (code, said) = typed.text(&["rules", "remove", "Bash(rm:*)"]);
    assert_eq!(code, Some(11), "{said}");
    assert!(said.contains("rules.toml:1; changes apply"), "{said}");
    assert_eq!(typed.text(&["rules", "remove", &id[6..14]]).0, Some(0));
    assert_eq!(typed.text(&["rules", "check", "make"]).0, Some(12));
    assert_eq!(typed.text(&["rules", "add", "Bash("]).0, Some(2));
}

#[tokio::test]
async fn an_answer_is_remembered_after_it_was_shown() {
    let host = Host::start();
    let typed = Typed(&host);
    let mut wire = Wire::operator(&host).await;
    let first = ask(&mut wire, "cargo test").await;
    let remember = ["approve", &first, "--remember", "--scope", "always"];
    let (code, said) = typed.text(&remember);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("confirm with --yes"), "{said}");
    assert_eq!(typed.json(&["show", &first])["state"], "pending");
    let (code, said) = typed.text(&[&remember[..], &["--yes"]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("to remember: Bash(cargo test)"), "{said}");
    assert!(said.contains("remembered: grant-"), "{said}");
    let second = ask(&mut wire, "cargo test").await;
    assert_eq!(typed.json(&["show", &second])["state"], "allowed");
    let (code, said) = typed.text(&["rules", "backtest", "Bash(cargo test:*)"]);
    assert_eq!(code, Some(0), "{said}");
    let third = ask(&mut wire, "cargo test && make").await;
    let (_, said) = typed.text(&["show", &third]);
    assert!(said.contains("ask    make  <- no rule"), "{said}");
    let (_, said) = typed.text(&["inbox"]);
    assert!(said.contains("allow  cargo test  <- allow"), "{said}");
}

#[tokio::test]
async fn an_answer_to_an_answered_ask_saves_no_rule_and_says_so() {
    let host = Host::start();
    let typed = Typed(&host);
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, "cargo test").await;
    assert_eq!(typed.text(&["approve", &id]).0, Some(0));
    for words in [
        vec!["approve", &id, "--remember"],
        vec!["approve", &id, "--remember", "--rule", "Bash(make:*)"],
        vec!["deny", &id, "--remember", "--rule", "Bash(make:*)"],
    ] {
        let (code, said) = typed.text(&words);
        assert_eq!(code, Some(9), "{words:?} {said}");
        assert!(said.contains("; no rule was saved"), "{said}");
        assert!(
            said.contains("hint: save the rule with `countersign rules add RULE`"),
            "{said}"
        );
    }
    assert_eq!(typed.json(&["rules", "list"])["grants"], json!([]));
}

#[tokio::test]
async fn every_screen_says_that_a_file_is_broken() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("rules.toml");
    std::fs::write(&file, "deny = [\"Bash(rm:*)\"]\n").unwrap();
    let host = Host::start_in(home, &[]);
    let typed = Typed(&host);
    std::fs::write(&file, "deny = [\"Bash(\"]\n").unwrap();
    poll("the host to notice", || {
        let (_, said) = typed.text(&["rules", "list"]);
        said.contains("RULES BROKEN").then_some(())
    });
    for words in [vec!["rules", "list"], vec!["status"], vec!["inbox"]] {
        let (_, said) = typed.text(&words);
        assert!(said.contains("RULES BROKEN"), "{words:?} {said}");
    }
}

#[test]
fn without_a_host_the_files_explain_themselves() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("rules.toml");
    std::fs::write(&file, "allow = [\"Bash(git status:*)\"]\n").unwrap();
    let run = |words: &[&str]| {
        let output = command(home.path()).args(words).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, text) = run(&["rules", "explain", "git status && make"]);
    let place = file.display();
    assert_eq!(
        (code, text.as_str()),
        (
            Some(0),
            format!(
                "ask, because:\n\
                 allow  git status  <- allow Bash(git status:*) ({place}:1)\n\
                 ask    make  <- no rule\n"
            )
            .as_str()
        )
    );
    std::fs::write(&file, "deny = [\"Bash(\"]\n").unwrap();
    assert_eq!(run(&["rules", "explain", "ls"]).0, Some(1));
    assert_eq!(run(&["rules", "list"]).0, Some(7));
}

#[test]
fn a_corpus_is_judged_without_a_host() {
    let home = tempfile::tempdir().unwrap();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../rules/corpus/corpus.jsonl");
    let run = |words: &[&str]| command(home.path()).args(words).output().unwrap();
    let judged = run(&["rules", "check", "--corpus", corpus]);
    let text = String::from_utf8(judged.stdout).unwrap();
    assert_eq!(judged.status.code(), Some(0), "{text}");
    assert!(text.starts_with("wrong allows: 0\n"), "{text}");
    let lines = run(&["rules", "check", "--corpus", corpus, "--json"]).stdout;
    let rows: Vec<Value> = String::from_utf8(lines)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 418);
    let bad = home.path().join("bad.jsonl");
    std::fs::write(&bad, "{}\n").unwrap();
    let judged = run(&["rules", "check", "--corpus", bad.to_str().unwrap()]);
    assert_eq!(judged.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&judged.stdout).contains("line 1: missing field"));
}

#[test]
fn the_rules_of_others_are_imported_and_not_twice() {
    let home = tempfile::tempdir().unwrap();
    let settings = home.path().join(".claude");
    std::fs::create_dir(&settings).unwrap();
    let content = r#"{"permissions":{"allow":["Bash(git status:*)"],"deny":["Bash(rm:*)"]}}"#;
    std::fs::write(settings.join("settings.json"), content).unwrap();
    let run = |words: &[&str]| {
        let mut typed = command(home.path());
        typed.args(["rules", "import", "--from", "claude"]);
        typed.args(words).env("HOME", home.path()).output().unwrap()
    };
    let shown = run(&[]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    assert!(!home.path().join("rules.toml").exists());
    assert_eq!(run(&["--write"]).status.code(), Some(0));
    let written = std::fs::read_to_string(home.path().join("rules.toml")).unwrap();
    assert_eq!(
        written,
        "\n[[rule]]\nallow = \"Bash(git status:*)\"\n\n[[rule]]\ndeny = \"Bash(rm:*)\"\n"
    );
    assert_eq!(run(&["--write"]).status.code(), Some(0));
    let again = std::fs::read_to_string(home.path().join("rules.toml")).unwrap();
    assert_eq!(again, written);
}
