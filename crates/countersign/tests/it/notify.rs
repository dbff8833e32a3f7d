//! Notifications, sent to a server of the test on loopback: each ask is told once, whenever the host is
//! killed, and an address in a message can only deny.

mod receiver;

use countersign_daemon::NOTIFY_CRASH_POINTS;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::receiver::Receiver;
use crate::agent::Agent;
use crate::host::{CRASH_AT, Host, command, poll};
use crate::http::{Rest, http};
use crate::wire::Wire;

/// A home whose channels lead to the receiver.
fn home_for(receiver: &Receiver, more: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let address = &receiver.address;
    let config = format!(
        "[web]\npublic_url = \"https://box.example\"\n[notify]\n\
         ntfy = {{ server = \"http://{address}/ntfy\", topic = \"asks\", content = \"full\" }}\n\
         webhook = [{{ url = \"http://{address}/hook\" }}]\n{more}"
    );
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    home
}

/// Asks as a program that does not wait for the answer, so that its ask outlives any connection.
async fn ask(host: &Host, word: &str) -> String {
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let body =
        json!({ "action": "run", "tool": "Bash", "input": { "command": format!("echo {word}") } });
    let asked = rest.send("POST", "/api/v1/approvals", body).await.json();
    asked["id"].as_str().unwrap().to_owned()
}

/// Waits until both channels were told about all these asks.
fn await_told(receiver: &Receiver, words: &[&str]) {
    poll("both channels to be told", || {
        let told = |path: &str| {
            let told = receiver.texts(path);
            words
                .iter()
                .all(|word| told.iter().any(|text| *text == format!("echo {word}")))
        };
        (told("/ntfy") && told("/hook")).then_some(())
    });
}

/// What one channel was told, each message once although it may have come twice under its id.
fn told_once(receiver: &Receiver, path: &str) -> Vec<String> {
    let mut told: Vec<(String, String)> = Vec::new();
    for message in receiver.messages(path) {
        let (id, text) = (message.id(), message.text());
        match told.iter().find(|(known, _)| *known == id) {
            None => told.push((id, text)),
            Some((_, known)) => assert_eq!(*known, text, "{id} says two things"),
        }
    }
    told.into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn each_ask_is_told_once_wherever_the_host_is_killed() {
    for point in NOTIFY_CRASH_POINTS {
        // The second pass is that of the other channel.
        for pass in 1..=2 {
            kill_at(&format!("{point}:{pass}")).await;
        }
    }
}

async fn kill_at(point: &str) {
    let receiver = Receiver::start();
    let mut host = Host::start_in(home_for(&receiver, ""), &[(CRASH_AT, point)]);
    host.token();
    ask(&host, "one").await;
    host.restart_after_crash();
    ask(&host, "two").await;
    await_told(&receiver, &["one", "two"]);
    host.restart();
    ask(&host, "three").await;
    await_told(&receiver, &["one", "two", "three"]);
    for path in ["/ntfy", "/hook"] {
        let expected = ["echo one", "echo two", "echo three"];
        assert_eq!(told_once(&receiver, path), expected, "{point} {path}");
        // Only what was on its way when the host was killed may come twice, and it is killed twice.
        let repeated = receiver.messages(path).len() - expected.len();
        assert!(repeated <= 2, "{point} {path}: {repeated} were repeated");
    }
}

#[tokio::test]
async fn an_ask_that_ended_meanwhile_is_not_told_late() {
    let receiver = Receiver::start();
    receiver.answer_with(503);
    let host = Host::start_in(home_for(&receiver, ""), &[]);
    let first = ask(&host, "first").await;
    poll("both channels to try", || {
        (receiver.count("/ntfy") > 0 && receiver.count("/hook") > 0).then_some(())
    });
    let mut wire = Wire::operator(&host).await;
    let deny = json!({ "approval_id": first, "resolution": "deny" });
    wire.ok("host.resolve_approval", deny).await;
    let before = receiver.forget();
    assert!(before > 0);
    receiver.answer_with(200);
    ask(&host, "second").await;
    await_told(&receiver, &["second"]);
    for path in ["/ntfy", "/hook"] {
        assert_eq!(told_once(&receiver, path), ["echo second"], "{path}");
    }
}

#[tokio::test]
async fn an_address_in_a_message_denies_its_ask_once_and_nothing_else() {
    let receiver = Receiver::start();
    let host = Host::start_in(home_for(&receiver, ""), &[]);
    let id = ask(&host, "one").await;
    let other = ask(&host, "two").await;
    await_told(&receiver, &["one", "two"]);
    let message = receiver.message_about("/hook", "echo one");
    assert_eq!(
        message.body["data"]["url"],
        format!("https://box.example/ask/{id}")
    );
    let deny_url = message.body["data"]["deny_url"].as_str().unwrap();
    let path = deny_url.strip_prefix("https://box.example").unwrap();
    // The preview of a link in a chat reads it, and denies nothing by that.
    let preview = http(&host.address, "GET", path, &[], "").await;
    assert_eq!(preview.status, 405);
    // Nor does it work for another ask.
    let moved = http(&host.address, "POST", &path.replace(&id, &other), &[], "").await;
    assert_eq!(moved.refusal(), (404, "unknown_path".to_owned()));
    // An agent that read the message is an agent all the same.
    let mut wire = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut wire, "coder").await;
    let request = json!({ "method": "POST", "path": path, "headers": [], "body": null });
    let refused = agent.http(&host.address, request).await;
    assert_eq!(refused["status"], 403, "{refused}");
    let denied = http(&host.address, "POST", path, &[], "").await;
    assert_eq!((denied.status, denied.body.as_str()), (200, "denied\n"));
    let ended = wire.ok("host.approval", json!({ "approval_id": id })).await;
    assert_eq!(ended["resolution"], "deny");
    assert_eq!(
        ended["resolved_by"]["name"], "notification (webhook:127.0.0.1)",
        "{ended}"
    );
    let again = http(&host.address, "POST", path, &[], "").await;
    assert_eq!(again.refusal(), (409, "already_resolved".to_owned()));
    let open = wire
        .ok("host.approval", json!({ "approval_id": other }))
        .await;
    assert_eq!(open["status"], "pending");
}

#[tokio::test]
async fn a_focused_screen_hushes_asks_until_it_is_left() {
    let receiver = Receiver::start();
    let host = Host::start_in(home_for(&receiver, ""), &[]);
    let mut page = Wire::operator(&host).await;
    page.ok("host.presence", json!({ "focused": true })).await;
    ask(&host, "one").await;
    // A test goes out at once: whatever was told before it would have come before it.
    let tested = page.ok("host.notify_test", json!({})).await;
    assert_eq!(
        tested,
        json!({ "results": [{ "name": "ntfy", "ok": true },
        { "name": "webhook:127.0.0.1", "ok": true }] })
    );
    let test = "This is a test: notifications arrive here.";
    assert_eq!(receiver.texts("/hook"), [test]);
    page.ok("host.presence", json!({ "focused": false })).await;
    await_told(&receiver, &["one"]);
    assert_eq!(receiver.texts("/hook"), [test, "echo one"]);
}

#[tokio::test]
async fn a_command_is_run_once_for_each_ask() {
    let receiver = Receiver::start();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("told");
    let script = format!(
        "echo \"$1|$COUNTERSIGN_TEXT|$COUNTERSIGN_KIND\" >> {}",
        file.display()
    );
    let command = json!(["sh", "-c", script, "sh", "{title}"]);
    let home = home_for(&receiver, &format!("command = {command}\n"));
    let mut host = Host::start_in(home, &[]);
    ask(&host, "one").await;
    let told = || std::fs::read_to_string(&file).unwrap_or_default();
    let lines = |count: usize| (told().lines().count() == count).then(told);
    poll("the command to run", || lines(1));
    await_told(&receiver, &["one"]);
    host.restart();
    ask(&host, "two").await;
    let expected = "script asks: Bash|echo one|approval.requested\n\
        script asks: Bash|echo two|approval.requested\n";
    assert_eq!(poll("the command to run again", || lines(2)), expected);
}

#[tokio::test]
async fn the_command_line_tests_and_lists_channels() {
    let receiver = Receiver::start();
    let host = Host::start_in(home_for(&receiver, ""), &[]);
    let run = |words: &[&str]| {
        let ran = command(host.home()).args(words).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
    };
    let sent = "ntfy: sent\nwebhook:127.0.0.1: sent\n".to_owned();
    assert_eq!(run(&["notify", "test"]), (Some(0), sent));
    receiver.answer_with(403);
    let failed = "ntfy: failed: the server said 403 no\n\
        webhook:127.0.0.1: failed: the server said 403 no\n";
    assert_eq!(run(&["notify", "test"]), (Some(1), failed.to_owned()));
    let (_, status) = run(&["notify", "status", "--json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        status["channels"][0]["last_error"],
        "the server said 403 no"
    );
    let (_, doctor) = run(&["doctor"]);
    let line = "warn  notifications: ntfy: the server said 403 no";
    assert!(doctor.contains(line), "{doctor}");
}
