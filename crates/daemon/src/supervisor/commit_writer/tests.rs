//! The loop with its commit writer, on a log whose appends the test lets through one by one.

use std::sync::mpsc as std_mpsc;
use std::time::{Duration, Instant};

use countersign_core::{
    ApprovalAnswer, ApprovalId, AskRequest, Caller, ConnectionPresence, Input, Principal,
    PrincipalKey, ResolveApproval, Role, Seq, Snapshot, State,
};
use countersign_store::memory::{MemoryLog, open_memory};
use tokio::sync::{mpsc, oneshot};

use super::super::{AnswerWaiters, Supervisor, SupervisorCommand};
use super::*;
use crate::clock::HostClock;
use crate::gate::Gate;

/// A host that does not go on within this time never will.
const LIMIT: Duration = Duration::from_mins(2);

/// What the test says to an append.
#[derive(Clone, Copy)]
enum Permit {
    Commit,
    Fail,
}

/// A log that says when an append begins, and waits for a permit.
struct PermittedLog {
    log: MemoryLog,
    begun: std_mpsc::SyncSender<Vec<&'static str>>,
    permits: std_mpsc::Receiver<Permit>,
}

impl EventLog for PermittedLog {
    fn load(&mut self) -> Result<Snapshot, StoreError> {
        self.log.load()
    }

    fn append(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), StoreError> {
        let kinds = entries.iter().map(|entry| entry.event.kind()).collect();
        self.begun.send(kinds).unwrap();
        match self.permits.recv().unwrap() {
            Permit::Commit => self.log.append(entries, changes),
            Permit::Fail => Err(StoreError::Full { path: "log".into() }),
        }
    }
}

type Reply = oneshot::Receiver<Result<CommandReply, ServiceError>>;

/// A running loop.
struct RunningLoop {
    commands: mpsc::Sender<SupervisorCommand>,
    begun: std_mpsc::Receiver<Vec<&'static str>>,
    permits: std_mpsc::SyncSender<Permit>,
    counters: Arc<HostCounters>,
    thread: JoinHandle<()>,
}

impl RunningLoop {
    fn start() -> Self {
        let (begun, begun_seen) = std_mpsc::sync_channel(16);
        let (permits, permits_seen) = std_mpsc::sync_channel(16);
        let (commands, inputs) = mpsc::channel(1_024);
        let (log, _history) = open_memory();
        let log = PermittedLog {
            log,
            begun,
            permits: permits_seen,
        };
        let state = State::default();
        let counters = Arc::<HostCounters>::default();
        let outlets = CommitOutlets {
            feed: Arc::new(EventFeed::new(Seq(0))),
            directory: Arc::new(AgentDirectory::new(&state)),
            board: Arc::default(),
            counters: Arc::clone(&counters),
            outage: watch::Sender::new(None),
        };
        let mut writer = CommitWriter::new(Box::new(log), outlets);
        writer.start().unwrap();
        let clock = HostClock::start();
        let supervisor = Supervisor {
            writer,
            gate: Gate::from_state(&state),
            state,
            presence: ConnectionPresence::default(),
            clock,
            counters: Arc::clone(&counters),
            expiry_held_until: clock.started_at(),
            owner_grace_ms: 0,
            escalation_ms: 0,
            deadline: watch::Sender::new(None),
            waiters: AnswerWaiters::default(),
        };
        Self {
            commands,
            begun: begun_seen,
            permits,
            counters,
            thread: std::thread::spawn(move || supervisor.run(inputs)),
        }
    }

    fn send(&self, command: SupervisorCommand) {
        self.commands.blocking_send(command).unwrap();
    }

    fn submit(&self, input: Input) -> Reply {
        let (answer, reply) = oneshot::channel();
        self.send(SupervisorCommand::Input(input, Some(answer)));
        reply
    }

    fn ask(&self, id: &str) -> Reply {
        self.submit(Input::RequestApproval(Box::new(AskRequest {
            system_level: true,
            ..AskRequest::new(operator(), ApprovalId::new(id), "run it")
        })))
    }

    fn approve(&self, id: &str) -> Reply {
        self.submit(Input::ResolveApproval(ResolveApproval {
            delegated: None,
            caller: operator(),
            approval: ApprovalId::new(id),
            answer: ApprovalAnswer {
                resolution: "approve".to_owned(),
                ..ApprovalAnswer::default()
            },
            grant_ids: Vec::new(),
        }))
    }

    fn count_open(&self) -> oneshot::Receiver<usize> {
        let (answer, found) = oneshot::channel();
        let read = OpenCount { found: 0, answer };
        self.send(SupervisorCommand::Read(Box::new(read)));
        found
    }

    /// The kinds of the append that has begun.
    fn begun(&self) -> Vec<&'static str> {
        self.begun.recv_timeout(LIMIT).unwrap()
    }

    fn permit(&self, permit: Permit) {
        self.permits.send(permit).unwrap();
    }

    /// Waits until the loop has taken this many commands.
    fn wait_taken(&self, commands: u64) {
        let begin = Instant::now();
        while self
            .counters
            .commands
            .load(std::sync::atomic::Ordering::Relaxed)
            < commands
        {
            assert!(begin.elapsed() < LIMIT, "the loop stands still");
            std::thread::yield_now();
        }
    }

    /// Holds the loop in an append of its own, so that whatever is sent now waits together: more than
    /// one batch holds, and the next goes to the writer's thread.
    fn begin_on_writer(&self, first: &str, second: &str) -> (Reply, Reply) {
        let one = self.ask(first);
        assert_eq!(self.begun(), ["approval.requested"]);
        // These wait while the loop itself commits the first.
        let two = self.ask(second);
        (one, two)
    }

    fn end(self) {
        self.send(SupervisorCommand::Stop);
        drop(self.permits);
        self.thread.join().unwrap();
    }
}

struct OpenCount {
    found: usize,
    answer: oneshot::Sender<usize>,
}

impl StateRead for OpenCount {
    fn look(&mut self, view: super::super::StateView<'_>) {
        self.found = view.state.open_approvals().len();
    }

    fn answer(self: Box<Self>) {
        _ = self.answer.send(self.found);
    }
}

fn operator() -> Caller {
    Caller {
        principal: Arc::new(Principal {
            role: Role::Operator,
            name: "somebody".into(),
            key: PrincipalKey::new("key"),
        }),
        client: None,
        door: None,
    }
}

/// What a reply is, in a word.
fn replied(reply: &mut Reply) -> String {
    match reply.try_recv() {
        Err(oneshot::error::TryRecvError::Empty) => "waits".to_owned(),
        Err(oneshot::error::TryRecvError::Closed) => "dropped".to_owned(),
        Ok(Ok(CommandReply::Approval(approval))) => format!("open: {}", approval.is_pending()),
        Ok(Ok(other)) => format!("{other:?}"),
        Ok(Err(ServiceError::Store(_))) => "not committed".to_owned(),
        Ok(Err(other)) => other.to_string(),
    }
}

fn wait_replied(reply: &mut Reply) -> String {
    let begin = Instant::now();
    loop {
        let found = replied(reply);
        if found != "waits" || begin.elapsed() > LIMIT {
            return found;
        }
        std::thread::yield_now();
    }
}

#[test]
fn what_is_decided_during_a_commit_is_answered_after_its_own() {
    let host = RunningLoop::start();
    let (mut one, mut two) = host.begin_on_writer("one", "two");
    let mut three = host.ask("three");
    host.permit(Permit::Commit);
    // The second and third were waiting together, so that one of them or both are the next append.
    let second = host.begun();
    assert_eq!(wait_replied(&mut one), "open: true");
    assert_eq!(replied(&mut two), "waits");
    let approved = &mut host.approve("one");
    let mut open = host.count_open();
    host.permit(Permit::Commit);
    let third = host.begun();
    assert_eq!(wait_replied(&mut two), "open: true");
    assert_eq!(replied(approved), "waits");
    assert!(open.try_recv().is_err());
    host.permit(Permit::Commit);
    host.permit(Permit::Commit);
    assert_eq!(wait_replied(&mut three), "open: true");
    assert_eq!(wait_replied(approved), "open: false");
    assert_eq!(open.blocking_recv(), Ok(2));
    let mut kinds = [second, third].concat();
    kinds.extend(host.begun.try_iter().flatten());
    assert_eq!(
        kinds,
        [
            "approval.requested",
            "approval.requested",
            "approval.resolved"
        ]
    );
    host.end();
}

#[test]
fn a_commit_that_fails_takes_what_was_decided_meanwhile_with_it() {
    let host = RunningLoop::start();
    let (mut one, mut two) = host.begin_on_writer("one", "two");
    // Enough that the next batch is handed to the writer, and the rest is decided meanwhile.
    let mut others: Vec<Reply> = (0..600).map(|at| host.ask(&format!("ask {at}"))).collect();
    host.permit(Permit::Commit);
    assert_eq!(wait_replied(&mut one), "open: true");
    host.begun();
    host.wait_taken(602);
    let mut approved = host.approve("one");
    let open = host.count_open();
    host.wait_taken(604);
    host.permit(Permit::Fail);
    assert_eq!(wait_replied(&mut two), "not committed");
    assert_eq!(wait_replied(&mut approved), "not committed");
    for other in &mut others {
        assert_eq!(wait_replied(other), "not committed");
    }
    // The read had no part in it, and sees what is committed.
    assert_eq!(open.blocking_recv(), Ok(1));
    // The host goes on with what was committed.
    let mut again = host.approve("one");
    assert_eq!(host.begun(), ["approval.resolved"]);
    host.permit(Permit::Commit);
    assert_eq!(wait_replied(&mut again), "open: false");
    host.end();
}

#[test]
fn a_writer_that_panics_ends_the_loop() {
    let host = RunningLoop::start();
    let (mut one, mut two) = host.begin_on_writer("one", "two");
    let _others: Vec<Reply> = (0..600).map(|at| host.ask(&format!("ask {at}"))).collect();
    host.permit(Permit::Commit);
    assert_eq!(wait_replied(&mut one), "open: true");
    host.begun();
    // The log panics when nobody can give it a permit any more.
    drop(host.permits);
    assert!(host.thread.join().is_err());
    assert_eq!(wait_replied(&mut two), "dropped");
}
