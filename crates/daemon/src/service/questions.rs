//! Questions: asked, answered, waited for.

use std::time::Duration;

use countersign_core::{AskQuestion, Caller, Input, Question, QuestionId, Rejection};
use countersign_store::QuestionQuery;

use crate::reply::ServiceError;
use crate::supervisor::SupervisorCommand;

use super::{Service, ServiceResult, question};

/// Questions.
impl Service {
    /// Opens a question.
    pub async fn ask_question(&self, mut input: AskQuestion) -> ServiceResult<Question> {
        if let Some(key) = input.key.clone() {
            let asker = input.caller.principal.key.clone();
            input.keyed = self
                .history(move |history| history.find_keyed_question(&asker, &key))
                .await?;
        }
        question(self.submit(Input::AskQuestion(input)).await?)
    }

    /// Answers a question; the same answer twice is a success.
    pub async fn answer_question(
        &self,
        caller: Caller,
        id: QuestionId,
        answer: String,
        considered_ms: Option<u64>,
    ) -> ServiceResult<Question> {
        let input = Input::AnswerQuestion {
            caller: caller.clone(),
            question: id.clone(),
            answer: answer.clone(),
            considered_ms,
        };
        match self.submit(input).await {
            Err(ServiceError::Rejected(Rejection::UnknownQuestion(_))) => {
                let ended = self.load_question(&caller, id).await?;
                let same = ended
                    .ended
                    .as_ref()
                    .is_some_and(|end| end.ending.answer == answer);
                if same {
                    Ok(ended)
                } else {
                    Err(Rejection::AlreadyAnswered(Box::new(ended)).into())
                }
            }
            reply => question(reply?),
        }
    }

    /// One question, wherever it is. An agent sees only its own, and those of agents below it.
    pub async fn load_question(&self, caller: &Caller, id: QuestionId) -> ServiceResult<Question> {
        self.load_item(caller, id).await
    }

    /// Waits until a question ends, or `limit` is over; then it is given as it is.
    pub async fn wait_question(
        &self,
        caller: &Caller,
        id: QuestionId,
        limit: Option<Duration>,
    ) -> ServiceResult<Question> {
        let found = self.load_question(caller, id.clone()).await?;
        if !found.is_pending() {
            return Ok(found);
        }
        let wanted = id.clone();
        let ended = self.wait_in_loop(limit, |answer| SupervisorCommand::WaitQuestion {
            id: wanted,
            answer,
        });
        match ended.await {
            Ok(Some(ended)) => Ok(ended),
            Ok(None) => self.load_question(caller, id).await,
            Err(ServiceError::Rejected(Rejection::UnknownQuestion(_))) => {
                // It ended between the read and the wait, unless that could not be committed.
                Box::pin(self.wait_question(caller, id, limit)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Questions from history, newest first. An agent sees its own alone.
    pub async fn questions(
        &self,
        caller: &Caller,
        mut query: QuestionQuery,
    ) -> ServiceResult<Vec<Question>> {
        query.agent = caller.principal.agent().cloned().or(query.agent);
        self.history(move |history| history.questions(&query)).await
    }
}
