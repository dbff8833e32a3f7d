//! Control requests, both ways: the handshake, mode and model, and asks for permission.
//!
//! Invariants: an ask is answered once; what could not be shown in full cannot be allowed; a yes
//! says what runs; a request that nobody serves is refused at once.

use countersign_core::Json;
use countersign_core::limits::{AGENT_REQUESTS_MAX, JSON_BYTES_MAX, WORD_BYTES_MAX};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::arguments::MODES;
use super::state::{ClaudeAsk, ClaudePhase, ClaudeState};
use super::{ClaudeMessage, messages, wire};
use crate::adapter::{
    AdapterOutput, AgentEvent, AgentWrite, CommandError, PermissionAnswer, PermissionAsk,
    RequestId, SessionReady, SessionSpec, WriteKind,
};
use crate::truncate::{to_bounded_json, truncate, truncate_noise};

/// Says who we are, and says it again if it was said before.
pub(super) fn start(
    state: &mut ClaudeState,
    start: &SessionSpec,
) -> Result<Vec<AgentWrite>, CommandError> {
    if state.phase == ClaudePhase::New {
        // A fork continues another session under an id of its own.
        let known = start.session.clone().filter(|_| !start.fork);
        let Some(session) = known.or(start.new_session.clone()) else {
            let reason = "a new session of it needs an id";
            return Err(CommandError::Unsupported(reason.to_owned()));
        };
        state.session = session;
        state.resumed = start.session.is_some();
        state
            .warnings
            .extend(start.mode.as_deref().and_then(explain_unsafe_mode));
        state.phase = ClaudePhase::Initializing;
    }
    let bytes = wire::request(wire::START, &json!({"subtype": "initialize"}));
    Ok(vec![AgentWrite::own("start", 0, bytes)])
}

/// Why a mode is not for us.
fn explain_unsafe_mode(mode: &str) -> Option<String> {
    let modes = MODES.join(", ");
    let reason = format!("the agent has no mode `{mode}` in which it asks: use one of {modes}");
    (!MODES.contains(&mode)).then_some(reason)
}

/// No session came about.
pub(super) fn fail(state: &mut ClaudeState, output: &mut AdapterOutput, reason: &str) {
    state.phase = ClaudePhase::Failed;
    let message = if state.resumed {
        let session = &state.session;
        format!("the agent could not resume the session `{session}`: {reason}")
    } else {
        format!("the agent could not open a session: {reason}")
    };
    output.events.push(AgentEvent::StartFailed { message });
}

#[derive(Deserialize)]
struct ControlResponse {
    response: ControlOutcome,
}

#[derive(Deserialize)]
struct ControlOutcome {
    subtype: String,
    request_id: String,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    error: Option<String>,
}

impl ControlOutcome {
    fn word(&self, name: &str) -> Option<String> {
        let word = self.response.get(name)?.as_str()?;
        Some(truncate(word, WORD_BYTES_MAX))
    }

    fn failure(&self) -> Option<String> {
        let reason = self.error.as_deref().unwrap_or("it did not say why");
        (self.subtype != "success").then(|| truncate_noise(reason))
    }
}

/// The agent did what it was asked for, or did not.
pub(super) fn handle_response(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let ControlResponse { response } = message.parse()?;
    let id = response.request_id.as_str();
    // The response to a repeated `initialize` comes a second time; `handle_started` ignores it.
    if id == wire::START {
        handle_started(state, output, &response);
    } else if let Some(wanted) = state.pending_choices.remove(id) {
        handle_choice(state, output, &response, wanted);
    }
    Some(())
}

fn handle_started(state: &mut ClaudeState, output: &mut AdapterOutput, response: &ControlOutcome) {
    if state.phase != ClaudePhase::Initializing {
        return;
    }
    if let Some(reason) = response.failure() {
        return fail(state, output, &reason);
    }
    state.phase = ClaudePhase::Open;
    state.mode = response.word("current_permission_mode");
    output.events.push(AgentEvent::Ready(SessionReady {
        session: state.session.clone(),
        // Claude Code keeps each session under the id it was started with.
        resumable: true,
        mode: state.mode.clone(),
        warnings: std::mem::take(&mut state.warnings),
    }));
}

fn handle_choice(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    response: &ControlOutcome,
    wanted: String,
) {
    let is_mode = response.request_id.starts_with("countersign-mode-");
    let kind = if is_mode { "mode" } else { "model" };
    if let Some(reason) = response.failure() {
        let text = format!("the agent's {kind} was not set to `{wanted}`: {reason}");
        return output.record_notice(text);
    }
    let now = Some(response.word(kind).unwrap_or(wanted));
    let (mode, model) = if is_mode { (now, None) } else { (None, now) };
    messages::report_if_changed(state, output, mode, model);
}

/// Sets the mode, unless it is one in which the agent does not ask.
pub(super) fn set_mode(
    state: &mut ClaudeState,
    revision: u32,
    mode: &str,
) -> Result<Vec<AgentWrite>, CommandError> {
    if let Some(reason) = explain_unsafe_mode(mode) {
        return Err(CommandError::Unsupported(reason));
    }
    let request = json!({"subtype": "set_permission_mode", "mode": mode});
    choose(state, "mode", revision, mode, &request)
}

/// Sets the model.
pub(super) fn set_model(
    state: &mut ClaudeState,
    revision: u32,
    model: &str,
) -> Result<Vec<AgentWrite>, CommandError> {
    let request = json!({"subtype": "set_model", "model": model});
    choose(state, "model", revision, model, &request)
}

fn choose(
    state: &mut ClaudeState,
    kind: &str,
    revision: u32,
    wanted: &str,
    request: &Value,
) -> Result<Vec<AgentWrite>, CommandError> {
    if state.phase != ClaudePhase::Open {
        return Err(CommandError::NotReady);
    }
    let id = wire::id(kind, revision);
    let bytes = wire::request(&id, request);
    state.pending_choices.insert(id, wanted.to_owned());
    Ok(vec![AgentWrite::own(kind, revision, bytes)])
}

#[derive(Deserialize)]
struct ControlCancel<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

/// The agent takes an ask back. It waits for no answer any more.
pub(super) fn handle_cancellation(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let cancelled: ControlCancel<'_> = message.parse()?;
    let request = RequestId(cancelled.request_id.get().to_owned());
    if state.pending_asks.remove(&request).is_some() {
        output.withdraw(request);
    }
    Some(())
}

#[derive(Deserialize)]
struct ControlRequest<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
    #[serde(borrow)]
    request: &'a RawValue,
}

#[derive(Deserialize)]
struct RequestSubtype {
    subtype: String,
}

/// The agent wants something of us.
pub(super) fn handle_request(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let requested: ControlRequest<'_> = message.parse()?;
    let id = requested.request_id.get();
    // An id is kept as long as its ask is open, so it has a bound.
    let request = (id.len() <= WORD_BYTES_MAX).then(|| RequestId(id.to_owned()))?;
    let body = requested.request.get();
    let kind: Option<RequestSubtype> = serde_json::from_str(body).ok();
    if kind.is_some_and(|kind| kind.subtype == "can_use_tool") {
        handle_ask(state, output, request, message.line, body);
    } else {
        let bytes = wire::error(&request, "nobody here serves this request");
        let line = AgentWrite::reply_to(message.line, WriteKind::Refused, bytes);
        output.writes.push(line);
    }
    Some(())
}

/// What the agent says of what it asks.
#[derive(Deserialize)]
struct ToolUseRequest<'a> {
    tool_name: String,
    #[serde(borrow)]
    input: &'a RawValue,
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

/// Hands an ask up, unless there is nobody it could be for.
fn handle_ask(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    request: RequestId,
    line: u64,
    body: &str,
) {
    // What cannot be read, or comes when too much is open, is denied: the agent must not wait for
    // ever.
    let wanted = serde_json::from_str::<ToolUseRequest<'_>>(body).ok();
    let is_full = state.pending_asks.len() >= AGENT_REQUESTS_MAX;
    let Some(wanted) = wanted.filter(|_| !is_full && !state.is_interrupted()) else {
        return output.writes.push(encode_withdrawn(&request, line));
    };
    let ask = describe(&request, line, &wanted, body);
    let asked = ClaudeAsk {
        line,
        input: ask.input.clone(),
    };
    // The id of an ask that is still open was used again: the earlier ask cannot be answered any more.
    if state.pending_asks.insert(request.clone(), asked).is_some() {
        output.withdraw(request);
    }
    output.events.push(AgentEvent::Asked(Box::new(ask)));
}

fn describe(
    request: &RequestId,
    line: u64,
    wanted: &ToolUseRequest<'_>,
    body: &str,
) -> PermissionAsk {
    // Read by one who keeps the first of two fields, it would be another input than the one shown.
    let input = to_bounded_json(wanted.input)
        .filter(|input| matches!(input.parse_unique_keys(), Some(Value::Object(_))));
    let fields: Value = serde_json::from_str(wanted.input.get()).unwrap_or_default();
    let description = wanted
        .description
        .as_deref()
        .filter(|description| !description.is_empty());
    let details = details(&wanted.tool_name, &fields, body);
    let call = wanted.tool_use_id.as_deref().unwrap_or(&request.0);
    PermissionAsk {
        request: request.clone(),
        line,
        tool_call: truncate(call, WORD_BYTES_MAX),
        title: match description {
            Some(description) => truncate_noise(description),
            None => messages::title(&wanted.tool_name, &fields),
        },
        tool: Some(truncate(&wanted.tool_name, WORD_BYTES_MAX)),
        can_allow: input.is_some(),
        can_edit: input.is_some(),
        takes_denial_message: true,
        input,
        details,
        binds: Vec::new(),
    }
}

/// What the agent sent besides, and edits as changes, for people. The input stands by itself.
fn details(tool: &str, input: &Value, body: &str) -> Json {
    let mut details = Map::new();
    details.insert("name".to_owned(), json!(truncate_noise(tool)));
    let sent: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    for name in [
        "description",
        "permission_suggestions",
        "blocked_path",
        "decision_reason",
        "mcp_server",
        "agent_id",
    ] {
        if let Some(value) = sent.get(name) {
            details.insert(name.to_owned(), value.clone());
        }
    }
    details.extend(change(input).map(|change| ("diffs".to_owned(), json!([change]))));
    // What does not fit is dropped as a whole: half of it could mislead whoever decides. The input
    // is shown apart from it.
    let all = Json::from_value(&Value::Object(details)).unwrap_or_default();
    if all.text().len() <= JSON_BYTES_MAX {
        return all;
    }
    Json::from_value(&json!({"name": truncate_noise(tool)})).unwrap_or_default()
}

/// What an edit would change, if that is what it is.
fn change(input: &Value) -> Option<Value> {
    let path = input.get("file_path")?.as_str()?;
    let [content, old, new] =
        ["content", "old_string", "new_string"].map(|name| input.get(name).and_then(Value::as_str));
    match (content, old, new) {
        (Some(content), None, None) => Some(json!({"path": path, "newText": content})),
        (None, Some(old), Some(new)) => Some(json!({"path": path, "oldText": old, "newText": new})),
        _ => None,
    }
}

/// Answers an ask.
pub(super) fn answer(
    state: &mut ClaudeState,
    request: &RequestId,
    answer: PermissionAnswer,
) -> Result<Vec<AgentWrite>, CommandError> {
    let Some(ClaudeAsk { line, input: asked }) = state.pending_asks.get(request) else {
        return Err(CommandError::NotWaiting);
    };
    let line = *line;
    let said = match answer {
        PermissionAnswer::Allow { input } => {
            let Some(asked) = asked else {
                let reason = "what it asked could not be shown, so it cannot be allowed";
                return Err(CommandError::Unsupported(reason.to_owned()));
            };
            let bytes = encode_allow(request, input.as_ref().unwrap_or(asked))?;
            AgentWrite::reply_to(line, WriteKind::Allow, bytes)
        }
        PermissionAnswer::Deny { message, stop } => {
            let reason = message.unwrap_or_else(|| "This was not allowed.".to_owned());
            let bytes = encode_deny(request, &reason, stop);
            AgentWrite::reply_to(line, WriteKind::Deny, bytes)
        }
        PermissionAnswer::Cancelled => encode_withdrawn(request, line),
    };
    // Only now: an answer that was refused above leaves the ask open for another.
    state.pending_asks.remove(request);
    Ok(vec![said])
}

/// A yes names what runs, whether it was changed or not.
fn encode_allow(request: &RequestId, input: &Json) -> Result<Vec<u8>, CommandError> {
    let input = input.parse_unique_keys().filter(Value::is_object);
    let reason = "an input must be an object that names each field once";
    let input = input.ok_or_else(|| CommandError::Unsupported(reason.to_owned()))?;
    let response = json!({"behavior": "allow", "updatedInput": input});
    Ok(wire::success(request, &response))
}

fn encode_deny(request: &RequestId, reason: &str, stop: bool) -> Vec<u8> {
    let mut response = json!({"behavior": "deny", "message": reason});
    if stop {
        response["interrupt"] = json!(true);
    }
    wire::success(request, &response)
}

/// The ask went away. The agent has no word for that; the turn ends with it, so that nothing else is
/// tried in its place.
fn encode_withdrawn(request: &RequestId, line: u64) -> AgentWrite {
    let reason = "The ask went away before anybody answered it.";
    AgentWrite::reply_to(
        line,
        WriteKind::Cancelled,
        encode_deny(request, reason, true),
    )
}
