//! Managed agents: wanted, told, ended, gone on with, read.

use std::time::Duration;

use countersign_agents::{catalog, protocols};
use countersign_core::event::{PromptMessage, SpawnOptions, TerminalBackend, TranscriptAdded};
use countersign_core::limits::AGENTS_END_MS;
use countersign_core::{
    Agent, AgentId, Caller, Checkpoint, ChildrenPolicy, Event, Input, ManagedAgent, ManagedInput,
    OpenCounts, Rejection, RunState, Seq, SpawnAgent, State, Timestamp,
};
use countersign_store::{EventHistory, EventQuery, StoreError};

use crate::attachments;
use crate::driver::check_launch;
use crate::ids::new_agent_id;
use crate::reply::ServiceError;
use crate::subscription::EventFilter;
use crate::supervisor::StateView;

use super::{AgentOutput, RunnerSettings, Service, ServiceResult, agent, with_limit};

/// What a wait for agents is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentGoal {
    /// No turn runs and none is about to, or it has ended.
    Idle,
    /// It can be prompted, or it could not be started.
    Started,
    /// The turn of this number is over.
    TurnEnded(u32),
    /// It has no process, or the run of this number is over: a message that waited may have started
    /// the next run in the commit that ended this one.
    Ended { run: Option<u32> },
    /// It is not ending.
    NotEnding,
}

impl AgentGoal {
    fn is_reached(self, managed: &ManagedAgent) -> bool {
        match self {
            Self::Idle => managed.is_at_rest(),
            Self::Started => matches!(managed.run_state, RunState::Ready | RunState::Gone),
            Self::TurnEnded(number) => {
                let running = managed.turn.as_ref();
                running.is_none_or(|turn| turn.number > number)
            }
            Self::Ended { run } => !managed.is_live() || run.is_some_and(|run| managed.run > run),
            Self::NotEnding => managed.run_state != RunState::Stopping,
        }
    }
}

/// Facts after which an agent may have reached a goal.
const PROGRESS_EVENTS: [&str; 5] = [
    "turn.ended",
    "agent.exited",
    "agent.message_withdrawn",
    "agent.messages_dropped",
    "agent.status_changed",
];

/// An agent that is wanted.
#[derive(Clone, Debug, Default)]
pub struct SpawnRequest {
    /// Its name; one is made of its kind if absent.
    pub name: Option<String>,
    /// What it is started with. Secret variables are named here without their values.
    pub options: SpawnOptions,
    /// Values of variables that are never recorded. They are kept in memory as long as the host runs.
    pub secrets: Vec<(String, String)>,
    /// What it is to do first.
    pub prompt: Option<String>,
    /// Files that go with the prompt, by absolute path.
    pub attachments: Vec<String>,
}

/// A part of an agent's story.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptPage {
    /// The first part, if there are earlier ones and it was read backward.
    pub first: Option<Seq>,
    /// What was said, in order, each with its place in the log.
    pub parts: Vec<(Seq, Timestamp, TranscriptAdded)>,
    /// The cursor for what comes after.
    pub next: Seq,
    /// Whether there is more already.
    pub more: bool,
}

/// Managed agents.
impl Service {
    /// Starts an agent. It is on the record when this returns, and ready some time later.
    pub async fn spawn_agent(
        &self,
        caller: &Caller,
        mut request: SpawnRequest,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        self.confine_child(caller, &mut request.options).await?;
        let id = new_agent_id();
        let kind = kind_of(&request.options);
        if request.options.command.is_empty()
            && let Some(name) = &request.options.agent
            && catalog::find(name).is_none()
        {
            return Err(Rejection::UnknownKind(name.clone()).into());
        }
        if !self.was_started_before(&request.options).await? {
            let sandbox = self.runners().sandbox.clone();
            check_launch(&request.options, request.secrets.clone(), sandbox)
                .await
                .map_err(Rejection::CannotStart)?;
        }
        let attachments = attachments::inspect(caller, request.attachments).await?;
        // Before the input: the duty to launch follows from its commit, and the driver reads them
        // then.
        self.shared.secrets.insert(&id, request.secrets);
        let input = SpawnAgent {
            caller: caller.clone(),
            id: id.clone(),
            name: request.name,
            kind,
            options: request.options,
            prompt: request.prompt,
            attachments,
        };
        let spawned = self
            .submit_managed(ManagedInput::Spawn(Box::new(input)))
            .await;
        if spawned.is_err() {
            self.shared.secrets.remove(&id);
        }
        spawned
    }

    /// Whether this is a repetition: the ask that allowed it has started its agent already.
    async fn was_started_before(&self, options: &SpawnOptions) -> ServiceResult<bool> {
        let Some(ask) = options.allowed_by.clone() else {
            return Ok(false);
        };
        self.read(move |view| view.state.find_started_by(&ask).is_some())
            .await
    }

    /// Starts a second agent with the options of another, which goes on from where that one stands and
    /// leaves it as it is. It has a worktree of its own where the other has one.
    pub async fn fork_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
        name: Option<String>,
        prompt: Option<String>,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let (found, _) = self.read_agent(agent.clone()).await?;
        let Some(managed) = &found.managed else {
            return Err(Rejection::NotManaged(agent).into());
        };
        let session = protocols::session_to_fork(managed);
        let session = session.map_err(|why| Rejection::CannotFork {
            agent: agent.clone(),
            why,
        })?;
        let mut options = SpawnOptions::clone(&managed.options);
        options.fork = Some(session);
        if options.terminals == TerminalBackend::Editor {
            // What a person agreed to was one agent, which an editor has open.
            options.terminals = TerminalBackend::Host;
        }
        if let Some(wish) = &mut options.worktree {
            // Git checks a branch out in one worktree only, and the other agent has it.
            wish.branch = None;
        }
        let secrets = self.secrets_of(&agent);
        let request = SpawnRequest {
            name,
            options,
            secrets,
            prompt,
            attachments: Vec::new(),
        };
        self.spawn_agent(caller, request).await
    }

    /// Tells an agent something. It waits while a turn runs, and revives an agent that ended.
    pub async fn prompt_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
        text: String,
        attachments: Vec<String>,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let attachments = attachments::inspect(caller, attachments).await?;
        let caller = caller.clone();
        self.submit_managed(ManagedInput::Prompt {
            caller,
            agent,
            text,
            attachments,
        })
        .await
    }

    /// Messages that wait for an agent, oldest first. An orchestrator sees those it sent itself.
    pub async fn queued_messages(
        &self,
        caller: &Caller,
        agent: AgentId,
    ) -> ServiceResult<Vec<PromptMessage>> {
        self.check_reach(caller, &agent).await?;
        let (found, _) = self.read_agent(agent.clone()).await?;
        let managed = found.managed.ok_or(Rejection::NotManaged(agent))?;
        let own = caller.principal.agent().map(|_| &caller.principal.key);
        let mut queue = managed.queue.clone();
        queue.retain(|message| own.is_none_or(|key| message.by.key == *key));
        Ok(queue.into())
    }

    /// Takes a message back that waits for an agent, and gives its text. Refused once a turn has it.
    pub async fn withdraw_message(
        &self,
        caller: &Caller,
        agent: AgentId,
        number: u64,
    ) -> ServiceResult<String> {
        // Read before it is gone: what a number stands for never changes.
        let waiting = self.queued_messages(caller, agent.clone()).await?;
        let caller = caller.clone();
        self.submit_managed(ManagedInput::WithdrawMessage {
            caller,
            agent,
            number,
        })
        .await?;
        let message = waiting.into_iter().find(|one| one.number == number);
        Ok(message.map(|message| message.text).unwrap_or_default())
    }

    /// Ends an agent's turn; what it asked is cancelled.
    pub async fn interrupt_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
        reason: Option<String>,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let caller = caller.clone();
        self.submit_managed(ManagedInput::Interrupt {
            caller,
            agent,
            reason,
        })
        .await
    }

    /// Ends an agent and everything that came of it. What becomes of agents below it has to be said
    /// if there are any.
    pub async fn kill_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
        children: Option<ChildrenPolicy>,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let caller = caller.clone();
        self.submit_managed(ManagedInput::Kill {
            caller,
            agent,
            children,
        })
        .await
    }

    /// Ends every managed agent and waits until none is left; gives back those that still run when
    /// too much time has passed.
    pub async fn end_agents(&self, caller: &Caller) -> ServiceResult<Vec<Agent>> {
        let limit = Duration::from_millis(AGENTS_END_MS);
        match with_limit(Some(limit), self.until_ended(caller)).await {
            Some(ended) => ended.map(|()| Vec::new()),
            None => self.live_agents(caller).await,
        }
    }

    async fn until_ended(&self, caller: &Caller) -> ServiceResult<()> {
        let filter = EventFilter {
            kinds: Some(vec!["agent.exited".to_owned()]),
            ..EventFilter::default()
        };
        // Subscribed before the first look: an exit between the two is still read.
        let mut events = self.read_events_after(self.head(), filter);
        loop {
            // Looked at anew each time: somebody may start another meanwhile.
            let live = self.live_agents(caller).await?;
            if live.is_empty() {
                return Ok(());
            }
            for agent in live {
                // All are ended here, one after the other, so none has to be ended along with its
                // parent.
                let children = Some(ChildrenPolicy::Keep);
                match self.kill_agent(caller, agent.id().clone(), children).await {
                    Ok(_) | Err(ServiceError::Rejected(Rejection::AgentEnded(_))) => {}
                    Err(error) => return Err(error),
                }
            }
            events.next().await?;
        }
    }

    /// Managed agents that run, or are about to.
    pub async fn live_agents(&self, caller: &Caller) -> ServiceResult<Vec<Agent>> {
        caller.refuse_agents()?;
        self.read(|view| view.state.live_agents().cloned().collect())
            .await
    }

    /// Restarts an agent on its session; one that is ending is restarted when it has ended, and one
    /// that runs is given as it is.
    pub async fn resume_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        loop {
            let input = ManagedInput::Resume {
                caller: caller.clone(),
                agent: agent.clone(),
            };
            match self.submit_managed(input).await {
                Err(ServiceError::Rejected(Rejection::AgentEnding(id))) => {
                    let limit = Duration::from_millis(AGENTS_END_MS);
                    let ended = self.until_reached(vec![agent.clone()], AgentGoal::NotEnding);
                    // Bounded: whoever wanted it may have changed their mind by then.
                    let Some(ended) = with_limit(Some(limit), ended).await else {
                        return Err(Rejection::AgentEnding(id).into());
                    };
                    ended?;
                }
                resumed => return resumed,
            }
        }
    }

    /// Puts an agent away, or takes it out again.
    pub async fn archive_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
        archived: bool,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let caller = caller.clone();
        self.submit_managed(ManagedInput::Archive {
            caller,
            agent,
            archived,
        })
        .await
    }

    /// Gives an agent another name.
    pub async fn rename_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
        name: String,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let caller = caller.clone();
        self.submit_managed(ManagedInput::Rename {
            caller,
            agent,
            name,
        })
        .await
    }

    /// Gives an agent another mode or model, now and whenever it is started again.
    pub async fn configure_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
        mode: Option<String>,
        model: Option<String>,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let caller = caller.clone();
        self.submit_managed(ManagedInput::Configure {
            caller,
            agent,
            mode,
            model,
        })
        .await
    }

    /// Values of an agent's variables that are not on the record.
    pub(crate) fn secrets_of(&self, agent: &AgentId) -> Vec<(String, String)> {
        self.shared.secrets.variables_of(agent)
    }

    /// Records what was found out about an agent, in one commit.
    pub(crate) async fn record_inputs(&self, inputs: Vec<Input>) -> ServiceResult<()> {
        let output = inputs.into_iter().map(AgentOutput::from).collect();
        self.record_output(output, None).await.map(drop)
    }

    /// How far an agent was heard, as it is on the record.
    pub(crate) async fn find_checkpoint(
        &self,
        agent: AgentId,
    ) -> ServiceResult<Option<Checkpoint>> {
        self.history(move |history| history.find_checkpoint(&agent))
            .await
    }

    /// How the runners of agents are started and found.
    pub(crate) fn runners(&self) -> &RunnerSettings {
        &self.shared.runners
    }

    /// Looks at the state inside the loop.
    pub(crate) async fn read_state<T: Send + 'static>(
        &self,
        look: impl Fn(StateView<'_>) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        self.read(look).await
    }

    pub(crate) async fn submit_managed(
        &self,
        input: ManagedInput,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        agent(self.submit(Input::Managed(input)).await?)
    }

    /// Waits until all of these agents have reached the goal; `None` if that took too long.
    pub async fn wait_agents(
        &self,
        caller: &Caller,
        agents: Vec<AgentId>,
        goal: AgentGoal,
        limit: Option<Duration>,
    ) -> ServiceResult<Option<Vec<(Agent, OpenCounts)>>> {
        for agent in &agents {
            self.check_reach(caller, agent).await?;
        }
        match with_limit(limit, self.until_reached(agents, goal)).await {
            None => Ok(None),
            Some(reached) => reached.map(Some),
        }
    }

    async fn until_reached(
        &self,
        agents: Vec<AgentId>,
        goal: AgentGoal,
    ) -> ServiceResult<Vec<(Agent, OpenCounts)>> {
        let filter = EventFilter {
            kinds: Some(PROGRESS_EVENTS.map(str::to_owned).to_vec()),
            ..EventFilter::default()
        };
        let mut events = self.read_events_after(self.head(), filter);
        loop {
            let wanted = agents.clone();
            // After the subscription, as above: what happens between the two is read as an event.
            let found = self.read(move |view| find_if_reached(view.state, &wanted, goal));
            if let Some(reached) = found.await?? {
                return Ok(reached);
            }
            events.next().await?;
        }
    }

    /// What an agent said and did after a cursor, oldest first.
    pub async fn transcript(
        &self,
        caller: &Caller,
        agent: AgentId,
        range: TranscriptRange,
        limit: usize,
    ) -> ServiceResult<TranscriptPage> {
        self.load_agent(caller, agent.clone()).await?;
        let query = EventQuery {
            kinds: Some(vec!["transcript.added".to_owned()]),
            agent: Some(agent),
            limit,
            ..range.query()
        };
        let (found, more, has_earlier) = self
            .history(move |history| {
                let found = history.events(&query)?;
                let first = found.first().map(|first| first.seq);
                let last = found.last().map(|last| last.seq);
                let more = is_followed(history, &query, last)?;
                let is_backward = matches!(range, TranscriptRange::Before(_));
                let has_earlier = is_backward && is_preceded(history, &query, first)?;
                Ok((found, more, has_earlier))
            })
            .await?;
        let first = found.first().map(|first| first.seq);
        let next = found.last().map(|last| last.seq);
        let parts = found.into_iter().filter_map(|committed| {
            let Event::TranscriptAdded(added) = committed.event else {
                return None;
            };
            Some((committed.seq, committed.at, added))
        });
        Ok(TranscriptPage {
            parts: parts.collect(),
            first: first.filter(|_| has_earlier),
            next: next.unwrap_or_else(|| range.start()),
            more,
        })
    }
}

/// Which way a transcript is read, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptRange {
    /// Forward; from the beginning if there is no cursor.
    After(Option<Seq>),
    /// Backward; from the end if there is no cursor.
    Before(Option<Seq>),
}

impl TranscriptRange {
    fn query(self) -> EventQuery {
        match self {
            Self::After(after) => EventQuery {
                after,
                ..EventQuery::default()
            },
            Self::Before(before) => EventQuery {
                before,
                newest: true,
                ..EventQuery::default()
            },
        }
    }

    /// Where a reader continues that found nothing.
    fn start(self) -> Seq {
        match self {
            Self::After(after) => after.unwrap_or_default(),
            Self::Before(_) => Seq::default(),
        }
    }
}

/// Whether there is more after a page, which may end by its size before it ends by its rows.
fn is_followed(
    history: &dyn EventHistory,
    query: &EventQuery,
    last: Option<Seq>,
) -> Result<bool, StoreError> {
    let Some(last) = last else {
        return Ok(false);
    };
    let after = EventQuery {
        after: Some(last),
        before: None,
        newest: false,
        limit: 1,
        ..query.clone()
    };
    Ok(!history.events(&after)?.is_empty())
}

/// The same for what is before a page.
fn is_preceded(
    history: &dyn EventHistory,
    query: &EventQuery,
    first: Option<Seq>,
) -> Result<bool, StoreError> {
    let Some(first) = first else {
        return Ok(false);
    };
    let before = EventQuery {
        before: Some(first),
        limit: 1,
        ..query.clone()
    };
    Ok(!history.events(&before)?.is_empty())
}

type Agents = Vec<(Agent, OpenCounts)>;

/// The agents, if all of them have reached the goal.
fn find_if_reached(
    state: &State,
    wanted: &[AgentId],
    goal: AgentGoal,
) -> Result<Option<Agents>, Rejection> {
    let mut found = Vec::with_capacity(wanted.len());
    let mut all_reached = true;
    for id in wanted {
        let agent = state.find_agent(id).cloned();
        let agent = agent.ok_or_else(|| Rejection::UnknownAgent(id.clone()))?;
        let Some(managed) = &agent.managed else {
            return Err(Rejection::NotManaged(id.clone()));
        };
        all_reached &= goal.is_reached(managed);
        found.push((agent, state.open_of(id)));
    }
    Ok(all_reached.then_some(found))
}

/// What kind of agent it is: the catalog's name, or the program's.
fn kind_of(options: &SpawnOptions) -> String {
    options.agent.clone().unwrap_or_else(|| {
        let program = options.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program).to_owned()
    })
}
