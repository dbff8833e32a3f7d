//! A host after another: what it leaves alone, and what it settles.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use countersign_core::event::SpawnOptions;
use countersign_core::{
    ApprovalId, AskRequest, Caller, Checkpoint, CommitChanges, CommittedEvent, Event, Json,
    ManagedAsk, ManagedInput, PrincipalKey, ResolveApproval, Role, RunEvent, SpawnAgent,
};
use countersign_store::{EventLog, EventQuery, StoreError};
use tempfile::TempDir;

use super::*;

fn caller(role: Role, name: &str) -> Caller {
    Caller {
        principal: Arc::new(Principal {
            role,
            name: name.into(),
            key: PrincipalKey::new(name),
        }),
        client: None,
        door: None,
    }
}

/// A disk that a test fills, with the number of commits that found it full.
#[derive(Debug, Default)]
pub(crate) struct FillableDisk {
    is_full: AtomicBool,
    failures: AtomicUsize,
}

impl FillableDisk {
    pub(crate) fn fill(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    pub(crate) fn free(&self) {
        self.is_full.store(false, Ordering::Relaxed);
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }
}

/// A log on such a disk.
struct FillableLog {
    log: Box<dyn EventLog>,
    disk: Arc<FillableDisk>,
}

impl EventLog for FillableLog {
    fn load(&mut self) -> Result<Snapshot, StoreError> {
        self.log.load()
    }

    fn append(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), StoreError> {
        if self.disk.is_full.load(Ordering::Relaxed) {
            self.disk.failures.fetch_add(1, Ordering::Relaxed);
            return Err(StoreError::Full { path: "log".into() });
        }
        self.log.append(entries, changes)
    }
}

/// A loop on the record in a folder, without anybody who attends to agents.
pub(crate) async fn host(folder: &TempDir, adopted: &[&str]) -> (Service, SupervisorExit) {
    host_on(Arc::default(), folder, adopted).await
}

/// As [`host`], on a disk that can be filled.
pub(crate) async fn host_on(
    disk: Arc<FillableDisk>,
    folder: &TempDir,
    adopted: &[&str],
) -> (Service, SupervisorExit) {
    let (mut log, history) = countersign_store::open(&folder.path().join("log.db")).unwrap();
    let snapshot = log.load().unwrap();
    let log = FillableLog {
        log: Box::new(log),
        disk,
    };
    let settings = HostSettings::new("test");
    let clock = HostClock::start();
    let (service, _board, stopped) =
        assemble(Box::new(log), history, snapshot, settings, clock).unwrap();
    let adopted = adopted.iter().copied().map(AgentId::new).collect();
    service
        .record_start("test".to_owned(), adopted)
        .await
        .unwrap();
    (service, stopped)
}

fn checkpoint(agent: &str) -> Checkpoint {
    Checkpoint {
        agent: AgentId::new(agent),
        run: 1,
        offset: 7,
        state: Json::null(),
    }
}

/// An agent that is to be started.
pub(crate) async fn request_agent(service: &Service, agent: &str) {
    let spawn = SpawnAgent {
        attachments: Vec::new(),
        caller: caller(Role::Operator, "ann"),
        id: AgentId::new(agent),
        name: Some(agent.to_owned()),
        kind: "scripted".to_owned(),
        options: SpawnOptions {
            command: vec!["agent".to_owned()],
            cwd: "/".to_owned(),
            ..SpawnOptions::default()
        },
        prompt: None,
    };
    let wanted = ManagedInput::Spawn(Box::new(spawn));
    service.submit_managed(wanted).await.unwrap();
}

/// An agent whose session is open, and whose output was read up to 7.
pub(crate) async fn spawn(service: &Service, agent: &str) {
    request_agent(service, agent).await;
    let ready = RunEvent::Ready {
        session: "s".to_owned(),
        resumable: true,
    };
    let ready = ManagedInput::RunReported(AgentId::new(agent), 1, ready);
    let ready = AgentOutput::from(Input::Managed(ready));
    let heard = service.record_output(vec![ready], Some(checkpoint(agent)));
    heard.await.unwrap();
}

/// Asks as an agent that the host runs, and allows it: the answer is on its way.
async fn allow(service: &Service, agent: &str) {
    let id = ApprovalId::new(format!("ask of {agent}"));
    let own = ManagedAsk {
        run: 1,
        request: "7".to_owned(),
        ..ManagedAsk::default()
    };
    let request = AskRequest {
        caller: caller(Role::Agent(AgentId::new(agent)), agent),
        id: id.clone(),
        agent: Some(AgentId::new(agent)),
        turn: None,
        tool_call: None,
        action: "run it".to_owned(),
        tool: None,
        input: None,
        details: Json::null(),
        a2ui: None,
        options: Vec::new(),
        approving: None,
        system_level: true,
        idempotency_key: None,
        timeout_ms: None,
        cwd: None,
        judged: None,
        keyed: None,
        managed: Some(Box::new(own)),
    };
    let further = Checkpoint {
        offset: 9,
        ..checkpoint(agent)
    };
    let ask = AgentOutput::Ask(Box::new(request));
    let asked = service.record_output(vec![ask], Some(further)).await;
    asked.unwrap().remove(0).unwrap();
    approve(service, id).await;
}

pub(crate) async fn approve(service: &Service, id: ApprovalId) {
    let resolve = ResolveApproval {
        delegated: None,
        caller: caller(Role::Operator, "ann"),
        approval: id,
        answer: countersign_core::ApprovalAnswer {
            resolution: "approve".to_owned(),
            ..countersign_core::ApprovalAnswer::default()
        },
        grant_ids: Vec::new(),
    };
    let resolved = service.submit(Input::ResolveApproval(resolve));
    resolved.await.unwrap();
}

/// Prompts an agent.
pub(crate) async fn prompt(service: &Service, agent: &str, text: &str) {
    let prompt = ManagedInput::Prompt {
        caller: caller(Role::Operator, "ann"),
        agent: AgentId::new(agent),
        text: text.to_owned(),
        attachments: Vec::new(),
    };
    service.submit_managed(prompt).await.unwrap();
}

/// Every event on the record.
pub(crate) async fn recorded_events(service: &Service) -> Vec<Event> {
    let query = EventQuery {
        limit: usize::MAX,
        ..EventQuery::default()
    };
    let events = service.history(move |history| history.events(&query));
    let events = events.await.unwrap().into_iter();
    events.map(|committed| committed.event).collect()
}

async fn delivery(service: &Service, agent: &str) -> AnswerDelivery {
    delivery_of(service, &ApprovalId::new(format!("ask of {agent}"))).await
}

pub(crate) async fn delivery_of(service: &Service, id: &ApprovalId) -> AnswerDelivery {
    let id = id.clone();
    let found = service.history(move |history| history.find_approval(&id));
    found.await.unwrap().unwrap().delivery
}

#[tokio::test]
async fn what_an_adopted_agent_is_owed_stays_owed_and_everybody_elses_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let (service, mut stopped) = host(&folder, &[]).await;
    for agent in ["adopted", "gone"] {
        spawn(&service, agent).await;
        allow(&service, agent).await;
    }
    service.send(SupervisorCommand::Stop).await.unwrap();
    stopped.wait().await;
    drop(service);

    let (service, _stopped) = host(&folder, &["adopted"]).await;
    assert_eq!(
        delivery(&service, "adopted").await,
        AnswerDelivery::Attempted
    );
    assert_eq!(delivery(&service, "gone").await, AnswerDelivery::Unknown);
    let find = async |agent| service.find_checkpoint(AgentId::new(agent)).await.unwrap();
    let further = Checkpoint {
        offset: 9,
        ..checkpoint("adopted")
    };
    assert_eq!(find("adopted").await, Some(further));
    assert_eq!(find("gone").await, None);
}
