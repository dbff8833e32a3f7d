//! Proposals of orchestrators about the screens of the person who runs the host: each is an ask.
//!
//! Invariants: nothing changes before the ask was allowed; what is kept is the input of that ask, or what the person
//! made of it; an ask that was allowed changes something once, however often its call is repeated.

use std::sync::Arc;

use countersign_core::event::ApprovalOutcome;
use countersign_core::limits::{MANAGED_ASK_TIMEOUT_MS, MCP_TEXT_BYTES_MAX};
use countersign_core::own_tool_name;
use countersign_protocol::{Raw, Reason, RequestApprovalParams};
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::to_raw_value;

use super::call::ToolCall;
use super::permission::ask_and_wait;
use super::reply::{ToolFailure, ToolReply, ToolResult, one_line, quoted};
use super::tools::NoArguments;
use crate::ScreenFiles;
use crate::api_error::ApiError;
use crate::ops;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct LayoutArguments {
    /// Letters, digits, - and _.
    name: String,
    /// The layout as TOML: tabs with splits, stacks and panels, as `list_layouts` shows them.
    layout: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ThemeArguments {
    /// Letters, digits, - and _.
    name: String,
    /// TOML with a line for each role, such as: ask = { light = \"#8a4b00\", dark = \"#e8b86d\" }. Roles: text dim
    /// strong focus select allow ask deny warn good bad link mark added removed border. Contrast must be 4.5 or more.
    theme: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct KeyArguments {
    /// The command, by its id, such as go.feed.
    command: String,
    /// Its keys, such as Ctrl-x, or keys one after the other such as Ctrl-x f.
    keys: Vec<String>,
}

pub(super) async fn propose_layout(call: &ToolCall<'_>, arguments: LayoutArguments) -> ToolResult {
    propose(call, "propose_layout", &arguments).await
}

pub(super) async fn save_layout(call: &ToolCall<'_>, arguments: LayoutArguments) -> ToolResult {
    propose(call, "save_layout", &arguments).await
}

pub(super) async fn propose_theme(call: &ToolCall<'_>, arguments: ThemeArguments) -> ToolResult {
    propose(call, "propose_theme", &arguments).await
}

pub(super) async fn propose_key_binding(
    call: &ToolCall<'_>,
    arguments: KeyArguments,
) -> ToolResult {
    propose(call, "propose_key_binding", &arguments).await
}

pub(super) async fn list_layouts(call: &ToolCall<'_>, _: NoArguments) -> ToolResult {
    let files = screen_files(call)?;
    let layouts = run_blocking(move || Ok(files.layouts())).await?;
    let names: Vec<String> = layouts
        .iter()
        .map(|layout| one_line(&layout.name))
        .collect();
    let mut room = MCP_TEXT_BYTES_MAX;
    let rows = layouts.iter().map(|layout| {
        // As many whole texts as fit: half a layout is none.
        let text = Some(quoted(&layout.text)).filter(|text| text.len() <= room);
        room -= text.as_ref().map_or(0, String::len);
        json!({ "name": one_line(&layout.name), "built_in": layout.is_built_in, "layout": text })
    });
    let rows: Vec<_> = rows.collect();
    Ok(ToolReply::new(
        format!("{} layouts: {}", names.len(), names.join(", ")),
        json!({ "layouts": rows }),
    ))
}

async fn propose(call: &ToolCall<'_>, tool: &str, arguments: &impl Serialize) -> ToolResult {
    let files = screen_files(call)?;
    let tool = own_tool_name(tool);
    let input = to_raw_value(arguments).map_err(|error| ApiError::invalid(&error))?;
    let action = {
        let (files, tool, input) = (Arc::clone(&files), tool.clone(), input.get().to_owned());
        run_blocking(move || files.check(&tool, &input)).await?
    };
    let (cwd, timeout_ms) = ops::parent::ask_defaults(call.service(), &call.caller).await;
    let params = RequestApprovalParams {
        action: one_line(&action),
        tool: Some(tool.clone()),
        input: Some(Raw(input.into())),
        cwd,
        idempotency_key: call.key(),
        timeout_ms: Some(timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS)).filter(|ms| *ms > 0),
        ..RequestApprovalParams::default()
    };
    let approval = ask_and_wait(call, params).await?;
    let ending = approval.ended.as_ref().map(|ended| &ended.ending);
    let Some(ending) = ending.filter(|ending| ending.outcome == ApprovalOutcome::Allowed) else {
        let message = ops::parent::refusal(&approval);
        return Err(ApiError::refused(Reason::AgentNotAllowed, message).into());
    };
    // From the record and not from the call: a repeated key finds the ask that was decided.
    let allowed = ending.edited_input.as_ref().or(approval.ask.input.as_ref());
    let allowed = allowed
        .map(|input| input.text().to_owned())
        .unwrap_or_default();
    let tool = approval.ask.tool.clone().unwrap_or_default();
    let ask = approval.ask.id.to_string();
    let done = run_blocking(move || files.apply(&ask, &tool, &allowed)).await?;
    Ok(ToolReply::new(one_line(&done), json!({ "applied": true })))
}

fn screen_files(call: &ToolCall<'_>) -> Result<Arc<dyn ScreenFiles>, ToolFailure> {
    call.state.screen_files.clone().ok_or_else(|| {
        let message = "this host keeps no settings of screens";
        ApiError::refused(Reason::AgentNotAllowed, message).into()
    })
}

/// Reads or writes files outside the loop that serves the doors.
async fn run_blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, ToolFailure> {
    let done = tokio::task::spawn_blocking(act).await;
    let done = done.unwrap_or_else(|_| Err("the settings could not be read".to_owned()));
    done.map_err(|why| ApiError::plain(Reason::InvalidParams, one_line(&why)).into())
}
