//! Events of the host about one agent, as the editor's side takes them.

use countersign_agents::editor::{
    AgentPhase, SessionChoices, SessionCommand, SessionEvent, SessionOption, SessionSnapshot,
};
use countersign_core::event::{
    AgentExited, AgentPlan, AgentReported, MessageWithdrawn, MessagesDropped, PlanStep, ToolStatus,
    TranscriptAdded, TranscriptEntry, TurnEnded,
};
use countersign_core::{AgentId, Json};
use countersign_protocol::{
    ChoiceRow, HostAgent, HostAgentState, HostApproval, HostEffect, HostEvent, HostQuestion,
    ManagedRow, Raw, TranscriptRow,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ask_rows;
use crate::render::escape;

/// What an editor's session is made of.
pub(super) const KINDS: [&str; 14] = [
    "agent.configured",
    "agent.exited",
    "agent.message_withdrawn",
    "agent.messages_dropped",
    "agent.ready",
    "agent.reported",
    "approval.pass_used",
    "approval.requested",
    "approval.resolved",
    "question.asked",
    "question.ended",
    "question.escalated",
    "transcript.added",
    "turn.ended",
];

/// What an event means for the editor.
pub(super) enum FedEvent {
    Given(SessionEvent),
    /// An ask was opened that rules do not settle.
    Ask(Box<HostApproval>),
    /// A question may be for people.
    Question(String),
    /// Something about the agent changed that is in its row.
    Row,
    Nothing,
}

/// Reads an event. One of a newer host, or one whose content was erased, means nothing.
pub(super) fn read(event: &HostEvent) -> FedEvent {
    let payload = &event.payload;
    match event.kind.as_str() {
        "agent.ready" => FedEvent::Given(SessionEvent::Ready),
        "agent.configured" => FedEvent::Row,
        "agent.exited" => given(payload, |e: AgentExited| SessionEvent::Exited {
            message: escape::line(&e.message).into_owned(),
        }),
        "agent.message_withdrawn" => given(payload, |e: MessageWithdrawn| {
            SessionEvent::MessageWithdrawn {
                text: e.text,
                by: escape::line(&e.by.name).into_owned(),
            }
        }),
        "agent.messages_dropped" => given(payload, |e: MessagesDropped| {
            SessionEvent::MessagesDropped {
                reason: escape::line(&e.reason).into_owned(),
            }
        }),
        "agent.reported" => match parsed(payload) {
            // Lists come with the row, which has them whole.
            Some(AgentReported { offers, .. }) if !offers.is_empty() => FedEvent::Row,
            Some(report) => FedEvent::Given(reported(report)),
            None => FedEvent::Nothing,
        },
        "transcript.added" => given(payload, |e: TranscriptAdded| SessionEvent::Transcript {
            turn: e.turn,
            entries: e.entries,
        }),
        "turn.ended" => given(payload, |e: TurnEnded| SessionEvent::TurnEnded {
            turn: e.turn,
            reason: e.reason,
            message: e.message.map(|text| escape::block(&text).into_owned()),
        }),
        "approval.requested" => {
            let row = parsed(payload).filter(is_asked);
            row.map_or(FedEvent::Nothing, |row| FedEvent::Ask(Box::new(row)))
        }
        "approval.resolved" => given(payload, |row: HostApproval| {
            SessionEvent::AskEnded(Box::new(ask_rows::outcome(&row)))
        }),
        "question.asked" => parsed(payload)
            .filter(|row: &HostQuestion| row.for_people)
            .map_or(FedEvent::Nothing, |row| FedEvent::Question(row.id)),
        "question.escalated" => parsed(payload)
            .map_or(FedEvent::Nothing, |e: EscalatedQuestion| {
                FedEvent::Question(e.question)
            }),
        "question.ended" => given(payload, ended_question),
        _ => FedEvent::Nothing,
    }
}

/// Whether rules leave it to people. What they settle ends in the same commit.
fn is_asked(row: &HostApproval) -> bool {
    let verdict = row.verdict.as_ref();
    verdict.is_none_or(|verdict| verdict.effect == HostEffect::Ask)
}

/// Whether an event says that this ask ended.
pub(super) fn is_end_of(event: &HostEvent, ask: &str) -> bool {
    event.kind == "approval.resolved"
        && parsed::<HostApproval>(&event.payload).is_some_and(|row| row.id == ask)
}

#[derive(Deserialize)]
struct EscalatedQuestion {
    question: String,
}

#[derive(Deserialize)]
struct EndedQuestion {
    id: String,
    state: String,
    #[serde(default)]
    answer: String,
    answered_by: EndedBy,
}

#[derive(Deserialize)]
struct EndedBy {
    name: String,
}

fn parsed<T: DeserializeOwned>(payload: &Raw) -> Option<T> {
    serde_json::from_str(payload.text()).ok()
}

fn given<T: DeserializeOwned>(payload: &Raw, make: impl Fn(T) -> SessionEvent) -> FedEvent {
    parsed(payload).map_or(FedEvent::Nothing, |body| FedEvent::Given(make(body)))
}

fn reported(e: AgentReported) -> SessionEvent {
    SessionEvent::Reported {
        mode: e.mode,
        model: e.model,
        usage: e.usage,
        title: e.title,
    }
}

fn ended_question(e: EndedQuestion) -> SessionEvent {
    let who = escape::line(&e.answered_by.name);
    let answer = escape::line(&e.answer);
    SessionEvent::QuestionEnded {
        note: format!(
            "The question was {} by {who}: {answer}",
            escape::line(&e.state)
        ),
        id: e.id,
    }
}

/// How an agent is, without its asks.
pub(super) fn snapshot(agent: &HostAgent) -> SessionSnapshot {
    let managed = agent.managed.as_ref();
    let message = managed.and_then(|managed| managed.message.as_deref());
    let phase = match agent.state {
        HostAgentState::Starting => AgentPhase::Starting,
        state if state.is_ended() => AgentPhase::Ended {
            message: escape::line(message.unwrap_or("it ended")).into_owned(),
        },
        _ => AgentPhase::Ready,
    };
    let title = managed.and_then(|managed| managed.title.clone());
    SessionSnapshot {
        phase,
        title: Some(title.unwrap_or_else(|| agent.name.clone())),
        choices: managed.map(choices).unwrap_or_default(),
        ..SessionSnapshot::default()
    }
}

fn choices(managed: &ManagedRow) -> SessionChoices {
    let commands = managed.commands.iter().map(|row| SessionCommand {
        name: row.name.clone(),
        description: shown_line(&row.description),
        hint: row.hint.as_deref().map(shown_line),
    });
    SessionChoices {
        mode: managed.mode.clone(),
        modes: managed.modes.iter().map(session_option).collect(),
        model: managed.model.clone(),
        models: managed.models.iter().map(session_option).collect(),
        commands: commands.collect(),
    }
}

fn session_option(row: &ChoiceRow) -> SessionOption {
    SessionOption {
        id: row.id.clone(),
        name: shown_line(&row.name),
        description: row.description.as_deref().map(shown_line),
    }
}

fn shown_line(text: &str) -> String {
    escape::line(text).into_owned()
}

/// An entry of a transcript as the record has it.
pub(super) fn transcript_entry(row: TranscriptRow) -> TranscriptEntry {
    match row {
        TranscriptRow::User { from, text } => TranscriptEntry::User {
            from: from.map(AgentId::new),
            text,
        },
        TranscriptRow::Assistant { text } => TranscriptEntry::Assistant { text },
        TranscriptRow::Thinking { text } => TranscriptEntry::Thinking { text },
        TranscriptRow::ToolUse {
            id,
            input,
            status,
            title,
            tool,
        } => TranscriptEntry::ToolUse {
            id,
            title,
            tool,
            input: input.as_ref().and_then(json),
            status: status.as_deref().and_then(tool_status),
        },
        TranscriptRow::ToolResult { id, status, text } => TranscriptEntry::ToolResult {
            id,
            status: tool_status(&status).unwrap_or(ToolStatus::Unknown),
            text,
        },
        TranscriptRow::Plan { steps } => {
            let steps = steps.into_iter().map(|step| PlanStep {
                text: step.text,
                status: step.status,
            });
            let steps = steps.collect();
            TranscriptEntry::Plan {
                plan: AgentPlan { steps },
            }
        }
        TranscriptRow::Notice { text } => TranscriptEntry::Notice { text },
        TranscriptRow::Other { update } => other(&update),
        _ => other(&Raw::null()),
    }
}

fn other(update: &Raw) -> TranscriptEntry {
    TranscriptEntry::Other {
        update: json(update).unwrap_or_default(),
    }
}

fn json(raw: &Raw) -> Option<Json> {
    serde_json::from_str(raw.text()).ok()
}

fn tool_status(word: &str) -> Option<ToolStatus> {
    serde_json::from_value(serde_json::Value::from(word)).ok()
}
