//! The one way out of a sandbox, on the real binary: what rules allow, what waits for a person, what never leaves.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::host::DEFAULT_SANDBOX;
use crate::managed_terminals::play;
use crate::scene::{Scene, next_ask, rested, told};
use crate::wire::Wire;

/// A server outside of every sandbox, which counts whom it served.
struct OutsideServer {
    port: u16,
    served: Arc<AtomicUsize>,
}

impl OutsideServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(AtomicUsize::new(0));
        let counted = served.clone();
        // It ends with the test's process.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut asked = [0; 4096];
                drop(stream.read(&mut asked));
                let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nPUBLISHED";
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        Self { port, served }
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }
}

fn begin(network: &[String]) -> Scene {
    let home = tempfile::tempdir().unwrap();
    let rules: Vec<_> = network.iter().map(|rule| format!(", {rule:?}")).collect();
    let rules = format!("allow = [\"Bash\"{}]\n", rules.concat());
    std::fs::write(home.path().join("rules.toml"), rules).unwrap();
    Scene::begin_in(home, &[DEFAULT_SANDBOX])
}

/// Says this to the proxy, and prints the first line and the last of what comes back.
fn through_proxy(words: &str) -> String {
    let talk = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128 && printf \"{words}\" >&3 && cat <&3 | tr -d \"\\000\\r\" | sed -n \"1p;\\$p\""
    );
    format!("bash -c '{talk}'")
}

fn get(port: u16) -> String {
    through_proxy(&format!(
        "GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
    ))
}

fn tunnel(place: &str) -> String {
    through_proxy(&format!(
        "CONNECT {place} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n"
    ))
}

fn tried(line: &str) -> String {
    format!("if {line}; then echo LEFT; else echo STOPPED; fi 2>/dev/null")
}

fn count(text: &str, word: &str) -> usize {
    text.matches(word).count()
}

#[tokio::test]
async fn only_what_a_rule_allows_leaves_and_only_through_the_runner() {
    let server = OutsideServer::start();
    let port = server.port;
    let scene = begin(&[
        "Network(domain:*)".to_owned(),
        format!("Network(address:127.0.0.1:{port})"),
    ]);
    let socks = format!(
        "\\005\\001\\000\\005\\001\\000\\001\\177\\000\\000\\001\\{:03o}\\{:03o}GET / HTTP/1.1\\r\\n\\r\\n",
        port >> 8,
        port & 255
    );
    let allowed = [
        get(port),
        tunnel(&format!("127.0.0.1:{port}")),
        tunnel(&format!("localhost:{port}")),
        through_proxy(&socks),
    ];
    let stopped = [
        format!("bash -c \"exec 3<>/dev/tcp/127.0.0.1/{port}\""),
        "bash -c \"exec 3<>/dev/tcp/192.0.2.1/80\"".to_owned(),
        "bash -c \"echo x > /dev/udp/192.0.2.1/53\"".to_owned(),
        "bash -c \"exec 3<>/dev/tcp/2001:db8::1/80\"".to_owned(),
        "getent ahosts example.org".to_owned(),
        "test -z \"$HTTPS_PROXY$NODE_USE_ENV_PROXY\"".to_owned(),
    ];
    let mut steps: Vec<Value> = allowed.iter().map(|line| json!({ "run": line })).collect();
    let terminal = json!({ "terminal": { "command": "sh", "args": ["-c", get(port)] } });
    steps.push(terminal);
    steps.extend(stopped.iter().map(|line| json!({ "run": tried(line) })));
    let mut wire = Wire::subscriber(&scene.host).await;
    let (_, said) = play(&scene, &mut wire, &json!(steps)).await;
    assert_eq!(count(&said, "PUBLISHED"), 5, "{said}");
    assert_eq!(count(&said, "STOPPED"), stopped.len(), "{said}");
    assert_eq!(count(&said, "LEFT"), 0, "{said}");
    assert_eq!(server.served(), 5, "{said}");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_connection_waits_for_a_person_even_if_the_host_is_killed_meanwhile() {
    let server = OutsideServer::start();
    let port = server.port;
    // A rule for names is none for addresses.
    let mut scene = begin(&["Network(domain:*)".to_owned()]);
    let steps = json!([{ "run": get(port) }, { "run": get(port) }]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let ask = next_ask(&mut wire).await;
    let input = json!({ "address": "127.0.0.1", "port": port });
    assert_eq!(
        (&ask["tool"], &ask["input"]),
        (&json!("Network"), &input),
        "{ask}"
    );
    assert_eq!(server.served(), 0);
    drop(wire);
    scene.host.restart();
    let mut wire = Wire::subscriber(&scene.host).await;
    let allow = json!({ "approval_id": ask["id"], "resolution": "approve" });
    wire.ok("host.resolve_approval", allow).await;
    // What was allowed once is asked again.
    let second = next_ask(&mut wire).await;
    assert_eq!(second["input"], input, "{second}");
    assert_ne!(second["id"], ask["id"]);
    let deny = json!({ "approval_id": second["id"], "resolution": "deny" });
    wire.ok("host.resolve_approval", deny).await;
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert_eq!(count(&said, "PUBLISHED"), 1, "{said}");
    assert_eq!(count(&said, "403 Forbidden"), 1, "{said}");
    assert_eq!(server.served(), 1);
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_server_of_this_machine_that_the_profile_lists_is_reached_at_its_own_port() {
    let [listed, other] = [OutsideServer::start(), OutsideServer::start()];
    let home = tempfile::tempdir().unwrap();
    let config = format!(
        "[sandbox.work]\ndomains = [\"localhost:{}\"]\n",
        listed.port
    );
    std::fs::write(home.path().join("rules.toml"), "allow = [\"Bash\"]\n").unwrap();
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let scene = Scene::begin_in(home, &[DEFAULT_SANDBOX]);
    let direct = |port: u16| {
        let talk = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port} && printf \"GET / HTTP/1.1\\r\\n\\r\\n\" >&3 && cat <&3"
        );
        format!("bash -c '{talk}'")
    };
    let steps = json!([
        { "run": direct(listed.port) },
        { "terminal": { "command": "sh", "args": ["-c", direct(listed.port)] } },
        { "run": tried(&direct(other.port)) },
    ]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (_, said) = play(&scene, &mut wire, &steps).await;
    assert_eq!(count(&said, "PUBLISHED"), 2, "{said}");
    assert_eq!(count(&said, "STOPPED"), 1, "{said}");
    assert_eq!([listed.served(), other.served()], [2, 0], "{said}");
    scene.end_all(&mut wire).await;
}
