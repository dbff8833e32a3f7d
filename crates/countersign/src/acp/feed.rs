//! One agent, followed: what it said so far, how it is, and what happens to it, across as many hosts as
//! it takes.
//!
//! Invariant: each fact is given once and in the order of the record. The cursor is the newest event
//! that was given.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_agents::editor::{EditorAsk, SessionEvent, SessionFact};
use countersign_protocol::{
    AgentParams, AgentTarget, HostApproval, HostApprovalState, HostEvent, HostQuestion,
    HostQuestionState, HostSnapshot, QuestionParams, SubscribeParams, SuggestRulesParams,
    TranscriptQuery, method,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::ask_rows;
use super::events::{self, FedEvent};
use super::host_calls::call_error;
use super::terminals::TerminalWatch;
use crate::client::{CallError, HostClient, HostEndpoint};
use crate::error::CliError;
use crate::reconnect::{RetryLimit, is_lost, reconnect};

/// Parts of a transcript that are read at once.
const REPLAY_PAGE: u64 = 200;

/// See the module.
pub(super) struct SessionFeed {
    endpoint: HostEndpoint,
    session: String,
    facts: mpsc::Sender<(String, SessionFact)>,
    cursor: Arc<AtomicU64>,
    stage: FeedStage,
    /// Where the editor shows terminals.
    terminals: Option<TerminalWatch>,
}

/// How far the feed is.
enum FeedStage {
    /// The transcript is being read; `after` is its cursor.
    Replay {
        after: Option<u64>,
    },
    /// Nothing was given yet, or all of the transcript.
    Attach,
    Live,
}

/// Why a feed stopped reading.
enum FeedEnd {
    Host(CliError),
    /// Nobody wants the facts any more.
    Unwanted,
}

impl From<CallError> for FeedEnd {
    fn from(error: CallError) -> Self {
        Self::Host(error.into())
    }
}

impl SessionFeed {
    pub(super) fn new(
        endpoint: HostEndpoint,
        session: String,
        replay: bool,
        facts: mpsc::Sender<(String, SessionFact)>,
        cursor: Arc<AtomicU64>,
    ) -> Self {
        let stage = if replay {
            FeedStage::Replay { after: None }
        } else {
            FeedStage::Attach
        };
        Self {
            endpoint,
            session,
            facts,
            cursor,
            stage,
            terminals: None,
        }
    }

    /// The same, with what runs in the agent's terminals.
    pub(super) fn with_terminals(self) -> Self {
        Self {
            terminals: Some(TerminalWatch::default()),
            ..self
        }
    }

    /// Gives facts until nobody wants them.
    pub(super) async fn run(mut self) {
        let mut connected = HostClient::connect(&self.endpoint).await;
        loop {
            let end = match &mut connected {
                Ok(client) => self.follow(client).await,
                Err(_) => Ok(()),
            };
            let error = match (end, connected) {
                (Err(FeedEnd::Host(error)), _) | (_, Err(error)) => error,
                (Err(FeedEnd::Unwanted), _) | (Ok(()), Ok(_)) => return,
            };
            if !is_lost(&error) {
                // Sent to somebody who may have left, which is no matter.
                self.give(SessionFact::Failed(call_error(&error)))
                    .await
                    .ok();
                return;
            }
            connected = reconnect(&self.endpoint, RetryLimit::Unlimited).await;
        }
    }

    async fn give(&self, fact: SessionFact) -> Result<(), FeedEnd> {
        let sent = self.facts.send((self.session.clone(), fact)).await;
        sent.map_err(|_| FeedEnd::Unwanted)
    }

    /// Reads on from where the feed is, until something fails.
    async fn follow(&mut self, client: &mut HostClient) -> Result<(), FeedEnd> {
        let is_live = matches!(self.stage, FeedStage::Live);
        let params = SubscribeParams {
            after: is_live.then(|| self.cursor.load(Ordering::Relaxed)),
            kinds: Some(events::KINDS.map(str::to_owned).to_vec()),
            agent_id: Some(self.session.clone()),
            ..SubscribeParams::default()
        };
        let snapshot = client.call::<method::Subscribe>(&params).await?;
        if !is_live {
            let head = snapshot.event_sequence;
            self.replay(client, head).await?;
            self.attach(client, snapshot).await?;
            self.cursor.store(head, Ordering::Relaxed);
            self.stage = FeedStage::Live;
        }
        self.look_for_terminals(client).await?;
        loop {
            let due = self.terminals.as_ref().and_then(TerminalWatch::next_due);
            let event = tokio::select! {
                event = client.next_event() => event?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.look_for_terminals(client).await?;
                    continue;
                }
            };
            if let Some(terminals) = &mut self.terminals {
                terminals.note_event(&event);
            }
            if event.sequence > self.cursor.load(Ordering::Relaxed) {
                let sequence = event.sequence;
                self.give_event(client, event).await?;
                self.cursor.store(sequence, Ordering::Relaxed);
            }
        }
    }

    /// Gives the transcript up to an event; what comes after it is live.
    async fn replay(&mut self, client: &mut HostClient, head: u64) -> Result<(), FeedEnd> {
        while let FeedStage::Replay { after } = self.stage {
            let params = AgentTarget {
                agent_id: self.session.clone(),
                body: TranscriptQuery {
                    after,
                    limit: Some(REPLAY_PAGE),
                    ..TranscriptQuery::default()
                },
            };
            let page = client.call::<method::Transcript>(&params).await?;
            let reached = page.parts.last().is_some_and(|part| part.sequence >= head);
            let parts = page.parts.into_iter();
            let parts = parts.filter(|part| part.sequence <= head);
            let entries: Vec<_> = parts
                .flat_map(|part| part.entries)
                .map(events::transcript_entry)
                .collect();
            if !entries.is_empty() {
                self.give(SessionFact::Replayed(entries)).await?;
            }
            // Only now: if the host is lost before, the same page is read again.
            self.stage = if page.more && !reached {
                FeedStage::Replay {
                    after: Some(page.next),
                }
            } else {
                FeedStage::Attach
            };
        }
        Ok(())
    }

    async fn look_for_terminals(&mut self, client: &mut HostClient) -> Result<(), FeedEnd> {
        let Some(terminals) = &mut self.terminals else {
            return Ok(());
        };
        let params = AgentParams {
            agent_id: self.session.clone(),
        };
        let rows = match client.call::<method::Terminals>(&params).await {
            Ok(rows) => rows,
            // An agent without a process has none.
            Err(CallError::Refused(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        for event in terminals.compare(rows) {
            self.give(SessionFact::Event(event)).await?;
        }
        Ok(())
    }

    async fn attach(
        &mut self,
        client: &mut HostClient,
        snapshot: HostSnapshot,
    ) -> Result<(), FeedEnd> {
        let params = AgentParams {
            agent_id: self.session.clone(),
        };
        // By its id and not from the snapshot, which does not list every agent that ended.
        let agent = client.call::<method::Agent>(&params).await?;
        let mut attached = events::snapshot(&agent);
        let mut pending = snapshot.approvals;
        pending.retain(|row| row.state == HostApprovalState::Pending);
        for row in pending.into_iter().rev() {
            attached.asks.push(shown_ask(client, &row).await?);
        }
        let questions = snapshot.questions.iter().rev();
        let questions = questions.filter(|question| is_open(question));
        attached.questions = questions.map(ask_rows::question).collect();
        self.give(SessionFact::Attached(Box::new(attached))).await
    }

    async fn give_event(&self, client: &mut HostClient, event: HostEvent) -> Result<(), FeedEnd> {
        let given = match events::read(&event) {
            FedEvent::Given(event) => Some(event),
            FedEvent::Ask(row) => {
                let ask = shown_ask(client, &row).await?;
                // A bypass, an orchestrator or somebody fast settled it, and the editor needs not ask.
                let is_over = client
                    .waiting_events()
                    .any(|event| events::is_end_of(event, &row.id));
                (!is_over).then(|| SessionEvent::AskOpened(Box::new(ask)))
            }
            FedEvent::Question(id) => {
                let params = QuestionParams { question_id: id };
                let row = client.call::<method::Question>(&params).await?;
                is_open(&row).then(|| SessionEvent::QuestionOpened(ask_rows::question(&row)))
            }
            FedEvent::Row => {
                let params = AgentParams {
                    agent_id: self.session.clone(),
                };
                let agent = client.call::<method::Agent>(&params).await?;
                let choices = events::snapshot(&agent).choices;
                Some(SessionEvent::ChoicesChanged(Box::new(choices)))
            }
            FedEvent::Nothing => None,
        };
        match given {
            Some(event) => self.give(SessionFact::Event(event)).await,
            None => Ok(()),
        }
    }
}

/// Whether people are asked, now.
fn is_open(question: &HostQuestion) -> bool {
    question.for_people && question.state == HostQuestionState::Pending
}

/// An ask with the rules that would allow it.
async fn shown_ask(client: &mut HostClient, row: &HostApproval) -> Result<EditorAsk, FeedEnd> {
    let params = SuggestRulesParams {
        approval_id: Some(row.id.clone()),
    };
    let rules = match client.call::<method::SuggestRules>(&params).await {
        Ok(suggested) => ask_rows::narrowest(suggested.candidates),
        // Without a suggestion the ask is shown all the same, and nothing is offered to be remembered.
        Err(CallError::Refused(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(ask_rows::ask(row, rules))
}
