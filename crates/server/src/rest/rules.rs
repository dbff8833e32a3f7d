//! Rules over REST.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use countersign_protocol as wire;
use countersign_protocol::HostAgent;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonBody, JsonResult, PathId, QueryParams, wire_json};
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
        .routes(routes!(untrusted_rules))
        .routes(routes!(trust_rules))
        .routes(routes!(suggest_rules))
        .routes(routes!(set_bypass))
}

/// List the rules that apply: those in files, and remembered ones.
#[utoipa::path(get, path = "/api/v1/rules", params(wire::RulesParams),
    responses((status = 200, body = wire::RulesResult), (status = 403, description = "not for agents")))]
async fn list_rules(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    QueryParams(query): QueryParams<wire::RulesParams>,
) -> JsonResult<wire::RulesResult> {
    rules::list(&state.service, &caller, query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Add a rule with limits. Open asks that it covers are decided at once.
#[utoipa::path(post, path = "/api/v1/rules", request_body = wire::AddRuleParams,
    responses((status = 200, body = wire::AddedRule), (status = 403, description = "operators only"),
        (status = 422, description = "the rule is not understood")))]
async fn add_rule(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::AddRuleParams>,
) -> JsonResult<wire::AddedRule> {
    rules::add(&state.service, caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Remove a remembered rule.
#[utoipa::path(delete, path = "/api/v1/rules/{id}", params(("id" = String, Path)),
    responses((status = 200, body = wire::GrantRow), (status = 403, description = "operators only"),
        (status = 404, description = "unknown rule")))]
async fn remove_rule(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> JsonResult<wire::GrantRow> {
    rules::remove(&state.service, caller, id)
        .await
        .map(|result| wire_json(&state, result))
}

/// Check what the rules say about a tool call.
#[utoipa::path(post, path = "/api/v1/rules/check", request_body = wire::CheckRulesParams,
    responses((status = 200, body = wire::CheckedRules), (status = 403, description = "not for agents")))]
async fn check_rules(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::CheckRulesParams>,
) -> JsonResult<wire::CheckedRules> {
    rules::check(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Test a rule against past decisions.
#[utoipa::path(post, path = "/api/v1/rules/backtest", request_body = wire::BacktestRuleParams,
    responses((status = 200, body = wire::BacktestResult), (status = 403, description = "not for agents"),
        (status = 422, description = "the rule is not understood")))]
async fn backtest_rule(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::BacktestRuleParams>,
) -> JsonResult<wire::BacktestResult> {
    rules::backtest(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Suggest rules for what people always allowed and never denied.
#[utoipa::path(get, path = "/api/v1/rules/suggestions",
    responses((status = 200, body = wire::RuleSuggestions), (status = 403, description = "not for agents")))]
async fn mine_rules(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> JsonResult<wire::RuleSuggestions> {
    let params = wire::SuggestRulesParams::default();
    rules::suggest(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Suggest rules that would allow an ask, narrowest first.
#[utoipa::path(get, path = "/api/v1/approvals/{id}/suggestions", params(("id" = String, Path)),
    responses((status = 200, body = wire::RuleSuggestions), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown approval")))]
async fn suggest_rules(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> JsonResult<wire::RuleSuggestions> {
    let params = wire::SuggestRulesParams {
        approval_id: Some(id),
    };
    rules::suggest(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// List the rule files whose allows do not apply until a person trusts them, with their text.
#[utoipa::path(get, path = "/api/v1/rules/untrusted", params(wire::RulesParams),
    responses((status = 200, body = Vec<wire::UntrustedFileRow>), (status = 403, description = "not for agents")))]
async fn untrusted_rules(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    QueryParams(query): QueryParams<wire::RulesParams>,
) -> JsonResult<Vec<wire::UntrustedFileRow>> {
    rules::list_untrusted(&state.service, &caller, query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Trust what a project's rule file allows, exactly as the file is now.
#[utoipa::path(post, path = "/api/v1/rules/trust", request_body = wire::TrustRulesParams,
    responses((status = 204, description = "trusted"), (status = 403, description = "operators only")))]
async fn trust_rules(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::TrustRulesParams>,
) -> Result<StatusCode, ApiError> {
    rules::trust(&state.service, caller, params)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

/// Allow an agent's asks without a person for a while, or end that.
#[utoipa::path(post, path = "/api/v1/agents/{id}/bypass", params(("id" = String, Path)), request_body = wire::BypassBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent")))]
async fn set_bypass(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::BypassBody>,
) -> JsonResult<HostAgent> {
    rules::set_bypass(&state.service, caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}
