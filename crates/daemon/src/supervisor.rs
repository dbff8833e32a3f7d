//! The supervisor: one thread that decides, commits, applies, and only then answers.
//!
//! Invariants: every reply, reads included, is held until the commit it may rest on is durable.
//! The state runs ahead of the disk only inside one batch; when a commit fails, the state is
//! loaded again from what was committed and everybody who decided something in that batch is told so.
//! Who waits or reads had no part in it: waits go on, and reads see what was loaded.
//! Once the record is lost nothing is decided any more.

mod checkpoints;
mod record_health;
mod waiters;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use countersign_core::limits::{COMMIT_INPUTS_MAX, RECOVERY_MS};
use countersign_core::{
    Agent, AgentId, Approval, ApprovalId, Caller, Checkpoint, ClientId, CommitChanges,
    CommittedEvent, ConnectionPresence, DecisionContext, DecisionSubject, Event, Input, Json,
    Question, QuestionId, REPLACED, Rejection, ResolveApproval, State, Timestamp, decide,
};
use countersign_store::{EventLog, RescuedRecord};
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::HostClock;
use crate::crash;
use crate::directory::AgentDirectory;
use crate::duty_board::DutyBoard;
use crate::feed::{Feed, FeedEntry};
use crate::gate::{AssessedAsk, Gate};
use crate::reply::{CommandReply, ServiceError, StopCounts};

use checkpoints::CheckpointChanges;
pub(crate) use checkpoints::{AskCommand, OutputStep};
pub(crate) use record_health::{RecordHealth, StoreOutage};
pub(crate) use waiters::AnswerWaiters;
use waiters::EndedWaits;

/// A commit that takes longer than this is worth a warning: agents and people wait for each one.
const SLOW_COMMIT_MS: u64 = 250;

type ReplySender<T> = oneshot::Sender<Result<T, ServiceError>>;
/// Reads the state and answers its caller. If it is dropped without being run, its caller gets an error.
type StateRead = Box<dyn FnOnce(StateView<'_>) + Send>;

/// What reaches the supervisor.
pub(crate) enum SupervisorCommand {
    /// Something to decide.
    Input(Input, Option<ReplySender<CommandReply>>),
    /// An ask, to be judged by the rules and then decided.
    Ask(AskCommand, ReplySender<CommandReply>),
    /// The output of an agent, to be decided in its order, and the checkpoint that it reaches.
    RecordOutput {
        steps: Vec<OutputStep>,
        checkpoint: Option<Checkpoint>,
        answer: ReplySender<CommandReply>,
    },
    /// What the notifier keeps is to be committed; `None` drops a document.
    SaveNotifyDocuments {
        documents: Vec<(String, Option<Json>)>,
        answer: ReplySender<CommandReply>,
    },
    /// An open ask that the rules are to judge again.
    Rejudge {
        approval: ApprovalId,
        assessed: Box<AssessedAsk>,
        answer: ReplySender<CommandReply>,
    },
    /// An orchestrator's answer, to be held against its ceiling.
    Delegate {
        input: Box<ResolveApproval>,
        assessed: Option<Box<AssessedAsk>>,
        answer: ReplySender<CommandReply>,
    },
    /// Everything open is to be denied and every agent interrupted.
    StopAll(Caller, ReplySender<CommandReply>),
    /// A read of the state, run once everything that it may rest on is durable.
    Read(StateRead),
    /// After the record was lost: write what can still be read to another file.
    Rescue {
        target: PathBuf,
        answer: ReplySender<RescuedRecord>,
    },
    /// Somebody waits for an approval to end; `is_asker` if it made the ask.
    WaitApproval {
        id: ApprovalId,
        is_asker: bool,
        answer: ReplySender<Approval>,
    },
    /// Somebody waits for a question to end.
    WaitQuestion {
        id: QuestionId,
        answer: ReplySender<Question>,
    },
    /// A wait was dropped.
    WaitDropped,
    /// A connection opened.
    Connected(ClientId),
    /// A connection reads events from now on.
    Subscribed(ClientId),
    /// A connection ended.
    Disconnected(ClientId),
    /// A deadline may have come.
    Time,
    /// Finish what is queued and end.
    Stop,
}

/// What a read may look at.
#[derive(Clone, Copy)]
pub(crate) struct StateView<'a> {
    pub(crate) state: &'a State,
    pub(crate) presence: &'a ConnectionPresence,
    pub(crate) gate: &'a Gate,
}

/// Counters for whoever watches the host.
#[derive(Debug, Default)]
pub struct HostCounters {
    /// Commands that passed the loop.
    pub commands: AtomicU64,
    /// Commits that reached the disk.
    pub commits: AtomicU64,
    /// Events in them.
    pub events: AtomicU64,
    /// Inputs that were refused.
    pub rejections: AtomicU64,
    /// Commits that failed.
    pub commit_failures: AtomicU64,
    /// Whether some process may be an agent's.
    pub(crate) agent_processes: AtomicBool,
}

impl HostCounters {
    pub(crate) fn note_agent_processes(&self, state: &State) {
        // A run that is over counts too: what it left behind may just be ending.
        let managed = state.agents().any(|agent| agent.managed.is_some());
        let some = managed || state.marks().next().is_some();
        self.agent_processes.store(some, Ordering::Release);
    }
}

/// Whether an event can begin or end what [`HostCounters::agent_processes`] says.
fn concerns_agent_processes(event: &Event) -> bool {
    matches!(
        event,
        Event::ProcessMarked(_)
            | Event::ProcessesForgotten(_)
            | Event::AgentSpawned(_)
            | Event::AgentUnregistered(_)
    )
}

pub(crate) struct Supervisor {
    pub(crate) log: Box<dyn EventLog>,
    pub(crate) state: State,
    pub(crate) presence: ConnectionPresence,
    pub(crate) feed: Arc<Feed>,
    pub(crate) directory: Arc<AgentDirectory>,
    pub(crate) clock: HostClock,
    pub(crate) counters: Arc<HostCounters>,
    pub(crate) expiry_held_until: Timestamp,
    pub(crate) owner_grace_ms: u64,
    pub(crate) escalation_ms: u64,
    pub(crate) deadline: watch::Sender<Option<Timestamp>>,
    pub(crate) outage: watch::Sender<Option<StoreOutage>>,
    pub(crate) record: RecordHealth,
    pub(crate) waiters: AnswerWaiters,
    pub(crate) gate: Gate,
    pub(crate) board: Arc<DutyBoard>,
}

/// What one batch of commands decided, and the replies that wait for its commit.
#[derive(Default)]
struct CommitBatch {
    /// How many inputs were decided.
    inputs: usize,
    entries: Vec<CommittedEvent>,
    checkpoints: CheckpointChanges,
    notify_documents: Vec<(String, Option<Json>)>,
    ended_waits: EndedWaits,
    /// Reads that came after something was decided.
    reads: Vec<StateRead>,
    replies: Vec<(
        ReplySender<CommandReply>,
        Result<PendingReply, ServiceError>,
    )>,
    stop: bool,
}

/// A reply that is known, or the place of the event that becomes one when it is committed.
enum PendingReply {
    Ready(CommandReply),
    EventAt(usize),
}

impl Supervisor {
    /// Runs until it is told to stop or every sender of commands is gone.
    pub(crate) fn run(mut self, mut commands: mpsc::Receiver<SupervisorCommand>) {
        let mut batch = Vec::with_capacity(COMMIT_INPUTS_MAX);
        // Whatever has queued up while the last batch was committed shares the next flush of the
        // disk.
        while commands.blocking_recv_many(&mut batch, COMMIT_INPUTS_MAX) > 0 {
            if self.run_batch(batch.drain(..)) {
                return;
            }
        }
    }

    fn run_batch(&mut self, commands: impl Iterator<Item = SupervisorCommand>) -> bool {
        let mut batch = CommitBatch::default();
        // First of all: nothing may be decided on a state that the disk does not have.
        let recovered = match self.recover() {
            Ok(recovered) => recovered,
            Err(error) => {
                let mut stop = false;
                for command in commands {
                    stop |= matches!(command, SupervisorCommand::Stop);
                    self.note_presence(&command);
                    self.refuse(command, &error);
                }
                self.publish_deadline();
                return stop;
            }
        };
        crash::point("before_deciding");
        if let Some(gone) = recovered {
            self.recheck_waits(&mut batch);
            for client in gone {
                self.decide_and_reply(Input::ConnectionLost(client), None, &mut batch);
            }
        }
        for command in commands {
            self.handle(command, &mut batch);
        }
        let stop = batch.stop;
        self.finish(batch);
        crash::point("after_turn");
        stop
    }

    /// Which connections are open is known even while nothing can be decided.
    fn note_presence(&mut self, command: &SupervisorCommand) {
        match command {
            SupervisorCommand::Connected(client) => self.presence.connected(client.clone()),
            SupervisorCommand::Subscribed(client) => self.presence.subscribed(client),
            SupervisorCommand::Disconnected(client) => self.presence.disconnected(client),
            SupervisorCommand::Input(..)
            | SupervisorCommand::Ask(..)
            | SupervisorCommand::RecordOutput { .. }
            | SupervisorCommand::SaveNotifyDocuments { .. }
            | SupervisorCommand::Rejudge { .. }
            | SupervisorCommand::Delegate { .. }
            | SupervisorCommand::StopAll(..)
            | SupervisorCommand::Read(..)
            | SupervisorCommand::Rescue { .. }
            | SupervisorCommand::WaitApproval { .. }
            | SupervisorCommand::WaitQuestion { .. }
            | SupervisorCommand::WaitDropped
            | SupervisorCommand::Time
            | SupervisorCommand::Stop => {}
        }
    }

    fn handle(&mut self, command: SupervisorCommand, batch: &mut CommitBatch) {
        self.counters.commands.fetch_add(1, Ordering::Relaxed);
        match command {
            SupervisorCommand::Input(input, answer) => self.decide_and_reply(input, answer, batch),
            SupervisorCommand::Ask(raised, answer) => self.decide_ask(raised, answer, batch),
            SupervisorCommand::RecordOutput {
                steps,
                checkpoint,
                answer,
            } => self.record_output(steps, checkpoint, answer, batch),
            SupervisorCommand::SaveNotifyDocuments { documents, answer } => {
                batch.save_documents(documents, answer);
            }
            SupervisorCommand::Rejudge {
                approval,
                assessed,
                answer,
            } => self.rejudge(approval, &assessed, answer, batch),
            SupervisorCommand::Delegate {
                input,
                assessed,
                answer,
            } => self.delegate(*input, assessed.as_deref(), answer, batch),
            SupervisorCommand::StopAll(caller, answer) => self.stop_all(caller, answer, batch),
            // What it sees is durable, or it waits until that is.
            SupervisorCommand::Read(read) if batch.decided_nothing() => self.run_read(read),
            SupervisorCommand::Read(read) => batch.reads.push(read),
            SupervisorCommand::Rescue { target, answer } => self.rescue(&target, answer),
            SupervisorCommand::WaitApproval {
                id,
                is_asker,
                answer,
            } => {
                self.add_approval_wait(id, is_asker, answer, batch);
            }
            SupervisorCommand::WaitQuestion { id, answer } => self.add_question_wait(id, answer),
            SupervisorCommand::WaitDropped => self.waiters.sweep(),
            SupervisorCommand::Connected(client) => self.presence.connected(client),
            SupervisorCommand::Subscribed(client) => self.presence.subscribed(&client),
            SupervisorCommand::Disconnected(client) => {
                // Before it is decided: what a connection holds lapses only if the presence lacks
                // it.
                self.presence.disconnected(&client);
                self.decide_and_reply(Input::ConnectionLost(client), None, batch);
            }
            SupervisorCommand::Time => self.decide_and_reply(Input::TimeArrived, None, batch),
            SupervisorCommand::Stop => batch.stop = true,
        }
    }

    fn rejudge(
        &mut self,
        approval: ApprovalId,
        assessed: &AssessedAsk,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let open = self.state.find_approval(&approval);
        let agent = open.and_then(|open| open.ask.agent.clone());
        let now = self.clock.now();
        let judged = self.gate.judge(&self.state, assessed, agent.as_ref(), now);
        let input = Input::SettleByRules { approval, judged };
        self.decide_and_reply(input, Some(answer), batch);
    }

    /// A ceiling counts as it is at the instant of the answer.
    fn delegate(
        &mut self,
        mut input: ResolveApproval,
        assessed: Option<&AssessedAsk>,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let now = self.clock.now();
        let agent = input.caller.principal.agent();
        input.delegated = agent
            .zip(assessed)
            .map(|(agent, assessed)| self.gate.judge_delegate(&self.state, assessed, agent, now));
        self.decide_and_reply(Input::ResolveApproval(input), Some(answer), batch);
    }

    /// Counts in the loop, against the very state that the input ends: whatever is asked or ends
    /// meanwhile is not counted.
    fn stop_all(
        &mut self,
        caller: Caller,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let agents = self.state.agents();
        let counts = StopCounts {
            denied: self.state.open_approvals().len(),
            interrupted: agents.filter(|agent| !agent.base.is_terminal()).count(),
        };
        let stopped = self.decide_one(Input::StopAll(caller), batch);
        let reply = stopped.map(|_| PendingReply::Ready(CommandReply::StoppedAll(counts)));
        batch
            .replies
            .push((answer, reply.map_err(ServiceError::Rejected)));
    }

    fn decide_and_reply(
        &mut self,
        input: Input,
        answer: Option<ReplySender<CommandReply>>,
        batch: &mut CommitBatch,
    ) {
        let result = self.decide_one(input, batch);
        if let Some(answer) = answer {
            batch
                .replies
                .push((answer, result.map_err(ServiceError::Rejected)));
        }
    }

    fn decide_one(
        &mut self,
        input: Input,
        batch: &mut CommitBatch,
    ) -> Result<PendingReply, Rejection> {
        let result = self.decide_and_apply(input, batch);
        if result.is_err() {
            self.counters.rejections.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    fn decide_and_apply(
        &mut self,
        input: Input,
        batch: &mut CommitBatch,
    ) -> Result<PendingReply, Rejection> {
        batch.inputs += 1;
        // Read once: the events of one input have one time, and it is the one that was decided by.
        let now = self.clock.now();
        let context = DecisionContext {
            now,
            presence: &self.presence,
            expiry_held_until: self.expiry_held_until,
            owner_grace_ms: self.owner_grace_ms,
            escalation_ms: self.escalation_ms,
        };
        let decision = decide(&self.state, context, input)?;
        let mut ended_question = None;
        for event in decision.events {
            // Applying it takes the question out of the state, and whoever waits is told it as it
            // was.
            if let Event::QuestionEnded(e) = &event {
                ended_question = self.state.find_question(&e.question).cloned();
            }
            let seq = self.state.head().next();
            let ask = self.state.apply(seq, now, &event);
            if concerns_agent_processes(&event) {
                self.counters.note_agent_processes(&self.state);
            }
            // At once, and not after the commit: the next input of this batch is judged with it.
            self.gate.apply_event(&event);
            batch.checkpoints.note(&event);
            self.end_question_waits(seq, now, &event, ended_question.as_mut(), batch);
            batch.entries.push(CommittedEvent {
                seq,
                at: now,
                event,
                ask,
            });
            self.end_approval_waits(batch);
        }
        self.reply_to(decision.subject, ended_question, batch)
    }

    fn reply_to(
        &self,
        subject: DecisionSubject,
        question: Option<Question>,
        batch: &CommitBatch,
    ) -> Result<PendingReply, Rejection> {
        let state = &self.state;
        let found = match subject {
            DecisionSubject::Nothing => Some(CommandReply::Nothing),
            DecisionSubject::Agent(id) => state
                .find_agent(&id)
                .map(|agent| CommandReply::Agent(Box::new(agent.clone()), state.open_of(&id))),
            DecisionSubject::Approval(id) => state
                .find_approval(&id)
                .map(|approval| CommandReply::Approval(Box::new(approval.clone()))),
            DecisionSubject::KnownApproval(approval) => Some(CommandReply::Approval(approval)),
            DecisionSubject::PassedToOwner(id) => state
                .find_approval(&id)
                .map(|approval| CommandReply::Passed(Box::new(approval.clone()))),
            DecisionSubject::Question(id) => state
                .find_question(&id)
                .map(|question| CommandReply::Question(Box::new(question.clone()))),
            DecisionSubject::EndedQuestion(_) => {
                question.map(|question| CommandReply::Question(Box::new(question)))
            }
            DecisionSubject::KnownQuestion(question) => Some(CommandReply::Question(question)),
            DecisionSubject::Device(id) => state
                .find_device(&id)
                .map(|device| CommandReply::Device(device.clone())),
            DecisionSubject::Token(id) => state
                .find_token(&id)
                .map(|token| CommandReply::Token(Box::new(token.clone()))),
            DecisionSubject::Grant(id) => state
                .find_grant(&id)
                .map(|grant| CommandReply::Grant(Box::new(grant.clone()))),
            DecisionSubject::RemovedGrant(grant) => Some(CommandReply::Grant(grant)),
            DecisionSubject::Covered(id) => Some(CommandReply::Covered(id)),
            DecisionSubject::Event => return Ok(PendingReply::EventAt(batch.entries.len() - 1)),
            DecisionSubject::Refused(rejection) => return Err(*rejection),
        };
        Ok(PendingReply::Ready(found.unwrap_or(CommandReply::Nothing)))
    }

    /// Commits the batch, then lets out everything it held.
    fn finish(&mut self, batch: CommitBatch) {
        // A batch of reads and refusals changes nothing, and then no flush of the disk is waited
        // for.
        let unchanged = batch.decided_nothing();
        let CommitBatch {
            entries,
            checkpoints,
            notify_documents,
            ended_waits,
            reads,
            replies,
            inputs,
            ..
        } = batch;
        let committed = if unchanged {
            Ok(Vec::new())
        } else {
            let changes = CommitChanges {
                checkpoints: checkpoints.into_changes(),
                notify_documents,
                // Taken even if the append fails: the state is loaded again then, and its changes
                // with it.
                ..self.state.take_changes()
            };
            self.commit(entries, changes, inputs)
        };
        crash::point("before_replies");
        match &committed {
            Ok(entries) => {
                // Before the replies: an agent's driver does not depend on any caller still
                // listening.
                self.post_duties_after(entries);
                for (answer, result) in replies {
                    // A caller that no longer listens has lost nothing: the record has it.
                    drop(answer.send(result.map(|pending| resolve_reply(pending, entries))));
                    crash::point("after_reply");
                }
                crash::point("before_releases");
                ended_waits.answer();
                self.run_reads(reads);
                crash::point("after_release");
            }
            Err(error) => {
                for (answer, _) in replies {
                    refuse_with(answer, error.clone());
                }
                self.waiters.put_back(ended_waits);
                // The state holds what was not committed; a read must not see that.
                if self.reload().is_ok() {
                    self.run_reads(reads);
                }
            }
        }
        self.publish_deadline();
    }

    /// Posts the duties of the agents that a commit touched.
    fn post_duties_after(&self, entries: &[Arc<FeedEntry>]) {
        let touched: BTreeSet<&AgentId> = entries
            .iter()
            .filter(|entry| may_owe(&entry.committed.event))
            .filter_map(|entry| entry.committed.event.agent())
            .collect();
        self.post_duties(touched.into_iter());
        // The start is about no agent, and the duties of every agent follow from it.
        let mut events = entries.iter().map(|entry| &entry.committed.event);
        if events.any(|event| matches!(event, Event::HostStarted(_))) {
            self.post_all_duties();
        }
    }

    /// Posts the duties of every live agent, also of those that no new event is about.
    fn post_all_duties(&self) {
        self.post_duties(self.state.live_agents().map(Agent::id));
    }

    fn post_duties<'a>(&self, agents: impl Iterator<Item = &'a AgentId>) {
        for agent in agents {
            let managed = self.state.find_agent(agent).map(|agent| &agent.managed);
            if managed.is_some_and(Option::is_some) {
                self.board.post(agent, self.state.duties_of(agent));
            }
        }
    }

    fn commit(
        &mut self,
        entries: Vec<CommittedEvent>,
        changes: CommitChanges,
        inputs: usize,
    ) -> Result<Vec<Arc<FeedEntry>>, ServiceError> {
        let (events, head) = (entries.len(), self.state.head().0);
        let span = tracing::debug_span!("commit", inputs, events, seq = head);
        let _entered = span.enter();
        let begin = Instant::now();
        crash::committing(&entries);
        crash::point("before_append");
        crash::during("during_append");
        if let Err(error) = self.log.append(&entries, &changes) {
            return Err(self.note_failed_commit(&error));
        }
        crash::point("after_append");
        crash::committed(&entries);
        let elapsed_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        if elapsed_ms >= SLOW_COMMIT_MS {
            tracing::warn!(inputs, events, seq = head, elapsed_ms, "slow commit");
        } else {
            tracing::debug!(elapsed_ms, "committed");
        }
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.counters
            .events
            .fetch_add(entries.len() as u64, Ordering::Relaxed);
        // Before the feed wakes anybody: a reader of the event reads its effect in the directory.
        self.directory.publish(&changes);
        entries.iter().for_each(log_lifecycle);
        let entries: Vec<_> = entries.into_iter().map(FeedEntry::new).collect();
        // A checkpoint alone is nothing that a reader would wake for.
        if !entries.is_empty() {
            self.feed.push(entries.iter().cloned());
        }
        // After the push: an event of this very commit may show what was erased.
        for seq in changes.redacted {
            self.feed.remove_erased(|committed| {
                committed.seq == seq || committed.event.opened() == Some(seq)
            });
        }
        if let Some(before) = changes.pruned_before {
            self.feed.remove_erased(|committed| {
                committed.seq < before || committed.event.opened().is_some_and(|seq| seq < before)
            });
        }
        Ok(entries)
    }

    fn publish_deadline(&self) {
        let next = match &*self.outage.borrow() {
            None => self.state.next_deadline(self.expiry_held_until),
            // Nobody may call for long: look again by ourselves whether the record can be written.
            Some(_) => Some(self.clock.now().plus_ms(RECOVERY_MS)),
        };
        // After it fired once, the same deadline must be named again to be heard.
        self.deadline.send_if_modified(|deadline| {
            let changed = *deadline != next || next.is_some_and(|at| at <= self.clock.now());
            *deadline = next;
            changed
        });
    }
}

impl CommitBatch {
    fn decided_nothing(&self) -> bool {
        self.entries.is_empty() && self.checkpoints.is_empty() && self.notify_documents.is_empty()
    }

    fn save_documents(
        &mut self,
        documents: Vec<(String, Option<Json>)>,
        answer: ReplySender<CommandReply>,
    ) {
        self.notify_documents.extend(documents);
        let saved = Ok(PendingReply::Ready(CommandReply::Nothing));
        self.replies.push((answer, saved));
    }
}

fn resolve_reply(pending: PendingReply, entries: &[Arc<FeedEntry>]) -> CommandReply {
    match pending {
        PendingReply::Ready(reply) => reply,
        PendingReply::EventAt(index) => entries.get(index).map_or(CommandReply::Nothing, |entry| {
            CommandReply::Event(entry.clone())
        }),
    }
}

fn refuse_with<T>(answer: ReplySender<T>, error: ServiceError) {
    drop(answer.send(Err(error)));
}

/// The life of managed agents, for whoever reads the log of the host.
fn log_lifecycle(committed: &CommittedEvent) {
    match &committed.event {
        Event::AgentRunRequested(e) => {
            tracing::info!(agent = %e.agent, run = e.run, "agent starting");
        }
        Event::AgentReady(e) => tracing::info!(agent = %e.agent, run = e.run, "agent ready"),
        Event::AgentExited(e) => {
            tracing::info!(agent = %e.agent, run = e.run, end = ?e.end, "agent ended");
        }
        Event::ProcessMarked(e) => {
            tracing::info!(agent = %e.agent, pid = e.process.pid, "process marked as an agent");
        }
        Event::ApprovalResolved(e) if e.ending.message.as_deref() == Some(REPLACED) => {
            tracing::warn!(approval = %e.approval, "a second ask for the same tool call replaced it");
        }
        _ => {}
    }
}

/// Whether an event can change the duties of an agent; its output cannot.
fn may_owe(event: &Event) -> bool {
    !matches!(event, Event::TranscriptAdded(_) | Event::AgentReported(_))
}
