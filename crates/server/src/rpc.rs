//! JSON-RPC: one line per method, each calling the operation it is named for.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::Caller;
use countersign_protocol::{ErrorCode, Method, MethodName, NoParams, Reason, method};
use serde::Serialize;

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::CallerConnection;
use crate::convert::{AgentNames, IntoWire};
use crate::ops::{
    agent_files, agents, approvals, devices, editors, events, hook, managed, notify, own_terminals,
    parent, questions, rules, search, terminals, tokens,
};
use crate::strict;

/// The parts of one request.
pub(crate) struct RpcCall<'a> {
    pub(crate) method: MethodName,
    /// JSON text.
    pub(crate) params: Option<&'a str>,
    /// JSON text, which the reply repeats unchanged.
    pub(crate) id: &'a str,
    /// Whether the calling connection is subscribed to events.
    pub(crate) subscribed: bool,
}

/// Serves one request and returns the frame of the reply. The host wire sends a reply to every
/// request, also to one without an id.
pub(crate) async fn serve(
    state: &Arc<ServerState>,
    connection: &Arc<CallerConnection>,
    caller: Caller,
    call: RpcCall<'_>,
) -> String {
    dispatch(state, connection, caller, &call)
        .await
        .unwrap_or_else(|error| failure(call.id, error))
}

/// A `match` over all methods. A row is `Method(params) => operation`: the parameters are read as
/// that method's type, and the operation's result is translated to the method's result.
macro_rules! dispatch {
    ($call:ident, $service:ident, except [$($other:ident),*], $($method:ident($params:pat) => $operation:expr,)*) => {
        match $call.method {
            $(MethodName::$method => {
                let $params = $call.params::<method::$method>()?;
                // Boxed one by one: otherwise the future of every request would be as large as that
                // of the largest operation.
                let result = Box::pin($operation).await?;
                $call.reply::<method::$method>(result.into_wire(AgentNames::of($service)).into())
            })*
            $(MethodName::$other)|* => Err(unknown_method($call.method.name())),
        }
    };
}

async fn dispatch(
    state: &Arc<ServerState>,
    connection: &Arc<CallerConnection>,
    caller: Caller,
    call: &RpcCall<'_>,
) -> Result<String, ApiError> {
    let service = &state.service;
    // The exceptions change the connection itself: the session serves them, in order.
    dispatch! { call, service, except [Authenticate, Handshake, Subscribe, Presence],
        Agents(NoParams {}) => agents::list(service, &caller),
        Events(params) => events::list(service, &caller, params),
        Approvals(params) => approvals::list(service, &caller, params),
        RegisterAgent(params) => agents::register(service, caller, params),
        UnregisterAgent(params) => agents::unregister(service, caller, params.agent_id),
        SetStatus(params) => agents::set_status(service, caller, params.agent_id, params.body),
        RegisterDevice(params) => devices::register(service, caller, params),
        UpdateDevice(params) => devices::update(service, caller, params),
        Devices(NoParams {}) => devices::list(service, &caller),
        Notify(params) => events::notify(service, caller, params),
        RequestApproval(params) => {
            approvals::request_over_wire(service, caller, call.subscribed, params)
        },
        ResolveApproval(params) => approvals::resolve(service, caller, params.approval_id, params.body),
        ResolveApprovals(params) => approvals::resolve_all(service, caller, params),
        DismissApproval(params) => approvals::dismiss(service, caller, params.approval_id),
        Approval(params) => approvals::load(service, &caller, params.approval_id),
        CancelApproval(params) => approvals::cancel(service, caller, params.approval_id, params.message),
        WaitApproval(params) => {
            approvals::wait_over_wire(service, &caller, params.approval_id, duration(params.timeout_ms))
        },
        Questions(params) => questions::list(service, &caller, params),
        Question(params) => questions::load(service, &caller, params.question_id),
        AskQuestion(params) => questions::ask(service, caller, params),
        AnswerQuestion(params) => questions::answer(service, caller, params.question_id, params.body),
        WaitQuestion(params) => {
            questions::wait(service, &caller, params.question_id, duration(params.timeout_ms))
        },
        NotifyParent(params) => parent::notify(service, caller, params),
        Agent(params) => agents::load(service, &caller, params.agent_id),
        SpawnAgent(params) => managed::spawn(service, &caller, params),
        PromptAgent(params) => managed::prompt(service, &caller, params.agent_id, params.body),
        QueuedMessages(params) => managed::queued_messages(service, &caller, &params.agent_id),
        WithdrawMessage(params) => {
            managed::withdraw_message(service, &caller, &params.agent_id, params.number)
        },
        InterruptAgent(params) => managed::interrupt(service, &caller, params.agent_id, params.body),
        KillAgent(params) => managed::kill(service, &caller, params.agent_id, params.body),
        SetCeiling(params) => managed::set_ceiling(service, &caller, params.agent_id, params.body),
        ResumeAgent(params) => managed::resume(service, &caller, params.agent_id),
        ForkAgent(params) => managed::fork(service, &caller, params.agent_id, params.body),
        ArchiveAgent(params) => managed::archive(service, &caller, params.agent_id, params.body),
        RenameAgent(params) => managed::rename(service, &caller, params.agent_id, params.body),
        ConfigureAgent(params) => managed::configure(service, &caller, params.agent_id, params.body),
        WaitAgents(params) => managed::wait(service, &caller, params),
        Transcript(params) => managed::transcript(service, &caller, params.agent_id, params.body),
        Search(params) => search::search(service, &caller, params),
        AgentChanges(params) => managed::diff(service, &caller, params.agent_id, params.body),
        Terminals(params) => terminals::list(service, &caller, &params.agent_id),
        TerminalOutput(params) => terminals::read(service, &caller, params.into()),
        ListFiles(params) => agent_files::list(service, &caller, &params.agent_id, params.body),
        ReadFile(params) => agent_files::read(service, &caller, &params.agent_id, params.body),
        WriteFile(params) => agent_files::write(service, &caller, &params.agent_id, params.body),
        OwnTerminals(NoParams {}) => own_terminals::list(service, &caller),
        OpenTerminal(params) => own_terminals::open(service, &caller, params),
        WriteTerminal(params) => own_terminals::write(service, &caller, params),
        ResizeTerminal(params) => own_terminals::resize(service, &caller, params),
        CloseTerminal(params) => own_terminals::close(service, &caller, &params.terminal_id),
        OwnTerminalOutput(params) => own_terminals::read(service, &caller, params.into()),
        EditorCalls(params) => editors::take(service, &caller, params),
        AnswerEditorCall(params) => editors::answer(service, &caller, params),
        MergeWorktree(params) => managed::merge_worktree(service, &caller, params.agent_id, params.body),
        RemoveWorktree(params) => managed::remove_worktree(service, &caller, params.agent_id, &params.body),
        Catalog(NoParams {}) => async { managed::catalog(service, &caller) },
        Hook(params) => hook::hook(state, connection, params),
        Rules(params) => rules::list(service, &caller, params),
        AddRule(params) => rules::add(service, caller, params),
        RemoveRule(params) => rules::remove(service, caller, params.id),
        CheckRules(params) => rules::check(service, &caller, params),
        BacktestRule(params) => rules::backtest(service, &caller, params),
        SuggestRules(params) => rules::suggest(service, &caller, params),
        UntrustedRules(params) => rules::list_untrusted(service, &caller, params),
        TrustRules(params) => rules::trust(service, caller, params),
        SetBypass(params) => rules::set_bypass(service, caller, params.agent_id, params.body),
        CreateToken(params) => tokens::create(service, caller, params),
        CreateEndlessToken(params) => tokens::create_endless(service, caller, params),
        Tokens(NoParams {}) => tokens::list(service, &caller),
        RevokeToken(params) => tokens::revoke(service, caller, params.token_id),
        CreateTicket(params) => async { state.create_ticket(&caller, params) },
        NotifyStatus(NoParams {}) => async { notify::status(service, &caller) },
        NotifyTest(NoParams {}) => notify::test(service, &caller),
        SubscribePush(params) => notify::subscribe(service, &caller, params),
        UnsubscribePush(params) => notify::unsubscribe(service, &caller, params.id),
        RedactEvent(params) => events::redact(service, caller, params),
        PruneEvents(params) => events::prune(service, caller, params),
        RescueRecord(params) => state.rescue_record(&caller, params),
        Status(NoParams {}) => state.status(&caller),
        StopAll(NoParams {}) => approvals::stop_all(service, caller),
        Shutdown(params) => state.shut_down(&caller, params),
    }
}

pub(crate) fn unknown_method(name: &str) -> ApiError {
    // The caller chose the name, and it may be as long as a frame.
    let start: String = name.chars().take(100).collect();
    let message = format!("unknown method '{start}'");
    ApiError::new(ErrorCode::UnknownMethod, Reason::InvalidParams, message)
}

fn duration(millis: Option<u64>) -> Option<Duration> {
    millis.map(Duration::from_millis)
}

impl RpcCall<'_> {
    /// The request's parameters. They may be missing or null.
    pub(crate) fn params<M: Method>(&self) -> Result<M::Params, ApiError> {
        let text = match self.params {
            None | Some("null") => "{}",
            Some(text) => text,
        };
        let read = if M::LENIENT {
            // Clients of the host wire may send something else than an object and mean none. If the
            // method then lacks a required field, the error is about what was sent.
            let is_object = text.starts_with('{');
            let none = (!is_object).then(|| serde_json::from_str("{}").ok());
            none.flatten()
                .map_or_else(|| serde_json::from_str(text), Ok)
                .map_err(|error| ApiError::invalid(&error))
        } else {
            strict::read_object(text.as_bytes())
        };
        // For these two methods the host wire has error texts and codes of its own.
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

/// A notification, which nobody replies to.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    let notification = Notification {
        jsonrpc: "2.0",
        method,
        params,
    };
    serde_json::to_string(&notification).unwrap_or_default()
}

/// A reply with an error.
pub(crate) fn failure(id: &str, error: ApiError) -> String {
    frame("error", &error.into_error(), id).unwrap_or_default()
}

/// The envelope around a result or an error.
fn frame(part: &str, content: &impl Serialize, id: &str) -> Result<String, serde_json::Error> {
    // Written by hand, so that `id` is repeated to the byte and the content is serialised once.
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
