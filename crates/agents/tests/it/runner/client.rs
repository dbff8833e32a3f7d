//! A runner under test, and a host that speaks frames by hand.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use countersign_agents::runner::RunnerRecord;
use countersign_agents::{ProcessTree, TreeRecord};
use countersign_core::event::ProcessKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::support::{guarded, key_of};

/// Longer than any test takes.
pub(crate) const LONG_MS: u64 = 600_000;

pub(crate) struct Running {
    pub(crate) record: RunnerRecord,
    pub(crate) key: ProcessKey,
    pub(crate) dir: TempDir,
    child: Child,
}

/// Nothing of it may stay behind when a test fails.
impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    built.join("examples/runner")
}

pub(crate) fn marks() -> TreeRecord {
    ProcessTree::create_with_marks().unwrap().record()
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::start_with(LONG_MS, marks())
    }

    pub(crate) fn start_with(patience_ms: u64, tree: TreeRecord) -> Self {
        let dir = TempDir::new().unwrap();
        let folder = dir.path().join("run");
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .unwrap();
        let record = RunnerRecord {
            tree,
            folder: folder.clone(),
            sockets: vec![dir.path().join("a/1.sock"), dir.path().join("b/1.sock")],
            patience_ms,
            protocol: countersign_core::event::Protocol::Acp,
        };
        let text = serde_json::to_vec(&record).unwrap();
        std::fs::write(folder.join("record.json"), text).unwrap();
        let mut child = Command::new(program())
            .args(["runner".as_ref(), "--folder".as_ref(), folder.as_os_str()])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        let key = key_of(child.id());
        Self {
            record,
            key,
            dir,
            child,
        }
    }

    pub(crate) async fn connect(&self) -> UnixStream {
        let connecting = async {
            loop {
                for path in &self.record.sockets {
                    if let Ok(stream) = UnixStream::connect(path).await {
                        return stream;
                    }
                }
                tokio::task::yield_now().await;
            }
        };
        guarded(connecting).await
    }

    /// A host that heard this much, and what it was greeted with.
    pub(crate) async fn host_at(&self, heard: u64, open: &[u64]) -> (Host, Value) {
        let mut host = Host {
            stream: self.connect().await,
        };
        host.say(json!({"type": "hello", "oldest": 1, "newest": 1, "heard": heard, "open": open}))
            .await;
        let greeted = host.hear().await.0;
        (host, greeted)
    }

    pub(crate) async fn host(&self) -> Host {
        let (host, greeted) = self.host_at(0, &[]).await;
        assert_eq!(greeted["type"], "hello");
        host
    }

    /// A host whose agent is a shell that runs `script`.
    pub(crate) async fn shell(&self, script: &str) -> (Host, ProcessKey) {
        let mut host = self.host().await;
        let agent = host.launch(&self.dir, script).await;
        (host, agent)
    }

    pub(crate) async fn wait(mut self) -> (ExitStatus, TempDir) {
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status;
                }
                tokio::task::yield_now().await;
            }
        };
        let status = guarded(ended).await;
        let dir = std::mem::replace(&mut self.dir, TempDir::new().unwrap());
        (status, dir)
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.key.pid.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

fn frame(head: &Value, body: &[u8]) -> Vec<u8> {
    let head = head.to_string();
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    let mut frame = length(4 + head.len() + body.len()).to_vec();
    frame.extend(length(head.len()));
    frame.extend(head.as_bytes());
    frame.extend(body);
    frame
}

pub(crate) struct Host {
    pub(crate) stream: UnixStream,
}

pub(crate) fn os(text: &str) -> Value {
    json!({"Unix": text.as_bytes()})
}

impl Host {
    pub(crate) async fn say(&mut self, head: Value) {
        self.say_with(head, &[]).await;
    }

    pub(crate) async fn say_with(&mut self, head: Value, body: &[u8]) {
        guarded(self.stream.write_all(&frame(&head, body)))
            .await
            .unwrap();
    }

    pub(crate) async fn hear(&mut self) -> (Value, Vec<u8>) {
        guarded(self.hear_next()).await.expect("a frame")
    }

    /// Says it to somebody who may have gone.
    pub(crate) async fn try_to_say(&mut self, head: Value) {
        drop(self.stream.write_all(&frame(&head, &[])).await);
    }

    /// Nothing when the link ended.
    pub(crate) async fn hear_next(&mut self) -> Option<(Value, Vec<u8>)> {
        let whole = self.stream.read_u32().await.ok()?;
        let head = self.stream.read_u32().await.ok()?;
        let mut bytes = vec![0; whole as usize - 4];
        self.stream.read_exact(&mut bytes).await.ok()?;
        let body = bytes.split_off(head as usize);
        Some((serde_json::from_slice(&bytes).unwrap(), body))
    }

    /// The next frame of a kind; output and log before it are passed over.
    pub(crate) async fn hear_kind(&mut self, kind: &str) -> Value {
        loop {
            let (head, _) = self.hear().await;
            if head["type"] == kind {
                return head;
            }
            let passed = head["type"].as_str().unwrap();
            assert!(["output", "log", "written"].contains(&passed), "{head}");
        }
    }

    /// What the agent says, until there is this much.
    pub(crate) async fn output(&mut self, bytes: usize) -> Vec<u8> {
        let mut output = Vec::new();
        while output.len() < bytes {
            let (head, body) = self.hear().await;
            if head["type"] == "output" {
                output.extend(body);
            }
        }
        output
    }

    pub(crate) async fn line(&mut self) -> String {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            line.extend(self.output(1).await);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    pub(crate) async fn launch(&mut self, dir: &TempDir, script: &str) -> ProcessKey {
        self.say(launch(dir, script)).await;
        let launched = self.hear_kind("launched").await;
        serde_json::from_value(launched["process"].clone()).unwrap()
    }

    pub(crate) async fn write(&mut self, name: Value, kind: &str, text: &str) {
        let item = json!({"id": name, "kind": kind, "bytes": text.len()});
        self.say_with(json!({"type": "write", "items": [item]}), text.as_bytes())
            .await;
    }

    /// Ends the agent, and gives its end.
    pub(crate) async fn stop(&mut self, grace_ms: u64) -> Value {
        self.say(json!({"type": "stop", "grace_ms": grace_ms}))
            .await;
        self.hear_kind("exited").await
    }
}

pub(crate) fn launch(dir: &TempDir, script: &str) -> Value {
    json!({
        "type": "launch",
        "program": os("sh"),
        "args": [os("-c"), os(script)],
        "cwd": dir.path(),
        "env": [[os("PATH"), os("/usr/local/bin:/usr/bin:/bin")]],
    })
}

/// Looks again and again until it is so.
pub(crate) async fn until(mut so: impl FnMut() -> bool) {
    let looking = async {
        while !so() {
            tokio::task::yield_now().await;
        }
    };
    guarded(looking).await;
}

pub(crate) fn exited(code: i32) -> Value {
    json!({"type": "exited", "exit": {"code": code, "signal": null}, "why": null})
}
