//! What agents were heard to say: inputs that are decided together with how far the agent was heard.
//!
//! Invariants: a bookmark is committed in the turn that decides everything it counts in, or not at
//! all; one about a run that is over is never kept.

use std::collections::BTreeMap;

use countersign_core::{AgentId, AskRequest, Bookmark, Event, Input, Rejection};

use super::{Answer, Pending, Supervisor, Turn};
use crate::gate::Assessed;
use crate::reply::{Reply, ServiceError};

/// An ask on its way into the loop.
pub(crate) struct Raised {
    pub(crate) request: Box<AskRequest>,
    /// What the rules are asked about; without it a person decides.
    pub(crate) assessed: Option<Box<Assessed>>,
    /// What is decided right before it.
    pub(crate) before: Vec<Input>,
    /// How far its agent was heard, this ask counted in.
    pub(crate) bookmark: Option<Bookmark>,
}

impl Supervisor {
    /// Decides what was heard. If any of it was refused the bookmark is not taken, and the first no
    /// is the answer; the rest stays.
    pub(super) fn hear(
        &mut self,
        inputs: Vec<Input>,
        bookmark: Option<Bookmark>,
        answer: Answer<Reply>,
        turn: &mut Turn,
    ) {
        let heard = self.decide_all(inputs, turn);
        if let (Ok(()), Some(bookmark)) = (&heard, bookmark) {
            self.take_bookmark(bookmark, turn);
        }
        let heard = heard.map(|()| Pending::Ready(Reply::Nothing));
        turn.replies
            .push((answer, heard.map_err(ServiceError::Rejected)));
    }

    /// The rules are asked against the very state the ask is then decided on, so that nothing
    /// they rest on can change in between. An ask whose agent could not be heard up to there is
    /// not asked: it would be asked again by whoever hears the agent once more.
    pub(super) fn ask(&mut self, raised: Raised, answer: Answer<Reply>, turn: &mut Turn) {
        let mut request = raised.request;
        let decided = self.decide_all(raised.before, turn).and_then(|()| {
            if let Some(assessed) = raised.assessed {
                let now = self.clock.now();
                let agent = request.asking_agent();
                let judged = self.gate.judge(&self.state, &assessed, agent, now);
                request.judged = Some(judged);
            }
            self.decide_one(Input::RequestApproval(request), turn)
        });
        if let (Ok(_), Some(bookmark)) = (&decided, raised.bookmark) {
            self.take_bookmark(bookmark, turn);
        }
        turn.replies
            .push((answer, decided.map_err(ServiceError::Rejected)));
    }

    /// Decides one after the other, and gives the first no.
    fn decide_all(&mut self, inputs: Vec<Input>, turn: &mut Turn) -> Result<(), Rejection> {
        let mut all = Ok(());
        for input in inputs {
            let one = self.decide_one(input, turn).map(drop);
            all = all.and(one);
        }
        all
    }

    fn take_bookmark(&self, bookmark: Bookmark, turn: &mut Turn) {
        let agent = self.state.find_agent(&bookmark.agent);
        let managed = agent.and_then(|agent| agent.managed.as_deref());
        if managed.is_some_and(|managed| managed.is_live() && managed.run == bookmark.run) {
            turn.bookmarks.put(bookmark);
        }
    }
}

/// What one turn does to bookmarks: the last word about each agent.
#[derive(Default)]
pub(super) struct Bookmarks(BTreeMap<AgentId, Option<Bookmark>>);

impl Bookmarks {
    fn put(&mut self, bookmark: Bookmark) {
        self.0.insert(bookmark.agent.clone(), Some(bookmark));
    }

    /// Where a run ends or begins, how far an earlier one was heard no longer matters.
    pub(super) fn note(&mut self, event: &Event) {
        let agent = match event {
            Event::AgentExited(exited) => &exited.agent,
            Event::AgentRunRequested(requested) => &requested.agent,
            _ => return,
        };
        self.0.insert(agent.clone(), None);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_changes(self) -> Vec<(AgentId, Option<Bookmark>)> {
        self.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
