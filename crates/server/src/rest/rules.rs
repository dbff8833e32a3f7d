//! Rules over REST.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use countersign_protocol as wire;
use countersign_protocol::HostAgent;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Authenticated, JsonBody, JsonResult, PathId, QueryParams};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::ops::rules;

/// The routes about rules.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_rules, add_rule))
        .routes(routes!(remove_rule))
        .routes(routes!(check_rules))
        .routes(routes!(backtest_rule))
        .routes(routes!(mine_rules))
        .routes(routes!(trust_rules))
        .routes(routes!(suggest_rules))
        .routes(routes!(set_bypass))
}

/// Every rule that counts: those in files, and those that were remembered.
#[utoipa::path(get, path = "/api/v1/rules", params(wire::RulesParams),
    responses((status = 200, body = wire::RulesResult), (status = 403, description = "not for agents")))]
async fn list_rules(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    QueryParams(query): QueryParams<wire::RulesParams>,
) -> JsonResult<wire::RulesResult> {
    rules::rules(&state.service, &caller, query).await.map(Json)
}

/// Add a rule with a leash. What waits and is covered by it is settled at once.
#[utoipa::path(post, path = "/api/v1/rules", request_body = wire::AddRuleParams,
    responses((status = 200, body = wire::AddedRule), (status = 403, description = "operators only"),
        (status = 422, description = "the rule is not understood")))]
async fn add_rule(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::AddRuleParams>,
) -> JsonResult<wire::AddedRule> {
    rules::add_rule(&state.service, caller, params)
        .await
        .map(Json)
}

/// Take a remembered rule back.
#[utoipa::path(delete, path = "/api/v1/rules/{id}", params(("id" = String, Path)),
    responses((status = 200, body = wire::GrantRow), (status = 403, description = "operators only"),
        (status = 404, description = "unknown rule")))]
async fn remove_rule(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> JsonResult<wire::GrantRow> {
    rules::remove_rule(&state.service, caller, id)
        .await
        .map(Json)
}

/// Say what the rules would do with a tool call.
#[utoipa::path(post, path = "/api/v1/rules/check", request_body = wire::CheckRulesParams,
    responses((status = 200, body = wire::CheckedRules), (status = 403, description = "not for agents")))]
async fn check_rules(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::CheckRulesParams>,
) -> JsonResult<wire::CheckedRules> {
    rules::check_rules(&state.service, &caller, params)
        .await
        .map(Json)
}

/// Replay the decisions on the record against a rule.
#[utoipa::path(post, path = "/api/v1/rules/backtest", request_body = wire::BacktestRuleParams,
    responses((status = 200, body = wire::BacktestResult), (status = 403, description = "not for agents"),
        (status = 422, description = "the rule is not understood")))]
async fn backtest_rule(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::BacktestRuleParams>,
) -> JsonResult<wire::BacktestResult> {
    rules::backtest_rule(&state.service, &caller, params)
        .await
        .map(Json)
}

/// What was always allowed by hand and never denied.
#[utoipa::path(get, path = "/api/v1/rules/suggestions",
    responses((status = 200, body = wire::RuleSuggestions), (status = 403, description = "not for agents")))]
async fn mine_rules(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
) -> JsonResult<wire::RuleSuggestions> {
    let params = wire::SuggestRulesParams::default();
    rules::suggest_rules(&state.service, &caller, params)
        .await
        .map(Json)
}

/// Rules that would let an ask through, narrowest first.
#[utoipa::path(get, path = "/api/v1/approvals/{id}/suggestions", params(("id" = String, Path)),
    responses((status = 200, body = wire::RuleSuggestions), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown approval")))]
async fn suggest_rules(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> JsonResult<wire::RuleSuggestions> {
    let params = wire::SuggestRulesParams {
        approval_id: Some(id),
    };
    rules::suggest_rules(&state.service, &caller, params)
        .await
        .map(Json)
}

/// Let a project's rule file loosen, exactly as it is.
#[utoipa::path(post, path = "/api/v1/rules/trust", request_body = wire::TrustRulesParams,
    responses((status = 204, description = "trusted"), (status = 403, description = "operators only")))]
async fn trust_rules(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::TrustRulesParams>,
) -> Result<StatusCode, ApiError> {
    rules::trust_rules(&state.service, caller, params)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

/// Let an agent's asks through for a while, or no longer.
#[utoipa::path(post, path = "/api/v1/agents/{id}/bypass", params(("id" = String, Path)), request_body = wire::BypassBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent")))]
async fn set_bypass(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::BypassBody>,
) -> JsonResult<HostAgent> {
    rules::set_bypass(&state.service, caller, id, body)
        .await
        .map(Json)
}
