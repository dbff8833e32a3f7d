//! The supervisor: one thread that decides and applies, and a writer that commits and only then answers.
//!
//! Invariants: every reply, reads included, is held until the commits it may rest on are durable.
//! The state runs ahead of the disk by at most two batches, the one that is being committed and the
//! one that is being decided. When a commit fails, the state is loaded again from what was committed
//! and everybody who decided something in it or since is told so. Who waits or reads had no part in
//! it: waits go on, and reads see what was loaded.
//! Once the record is lost nothing is decided any more.

mod checkpoints;
mod commit_writer;
mod record_health;
mod waiters;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use countersign_core::limits::{COMMIT_INPUTS_MAX, RECOVERY_MS};
use countersign_core::{
    Agent, AgentId, Approval, ApprovalId, Caller, Checkpoint, ClientId, CommitChanges,
    CommittedEvent, ConnectionPresence, DecisionContext, DecisionSubject, Duty, Event, Input, Json,
    Question, QuestionId, Rejection, ResolveApproval, State, Timestamp, decide,
};
use countersign_store::RescuedRecord;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::HostClock;
use crate::crash;
use crate::gate::{AssessedAsk, Gate};
use crate::reply::{CommandReply, ServiceError, StopCounts};

use checkpoints::CheckpointChanges;
pub(crate) use checkpoints::{AskCommand, OutputStep};
use commit_writer::DecidedBatch;
pub(crate) use commit_writer::{CommitOutlets, CommitWriter};
pub(crate) use record_health::StoreOutage;
pub(crate) use waiters::AnswerWaiters;
use waiters::EndedWaits;

type ReplySender<T> = oneshot::Sender<Result<T, ServiceError>>;

/// A read of the state whose caller waits for what it saw. If it is dropped, its caller gets an error.
pub(crate) trait StateRead: Send {
    /// Looks at the state, instead of what an earlier look saw.
    fn look(&mut self, view: StateView<'_>);

    /// Answers with what the last look saw, once that is durable.
    fn answer(self: Box<Self>);
}

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
    /// A read of the state, answered once everything that it may rest on is durable.
    Read(Box<dyn StateRead>),
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
        // Set when it is decided and not when it is committed: authentication looks for no agents
        // while this is false, and no process of an agent is started before its launch is
        // committed.
        self.agent_processes.store(some, Ordering::Release);
    }

    fn note_commit(&self, events: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(events as u64, Ordering::Relaxed);
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
    pub(crate) writer: CommitWriter,
    pub(crate) state: State,
    pub(crate) presence: ConnectionPresence,
    pub(crate) clock: HostClock,
    pub(crate) counters: Arc<HostCounters>,
    pub(crate) expiry_held_until: Timestamp,
    pub(crate) owner_grace_ms: u64,
    pub(crate) escalation_ms: u64,
    pub(crate) deadline: watch::Sender<Option<Timestamp>>,
    pub(crate) waiters: AnswerWaiters,
    pub(crate) gate: Gate,
}

/// What the commands since the last batch decided, and the replies that wait for its commit.
#[derive(Default)]
struct CommitBatch {
    /// How many commands are in it.
    commands: usize,
    /// How many inputs were decided.
    inputs: usize,
    entries: Vec<CommittedEvent>,
    checkpoints: CheckpointChanges,
    notify_documents: Vec<(String, Option<Json>)>,
    ended_waits: EndedWaits,
    /// What was read, of a state that may hold what is not committed.
    reads: Vec<Box<dyn StateRead>>,
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
        let mut received = Vec::with_capacity(COMMIT_INPUTS_MAX);
        let mut batch = CommitBatch::default();
        loop {
            // Never 0, which would look like a closed channel: a full batch is committed before the
            // next turn of this loop.
            let room = COMMIT_INPUTS_MAX - batch.commands;
            self.wait_while_committing(&commands, &mut batch);
            // What was decided during the last commit is committed now, also if nothing follows it.
            let is_due = !batch.holds_nothing() && commands.is_empty();
            if !is_due && commands.blocking_recv_many(&mut received, room) == 0 {
                return self.finish(batch);
            }
            self.decide_commands(received.drain(..), &mut batch);
            if batch.stop {
                return self.finish(batch);
            }
            if batch.holds_nothing() {
                batch = CommitBatch::default();
            } else if self.may_commit(&batch) {
                // Whatever has queued up meanwhile is decided while this batch is committed.
                let deciding_on = !commands.is_empty();
                self.commit_batch(std::mem::take(&mut batch), deciding_on);
            }
            self.unwind_failure(&mut batch);
            self.publish_deadline();
        }
    }

    /// Waits until a command is queued or nothing is being committed.
    fn wait_while_committing(
        &mut self,
        commands: &mpsc::Receiver<SupervisorCommand>,
        batch: &mut CommitBatch,
    ) {
        // Not in the queue: whoever sends to a receiver that sleeps has to wake it by a system call,
        // and then the network threads pay one for each command.
        while commands.is_empty() && !self.writer.wait_briefly() {}
        // Before this thread may sleep in the queue: waits and reads of a failed batch go on.
        self.unwind_failure(batch);
    }

    /// Decides commands into a batch that is not committed yet.
    fn decide_commands(
        &mut self,
        commands: impl Iterator<Item = SupervisorCommand>,
        batch: &mut CommitBatch,
    ) {
        // First of all: nothing may be decided on a state that the disk will not have.
        self.unwind_failure(batch);
        let recovered = match self.recover(batch) {
            Ok(recovered) => recovered,
            Err(error) => {
                for command in commands {
                    // A host whose record is out of order must still be able to end.
                    batch.stop |= matches!(command, SupervisorCommand::Stop);
                    self.note_presence(&command);
                    self.refuse(command, &error);
                }
                return;
            }
        };
        crash::point("before_deciding");
        if let Some(gone) = recovered {
            self.recheck_waits(batch);
            for client in gone {
                self.decide_and_reply(Input::ConnectionLost(client), None, batch);
            }
        }
        for command in commands {
            batch.commands += 1;
            self.handle(command, batch);
        }
    }

    /// Whether the batch is to be committed now: the writer can take it, or there is no room for more.
    fn may_commit(&self, batch: &CommitBatch) -> bool {
        // Everything that is decided while a batch is committed shares the next flush of the disk.
        let idle = self.writer.is_idle();
        if !idle && batch.commands >= COMMIT_INPUTS_MAX {
            self.writer.wait_idle();
            return true;
        }
        idle
    }

    /// Commits a batch, on the writer's thread if more is to be decided meanwhile.
    fn commit_batch(&mut self, batch: CommitBatch, deciding_on: bool) {
        // It must not follow a batch that failed meanwhile: it was decided on what that one held.
        let mut batch = batch;
        self.unwind_failure(&mut batch);
        crash::point("batch_decided");
        let decided = self.close_batch(batch);
        // What changes nothing has no flush to wait for, and is not worth a change of threads.
        if deciding_on && !decided.unchanged {
            self.writer.hand_over(decided);
        } else {
            self.writer.commit_here(decided);
        }
        crash::point("after_turn");
    }

    /// Commits what is left, as the last thing.
    fn finish(mut self, batch: CommitBatch) {
        self.writer.wait_idle();
        self.commit_batch(batch, false);
        self.unwind_failure(&mut CommitBatch::default());
    }

    /// After a commit that failed: refuses whatever was decided since, opens its waits again and
    /// loads the state that was committed.
    fn unwind_failure(&mut self, batch: &mut CommitBatch) {
        // The outage is known a moment before the batch that met it is given back.
        if self.writer.outlets().outage.borrow().is_some() {
            self.writer.wait_idle();
        }
        let Some(failure) = self.writer.take_failure() else {
            return;
        };
        self.waiters.put_back(failure.ended_waits);
        let refused = std::mem::take(batch);
        batch.stop = refused.stop;
        for (answer, _) in refused.replies {
            refuse_with(answer, failure.error.clone());
        }
        self.waiters.put_back(refused.ended_waits);
        // A read had no part in it, and sees what was loaded. If the record cannot be read either,
        // the next command tries again.
        if self.reload().is_ok() {
            for read in failure.reads.into_iter().chain(refused.reads) {
                self.looked(read).answer();
            }
        }
    }

    /// Closes a batch: what follows from the state is computed now, because the state goes on.
    fn close_batch(&mut self, batch: CommitBatch) -> DecidedBatch {
        let unchanged = batch.decided_nothing();
        let duties = self.duties_after(&batch.entries);
        let changes = CommitChanges {
            checkpoints: batch.checkpoints.into_changes(),
            notify_documents: batch.notify_documents,
            ..self.state.take_changes()
        };
        DecidedBatch {
            inputs: batch.inputs,
            entries: batch.entries,
            changes,
            unchanged,
            duties,
            replies: batch.replies,
            ended_waits: batch.ended_waits,
            reads: batch.reads,
        }
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
            SupervisorCommand::Read(read) => batch.reads.push(self.looked(read)),
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
            // After the event is in the batch: telling an asker decides an event of its own, which
            // has to follow this one.
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
            // The caller gets the event as the feed has it, and that is made only at the commit.
            DecisionSubject::Event => return Ok(PendingReply::EventAt(batch.entries.len() - 1)),
            DecisionSubject::Refused(rejection) => return Err(*rejection),
        };
        Ok(PendingReply::Ready(found.unwrap_or(CommandReply::Nothing)))
    }

    /// The read after a look at the state as it is now.
    fn looked(&self, mut read: Box<dyn StateRead>) -> Box<dyn StateRead> {
        read.look(StateView {
            state: &self.state,
            presence: &self.presence,
            gate: &self.gate,
        });
        read
    }

    /// The duties of the managed agents that a batch touched.
    fn duties_after(&self, entries: &[CommittedEvent]) -> Vec<(AgentId, Vec<Duty>)> {
        // The start is about no agent, and the duties of every agent follow from it.
        let mut events = entries.iter().map(|entry| &entry.event);
        if events.any(|event| matches!(event, Event::HostStarted(_))) {
            return self.all_duties();
        }
        let touched: BTreeSet<&AgentId> = entries
            .iter()
            .filter(|entry| may_owe(&entry.event))
            .filter_map(|entry| entry.event.agent())
            .collect();
        self.duties_of(touched.into_iter())
    }

    /// The duties of every live agent, also of those that no new event is about.
    fn all_duties(&self) -> Vec<(AgentId, Vec<Duty>)> {
        self.duties_of(self.state.live_agents().map(Agent::id))
    }

    fn duties_of<'a>(
        &self,
        agents: impl Iterator<Item = &'a AgentId>,
    ) -> Vec<(AgentId, Vec<Duty>)> {
        agents
            .filter(|agent| {
                let found = self.state.find_agent(agent);
                found.is_some_and(|agent| agent.managed.is_some())
            })
            .map(|agent| (agent.clone(), self.state.duties_of(agent)))
            .collect()
    }

    /// Posts the duties of every live agent. Only for a state that is committed.
    fn post_all_duties(&self) {
        for (agent, duties) in self.all_duties() {
            self.writer.outlets().board.post(&agent, duties);
        }
    }

    fn publish_deadline(&self) {
        let next = match &*self.writer.outlets().outage.borrow() {
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
    /// Whether nothing has to be committed, checked or let out.
    fn holds_nothing(&self) -> bool {
        self.decided_nothing()
            && self.replies.is_empty()
            && self.reads.is_empty()
            && self.ended_waits.is_empty()
    }

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

fn refuse_with<T>(answer: ReplySender<T>, error: ServiceError) {
    drop(answer.send(Err(error)));
}

/// Whether an event can change the duties of an agent; its output cannot.
fn may_owe(event: &Event) -> bool {
    !matches!(event, Event::TranscriptAdded(_) | Event::AgentReported(_))
}
