//! Calls to the host, one after the other, across as many hosts as it takes.
//!
//! Invariant: what may have been done is done again only where twice is the same as once. A message is
//! looked for in the record first; an agent is started under a name that is its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_agents::editor::{
    AskAnswer, CallId, EditorHostCall, EditorTerminals, HostCallError, HostReply, ListedSession,
};
use countersign_agents::{EditorCallError, EditorReply};
use countersign_core::event::MessageQueued;
use countersign_core::limits::{EDITOR_CALLS_QUEUED, EDITOR_LIST_PAGE};
use countersign_core::{EDITOR_TERMINALS_TOOL, Json};
use countersign_protocol::{
    AgentParams, AgentTarget, AnswerBody, AnswerEditorCallParams, ApprovalParams, ApprovalTarget,
    ArchiveBody, ChosenAnswer, ConfigureBody, EventsParams, HostAgent, HostApprovalState,
    InterruptBody, Kinds, NoParams, NotifyParams, PromptBody, QuestionTarget, Raw, Reason,
    Remember, RememberBody, RememberScope, RequestApprovalParams, ResolutionBody, SpawnAgentParams,
    WaitApprovalParams, method,
};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::arguments::NewSession;
use crate::client::{HostClient, HostEndpoint};
use crate::error::CliError;
use crate::random_id::random_id;
use crate::reconnect::{RetryLimit, is_lost, reconnect};
use crate::render::approvals::{APPROVE, DENY, approving_options};
use crate::render::escape;

/// The kind under which what an editor did is on the record.
const RECORD_KIND: &str = "editor.answer_refused";

/// Characters that tell the agents of one program apart.
const NAME_CHARS: usize = 8;

/// A call on its way.
pub(super) struct QueuedCall {
    pub(super) id: CallId,
    pub(super) call: EditorHostCall,
    /// The newest event of its agent that was seen when it was made.
    pub(super) after: u64,
}

pub(super) struct HostCallOutcome {
    pub(super) id: CallId,
    pub(super) reply: Result<HostReply, HostCallError>,
}

/// See the module.
pub(super) struct HostCalls {
    endpoint: HostEndpoint,
    new_session: NewSession,
    editor_id: String,
    client: Option<HostClient>,
    /// Whether there ever was a host. Without one, an editor is told so at once.
    has_met_host: Arc<AtomicBool>,
}

impl HostCalls {
    pub(super) fn start(
        tasks: &TaskTracker,
        endpoint: HostEndpoint,
        new_session: NewSession,
        editor_id: String,
        has_met_host: Arc<AtomicBool>,
        outcomes: mpsc::Sender<HostCallOutcome>,
    ) -> mpsc::Sender<QueuedCall> {
        let (sender, queue) = mpsc::channel(EDITOR_CALLS_QUEUED);
        let calls = Self {
            endpoint,
            new_session,
            editor_id,
            client: None,
            has_met_host,
        };
        tasks.spawn(calls.run(queue, outcomes));
        sender
    }

    async fn run(
        mut self,
        mut queue: mpsc::Receiver<QueuedCall>,
        outcomes: mpsc::Sender<HostCallOutcome>,
    ) {
        while let Some(queued) = queue.recv().await {
            let id = queued.id;
            let reply = self
                .perform(queued)
                .await
                .map_err(|error| call_error(&error));
            if outcomes.send(HostCallOutcome { id, reply }).await.is_err() {
                return;
            }
        }
    }

    async fn perform(&mut self, queued: QueuedCall) -> Result<HostReply, CliError> {
        // One name for all attempts: a second one then finds the agent of the first.
        let name: String = random_id()?.chars().take(NAME_CHARS).collect();
        let mut attempts = 0_u32;
        loop {
            // Taken out, and put back only if the call left the connection usable.
            let mut client = match self.client.take() {
                Some(client) => client,
                None => self.connect().await?,
            };
            let attempt = CallAttempt {
                new_session: &self.new_session,
                name: &name,
                editor_id: &self.editor_id,
                is_repeated: attempts > 0,
            };
            let done = attempt.make(&mut client, &queued).await;
            match done {
                Err(error) if is_lost(&error) => attempts += 1,
                done => {
                    self.client = Some(client);
                    return done;
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<HostClient, CliError> {
        let connected = HostClient::connect(&self.endpoint).await;
        let client = match connected {
            Err(error) if self.has_met_host.load(Ordering::Relaxed) && is_lost(&error) => {
                reconnect(&self.endpoint, RetryLimit::Unlimited).await?
            }
            connected => connected?,
        };
        self.has_met_host.store(true, Ordering::Relaxed);
        Ok(client)
    }
}

/// One attempt at a call.
struct CallAttempt<'a> {
    new_session: &'a NewSession,
    /// What an agent that it starts is known by.
    name: &'a str,
    /// What this process calls itself.
    editor_id: &'a str,
    /// Whether an earlier attempt may have done it.
    is_repeated: bool,
}

impl CallAttempt<'_> {
    async fn make(
        &self,
        client: &mut HostClient,
        queued: &QueuedCall,
    ) -> Result<HostReply, CliError> {
        match queued.call.clone() {
            EditorHostCall::StartAgent { cwd, mcp_servers } => {
                self.start_agent(client, cwd, mcp_servers).await
            }
            EditorHostCall::ListAgents { cwd, after } => list(client, cwd, after).await,
            EditorHostCall::SendMessage { session, text } => {
                self.send_message(client, session, text, queued.after).await
            }
            EditorHostCall::Interrupt { session } => interrupt(client, session).await,
            EditorHostCall::Configure {
                session,
                mode,
                model,
            } => configure(client, session, ConfigureBody { mode, model }).await,
            EditorHostCall::Archive { session } => archive(client, session).await,
            EditorHostCall::AnswerAsk {
                ask,
                answer,
                considered_ms,
            } => answer_ask(client, ask, answer, considered_ms).await,
            EditorHostCall::AnswerQuestion {
                question,
                text,
                considered_ms,
            } => answer_question(client, question, text, considered_ms).await,
            EditorHostCall::AnswerEditorCall {
                session,
                call,
                reply,
            } => self.answer_editor_call(client, session, call, &reply).await,
            EditorHostCall::Record { session, message } => record(client, session, message).await,
            // Made by the loop itself.
            EditorHostCall::Follow { .. } | EditorHostCall::Unfollow { .. } => Ok(HostReply::Done),
        }
    }

    /// Sends a message, unless an earlier attempt did.
    async fn send_message(
        &self,
        client: &mut HostClient,
        session: String,
        text: String,
        after: u64,
    ) -> Result<HostReply, CliError> {
        if self.is_repeated && was_queued(client, &session, &text, after).await? {
            return Ok(HostReply::Done);
        }
        let params = AgentTarget {
            agent_id: session,
            body: PromptBody {
                message: text,
                attachments: Vec::new(),
            },
        };
        done(client.call::<method::PromptAgent>(&params).await)
    }

    async fn answer_editor_call(
        &self,
        client: &mut HostClient,
        session: String,
        call: u64,
        reply: &Result<EditorReply, EditorCallError>,
    ) -> Result<HostReply, CliError> {
        let params = AnswerEditorCallParams {
            agent_id: session,
            editor_id: self.editor_id.to_owned(),
            call_id: call,
            reply: raw(&serde_json::to_string(reply).unwrap_or_default())?,
        };
        done(client.call::<method::AnswerEditorCall>(&params).await)
    }

    async fn start_agent(
        &self,
        client: &mut HostClient,
        cwd: String,
        mcp_servers: Option<Json>,
    ) -> Result<HostReply, CliError> {
        let mcp_servers = mcp_servers.map(|servers| raw(servers.text())).transpose()?;
        let (agent, command, worktree, terminals) = match self.new_session {
            NewSession::Attach(name) => {
                let agent_id = name.clone();
                let params = AgentParams { agent_id };
                let session = client.call::<method::Agent>(&params).await?.id;
                return Ok(HostReply::Started { session });
            }
            NewSession::Spawn {
                agent,
                command,
                worktree,
                terminals,
            } => (agent.clone(), command.clone(), worktree.clone(), *terminals),
        };
        let agent = match agent {
            None if command.is_empty() => Some(only_installed(client).await?),
            agent => agent,
        };
        let kind = agent.as_deref().unwrap_or("editor");
        let name = format!("{kind}-{}", self.name);
        let allowed_by = match terminals {
            EditorTerminals::Editor => Some(self.agree(client, &cwd).await?),
            EditorTerminals::Window | EditorTerminals::None => None,
        };
        let params = SpawnAgentParams {
            name: Some(name.clone()),
            agent,
            command,
            cwd,
            worktree,
            mcp_servers,
            terminals: match terminals {
                EditorTerminals::Window => None,
                EditorTerminals::Editor => Some("editor".to_owned()),
                EditorTerminals::None => Some("none".to_owned()),
            },
            allowed_by,
            ..SpawnAgentParams::default()
        };
        let session = match client.call::<method::SpawnAgent>(&params).await {
            Ok(agent) => agent.id,
            // An earlier attempt started it, and the connection was lost before the reply came.
            Err(error) if error.reason() == Some(Reason::NameTaken) => {
                let params = AgentParams { agent_id: name };
                client.call::<method::Agent>(&params).await?.id
            }
            Err(error) => return Err(error.into()),
        };
        Ok(HostReply::Started { session })
    }

    /// Asks people whether the editor may run the commands of a new agent, and waits for their answer.
    async fn agree(&self, client: &mut HostClient, cwd: &str) -> Result<String, CliError> {
        let params = RequestApprovalParams {
            action: format!("Run commands of a new agent in the editor, unconfined, in {cwd}"),
            tool: Some(EDITOR_TERMINALS_TOOL.to_owned()),
            input: Some(raw(&serde_json::json!({ "cwd": cwd }).to_string())?),
            cwd: Some(cwd.to_owned()),
            // The asking connection may be replaced while a person reads.
            system_level: true,
            // One ask for all attempts.
            idempotency_key: Some(format!("editor-terminals-{}", self.name)),
            ..RequestApprovalParams::default()
        };
        let mut row = client.call::<method::RequestApproval>(&params).await?;
        while row.state == HostApprovalState::Pending {
            let params = WaitApprovalParams {
                approval_id: row.id.clone(),
                timeout_ms: None,
            };
            row = client.call::<method::WaitApproval>(&params).await?;
        }
        Ok(row.id)
    }
}

fn done<T>(result: Result<T, crate::client::CallError>) -> Result<HostReply, CliError> {
    Ok(result.map(|_| HostReply::Done)?)
}

fn raw(text: &str) -> Result<Raw, CliError> {
    let value = RawValue::from_string(text.to_owned());
    let value = value.map_err(|error| CliError::failed(error.to_string()))?;
    Ok(Raw(value.into()))
}

/// The agent of a machine that has only one.
async fn only_installed(client: &mut HostClient) -> Result<String, CliError> {
    let rows = client.call::<method::Catalog>(&NoParams {}).await?;
    let mut installed: Vec<String> = rows
        .into_iter()
        .filter(|row| row.installed)
        .map(|row| row.name)
        .collect();
    if installed.len() == 1 {
        return Ok(installed.remove(0));
    }
    let known = installed.join(", ");
    Err(CliError::usage(format!(
        "which agent to start is not clear: give --agent NAME or set `[editor] agent` in config.toml \
         (installed: {known})"
    )))
}

/// Agents that the host runs, of one folder or of all, newest first.
async fn list(
    client: &mut HostClient,
    cwd: Option<String>,
    after: Option<String>,
) -> Result<HostReply, CliError> {
    let mut agents = client.call::<method::Agents>(&NoParams {}).await?;
    agents.retain(|agent| is_listed(agent, cwd.as_deref()));
    // The id decides between equal times, so that a page's last agent has one place in the list.
    agents.sort_by(|one, other| (other.updated_at, &other.id).cmp(&(one.updated_at, &one.id)));
    let begin = match after {
        None => 0,
        Some(after) => {
            let place = agents.iter().position(|agent| agent.id == after);
            // If it is no longer listed, the list ends here instead of beginning again.
            place.map_or(agents.len(), |place| place + 1)
        }
    };
    let page: Vec<&HostAgent> = agents.iter().skip(begin).take(EDITOR_LIST_PAGE).collect();
    let has_more = begin + page.len() < agents.len();
    let last = page.last().map(|agent| agent.id.clone());
    Ok(HostReply::Listed {
        sessions: page.into_iter().map(listed).collect(),
        next: last.filter(|_| has_more),
    })
}

/// Whether it works in the folder: directly, or in a worktree of the repository that it was asked from.
fn is_listed(agent: &HostAgent, cwd: Option<&str>) -> bool {
    agent.managed.as_ref().is_some_and(|managed| {
        let works_there = cwd.is_none_or(|cwd| {
            let worktree = managed.worktree.as_ref();
            managed.cwd == cwd || worktree.is_some_and(|worktree| worktree.path == cwd)
        });
        works_there && !managed.archived
    })
}

fn listed(agent: &HostAgent) -> ListedSession {
    let managed = agent.managed.as_ref();
    let title = managed.and_then(|managed| managed.title.as_deref());
    let title = match title {
        Some(title) => format!("{} ({}): {title}", agent.name, agent.state),
        None => format!("{} ({})", agent.name, agent.state),
    };
    ListedSession {
        id: agent.id.clone(),
        cwd: managed
            .map(|managed| managed.cwd.clone())
            .unwrap_or_default(),
        title: escape::line(&title).into_owned(),
        updated_at: agent.updated_at.to_string(),
    }
}

/// Whether a message came to the host although nobody saw its reply.
async fn was_queued(
    client: &mut HostClient,
    session: &str,
    text: &str,
    after: u64,
) -> Result<bool, CliError> {
    let params = EventsParams {
        after: Some(after),
        kinds: Some(Kinds(vec!["agent.message_queued".to_owned()])),
        agent_id: Some(session.to_owned()),
        limit: Some(1000),
        ..EventsParams::default()
    };
    let events = client.call::<method::Events>(&params).await?;
    Ok(events.iter().any(|event| {
        let queued: Result<MessageQueued, _> = serde_json::from_str(event.payload.text());
        queued.is_ok_and(|queued| queued.message.text == text)
    }))
}

async fn configure(
    client: &mut HostClient,
    session: String,
    body: ConfigureBody,
) -> Result<HostReply, CliError> {
    let agent_id = session;
    let params = AgentTarget { agent_id, body };
    done(client.call::<method::ConfigureAgent>(&params).await)
}

async fn archive(client: &mut HostClient, session: String) -> Result<HostReply, CliError> {
    let params = AgentTarget {
        agent_id: session,
        body: ArchiveBody { archived: true },
    };
    done(client.call::<method::ArchiveAgent>(&params).await)
}

async fn answer_question(
    client: &mut HostClient,
    question: String,
    text: String,
    considered_ms: Option<u64>,
) -> Result<HostReply, CliError> {
    let params = QuestionTarget {
        question_id: question,
        body: AnswerBody {
            answer: text,
            considered_ms,
        },
    };
    done(client.call::<method::AnswerQuestion>(&params).await)
}

async fn record(
    client: &mut HostClient,
    session: String,
    message: String,
) -> Result<HostReply, CliError> {
    let params = NotifyParams {
        kind: Some(RECORD_KIND.to_owned()),
        agent_id: Some(session),
        message,
        payload: Raw::null(),
    };
    done(client.call::<method::Notify>(&params).await)
}

async fn interrupt(client: &mut HostClient, session: String) -> Result<HostReply, CliError> {
    let params = AgentTarget {
        agent_id: session,
        body: InterruptBody {
            reason: Some("cancelled in the editor".to_owned()),
        },
    };
    match client.call::<method::InterruptAgent>(&params).await {
        // It ended by itself, or was interrupted by an attempt whose reply was lost.
        Err(error) if error.reason() == Some(Reason::NoTurn) => Ok(HostReply::Done),
        other => done(other),
    }
}

async fn answer_ask(
    client: &mut HostClient,
    ask: String,
    answer: AskAnswer,
    considered_ms: Option<u64>,
) -> Result<HostReply, CliError> {
    let params = ApprovalParams {
        approval_id: ask.clone(),
    };
    let row = client.call::<method::Approval>(&params).await?;
    let approving = approving_options(&row);
    let allow = approving
        .first()
        .map_or(APPROVE, |option| option)
        .to_owned();
    let body = match answer {
        AskAnswer::AllowOnce => resolution(allow),
        AskAnswer::AllowForSession { rules } => ResolutionBody {
            remember: Some(remembered(rules, Some(RememberScope::Session))),
            ..resolution(allow)
        },
        AskAnswer::AllowAndRemember { rules } => ResolutionBody {
            remember: Some(remembered(rules, None)),
            ..resolution(allow)
        },
        AskAnswer::Deny => resolution(DENY.to_owned()),
        AskAnswer::Form { answers } => ResolutionBody {
            answers: Some(answers.into_iter().map(ChosenAnswer::Several).collect()),
            ..resolution(allow)
        },
    };
    let body = ResolutionBody {
        considered_ms,
        ..body
    };
    let params = ApprovalTarget {
        approval_id: ask,
        body,
    };
    done(client.call::<method::ResolveApproval>(&params).await)
}

fn resolution(resolution: String) -> ResolutionBody {
    ResolutionBody {
        resolution,
        ..ResolutionBody::default()
    }
}

fn remembered(rules: Vec<String>, scope: Option<RememberScope>) -> Remember {
    Remember::Named(RememberBody {
        rules: Some(rules),
        scope,
        ..RememberBody::default()
    })
}

/// An error as the editor's user reads it.
pub(super) fn call_error(error: &CliError) -> HostCallError {
    let message = match error {
        CliError::NoHost { .. } => {
            "no Countersign host is running: start one with `countersign up --detach`".to_owned()
        }
        error => countersign_core::error_chain(error),
    };
    let reason = match error {
        CliError::Call(error) => error.reason(),
        _ => None,
    };
    HostCallError {
        message,
        not_found: reason == Some(Reason::UnknownAgent),
    }
}
