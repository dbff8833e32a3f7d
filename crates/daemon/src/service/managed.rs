//! Managed agents: wanted, told, ended, gone on with, read.

use std::time::Duration;

use countersign_agents::{catalog, protocols};
use countersign_core::event::{SpawnOptions, TranscriptAdded};
use countersign_core::limits::AGENTS_END_MS;
use countersign_core::{
    Agent, AgentId, Caller, Checkpoint, ChildrenPolicy, CommittedEvent, Event, Input, ManagedInput,
    OpenCounts, Rejection, Seq, SpawnAgent, State, Timestamp,
};
use countersign_store::{EventHistory, EventQuery, StoreError};
use tokio::sync::oneshot;

use crate::ids::new_agent_id;
use crate::reply::ServiceError;
use crate::subscription::EventFilter;
use crate::supervisor::{StateView, SupervisorCommand};

use super::{RunnerSettings, Service, ServiceResult, agent, with_limit};

/// Facts after which an agent may have come to rest.
const IDLE_EVENTS: [&str; 4] = [
    "turn.ended",
    "agent.exited",
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
}

/// A part of an agent's story.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptPage {
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
        self.shared.secrets.insert(&id, request.secrets);
        let input = SpawnAgent {
            caller: caller.clone(),
            id: id.clone(),
            name: request.name,
            kind,
            options: request.options,
            prompt: request.prompt,
        };
        let spawned = self
            .submit_managed(ManagedInput::Spawn(Box::new(input)))
            .await;
        if spawned.is_err() {
            self.shared.secrets.remove(&id);
        }
        spawned
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
        if let Some(wish) = &mut options.worktree {
            wish.branch = None;
        }
        let secrets = self.secrets_of(&agent);
        let request = SpawnRequest {
            name,
            options,
            secrets,
            prompt,
        };
        self.spawn_agent(caller, request).await
    }

    /// Tells an agent something. It waits while a turn runs, and revives an agent that ended.
    pub async fn prompt_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
        text: String,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let caller = caller.clone();
        self.submit_managed(ManagedInput::Prompt {
            caller,
            agent,
            text,
        })
        .await
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
            agent: None,
        };
        let mut events = self.read_events_after(self.head(), filter);
        loop {
            // Looked at anew each time: somebody may start another meanwhile.
            let live = self.live_agents(caller).await?;
            if live.is_empty() {
                return Ok(());
            }
            for agent in live {
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

    /// Starts an agent again on its session; one that runs is given as it is.
    pub async fn resume_agent(
        &self,
        caller: &Caller,
        agent: AgentId,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        let caller = caller.clone();
        self.submit_managed(ManagedInput::Resume { caller, agent })
            .await
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

    /// Sends an input whose result nobody waits for.
    pub(crate) async fn send_input(&self, input: Input) -> ServiceResult<()> {
        self.send(SupervisorCommand::Input(input, None)).await
    }

    /// What an agent was heard to say, and how far it was heard with that: on the record when this
    /// returns. If any of it is refused, the rest is on the record and the checkpoint is not. One about
    /// a run that is over is dropped.
    pub(crate) async fn record_output(
        &self,
        inputs: Vec<Input>,
        checkpoint: Option<Checkpoint>,
    ) -> ServiceResult<()> {
        let (answer, wait) = oneshot::channel();
        self.send(SupervisorCommand::RecordOutput {
            inputs,
            checkpoint,
            answer,
        })
        .await?;
        wait.await.map_err(|_| self.unavailable())?.map(drop)
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
        look: impl FnOnce(StateView<'_>) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        self.read(look).await
    }

    pub(crate) async fn submit_managed(
        &self,
        input: ManagedInput,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        agent(self.submit(Input::Managed(input)).await?)
    }

    /// Waits until no turn of these agents runs and none is about to; `None` if that took too long.
    pub async fn wait_idle(
        &self,
        caller: &Caller,
        agents: Vec<AgentId>,
        limit: Option<Duration>,
    ) -> ServiceResult<Option<Vec<(Agent, OpenCounts)>>> {
        for agent in &agents {
            self.check_reach(caller, agent).await?;
        }
        match with_limit(limit, self.until_idle(agents)).await {
            None => Ok(None),
            Some(rested) => rested.map(Some),
        }
    }

    async fn until_idle(&self, agents: Vec<AgentId>) -> ServiceResult<Vec<(Agent, OpenCounts)>> {
        let filter = EventFilter {
            kinds: Some(IDLE_EVENTS.map(str::to_owned).to_vec()),
            agent: None,
        };
        let mut events = self.read_events_after(self.head(), filter);
        loop {
            let wanted = agents.clone();
            let found = self.read(move |view| look_at(view.state, &wanted));
            if let Some(rested) = found.await?? {
                return Ok(rested);
            }
            events.next().await?;
        }
    }

    /// What an agent said and did after a cursor, oldest first.
    pub async fn transcript(
        &self,
        caller: &Caller,
        agent: AgentId,
        after: Option<Seq>,
        limit: usize,
    ) -> ServiceResult<TranscriptPage> {
        self.load_agent(caller, agent.clone()).await?;
        let query = EventQuery {
            after,
            kinds: Some(vec!["transcript.added".to_owned()]),
            agent: Some(agent),
            limit: limit.saturating_add(1),
            ..EventQuery::default()
        };
        let (mut found, more) = self
            .history(move |history| {
                let found = history.events(&query)?;
                let more = found.len() > limit || is_followed(history, &query, &found)?;
                Ok((found, more))
            })
            .await?;
        found.truncate(limit);
        let next = found
            .last()
            .map_or(after.unwrap_or_default(), |last| last.seq);
        let parts = found.into_iter().filter_map(|committed| {
            let Event::TranscriptAdded(added) = committed.event else {
                return None;
            };
            Some((committed.seq, committed.at, added))
        });
        Ok(TranscriptPage {
            parts: parts.collect(),
            next,
            more,
        })
    }
}

/// Whether there is more after a page, which may end by its size before it ends by its rows.
fn is_followed(
    history: &dyn EventHistory,
    query: &EventQuery,
    page: &[CommittedEvent],
) -> Result<bool, StoreError> {
    let Some(last) = page.last() else {
        return Ok(false);
    };
    let after = EventQuery {
        after: Some(last.seq),
        limit: 1,
        ..query.clone()
    };
    Ok(!history.events(&after)?.is_empty())
}

type Agents = Vec<(Agent, OpenCounts)>;

/// The agents, if all of them are at rest.
fn look_at(state: &State, wanted: &[AgentId]) -> Result<Option<Agents>, Rejection> {
    let mut found = Vec::with_capacity(wanted.len());
    let mut rest = true;
    for id in wanted {
        let agent = state.find_agent(id).cloned();
        let agent = agent.ok_or_else(|| Rejection::UnknownAgent(id.clone()))?;
        let Some(managed) = &agent.managed else {
            return Err(Rejection::NotManaged(id.clone()));
        };
        rest &= managed.is_at_rest();
        found.push((agent, state.open_of(id)));
    }
    Ok(rest.then_some(found))
}

/// What kind of agent it is: the catalog's name, or the program's.
fn kind_of(options: &SpawnOptions) -> String {
    options.agent.clone().unwrap_or_else(|| {
        let program = options.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program).to_owned()
    })
}
