//! An ask or a question, where a list shows both.

use countersign_protocol::{
    HostApproval, HostApprovalState, HostQuestion, HostQuestionState, Time,
};

use crate::duration;
use crate::render::approvals::{self, FieldDetail};
use crate::render::questions;

/// One thing that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InboxContent {
    Ask(Box<HostApproval>),
    Question(Box<HostQuestion>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InboxItem {
    pub(crate) content: InboxContent,
    /// How it ended, once it did.
    pub(crate) ended: Option<String>,
}

impl InboxItem {
    pub(crate) fn ask(row: HostApproval) -> Self {
        let ended = (row.state != HostApprovalState::Pending).then(|| approvals::ask_state(&row));
        Self {
            content: InboxContent::Ask(Box::new(row)),
            ended,
        }
    }

    pub(crate) fn question(row: HostQuestion) -> Self {
        let ended = (row.state != HostQuestionState::Pending).then(|| questions::state(&row));
        Self {
            content: InboxContent::Question(Box::new(row)),
            ended,
        }
    }

    pub(crate) fn id(&self) -> &str {
        match &self.content {
            InboxContent::Ask(row) => &row.id,
            InboxContent::Question(row) => &row.id,
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self.content {
            InboxContent::Ask(_) => "ask",
            InboxContent::Question(_) => "question",
        }
    }

    /// Oldest first, and what an orchestrator is asked before people after everything else.
    pub(crate) fn order(&self) -> (bool, u64) {
        match &self.content {
            InboxContent::Ask(row) => (false, row.sequence),
            InboxContent::Question(row) => (!row.for_people, row.sequence),
        }
    }

    pub(crate) fn created_at(&self) -> Time {
        match &self.content {
            InboxContent::Ask(row) => row.created_at,
            InboxContent::Question(row) => row.created_at,
        }
    }

    pub(crate) fn asker(&self) -> String {
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
        }
    }

    pub(crate) fn summary(&self, now: Time) -> String {
        match &self.content {
            InboxContent::Ask(row) => match row.lapses_at {
                Some(at) => {
                    let until = duration::until(now, at);
                    format!("[program gone, ends {until}] {}", approvals::summary(row))
                }
                None => approvals::summary(row),
            },
            InboxContent::Question(row) => questions::summary(row, now),
        }
    }

    pub(crate) fn fields(&self, now: Time, detail: FieldDetail) -> Vec<(&'static str, String)> {
        match &self.content {
            InboxContent::Ask(row) => approvals::ask_fields(row, now, detail),
            InboxContent::Question(row) => questions::fields(row, now),
        }
    }
}
