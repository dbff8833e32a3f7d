//! Managed agents: processes the host starts, as the state has them.
//!
//! Invariants: at most one turn runs; a message waits in the queue until the turn before it is
//! over; what the world is owed for an agent follows from here alone ([`Duty`]), so that whoever
//! performs it can be killed at any instant.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::approval::Approval;
use crate::event::{
    AgentOffers, AgentPlan, AgentProfile, AgentRole, AgentSandbox, Ceiling, ProcessKey,
    PromptAttachment, PromptMessage, SpawnOptions, TokenUsage, TranscriptEntry, Worktree,
};
use crate::ids::{ApprovalId, Timestamp};
use crate::json::Json;
use crate::limits::{
    ALLOWED_ACTIONS_SHOWN, ALLOWED_CHARS_SHOWN, CLIENT_REQUESTS_MAX, TOOL_CALLS_KNOWN_MAX,
};

/// What the host knows of an agent that it runs. The store keeps it as one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManagedAgent {
    /// What it is started with.
    pub options: Arc<SpawnOptions>,
    /// Whether an operator gave it its name. The name of a child is its orchestrator's choice until an
    /// operator renames the child.
    pub has_operator_name: bool,
    /// Which of its runs, counted from 1.
    pub run: u32,
    /// How far that run is.
    pub run_state: RunState,
    pub process: Option<ProcessKey>,
    /// What holds its processes together.
    pub runner: Json,
    /// The agent's own id of its session.
    pub session: Option<String>,
    /// Whether that session can be gone on with.
    pub resumable: bool,
    /// Its turns so far, over all runs.
    pub turns: u32,
    /// The turn that runs.
    pub turn: Option<Turn>,
    /// Messages for the turns to come.
    pub queue: VecDeque<PromptMessage>,
    /// How many messages were ever queued for it.
    #[serde(default)]
    pub messages: u64,
    /// What earlier runs and turns used.
    pub used: TokenUsage,
    /// What its session used so far, by its own word.
    pub session_usage: TokenUsage,
    /// The mode it is in.
    pub mode: Option<String>,
    /// The model it uses.
    pub model: Option<String>,
    /// What it plans.
    pub plan: AgentPlan,
    /// A title of its session.
    pub title: Option<String>,
    /// What can be chosen or typed in its session.
    #[serde(default, skip_serializing_if = "AgentOffers::is_empty")]
    pub offers: AgentOffers,
    /// Its worktree.
    pub worktree: Option<Worktree>,
    /// The sandbox that its last run was started in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<AgentSandbox>,
    /// Whether it was put away.
    pub archived: bool,
    /// When its last run ended.
    pub ended_at: Option<Timestamp>,
    /// How its last run ended, in words.
    pub message: Option<String>,
    /// When it was last heard of.
    pub last_activity: Timestamp,
    /// What may run or be written without another ask, each once.
    pub passes: Vec<Pass>,
    /// Requests of the turn that runs which an earlier ask covers, so that they may go ahead; the
    /// newest last. A host that comes after finds here what was already said yes to.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub covered: VecDeque<ApprovalId>,
    /// How often its mode or model was changed by a person.
    pub configured: u32,
    /// What it was allowed in the turn that runs.
    pub allowed: AllowedActions,
    /// What it may settle for those below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// The newest keys under which it sent notes to its parent.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub note_keys: VecDeque<String>,
}

/// Actions that were allowed in one turn: all of them counted, the newest in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedActions {
    /// How many.
    pub count: u32,
    /// The newest, the very newest first.
    pub newest: VecDeque<String>,
}

impl AllowedActions {
    pub(crate) fn add(&mut self, action: &str) {
        self.count = self.count.saturating_add(1);
        let shown = action.chars().take(ALLOWED_CHARS_SHOWN).collect();
        self.newest.push_front(shown);
        self.newest.truncate(ALLOWED_ACTIONS_SHOWN);
    }

    /// In words, if there is any.
    pub(crate) fn describe(&self) -> Option<String> {
        let shown: Vec<&str> = self.newest.iter().map(String::as_str).collect();
        let more = (self.count as usize).saturating_sub(shown.len());
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
    }
}

/// One request that an allowed ask stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    pub approval: ApprovalId,
    /// The digest of the request.
    pub digest: String,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is to be started.
    Requested,
    /// Its process is there, its session is not.
    Launched,
    /// Its session is open.
    Ready,
    /// It is to be ended.
    Stopping,
    /// It is over.
    Gone,
}

/// A turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub number: u32,
    /// What it was started with.
    pub messages: Vec<PromptMessage>,
    /// When it started.
    pub started_at: Timestamp,
    /// When the host ends it.
    pub deadline: Option<Timestamp>,
    /// Whether it is to be ended.
    pub interrupted: bool,
    /// Tool calls whose end was not told yet, as far as they are kept.
    pub calls: Vec<String>,
}

impl Turn {
    /// Takes in what was said: a call is open from its first mention to its result.
    pub(crate) fn record_entry(&mut self, entry: &TranscriptEntry) {
        match entry {
            TranscriptEntry::ToolUse { id, .. } => {
                // Agents speak of one call several times. Beyond the bound a call is only not
                // closed at the end.
                if self.calls.len() < TOOL_CALLS_KNOWN_MAX && !self.calls.contains(id) {
                    self.calls.push(id.clone());
                }
            }
            TranscriptEntry::ToolResult { id, .. } => self.calls.retain(|call| call != id),
            TranscriptEntry::User { .. }
            | TranscriptEntry::Assistant { .. }
            | TranscriptEntry::Thinking { .. }
            | TranscriptEntry::Plan { .. }
            | TranscriptEntry::Notice { .. }
            | TranscriptEntry::Other { .. } => {}
        }
    }
}

/// What the world is owed for an agent. Performing one twice is the performer's to avoid; what was
/// performed shows as an input, after which it is no longer owed.
#[derive(Clone, Debug, PartialEq)]
pub enum Duty {
    /// Start its process and open its session.
    Launch {
        run: u32,
        /// Who it is.
        profile: Arc<AgentProfile>,
        /// What it is started with, and which session it goes on with.
        managed: Arc<ManagedAgent>,
    },
    /// Tell it what to do.
    Prompt {
        turn: u32,
        messages: Vec<String>,
        attachments: Vec<PromptAttachment>,
    },
    /// End its turn.
    Interrupt { turn: u32 },
    /// Have it use the mode and the model that it is to use.
    Configure {
        /// How often they were changed; what it was started with need not be said again.
        revision: u32,
        mode: Option<String>,
        model: Option<String>,
    },
    /// Tell it how an ask of its ended. The attempt is committed.
    Answer(Box<Approval>),
    /// End its process, and everything that came of it.
    Stop { run: u32 },
}

impl ManagedAgent {
    /// One that is to be started for the first time.
    pub(crate) fn new(options: Arc<SpawnOptions>, now: Timestamp) -> Self {
        Self {
            has_operator_name: options.parent.is_none(),
            options,
            run: 0,
            // Until its first run is requested, in the same commit.
            run_state: RunState::Gone,
            process: None,
            runner: Json::null(),
            session: None,
            resumable: false,
            turns: 0,
            turn: None,
            queue: VecDeque::new(),
            messages: 0,
            used: TokenUsage::default(),
            session_usage: TokenUsage::default(),
            mode: None,
            model: None,
            plan: AgentPlan::default(),
            title: None,
            offers: AgentOffers::default(),
            worktree: None,
            sandbox: None,
            archived: false,
            ended_at: None,
            message: None,
            last_activity: now,
            passes: Vec::new(),
            covered: VecDeque::new(),
            configured: 0,
            allowed: AllowedActions::default(),
            ceiling: None,
            note_keys: VecDeque::new(),
        }
    }

    /// What was allowed is no longer.
    pub(crate) fn forget_allowed(&mut self) {
        self.passes.clear();
        self.covered.clear();
    }

    /// A request may go ahead, as far as that is kept.
    pub(crate) fn cover(&mut self, request: ApprovalId) {
        self.covered.push_back(request);
        let surplus = self.covered.len().saturating_sub(CLIENT_REQUESTS_MAX);
        self.covered.drain(..surplus);
    }

    /// Whether it starts agents of its own.
    pub fn is_orchestrator(&self) -> bool {
        self.options.role == Some(AgentRole::Orchestrator)
    }

    /// What it may settle at this instant.
    pub fn ceiling_at(&self, now: Timestamp) -> Option<&Ceiling> {
        let ceiling = self.ceiling.as_ref();
        ceiling.filter(|ceiling| ceiling.until.is_none_or(|end| now < end))
    }

    /// Whether it has, or is about to have, a process.
    pub fn is_live(&self) -> bool {
        self.run_state != RunState::Gone
    }

    /// The folder it works in.
    pub fn folder(&self) -> &str {
        let worktree = self.worktree.as_ref().map(|worktree| &worktree.path);
        worktree.unwrap_or(&self.options.cwd)
    }

    /// What it used, over all runs.
    pub fn usage(&self) -> TokenUsage {
        self.used.plus(self.session_usage)
    }

    /// Whether nothing runs and nothing waits to be run.
    pub fn is_at_rest(&self) -> bool {
        !self.is_live()
            || (self.run_state == RunState::Ready && self.turn.is_none() && self.queue.is_empty())
    }
}

/// What is owed for one agent, given the answers it has not been told yet.
pub(crate) fn duties(agent: &Agent, owed: impl Iterator<Item = Approval>) -> Vec<Duty> {
    let Some(managed) = &agent.managed else {
        return Vec::new();
    };
    let run = managed.run;
    match managed.run_state {
        RunState::Gone => Vec::new(),
        // An agent that is to end is told nothing any more.
        RunState::Stopping => vec![Duty::Stop { run }],
        // A process without a session is not enough: until that is open, the launch is still owed.
        RunState::Requested | RunState::Launched => vec![Duty::Launch {
            run,
            profile: agent.profile.clone(),
            managed: managed.clone(),
        }],
        RunState::Ready => {
            // First, because the turn that runs may be waiting for them.
            let mut duties: Vec<Duty> = owed
                .map(|approval| Duty::Answer(Box::new(approval)))
                .collect();
            // Before the prompt, so that the turn runs in the mode and with the model that were chosen.
            duties.extend(configure_duty(managed));
            // Owed while the turn runs; whoever performs it knows which turns were prompted.
            duties.extend(managed.turn.as_ref().map(prompt_duty));
            let interrupted = managed.turn.as_ref().filter(|turn| turn.interrupted);
            duties.extend(interrupted.map(|turn| Duty::Interrupt { turn: turn.number }));
            duties
        }
    }
}

fn configure_duty(managed: &ManagedAgent) -> Option<Duty> {
    let duty = Duty::Configure {
        revision: managed.configured,
        mode: managed.options.mode.clone(),
        model: managed.options.model.clone(),
    };
    (managed.configured > 0).then_some(duty)
}

fn prompt_duty(turn: &Turn) -> Duty {
    let messages = turn.messages.iter().map(PromptMessage::full_text);
    let attachments = turn
        .messages
        .iter()
        .flat_map(|message| &message.attachments);
    Duty::Prompt {
        turn: turn.number,
        messages: messages.collect(),
        attachments: attachments.cloned().collect(),
    }
}
