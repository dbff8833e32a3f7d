//! A driver without processes: a link and runners that only remember, an adapter for a small language,
//! and a loop on a record in a temporary folder.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_agents::adapter::{
    Adapter, AdapterOutput, AgentCommand, AgentEvent, AgentWrite, ClientRequest, CommandError,
    PermissionAnswer, PermissionAsk, RequestId, WriteId, WriteKind,
};
use countersign_agents::runner::{
    ExitReport, LaunchRefused, Link, LinkError, LinkEvent, LinkFuture, PendingWrite, RunnerLink,
    RunnerRecord, RunnerStartError, WriteError, WriteReceipt,
};
use countersign_agents::{ContainmentMethod, NoShells, TreeError, TreeRecord};
use countersign_core::event::{ProcessKey, TranscriptEntry};
use countersign_core::{
    AgentId, Approval, Caller, Duty, Event, Json, Principal, PrincipalKey, Role,
};
use countersign_sandbox::ConfinementPlan;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agent_connection::{AgentConnection, SharedConnection};
use super::client_requests::ClientRequests;
use super::connection_state::ConnectionState;
use super::deliveries::Deliveries;
use super::duty_performer::DutyPerformer;
use super::output_reader::{FinalOutput, OutputReader, ReaderParts, ReaderStart};
use super::request_description::AgentWorkspace;
use super::run::RunKey;
use super::runner_host::{HeldTree, RunnerFuture, RunnerHost};
use crate::duty_board::DutyReceiver;
use crate::service::Service;
use crate::service::tests as host;
use host::FillableDisk;

pub(super) const RUNNER: ProcessKey = ProcessKey {
    pid: 4242,
    start_time: 7,
};

/// What was done with a link.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LinkCall {
    Write(Vec<AgentWrite>),
    Committed(u64, Vec<u64>),
    Launch(OsString, Vec<OsString>, PathBuf),
    Claim(WriteId),
    Stop,
    Bye,
}

/// A link to a runner that writes everything at once, and each id once.
#[derive(Debug, Default)]
pub(super) struct FakeLink {
    calls: Mutex<Vec<LinkCall>>,
    pub(super) written: Mutex<BTreeMap<WriteId, WriteKind>>,
    pub(super) claimed: Mutex<BTreeSet<WriteId>>,
    pub(super) is_lost: AtomicBool,
}

impl FakeLink {
    pub(super) fn take_calls(&self) -> Vec<LinkCall> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn note(&self, call: LinkCall) {
        self.calls.lock().unwrap().push(call);
    }
}

impl RunnerLink for FakeLink {
    fn write(&self, lines: Vec<AgentWrite>) -> PendingWrite {
        self.note(LinkCall::Write(lines.clone()));
        let (waiter, pending) = oneshot::channel();
        let mut written = self.written.lock().unwrap();
        let receipts = lines.into_iter().map(|line| WriteReceipt {
            kind: *written.entry(line.id.clone()).or_insert(line.kind),
            id: line.id,
        });
        let receipts = receipts.collect();
        if !self.is_lost() {
            waiter.send(Ok(receipts)).unwrap();
        }
        pending.into()
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    fn committed(&self, through: u64, open: Vec<u64>) {
        self.note(LinkCall::Committed(through, open));
    }

    fn launch(
        &self,
        program: OsString,
        args: Vec<OsString>,
        cwd: PathBuf,
        _: Vec<(OsString, OsString)>,
        _: Option<ConfinementPlan>,
    ) -> LinkFuture<'_, Result<ProcessKey, LaunchRefused>> {
        self.note(LinkCall::Launch(program, args, cwd));
        Box::pin(async { Ok(RUNNER) })
    }

    fn claim(&self, id: WriteId) -> LinkFuture<'_, Result<bool, WriteError>> {
        self.note(LinkCall::Claim(id.clone()));
        let is_fresh = self.claimed.lock().unwrap().insert(id);
        Box::pin(async move { Ok(is_fresh) })
    }

    fn release(&self, _hold: u64, _allow: bool) -> LinkFuture<'_, Result<bool, WriteError>> {
        Box::pin(async { Ok(true) })
    }

    fn stop(&self, _: Duration) {
        self.note(LinkCall::Stop);
    }

    fn bye(&self) -> LinkFuture<'_, ()> {
        self.note(LinkCall::Bye);
        Box::pin(async {})
    }
}

/// A protocol of one command per line, or several between semicolons: `say TEXT`, `ask ID`,
/// `withdraw ID`, `read ID PATH`, `write ID PATH TEXT`. The prompt `refuse` is not taken.
#[derive(Default)]
struct LineAdapter {
    open: BTreeMap<RequestId, u64>,
}

impl LineAdapter {
    fn handle_command(&mut self, command: &str, line: u64) -> AgentEvent {
        let words: Vec<&str> = command.splitn(4, ' ').collect();
        if !["say", "withdraw"].contains(&words[0]) {
            self.open.insert(RequestId(words[1].to_owned()), line);
        }
        match words[..] {
            ["withdraw", id] => {
                let request = RequestId(id.to_owned());
                self.open.remove(&request);
                AgentEvent::Withdrawn { request }
            }
            ["ask", id] => AgentEvent::Asked(Box::new(PermissionAsk {
                request: RequestId(id.to_owned()),
                line,
                tool_call: id.to_owned(),
                title: "run it".to_owned(),
                tool: None,
                input: None,
                details: Json::null(),
                binds: Vec::new(),
                can_allow: true,
                can_edit: false,
                takes_denial_message: true,
            })),
            ["read", id, path] => AgentEvent::ClientRequested {
                request: RequestId(id.to_owned()),
                line,
                client_request: ClientRequest::Read {
                    path: path.into(),
                    line: None,
                    limit: None,
                },
            },
            ["write", id, path, content] => AgentEvent::ClientRequested {
                request: RequestId(id.to_owned()),
                line,
                client_request: ClientRequest::Write {
                    path: path.into(),
                    content: content.to_owned(),
                },
            },
            _ => AgentEvent::Transcript(said(&command["say ".len()..])),
        }
    }

    fn reply(
        &mut self,
        request: &RequestId,
        kind: WriteKind,
        text: String,
    ) -> Result<Vec<AgentWrite>, CommandError> {
        let line = self.open.remove(request).ok_or(CommandError::NotWaiting)?;
        Ok(vec![AgentWrite::reply_to(line, kind, text.into_bytes())])
    }
}

impl Adapter for LineAdapter {
    fn handle_line(&mut self, line: &[u8], number: u64) -> AdapterOutput {
        let text = std::str::from_utf8(line).unwrap();
        AdapterOutput {
            events: text
                .split(';')
                .map(|command| self.handle_command(command, number))
                .collect(),
            writes: Vec::new(),
        }
    }

    fn apply_command(&mut self, command: AgentCommand) -> Result<Vec<AgentWrite>, CommandError> {
        match command {
            AgentCommand::Prompt { messages, .. } if messages == ["refuse"] => {
                Err(CommandError::Unsupported("refused".to_owned()))
            }
            AgentCommand::Prompt { turn, messages, .. } => Ok(vec![AgentWrite::own(
                "prompt",
                turn,
                messages.concat().into_bytes(),
            )]),
            AgentCommand::Answer { request, answer } => {
                let kind = match &answer {
                    PermissionAnswer::Allow { .. } => WriteKind::Allow,
                    PermissionAnswer::Deny { .. } => WriteKind::Deny,
                    PermissionAnswer::Cancelled => WriteKind::Cancelled,
                };
                self.reply(&request, kind, format!("{kind:?}"))
            }
            AgentCommand::Serve { request, served } => {
                let kind = if served.is_ok() {
                    WriteKind::Served
                } else {
                    WriteKind::Refused
                };
                self.reply(&request, kind, format!("{served:?}"))
            }
            other => Err(CommandError::Unsupported(format!("{other:?}"))),
        }
    }

    fn state(&self) -> Json {
        Json::from_value(&self.open.iter().collect::<Vec<_>>()).unwrap()
    }

    fn open_requests(&self) -> Vec<u64> {
        self.open.values().copied().collect()
    }
}

pub(super) fn said(text: &str) -> TranscriptEntry {
    TranscriptEntry::Assistant {
        text: text.to_owned(),
    }
}

pub(super) fn line(number: u64, text: &str) -> LinkEvent {
    LinkEvent::Line {
        number,
        bytes: text.as_bytes().to_vec(),
    }
}

/// The parts of a run of the agent `a`, whose session is open and whose output was committed up to 7.
pub(super) struct TestRun {
    pub(super) folder: TempDir,
    pub(super) disk: Arc<FillableDisk>,
    pub(super) service: Service,
    pub(super) link: Arc<FakeLink>,
    pub(super) key: RunKey,
    pub(super) connection: SharedConnection,
    pub(super) requests: Arc<ClientRequests>,
    pub(super) deliveries: Arc<Deliveries>,
    /// How far the output was committed when the run began or continued.
    pub(super) offset: u64,
    tasks: TaskTracker,
    over: CancellationToken,
}

/// What outlives a host.
struct RunRemains {
    folder: TempDir,
    disk: Arc<FillableDisk>,
    service: Service,
    written: BTreeMap<WriteId, WriteKind>,
    claimed: BTreeSet<WriteId>,
}

impl TestRun {
    pub(super) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(FillableDisk::default());
        let (service, _) = host::host_on(disk.clone(), &folder, &[]).await;
        host::spawn(&service, "a").await;
        let remains = RunRemains {
            folder,
            disk,
            service,
            written: BTreeMap::new(),
            claimed: BTreeSet::new(),
        };
        Self::assemble(remains, ConnectionState::default(), 7)
    }

    /// The same run at the next host, which knows only what the first one would have committed now.
    pub(super) fn continue_at_next_host(self) -> Self {
        let snapshot = self.connection.lock().snapshot();
        let state = serde_json::from_str(snapshot.state.text()).unwrap();
        Self::assemble(self.into_remains(), state, 7)
    }

    /// The same run at the next host, which knows only what the first one committed.
    pub(super) async fn continue_from_record(self) -> Self {
        let checkpoint = self.service.find_checkpoint(self.key.agent.clone()).await;
        let checkpoint = checkpoint.unwrap().unwrap();
        let state = serde_json::from_str::<Option<_>>(checkpoint.state.text()).unwrap();
        let remains = self.into_remains();
        Self::assemble(remains, state.unwrap_or_default(), checkpoint.offset)
    }

    fn into_remains(self) -> RunRemains {
        RunRemains {
            folder: self.folder,
            disk: self.disk,
            service: self.service,
            written: self.link.written.lock().unwrap().clone(),
            claimed: self.link.claimed.lock().unwrap().clone(),
        }
    }

    fn assemble(remains: RunRemains, state: ConnectionState, offset: u64) -> Self {
        let (folder, service) = (remains.folder, remains.service);
        let open: Option<Vec<(RequestId, u64)>> =
            serde_json::from_str(state.adapter.text()).unwrap();
        let adapter = LineAdapter {
            open: open.into_iter().flatten().collect(),
        };
        let link = Arc::new(FakeLink {
            written: Mutex::new(remains.written),
            claimed: Mutex::new(remains.claimed),
            ..FakeLink::default()
        });
        let (tasks, over) = (TaskTracker::new(), CancellationToken::new());
        let connection = AgentConnection::new(link.clone(), Box::new(adapter), state, offset);
        let connection = SharedConnection::new(connection, tasks.clone());
        let deliveries = Arc::new(Deliveries::new(
            service.clone(),
            connection.clone(),
            tasks.clone(),
            over.clone(),
        ));
        let requests = Arc::new(ClientRequests {
            workspace: AgentWorkspace::new(folder.path().to_owned()),
            shells: Arc::new(NoShells),
            editor: None,
            link: link.clone(),
            connection: connection.clone(),
            deliveries: deliveries.clone(),
            tasks: tasks.clone(),
            over: over.clone(),
        });
        Self {
            folder,
            disk: remains.disk,
            service,
            link,
            key: RunKey {
                agent: AgentId::new("a"),
                number: 1,
            },
            connection,
            requests,
            deliveries,
            offset,
            tasks,
            over,
        }
    }

    /// Reads these events to their end.
    pub(super) async fn read(&self, events: Vec<LinkEvent>) -> FinalOutput {
        let principal = Principal {
            role: Role::Agent(self.key.agent.clone()),
            name: "a".into(),
            key: PrincipalKey::new("agent:a"),
        };
        let parts = ReaderParts {
            service: self.service.clone(),
            key: self.key.clone(),
            caller: Caller {
                principal: Arc::new(principal),
                client: None,
                door: None,
            },
            ask_timeout_ms: None,
            connection: self.connection.clone(),
            deliveries: self.deliveries.clone(),
            requests: self.requests.clone(),
            ready: watch::Sender::new(true),
            fatal: watch::Sender::new(None),
        };
        let start = ReaderStart {
            offset: self.offset,
            ..ReaderStart::default()
        };
        let (sender, mut receiver) = mpsc::channel(events.len().max(1));
        for event in events {
            sender.send(event).await.unwrap();
        }
        drop(sender);
        OutputReader::new(parts, start)
            .read_all(&mut receiver)
            .await
    }

    pub(super) fn performer(&self) -> DutyPerformer {
        DutyPerformer::new(
            self.key.clone(),
            self.connection.clone(),
            self.deliveries.clone(),
            self.requests.clone(),
            self.tasks.clone(),
        )
    }

    /// The duties that follow from what is committed now.
    pub(super) async fn duties(&self) -> DutyReceiver {
        let agent = self.key.agent.clone();
        let duties = self
            .service
            .read_state(move |view| view.state.duties_of(&agent))
            .await
            .unwrap();
        duty_receiver(duties)
    }

    /// The asks that wait for an answer.
    pub(super) async fn open_asks(&self) -> Vec<Approval> {
        let agent = self.key.agent.clone();
        self.service
            .read_state(move |view| {
                let open = view.state.open_approvals();
                open.filter(|open| open.ask.agent.as_ref() == Some(&agent))
                    .cloned()
                    .collect()
            })
            .await
            .unwrap()
    }

    /// Allows the only open ask.
    pub(super) async fn approve(&self) -> Approval {
        let ask = self.open_asks().await.remove(0);
        host::approve(&self.service, ask.ask.id.clone()).await;
        ask
    }

    /// Waits until every line is confirmed. The settlements that follow from that are lost, as if the
    /// host was killed right after it committed a checkpoint.
    pub(super) async fn confirm_all_and_lose_settlements(&self) {
        self.confirm_all().await;
        self.deliveries.take_unsent().confirm();
    }

    /// Waits until every line is confirmed.
    pub(super) async fn confirm_all(&self) {
        loop {
            let snapshot = self.connection.lock().snapshot();
            let state: ConnectionState = serde_json::from_str(snapshot.state.text()).unwrap();
            let is_sent = !state.performed.answers.is_empty();
            if is_sent && state.unwritten.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }

    /// What the record has of the agent's output, in order.
    pub(super) async fn recorded_output(&self) -> Vec<String> {
        let events = host::recorded_events(&self.service).await;
        events.iter().flat_map(describe_output).collect()
    }

    /// Waits until everything that was begun is done and recorded.
    pub(super) async fn finish(&self) {
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }
}

/// What an event says of an agent's output; nothing if it is about something else.
fn describe_output(event: &Event) -> Vec<String> {
    match event {
        Event::TranscriptAdded(added) => added.entries.iter().map(describe_entry).collect(),
        Event::ApprovalRequested(requested) => {
            let request = requested.ask.request.as_deref().unwrap_or_default();
            vec![format!("asked {request}")]
        }
        Event::ApprovalResolved(resolved) => vec![format!("{:?}", resolved.ending.outcome)],
        Event::AnswerSettled(settled) => vec![format!("settled: {:?}", settled.delivery)],
        Event::TurnEnded(ended) => vec![format!("turn {} ended: {}", ended.turn, ended.reason)],
        Event::AgentExited(exited) => vec![format!("exited: {:?}", exited.end)],
        _ => Vec::new(),
    }
}

fn describe_entry(entry: &TranscriptEntry) -> String {
    match entry {
        TranscriptEntry::Assistant { text } => format!("said {text}"),
        other => format!("{other:?}"),
    }
}

pub(super) fn duty_receiver(duties: Vec<Duty>) -> DutyReceiver {
    watch::channel(duties.into()).1
}

/// What was done with runners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunnerCall {
    CreateTree(String),
    Start,
    Connect { offset: u64, open: Vec<u64> },
    End,
    RemoveFiles,
    ClearOrphans(usize),
}

/// Runners that only remember what was done with them.
#[derive(Default)]
pub(super) struct FakeRunners {
    pub(super) calls: Mutex<Vec<RunnerCall>>,
    pub(super) link: Arc<FakeLink>,
    /// No runner can be started.
    pub(super) fails_to_start: bool,
    /// Whoever is started is gone when it is to be reached.
    pub(super) is_gone: bool,
}

impl FakeRunners {
    pub(super) fn take_calls(&self) -> Vec<RunnerCall> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn note(&self, call: RunnerCall) {
        self.calls.lock().unwrap().push(call);
    }
}

impl RunnerHost for FakeRunners {
    fn create_tree(&self, run: &str) -> Result<HeldTree, TreeError> {
        self.note(RunnerCall::CreateTree(run.to_owned()));
        Ok(HeldTree {
            record: TreeRecord {
                containment: ContainmentMethod::Marks {
                    why: "a test".to_owned(),
                },
                mark: run.to_owned(),
            },
            _tree: None,
        })
    }

    fn start<'a>(
        &'a self,
        _: &'a RunnerRecord,
    ) -> RunnerFuture<'a, Result<ProcessKey, RunnerStartError>> {
        self.note(RunnerCall::Start);
        let started = if self.fails_to_start {
            Err(RunnerStartError::Program {
                program: Path::new("runner").to_owned(),
                source: io::Error::from(io::ErrorKind::NotFound),
            })
        } else {
            Ok(RUNNER)
        };
        Box::pin(async { started })
    }

    fn connect<'a>(
        &'a self,
        _: &'a RunnerRecord,
        _: ProcessKey,
        offset: u64,
        open: Vec<u64>,
    ) -> RunnerFuture<'a, Result<Link, LinkError>> {
        self.note(RunnerCall::Connect { offset, open });
        let (_, events) = mpsc::channel(1);
        let connected = if self.is_gone {
            Err(LinkError::Gone)
        } else {
            Ok(Link {
                events,
                sender: self.link.clone(),
                shells: Arc::new(NoShells),
                agent: Some(RUNNER),
                log: String::new(),
            })
        };
        Box::pin(async { connected })
    }

    fn read_exit_report(&self, _: &RunnerRecord) -> io::Result<Option<ExitReport>> {
        Ok(None)
    }

    fn end<'a>(
        &'a self,
        _: &'a RunnerRecord,
        _: ProcessKey,
    ) -> RunnerFuture<'a, Result<usize, TreeError>> {
        self.note(RunnerCall::End);
        Box::pin(async { Ok(0) })
    }

    fn remove_files(&self, _: &RunnerRecord) {
        self.note(RunnerCall::RemoveFiles);
    }

    fn belongs_to_another_host(&self, _: &RunnerRecord) -> bool {
        false
    }

    fn find_orphans(&self) -> Vec<(RunnerRecord, ProcessKey)> {
        Vec::new()
    }

    fn clear_orphans(&self, kept: &[&RunnerRecord]) {
        self.note(RunnerCall::ClearOrphans(kept.len()));
    }
}
