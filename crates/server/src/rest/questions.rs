//! Questions, over REST.

use std::sync::Arc;

use axum::extract::State;
use countersign_protocol as wire;
use countersign_protocol::HostQuestion;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonBody, JsonResult, PathId, QueryParams, WaitQuery, wire_json};
use crate::ServerState;
use crate::ops;

/// The routes about questions.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_questions, ask_question))
        .routes(routes!(get_question))
        .routes(routes!(answer_question))
}

/// List questions, newest first.
#[utoipa::path(get, path = "/api/v1/questions", params(wire::ListParams),
    responses((status = 200, body = Vec<HostQuestion>), (status = 404, description = "`after` is not the id of a question"),
        (status = 409, description = "`agent_id` fits more than one agent")))]
async fn list_questions(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    QueryParams(query): QueryParams<wire::ListParams>,
) -> JsonResult<Vec<HostQuestion>> {
    ops::questions::list(&state.service, &caller, query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Ask a question.
#[utoipa::path(post, path = "/api/v1/questions", request_body = wire::AskQuestionParams,
    responses((status = 200, body = HostQuestion), (status = 429, description = "too many are open")))]
async fn ask_question(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::AskQuestionParams>,
) -> JsonResult<HostQuestion> {
    ops::questions::ask(&state.service, caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Get a question. With `wait`, the reply comes when it has ended.
#[utoipa::path(get, path = "/api/v1/questions/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = HostQuestion), (status = 404, description = "unknown question")))]
async fn get_question(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
) -> JsonResult<HostQuestion> {
    let question = match query.limit()? {
        None => ops::questions::load(&state.service, &caller, id).await?,
        limit => ops::questions::wait(&state.service, &caller, id, limit).await?,
    };
    Ok(wire_json(&state, question))
}

/// Answer a question.
#[utoipa::path(post, path = "/api/v1/questions/{id}/answer", params(("id" = String, Path)),
    request_body = wire::AnswerBody,
    responses((status = 200, body = HostQuestion), (status = 403, description = "agents cannot answer"),
        (status = 404, description = "unknown question"), (status = 409, description = "already answered")))]
async fn answer_question(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::AnswerBody>,
) -> JsonResult<HostQuestion> {
    ops::questions::answer(&state.service, caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}
