//! The methods of the wire, each a type: its name, its parameters, its result.
//!
//! Invariant: a method's name is written here and nowhere else. Servers dispatch on [`MethodName`],
//! and clients name the type.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    AddRuleParams, AddedRule, AgentDiff, AgentParams, AgentTarget, AnswerApprovalsParams,
    AnswerBody, AnswerEditorCallParams, AnsweredApprovals, ApprovalParams, ApprovalTarget,
    ArchiveBody, AskQuestionParams, AuditResult, AuthParams, AuthResult, BacktestResult,
    BacktestRuleParams, BypassBody, CancelApprovalParams, CatalogRow, CeilingBody,
    CheckRulesParams, CheckedRules, ConfigureBody, CreateEndlessTokenParams, CreateTicketParams,
    CreateTokenParams, DiffQuery, DismissedApproval, EditorCallRow, EditorCallsParams,
    EventsParams, FilePage, ForkBody, GrantRow, HandshakeParams, HandshakeResult, HookParams,
    HookResult, HostAgent, HostApproval, HostDevice, HostEvent, HostQuestion, HostSnapshot,
    HostStatus, InterruptBody, KillBody, ListFilesQuery, ListParams, ListedFiles, LoginTicket,
    MergeWorktreeBody, MergedWorktree, NewToken, NoParams, NotifyParams, NotifyParentParams,
    NotifyStatus as NotifyStatusResult, NotifyTestResult, OkResult, OpenTerminalParams,
    OwnTerminalOutputParams, OwnTerminalParams, OwnTerminalRow, PresenceParams, PromptBody,
    PruneParams, PushSubscribeParams, PushSubscriptionId, QuestionParams, QuestionTarget,
    QueuedMessageRow, ReadFileQuery, RedactParams, RegisterAgentParams, RegisterDeviceParams,
    RemoveRuleParams, RemoveWorktreeQuery, RemovedWorktree, RenameBody, RequestApprovalParams,
    RescueRecordParams, RescueResult, ResizeTerminalParams, ResolutionBody, RuleSuggestions,
    RulesParams, RulesResult, SavedFile, SearchParams, SearchResult, ShutdownParams,
    SpawnAgentParams, StatusBody, StopAllResult, SubscribeParams, SuggestRulesParams,
    TerminalOutputParams, TerminalOutputResult, TerminalRow, TokenParams, TokenRow,
    TranscriptQuery, TranscriptResult, TrustRulesParams, UntrustedFileRow, UpdateDeviceParams,
    WaitAgentsParams, WaitAgentsResult, WaitApprovalParams, WaitQuestionParams,
    WithdrawMessageParams, WithdrawnMessage, WriteFileBody, WriteTerminalParams, WrittenTerminal,
};

/// A method of the wire.
pub trait Method {
    /// Its name as a request has it.
    const NAME: &'static str;
    /// What it takes.
    type Params: Serialize + DeserializeOwned + Send;
    /// What it returns.
    type Result: Serialize + DeserializeOwned + Send;
    /// Whether the host may hold the request until a person or an agent has done something.
    const WAITS: bool;
    /// Whether it belongs to the host wire that clients in the field already speak. Those clients
    /// may send fields that we do not know, and parameters that are not an object; all other
    /// methods refuse both.
    const LENIENT: bool;
}

// Types and an enum from one table: the types let a client and the server agree at compile time on
// what a method takes and returns, the enum lets the server match on all methods exhaustively.
/// One row for each method: `Type = "name": Params => Result`, then `waits` or `lenient` if it is
/// so.
macro_rules! methods {
    ($($method:ident = $name:literal: $params:ty => $result:ty $(, $flag:ident)?;)*) => {
        /// Every method there is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum MethodName {
            $(#[doc = concat!("`", $name, "`")] $method,)*
        }

        impl MethodName {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$method,)*];

            /// The method that a request names, if there is one of that name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$method),)*
                    _ => None,
                }
            }

            /// See [`Method::NAME`].
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$method => $method::NAME,)*
                }
            }

            /// See [`Method::WAITS`].
            pub fn waits(self) -> bool {
                match self {
                    $(Self::$method => $method::WAITS,)*
                }
            }

            /// See [`Method::LENIENT`].
            pub fn is_lenient(self) -> bool {
                match self {
                    $(Self::$method => $method::LENIENT,)*
                }
            }
        }

        $(
            #[doc = concat!("`", $name, "`")]
            #[derive(Clone, Copy, Debug)]
            pub struct $method;

            impl Method for $method {
                const NAME: &'static str = $name;
                type Params = $params;
                type Result = $result;
                const WAITS: bool = flag!(waits $($flag)?);
                const LENIENT: bool = flag!(lenient $($flag)?);
            }
        )*
    };
}

macro_rules! flag {
    (waits waits) => {
        true
    };
    (lenient lenient) => {
        true
    };
    ($wanted:ident $($other:ident)?) => {
        false
    };
}

methods! {
    // The host wire. Its clients exist, so these names, parameters and results are fixed; fields
    // that we added are optional.
    Authenticate = "session.auth": AuthParams => AuthResult, lenient;
    Handshake = "server.handshake": HandshakeParams => HandshakeResult, lenient;
    Subscribe = "host.subscribe": SubscribeParams => HostSnapshot, lenient;
    Agents = "host.agents": NoParams => Vec<HostAgent>, lenient;
    Events = "host.events": EventsParams => Vec<HostEvent>, lenient;
    Approvals = "host.approvals": ListParams => Vec<HostApproval>, lenient;
    RegisterAgent = "host.register_agent": RegisterAgentParams => HostAgent, lenient;
    UnregisterAgent = "host.unregister_agent": AgentParams => OkResult, lenient;
    SetStatus = "host.set_status": AgentTarget<StatusBody> => HostAgent, lenient;
    RegisterDevice = "host.register_device": RegisterDeviceParams => HostDevice, lenient;
    UpdateDevice = "host.update_device": UpdateDeviceParams => HostDevice, lenient;
    Devices = "host.devices": NoParams => Vec<HostDevice>, lenient;
    Notify = "host.notify": NotifyParams => HostEvent, lenient;
    RequestApproval = "host.request_approval": RequestApprovalParams => HostApproval, lenient;
    ResolveApproval = "host.resolve_approval": ApprovalTarget<ResolutionBody> => HostApproval, lenient;
    DismissApproval = "host.dismiss_approval": ApprovalParams => DismissedApproval, lenient;

    // From here on the methods are ours, and unknown fields are refused.
    Approval = "host.approval": ApprovalParams => HostApproval;
    ResolveApprovals = "host.resolve_approvals": AnswerApprovalsParams => AnsweredApprovals;
    CancelApproval = "host.cancel_approval": CancelApprovalParams => HostApproval;
    WaitApproval = "host.wait_approval": WaitApprovalParams => HostApproval, waits;
    Questions = "host.questions": ListParams => Vec<HostQuestion>;
    Question = "host.question": QuestionParams => HostQuestion;
    AskQuestion = "host.ask_question": AskQuestionParams => HostQuestion;
    AnswerQuestion = "host.answer_question": QuestionTarget<AnswerBody> => HostQuestion;
    WaitQuestion = "host.wait_question": WaitQuestionParams => HostQuestion, waits;
    NotifyParent = "host.notify_parent": NotifyParentParams => OkResult;

    Agent = "host.agent": AgentParams => HostAgent;
    SpawnAgent = "host.spawn_agent": SpawnAgentParams => HostAgent;
    PromptAgent = "host.prompt_agent": AgentTarget<PromptBody> => HostAgent;
    QueuedMessages = "host.queued_messages": AgentParams => Vec<QueuedMessageRow>;
    WithdrawMessage = "host.withdraw_message": WithdrawMessageParams => WithdrawnMessage;
    InterruptAgent = "host.interrupt_agent": AgentTarget<InterruptBody> => HostAgent;
    KillAgent = "host.kill_agent": AgentTarget<KillBody> => HostAgent;
    SetCeiling = "host.set_ceiling": AgentTarget<CeilingBody> => HostAgent;
    ResumeAgent = "host.resume_agent": AgentParams => HostAgent, waits;
    ForkAgent = "host.fork_agent": AgentTarget<ForkBody> => HostAgent;
    ArchiveAgent = "host.archive_agent": AgentTarget<ArchiveBody> => HostAgent;
    RenameAgent = "host.rename_agent": AgentTarget<RenameBody> => HostAgent;
    ConfigureAgent = "host.configure_agent": AgentTarget<ConfigureBody> => HostAgent;
    WaitAgents = "host.wait_agents": WaitAgentsParams => WaitAgentsResult, waits;
    Transcript = "host.transcript": AgentTarget<TranscriptQuery> => TranscriptResult;
    Search = "host.search": SearchParams => SearchResult;
    AgentChanges = "host.agent_diff": AgentTarget<DiffQuery> => AgentDiff;
    Terminals = "host.terminals": AgentParams => Vec<TerminalRow>;
    // It waits for output, if its caller wants that.
    TerminalOutput = "host.terminal_output": TerminalOutputParams => TerminalOutputResult, waits;
    ListFiles = "host.files": AgentTarget<ListFilesQuery> => ListedFiles;
    ReadFile = "host.file": AgentTarget<ReadFileQuery> => FilePage;
    WriteFile = "host.write_file": AgentTarget<WriteFileBody> => SavedFile;
    // A person's own terminals: for operators alone. Writing waits a moment for a program that does not read.
    OwnTerminals = "host.own_terminals": NoParams => Vec<OwnTerminalRow>;
    OpenTerminal = "host.open_terminal": OpenTerminalParams => OwnTerminalRow;
    WriteTerminal = "host.write_terminal": WriteTerminalParams => WrittenTerminal;
    ResizeTerminal = "host.resize_terminal": ResizeTerminalParams => OkResult;
    CloseTerminal = "host.close_terminal": OwnTerminalParams => OkResult;
    OwnTerminalOutput = "host.own_terminal_output": OwnTerminalOutputParams => TerminalOutputResult, waits;
    // They wait until there is something to do.
    EditorCalls = "host.editor_calls": EditorCallsParams => Vec<EditorCallRow>, waits;
    AnswerEditorCall = "host.answer_editor_call": AnswerEditorCallParams => OkResult;
    RemoveWorktree = "host.remove_worktree": AgentTarget<RemoveWorktreeQuery> => RemovedWorktree;
    MergeWorktree = "host.merge_worktree": AgentTarget<MergeWorktreeBody> => MergedWorktree;
    Catalog = "host.catalog": NoParams => Vec<CatalogRow>;
    // It waits for a person if the event is an ask.
    Hook = "host.hook": HookParams => HookResult, waits;

    Rules = "host.rules": RulesParams => RulesResult;
    AddRule = "host.add_rule": AddRuleParams => AddedRule;
    RemoveRule = "host.remove_rule": RemoveRuleParams => GrantRow;
    CheckRules = "host.check_rules": CheckRulesParams => CheckedRules;
    BacktestRule = "host.backtest_rule": BacktestRuleParams => BacktestResult;
    SuggestRules = "host.suggest_rules": SuggestRulesParams => RuleSuggestions;
    UntrustedRules = "host.untrusted_rules": RulesParams => Vec<UntrustedFileRow>;
    TrustRules = "host.trust_rules": TrustRulesParams => OkResult;
    SetBypass = "host.set_bypass": AgentTarget<BypassBody> => HostAgent;

    CreateToken = "host.create_token": CreateTokenParams => NewToken;
    CreateEndlessToken = "host.create_endless_token": CreateEndlessTokenParams => NewToken;
    Tokens = "host.tokens": NoParams => Vec<TokenRow>;
    RevokeToken = "host.revoke_token": TokenParams => OkResult;
    CreateTicket = "host.create_ticket": CreateTicketParams => LoginTicket;
    // Not `host.notify`, which tells every client something: these are about people elsewhere.
    Presence = "host.presence": PresenceParams => OkResult;
    NotifyStatus = "host.notify_status": NoParams => NotifyStatusResult;
    NotifyTest = "host.notify_test": NoParams => NotifyTestResult;
    SubscribePush = "host.push_subscribe": PushSubscribeParams => PushSubscriptionId;
    UnsubscribePush = "host.push_unsubscribe": PushSubscriptionId => OkResult;
    RedactEvent = "host.redact_event": RedactParams => AuditResult;
    PruneEvents = "host.prune_events": PruneParams => AuditResult;
    RescueRecord = "host.rescue_record": RescueRecordParams => RescueResult;
    Status = "host.status": NoParams => HostStatus;
    StopAll = "host.stop_all": NoParams => StopAllResult;
    // It waits for the agents, if they are to end first.
    Shutdown = "host.shutdown": ShutdownParams => OkResult, waits;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_no_two_methods_share_one() {
        for method in MethodName::ALL {
            assert_eq!(MethodName::parse(method.name()), Some(*method));
        }
        assert_eq!(MethodName::parse("host.nothing"), None);
    }

    #[test]
    fn only_the_methods_of_the_host_wire_are_lenient() {
        let lenient = MethodName::ALL.iter().filter(|method| method.is_lenient());
        assert_eq!(lenient.count(), 16);
        let waiting: Vec<_> = MethodName::ALL
            .iter()
            .filter(|method| method.waits())
            .collect();
        assert_eq!(
            waiting,
            [
                &MethodName::WaitApproval,
                &MethodName::WaitQuestion,
                &MethodName::ResumeAgent,
                &MethodName::WaitAgents,
                &MethodName::TerminalOutput,
                &MethodName::OwnTerminalOutput,
                &MethodName::EditorCalls,
                &MethodName::Hook,
                &MethodName::Shutdown,
            ]
        );
    }
}
