//! JSON-RPC: one line per method, each calling the operation it is named for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::Caller;
use countersign_protocol as wire;
use countersign_protocol::{ErrorCode, Reason};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::CallerConnection;
use crate::ops;
use crate::ops::hook;
use crate::ops::{managed, rules};
use crate::strict;

/// The host wire's own methods: clients in the field may send fields that ours does not know, and
/// parameters that are no object. All other methods refuse both.
const LENIENT_METHODS: [&str; 16] = [
    "session.auth",
    "server.handshake",
    "host.subscribe",
    "host.agents",
    "host.events",
    "host.approvals",
    "host.register_agent",
    "host.unregister_agent",
    "host.set_status",
    "host.register_device",
    "host.update_device",
    "host.devices",
    "host.notify",
    "host.request_approval",
    "host.resolve_approval",
    "host.dismiss_approval",
];

/// The parameters of a method that takes none.
#[derive(serde::Deserialize)]
struct NoParams {}

/// One request, taken apart.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    /// Its parameters as JSON text.
    pub(crate) params: Option<&'a str>,
    /// Its id as JSON text, given back as it came.
    pub(crate) id: &'a str,
    /// Whether the calling connection reads events.
    pub(crate) subscribed: bool,
}

/// Serves one request and gives back the reply's frame. Every request gets one.
pub(crate) async fn serve(state: &ServerState, caller: Caller, call: Call<'_>) -> String {
    dispatch(state, caller, &call)
        .await
        .unwrap_or_else(|error| failure(call.id, error))
}

/// Serves a hook: the one method that needs to know the process at the other end.
pub(crate) async fn serve_hook(
    state: &Arc<ServerState>,
    connection: &Arc<CallerConnection>,
    call: Call<'_>,
) -> String {
    let served = async {
        let (tool, params) = call.split_optional("hook")?;
        let tool = tool.as_deref().unwrap_or(hook::USUAL_TOOL);
        call.reply(hook::hook(state, connection, tool, params).await?)
    };
    served.await.unwrap_or_else(|error| failure(call.id, error))
}

/// The few methods that agents and their answers live by; the rest is one allocation further.
async fn dispatch(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    match call.method {
        "host.request_approval" => request_approval(state, caller, call).await,
        "host.resolve_approval" => resolve_approval(state, caller, call).await,
        "host.notify" => notify(state, caller, call).await,
        _ => Box::pin(dispatch_other(state, caller, call)).await,
    }
}

async fn dispatch_other(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let service = &state.service;
    match call.method {
        "host.agents" => call.reply(ops::agents(service, &caller).await?),
        "host.events" => call.reply(ops::events(service, &caller, call.optional()?).await?),
        "host.approvals" => call.reply(ops::approvals(service, &caller, call.optional()?).await?),
        "host.approval" => call.reply(ops::approval(service, &caller, call.approval_id()?).await?),
        "host.register_agent" => {
            call.reply(ops::register_agent(service, caller, call.params()?).await?)
        }
        "host.unregister_agent" => {
            call.done(ops::unregister_agent(service, caller, call.agent_id()?).await?)
        }
        "host.set_status" => set_status(state, caller, call).await,
        "host.register_device" => {
            call.reply(ops::register_device(service, caller, call.params()?).await?)
        }
        "host.update_device" => {
            call.reply(ops::update_device(service, caller, call.params()?).await?)
        }
        "host.devices" => devices(state, &caller, call).await,
        "host.cancel_approval" => cancel_approval(state, caller, call).await,
        "host.wait_approval" => wait_approval(state, &caller, call).await,
        "host.dismiss_approval" => dismiss_approval(state, caller, call).await,
        "host.questions" => call.reply(ops::questions(service, &caller, call.optional()?).await?),
        "host.question" => call.reply(ops::question(service, &caller, call.question_id()?).await?),
        "host.ask_question" => {
            call.reply(ops::ask_question(service, caller, call.params()?).await?)
        }
        "host.answer_question" => answer_question(state, caller, call).await,
        "host.wait_question" => wait_question(state, &caller, call).await,
        "host.stop_all" => {
            call.take_nothing()?;
            call.reply(ops::stop_all(service, caller).await?)
        }
        "host.create_token" => {
            call.reply(ops::create_token(service, caller, call.params()?).await?)
        }
        "host.create_endless_token" => {
            call.reply(ops::create_endless_token(service, caller, call.params()?).await?)
        }
        "host.tokens" => {
            call.take_nothing()?;
            call.reply(ops::tokens(service, &caller).await?)
        }
        "host.revoke_token" => {
            call.done(ops::revoke_token(service, caller, call.token_id()?).await?)
        }
        "host.create_ticket" => {
            call.take_nothing()?;
            call.reply(state.create_ticket(&caller)?)
        }
        "host.redact_event" => call.reply(ops::redact(service, caller, call.params()?).await?),
        "host.prune_events" => call.reply(ops::prune(service, caller, call.params()?).await?),
        "host.rescue_record" => call.reply(state.rescue_record(&caller, call.params()?).await?),
        "host.status" => {
            call.take_nothing()?;
            call.reply(state.status(&caller).await?)
        }
        "host.shutdown" => call.done(state.shut_down(&caller, call.optional()?).await?),
        _ => dispatch_rules(state, caller, call).await,
    }
}

async fn dispatch_rules(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let service = &state.service;
    match call.method {
        "host.rules" => call.reply(rules::rules(service, &caller, call.optional()?).await?),
        "host.add_rule" => call.reply(rules::add_rule(service, caller, call.params()?).await?),
        "host.remove_rule" => remove_rule(state, caller, call).await,
        "host.check_rules" => {
            call.reply(rules::check_rules(service, &caller, call.params()?).await?)
        }
        "host.backtest_rule" => {
            call.reply(rules::backtest_rule(service, &caller, call.params()?).await?)
        }
        "host.suggest_rules" => {
            call.reply(rules::suggest_rules(service, &caller, call.optional()?).await?)
        }
        "host.trust_rules" => call.done(rules::trust_rules(service, caller, call.params()?).await?),
        "host.notify_parent" => {
            call.done(ops::notify_parent(service, caller, call.params()?).await?)
        }
        "host.set_bypass" => call.reply(rules::set_bypass(service, caller, call.params()?).await?),
        _ => dispatch_managed(state, &caller, call).await,
    }
}

async fn dispatch_managed(
    state: &ServerState,
    caller: &Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let service = &state.service;
    match call.method {
        "host.spawn_agent" => call.reply(managed::spawn(service, caller, call.params()?).await?),
        "host.prompt_agent" => {
            let (agent_id, body) = call.split("agent_id")?;
            call.reply(managed::prompt(service, caller, agent_id, body).await?)
        }
        "host.interrupt_agent" => {
            let (agent_id, body) = call.split("agent_id")?;
            call.reply(managed::interrupt(service, caller, agent_id, body).await?)
        }
        "host.kill_agent" => {
            let (agent_id, body) = call.split("agent_id")?;
            call.reply(managed::kill(service, caller, agent_id, body).await?)
        }
        "host.set_ceiling" => {
            let (agent_id, body) = call.split("agent_id")?;
            call.reply(managed::set_ceiling(service, caller, agent_id, body).await?)
        }
        "host.resume_agent" => {
            call.reply(managed::resume(service, caller, call.agent_id()?).await?)
        }
        "host.fork_agent" => {
            let (agent_id, body) = call.split("agent_id")?;
            call.reply(managed::fork(service, caller, agent_id, body).await?)
        }
        "host.archive_agent" => {
            let (agent_id, body) = call.split("agent_id")?;
            call.reply(managed::archive(service, caller, agent_id, body).await?)
        }
        "host.rename_agent" => {
            let (agent_id, body) = call.split("agent_id")?;
            call.reply(managed::rename(service, caller, agent_id, body).await?)
        }
        "host.configure_agent" => {
            let (agent_id, body) = call.split("agent_id")?;
            call.reply(managed::configure(service, caller, agent_id, body).await?)
        }
        "host.wait_idle" => call.reply(managed::wait_idle(service, caller, call.params()?).await?),
        "host.transcript" => {
            let (agent_id, page) = call.split("agent_id")?;
            call.reply(managed::transcript(service, caller, agent_id, page).await?)
        }
        "host.agent_diff" => call.reply(managed::diff(service, caller, call.agent_id()?).await?),
        "host.remove_worktree" => {
            let (agent_id, query) = call.split("agent_id")?;
            call.reply(managed::remove_worktree(service, caller, agent_id, &query).await?)
        }
        "host.catalog" => {
            call.take_nothing()?;
            call.reply(managed::catalog(service, caller)?)
        }
        unknown => Err(unknown_method(unknown)),
    }
}

fn unknown_method(method: &str) -> ApiError {
    let start: String = method.chars().take(100).collect();
    let words = format!("unknown method '{start}'");
    ApiError::new(ErrorCode::UnknownMethod, Reason::InvalidParams, words)
}

async fn set_status(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let params: wire::SetStatusParams = call.params()?;
    call.reply(ops::set_status(&state.service, caller, params.agent_id, params.status).await?)
}

async fn devices(
    state: &ServerState,
    caller: &Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    ops::refuse_agents(caller)?;
    call.reply(ops::devices(&state.service).await?)
}

async fn notify(state: &ServerState, caller: Caller, call: &Call<'_>) -> Result<String, ApiError> {
    call.reply(ops::notify(&state.service, caller, call.optional()?).await?)
}

async fn request_approval(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    call.reply(
        ops::request_approval(
            &state.service,
            caller,
            Some(call.subscribed),
            call.params()?,
        )
        .await?,
    )
}

async fn resolve_approval(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let params: wire::ResolveApprovalParams = call.params()?;
    call.reply(
        ops::resolve_approval(&state.service, caller, params.approval_id, params.body).await?,
    )
}

async fn cancel_approval(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let params: wire::CancelApprovalParams = call.params()?;
    call.reply(
        ops::cancel_approval(&state.service, caller, params.approval_id, params.message).await?,
    )
}

async fn remove_rule(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let params: wire::RemoveRuleParams = call.params()?;
    call.reply(rules::remove_rule(&state.service, caller, params.id).await?)
}

async fn wait_approval(
    state: &ServerState,
    caller: &Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let params: wire::WaitApprovalParams = call.params()?;
    let limit = params.timeout_ms.map(Duration::from_millis);
    call.reply(ops::wait_approval(&state.service, caller, params.approval_id, limit).await?)
}

async fn dismiss_approval(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    // The one method whose bad parameters have the code that JSON-RPC names for them.
    let params: wire::ApprovalParams = call.params().map_err(ApiError::into_invalid_params)?;
    let approval = ops::dismiss_approval(&state.service, caller, params.approval_id).await?;
    call.reply(serde_json::json!({ "dismissed": true, "approval": approval }))
}

async fn answer_question(
    state: &ServerState,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let params: wire::AnswerQuestionParams = call.params()?;
    call.reply(
        ops::answer_question(&state.service, caller, params.question_id, params.answer).await?,
    )
}

async fn wait_question(
    state: &ServerState,
    caller: &Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let params: wire::WaitQuestionParams = call.params()?;
    let limit = params.timeout_ms.map(Duration::from_millis);
    call.reply(ops::wait_question(&state.service, caller, params.question_id, limit).await?)
}

impl Call<'_> {
    fn is_lenient(&self) -> bool {
        LENIENT_METHODS.contains(&self.method)
    }

    /// Parameters that must be there.
    pub(crate) fn params<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.read(self.params.unwrap_or("{}"))
    }

    /// Parameters that may be missing, null, or something older clients put there to be ignored.
    pub(crate) fn optional<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let text = self.params.unwrap_or("{}");
        let absent = text == "null" || (self.is_lenient() && !text.starts_with('{'));
        self.read(if absent { "{}" } else { text })
    }

    /// The one place that decides whether a field that nobody reads is refused.
    fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, ApiError> {
        if self.is_lenient() {
            serde_json::from_str(text).map_err(|error| ApiError::invalid(&error))
        } else {
            strict::read_object(text.as_bytes())
        }
    }

    /// One text field that must be there, and what the others say.
    fn split<T: DeserializeOwned>(&self, name: &str) -> Result<(String, T), ApiError> {
        let (first, rest) = self.split_optional(name)?;
        let missing = || ApiError::plain(Reason::InvalidParams, format!("missing field `{name}`"));
        Ok((first.ok_or_else(missing)?, rest))
    }

    /// One text field that may be there, and what the others say. A flattened struct would do the same, but
    /// nobody could tell what it did not read.
    fn split_optional<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<(Option<String>, T), ApiError> {
        let mut fields: BTreeMap<String, Box<RawValue>> = self.params()?;
        let first = fields.remove(name);
        let first = first.map(|first| strict::read_json(first.get().as_bytes()));
        let first = first.transpose()?;
        let rest = serde_json::to_string(&fields).map_err(|error| ApiError::invalid(&error))?;
        Ok((first, self.read(&rest)?))
    }

    fn take_nothing(&self) -> Result<(), ApiError> {
        self.optional::<NoParams>().map(|NoParams {}| ())
    }

    fn approval_id(&self) -> Result<String, ApiError> {
        self.params::<wire::ApprovalParams>()
            .map(|params| params.approval_id)
    }

    fn question_id(&self) -> Result<String, ApiError> {
        self.params::<wire::QuestionParams>()
            .map(|params| params.question_id)
    }

    fn token_id(&self) -> Result<String, ApiError> {
        self.params::<wire::TokenParams>()
            .map(|params| params.token_id)
    }

    fn agent_id(&self) -> Result<String, ApiError> {
        let params = self.optional::<wire::AgentParams>();
        let params = params.map(|params| params.agent_id);
        if self.is_lenient() {
            params.map_err(|_| ApiError::plain(Reason::InvalidParams, "missing agent_id"))
        } else {
            params
        }
    }

    /// A reply with a result.
    pub(crate) fn reply(&self, result: impl Serialize) -> Result<String, ApiError> {
        frame("result", &result, self.id).map_err(|error| ApiError::invalid(&error))
    }

    fn done(&self, (): ()) -> Result<String, ApiError> {
        self.reply(serde_json::json!({ "ok": true }))
    }
}

/// A reply with an error.
pub(crate) fn failure(id: &str, error: ApiError) -> String {
    frame("error", &error.into_error(), id).unwrap_or_default()
}

/// The envelope around a result or an error. `id` is JSON already and goes in as it is.
fn frame(part: &str, content: &impl Serialize, id: &str) -> Result<String, serde_json::Error> {
    let mut text = Vec::with_capacity(1024);
    text.extend_from_slice(br#"{"jsonrpc":"2.0",""#);
    text.extend_from_slice(part.as_bytes());
    text.extend_from_slice(br#"":"#);
    serde_json::to_writer(&mut text, content)?;
    text.extend_from_slice(br#","id":"#);
    text.extend_from_slice(id.as_bytes());
    text.push(b'}');
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}
