//! Asks for permission: joined with what is known of the tool call, answered by the kind of option.
//!
//! Invariants: an ask is answered once, and never with an error, because agents die of one. The
//! agent's own "always" is never chosen: it would outlive us. What could not be shown in full
//! cannot be allowed.

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionResponse,
    SelectedPermissionOutcome,
};
use countersign_core::Json;
use countersign_core::event::TranscriptEntry;
use countersign_core::limits::{ASK_CHANGES_MAX, JSON_BYTES_MAX, OPTIONS_MAX, WORD_BYTES_MAX};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::call::{CallUpdate, ToolCallState};
use super::state::{AcpState, PendingKind, PendingRequest};
use super::{AcpRequest, envelope, tool, translate};
use crate::adapter::{
    AdapterOutput, AgentEvent, AgentWrite, BoundAction, CommandError, PermissionAnswer,
    PermissionAsk, RequestId, WriteKind,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionParams<'a> {
    session_id: String,
    #[serde(borrow)]
    tool_call: &'a RawValue,
    #[serde(default)]
    options: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCallRef {
    tool_call_id: String,
}

/// Hands an ask up, unless there is nobody it could be for.
pub(super) fn handle_request(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    request: &AcpRequest<'_>,
) {
    let params = request.params.map_or("null", RawValue::get);
    let Ok(params) = serde_json::from_str::<PermissionParams<'_>>(params) else {
        return refuse(
            output,
            request,
            "the agent asked for something that cannot be read",
        );
    };
    if !state.is_our_session(&params.session_id) {
        return refuse(output, request, "the agent asked for another session");
    }
    let titled = state
        .titles_are_commands
        .then(|| titled_command(params.tool_call.get()))
        .flatten();
    let call = titled.as_deref().unwrap_or(params.tool_call.get());
    let named = serde_json::from_str(call).ok();
    let named = named.filter(|named: &ToolCallRef| named.tool_call_id.len() <= WORD_BYTES_MAX);
    let Some(ToolCallRef { tool_call_id }) = named else {
        return refuse(
            output,
            request,
            "the agent asked without naming a tool call",
        );
    };
    // The agent may have asked before it read the cancellation. Nobody is left to decide it.
    if state.interrupted {
        let reason = format!("asked after the interrupt, and was told so: {tool_call_id}");
        return refuse(output, request, &reason);
    }
    match serde_json::from_str::<CallUpdate<'_>>(call) {
        Ok(update) => {
            // Agents use their ids again: what is asked about is not what is over.
            let begins = state
                .calls
                .find(&tool_call_id)
                .is_some_and(ToolCallState::is_over);
            translate::learn_tool_call(state, output, &update, begins);
        }
        Err(_) => state.calls.doubt(&tool_call_id),
    }
    let pending = PendingRequest {
        line: request.line,
        kind: pending_permission(&tool_call_id, params.options),
    };
    state.pending.insert(request.id.clone(), pending);
    ask_again_if_changed(state, output, &tool_call_id);
}

/// A call of Gemini CLI's shell with the input that it does not send: its title is the command to the
/// byte, and its text begins with the folder. Nothing for anything else, which is asked about as it is.
fn titled_command(call: &str) -> Option<String> {
    let call: Json = serde_json::from_str(call).ok()?;
    let mut call = call.parse_unique_keys()?;
    let is_shell = call["kind"] == "execute"
        && call["toolCallId"]
            .as_str()?
            .starts_with("run_shell_command");
    if !is_shell || call.get("rawInput").is_some() {
        return None;
    }
    let command = call["title"].as_str().filter(|title| !title.is_empty())?;
    let text = call.pointer("/content/0/content/text")?.as_str()?;
    let mut input = json!({"command": command});
    if !text.starts_with("[current working directory ") {
        input["cwd"] = json!(titled_folder(text)?);
    }
    call["rawInput"] = input;
    Some(call.to_string())
}

/// The folder that a command of Gemini CLI names; nothing where that is not clear, because a folder's
/// name can hold what looks like its end.
fn titled_folder(text: &str) -> Option<&str> {
    let text = text.strip_suffix(" [background]").unwrap_or(text);
    let (folder, rest) = text.strip_prefix("[in ")?.split_once(']')?;
    let is_clear = !rest.contains(']') && (rest.is_empty() || rest.starts_with(" ("));
    is_clear.then_some(folder)
}

/// An ask that was not handed up yet.
fn pending_permission(tool_call: &str, offered: Vec<Value>) -> PendingKind {
    let options = options(offered);
    PendingKind::Permission {
        tool_call: tool_call.to_owned(),
        allow: find_option(&options, PermissionOptionKind::AllowOnce),
        deny: find_option(&options, PermissionOptionKind::RejectOnce),
        asked: String::new(),
        shown: false,
        times: 0,
    }
}

fn find_option(options: &[PermissionOption], kind: PermissionOptionKind) -> Option<String> {
    let found = options.iter().find(|option| option.kind == kind)?;
    Some(found.option_id.0.to_string())
}

fn options(options: Vec<Value>) -> Vec<PermissionOption> {
    // One by one: an option of a kind that we do not know must not hide the others.
    let known = options.into_iter().take(OPTIONS_MAX);
    known
        .filter_map(|option| serde_json::from_value(option).ok())
        .collect()
}

fn refuse(output: &mut AdapterOutput, request: &AcpRequest<'_>, reason: &str) {
    output
        .writes
        .push(encode_cancelled(&request.id, request.line));
    let text = envelope::truncate_noise(reason);
    output.record_notice(text);
}

/// Hands up the asks about a tool call of which more became known than was handed up before.
pub(super) fn ask_again_if_changed(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    tool_call: &str,
) {
    let unknown = ToolCallState::default();
    let call = state.calls.find(tool_call).unwrap_or(&unknown);
    let mut described = None;
    let mut restless = Vec::new();
    for (request, PendingRequest { line, kind }) in &mut state.pending {
        let PendingKind::Permission {
            tool_call: about,
            allow,
            asked,
            shown,
            times,
            ..
        } = kind
        else {
            continue;
        };
        if about != tool_call {
            continue;
        }
        // Described once for all asks about the call: its input may be large.
        let (digest, ask) = described.get_or_insert_with(|| describe(call, tool_call, &state.cwd));
        if digest == asked {
            continue;
        }
        // Each change is asked anew, because nobody judged it. An ask that keeps changing is given up.
        *times += 1;
        if *times > ASK_CHANGES_MAX {
            restless.push((request.clone(), *line));
            continue;
        }
        asked.clone_from(digest);
        *shown = ask.can_allow;
        output
            .events
            .push(AgentEvent::Asked(Box::new(PermissionAsk {
                request: request.clone(),
                line: *line,
                can_allow: ask.can_allow && allow.is_some(),
                ..ask.clone()
            })));
    }
    for (request, line) in restless {
        give_up(state, output, request, line);
    }
}

fn give_up(state: &mut AcpState, output: &mut AdapterOutput, request: RequestId, line: u64) {
    state.pending.remove(&request);
    output.writes.push(encode_cancelled(&request, line));
    let text = "an ask that changed again and again was cancelled".to_owned();
    let notice = TranscriptEntry::Notice { text };
    output.withdraw(request);
    output.record_entry(notice);
}

/// An ask without its request, and the digest by which a change is seen.
fn describe(call: &ToolCallState, tool_call: &str, cwd: &str) -> (String, PermissionAsk) {
    let named = tool::name_tool_call(call, cwd);
    let details = details(call, named.doubt.as_deref());
    let is_shown = details.text().len() <= JSON_BYTES_MAX && call.doubt.is_none();
    let ask = PermissionAsk {
        request: RequestId(String::new()),
        line: 0,
        tool_call: tool_call.to_owned(),
        title: envelope::truncate_noise(call.title.as_deref().unwrap_or_default()),
        tool: named.tool,
        input: named.input.filter(|_| is_shown),
        binds: if is_shown { named.binds } else { Vec::new() },
        can_allow: is_shown,
        can_edit: false,
        takes_denial_message: false,
        details: if is_shown { details } else { too_large(call) },
    };
    let digest = match ask.binds.as_slice() {
        [BoundAction::Run(_)] => command_digest(&ask),
        // The title is left out: agents reword it, and nobody is asked again because of that.
        _ => Json::from_value(&(&ask.tool, &ask.input, &ask.details)).unwrap_or_default(),
    };
    (digest.canonical_digest(), ask)
}

/// What an ask about a command is compared by: what runs and where. Agents describe it in other words
/// while it is open, and add the session's own folder to it.
fn command_digest(ask: &PermissionAsk) -> Json {
    let mut input = ask.input.as_ref().and_then(Json::parse_unique_keys);
    let mut details = ask.details.parse_unique_keys();
    let described = [
        (&mut input, &["description"] as &[&str]),
        (&mut details, &["rawInput", "locations"]),
    ];
    for (value, names) in described {
        if let Some(Value::Object(fields)) = value {
            fields.retain(|name, _| !names.contains(&name.as_str()));
        }
    }
    Json::from_value(&(&ask.tool, input, details)).unwrap_or_default()
}

fn details(call: &ToolCallState, doubt: Option<&str>) -> Json {
    let mut details = serde_json::Map::new();
    if let Some(name) = &call.name {
        details.insert("name".to_owned(), json!(name));
    }
    if let Some(kind) = &call.kind {
        details.insert("kind".to_owned(), json!(kind));
    }
    if let Some(raw) = &call.raw_input {
        let value = serde_json::from_str(raw.text());
        details.insert(
            "rawInput".to_owned(),
            value.unwrap_or_else(|_| json!(raw.text())),
        );
    }
    if !call.diffs.is_empty() {
        details.insert("diffs".to_owned(), json!(call.diffs));
    }
    if !call.locations.is_empty() {
        details.insert("locations".to_owned(), json!(call.locations));
    }
    if let Some(doubt) = doubt {
        details.insert("doubt".to_owned(), json!(doubt));
        // Parsed and printed again, the second of two fields would be gone.
        if let Some(raw) = &call.raw_input {
            details.insert("rawText".to_owned(), json!(raw.text()));
        }
    }
    Json::from_value(&Value::Object(details)).unwrap_or_default()
}

fn too_large(call: &ToolCallState) -> Json {
    let doubt = call.doubt.as_deref();
    let doubt = doubt.unwrap_or("what is asked is too large to be shown, so it cannot be allowed");
    let details = json!({"name": call.name, "kind": call.kind, "doubt": doubt});
    Json::from_value(&details).unwrap_or_default()
}

/// Answers an ask with the option of the kind that was chosen.
pub(super) fn answer(
    state: &mut AcpState,
    request: &RequestId,
    answer: PermissionAnswer,
) -> Result<Vec<AgentWrite>, CommandError> {
    let Some(PendingRequest {
        line,
        kind: PendingKind::Permission {
            allow, deny, shown, ..
        },
    }) = state.pending.get(request)
    else {
        return Err(CommandError::NotWaiting);
    };
    let line = *line;
    let (kind, option, message) = match answer {
        // The protocol has no field for another input, and the agent would run the one it asked
        // for.
        PermissionAnswer::Allow { input: Some(_) } => {
            let reason = "it cannot be told to run something else than it asked";
            return Err(CommandError::Unsupported(reason.to_owned()));
        }
        PermissionAnswer::Allow { input: None } => {
            let Some(option) = allow.clone().filter(|_| *shown) else {
                let reason = "it offers no way to allow this once, or it could not be shown";
                return Err(CommandError::Unsupported(reason.to_owned()));
            };
            (WriteKind::Allow, Some(option), None)
        }
        // Without an option for "not this time" a denial is a cancelled ask: never "always".
        PermissionAnswer::Deny { message, .. } => (WriteKind::Deny, deny.clone(), message),
        PermissionAnswer::Cancelled => (WriteKind::Cancelled, None, None),
    };
    // Only now: an answer that was refused above leaves the ask open for another.
    state.pending.remove(request);
    let bytes = encode_outcome(request, option, message);
    Ok(vec![AgentWrite::reply_to(line, kind, bytes)])
}

/// The answer that means neither yes nor no.
pub(super) fn encode_cancelled(request: &RequestId, line: u64) -> AgentWrite {
    AgentWrite::reply_to(
        line,
        WriteKind::Cancelled,
        encode_outcome(request, None, None),
    )
}

/// Words travel in `_meta`, which agents that do not know them leave aside.
fn encode_outcome(request: &RequestId, option: Option<String>, message: Option<String>) -> Vec<u8> {
    let outcome = match option {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option)),
        None => RequestPermissionOutcome::Cancelled,
    };
    let response = RequestPermissionResponse::new(outcome);
    // A plain structure of texts always prints; were it not so, a cancelled ask is the safe reading.
    let mut result = serde_json::to_value(response)
        .unwrap_or_else(|_| json!({"outcome": {"outcome": "cancelled"}}));
    if let Some(message) = message {
        result["_meta"] = json!({"countersign": {"message": message}});
    }
    envelope::result(request, &result)
}
