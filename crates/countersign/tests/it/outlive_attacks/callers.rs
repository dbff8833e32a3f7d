//! Whoever calls at a runner's socket and is not its host.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::{apart, approve, asking, row, sockets};
use crate::host::poll;
use crate::scene::{Scene, answer_next, asks, rested, terminal};
use crate::wire::Wire;

const SOCKETS_OF: &str = "COUNTERSIGN_TEST_CALLS_AT";
const WRITES_TO: &str = "COUNTERSIGN_TEST_WRITES_TO";

fn frame(head: &Value, body: &[u8]) -> Vec<u8> {
    let head = head.to_string().into_bytes();
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    let lengths = [length(4 + head.len() + body.len()), length(head.len())].concat();
    [lengths, head, body.to_vec()].concat()
}

fn hello(oldest: u32, newest: u32) -> Value {
    json!({ "type": "hello", "oldest": oldest, "newest": newest, "heard": 0, "open": [] })
}

/// An answer to whatever the agent asked first, if anybody believed it.
fn allow() -> Vec<u8> {
    let line =
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"outcome\":{\"outcome\":\"selected\"}}}\n";
    let item = json!({ "id": { "line": 1 }, "kind": "allow", "bytes": line.len() });
    frame(&json!({ "type": "write", "items": [item] }), line)
}

/// What a runner answers to these bytes first; nothing if it only closes.
fn call(socket: &Path, bytes: &[u8]) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // Whoever is refused may be left before all is said.
    drop(stream.write_all(bytes));
    let mut lengths = [0; 8];
    stream.read_exact(&mut lengths).ok()?;
    let head = u32::from_be_bytes(lengths[4..].try_into().unwrap());
    let mut text = vec![0; head.try_into().unwrap()];
    stream.read_exact(&mut text).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

/// Not a test of its own: an agent that calls at every runner, idle unless it was started as one.
#[test]
fn calls_at_runners() {
    let Some(home) = std::env::var_os(SOCKETS_OF).map(PathBuf::from) else {
        return;
    };
    let said = [frame(&hello(1, 1), b""), allow()].concat();
    let answers = sockets(&home).into_iter().map(|path| call(&path, &said));
    let answers: Vec<Option<Value>> = answers.collect();
    let to = PathBuf::from(std::env::var_os(WRITES_TO).unwrap());
    let half = to.with_extension("half");
    fs::write(&half, json!(answers).to_string()).unwrap();
    fs::rename(half, to).unwrap();
}

/// A command that calls at every runner of a scene and writes what they answered to a file.
fn calls(scene: &Scene, to: &str) -> String {
    let test = std::env::current_exe().unwrap();
    format!(
        "env {SOCKETS_OF}={} {WRITES_TO}={} {} --exact outlive_attacks::callers::calls_at_runners",
        scene.host.home().display(),
        scene.path(to),
        test.display()
    )
}

fn answered(scene: &Scene, to: &str) -> Value {
    let path = scene.path(to);
    let text = poll("the runners to be called at", || {
        fs::read_to_string(&path).ok()
    });
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn an_agent_drives_no_runner_from_wherever_it_calls() {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (victim, ask) = asking(&scene, &mut wire, "victim").await;
    let cleared = "env -i PATH=$PATH";
    for (name, line) in [("detached", ""), ("cleared", cleared), ("late", cleared)] {
        let first = match name {
            "late" => format!("until [ -e {} ]; do sleep 0.01; done; ", scene.path("go")),
            _ => String::new(),
        };
        let script = format!("{first}{line} {}\n", calls(&scene, name));
        fs::write(scene.path(&format!("{name}.sh")), script).unwrap();
    }
    // What a runner of another version would be called.
    fs::write(scene.path("runner"), calls(&scene, "other")).unwrap();
    let in_terminal = calls(&scene, "terminal");
    let steps = json!([
        { "run": format!("{} > /dev/null", calls(&scene, "plain")) },
        { "run": apart(&scene.path("detached.sh"), false) },
        { "run": apart(&scene.path("cleared.sh"), true) },
        { "run": apart(&scene.path("late.sh"), true) },
        asks("b1", &in_terminal, &json!([terminal(&in_terminal)])),
    ]);
    let attacker = scene.spawn(&mut wire, "bob", &steps).await;
    answer_next(&mut wire, "approve").await;
    rested(&mut wire, &attacker).await;
    let refused = json!({ "type": "refused", "why": "an agent does not drive a runner" });
    let both = json!([refused, refused]);
    for name in ["plain", "detached", "cleared", "terminal"] {
        assert_eq!(answered(&scene, name), both, "{name}");
    }
    let mut other = std::process::Command::new("sh");
    let other = other.args(["runner", "--folder", "/nowhere"]);
    let ended = other.current_dir(scene.folder()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(answered(&scene, "other"), both);
    scene.host.kill();
    fs::write(scene.path("go"), "").unwrap();
    assert_eq!(answered(&scene, "late"), both);
    scene.host.start_disarmed();
    let mut wire = Wire::subscriber(&scene.host).await;
    assert_eq!(scene.effects(), Vec::<String>::new());
    let reply = approve(&mut wire, &ask).await;
    assert!(reply.get("result").is_some(), "{reply}");
    let agent = rested(&mut wire, &victim).await;
    assert_eq!(
        (&agent["state"], scene.effects()),
        (&json!("idle"), vec!["victim".to_owned()])
    );
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_runner_outlives_whatever_it_is_sent() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (id, ask) = asking(&scene, &mut wire, "ann").await;
    let socket = sockets(scene.host.home()).remove(0);
    let whole = frame(&hello(1, 1), b"");
    let early = "a host says hello first";
    let cases: [(&[u8], Option<&str>); 4] = [
        (
            b"GET / HTTP/1.1\r\n\r\n",
            Some("no hello could be read: a frame is too long"),
        ),
        (&frame(&json!({ "type": "bye" }), b""), Some(early)),
        (
            &frame(&json!({ "type": "stop", "grace_ms": 0 }), b""),
            Some(early),
        ),
        (
            &frame(&hello(5, 9), b""),
            Some("the host speaks versions 5 to 9 of the link, and the runner 1 to 4"),
        ),
    ];
    for (bytes, why) in cases {
        let refused = why.map(|why| json!({ "type": "refused", "why": why }));
        assert_eq!(call(&socket, bytes), refused);
    }
    // Callers that say half of something and stay.
    let halves: Vec<_> = (1..whole.len())
        .step_by(7)
        .map(|end| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            drop(stream.write_all(&whole[..end]));
            stream
        })
        .collect();
    for _ in 0..2_000 {
        drop(UnixStream::connect(&socket));
    }
    let reply = approve(&mut wire, &ask).await;
    assert!(reply.get("result").is_some(), "{reply}");
    assert_eq!(rested(&mut wire, &id).await["state"], "idle");
    assert_eq!(scene.effects(), ["ann"]);
    drop(halves);
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_host_whose_place_was_taken_takes_it_back() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (id, ask) = asking(&scene, &mut wire, "ann").await;
    let socket = sockets(scene.host.home()).remove(0);
    for _ in 0..3 {
        let mut greeting = hello(1, 1);
        // What was committed is not kept, and the runner says from where on it could be heard.
        let refused = call(&socket, &frame(&greeting, b"")).unwrap();
        let why = refused["why"].as_str().unwrap().to_owned();
        let mut numbers = why.split(|letter: char| !letter.is_ascii_digit());
        let end = numbers.rfind(|word| !word.is_empty()).unwrap();
        greeting["heard"] = json!(end.parse::<u64>().unwrap());
        let welcomed = call(&socket, &frame(&greeting, b"")).unwrap();
        assert_eq!(welcomed["type"], "hello", "{welcomed}");
    }
    assert_eq!(row(&mut wire, &id).await["state"], "awaiting_permission");
    let reply = approve(&mut wire, &ask).await;
    assert!(reply.get("result").is_some(), "{reply}");
    assert_eq!(rested(&mut wire, &id).await["state"], "idle");
    assert_eq!(scene.effects(), ["ann"]);
    scene.end_all(&mut wire).await;
}
