//! Operations on questions: an agent waits for an answer as text.

use std::time::Duration;

use countersign_core::{AgentId, AskQuestion, Caller, Question, QuestionId};
use countersign_daemon::{QuestionQuery, Service, new_question_id};
use countersign_protocol as wire;
use countersign_protocol::Reason;

use super::agents::find_filter;
use super::{Result, one_of, page_rows, prefixed, status_filter};

pub(crate) async fn ask(
    service: &Service,
    caller: Caller,
    params: wire::AskQuestionParams,
) -> Result<Question> {
    let input = AskQuestion {
        caller,
        id: new_question_id(),
        agent: params.agent_id.map(AgentId::new),
        text: params.question,
        timeout_ms: params.timeout_ms,
        key: params.idempotency_key,
        keyed: None,
    };
    Ok(service.ask_question(input).await?)
}

pub(crate) async fn answer(
    service: &Service,
    caller: Caller,
    id: String,
    body: wire::AnswerBody,
) -> Result<Question> {
    let id = QuestionId::new(id);
    let answered = service.answer_question(caller, id, body.answer, body.considered_ms);
    Ok(answered.await?)
}

pub(crate) async fn wait(
    service: &Service,
    caller: &Caller,
    id: String,
    limit: Option<Duration>,
) -> Result<Question> {
    let id = QuestionId::new(id);
    Ok(service.wait_question(caller, id, limit).await?)
}

/// One question by its id or an abbreviation that fits no other.
pub(crate) async fn load(service: &Service, caller: &Caller, id: String) -> Result<Question> {
    let whole_id = QuestionId::new(id.as_str());
    if let Ok(question) = service.load_question(caller, whole_id).await {
        return Ok(question);
    }
    caller.refuse_agents()?;
    let query = QuestionQuery {
        id_prefix: Some(prefixed("question-", &id)),
        limit: 2,
        ..QuestionQuery::default()
    };
    let found = service.questions(caller, query).await?;
    one_of(&found, &id, "question", Reason::UnknownQuestion).cloned()
}

pub(crate) async fn list(
    service: &Service,
    caller: &Caller,
    params: wire::ListParams,
) -> Result<Vec<Question>> {
    let query = QuestionQuery {
        status: status_filter(params.status),
        agent: find_filter(service, caller, params.agent_id).await?,
        limit: page_rows(params.limit, 100),
        ..QuestionQuery::default()
    };
    Ok(service.questions(caller, query).await?)
}
