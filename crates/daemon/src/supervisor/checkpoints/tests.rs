//! Turns of the loop by hand: what is committed with what.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::event::{ApprovalOutcome, RunEnd, SpawnOptions, TranscriptEntry};
use countersign_core::{
    ApprovalId, Caller, CommitChanges, CommittedEvent, ConnectionPresence, ManagedAsk,
    ManagedInput, Principal, PrincipalKey, ResolveApproval, Role, RunEvent, Seq, Snapshot,
    SpawnAgent, State,
};
use countersign_store::memory::{MemoryLog, open_memory};
use countersign_store::{EventLog, StoreError};
use tokio::sync::{oneshot, watch};

use super::super::{
    AnswerWaiters, CommitOutlets, CommitWriter, StateRead, StateView, SupervisorCommand,
};
use super::*;
use crate::clock::HostClock;
use crate::directory::AgentDirectory;
use crate::feed::EventFeed;
use crate::gate::Gate;

/// What one append was told to write: kinds of events, and checkpoints.
type Append = (Vec<&'static str>, Vec<(String, Option<(u32, u64)>)>);

/// How a log fails.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Failure {
    #[default]
    None,
    Full,
    /// The files were found to be lost before anything was written.
    Lost,
    /// The files were found to be lost after something was written.
    LostMeanwhile,
}

impl Failure {
    fn check(self, when: &[Self]) -> Result<(), StoreError> {
        match self {
            failure if !when.contains(&failure) => Ok(()),
            Self::None => Ok(()),
            Self::Full => Err(StoreError::Full { path: "log".into() }),
            Self::Lost | Self::LostMeanwhile => Err(StoreError::Lost {
                path: "log".into(),
                what: "was removed",
            }),
        }
    }
}

/// A log that remembers what it was told, and fails when it is to.
struct Watched {
    log: MemoryLog,
    seen: Arc<Mutex<Vec<Append>>>,
    failure: Arc<Mutex<Failure>>,
}

impl EventLog for Watched {
    fn load(&mut self) -> Result<Snapshot, StoreError> {
        self.log.load()
    }

    fn append(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), StoreError> {
        let failure = *self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.check(&[Failure::Full, Failure::Lost])?;
        let kinds = entries.iter().map(|entry| entry.event.kind()).collect();
        let checkpoints = changes.checkpoints.iter().map(|(agent, checkpoint)| {
            let place = checkpoint.as_ref().map(|mark| (mark.run, mark.offset));
            (agent.as_str().to_owned(), place)
        });
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((kinds, checkpoints.collect()));
        self.log.append(entries, changes)?;
        failure.check(&[Failure::LostMeanwhile])
    }

    fn check(&mut self) -> Result<(), StoreError> {
        let failure = *self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.check(&[Failure::Lost])
    }
}

/// A loop that is turned by hand.
struct Hand {
    supervisor: Supervisor,
    seen: Arc<Mutex<Vec<Append>>>,
    failure: Arc<Mutex<Failure>>,
}

fn id() -> AgentId {
    AgentId::new("a")
}

fn caller(role: Role) -> Caller {
    Caller {
        principal: Arc::new(Principal {
            role,
            name: "somebody".into(),
            key: PrincipalKey::new("key"),
        }),
        client: None,
        door: None,
    }
}

fn ran(run: u32, ran: RunEvent) -> Input {
    Input::Managed(ManagedInput::RunReported(id(), run, ran))
}

fn ready(run: u32) -> Input {
    ran(
        run,
        RunEvent::Ready {
            session: "s".to_owned(),
            resumable: true,
        },
    )
}

fn said(text: &str) -> Input {
    let text = text.to_owned();
    ran(
        1,
        RunEvent::EntriesAdded(vec![TranscriptEntry::Notice { text }]),
    )
}

fn exited(run: u32) -> Input {
    ran(
        run,
        RunEvent::Exited {
            entries: Vec::new(),
            end: RunEnd::Done,
            message: "it went".to_owned(),
        },
    )
}

fn prompt() -> Input {
    Input::Managed(ManagedInput::Prompt {
        attachments: Vec::new(),
        caller: caller(Role::Operator),
        agent: id(),
        text: "go".to_owned(),
    })
}

/// Refused: whoever looks may not.
fn refused() -> Input {
    Input::Managed(ManagedInput::Kill {
        children: None,
        caller: caller(Role::Observer),
        agent: id(),
    })
}

fn checkpoint(run: u32, heard: u64) -> Checkpoint {
    Checkpoint {
        agent: id(),
        run,
        offset: heard,
        state: Json::null(),
    }
}

type Waiting = oneshot::Receiver<Result<CommandReply, ServiceError>>;

fn to_steps(inputs: Vec<Input>) -> Vec<OutputStep> {
    let inputs = inputs.into_iter().map(Box::new);
    inputs.map(OutputStep::Input).collect()
}

fn heard(inputs: Vec<Input>, checkpoint: Checkpoint) -> (SupervisorCommand, Waiting) {
    let (answer, wait) = oneshot::channel();
    let command = SupervisorCommand::RecordOutput {
        steps: to_steps(inputs),
        checkpoint: Some(checkpoint),
        answer,
    };
    (command, wait)
}

fn request(own: ManagedAsk) -> AskRequest {
    let approval = ApprovalId::new(format!("ask {}", own.request));
    AskRequest {
        agent: Some(id()),
        system_level: true,
        managed: Some(Box::new(own)),
        ..AskRequest::new(caller(Role::Agent(id())), approval, "run it")
    }
}

fn ask(
    own: ManagedAsk,
    before: Vec<Input>,
    checkpoint: Checkpoint,
) -> (SupervisorCommand, Waiting) {
    let (answer, wait) = oneshot::channel();
    let mut steps = to_steps(before);
    steps.push(OutputStep::Ask(AskCommand::new(request(own)), answer));
    let command = SupervisorCommand::RecordOutput {
        steps,
        checkpoint: Some(checkpoint),
        answer: oneshot::channel().0,
    };
    (command, wait)
}

fn own(run: u32, request: &str) -> ManagedAsk {
    ManagedAsk {
        run,
        request: request.to_owned(),
        ..ManagedAsk::default()
    }
}

/// What was answered, in a word.
fn answered(mut wait: Waiting) -> String {
    match wait.try_recv().unwrap() {
        Ok(CommandReply::Nothing) => "nothing".to_owned(),
        Ok(CommandReply::Approval(approval)) => format!("open: {}", approval.is_pending()),
        Ok(CommandReply::Covered(by)) => format!("covered by {by}"),
        Ok(other) => format!("{other:?}"),
        Err(ServiceError::Rejected(_)) => "refused".to_owned(),
        Err(ServiceError::Store(_)) => "lost".to_owned(),
        Err(other) => other.to_string(),
    }
}

impl Hand {
    fn new() -> Self {
        let clock = HostClock::start();
        let (seen, failure) = (Arc::default(), Arc::default());
        let (log, _history) = open_memory();
        let state = State::default();
        let log = Watched {
            log,
            seen: Arc::clone(&seen),
            failure: Arc::clone(&failure),
        };
        let outlets = CommitOutlets {
            feed: Arc::new(EventFeed::new(Seq(0))),
            directory: Arc::new(AgentDirectory::new(&state)),
            board: Arc::default(),
            counters: Arc::default(),
            outage: watch::Sender::new(None),
        };
        let supervisor = Supervisor {
            writer: CommitWriter::new(Box::new(log), outlets),
            gate: Gate::from_state(&state),
            state,
            presence: ConnectionPresence::default(),
            clock,
            counters: Arc::default(),
            expiry_held_until: clock.started_at(),
            owner_grace_ms: 0,
            escalation_ms: 0,
            deadline: watch::Sender::new(None),
            waiters: AnswerWaiters::default(),
        };
        Self {
            supervisor,
            seen,
            failure,
        }
    }

    fn fail(&self, failure: Failure) {
        *self.failure.lock().unwrap() = failure;
    }

    /// With an agent whose session is open.
    fn with_agent() -> Self {
        let mut hand = Self::new();
        let spawn = SpawnAgent {
            attachments: Vec::new(),
            caller: caller(Role::Operator),
            id: id(),
            name: None,
            kind: "scripted".to_owned(),
            options: SpawnOptions {
                command: vec!["agent".to_owned()],
                cwd: "/".to_owned(),
                ..SpawnOptions::default()
            },
            prompt: None,
        };
        let spawn = Input::Managed(ManagedInput::Spawn(Box::new(spawn)));
        hand.turn([
            SupervisorCommand::Input(spawn, None),
            SupervisorCommand::Input(ready(1), None),
        ]);
        hand
    }

    /// Takes commands in one turn, and gives what was appended.
    fn turn(&mut self, commands: impl IntoIterator<Item = SupervisorCommand>) -> Vec<Append> {
        self.seen.lock().unwrap().clear();
        let mut batch = CommitBatch::default();
        self.supervisor
            .decide_commands(commands.into_iter(), &mut batch);
        self.supervisor.commit_batch(batch, false);
        self.supervisor.unwind_failure(&mut CommitBatch::default());
        self.seen.lock().unwrap().clone()
    }

    /// Takes one command, and gives what was answered and what was appended.
    fn take(&mut self, (command, wait): (SupervisorCommand, Waiting)) -> (String, Vec<Append>) {
        let appended = self.turn([command]);
        (answered(wait), appended)
    }

    fn stored(&mut self) -> Vec<Checkpoint> {
        self.supervisor
            .writer
            .record()
            .log
            .load()
            .unwrap()
            .checkpoints
    }
}

/// One append of events of these kinds, with what became of the agent's checkpoint.
fn append<const N: usize>(kinds: [&'static str; N], checkpoint: Option<(u32, u64)>) -> Append {
    (kinds.to_vec(), vec![("a".to_owned(), checkpoint)])
}

#[test]
fn what_was_heard_is_one_commit_with_its_checkpoint() {
    let mut hand = Hand::with_agent();
    let inputs = vec![said("one"), said("two")];
    assert_eq!(
        hand.take(heard(inputs, checkpoint(1, 7))),
        (
            "nothing".to_owned(),
            vec![append(["transcript.added"; 2], Some((1, 7)))]
        )
    );
    assert_eq!(hand.stored(), [checkpoint(1, 7)]);
}

#[test]
fn a_checkpoint_alone_is_committed_and_wakes_nobody() {
    let mut hand = Hand::with_agent();
    let mut readers = hand.supervisor.writer.outlets().feed.watch();
    readers.mark_unchanged();
    assert_eq!(
        hand.take(heard(Vec::new(), checkpoint(1, 7))),
        ("nothing".to_owned(), vec![append([], Some((1, 7)))])
    );
    assert!(!readers.has_changed().unwrap());
}

#[test]
fn the_last_checkpoint_of_a_turn_counts() {
    let mut hand = Hand::with_agent();
    let (one, _one) = heard(Vec::new(), checkpoint(1, 7));
    let (two, _two) = heard(Vec::new(), checkpoint(1, 9));
    assert_eq!(hand.turn([one, two]), [append([], Some((1, 9)))]);
}

#[test]
fn what_was_refused_takes_the_checkpoint_with_it_and_nothing_else() {
    let mut hand = Hand::with_agent();
    let inputs = vec![said("one"), refused(), said("two")];
    assert_eq!(
        hand.take(heard(inputs, checkpoint(1, 7))),
        (
            "refused".to_owned(),
            vec![(vec!["transcript.added"; 2], Vec::new())]
        )
    );
    assert_eq!(hand.stored(), []);
}

#[test]
fn a_checkpoint_about_another_run_is_dropped() {
    let mut hand = Hand::with_agent();
    for run in [0, 2] {
        let taken = hand.take(heard(Vec::new(), checkpoint(run, 7)));
        assert_eq!(taken, ("nothing".to_owned(), Vec::new()));
    }
}

#[test]
fn the_end_of_a_run_takes_its_checkpoint_along() {
    let mut hand = Hand::with_agent();
    hand.take(heard(Vec::new(), checkpoint(1, 7)));
    let (answer, appended) = hand.take(heard(vec![exited(1)], checkpoint(1, 9)));
    assert_eq!(answer, "nothing");
    assert_eq!(appended[0].1, [("a".to_owned(), None)]);
    assert_eq!(hand.stored(), []);
}

#[test]
fn the_checkpoint_of_a_new_run_stays_beside_the_end_of_the_old() {
    let mut hand = Hand::with_agent();
    let (last, _last) = heard(vec![said("one")], checkpoint(1, 7));
    let (first, _first) = heard(Vec::new(), checkpoint(2, 3));
    let input = |input| SupervisorCommand::Input(input, None);
    let appended = hand.turn([last, input(exited(1)), input(prompt()), first]);
    assert_eq!(appended[0].1, [("a".to_owned(), Some((2, 3)))]);
    assert_eq!(hand.stored(), [checkpoint(2, 3)]);
}

#[test]
fn an_ask_is_one_commit_with_what_was_heard_before_it_and_its_checkpoint() {
    let mut hand = Hand::with_agent();
    assert_eq!(
        hand.take(ask(own(1, "7"), vec![said("one")], checkpoint(1, 7))),
        (
            "open: true".to_owned(),
            vec![append(
                [
                    "transcript.added",
                    "approval.requested",
                    "agent.status_changed"
                ],
                Some((1, 7))
            )]
        )
    );
}

#[test]
fn a_refused_ask_leaves_what_was_said_before_it_and_its_checkpoint() {
    let mut hand = Hand::with_agent();
    assert_eq!(
        hand.take(ask(own(9, "7"), vec![said("one")], checkpoint(1, 7))),
        (
            "refused".to_owned(),
            vec![append(["transcript.added"], Some((1, 7)))]
        )
    );
}

#[test]
fn several_asks_and_what_was_said_between_them_are_one_commit() {
    let mut hand = Hand::with_agent();
    let (first, first_wait) = ask(own(1, "7"), vec![said("one")], checkpoint(1, 7));
    let (second, second_wait) = ask(own(9, "8"), vec![said("two")], checkpoint(1, 7));
    let steps = [first, second].into_iter().flat_map(|command| {
        let SupervisorCommand::RecordOutput { steps, .. } = command else {
            panic!("the output of an agent");
        };
        steps
    });
    let command = SupervisorCommand::RecordOutput {
        steps: steps.collect(),
        checkpoint: Some(checkpoint(1, 7)),
        answer: oneshot::channel().0,
    };
    let kinds = [
        "transcript.added",
        "approval.requested",
        "agent.status_changed",
        "transcript.added",
    ];
    assert_eq!(hand.turn([command]), [append(kinds, Some((1, 7)))]);
    let replies = (answered(first_wait), answered(second_wait));
    assert_eq!(replies, ("open: true".to_owned(), "refused".to_owned()));
}

#[test]
fn an_ask_after_something_refused_is_not_asked() {
    let mut hand = Hand::with_agent();
    assert_eq!(
        hand.take(ask(own(1, "7"), vec![refused()], checkpoint(1, 7))),
        ("refused".to_owned(), Vec::new())
    );
    assert_eq!(hand.supervisor.state.open_approvals().len(), 0);
}

#[test]
fn a_covered_wish_takes_its_checkpoint() {
    let mut hand = Hand::with_agent();
    let allowed = ManagedAsk {
        passes: vec!["d".to_owned()],
        ..own(1, "7")
    };
    hand.take(ask(allowed, Vec::new(), checkpoint(1, 7)));
    hand.turn([SupervisorCommand::Input(approve("7"), None)]);
    let answered = hand
        .supervisor
        .state
        .find_approval(&ApprovalId::new("ask 7"));
    let ended = answered.and_then(|approval| approval.ended.clone());
    assert_eq!(ended.unwrap().ending.outcome, ApprovalOutcome::Allowed);
    let wish = ManagedAsk {
        covered_by: vec!["d".to_owned()],
        ..own(1, "8")
    };
    assert_eq!(
        hand.take(ask(wish, Vec::new(), checkpoint(1, 9))),
        (
            "covered by ask 7".to_owned(),
            vec![append(["approval.pass_used"], Some((1, 9)))]
        )
    );
}

#[test]
fn what_could_not_be_committed_was_not_heard() {
    let mut hand = Hand::with_agent();
    hand.take(heard(Vec::new(), checkpoint(1, 7)));
    hand.fail(Failure::Full);
    let (answer, _) = hand.take(heard(vec![said("one")], checkpoint(1, 9)));
    assert_eq!(answer, "lost");
    hand.fail(Failure::None);
    assert_eq!(hand.stored(), [checkpoint(1, 7)]);
    let again = hand.take(heard(vec![said("one")], checkpoint(1, 9)));
    assert_eq!(again.0, "nothing");
    assert_eq!(hand.stored(), [checkpoint(1, 9)]);
}

fn approve(request: &str) -> Input {
    Input::ResolveApproval(ResolveApproval {
        delegated: None,
        caller: caller(Role::Operator),
        approval: ApprovalId::new(format!("ask {request}")),
        answer: countersign_core::ApprovalAnswer {
            resolution: "approve".to_owned(),
            ..countersign_core::ApprovalAnswer::default()
        },
        grant_ids: Vec::new(),
    })
}

fn submit(input: Input) -> (SupervisorCommand, Waiting) {
    let (answer, wait) = oneshot::channel();
    (SupervisorCommand::Input(input, Some(answer)), wait)
}

type WaitingForEnd = oneshot::Receiver<Result<Approval, ServiceError>>;

fn wait_for(request: &str) -> (SupervisorCommand, WaitingForEnd) {
    let (answer, wait) = oneshot::channel();
    let id = ApprovalId::new(format!("ask {request}"));
    let command = SupervisorCommand::WaitApproval {
        id,
        is_asker: true,
        answer,
    };
    (command, wait)
}

/// What a wait came to, in a word.
fn waited(wait: &mut WaitingForEnd) -> String {
    match wait.try_recv() {
        Err(oneshot::error::TryRecvError::Empty) => "waits".to_owned(),
        Err(oneshot::error::TryRecvError::Closed) => "dropped".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Ok(Ok(approval)) => {
            let ended = approval.ended.map(|ended| ended.ending.outcome);
            format!("{ended:?}")
        }
    }
}

struct OpenCount {
    found: usize,
    answer: oneshot::Sender<usize>,
}

impl StateRead for OpenCount {
    fn look(&mut self, view: StateView<'_>) {
        self.found = view.state.open_approvals().len();
    }

    fn answer(self: Box<Self>) {
        _ = self.answer.send(self.found);
    }
}

/// How many asks are open, as a caller sees it.
fn count_open() -> (SupervisorCommand, oneshot::Receiver<usize>) {
    let (answer, wait) = oneshot::channel();
    let read = OpenCount { found: 0, answer };
    (SupervisorCommand::Read(Box::new(read)), wait)
}

#[test]
fn a_wait_goes_on_when_a_commit_of_others_fails() {
    let mut hand = Hand::with_agent();
    hand.take(ask(own(1, "7"), Vec::new(), checkpoint(1, 7)));
    let (wait, mut before) = wait_for("7");
    hand.turn([wait]);
    hand.fail(Failure::Full);
    let (other, lost) = heard(vec![said("one")], checkpoint(1, 9));
    let (wait, mut meanwhile) = wait_for("7");
    hand.turn([other, wait]);
    assert_eq!(answered(lost), "lost");
    assert_eq!(
        (waited(&mut before), waited(&mut meanwhile)),
        ("waits".into(), "waits".into())
    );
    hand.fail(Failure::None);
    hand.take(submit(approve("7")));
    let allowed = "Some(Allowed)".to_owned();
    assert_eq!(
        (waited(&mut before), waited(&mut meanwhile)),
        (allowed.clone(), allowed)
    );
}

#[test]
fn a_wait_goes_on_when_its_answer_could_not_be_committed() {
    let mut hand = Hand::with_agent();
    hand.take(ask(own(1, "7"), Vec::new(), checkpoint(1, 7)));
    let (wait, mut before) = wait_for("7");
    hand.turn([wait]);
    hand.fail(Failure::Full);
    let (answer, lost) = submit(approve("7"));
    let (wait, mut after) = wait_for("7");
    hand.turn([answer, wait]);
    assert_eq!(answered(lost), "lost");
    assert_eq!(
        (waited(&mut before), waited(&mut after)),
        ("waits".into(), "waits".into())
    );
    hand.fail(Failure::None);
    hand.take(submit(approve("7")));
    let allowed = "Some(Allowed)".to_owned();
    assert_eq!(
        (waited(&mut before), waited(&mut after)),
        (allowed.clone(), allowed)
    );
}

#[test]
fn a_read_beside_a_failed_commit_sees_what_was_committed() {
    let mut hand = Hand::with_agent();
    hand.take(ask(own(1, "7"), Vec::new(), checkpoint(1, 7)));
    hand.fail(Failure::Full);
    let (before, mut seen_before) = count_open();
    let (answer, lost) = submit(approve("7"));
    let (after, mut seen_after) = count_open();
    hand.turn([before, answer, after]);
    assert_eq!(answered(lost), "lost");
    assert_eq!(
        (seen_before.try_recv(), seen_after.try_recv()),
        (Ok(1), Ok(1))
    );
}

#[test]
fn a_lost_record_is_read_and_never_written_again() {
    let mut hand = Hand::with_agent();
    hand.take(ask(own(1, "7"), Vec::new(), checkpoint(1, 7)));
    hand.fail(Failure::Lost);
    let (wait, mut waiting) = wait_for("7");
    let (read, mut seen) = count_open();
    let (answer, lost) = submit(approve("7"));
    assert_eq!(hand.turn([wait, answer, read]), []);
    assert_eq!(answered(lost), "lost");
    assert_eq!(
        (waited(&mut waiting), seen.try_recv()),
        ("waits".into(), Ok(1))
    );
    // Files that come back under the same names hold nothing of what this host knows.
    hand.fail(Failure::None);
    assert_eq!(
        hand.take(submit(approve("7"))),
        ("lost".to_owned(), Vec::new())
    );
    assert_eq!(waited(&mut waiting), "waits");
}

#[test]
fn what_a_lost_record_holds_and_nobody_was_told_is_shown_to_nobody() {
    let mut hand = Hand::with_agent();
    hand.take(ask(own(1, "7"), Vec::new(), checkpoint(1, 7)));
    hand.fail(Failure::LostMeanwhile);
    let (wait, mut waiting) = wait_for("7");
    let (answer, lost) = submit(approve("7"));
    let (read, mut seen) = count_open();
    hand.turn([wait, answer, read]);
    assert_eq!(
        (answered(lost), waited(&mut waiting)),
        ("lost".into(), "waits".into())
    );
    assert!(seen.try_recv().is_err());
    let (state, mut of_state) = count_open();
    hand.turn([state]);
    assert!(of_state.try_recv().is_err());
    // Who calls can still be found out, so that the record can be rescued.
    let directory = hand.supervisor.writer.outlets().directory.read();
    assert!(directory.find_agent(&id()).is_some());
    drop(directory);
    let outage = hand
        .supervisor
        .writer
        .outlets()
        .outage
        .borrow()
        .clone()
        .unwrap();
    assert_eq!((outage.lost, outage.unreadable), (true, true));
}

/// No event is about an adopted agent, and yet its driver has to be told what it is owed.
#[tokio::test]
async fn an_adopted_agent_is_on_the_board_of_the_next_host() {
    let mut hand = Hand::with_agent();
    hand.take(ask(own(1, "7"), vec![prompt()], checkpoint(1, 7)));
    let mut posted = hand.supervisor.writer.outlets().board.new_agents().await;
    let (agent, duties) = posted.first_mut().unwrap();
    duties.mark_unchanged();
    let started = Input::HostStarted {
        version: "test".to_owned(),
        pid: 1,
        adopted: BTreeSet::from([id()]),
    };
    let appended = hand.turn([SupervisorCommand::Input(started, None)]);
    assert_eq!(appended, [(vec!["host.started"], Vec::new())]);
    assert!(duties.has_changed().unwrap());
    assert_eq!(
        (agent.clone(), duties.borrow().to_vec()),
        (id(), hand.supervisor.state.duties_of(&id()))
    );
}
