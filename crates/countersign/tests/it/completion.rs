//! Names and ids at the prompt, and manual pages.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::host::command;
use crate::managed::PROGRAM;
use crate::scene::{Scene, asks};
use crate::wire::Wire;

/// What bash offers for the last of these words, with the script that `completions bash` prints.
fn offered(home: &Path, words: &[&str]) -> Vec<String> {
    let script = r#"
        eval "$(countersign completions bash)"
        COMP_WORDS=(countersign "$@"); COMP_CWORD=$#; COMP_TYPE=9
        _clap_complete_countersign countersign "${!#}"
        [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let folder = Path::new(PROGRAM).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let done = Command::new("bash")
        .args(["--norc", "-c", script, "bash"])
        .args(words)
        .env("COUNTERSIGN_HOME", home)
        .env("PATH", path)
        .env_remove("COUNTERSIGN_URL")
        .env_remove("COUNTERSIGN_TOKEN")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(
        (done.status.code(), String::from_utf8_lossy(&done.stderr)),
        (Some(0), "".into()),
        "{words:?}"
    );
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn names_of_agents_and_ids_of_asks_are_completed_from_the_host() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let steps = json!([asks("c1", "make", &json!([]))]);
    scene.spawn(&mut wire, "api-one", &steps).await;
    scene.spawn(&mut wire, "web", &json!([])).await;
    // An agent that the host does not run names itself, and the word would be executed at the prompt.
    let evil = json!({ "name": "api-$(touch evil)" });
    wire.ok("host.register_agent", evil).await;
    let asked = wire.event_of("approval.requested").await;
    let id = asked["payload"]["id"].as_str().unwrap();
    let short = &id["approval-".len()..][..8];
    let home = scene.host.home();
    assert_eq!(offered(home, &["send", "ap"]), ["api-one"]);
    assert_eq!(offered(home, &["inbox", "--agent", "w"]), ["web"]);
    assert_eq!(offered(home, &["approve", &short[..2]]), [short]);
    assert_eq!(offered(home, &["show", "approval-"]), [id]);
    assert_eq!(offered(home, &["answer", &short[..2]]), [short]);
    assert_eq!(offered(home, &["interr"]), ["interrupt"]);
}

#[test]
fn without_a_host_or_with_a_silent_one_nothing_is_completed() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(offered(home.path(), &["send", "a"]), Vec::<String>::new());
    let run = home.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o700)).unwrap();
    let _silent = UnixListener::bind(run.join("host.sock")).unwrap();
    let begin = Instant::now();
    assert_eq!(offered(home.path(), &["send", "a"]), Vec::<String>::new());
    // A call of any other command waits longer than this for such a host.
    assert!(begin.elapsed() < Duration::from_secs(8));
}

/// The commands that `--help` lists, with those below them.
fn listed_commands(prefix: &[&str]) -> BTreeSet<String> {
    let home = tempfile::tempdir().unwrap();
    let help = command(home.path()).args(prefix).arg("--help").output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    let (_, lists) = help.split_once("Usage:").unwrap();
    let lists = lists.split("Options:").next().unwrap();
    let entries = lists.lines().filter_map(|line| line.strip_prefix("  "));
    entries
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_a_manual_page_with_examples() {
    let home = tempfile::tempdir().unwrap();
    let pages = tempfile::tempdir().unwrap();
    let written = command(home.path()).arg("man").arg(pages.path()).output();
    assert_eq!(written.unwrap().status.code(), Some(0));
    let mut commands = listed_commands(&[]);
    assert!(commands.contains("spawn"), "{commands:?}");
    for group in ["rules", "token", "worktree", "service"] {
        let below = listed_commands(&[group]);
        commands.extend(below.iter().map(|name| format!("{group}-{name}")));
    }
    for name in commands {
        let page = pages.path().join(format!("countersign-{name}.1"));
        let text = std::fs::read_to_string(page).unwrap_or_else(|_| panic!("{name}"));
        assert!(text.contains("\n.SH EXAMPLES\n.nf\n"), "{name}: {text}");
    }
    let text = std::fs::read_to_string(pages.path().join("countersign.1")).unwrap();
    assert!(text.contains(".SH \"EXIT CODES\"\n"), "{text}");
}
