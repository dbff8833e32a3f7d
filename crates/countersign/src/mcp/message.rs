//! Messages as far as a relay has to understand them: what is asked, under which id, and whether it
//! may be asked twice.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Tools that may be called again when nobody knows whether the first call arrived: those that change
/// nothing, those that the host knows by their key, and answers, of which the same one twice is one.
const REPEATABLE: [&str; 16] = [
    "answer_question",
    "ask_orchestrator",
    "list_agents",
    "list_approvals",
    "list_layouts",
    "list_questions",
    "notify_orchestrator",
    "propose_key_binding",
    "propose_layout",
    "propose_theme",
    "read_transcript",
    "request_permission",
    "resolve_approval",
    "save_layout",
    "spawn_agent",
    "wait_for_agents",
];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AgentMessage {
    Request(McpRequest),
    /// It does not want the answer to this one any more.
    Cancelled(String),
    /// Nothing has to be done.
    Other,
    Broken(&'static str),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct McpRequest {
    /// The id as it was written.
    pub(super) id: String,
    pub(super) method: String,
    /// The tool that is called, if one is.
    pub(super) tool: Option<String>,
    /// What its progress is told under, as it was written.
    pub(super) progress_token: Option<String>,
    /// The version of the protocol that it names itself.
    pub(super) version: Option<String>,
}

impl McpRequest {
    /// Whether it may be sent again when nobody knows whether it arrived.
    pub(super) fn is_repeatable(&self) -> bool {
        self.method != "tools/call"
            || self
                .tool
                .as_deref()
                .is_some_and(|tool| REPEATABLE.contains(&tool))
    }
}

#[derive(Deserialize)]
struct RpcEnvelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct McpRequestParams<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "requestId")]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<McpRequestMeta<'a>>,
}

#[derive(Default, Deserialize)]
struct McpRequestMeta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

/// An object, and no list whose places would be taken for fields.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    let is_object = text.trim_start().starts_with('{');
    is_object.then(|| serde_json::from_str(text).ok()).flatten()
}

/// What a line is, as far as it matters here.
pub(super) fn read_agent_message(line: &[u8]) -> AgentMessage {
    let Ok(text) = std::str::from_utf8(line) else {
        return AgentMessage::Broken("the line is not UTF-8");
    };
    let Some(envelope) = object::<RpcEnvelope<'_>>(text) else {
        return AgentMessage::Broken("the line is not a single JSON-RPC message");
    };
    let params = envelope.params.map(RawValue::get);
    // What cannot be read here is left to the host to refuse: it knows the shape of each method.
    let params: McpRequestParams<'_> = params.and_then(object).unwrap_or_default();
    let Some(method) = envelope.method else {
        return AgentMessage::Other;
    };
    let Some(id) = envelope.id else {
        return match params.request_id {
            Some(id) if method == "notifications/cancelled" => {
                AgentMessage::Cancelled(id.get().to_owned())
            }
            _ => AgentMessage::Other,
        };
    };
    let meta = params.meta.unwrap_or_default();
    // Ids and tokens stay as they were written: to the client 1, 1.0 and "1" may be different ones.
    AgentMessage::Request(McpRequest {
        id: id.get().to_owned(),
        tool: params
            .name
            .filter(|_| method == "tools/call")
            .map(Cow::into_owned),
        method: method.into_owned(),
        progress_token: meta.progress_token.map(|token| token.get().to_owned()),
        version: meta.version.map(Cow::into_owned),
    })
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HostMessage {
    Answer,
    /// The host ended before it could answer.
    HostEnds,
    /// A word on how far it is.
    Progress(Option<String>),
    Other,
    Broken,
}

/// What the host says when it ends while somebody waits.
const HOST_ENDS: i64 = -32_099;

#[derive(Deserialize)]
struct HostEnvelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// What a message of the host is, as far as it matters here.
pub(super) fn read_host_message(text: &str) -> HostMessage {
    let Some(reply) = object::<HostEnvelope<'_>>(text) else {
        return HostMessage::Broken;
    };
    match reply.method.as_deref() {
        _ if reply.jsonrpc != "2.0" => HostMessage::Broken,
        None if value(reply.error)["code"] == HOST_ENDS => HostMessage::HostEnds,
        None => HostMessage::Answer,
        Some("notifications/progress") => {
            let message = value(reply.params)["message"].as_str().map(str::to_owned);
            HostMessage::Progress(message)
        }
        Some(_) => HostMessage::Other,
    }
}

fn value(raw: Option<&RawValue>) -> Value {
    let parsed = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
    parsed.unwrap_or_default()
}

/// The version that the host agreed to, in its answer to `initialize`.
pub(super) fn agreed_version(text: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let version = answer.pointer("/result/protocolVersion")?.as_str()?;
    Some(version.to_owned())
}
