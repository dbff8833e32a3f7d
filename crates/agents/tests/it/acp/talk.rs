//! One conversation with a scripted agent.

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_agents::acp::AcpAdapter;
use countersign_agents::adapter::{
    Adapter as _, AgentCommand, AgentEvent, PermissionAnswer, PermissionAsk, ProcessExit,
    RequestId, SessionReady, SessionSpec, TurnEnd,
};
use countersign_agents::{AgentPipe, AgentProcess, LaunchSpec, PipeEvent, ProcessTree, launch};
use countersign_core::event::TranscriptEntry;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far more than anything here takes, so that a test that waits in vain ends.
const GUARD: Duration = Duration::from_mins(2);

pub(crate) async fn guarded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, work).await.unwrap()
}

/// What came from the agent.
#[derive(Debug, PartialEq)]
pub(crate) enum Came {
    Happened(AgentEvent),
    Oversized(u64),
    Exited(ProcessExit),
}

pub(crate) struct Talk {
    pub(crate) acp: AcpAdapter,
    pub(crate) pipe: AgentPipe,
    pub(crate) process: AgentProcess,
    pub(crate) folder: TempDir,
    came: VecDeque<Came>,
    turns: u32,
    /// How much the agent wrote, as far as it is known here: lines that were dropped count nothing.
    heard: u64,
    tree: ProcessTree,
}

/// Cargo builds the examples of a crate beside its tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let program = built.join("examples/scripted_agent");
    assert!(
        program.exists(),
        "`cargo test` of the whole crate builds it, and so does `cargo build --examples`"
    );
    program
}

impl Talk {
    /// Starts an agent that is like `script`, and says nothing yet.
    pub(crate) fn launch(script: &Value, folder: TempDir) -> Self {
        let file = folder.path().join("script.json");
        std::fs::write(&file, script.to_string()).unwrap();
        let tree = ProcessTree::create_with_marks().unwrap();
        let state = folder.path().as_os_str().to_owned();
        let spec = LaunchSpec {
            program: program().into_os_string(),
            args: vec!["--script".into(), file.into_os_string()],
            cwd: folder.path().to_owned(),
            env: vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("SCRIPTED_AGENT_STATE".into(), state),
            ],
            tree: &tree,
        };
        let (pipe, process) = launch(&spec).unwrap();
        Self {
            acp: AcpAdapter::new(),
            pipe,
            process,
            folder,
            came: VecDeque::new(),
            turns: 0,
            heard: 0,
            tree,
        }
    }

    /// The same, and shakes hands.
    pub(crate) async fn start(script: &Value) -> Self {
        let mut talk = Self::launch(script, tempfile::tempdir().unwrap());
        let start = talk.plain_start();
        talk.order(AgentCommand::Start(start)).await;
        talk
    }

    /// The same, up to an open session.
    pub(crate) async fn open(script: &Value) -> Self {
        let mut talk = Self::start(script).await;
        talk.ready().await;
        talk
    }

    pub(crate) fn plain_start(&self) -> SessionSpec {
        SessionSpec {
            cwd: self.folder.path().to_owned(),
            session: None,
            fork: false,
            new_session: None,
            mode: None,
            model: None,
            system_prompt: None,
            allowed_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            mcp_servers: Vec::new(),
        }
    }

    pub(crate) async fn order(&mut self, order: AgentCommand) {
        for line in self.acp.apply_command(order).unwrap() {
            self.pipe.writer.write(line.bytes).await.unwrap();
        }
    }

    pub(crate) async fn next(&mut self) -> Came {
        guarded(async {
            loop {
                if let Some(came) = self.came.pop_front() {
                    return came;
                }
                self.hear().await;
            }
        })
        .await
    }

    async fn hear(&mut self) {
        match self.pipe.events.recv().await.unwrap() {
            PipeEvent::Line(line) => {
                self.heard += line.len() as u64 + 1;
                let heard = self.acp.handle_line(&line, self.heard);
                for line in heard.writes {
                    self.pipe.writer.write(line.bytes).await.unwrap();
                }
                self.came
                    .extend(heard.events.into_iter().map(Came::Happened));
            }
            PipeEvent::Oversized { bytes } => self.came.push_back(Came::Oversized(bytes)),
            PipeEvent::Stderr(_) => {}
            PipeEvent::Exited(exit) => self.came.push_back(Came::Exited(exit)),
        }
    }

    /// Waits for what `wanted` picks out; gives it and everything before.
    pub(crate) async fn until<T>(&mut self, wanted: impl Fn(&Came) -> Option<T>) -> (Vec<Came>, T) {
        let mut before = Vec::new();
        loop {
            let came = self.next().await;
            if let Some(found) = wanted(&came) {
                return (before, found);
            }
            assert!(!matches!(came, Came::Exited(_)), "{came:?} {before:?}");
            before.push(came);
        }
    }

    pub(crate) async fn ready(&mut self) -> (Vec<Came>, SessionReady) {
        self.until(|came| match came {
            Came::Happened(AgentEvent::Ready(ready)) => Some(ready.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn asked(&mut self) -> PermissionAsk {
        let found = self.until(|came| match came {
            Came::Happened(AgentEvent::Asked(ask)) => Some((**ask).clone()),
            _ => None,
        });
        found.await.1
    }

    pub(crate) async fn exited(&mut self) -> ProcessExit {
        let found = self.until(|came| match came {
            Came::Exited(exit) => Some(exit.clone()),
            _ => None,
        });
        found.await.1
    }

    pub(crate) async fn turn_ended(&mut self) -> (Vec<Came>, TurnEnd) {
        let turn = self.turns;
        self.until(|came| match came {
            Came::Happened(AgentEvent::TurnEnded { turn: ended, end }) => {
                assert_eq!(*ended, turn);
                Some(end.clone())
            }
            _ => None,
        })
        .await
    }

    /// Begins a turn in which the agent does what these steps say.
    pub(crate) async fn prompt(&mut self, steps: &Value) {
        self.turns += 1;
        let order = AgentCommand::Prompt {
            turn: self.turns,
            messages: vec![format!("<script>{steps}</script>")],
        };
        self.order(order).await;
    }

    pub(crate) async fn answer(&mut self, request: &RequestId, answer: PermissionAnswer) {
        let request = request.clone();
        self.order(AgentCommand::Answer { request, answer }).await;
    }

    /// Nothing of the agent is left.
    pub(crate) async fn end(self) -> TempDir {
        guarded(self.tree.kill_all()).await.unwrap();
        self.folder
    }
}

/// Everything the agent said, as one text.
pub(crate) fn words(came: &[Came]) -> String {
    let texts = came.iter().filter_map(|came| match came {
        Came::Happened(AgentEvent::Transcript(TranscriptEntry::Assistant { text })) => {
            Some(text.as_str())
        }
        _ => None,
    });
    texts.collect()
}

/// Requests that were taken back.
pub(crate) fn withdrawn(came: &[Came]) -> Vec<RequestId> {
    let requests = came.iter().filter_map(|came| match came {
        Came::Happened(AgentEvent::Withdrawn { request }) => Some(request.clone()),
        _ => None,
    });
    requests.collect()
}

/// A tool call that runs `command`.
pub(crate) fn tool(command: &str) -> Value {
    json!({"call": "c", "title": "run", "input": {"command": command}})
}
