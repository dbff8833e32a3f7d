//! One suite for every shell backend: what each of them promises, and what an editor must not be able to turn into
//! a success.
#![expect(
    clippy::disallowed_methods,
    reason = "each test ends by itself, and its queues are as long as it makes them"
)]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use countersign_agents::adapter::ProcessExit;
use countersign_agents::editor::{
    CallId, EditorConnection, EditorHostCall, EditorSettings, EditorTerminals, HostReply,
    SessionEvent, SessionFact, TerminalViewer,
};
use countersign_agents::{
    AcpShells, CommandSpec, EditorCall, EditorCallError, EditorFuture, EditorLink, EditorReply,
    LocalShells, NoShells, ProcessTree, ShellBackend, ShellError, TerminalId, TerminalOutput,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

use crate::support::{code, env, guarded, signal};

fn spec(cwd: &Path, command: &str) -> CommandSpec {
    static KEYS: AtomicU64 = AtomicU64::new(1);
    CommandSpec {
        key: KEYS.fetch_add(1, Ordering::Relaxed),
        command: command.to_owned(),
        cwd: cwd.to_owned(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        output_bytes_max: 1_000,
    }
}

async fn run(shells: &dyn ShellBackend, spec: CommandSpec) -> TerminalOutput {
    let id = guarded(shells.create(spec)).await.expect("it should start");
    let exit = guarded(shells.wait_for_exit(&id)).await.expect("exit");
    let output = guarded(shells.output(&id)).await.expect("output");
    assert_eq!(output.exit, Some(exit));
    guarded(shells.release(&id)).await.expect("release");
    output
}

fn output(text: &str, truncated: bool, exit: ProcessExit) -> TerminalOutput {
    TerminalOutput {
        text: text.to_owned(),
        truncated,
        exit: Some(exit),
    }
}

/// The one thing in which backends differ; all else is promised by each of them.
#[derive(Clone, Copy)]
enum CommandSupport {
    Runs,
    /// Runs nothing, with this reason.
    Refuses(&'static str),
}

/// What every backend promises.
async fn conforms(shells: &dyn ShellBackend, commands: CommandSupport) {
    assert_eq!(guarded(shells.list()).await.expect("a list"), []);
    does_not_know(shells, &TerminalId::new("never")).await;
    match commands {
        CommandSupport::Refuses(reason) => refuses_commands(shells, reason).await,
        CommandSupport::Runs => {
            let dir = TempDir::new().expect("a folder");
            let cwd = dir.path().canonicalize().expect("a real folder");
            reports_output_and_exit(shells, &cwd).await;
            kills_and_releases(shells, &cwd).await;
            ends_a_wait_by_release(shells, &cwd).await;
            starts_each_key_once(shells, &cwd).await;
            refuses_a_missing_folder(shells, &cwd).await;
        }
    }
    does_not_know(shells, &TerminalId::new("never")).await;
}

async fn does_not_know(shells: &dyn ShellBackend, id: &TerminalId) {
    let gone = |error: ShellError| matches!(error, ShellError::NotFound(named) if named == *id);
    assert!(guarded(shells.output(id)).await.is_err_and(gone));
    assert!(guarded(shells.wait_for_exit(id)).await.is_err_and(gone));
    assert!(guarded(shells.kill(id)).await.is_err_and(gone));
    assert!(guarded(shells.release(id)).await.is_err_and(gone));
    assert!(guarded(shells.read_from(id, 0, 0)).await.is_err_and(gone));
}

async fn refuses_commands(shells: &dyn ShellBackend, reason: &str) {
    let dir = TempDir::new().expect("a folder");
    let refused = guarded(shells.create(spec(dir.path(), "touch ran"))).await;
    assert!(
        matches!(&refused, Err(ShellError::NotPermitted(why)) if why == reason),
        "{refused:?}"
    );
    assert!(!dir.path().join("ran").exists());
    assert_eq!(guarded(shells.list()).await.expect("a list"), []);
}

async fn reports_output_and_exit(shells: &dyn ShellBackend, cwd: &Path) {
    let spec = |command: &str| spec(cwd, command);
    let ran = run(shells, spec("echo out; echo err >&2; pwd -P; exit 3")).await;
    let text = format!("out\nerr\n{}\n", cwd.display());
    assert_eq!(ran, output(&text, false, code(3)));
    let ran = run(shells, spec("kill -SEGV $$")).await;
    assert_eq!(ran, output("", false, signal("SIGSEGV")));

    let ran = run(shells, spec("seq 1000000")).await;
    assert!(
        ran.truncated && ran.text.ends_with("\n999999\n1000000\n"),
        "{ran:?}"
    );
    assert!(ran.text.len() <= 1_000, "{}", ran.text.len());
    assert_eq!(ran.exit, Some(code(0)));
}

async fn kills_and_releases(shells: &dyn ShellBackend, cwd: &Path) {
    let id = guarded(shells.create(spec(cwd, "echo begun; sleep 1000")))
        .await
        .expect("it runs");
    guarded(shells.kill(&id)).await.expect("kill");
    let exit = guarded(shells.wait_for_exit(&id)).await.expect("exit");
    assert_eq!(exit, signal("SIGKILL"));
    let killed = guarded(shells.output(&id))
        .await
        .expect("the terminal stays");
    assert_eq!(killed.exit, Some(signal("SIGKILL")));
    guarded(shells.kill(&id)).await.expect("kill again");
    guarded(shells.release(&id)).await.expect("release");
    guarded(shells.release(&id)).await.expect("release again");
    let gone = |error: ShellError| matches!(error, ShellError::NotFound(named) if named == id);
    assert!(shells.output(&id).await.is_err_and(gone));
    assert!(shells.wait_for_exit(&id).await.is_err_and(gone));
    assert!(shells.kill(&id).await.is_err_and(gone));
    let piece = guarded(shells.read_from(&id, 0, 0))
        .await
        .expect("people read it");
    assert!(piece.is_end);
}

async fn ends_a_wait_by_release(shells: &dyn ShellBackend, cwd: &Path) {
    let id = guarded(shells.create(spec(cwd, "sleep 1000")))
        .await
        .expect("it runs");
    let (exit, released) = tokio::join!(
        biased;
        guarded(shells.wait_for_exit(&id)),
        guarded(shells.release(&id)),
    );
    released.expect("release");
    assert_eq!(exit.expect("exit"), signal("SIGKILL"));
}

async fn starts_each_key_once(shells: &dyn ShellBackend, cwd: &Path) {
    let once = spec(cwd, "echo run >>ran; cat ran");
    let first = guarded(shells.create(once.clone()))
        .await
        .expect("a terminal");
    guarded(shells.wait_for_exit(&first)).await.expect("exit");
    assert_eq!(shells.create(once).await.expect("the same"), first);
    assert_eq!(
        run(shells, spec(cwd, "cat ran")).await,
        output("run\n", false, code(0))
    );
}

async fn refuses_a_missing_folder(shells: &dyn ShellBackend, cwd: &Path) {
    let missing = CommandSpec {
        cwd: "/no/such/folder".into(),
        ..spec(cwd, "true")
    };
    let error = guarded(shells.create(missing))
        .await
        .expect_err("there is no such folder");
    assert_eq!(
        error.to_string(),
        "could not run a command in `/no/such/folder`"
    );
}

#[tokio::test]
async fn local_shells_conform() {
    let tree = ProcessTree::create_with_marks().expect("a tree");
    conforms(&LocalShells::new(tree, env()), CommandSupport::Runs).await;
}

#[tokio::test]
async fn shells_of_an_editor_conform() {
    let shells = editor_shells(EditorManner::Honest);
    conforms(&shells, CommandSupport::Runs).await;
}

#[tokio::test]
async fn no_shells_conform() {
    let reason = "this agent was started without terminals";
    conforms(&NoShells, CommandSupport::Refuses(reason)).await;
}

#[tokio::test]
async fn a_lost_editor_reads_as_killed() {
    let dir = TempDir::new().expect("a folder");
    let shells = editor_shells(EditorManner::DiesAtWait);
    let id = guarded(shells.create(spec(dir.path(), "true")))
        .await
        .expect("a terminal");
    let exit = guarded(shells.wait_for_exit(&id)).await.expect("an end");
    assert_eq!(exit, signal("SIGKILL"));
    let read = guarded(shells.output(&id)).await.expect("what is known");
    assert_eq!(read, output("", false, signal("SIGKILL")));
    guarded(shells.release(&id)).await.expect("release");
    let error = guarded(shells.create(spec(dir.path(), "true"))).await;
    assert!(matches!(error, Err(ShellError::Failed { .. })), "{error:?}");
}

#[tokio::test]
async fn a_slow_editor_starts_nothing_that_counts() {
    let dir = TempDir::new().expect("a folder");
    let shells = AcpShells::new(Arc::new(SilentEditor), None);
    let error = shells.create(spec(dir.path(), "true")).await;
    assert!(matches!(error, Err(ShellError::Failed { .. })), "{error:?}");
}

/// Never answers.
struct SilentEditor;

impl EditorLink for SilentEditor {
    fn call<'a>(&'a self, _: Option<&'a str>, _: EditorCall) -> EditorFuture<'a> {
        Box::pin(std::future::pending())
    }
}

/// Gives these replies, one after the other.
struct LyingEditor(Mutex<Vec<EditorReply>>);

impl EditorLink for LyingEditor {
    fn call<'a>(&'a self, _: Option<&'a str>, _: EditorCall) -> EditorFuture<'a> {
        let reply = self.0.lock().expect("a lock").remove(0);
        Box::pin(async { Ok(("e".to_owned(), reply)) })
    }
}

#[tokio::test]
async fn a_lying_editor_never_becomes_a_success() {
    let dir = TempDir::new().expect("a folder");
    let terminal = || EditorReply::Terminal {
        terminal: "t".to_owned(),
    };
    let exited = |code, signal: Option<&str>| EditorReply::Exited {
        exit: ProcessExit {
            code,
            signal: signal.map(str::to_owned),
        },
    };
    let lying = |replies: Vec<EditorReply>| {
        AcpShells::new(Arc::new(LyingEditor(Mutex::new(replies))), None)
    };
    let ends = [
        (exited(None, None), code(-1)),
        (exited(Some(0), Some("SIGTERM")), signal("SIGTERM")),
        (exited(Some(7), None), code(7)),
    ];
    for (said, expected) in ends {
        // What it says afterwards does not change the end that is known.
        let later = EditorReply::Output {
            text: "x".repeat(5_000),
            truncated: false,
            exit: Some(code(0)),
        };
        let shells = lying(vec![terminal(), said, later]);
        let id = shells
            .create(spec(dir.path(), "true"))
            .await
            .expect("a terminal");
        assert_eq!(shells.wait_for_exit(&id).await.expect("an end"), expected);
        let read = shells.output(&id).await.expect("output");
        assert_eq!(read, output(&"x".repeat(1_000), true, expected));
    }
    // An answer of another kind, a terminal that is taken, and a name that is none.
    let shells = lying(vec![EditorReply::Done, terminal(), terminal()]);
    shells
        .create(spec(dir.path(), "true"))
        .await
        .expect_err("no terminal");
    let id = shells
        .create(spec(dir.path(), "true"))
        .await
        .expect("a terminal");
    shells
        .create(spec(dir.path(), "true"))
        .await
        .expect_err("the same one");
    let shells = lying(vec![EditorReply::Terminal {
        terminal: "t".repeat(100_000),
    }]);
    shells
        .create(spec(dir.path(), "true"))
        .await
        .expect_err("no name");
    let shells = lying(vec![terminal(), EditorReply::Done]);
    shells
        .create(spec(dir.path(), "true"))
        .await
        .expect("a terminal");
    shells.wait_for_exit(&id).await.expect_err("not an end");
}

/// How the editor of a test behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EditorManner {
    Honest,
    DiesAtWait,
}

/// A client of the protocol at the other end of two pipes, as far as it needs to have terminals. Every line to it goes
/// through `EditorConnection`, as in `countersign acp`.
fn editor_shells(manner: EditorManner) -> AcpShells {
    let (to_editor, from_us) = std::io::pipe()
        .map(|(read, write)| (write, read))
        .expect("a pipe");
    let (to_us, from_editor) = std::io::pipe()
        .map(|(read, write)| (write, read))
        .expect("a pipe");
    std::thread::spawn(move || serve_terminals(BufReader::new(from_us), to_us, manner));
    let (calls, called) = mpsc::unbounded_channel();
    let lines = calls.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(from_editor).lines().map_while(Result::ok) {
            if lines.send(MachineInput::Line(line)).is_err() {
                return;
            }
        }
        lines.send(MachineInput::Closed).ok();
    });
    tokio::spawn(run_machine(called, to_editor));
    AcpShells::new(Arc::new(MachineLink(calls)), None)
}

enum MachineInput {
    Line(String),
    Call(
        EditorCall,
        oneshot::Sender<Result<EditorReply, EditorCallError>>,
    ),
    Closed,
}

struct MachineLink(mpsc::UnboundedSender<MachineInput>);

impl EditorLink for MachineLink {
    fn call<'a>(&'a self, _: Option<&'a str>, call: EditorCall) -> EditorFuture<'a> {
        let (sender, reply) = oneshot::channel();
        // A machine that ended dropped the sender.
        self.0.send(MachineInput::Call(call, sender)).ok();
        Box::pin(async move {
            let reply = reply.await.unwrap_or(Err(EditorCallError::Lost))?;
            Ok(("e".to_owned(), reply))
        })
    }
}

async fn run_machine(
    mut inputs: mpsc::UnboundedReceiver<MachineInput>,
    mut editor: impl std::io::Write,
) {
    let mut machine = EditorConnection::new(EditorSettings {
        terminals: EditorTerminals::Editor,
        viewer: None::<TerminalViewer>,
        ..EditorSettings::default()
    });
    let line = |value: Value| value.to_string().into_bytes();
    let abilities = json!({"terminal": true});
    let start = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": abilities}});
    machine.handle_line(&line(start), 0);
    let new = json!({"jsonrpc": "2.0", "id": 2, "method": "session/new",
        "params": {"cwd": "/", "mcpServers": []}});
    let started = machine.handle_line(&line(new), 0);
    let session = "s".to_owned();
    let call: CallId = started.calls[0].0;
    machine.handle_reply(call, Ok(HostReply::Started { session }));
    machine.handle_fact("s", SessionFact::Attached(Box::default()));
    let mut waiting = HashMap::new();
    let mut next = 0;
    while let Some(input) = inputs.recv().await {
        let done = match input {
            MachineInput::Line(line) => machine.handle_line(line.as_bytes(), 0),
            MachineInput::Call(call, sender) => {
                next += 1;
                waiting.insert(next, sender);
                let event = SessionEvent::Called { id: next, call };
                machine.handle_fact("s", SessionFact::Event(event))
            }
            MachineInput::Closed => return,
        };
        for line in done.lines {
            editor.write_all(&line.bytes).ok();
        }
        for (_, call) in done.calls {
            if let EditorHostCall::AnswerEditorCall { call, reply, .. } = call
                && let Some(sender) = waiting.remove(&call)
            {
                sender.send(reply).ok();
            }
        }
    }
}

/// One command of the editor.
struct EditorCommand {
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    limit: usize,
}

fn serve_terminals(
    lines: impl std::io::BufRead + Send + 'static,
    mut answers: impl std::io::Write,
    manner: EditorManner,
) {
    let mut commands: HashMap<String, EditorCommand> = HashMap::new();
    // Waits that are not answered yet.
    let mut waits: Vec<(Value, String)> = Vec::new();
    let (sender, inputs) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        let input = inputs.recv_timeout(std::time::Duration::from_millis(5));
        if let Ok(line) = &input {
            let message: Value = serde_json::from_str(line).expect("a message");
            let Some(method) = message["method"].as_str() else {
                continue;
            };
            if message.get("id").is_none() {
                continue;
            }
            let terminal = message["params"]["terminalId"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if method == "terminal/wait_for_exit" {
                if manner == EditorManner::DiesAtWait {
                    return;
                }
                waits.push((message["id"].clone(), terminal));
                continue;
            }
            let done = serve(&mut commands, method, &terminal, &message["params"]);
            write_answer(&mut answers, &message["id"], done);
        } else if input == Err(std::sync::mpsc::RecvTimeoutError::Disconnected) {
            return;
        }
        waits.retain(|(id, terminal)| {
            let Some(command) = commands.get_mut(terminal) else {
                write_answer(&mut answers, id, Err("no such terminal".to_owned()));
                return false;
            };
            let Some(exit) = command.exit() else {
                return true;
            };
            write_answer(&mut answers, id, Ok(exit));
            false
        });
    }
}

fn write_answer(answers: &mut impl std::io::Write, id: &Value, done: Result<Value, String>) {
    let answer = match done {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(message) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": message}})
        }
    };
    writeln!(answers, "{answer}").ok();
}

fn serve(
    commands: &mut HashMap<String, EditorCommand>,
    method: &str,
    terminal: &str,
    params: &Value,
) -> Result<Value, String> {
    if method == "terminal/create" {
        let id = format!("t{}", commands.len() + 1);
        commands.insert(id.clone(), EditorCommand::start(params)?);
        return Ok(json!({"terminalId": id}));
    }
    let command = commands.get_mut(terminal).ok_or("no such terminal")?;
    match method {
        "terminal/output" => Ok(command.read()),
        "terminal/kill" | "terminal/release" => {
            command.kill();
            Ok(json!({}))
        }
        other => Err(format!("no method {other}")),
    }
}

impl EditorCommand {
    fn start(params: &Value) -> Result<Self, String> {
        let (read, write) = std::io::pipe().map_err(|error| error.to_string())?;
        let args = params["args"].as_array().into_iter().flatten();
        let mut command = Command::new(params["command"].as_str().unwrap_or_default());
        command
            .args(args.filter_map(Value::as_str))
            .current_dir(params["cwd"].as_str().unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(write.try_clone().map_err(|error| error.to_string())?)
            .stderr(write)
            .process_group(0);
        let child = command.spawn().map_err(|error| error.to_string())?;
        // Holds the other end of the output.
        drop(command);
        let output = Arc::new(Mutex::new(Vec::new()));
        let kept = output.clone();
        let reader = std::thread::spawn(move || {
            let mut read = read;
            let mut buffer = vec![0; 32 * 1024];
            while let Ok(count @ 1..) = std::io::Read::read(&mut read, &mut buffer) {
                kept.lock()
                    .expect("a lock")
                    .extend_from_slice(&buffer[..count]);
            }
        });
        Ok(Self {
            child,
            output,
            reader: Some(reader),
            limit: params["outputByteLimit"]
                .as_u64()
                .and_then(|limit| usize::try_from(limit).ok())
                .unwrap_or(usize::MAX),
        })
    }

    fn exit(&mut self) -> Option<Value> {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.child.try_wait().ok()??;
        if let Some(reader) = self.reader.take() {
            reader.join().ok();
        }
        let signal = status.signal().map(|number| match number {
            9 => "SIGKILL".to_owned(),
            11 => "SIGSEGV".to_owned(),
            other => other.to_string(),
        });
        Some(json!({"exitCode": status.code(), "signal": signal}))
    }

    fn read(&mut self) -> Value {
        let exit = self.exit();
        let output = self.output.lock().expect("a lock");
        let tail = &output[output.len().saturating_sub(self.limit)..];
        json!({"output": String::from_utf8_lossy(tail), "truncated": tail.len() < output.len(),
            "exitStatus": exit})
    }

    fn kill(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            let group = format!("-{}", self.child.id());
            Command::new("kill")
                .args(["-KILL", "--", &group])
                .status()
                .ok();
        }
    }
}
