//! The handshake: `initialize`, opening a session, and setting its mode and model.
//!
//! Invariants: [`SessionReady`] is reported once, after everything that was asked for was done or became
//! a warning; a failure says what a person can do about it.

use std::collections::BTreeSet;

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES as METHODS, AuthMethod, InitializeResponse,
};
use countersign_core::Json;
use countersign_core::limits::{AGENT_CHOICES_MAX, WORD_BYTES_MAX};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::choice;
use super::envelope::{self, AcpError};
use super::state::{
    AcpPhase, AcpState, AgentAbilities, PromptAbilities, SentRequest, SessionSetup,
};
use crate::adapter::{
    AdapterOutput, AgentEvent, AgentReport, AgentWrite, CommandError, McpServer, SessionReady,
    SessionSpec, WriteKind,
};
use crate::catalog;
use crate::claude::server_entries;

/// Says who we are, and says it again if it was said before.
pub(super) fn start(
    state: &mut AcpState,
    start: SessionSpec,
) -> Result<Vec<AgentWrite>, CommandError> {
    if state.phase == AcpPhase::New {
        begin(state, start)?;
    }
    let params = json!({
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": true, "writeTextFile": true},
            "terminal": true,
            "elicitation": {"form": {}},
            "session": {"compaction": {}, "notices": {}},
        },
        "clientInfo": {
            "name": "countersign",
            "title": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
        },
    });
    let bytes = envelope::request(SentRequest::Initialize.id(), METHODS.initialize, &params);
    // Always under one id: the runner writes it once, however many hosts say it.
    Ok(vec![AgentWrite::own("start", 0, bytes)])
}

fn begin(state: &mut AcpState, start: SessionSpec) -> Result<(), CommandError> {
    let Some(cwd) = start.cwd.to_str().filter(|_| start.cwd.is_absolute()) else {
        let reason = "its folder is not absolute or not text";
        return Err(CommandError::Unsupported(reason.to_owned()));
    };
    if start.fork {
        let reason = "a session cannot be begun from another through its protocol";
        return Err(CommandError::Unsupported(reason.to_owned()));
    }
    cwd.clone_into(&mut state.cwd);
    state.opening = SessionSetup {
        session: start.session,
        mode: start.mode,
        model: start.model,
        system_prompt: start.system_prompt,
        allowed_tools: start.allowed_tools,
        disallowed_tools: start.disallowed_tools,
        mcp_servers: start.mcp_servers,
        given_servers: start.given_servers,
    };
    state.phase = AcpPhase::Initializing;
    state.record_sent(SentRequest::Initialize);
    Ok(())
}

fn fail(state: &mut AcpState, output: &mut AdapterOutput, message: String) {
    state.phase = AcpPhase::Failed;
    state.opening = SessionSetup::default();
    state.abilities = AgentAbilities::default();
    output.events.push(AgentEvent::StartFailed { message });
}

/// The agent said what it can do: the session is opened.
pub(super) fn handle_initialize_response(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    line: u64,
    outcome: Result<&RawValue, AcpError>,
) {
    let result = match outcome {
        Ok(result) => result,
        Err(failure) => {
            let message = format!("the agent refused to begin: {}", failure.describe());
            return fail(state, output, message);
        }
    };
    let Ok(response) = serde_json::from_str::<InitializeResponse>(result.get()) else {
        let answer = envelope::truncate_noise(result.get());
        let message = format!("the agent's first answer cannot be read: {answer}");
        return fail(state, output, message);
    };
    let version = response.protocol_version.as_u16();
    if version != 1 {
        let message = format!(
            "the agent speaks version {version} of the protocol, and only version 1 is supported"
        );
        return fail(state, output, message);
    }
    // The schema's type has no place for this capability yet.
    let has_system_prompt = serde_json::from_str::<Value>(result.get()).is_ok_and(|value| {
        value
            .pointer("/agentCapabilities/sessionCapabilities/systemPrompt")
            .is_some_and(Value::is_object)
    });
    let agent = response.agent_info.as_ref().map(|info| info.name.as_str());
    state.titles_are_commands = agent.is_some_and(catalog::sends_commands_as_titles);
    let prompt = &response.agent_capabilities.prompt_capabilities;
    state.prompt_abilities = PromptAbilities {
        image: prompt.image,
        embedded_context: prompt.embedded_context,
    };
    state.abilities = AgentAbilities {
        load: response.agent_capabilities.load_session,
        resume: response
            .agent_capabilities
            .session_capabilities
            .resume
            .is_some(),
        system_prompt: has_system_prompt,
        mcp_http: response.agent_capabilities.mcp_capabilities.http,
        name: response.agent_info.map(|info| word(&info.name)),
        logins: logins(&response.auth_methods),
    };
    open_session(state, output, line);
}

fn word(text: &str) -> String {
    envelope::truncate(text, WORD_BYTES_MAX)
}

fn logins(methods: &[AuthMethod]) -> Vec<String> {
    let names = methods.iter().take(AGENT_CHOICES_MAX);
    names
        .filter_map(|method| {
            let method = serde_json::to_value(method).ok()?;
            Some(word(method.get("name")?.as_str()?))
        })
        .collect()
}

/// The servers as the protocol has them.
fn servers(servers: &[McpServer]) -> Vec<Value> {
    let servers = servers.iter().map(|server| {
        json!({"name": server.name, "command": server.command, "args": server.args, "env": []})
    });
    servers.collect()
}

/// Claude's adapter copies only some fields of the protocol's servers, and without `alwaysLoad` the
/// model is not offered their tools. It takes whole entries in its options, unless the protocol's list
/// has the same name.
fn add_servers(state: &mut AcpState, params: &mut Value) {
    let given = given_servers(state);
    let own = &state.opening.mcp_servers;
    if state.abilities.is_claude() && !own.is_empty() {
        params["mcpServers"] = json!(given);
        params["_meta"]["claudeCode"]["options"]["mcpServers"] = json!(server_entries(own));
    } else {
        let own = servers(own);
        params["mcpServers"] = json!(given.into_iter().chain(own).collect::<Vec<_>>());
    }
}

/// The servers that a person gave, as the protocol has them; a warning for each that the agent cannot
/// reach.
fn given_servers(state: &mut AcpState) -> Vec<Value> {
    let given = state.opening.given_servers.take();
    let given = given.as_ref().and_then(Json::parse_unique_keys);
    let Some(Value::Object(given)) = given else {
        return Vec::new();
    };
    let mut servers = Vec::new();
    for (name, entry) in given {
        if let Some(server) = given_server(&name, &entry, state.abilities.mcp_http) {
            servers.push(server);
        } else {
            let name = envelope::truncate_noise(&name);
            let warning =
                format!("the MCP server `{name}` was not passed on: the agent cannot reach it");
            state.warnings.push(warning);
        }
    }
    servers
}

fn given_server(name: &str, entry: &Value, has_http: bool) -> Option<Value> {
    if let Some(command) = entry.get("command") {
        let args = entry.get("args").cloned().unwrap_or_else(|| json!([]));
        let env = list_pairs(entry.get("env"));
        return Some(json!({"name": name, "command": command, "args": args, "env": env}));
    }
    let is_http = entry.get("type").and_then(Value::as_str) == Some("http");
    let url = entry.get("url").filter(|_| is_http && has_http)?;
    let headers = list_pairs(entry.get("headers"));
    Some(json!({"type": "http", "name": name, "url": url, "headers": headers}))
}

/// What configuration files write as a map, as the list of names and values that ACP takes.
fn list_pairs(map: Option<&Value>) -> Vec<Value> {
    map.and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

fn open_session(state: &mut AcpState, output: &mut AdapterOutput, line: u64) {
    let mut params = json!({"cwd": state.cwd});
    add_servers(state, &mut params);
    add_system_prompt(state, &mut params);
    add_tool_options(state, &mut params);
    let method = match (&state.opening.session, &state.abilities) {
        (None, _) => METHODS.session_new,
        // Resuming rather than loading where both are offered: a load replays the whole session.
        (Some(_), abilities) if abilities.resume => METHODS.session_resume,
        (Some(_), abilities) if abilities.load => METHODS.session_load,
        (Some(_), _) => {
            let message = "the agent cannot resume an earlier session: start a new one";
            return fail(state, output, message.to_owned());
        }
    };
    if let Some(session) = &state.opening.session {
        params["sessionId"] = json!(session);
        // Before the response: a load replays updates of this session while it is being opened.
        state.session = Some(session.clone());
    }
    state.phase = if method == METHODS.session_load {
        AcpPhase::Replaying
    } else {
        AcpPhase::Opening
    };
    let id = state.record_sent(SentRequest::OpenSession);
    let bytes = envelope::request(id, method, &params);
    output
        .writes
        .push(AgentWrite::reply_to(line, WriteKind::Unspecified, bytes));
}

fn add_system_prompt(state: &mut AcpState, params: &mut Value) {
    let Some(text) = &state.opening.system_prompt else {
        return;
    };
    if state.abilities.system_prompt {
        let content = json!([{"type": "text", "text": text}]);
        params["systemPrompt"] = json!({"mode": "append", "content": content});
    } else if state.abilities.is_claude() {
        params["_meta"]["systemPrompt"] = json!({"append": text});
    } else {
        let warning = "the agent has no place for a system prompt".to_owned();
        state.warnings.push(warning);
    }
}

/// Tools that Claude uses without a word where it finds them harmless. It is to ask about all of
/// them, so that our denies hold for them too; what its own settings allow, our rules read.
const CLAUDE_ASKS: [&str; 9] = [
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "NotebookEdit",
    "Read",
    "WebFetch",
    "WebSearch",
    "Write",
];

fn add_tool_options(state: &mut AcpState, params: &mut Value) {
    let opening = &state.opening;
    let is_claude = state.abilities.is_claude();
    if is_claude {
        let options = &mut params["_meta"]["claudeCode"]["options"];
        // A hook could answer an ask before anybody here does, and a repository can bring one along.
        options["settings"] = json!({"permissions": {"ask": CLAUDE_ASKS}, "disableAllHooks": true});
        // Whether anything is let through without an ask is decided here alone.
        options["allowDangerouslySkipPermissions"] = json!(false);
    }
    if opening.allowed_tools.is_empty() && opening.disallowed_tools.is_empty() {
        return;
    }
    if !is_claude {
        let warning = "the agent cannot be told which tools to use: only rules hold for it";
        state.warnings.push(warning.to_owned());
        return;
    }
    let options = &mut params["_meta"]["claudeCode"]["options"];
    // `tools` is what there is, by name. `allowedTools` would be what runs without an ask.
    if !opening.allowed_tools.is_empty() {
        let names: BTreeSet<&str> = opening
            .allowed_tools
            .iter()
            .map(|tool| tool.split('(').next().unwrap_or_default())
            .collect();
        options["tools"] = json!(names);
    }
    if !opening.disallowed_tools.is_empty() {
        options["disallowedTools"] = json!(opening.disallowed_tools);
    }
}

/// What is said of a session when it is open, or when its options changed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionInfo {
    #[serde(default)]
    pub(super) session_id: Option<String>,
    #[serde(default)]
    pub(super) modes: Option<Value>,
    #[serde(default)]
    pub(super) models: Option<Value>,
    #[serde(default)]
    pub(super) config_options: Option<Vec<Value>>,
}

/// The session is open, or is not.
pub(super) fn handle_session_response(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    line: u64,
    outcome: Result<&RawValue, AcpError>,
) {
    let result = match outcome {
        Ok(result) => result,
        Err(failure) => {
            let message = refusal(state, &failure);
            return fail(state, output, message);
        }
    };
    // The response to a load may be `null`.
    let opened: SessionInfo = serde_json::from_str(result.get()).unwrap_or_default();
    // A session that was resumed keeps the id it is known by, whatever the response names.
    if state.session.is_none() {
        state.session = opened.session_id;
    }
    if state
        .session
        .as_ref()
        .is_none_or(|session| session.len() > WORD_BYTES_MAX)
    {
        let message = "the agent opened a session without a usable id".to_owned();
        return fail(state, output, message);
    }
    // What was replayed belongs to earlier turns.
    state.calls.close();
    let offers = choice::read_choices(state, opened.modes, opened.models, opened.config_options);
    if !offers.is_empty() {
        output.report(AgentReport {
            model: state.models.current.clone(),
            offers,
            ..AgentReport::default()
        });
    }
    state.phase = AcpPhase::Configuring;
    // Both go out as one thing, because only one thing is said about a line.
    let bytes = choice::configure(state);
    if !bytes.is_empty() {
        output
            .writes
            .push(AgentWrite::reply_to(line, WriteKind::Unspecified, bytes));
    }
    finish_if_configured(state, output);
}

fn refusal(state: &AcpState, failure: &AcpError) -> String {
    let reason = failure.describe();
    let is_login = failure.code == envelope::AUTH_REQUIRED;
    match (&state.opening.session, is_login) {
        (_, true) => {
            let logins = &state.abilities.logins;
            let ways = if logins.is_empty() {
                String::new()
            } else {
                format!(" ({})", logins.join(", "))
            };
            format!(
                "the agent wants you to log in first{ways}: start it by itself in a terminal and \
                 log in, or put its key into its environment, then start it here again; it says: {reason}"
            )
        }
        (Some(session), _) if failure.code == envelope::RESOURCE_NOT_FOUND => {
            format!("the agent no longer knows the session `{session}`: {reason}")
        }
        (Some(_), _) => format!("the agent could not resume its session: {reason}"),
        (None, _) => format!("the agent could not open a session: {reason}"),
    }
}

/// Everything that was asked for was done or became a warning.
pub(super) fn finish_if_configured(state: &mut AcpState, output: &mut AdapterOutput) {
    let is_busy = state.sent.values().any(|ours| {
        matches!(
            ours,
            SentRequest::SetMode { .. } | SentRequest::SetModel { .. }
        )
    });
    if state.phase != AcpPhase::Configuring || is_busy {
        return;
    }
    state.phase = AcpPhase::Open;
    let abilities = std::mem::take(&mut state.abilities);
    state.opening = SessionSetup::default();
    output.events.push(AgentEvent::Ready(SessionReady {
        session: state.session.clone().unwrap_or_default(),
        resumable: abilities.load || abilities.resume,
        mode: state.modes.current.clone(),
        warnings: std::mem::take(&mut state.warnings),
    }));
}
