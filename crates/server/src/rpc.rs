//! JSON-RPC: one line per method, each calling the operation it is named for.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::Caller;
use countersign_protocol::{ErrorCode, Method, MethodName, NoParams, Reason, method};
use serde::Serialize;

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::CallerConnection;
use crate::ops;
use crate::ops::{hook, managed, rules};
use crate::strict;

/// One request, taken apart.
pub(crate) struct Call<'a> {
    pub(crate) method: MethodName,
    /// Its parameters as JSON text.
    pub(crate) params: Option<&'a str>,
    /// Its id as JSON text, given back as it came.
    pub(crate) id: &'a str,
    /// Whether the calling connection reads events.
    pub(crate) subscribed: bool,
}

/// Serves one request and gives back the reply's frame. Every request gets one.
pub(crate) async fn serve(
    state: &Arc<ServerState>,
    connection: &Arc<CallerConnection>,
    caller: Caller,
    call: Call<'_>,
) -> String {
    dispatch(state, connection, caller, &call)
        .await
        .unwrap_or_else(|error| failure(call.id, error))
}

/// A `match` over all methods. A row is `Method(params) => operation`: the parameters are read as that
/// method's type, and the operation's result must be, or become, the method's result.
macro_rules! dispatch {
    ($call:ident, except [$($other:ident),*], $($method:ident($params:pat) => $operation:expr,)*) => {
        match $call.method {
            $(MethodName::$method => {
                let $params = $call.params::<method::$method>()?;
                // Boxed one by one: together they would make every request as large as the largest.
                let result = Box::pin($operation).await?;
                $call.reply::<method::$method>(result.into())
            })*
            $(MethodName::$other)|* => Err(unknown_method($call.method.name())),
        }
    };
}

async fn dispatch(
    state: &Arc<ServerState>,
    connection: &Arc<CallerConnection>,
    caller: Caller,
    call: &Call<'_>,
) -> Result<String, ApiError> {
    let service = &state.service;
    // The exceptions change the connection itself: the session serves them, in order.
    dispatch! { call, except [Authenticate, Handshake, Subscribe],
        Agents(NoParams {}) => ops::agents(service, &caller),
        Events(params) => ops::events(service, &caller, params),
        Approvals(params) => ops::approvals(service, &caller, params),
        RegisterAgent(params) => ops::register_agent(service, caller, params),
        UnregisterAgent(params) => ops::unregister_agent(service, caller, params.agent_id),
        SetStatus(params) => ops::set_status(service, caller, params.agent_id, params.body),
        RegisterDevice(params) => ops::register_device(service, caller, params),
        UpdateDevice(params) => ops::update_device(service, caller, params),
        Devices(NoParams {}) => ops::devices(service, &caller),
        Notify(params) => ops::notify(service, caller, params),
        RequestApproval(params) => ops::request_approval(service, caller, Some(call.subscribed), params),
        ResolveApproval(params) => ops::resolve_approval(service, caller, params.approval_id, params.body),
        DismissApproval(params) => ops::dismiss_approval(service, caller, params.approval_id),
        Approval(params) => ops::approval(service, &caller, params.approval_id),
        CancelApproval(params) => ops::cancel_approval(service, caller, params.approval_id, params.message),
        WaitApproval(params) => {
            ops::wait_approval(service, &caller, params.approval_id, duration(params.timeout_ms))
        },
        Questions(params) => ops::questions(service, &caller, params),
        Question(params) => ops::question(service, &caller, params.question_id),
        AskQuestion(params) => ops::ask_question(service, caller, params),
        AnswerQuestion(params) => ops::answer_question(service, caller, params.question_id, params.body.answer),
        WaitQuestion(params) => {
            ops::wait_question(service, &caller, params.question_id, duration(params.timeout_ms))
        },
        NotifyParent(params) => ops::notify_parent(service, caller, params),
        SpawnAgent(params) => managed::spawn(service, &caller, params),
        PromptAgent(params) => managed::prompt(service, &caller, params.agent_id, params.body),
        InterruptAgent(params) => managed::interrupt(service, &caller, params.agent_id, params.body),
        KillAgent(params) => managed::kill(service, &caller, params.agent_id, params.body),
        SetCeiling(params) => managed::set_ceiling(service, &caller, params.agent_id, params.body),
        ResumeAgent(params) => managed::resume(service, &caller, params.agent_id),
        ForkAgent(params) => managed::fork(service, &caller, params.agent_id, params.body),
        ArchiveAgent(params) => managed::archive(service, &caller, params.agent_id, params.body),
        RenameAgent(params) => managed::rename(service, &caller, params.agent_id, params.body),
        ConfigureAgent(params) => managed::configure(service, &caller, params.agent_id, params.body),
        WaitIdle(params) => managed::wait_idle(service, &caller, params),
        Transcript(params) => managed::transcript(service, &caller, params.agent_id, params.body),
        AgentChanges(params) => managed::diff(service, &caller, params.agent_id),
        RemoveWorktree(params) => managed::remove_worktree(service, &caller, params.agent_id, &params.body),
        Catalog(NoParams {}) => async { managed::catalog(service, &caller) },
        Hook(params) => hook::hook(state, connection, params),
        Rules(params) => rules::rules(service, &caller, params),
        AddRule(params) => rules::add_rule(service, caller, params),
        RemoveRule(params) => rules::remove_rule(service, caller, params.id),
        CheckRules(params) => rules::check_rules(service, &caller, params),
        BacktestRule(params) => rules::backtest_rule(service, &caller, params),
        SuggestRules(params) => rules::suggest_rules(service, &caller, params),
        TrustRules(params) => rules::trust_rules(service, caller, params),
        SetBypass(params) => rules::set_bypass(service, caller, params.agent_id, params.body),
        CreateToken(params) => ops::create_token(service, caller, params),
        CreateEndlessToken(params) => ops::create_endless_token(service, caller, params),
        Tokens(NoParams {}) => ops::tokens(service, &caller),
        RevokeToken(params) => ops::revoke_token(service, caller, params.token_id),
        CreateTicket(NoParams {}) => async { state.create_ticket(&caller) },
        RedactEvent(params) => ops::redact(service, caller, params),
        PruneEvents(params) => ops::prune(service, caller, params),
        RescueRecord(params) => state.rescue_record(&caller, params),
        Status(NoParams {}) => state.status(&caller),
        StopAll(NoParams {}) => ops::stop_all(service, caller),
        Shutdown(params) => state.shut_down(&caller, params),
    }
}

/// The refusal of a method that nobody knows.
pub(crate) fn unknown_method(name: &str) -> ApiError {
    let start: String = name.chars().take(100).collect();
    let message = format!("unknown method '{start}'");
    ApiError::new(ErrorCode::UnknownMethod, Reason::InvalidParams, message)
}

fn duration(millis: Option<u64>) -> Option<Duration> {
    millis.map(Duration::from_millis)
}

impl Call<'_> {
    /// The request's parameters. They may be missing or null, and clients of the host wire put something
    /// else there where they mean none.
    pub(crate) fn params<M: Method>(&self) -> Result<M::Params, ApiError> {
        let text = match self.params {
            None | Some("null") => "{}",
            Some(text) => text,
        };
        let read = if M::LENIENT {
            // Where something is required, the error is about what was sent and not about nothing.
            let is_object = text.starts_with('{');
            let none = (!is_object).then(|| serde_json::from_str("{}").ok());
            none.flatten()
                .map_or_else(|| serde_json::from_str(text), Ok)
                .map_err(|error| ApiError::invalid(&error))
        } else {
            strict::read_object(text.as_bytes())
        };
        // The host wire has an answer of its own to bad parameters of these two.
        read.map_err(|error| match self.method {
            MethodName::UnregisterAgent => {
                ApiError::plain(Reason::InvalidParams, "missing agent_id")
            }
            MethodName::DismissApproval => error.into_invalid_params(),
            _ => error,
        })
    }

    /// A reply with a result.
    #[expect(clippy::needless_pass_by_value, reason = "the caller has just made it")]
    pub(crate) fn reply<M: Method>(&self, result: M::Result) -> Result<String, ApiError> {
        frame("result", &result, self.id).map_err(|error| ApiError::invalid(&error))
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
