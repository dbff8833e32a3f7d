//! Questions: an agent waits for words.
//!
//! Invariant: as with approvals, the first ending is final.

use std::sync::Arc;

use crate::event::{QuestionEnding, QuestionText};
use crate::ids::{Seq, Timestamp};

/// One question and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What was asked.
    pub text: Arc<QuestionText>,
    /// The event that opened it.
    pub opened: Seq,
    /// When it was opened.
    pub created_at: Timestamp,
    /// Whether people are asked although an orchestrator was first.
    pub escalated: bool,
    /// How it ended, by which event, and when.
    pub ended: Option<QuestionEnd>,
}

/// The end of a question, with its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionEnd {
    pub ending: Arc<QuestionEnding>,
    /// The event that ended it.
    pub seq: Seq,
    pub at: Timestamp,
}

impl Question {
    /// Whether it is for people to answer: it was never another's, or has been for too long.
    pub fn is_for_people(&self) -> bool {
        self.text.to.is_none() || self.escalated
    }

    /// Whether it still waits for words.
    pub fn is_pending(&self) -> bool {
        self.ended.is_none()
    }
}
