//! Asks and questions by id: in memory while they are open, in the record afterwards.

use std::time::Duration;

use countersign_core::{
    AgentId, Approval, ApprovalId, Caller, Question, QuestionId, Rejection, State,
};
use countersign_store::{EventHistory, StoreError};
use tokio::sync::oneshot;

use crate::supervisor::SupervisorCommand;

use super::{Service, ServiceResult, WaitGuard, with_limit};

/// What an agent asks and somebody answers.
pub(super) trait AnswerableItem: Clone + Send + 'static {
    type Id: Clone + Send + 'static;

    fn find_in_memory<'a>(state: &'a State, id: &Self::Id) -> Option<&'a Self>;

    fn find_in_history(
        history: &dyn EventHistory,
        id: &Self::Id,
    ) -> Result<Option<Self>, StoreError>;

    fn asking_agent(&self) -> Option<&AgentId>;

    fn unknown(id: Self::Id) -> Rejection;
}

impl AnswerableItem for Approval {
    type Id = ApprovalId;

    fn find_in_memory<'a>(state: &'a State, id: &ApprovalId) -> Option<&'a Self> {
        state.find_approval(id)
    }

    fn find_in_history(
        history: &dyn EventHistory,
        id: &ApprovalId,
    ) -> Result<Option<Self>, StoreError> {
        history.find_approval(id)
    }

    fn asking_agent(&self) -> Option<&AgentId> {
        self.ask.agent.as_ref()
    }

    fn unknown(id: ApprovalId) -> Rejection {
        Rejection::UnknownApproval(id)
    }
}

impl AnswerableItem for Question {
    type Id = QuestionId;

    fn find_in_memory<'a>(state: &'a State, id: &QuestionId) -> Option<&'a Self> {
        state.find_question(id)
    }

    fn find_in_history(
        history: &dyn EventHistory,
        id: &QuestionId,
    ) -> Result<Option<Self>, StoreError> {
        history.find_question(id)
    }

    fn asking_agent(&self) -> Option<&AgentId> {
        self.text.agent.as_ref()
    }

    fn unknown(id: QuestionId) -> Rejection {
        Rejection::UnknownQuestion(id)
    }
}

impl Service {
    /// One ask or question. An agent reaches its own and those of its descendants; any other is as
    /// unknown to it as one that does not exist, so that ids cannot be probed.
    pub(super) async fn load_item<T: AnswerableItem>(
        &self,
        caller: &Caller,
        id: T::Id,
    ) -> ServiceResult<T> {
        let wanted = id.clone();
        let open = self.read(move |view| T::find_in_memory(view.state, &wanted).cloned());
        let found = if let Some(open) = open.await? {
            open
        } else {
            let wanted = id.clone();
            let ended = self.history(move |history| T::find_in_history(history, &wanted));
            ended.await?.ok_or_else(|| T::unknown(id.clone()))?
        };
        if self.reaches(caller, found.asking_agent()).await? {
            Ok(found)
        } else {
            Err(T::unknown(id).into())
        }
    }

    /// Waits in the loop until something ends; nothing if `limit` was over first.
    pub(super) async fn wait_in_loop<T>(
        &self,
        limit: Option<Duration>,
        command: impl FnOnce(oneshot::Sender<ServiceResult<T>>) -> SupervisorCommand,
    ) -> ServiceResult<Option<T>> {
        let (answer, wait) = oneshot::channel();
        self.send(command(answer)).await?;
        // Also tells the loop if this future is dropped while it waits.
        let guard = WaitGuard(&self.shared.commands);
        let ended = with_limit(limit, wait).await;
        drop(guard);
        match ended {
            Some(ended) => ended.map_err(|_| self.unavailable())?.map(Some),
            None => Ok(None),
        }
    }
}
