//! An agent in a process of its own, since whatever process uses an agent's token is that agent
//! from then on, with all its descendants.
//!
//! The process is the test binary again, running its one test `agent::plays_an_agent`, which calls [`play_agent`]. It
//! takes one request per line and answers each with one line.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::http::http;
use super::wire::Wire;
use super::{PATIENCE, TestHost};

const ROLE: &str = "COUNTERSIGN_TEST_PLAYS_AGENT";
const ANSWER: &str = "@answer ";

/// The agent's process, seen from outside.
pub struct Agent {
    _child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    /// A process that has not shown any token yet.
    pub fn start(host: &impl TestHost) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "agent::plays_an_agent", "--nocapture"])
            .env(ROLE, host.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            _child: child,
            to,
            from,
        }
    }

    /// A process that connected with a token for the agent `id`.
    pub async fn connected(host: &impl TestHost, operator: &mut Wire, id: &str) -> Self {
        let params = json!({ "role": "agent", "agent_id": id });
        let token = operator.ok("host.create_token", params).await["token"].take();
        let mut agent = Self::start(host);
        let reply = agent
            .connect(host.address(), json!({ "token": token, "agent_id": id }))
            .await;
        assert_eq!(reply["result"]["agent_id"], id, "{reply}");
        agent
    }

    async fn ask(&mut self, request: Value) -> Value {
        let line = format!("{request}\n");
        self.to.write_all(line.as_bytes()).await.unwrap();
        loop {
            let reading = tokio::time::timeout(PATIENCE, self.from.next_line());
            let line = reading.await.unwrap().unwrap().expect("the agent lives");
            // The first answer may stand behind the name of the test.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return serde_json::from_str(answer).unwrap();
            }
        }
    }

    /// Opens a new connection over TCP and gives the reply to `session.auth`.
    pub async fn connect(&mut self, address: &str, auth: Value) -> Value {
        self.ask(json!({ "do": "connect", "address": address, "auth": auth }))
            .await
    }

    /// Opens a new connection over the Unix socket.
    pub async fn connect_unix(&mut self) -> Value {
        self.ask(json!({ "do": "connect_unix" })).await
    }

    /// The whole reply on the newest connection.
    pub async fn reply(&mut self, method: &str, params: Value) -> Value {
        self.ask(json!({ "do": "call", "method": method, "params": params }))
            .await
    }

    /// The whole reply, or nothing if the host went before it came.
    pub async fn try_reply(&mut self, method: &str, params: Value) -> Option<Value> {
        let request = json!({ "do": "try", "method": method, "params": params });
        Some(self.ask(request).await).filter(|reply| !reply.is_null())
    }

    pub async fn ok(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.reply(method, params).await;
        assert!(reply.get("result").is_some(), "{method}: {reply}");
        reply["result"].take()
    }

    pub async fn no(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.reply(method, params).await;
        assert!(reply.get("error").is_some(), "{method}: {reply}");
        reply["error"].take()
    }

    /// `{status, body}` of one HTTP request.
    pub async fn http(&mut self, address: &str, parts: Value) -> Value {
        self.ask(json!({ "do": "http", "address": address, "parts": parts }))
            .await
    }

    /// `{code, out, err}` of any program, run as the agent's child.
    pub async fn run_program(&mut self, line: &[&str]) -> Value {
        self.ask(json!({ "do": "run_program", "line": line })).await
    }

    /// Starts `mcp` as the agent's child, on this socket.
    pub async fn start_mcp(&mut self, socket: &Path) {
        self.ask(json!({ "do": "start_mcp", "socket": socket }))
            .await;
    }

    /// Writes a message to `mcp`.
    pub async fn say_mcp(&mut self, message: Value) {
        self.ask(json!({ "do": "say_mcp", "message": message }))
            .await;
    }

    /// The next message of `mcp`, or nothing when it has ended.
    pub async fn hear_mcp(&mut self) -> Value {
        self.ask(json!({ "do": "hear_mcp" })).await
    }

    /// Closes the standard input of `mcp`; its exit code.
    pub async fn end_mcp(&mut self) -> Value {
        self.ask(json!({ "do": "end_mcp" })).await
    }

    /// `{code, out, err}` of the command line, run as the agent's child.
    pub async fn run(&mut self, arguments: &[&str]) -> Value {
        self.ask(json!({ "do": "run", "arguments": arguments }))
            .await
    }
}

/// How a process that plays an agent starts the command line, aimed at one home.
pub type CommandLine = fn(&Path) -> std::process::Command;

/// The agent's side of [`Agent`]: returns at once unless this process was started as one.
pub async fn play_agent(command_line: CommandLine) {
    let Some(home) = std::env::var_os(ROLE).map(PathBuf::from) else {
        return;
    };
    let mut player = AgentPlayer {
        home,
        command_line,
        wire: None,
        bridge: None,
    };
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = match player.play_bridge(&request) {
            Some(answer) => answer,
            None => player.play(&request).await,
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{ANSWER}{answer}").unwrap();
    }
}

struct AgentPlayer {
    home: PathBuf,
    command_line: CommandLine,
    /// The newest connection.
    wire: Option<Wire>,
    bridge: Option<McpBridge>,
}

impl AgentPlayer {
    async fn play(&mut self, request: &Value) -> Value {
        match request["do"].as_str().unwrap() {
            "connect" => {
                let opened = self
                    .wire
                    .insert(Wire::open_at(text(&request["address"])).await);
                opened.reply("session.auth", request["auth"].clone()).await
            }
            "connect_unix" => {
                let socket = self.home.join("run/host.sock");
                let opened = self.wire.insert(Wire::unix(&socket).await);
                opened.reply("session.auth", json!({})).await
            }
            "call" => {
                let opened = self.wire.as_mut().unwrap();
                let params = request["params"].clone();
                opened.reply(text(&request["method"]), params).await
            }
            "try" => {
                let opened = self.wire.as_mut().unwrap();
                let reply = opened.try_reply(text(&request["method"]), request["params"].clone());
                reply.await.unwrap_or_default()
            }
            "http" => play_http(text(&request["address"]), &request["parts"]).await,
            "run" => run(&mut (self.command_line)(&self.home), &request["arguments"]),
            "run_program" => run_program(&request["line"]),
            other => panic!("unknown request {other}"),
        }
    }

    fn play_bridge(&mut self, request: &Value) -> Option<Value> {
        match request["do"].as_str().unwrap() {
            "start_mcp" => {
                let mut child = (self.command_line)(&self.home)
                    .args(["mcp", "--socket", text(&request["socket"])])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let out = std::io::BufReader::new(child.stdout.take().unwrap());
                self.bridge = Some(McpBridge { child, out });
                Some(json!({}))
            }
            "say_mcp" => {
                let to = self.bridge.as_mut().unwrap().child.stdin.as_mut().unwrap();
                writeln!(to, "{}", request["message"]).unwrap();
                Some(json!({}))
            }
            "hear_mcp" => {
                let mut line = String::new();
                let bridge = self.bridge.as_mut().unwrap();
                bridge.out.read_line(&mut line).unwrap();
                Some(serde_json::from_str(&line).unwrap_or_default())
            }
            "end_mcp" => {
                let child = &mut self.bridge.as_mut().unwrap().child;
                drop(child.stdin.take());
                Some(json!(child.wait().unwrap().code()))
            }
            _ => None,
        }
    }
}

/// The agent's own server of tools.
struct McpBridge {
    child: std::process::Child,
    out: std::io::BufReader<std::process::ChildStdout>,
}

async fn play_http(address: &str, parts: &Value) -> Value {
    let headers: Vec<(String, String)> =
        serde_json::from_value(parts["headers"].clone()).unwrap_or_default();
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let body = match &parts["body"] {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let (method, path) = (text(&parts["method"]), text(&parts["path"]));
    let answer = http(address, method, path, &headers, &body).await;
    let cookie = answer.header("set-cookie");
    json!({ "status": answer.status, "body": answer.body, "cookie": cookie })
}

fn run(command: &mut std::process::Command, arguments: &Value) -> Value {
    let arguments: Vec<String> = serde_json::from_value(arguments.clone()).unwrap();
    describe_output(&command.args(arguments).output().unwrap())
}

fn run_program(line: &Value) -> Value {
    let line: Vec<String> = serde_json::from_value(line.clone()).unwrap();
    let mut program = std::process::Command::new(&line[0]);
    describe_output(&program.args(&line[1..]).output().unwrap())
}

fn describe_output(ended: &std::process::Output) -> Value {
    json!({
        "code": ended.status.code(),
        "out": String::from_utf8_lossy(&ended.stdout),
        "err": String::from_utf8_lossy(&ended.stderr),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
