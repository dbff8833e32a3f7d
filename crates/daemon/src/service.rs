//! The service: everything a caller can ask of the host, whatever door it came through.
//!
//! Invariant: each operation has its one implementation here or below; doors only translate.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign_core::event::{Delivery, Device, ProcessKey};
use countersign_core::limits::{
    EXPIRY_HOLD_MS, INPUT_QUEUE, OWNER_GRACE_MS, PAGE_ROWS_MAX, RECENT_ENDED_SHOWN,
};
use countersign_core::{
    Agent, AgentId, Answer, Approval, ApprovalId, AskQuestion, AskRequest, Caller, ClientId,
    Committed, CreateToken, Event, Input, Notify, OpenCounts, Presence, Principal, PrincipalKey,
    PutDevice, Question, QuestionId, RegisterAgent, Rejection, ResolveApproval, Role, Seq,
    SetStatus, State, Timestamp, Token, TokenId, answer_again, hex,
};
use countersign_store::{ApprovalQuery, EventQuery, History, Log, QuestionQuery, StoreError};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::crash;
use crate::feed::{Entry, Feed};
use crate::names::{new_secret, random_hex};
use crate::reply::{Reply, ServiceError};
use crate::subscription::{Filter, Subscription};
use crate::supervisor::{Command, Counters, Supervisor, View, Waiters, chain};
use crate::timekeeper;

type Result<T> = std::result::Result<T, ServiceError>;

/// What a host is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The version the record shows.
    pub version: String,
    /// The time a lost owner has to come back.
    pub owner_grace_ms: u64,
    /// Nothing expires in this time after the start.
    pub expiry_hold_ms: u64,
}

impl Settings {
    /// The usual times.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            owner_grace_ms: OWNER_GRACE_MS,
            expiry_hold_ms: EXPIRY_HOLD_MS,
        }
    }
}

/// The only way in. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

struct Shared {
    commands: mpsc::Sender<Command>,
    history: Arc<dyn History>,
    feed: Arc<Feed>,
    clock: Clock,
    counters: Arc<Counters>,
    trouble: watch::Receiver<Option<Arc<str>>>,
    trust: AtomicU64,
}

/// Resolves when the loop has ended, orderly or not.
pub struct Stopped(oneshot::Receiver<()>);

impl Stopped {
    /// Waits for the end.
    pub async fn wait(&mut self) {
        // Both an orderly end and a panic drop the sender.
        drop((&mut self.0).await);
    }
}

/// Opens the record at `path` and begins.
pub async fn open(
    path: &Path,
    settings: Settings,
) -> std::result::Result<(Service, Stopped), OpenError> {
    let (log, history) = countersign_store::open(path)?;
    Ok(start(Box::new(log), history, settings).await?)
}

/// Why a host could not begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The record cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The loop could not begin.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Loads what was committed, settles what an earlier host left half told, and begins.
pub async fn start(
    mut log: Box<dyn Log>,
    history: Arc<dyn History>,
    settings: Settings,
) -> Result<(Service, Stopped)> {
    let clock = Clock::start();
    let snapshot = log.load().map_err(|error| store_error(&error))?;
    let (commands, inputs) = mpsc::channel(INPUT_QUEUE);
    let (trouble, trouble_seen) = watch::channel(None);
    let (deadline, deadline_seen) = watch::channel(None);
    let feed = Arc::new(Feed::new(snapshot.head));
    let counters = Arc::new(Counters::default());
    let supervisor = Supervisor {
        log,
        state: State::restore(snapshot),
        presence: Presence::default(),
        feed: feed.clone(),
        clock,
        counters: counters.clone(),
        expiry_held_until: clock.started_at().plus_ms(settings.expiry_hold_ms),
        owner_grace_ms: settings.owner_grace_ms,
        deadline,
        trouble,
        waiters: Waiters::default(),
    };
    let (ended, stopped) = oneshot::channel();
    std::thread::Builder::new()
        .name("supervisor".to_owned())
        .spawn(move || {
            supervisor.run(inputs);
            drop(ended);
        })
        .map_err(|error| ServiceError::Store(error.to_string().into()))?;
    // The timekeeper ends with the supervisor, so nobody needs to wait for it.
    TaskTracker::new().spawn(timekeeper::keep(clock, deadline_seen, commands.clone()));
    let shared = Shared {
        commands,
        history,
        feed,
        clock,
        counters,
        trouble: trouble_seen,
        trust: AtomicU64::new(0),
    };
    let service = Service {
        shared: Arc::new(shared),
    };
    service.begin(settings.version).await?;
    Ok((service, Stopped(stopped)))
}

/// Runs a read of history off the async threads.
pub(crate) async fn read_blocking<T: Send + 'static>(
    history: &Arc<dyn History>,
    read: impl FnOnce(&dyn History) -> std::result::Result<T, StoreError> + Send + 'static,
) -> Result<T> {
    let history = history.clone();
    let reading = tokio::task::spawn_blocking(move || read(history.as_ref()));
    reading
        .await
        .map_err(|_| ServiceError::ShuttingDown)?
        .map_err(|error| store_error(&error))
}

fn store_error(error: &StoreError) -> ServiceError {
    ServiceError::Store(chain(error).into())
}

/// What a fresh subscriber is shown, as of one sequence number.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The newest event counted in.
    pub head: Seq,
    /// Agents and what each has open.
    pub agents: Vec<(Agent, OpenCounts)>,
    /// Open approvals and the newest that ended, newest first.
    pub approvals: Vec<Approval>,
    /// Open questions, newest first.
    pub questions: Vec<Question>,
    /// Devices.
    pub devices: Vec<Arc<Device>>,
    /// Connections open now.
    pub connections: usize,
}

/// Who a token's bearer is.
#[derive(Clone, Debug)]
pub struct Identified {
    /// The principal.
    pub principal: Arc<Principal>,
    /// When that ends.
    pub expires_at: Option<Timestamp>,
}

/// The loop's side: commands and how their answers come back.
impl Service {
    async fn begin(&self, version: String) -> Result<()> {
        self.submit(Input::HostStarted {
            version,
            pid: std::process::id(),
        })
        .await?;
        crash::point("host_started");
        loop {
            let half_told = self.history(|history| history.attempted_answers()).await?;
            if half_told.is_empty() {
                return Ok(());
            }
            for approval in half_told {
                crash::point("before_settling");
                self.submit(settled(&approval, Delivery::Unknown)).await?;
            }
        }
    }

    async fn send(&self, command: Command) -> Result<()> {
        self.shared
            .commands
            .send(command)
            .await
            .map_err(|_| ServiceError::ShuttingDown)
    }

    async fn submit(&self, input: Input) -> Result<Reply> {
        let (answer, wait) = oneshot::channel();
        self.send(Command::Input(input, Some(answer))).await?;
        wait.await.map_err(|_| self.unavailable())?
    }

    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(View<'_>) -> T + Send + 'static,
    ) -> Result<T> {
        let (answer, wait) = oneshot::channel();
        let read = move |view: View<'_>| -> Box<dyn FnOnce(Result<()>) + Send> {
            let value = look(view);
            Box::new(move |durable| drop(answer.send(durable.map(|()| value))))
        };
        self.send(Command::Read(Box::new(read))).await?;
        wait.await.map_err(|_| self.unavailable())?
    }

    async fn history<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn History) -> std::result::Result<T, StoreError> + Send + 'static,
    ) -> Result<T> {
        read_blocking(&self.shared.history, read).await
    }

    fn unavailable(&self) -> ServiceError {
        self.store_trouble()
            .map_or(ServiceError::ShuttingDown, ServiceError::Store)
    }

    /// Why nothing can be committed, if nothing can.
    pub fn store_trouble(&self) -> Option<Arc<str>> {
        self.shared.trouble.borrow().clone()
    }

    /// This instant, by the host's clock.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// When the host started.
    pub fn started_at(&self) -> Timestamp {
        self.shared.clock.started_at()
    }

    /// The newest committed event.
    pub fn head(&self) -> Seq {
        self.shared.feed.head()
    }

    /// Counters for whoever watches the host.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Finishes what is queued and ends the loop.
    pub async fn stop(&self) {
        // A loop that is gone already has nothing left to stop.
        drop(self.send(Command::Stop).await);
    }
}

/// Connections.
impl Service {
    /// A connection opened; gives it its name.
    pub async fn connected(&self) -> Result<ClientId> {
        let client = ClientId::new(random_hex::<6>());
        self.send(Command::Connected(client.clone())).await?;
        Ok(client)
    }

    /// A connection ended; what it held has its time of grace from here.
    pub async fn disconnected(&self, client: ClientId) {
        drop(self.send(Command::Disconnected(client)).await);
    }

    /// What a fresh subscriber is shown, and a subscription that goes on exactly from there, or
    /// from `after` if that is given.
    pub async fn subscribe(
        &self,
        client: Option<ClientId>,
        after: Option<Seq>,
        filter: Filter,
    ) -> Result<(Overview, Subscription)> {
        if let Some(client) = client {
            self.send(Command::Subscribed(client)).await?;
        }
        let overview = self.overview().await?;
        let cursor = after.unwrap_or(overview.head);
        Ok((overview, self.subscription(cursor, filter)))
    }

    /// A subscription from a cursor, without an overview. A cursor beyond the log, as from a record
    /// that was since replaced by an older one, goes on from its end.
    pub fn subscription(&self, after: Seq, filter: Filter) -> Subscription {
        let after = after.min(self.head());
        Subscription::new(
            self.shared.feed.clone(),
            self.shared.history.clone(),
            after,
            filter,
        )
    }

    /// The host at a glance.
    pub async fn overview(&self) -> Result<Overview> {
        self.read(overview).await
    }
}

fn overview(view: View<'_>) -> Overview {
    let state = view.state;
    let mut approvals: Vec<Approval> = state.open_approvals().cloned().collect();
    approvals.extend(state.recent_approvals().take(RECENT_ENDED_SHOWN).cloned());
    approvals.sort_by_key(|approval| std::cmp::Reverse(approval.opened));
    let mut questions: Vec<Question> = state.open_questions().cloned().collect();
    questions.sort_by_key(|question| std::cmp::Reverse(question.opened));
    Overview {
        head: state.head(),
        agents: sorted_agents(state),
        approvals,
        questions,
        devices: sorted_devices(state),
        connections: view.presence.len(),
    }
}

fn sorted_agents(state: &State) -> Vec<(Agent, OpenCounts)> {
    let mut agents: Vec<_> = state
        .agents()
        .map(|agent| (agent.clone(), state.open_of(agent.id())))
        .collect();
    agents.sort_by(|(a, _), (b, _)| (&a.profile.name, a.id()).cmp(&(&b.profile.name, b.id())));
    agents
}

fn sorted_devices(state: &State) -> Vec<Arc<Device>> {
    let mut devices: Vec<_> = state.devices().cloned().collect();
    devices.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    devices
}

/// Agents, devices and notifications.
impl Service {
    /// Agents by name, with what each has open.
    pub async fn agents(&self) -> Result<Vec<(Agent, OpenCounts)>> {
        self.read(|view| sorted_agents(view.state)).await
    }

    /// One agent.
    pub async fn load_agent(&self, id: AgentId) -> Result<(Agent, OpenCounts)> {
        let found = self.read(move |view| {
            let agent = view.state.find_agent(&id).cloned();
            agent
                .map(|agent| (agent, view.state.open_of(&id)))
                .ok_or(Rejection::UnknownAgent(id))
        });
        Ok(found.await??)
    }

    /// Takes an agent's own description.
    pub async fn register_agent(&self, input: RegisterAgent) -> Result<(Agent, OpenCounts)> {
        agent(self.submit(Input::RegisterAgent(input)).await?)
    }

    /// Takes an agent off the list.
    pub async fn unregister_agent(&self, caller: Caller, agent: AgentId) -> Result<()> {
        self.submit(Input::UnregisterAgent { caller, agent })
            .await
            .map(drop)
    }

    /// Takes an owner's word for what its agent does.
    pub async fn set_status(&self, input: SetStatus) -> Result<(Agent, OpenCounts)> {
        agent(self.submit(Input::SetStatus(input)).await?)
    }

    /// Devices by name.
    pub async fn devices(&self) -> Result<Vec<Arc<Device>>> {
        self.read(|view| sorted_devices(view.state)).await
    }

    /// Takes a device's own description.
    pub async fn register_device(&self, input: PutDevice) -> Result<Arc<Device>> {
        device(self.submit(Input::RegisterDevice(input)).await?)
    }

    /// Takes what changed about a device.
    pub async fn update_device(&self, input: PutDevice) -> Result<Arc<Device>> {
        device(self.submit(Input::UpdateDevice(input)).await?)
    }

    /// Tells everybody something.
    pub async fn notify(&self, input: Notify) -> Result<Arc<Entry>> {
        event(self.submit(Input::Notify(input)).await?)
    }
}

/// Approvals.
impl Service {
    /// Opens an ask, or finds the one its key stands for.
    pub async fn request_approval(&self, mut request: AskRequest) -> Result<Approval> {
        if let Some(key) = request.idempotency_key.clone() {
            request.keyed = self
                .find_keyed(request.caller.principal.key.clone(), key)
                .await?;
        }
        approval(
            self.submit(Input::RequestApproval(Box::new(request)))
                .await?,
        )
    }

    async fn find_keyed(&self, principal: PrincipalKey, key: String) -> Result<Option<Approval>> {
        self.history(move |history| history.find_keyed_approval(&principal, &key))
            .await
    }

    /// Answers an ask. The second value says that its owner was told and decides.
    pub async fn resolve_approval(
        &self,
        caller: Caller,
        id: ApprovalId,
        answer: Answer,
    ) -> Result<(Approval, bool)> {
        let input = ResolveApproval {
            caller: caller.clone(),
            approval: id.clone(),
            answer: answer.clone(),
        };
        match self.submit(Input::ResolveApproval(input)).await {
            Ok(Reply::Passed(approval)) => Ok((*approval, true)),
            Ok(reply) => Ok((approval(reply)?, false)),
            // What memory no longer holds has ended for good, so history can answer.
            Err(ServiceError::Rejected(Rejection::UnknownApproval(_))) => {
                let ended = self.load_ended(&caller, id).await?;
                answer_again(&ended, &answer)?;
                Ok((ended, false))
            }
            Err(error) => Err(error),
        }
    }

    async fn load_ended(&self, caller: &Caller, id: ApprovalId) -> Result<Approval> {
        let wanted = id.clone();
        let found = self
            .history(move |history| history.find_approval(&wanted))
            .await?;
        let found = found.ok_or(Rejection::UnknownApproval(id))?;
        match &caller.principal.role {
            Role::Agent(agent) => Err(Rejection::AgentsCannotAnswer(agent.clone()).into()),
            Role::Observer => Err(Rejection::ObserverCannotChange.into()),
            Role::Operator | Role::Host => Ok(found),
        }
    }

    /// Takes an ask back.
    pub async fn cancel_approval(
        &self,
        caller: Caller,
        id: ApprovalId,
        message: Option<String>,
    ) -> Result<Approval> {
        approval(
            self.submit(Input::CancelApproval {
                caller,
                approval: id,
                message,
            })
            .await?,
        )
    }

    /// Takes an ended ask off the list.
    pub async fn dismiss_approval(&self, caller: Caller, id: ApprovalId) -> Result<Approval> {
        let found = Box::new(self.load_approval(&caller, id).await?);
        approval(
            self.submit(Input::DismissApproval {
                caller,
                approval: found,
            })
            .await?,
        )
    }

    /// One approval, wherever it is. An agent sees only its own.
    pub async fn load_approval(&self, caller: &Caller, id: ApprovalId) -> Result<Approval> {
        let wanted = id.clone();
        let memory = self
            .read(move |view| view.state.find_approval(&wanted).cloned())
            .await?;
        let wanted = id.clone();
        let found = match memory {
            Some(approval) => Some(approval),
            None => {
                self.history(move |history| history.find_approval(&wanted))
                    .await?
            }
        };
        let visible = found.filter(|approval| may_see(caller, approval.ask.agent.as_ref()));
        Ok(visible.ok_or(Rejection::UnknownApproval(id))?)
    }

    /// One approval, as its asker fetches it: if it ended, that is a delivery.
    pub async fn fetch_approval(&self, caller: &Caller, id: ApprovalId) -> Result<Approval> {
        let found = self.load_approval(caller, id).await?;
        if found.is_pending() || caller.principal.agent().is_none() {
            return Ok(found);
        }
        approval(self.submit(Input::TellAnswer(Box::new(found))).await?)
    }

    /// Waits until an approval ends, or `limit` is over; then it is given as it is.
    /// Any number may wait, and a wait that starts after the answer returns at once.
    pub async fn wait_approval(
        &self,
        caller: &Caller,
        id: ApprovalId,
        limit: Option<Duration>,
    ) -> Result<Approval> {
        let found = self.load_approval(caller, id.clone()).await?;
        let tell = found.was_asked_by(&caller.principal);
        if !found.is_pending() {
            let told = Input::TellAnswer(Box::new(found.clone()));
            return if tell {
                approval(self.submit(told).await?)
            } else {
                Ok(found)
            };
        }
        let (answer, wait) = oneshot::channel();
        self.send(Command::WaitApproval {
            id: id.clone(),
            tell,
            answer,
        })
        .await?;
        let guard = WaitGuard(&self.shared.commands);
        let ended = within(limit, wait).await;
        drop(guard);
        match ended {
            None => self.load_approval(caller, id).await,
            Some(Ok(Err(ServiceError::Rejected(Rejection::UnknownApproval(_))))) => {
                // It ended between the look and the wait, and memory has let go of it.
                Box::pin(self.wait_approval(caller, id, limit)).await
            }
            Some(ended) => ended.map_err(|_| self.unavailable())?,
        }
    }

    /// Records what became of telling an answer.
    pub async fn settle_answer(&self, approval: &Approval, delivery: Delivery) -> Result<()> {
        self.send(Command::Input(settled(approval, delivery), None))
            .await
    }

    /// Approvals from history, newest first.
    pub async fn approvals(&self, list: ApprovalQuery) -> Result<Vec<Approval>> {
        self.history(move |history| history.approvals(&list)).await
    }

    /// Denies everything open and interrupts every agent. Gives both numbers.
    pub async fn stop_all(&self, caller: Caller) -> Result<(usize, usize)> {
        let counts = self.read(|view| {
            let live = view
                .state
                .agents()
                .filter(|agent| !agent.base.is_terminal());
            (view.state.open_approvals().len(), live.count())
        });
        let counts = counts.await?;
        self.submit(Input::StopAll(caller)).await?;
        Ok(counts)
    }
}

fn settled(approval: &Approval, delivery: Delivery) -> Input {
    Input::SettleAnswer {
        approval: approval.ask.id.clone(),
        opened: approval.opened,
        delivery,
    }
}

/// Agents see what is theirs; everybody else sees everything.
fn may_see(caller: &Caller, agent: Option<&AgentId>) -> bool {
    caller
        .principal
        .agent()
        .is_none_or(|bound| agent == Some(bound))
}

async fn within<T>(limit: Option<Duration>, wait: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, wait).await.ok(),
        None => Some(wait.await),
    }
}

/// Tells the loop that a wait is over, however it ended.
struct WaitGuard<'a>(&'a mpsc::Sender<Command>);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        // A full queue only delays the sweep to the next dropped wait.
        drop(self.0.try_send(Command::WaitDropped));
    }
}

/// Questions.
impl Service {
    /// Opens a question.
    pub async fn ask_question(&self, input: AskQuestion) -> Result<Question> {
        question(self.submit(Input::AskQuestion(input)).await?)
    }

    /// Answers a question; the same answer twice is a success.
    pub async fn answer_question(
        &self,
        caller: Caller,
        id: QuestionId,
        answer: String,
    ) -> Result<Question> {
        let input = Input::AnswerQuestion {
            caller: caller.clone(),
            question: id.clone(),
            answer: answer.clone(),
        };
        match self.submit(input).await {
            Err(ServiceError::Rejected(Rejection::UnknownQuestion(_))) => {
                let ended = self.load_question(&caller, id).await?;
                let same = ended
                    .ended
                    .as_ref()
                    .is_some_and(|end| end.ending.answer == answer);
                if same {
                    Ok(ended)
                } else {
                    Err(Rejection::AlreadyAnswered(Box::new(ended)).into())
                }
            }
            reply => question(reply?),
        }
    }

    /// One question, wherever it is. An agent sees only its own.
    pub async fn load_question(&self, caller: &Caller, id: QuestionId) -> Result<Question> {
        let wanted = id.clone();
        let memory = self
            .read(move |view| view.state.find_question(&wanted).cloned())
            .await?;
        let wanted = id.clone();
        let found = match memory {
            Some(question) => Some(question),
            None => {
                self.history(move |history| history.find_question(&wanted))
                    .await?
            }
        };
        let visible = found.filter(|question| may_see(caller, question.text.agent.as_ref()));
        Ok(visible.ok_or(Rejection::UnknownQuestion(id))?)
    }

    /// Waits until a question ends, or `limit` is over; then it is given as it is.
    pub async fn wait_question(
        &self,
        caller: &Caller,
        id: QuestionId,
        limit: Option<Duration>,
    ) -> Result<Question> {
        let found = self.load_question(caller, id.clone()).await?;
        if !found.is_pending() {
            return Ok(found);
        }
        let (answer, wait) = oneshot::channel();
        self.send(Command::WaitQuestion {
            id: id.clone(),
            answer,
        })
        .await?;
        let guard = WaitGuard(&self.shared.commands);
        let ended = within(limit, wait).await;
        drop(guard);
        match ended {
            None | Some(Ok(Err(ServiceError::Rejected(Rejection::UnknownQuestion(_))))) => {
                self.load_question(caller, id).await
            }
            Some(ended) => ended.map_err(|_| self.unavailable())?,
        }
    }

    /// Questions from history, newest first.
    pub async fn questions(&self, query: QuestionQuery) -> Result<Vec<Question>> {
        self.history(move |history| history.questions(&query)).await
    }
}

/// Events and the record.
impl Service {
    /// Events from history, in rising order.
    pub async fn events(&self, mut query: EventQuery, filter: Filter) -> Result<Vec<Committed>> {
        query.agent = filter.agent.clone();
        query.kinds = filter.stored_kinds().or_else(|| Some(public_kinds()));
        let wanted = query.limit;
        let mut found = VecDeque::new();
        // A notification's own kind is known only once it was read, so one page may not be enough.
        loop {
            let asked = query.clone();
            let page = self.history(move |history| history.events(&asked)).await?;
            let last_page = page.len() < query.limit;
            if query.newest {
                query.before = page.first().map(|committed| committed.seq).or(query.before);
                let older = page.into_iter().rev().filter(|event| filter.wants(event));
                older
                    .take(wanted - found.len())
                    .for_each(|event| found.push_front(event));
            } else {
                query.after = page.last().map(|committed| committed.seq).or(query.after);
                let newer = page.into_iter().filter(|event| filter.wants(event));
                found.extend(newer.take(wanted - found.len()));
            }
            if last_page || found.len() >= wanted {
                return Ok(found.into());
            }
            query.limit = PAGE_ROWS_MAX;
        }
    }

    /// The newest events everybody is shown, newest first.
    pub async fn newest_events(&self, limit: usize) -> Result<Vec<Arc<Entry>>> {
        let public = Filter::default();
        if let Some(newest) = self
            .shared
            .feed
            .newest(limit, |committed| public.wants(committed))
        {
            return Ok(newest);
        }
        let query = EventQuery {
            newest: true,
            limit,
            ..EventQuery::default()
        };
        let events = self.events(query, public).await?;
        Ok(events.into_iter().rev().map(Entry::new).collect())
    }

    /// Erases the payload of an event. Gives the event that records it. What records an erasure
    /// is never erased itself.
    pub async fn redact(&self, caller: Caller, seq: Seq, reason: String) -> Result<Seq> {
        let query = EventQuery {
            after: Some(Seq(seq.0.saturating_sub(1))),
            before: Some(seq.next()),
            limit: 1,
            ..EventQuery::default()
        };
        let found = self.history(move |history| history.events(&query)).await?;
        match found.first().map(|committed| &committed.event) {
            None => return Err(Rejection::UnknownEvent(seq).into()),
            Some(Event::RecordRedacted(_) | Event::RecordPruned(_)) => {
                return Err(Rejection::StillNeeded(seq).into());
            }
            Some(_) => {}
        }
        let reply = self
            .submit(Input::Redact {
                caller,
                seq,
                reason,
            })
            .await?;
        Ok(event(reply)?.committed.seq)
    }

    /// Erases everything before an event. Gives the event that records it.
    pub async fn prune(&self, caller: Caller, before: Seq) -> Result<Seq> {
        Ok(event(self.submit(Input::Prune { caller, before }).await?)?
            .committed
            .seq)
    }

    /// The first event at or after an instant, if there is one.
    pub async fn first_event_since(&self, at: Timestamp) -> Result<Option<Seq>> {
        self.history(move |history| history.first_event_since(at))
            .await
    }
}

fn public_kinds() -> Vec<String> {
    Event::public_kinds().map(str::to_owned).collect()
}

/// Tokens and processes.
impl Service {
    /// Makes a token and gives it away, the only time it is seen.
    pub async fn create_token(
        &self,
        caller: Caller,
        role: Role,
        name: String,
        ttl: Option<Duration>,
    ) -> Result<(String, Token)> {
        let id = TokenId::new(format!("token-{}", random_hex::<6>()));
        self.create_token_as(id, caller, role, name, ttl).await
    }

    /// Gives a token of the host's own a new secret. Its bearer stays the same principal, who finds
    /// again what it owned and asked before.
    pub async fn renew_token(
        &self,
        id: TokenId,
        role: Role,
        name: String,
        ttl: Option<Duration>,
    ) -> Result<(String, Token)> {
        match self.revoke_token(Caller::host(), id.clone()).await {
            Ok(()) | Err(ServiceError::Rejected(Rejection::UnknownToken(_))) => {}
            Err(error) => return Err(error),
        }
        self.create_token_as(id, Caller::host(), role, name, ttl)
            .await
    }

    async fn create_token_as(
        &self,
        id: TokenId,
        caller: Caller,
        role: Role,
        name: String,
        ttl: Option<Duration>,
    ) -> Result<(String, Token)> {
        let secret = new_secret();
        let ttl_ms = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let input = CreateToken {
            caller,
            id,
            hash: hash_of(&secret),
            role,
            name,
            ttl_ms,
        };
        match self.submit(Input::CreateToken(input)).await? {
            Reply::Token(token) => Ok((secret, *token)),
            other => Err(mismatch(&other)),
        }
    }

    /// Withdraws a token. Connections it opened end with their next request.
    pub async fn revoke_token(&self, caller: Caller, token: TokenId) -> Result<()> {
        self.submit(Input::RevokeToken { caller, token }).await?;
        self.shared.trust.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Tokens that are valid, by name.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        let now = self.now();
        self.read(move |view| {
            let valid = view
                .state
                .tokens()
                .filter(|token| token.expires_at.is_none_or(|end| now < end));
            let mut tokens: Vec<_> = valid.cloned().collect();
            tokens.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
            tokens
        })
        .await
    }

    /// Who bears this token, if anybody does.
    pub async fn identify(&self, secret: &str) -> Result<Option<Identified>> {
        // Looking up the hash of a random secret gives no timing away that helps to guess it.
        let hash = hash_of(secret);
        let now = self.now();
        self.read(move |view| {
            view.state
                .find_token_by_hash(&hash, now)
                .map(|token| Identified {
                    principal: Arc::new(Principal {
                        role: token.role.clone(),
                        name: token.name.as_str().into(),
                        key: PrincipalKey::new(token.id.as_str()),
                    }),
                    expires_at: token.expires_at,
                })
        })
        .await
    }

    /// Records that a process is an agent: it and whatever descends from it.
    pub async fn mark_process(&self, agent: AgentId, process: ProcessKey) -> Result<()> {
        self.submit(Input::MarkProcess { agent, process }).await?;
        self.shared.trust.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Drops marks of processes that are gone.
    pub async fn forget_processes(&self, processes: Vec<ProcessKey>) -> Result<()> {
        self.submit(Input::ForgetProcesses(processes))
            .await
            .map(drop)
    }

    /// Processes that are agents.
    pub async fn marked_processes(&self) -> Result<Vec<ProcessKey>> {
        self.read(|view| view.state.marks().map(|(process, _)| *process).collect())
            .await
    }

    /// The agent that one of these processes is, nearest first.
    pub async fn agent_among(&self, processes: Vec<ProcessKey>) -> Result<Option<AgentId>> {
        self.read(move |view| {
            processes
                .iter()
                .find_map(|process| view.state.find_mark(process).cloned())
        })
        .await
    }

    /// Rises whenever a process is marked or a token withdrawn: who a caller was found to be
    /// before may no longer hold.
    pub fn trust_version(&self) -> u64 {
        self.shared.trust.load(Ordering::Acquire)
    }
}

fn hash_of(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

fn agent(reply: Reply) -> Result<(Agent, OpenCounts)> {
    if let Reply::Agent(agent, open) = reply {
        Ok((*agent, open))
    } else {
        Err(mismatch(&reply))
    }
}

fn approval(reply: Reply) -> Result<Approval> {
    if let Reply::Approval(approval) = reply {
        Ok(*approval)
    } else {
        Err(mismatch(&reply))
    }
}

fn question(reply: Reply) -> Result<Question> {
    if let Reply::Question(question) = reply {
        Ok(*question)
    } else {
        Err(mismatch(&reply))
    }
}

fn device(reply: Reply) -> Result<Arc<Device>> {
    if let Reply::Device(device) = reply {
        Ok(device)
    } else {
        Err(mismatch(&reply))
    }
}

fn event(reply: Reply) -> Result<Arc<Entry>> {
    if let Reply::Event(entry) = reply {
        Ok(entry)
    } else {
        Err(mismatch(&reply))
    }
}

fn mismatch(reply: &Reply) -> ServiceError {
    debug_assert!(false, "the loop answered with {reply:?}");
    ServiceError::Store("the host answered itself with something it did not ask for".into())
}
