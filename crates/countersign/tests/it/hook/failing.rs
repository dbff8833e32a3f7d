//! A hook always says something, and nothing that goes wrong says yes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{at_prompt, before_prompt, before_tool, decision, event};
use crate::host::command;

/// When Claude Code gives up on a hook that says nothing of its own limit.
const CALLER_TIME: Duration = Duration::from_mins(1);

/// A home without a host.
struct Alone(TempDir);

/// How a hook ended: its exit code, what it said, and what it complained of.
type Ended = (Option<i32>, String, String);

impl Alone {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut folder = fs::DirBuilder::new();
        folder.mode(0o700).create(home.path().join("run")).unwrap();
        Self(home)
    }

    fn with_config(text: &str) -> Self {
        let alone = Self::new();
        fs::write(alone.0.path().join("config.toml"), text).unwrap();
        alone
    }

    /// With a second to decide.
    fn hasty(more: &str) -> Self {
        Self::with_config(&format!("[hook]\nlimit_seconds = 1\n{more}\n"))
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("run/host.sock")
    }

    fn listen(&self) -> UnixListener {
        UnixListener::bind(self.socket()).unwrap()
    }

    fn command(&self) -> Command {
        let mut hook = command(self.0.path());
        hook.args(["hook", "claude", "--timeout", "60"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        hook
    }

    fn hook(&self, input: &[u8]) -> Ended {
        run(&mut self.command(), input)
    }

    fn decision(&self) -> (String, String) {
        let (code, out, err) = self.hook(&asking());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        decision(&out)
    }
}

fn run(hook: &mut Command, input: &[u8]) -> Ended {
    let mut child = hook.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have decided without reading to the end.
    drop(stdin.write_all(input));
    drop(stdin);
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < CALLER_TIME);
    let words = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        words(output.stdout),
        words(output.stderr),
    )
}

fn asking() -> Vec<u8> {
    before_tool("s1", "t1", "ls").to_string().into_bytes()
}

fn told(word: &str, reason: &str) -> (String, String) {
    (word.to_owned(), reason.to_owned())
}

#[test]
fn without_a_host_the_terminal_asks() {
    let alone = Alone::new();
    let (word, reason) = alone.decision();
    assert_eq!(word, "ask");
    assert!(
        reason.starts_with("no Countersign host is running"),
        "{reason}"
    );
    let prompt = before_prompt("s1", "ls").to_string();
    assert_eq!(
        alone.hook(prompt.as_bytes()),
        (Some(0), "{}\n".into(), String::new())
    );
    for name in [
        "Stop",
        "SessionStart",
        "SessionEnd",
        "Notification",
        "SomethingNew",
    ] {
        let event = event("s1", name, "/tmp").to_string();
        assert_eq!(
            alone.hook(event.as_bytes()),
            (Some(0), "{}\n".into(), String::new()),
            "{name}"
        );
    }
}

#[test]
fn without_a_host_a_no_is_said_where_that_is_wanted() {
    let alone = Alone::with_config("[hook]\nwithout_host = \"deny\"\n");
    assert_eq!(alone.decision().0, "deny");
    let prompt = before_prompt("s1", "ls").to_string();
    let (code, out, _) = alone.hook(prompt.as_bytes());
    assert_eq!(
        (code, &at_prompt(&out)["behavior"]),
        (Some(0), &json!("deny"))
    );
}

#[test]
fn a_socket_that_is_none_is_no_host() {
    let alone = Alone::new();
    fs::write(alone.socket(), "x").unwrap();
    assert_eq!(alone.decision().0, "ask");
    fs::remove_file(alone.socket()).unwrap();
    // A host that was killed leaves its socket behind.
    drop(alone.listen());
    assert_eq!(alone.decision().0, "ask");
}

#[test]
fn a_folder_that_others_may_use_is_not_trusted() {
    let alone = Alone::new();
    let _listener = alone.listen();
    let folder = alone.0.path().join("run");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let (word, reason) = alone.decision();
    assert_eq!(word, "ask");
    assert!(reason.contains("cannot be trusted"), "{reason}");
}

#[test]
fn a_host_that_never_answers_ends_as_configured() {
    for (config, word) in [("", "deny"), ("on_timeout = \"ask\"", "ask")] {
        let alone = Alone::hasty(config);
        let _listener = alone.listen();
        let late = "countersign: no answer in time";
        assert_eq!(alone.decision(), told(word, late));
    }
}

/// Answers each caller in turn with the bytes it has for it, and hangs up.
fn answers(listener: UnixListener, replies: Vec<Vec<u8>>) -> std::thread::JoinHandle<Vec<Value>> {
    std::thread::spawn(move || {
        let heard = replies.into_iter().map(|reply| {
            let (mut stream, _) = listener.accept().unwrap();
            let heard = read_request(&mut stream);
            // Who has heard enough may be gone.
            drop(stream.write_all(&reply));
            heard
        });
        heard.collect()
    })
}

fn read_request(stream: &mut UnixStream) -> Value {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1);
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).unwrap();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length = length.split_once('\r').unwrap().0.parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn reply(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

const ALLOW: &str = r#"{"agent_id":"a","decision":"allow","reason":"ok"}"#;

#[test]
fn what_is_no_answer_of_a_host_is_no_answer() {
    let garbage = [
        b"allow".to_vec(),
        b"{\"decision\":\"allow\"}".to_vec(),
        b"\xff\xfe\x00".to_vec(),
        b"HTTP/1.1 200 OK\r\n\r\n{\"agent_id\":\"a\",\"decision\":\"allow\"}".to_vec(),
        reply("200 OK", r#"{"decision":"allow"}"#),
        reply("200 OK", r#"{"agent_id":"a","decision":"perhaps"}"#),
        reply("200 OK", r#"{"agent_id":"a","decision":"Allow"}"#),
        reply("200 OK", "[]"),
        reply("403 Forbidden", ALLOW),
        reply("500 Internal Server Error", ALLOW),
        reply("302 Found", ALLOW),
    ];
    for bytes in garbage {
        let alone = Alone::new();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let host = answers(alone.listen(), vec![bytes]);
        assert_eq!(alone.decision().0, "ask", "{shown}");
        host.join().unwrap();
    }
}

#[test]
fn half_an_answer_is_none_and_the_next_host_is_asked_the_same() {
    let whole = reply("200 OK", ALLOW);
    let half = whole[..whole.len() - 1].to_vec();
    let ending = r#"{"error":{"reason":"shutting_down","message":"m"}}"#;
    let alone = Alone::new();
    let replies = vec![
        Vec::new(),
        half,
        whole[..12].to_vec(),
        reply("503 Service Unavailable", ending),
        whole,
    ];
    let host = answers(alone.listen(), replies);
    assert_eq!(alone.decision(), told("allow", "countersign: ok"));
    let heard = host.join().unwrap();
    let mut same = heard.clone();
    for request in &mut same {
        let wait = request["wait_ms"].as_u64().unwrap();
        assert!((50_000..55_000).contains(&wait), "{wait}");
        request["wait_ms"] = heard[0]["wait_ms"].clone();
    }
    assert_eq!(same, vec![heard[0].clone(); 5]);
}

#[test]
fn a_host_that_only_ever_goes_away_ends_as_configured() {
    let alone = Alone::hasty("");
    let half = reply("200 OK", ALLOW)[..40].to_vec();
    let listener = alone.listen();
    let host = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        drop(stream.write_all(&half));
    });
    let late = "countersign: no answer in time";
    assert_eq!(alone.decision(), told("deny", late));
    host.join().unwrap();
}

#[test]
fn what_cannot_be_read_is_blocked_by_the_exit_code() {
    let alone = Alone::new();
    let mut huge = br#"{"hook_event_name":"PreToolUse","tool_input":""#.to_vec();
    huge.resize(5 * 1024 * 1024, b'x');
    let deep = format!(r#"{{"hook_event_name":{}"#, "[".repeat(100_000));
    let broken: [&[u8]; 9] = [
        b"",
        b"\n",
        b"null",
        b"[]",
        b"{}",
        b"{\"hook_event_name\":\"PreToolUse\"",
        b"\xff\xfe",
        &huge,
        deep.as_bytes(),
    ];
    for input in broken {
        let (code, out, err) = alone.hook(input);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.starts_with("countersign"), "{err}");
    }
}

#[test]
fn an_event_that_is_broken_inside_is_denied_in_its_own_form() {
    let alone = Alone::new();
    let mut event = before_tool("s1", "t1", "ls");
    event["session_id"] = json!(7);
    let (code, out, _) = alone.hook(event.to_string().as_bytes());
    assert_eq!((code, decision(&out).0.as_str()), (Some(0), "deny"));
    event["hook_event_name"] = json!("PermissionRequest");
    let (_, out, _) = alone.hook(event.to_string().as_bytes());
    assert_eq!(at_prompt(&out)["behavior"], "deny");
    event["hook_event_name"] = json!("BeforeAnything");
    let (code, out, err) = alone.hook(event.to_string().as_bytes());
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(err, "countersign: unknown hook event `BeforeAnything`\n");
}

#[test]
fn an_input_that_never_ends_is_not_waited_for() {
    let alone = Alone::hasty("");
    let mut child = alone.command().spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"hook_event_name\"").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!((output.status.code(), output.stdout), (Some(2), Vec::new()));
}

#[test]
fn a_hook_that_fails_inside_says_no() {
    for (fails, reason) in [
        (
            "panic",
            "countersign: internal error in the hook, so nothing was allowed",
        ),
        ("hang", "countersign: no answer in time"),
    ] {
        let alone = Alone::hasty("");
        let (code, out, err) = run(
            alone.command().env("COUNTERSIGN_HOOK_FAILS", fails),
            &asking(),
        );
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert_eq!(decision(&out), told("deny", reason));
    }
}

#[test]
fn a_config_that_cannot_be_read_leaves_the_strict_half() {
    let alone = Alone::with_config("[hook]\non_timeout = \"allow\"\n");
    assert_eq!(alone.decision().0, "ask");
}

#[test]
fn an_answer_that_nobody_can_read_blocks() {
    let alone = Alone::new();
    let host = answers(alone.listen(), vec![reply("200 OK", ALLOW)]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (code, _, _) = run(alone.command().stdout(writer), &asking());
    assert_eq!(code, Some(2));
    host.join().unwrap();
}

#[test]
fn an_answer_that_nobody_takes_ends_all_the_same() {
    let alone = Alone::hasty("");
    let long = format!(
        r#"{{"agent_id":"a","decision":"allow","reason":"{}"}}"#,
        "x".repeat(1_000_000)
    );
    let host = answers(alone.listen(), vec![reply("200 OK", &long)]);
    let (_reader, writer) = std::io::pipe().unwrap();
    let began = Instant::now();
    let (code, _, _) = run(alone.command().stdout(writer), &asking());
    assert_eq!(code, Some(2));
    assert!(began.elapsed() < CALLER_TIME);
    host.join().unwrap();
}

#[test]
fn words_that_do_not_fit_the_command_line_still_get_an_answer() {
    let alone = Alone::new();
    for words in [
        ["hook", "claude", "--unknown", "x"].as_slice(),
        &["hook", "claude", "--timeout"],
        &["hook", "claude"],
    ] {
        let mut hook = command(alone.0.path());
        hook.args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (code, out, _) = run(&mut hook, &asking());
        assert_eq!((code, decision(&out).0.as_str()), (Some(0), "ask"));
    }
}
