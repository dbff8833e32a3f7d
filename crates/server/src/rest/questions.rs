//! Questions, over REST.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use countersign_protocol as wire;
use countersign_protocol::HostQuestion;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Authenticated, JsonBody, JsonResult, PathId, QueryParams, WaitQuery};
use crate::ServerState;
use crate::ops;

/// The routes about questions.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_questions, ask_question))
        .routes(routes!(get_question))
        .routes(routes!(answer_question))
}

/// Questions, newest first.
#[utoipa::path(get, path = "/api/v1/questions", params(wire::ListParams),
    responses((status = 200, body = Vec<HostQuestion>), (status = 404, description = "`after` names no question")))]
async fn list_questions(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    QueryParams(query): QueryParams<wire::ListParams>,
) -> JsonResult<Vec<HostQuestion>> {
    ops::questions(&state.service, &caller, query)
        .await
        .map(Json)
}

/// Ask a question.
#[utoipa::path(post, path = "/api/v1/questions", request_body = wire::AskQuestionParams,
    responses((status = 200, body = HostQuestion), (status = 429, description = "too many are open")))]
async fn ask_question(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::AskQuestionParams>,
) -> JsonResult<HostQuestion> {
    ops::ask_question(&state.service, caller, params)
        .await
        .map(Json)
}

/// One question; with `wait`, when it has ended.
#[utoipa::path(get, path = "/api/v1/questions/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = HostQuestion), (status = 404, description = "unknown question")))]
async fn get_question(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
) -> JsonResult<HostQuestion> {
    match query.limit()? {
        None => ops::question(&state.service, &caller, id).await.map(Json),
        limit => ops::wait_question(&state.service, &caller, id, limit)
            .await
            .map(Json),
    }
}

/// Answer a question.
#[utoipa::path(post, path = "/api/v1/questions/{id}/answer", params(("id" = String, Path)),
    request_body = wire::AnswerBody,
    responses((status = 200, body = HostQuestion), (status = 403, description = "agents cannot answer"),
        (status = 404, description = "unknown question"), (status = 409, description = "already answered")))]
async fn answer_question(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::AnswerBody>,
) -> JsonResult<HostQuestion> {
    ops::answer_question(&state.service, caller, id, body.answer)
        .await
        .map(Json)
}
