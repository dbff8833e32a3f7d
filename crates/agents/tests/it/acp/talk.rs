//! One conversation with a scripted agent.

use std::collections::VecDeque;
use std::time::Duration;

use countersign_agents::acp::AcpAdapter;
use countersign_agents::adapter::{
    Adapter as _, AgentCommand, AgentEvent, AgentWrite, PermissionAnswer, PermissionAsk,
    ProcessExit, RequestId, SessionReady, SessionSpec, TurnEnd,
};
use countersign_agents::runner::{Link, LinkEvent};
use countersign_core::event::TranscriptEntry;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::run::{Run, find_example};
use crate::support::{env, guarded};

/// What came from the agent.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a test keeps a handful of them")]
pub(crate) enum Came {
    Happened(AgentEvent),
    Oversized(u64),
    Exited(ProcessExit),
}

pub(crate) struct Talk {
    pub(crate) acp: AcpAdapter,
    pub(crate) link: Link,
    pub(crate) folder: TempDir,
    came: VecDeque<Came>,
    turns: u32,
    has_exited: bool,
    run: Run,
}

impl Talk {
    /// Starts an agent that is like `script`, and says nothing yet.
    pub(crate) async fn launch(script: &Value, folder: TempDir) -> Self {
        let file = folder.path().join("script.json");
        std::fs::write(&file, script.to_string()).unwrap();
        let mut env = env();
        env.push(("SCRIPTED_AGENT_STATE".into(), folder.path().into()));
        let run = Run::start().await;
        let link = run.connect(0, Vec::new()).await;
        let program = find_example("scripted_agent").into_os_string();
        let args = vec!["--script".into(), file.into_os_string()];
        let launched = link
            .sender
            .launch(program, args, folder.path().to_owned(), env, None);
        guarded(launched).await.unwrap();
        Self {
            acp: AcpAdapter::new(),
            link,
            folder,
            came: VecDeque::new(),
            turns: 0,
            has_exited: false,
            run,
        }
    }

    /// The same, and shakes hands.
    pub(crate) async fn start(script: &Value) -> Self {
        let mut talk = Self::launch(script, tempfile::tempdir().unwrap()).await;
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
            given_servers: None,
        }
    }

    pub(crate) async fn order(&mut self, order: AgentCommand) {
        let lines = self.acp.apply_command(order).unwrap();
        self.write(lines).await;
    }

    async fn write(&self, lines: Vec<AgentWrite>) {
        if !lines.is_empty() {
            self.link.sender.write(lines).await.unwrap();
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
        match self.link.events.recv().await.unwrap() {
            LinkEvent::Line { number, bytes } => {
                let heard = self.acp.handle_line(&bytes, number);
                self.write(heard.writes).await;
                self.came
                    .extend(heard.events.into_iter().map(Came::Happened));
            }
            LinkEvent::Oversized { bytes, .. } => self.came.push_back(Came::Oversized(bytes)),
            LinkEvent::Held { target, .. } => panic!("a connection to {target:?} waits"),
            LinkEvent::Log(_) => {}
            LinkEvent::Exited { exit, .. } => {
                self.has_exited = true;
                self.came.push_back(Came::Exited(exit));
            }
            LinkEvent::Lost => panic!("the link was lost"),
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
            attachments: Vec::new(),
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
    pub(crate) async fn end(mut self) -> TempDir {
        self.link.sender.stop(Duration::ZERO);
        while !self.has_exited {
            let event = guarded(self.link.events.recv()).await.unwrap();
            self.has_exited = matches!(event, LinkEvent::Exited { .. });
        }
        self.run.end(self.link).await;
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
