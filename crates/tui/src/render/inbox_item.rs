//! An ask, a question or a note, where a list shows all of them.

use countersign_protocol::{
    HostApproval, HostApprovalState, HostEvent, HostQuestion, HostQuestionState, Time,
};

use crate::duration;
use crate::render::approvals::{self, FieldDetail};
use crate::render::notes::PersonNote;
use crate::render::questions;

/// One thing that waits for a person, or that a person is told.
#[derive(Clone, Debug, PartialEq)]
pub enum InboxContent {
    Ask(Box<HostApproval>),
    Question(Box<HostQuestion>),
    /// It needs no answer.
    Note(Box<PersonNote>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct InboxItem {
    pub content: InboxContent,
    /// How it ended, once it did.
    pub ended: Option<String>,
}

impl InboxItem {
    pub fn ask(row: HostApproval) -> Self {
        let ended = (row.state != HostApprovalState::Pending).then(|| approvals::ask_state(&row));
        Self {
            content: InboxContent::Ask(Box::new(row)),
            ended,
        }
    }

    pub fn question(row: HostQuestion) -> Self {
        let ended = (row.state != HostQuestionState::Pending).then(|| questions::state(&row));
        Self {
            content: InboxContent::Question(Box::new(row)),
            ended,
        }
    }

    /// Nothing if the event is not a note to people.
    pub fn note(event: HostEvent) -> Option<Self> {
        let note = PersonNote::of(event)?;
        Some(Self {
            content: InboxContent::Note(Box::new(note)),
            ended: None,
        })
    }

    pub fn id(&self) -> &str {
        match &self.content {
            InboxContent::Ask(row) => &row.id,
            InboxContent::Question(row) => &row.id,
            InboxContent::Note(note) => &note.event.id,
        }
    }

    /// What commands take for it. No command takes a note.
    pub fn short_id(&self) -> String {
        match &self.content {
            InboxContent::Ask(row) => approvals::short_id(&row.id),
            InboxContent::Question(row) => approvals::short_id(&row.id),
            InboxContent::Note(_) => "-".to_owned(),
        }
    }

    pub fn is_note(&self) -> bool {
        matches!(self.content, InboxContent::Note(_))
    }

    pub fn kind(&self) -> &'static str {
        match self.content {
            InboxContent::Ask(_) => "ask",
            InboxContent::Question(_) => "question",
            InboxContent::Note(_) => "note",
        }
    }

    /// Oldest first, then what an orchestrator is asked before people, then what needs no answer.
    pub fn order(&self) -> (u8, u64) {
        match &self.content {
            InboxContent::Ask(row) => (0, row.sequence),
            InboxContent::Question(row) => (u8::from(!row.for_people), row.sequence),
            InboxContent::Note(note) => (2, note.event.sequence),
        }
    }

    pub fn created_at(&self) -> Time {
        match &self.content {
            InboxContent::Ask(row) => row.created_at,
            InboxContent::Question(row) => row.created_at,
            InboxContent::Note(note) => note.event.timestamp,
        }
    }

    pub fn asker(&self) -> String {
        match &self.content {
            InboxContent::Ask(row) => approvals::asker(
                row.agent_name.as_deref(),
                row.agent_id.as_deref(),
                row.asked_by.as_ref(),
            ),
            InboxContent::Question(row) => approvals::asker(
                row.agent_name.as_deref(),
                row.agent_id.as_deref(),
                Some(&row.asked_by),
            ),
            InboxContent::Note(note) => note.sender(),
        }
    }

    pub fn summary(&self, now: Time) -> String {
        match &self.content {
            InboxContent::Ask(row) => match row.lapses_at {
                Some(at) => {
                    let until = duration::until(now, at);
                    format!("[program gone, ends {until}] {}", approvals::summary(row))
                }
                None => approvals::summary(row),
            },
            InboxContent::Question(row) => questions::summary(row, now),
            InboxContent::Note(note) => note.summary(),
        }
    }

    pub fn fields(&self, now: Time, detail: FieldDetail) -> Vec<(&'static str, String)> {
        match &self.content {
            InboxContent::Ask(row) => approvals::ask_fields(row, now, detail),
            InboxContent::Question(row) => questions::fields(row, now),
            InboxContent::Note(note) => note.fields(now),
        }
    }
}
