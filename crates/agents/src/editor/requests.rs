//! Requests and notifications of the editor.

use agent_client_protocol_schema::v1::AGENT_METHOD_NAMES as METHODS;
use countersign_core::limits::EDITOR_SESSIONS_MAX;
use countersign_core::{Json, OWN_SERVER};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::client::ClientAbilities;
use super::host_call::{EditorHostCall, HostCallError, PendingCall, refuse};
use super::session::{EditorSession, SessionOpenKind};
use super::{AskedRequest, ConsideredMs, EditorConnection, EditorOutput, EditorTerminals, open};
use crate::acp::envelope::{self, AcpError};
use crate::adapter::RequestId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewParams {
    cwd: String,
    #[serde(default)]
    mcp_servers: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionParams {
    session_id: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListSessionsParams {
    cwd: Option<String>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptParams {
    session_id: String,
    prompt: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModeParams {
    session_id: String,
    mode_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OptionParams {
    session_id: String,
    config_id: String,
    value: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

impl EditorConnection {
    pub(super) fn handle_request(
        &mut self,
        output: &mut EditorOutput,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) {
        match method {
            _ if method == METHODS.initialize => self.initialize(output, &id, params),
            // Nothing to do: who the editor's user is, the host knows from the process.
            _ if method == METHODS.authenticate => output.result(&id, &json!({})),
            _ if method == METHODS.session_new => self.new_session(output, id, params),
            _ if method == METHODS.session_load => {
                self.open_session(output, id, params, SessionOpenKind::Load);
            }
            _ if method == METHODS.session_resume => {
                self.open_session(output, id, params, SessionOpenKind::Resume);
            }
            _ if method == METHODS.session_list => self.list_sessions(output, id, params),
            _ if method == METHODS.session_prompt => self.prompt(output, id, params),
            _ if method == METHODS.session_set_mode => self.set_mode(output, id, params),
            _ if method == METHODS.session_set_config_option => {
                self.set_option(output, id, params);
            }
            _ if method == METHODS.session_close => self.close(output, &id, params),
            _ if method == METHODS.session_delete => self.delete(output, id, params),
            _ => {
                let message = format!("there is no method `{}`", envelope::truncate_noise(method));
                output.error(&id, envelope::METHOD_NOT_FOUND, &message);
            }
        }
    }

    pub(super) fn handle_notification(
        &mut self,
        output: &mut EditorOutput,
        method: &str,
        params: Option<&RawValue>,
    ) {
        let params = params.map_or("null", RawValue::get);
        if method == METHODS.session_cancel {
            if let Ok(SessionParams { session_id }) = serde_json::from_str(params) {
                self.cancel_prompts(output, &session_id);
            }
        } else if method == "$/cancel_request" {
            let named = serde_json::from_str::<CancelParams<'_>>(params).ok();
            let request = named.and_then(|named| envelope::parse_id(named.request_id));
            let session = request.and_then(|request| self.session_of_prompt(&request));
            if let Some(session) = session {
                self.cancel_prompts(output, &session);
            }
        }
    }

    pub(super) fn handle_response(
        &mut self,
        output: &mut EditorOutput,
        about: AskedRequest,
        outcome: Result<&RawValue, AcpError>,
        considered: ConsideredMs,
    ) {
        match about {
            AskedRequest::Permission { session, ask } => {
                self.take_permission(output, &session, &ask, outcome, considered);
            }
            AskedRequest::AskForm { session, ask } => {
                self.take_form(output, &session, &ask, outcome, considered);
            }
            AskedRequest::Window {
                session,
                terminal,
                title,
            } => self.show_window(output, &session, &terminal, &title, outcome),
            AskedRequest::Served {
                session,
                call,
                kind,
            } => self.finish_served(output, &session, call, kind, outcome),
            AskedRequest::Question { session, question } => {
                self.take_answer(output, &session, &question, outcome, considered);
            }
        }
    }

    fn initialize(&mut self, output: &mut EditorOutput, id: &RequestId, params: Option<&RawValue>) {
        let params = params.and_then(|params| serde_json::from_str(params.get()).ok());
        self.client = ClientAbilities::read(&params.unwrap_or(Value::Null));
        let result = json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": true,
                // What is false here is named in a message instead of passed on (`prompt.rs`).
                "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": true, "sse": false},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
            },
            "agentInfo": {
                "name": "countersign",
                "title": "Countersign",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "authMethods": [],
        });
        output.result(id, &result);
    }

    fn new_session(&mut self, output: &mut EditorOutput, id: RequestId, params: Option<&RawValue>) {
        let Some(params) = parse::<NewParams>(output, &id, params) else {
            return;
        };
        if !self.has_room(output, &id) {
            return;
        }
        if self.settings.terminals == EditorTerminals::Editor && !self.client.terminal {
            let message = "`terminals = \"editor\"` is set, and this editor has no terminals";
            return output.error(&id, envelope::INTERNAL_ERROR, message);
        }
        let call = EditorHostCall::StartAgent {
            cwd: params.cwd,
            mcp_servers: mcp_servers(&params.mcp_servers),
        };
        self.call(output, call, PendingCall::NewSession { request: id });
    }

    fn has_room(&self, output: &mut EditorOutput, id: &RequestId) -> bool {
        let has_room = self.sessions.len() < EDITOR_SESSIONS_MAX;
        if !has_room {
            let message = "too many sessions are open here: close some";
            output.error(id, envelope::INTERNAL_ERROR, message);
        }
        has_room
    }

    fn open_session(
        &mut self,
        output: &mut EditorOutput,
        id: RequestId,
        params: Option<&RawValue>,
        kind: SessionOpenKind,
    ) {
        let Some(params) = parse::<SessionParams>(output, &id, params) else {
            return;
        };
        if self.sessions.contains_key(&params.session_id) || self.has_room(output, &id) {
            self.follow(output, params.session_id, id, kind);
        }
    }

    fn list_sessions(
        &mut self,
        output: &mut EditorOutput,
        id: RequestId,
        params: Option<&RawValue>,
    ) {
        // Without parameters it is a list of everything.
        let params = match params {
            None => Some(ListSessionsParams::default()),
            Some(_) => parse(output, &id, params),
        };
        if let Some(ListSessionsParams { cwd, cursor }) = params {
            let after = cursor;
            let call = EditorHostCall::ListAgents { cwd, after };
            self.call(output, call, PendingCall::List { request: id });
        }
    }

    fn prompt(&mut self, output: &mut EditorOutput, id: RequestId, params: Option<&RawValue>) {
        if let Some(params) = parse::<PromptParams>(output, &id, params) {
            self.send_prompt(output, id, params.session_id, &params.prompt);
        }
    }

    fn set_mode(&mut self, output: &mut EditorOutput, id: RequestId, params: Option<&RawValue>) {
        let Some(params) = parse::<ModeParams>(output, &id, params) else {
            return;
        };
        if self.find_open(output, &id, &params.session_id).is_some() {
            self.choose(
                output,
                id,
                json!({}),
                &params.session_id,
                ChosenOption::Mode(params.mode_id),
            );
        }
    }

    fn set_option(&mut self, output: &mut EditorOutput, id: RequestId, params: Option<&RawValue>) {
        let Some(params) = parse::<OptionParams>(output, &id, params) else {
            return;
        };
        let chosen = match (params.config_id.as_str(), params.value) {
            ("mode", Value::String(mode)) => ChosenOption::Mode(mode),
            ("model", Value::String(model)) => ChosenOption::Model(model),
            _ => {
                let message = "no such option, or it does not take this value";
                return output.error(&id, envelope::INVALID_PARAMS, message);
            }
        };
        let Some(opened) = self.find_open(output, &id, &params.session_id) else {
            return;
        };
        // What the agent will be asked for; an update follows if it chose otherwise.
        let mut wanted = opened.choices.clone();
        match &chosen {
            ChosenOption::Mode(mode) => wanted.mode = Some(mode.clone()),
            ChosenOption::Model(model) => wanted.model = Some(model.clone()),
        }
        let answer = json!({"configOptions": open::config_options(&wanted)});
        self.choose(output, id, answer, &params.session_id, chosen);
    }

    fn choose(
        &mut self,
        output: &mut EditorOutput,
        request: RequestId,
        answer: Value,
        session: &str,
        chosen: ChosenOption,
    ) {
        let session = session.to_owned();
        let (mode, model) = match chosen {
            ChosenOption::Mode(mode) => (Some(mode), None),
            ChosenOption::Model(model) => (None, Some(model)),
        };
        let call = EditorHostCall::Configure {
            session,
            mode,
            model,
        };
        self.call(output, call, PendingCall::Choose { request, answer });
    }

    fn close(&mut self, output: &mut EditorOutput, id: &RequestId, params: Option<&RawValue>) {
        if let Some(params) = parse::<SessionParams>(output, id, params) {
            self.forget(output, &params.session_id);
            output.result(id, &json!({}));
        }
    }

    fn delete(&mut self, output: &mut EditorOutput, id: RequestId, params: Option<&RawValue>) {
        if let Some(SessionParams { session_id }) = parse(output, &id, params) {
            let call = EditorHostCall::Archive {
                session: session_id.clone(),
            };
            let pending = PendingCall::Delete {
                request: id,
                session: session_id,
            };
            self.call(output, call, pending);
        }
    }

    /// A session that is open here; the request is refused if there is none.
    pub(super) fn find_open(
        &mut self,
        output: &mut EditorOutput,
        request: &RequestId,
        session: &str,
    ) -> Option<&mut EditorSession> {
        let found = self.sessions.get_mut(session);
        let found = found.filter(|session| session.opening.is_none());
        if found.is_none() {
            let error = HostCallError {
                message: "this session is not open: load or resume it first".to_owned(),
                not_found: true,
            };
            refuse(output, request, &error);
        }
        found
    }
}

enum ChosenOption {
    Mode(String),
    Model(String),
}

/// Reads parameters, or refuses the request.
fn parse<T: DeserializeOwned>(
    output: &mut EditorOutput,
    id: &RequestId,
    params: Option<&RawValue>,
) -> Option<T> {
    let params = params.map_or("null", RawValue::get);
    match serde_json::from_str(params) {
        Ok(params) => Some(params),
        Err(error) => {
            output.error(id, envelope::INVALID_PARAMS, &error.to_string());
            None
        }
    }
}

/// The editor's servers in the form in which agents are given them. What is of no known form is left
/// out.
fn mcp_servers(servers: &[Value]) -> Option<Json> {
    let entries: Map<String, Value> = servers.iter().filter_map(server_entry).collect();
    if entries.is_empty() {
        return None;
    }
    Json::from_value(&Value::Object(entries)).ok()
}

fn server_entry(server: &Value) -> Option<(String, Value)> {
    let name = server.get("name")?.as_str()?.to_owned();
    // Every agent has the host's own server already.
    if name.trim().eq_ignore_ascii_case(OWN_SERVER) {
        return None;
    }
    if let Some(url) = server.get("url") {
        let kind = server.get("type")?.as_str()?;
        let headers = named_values(server.get("headers"));
        return Some((name, json!({"type": kind, "url": url, "headers": headers})));
    }
    let command = server.get("command")?;
    let args = server.get("args").cloned().unwrap_or_else(|| json!([]));
    let env = named_values(server.get("env"));
    Some((name, json!({"command": command, "args": args, "env": env})))
}

/// `[{"name": …, "value": …}]` as an object.
fn named_values(list: Option<&Value>) -> Value {
    let pairs = list.and_then(Value::as_array).into_iter().flatten();
    let pairs = pairs.filter_map(|pair| {
        let name = pair.get("name")?.as_str()?.to_owned();
        Some((name, pair.get("value")?.clone()))
    });
    Value::Object(pairs.collect())
}
