//! The loop, and the [`Service`] that is the only way in.
//!
//! Invariants: one thread owns the state; nothing leaves it before what it rests on is committed;
//! the host may be killed at any instant. Deliberately absent: any knowledge of a wire.
#![forbid(unsafe_code)]

mod agent_editors;
mod agent_terminals;
mod attachments;
pub mod audit;
mod clock;
mod crash;
mod device_uses;
mod directory;
mod driver;
mod duty_board;
mod ended_terminals;
mod feed;
mod gate;
mod ids;
mod notify;
mod own_terminals;
mod reply;
mod rulebook;
mod secrets;
mod service;
mod subscription;
mod supervisor;
mod timekeeper;

pub use clock::HostClock;
pub use countersign_agents::ContainmentMethod;
pub use countersign_agents::adapter::McpServer;
pub use countersign_agents::own_terminal::{
    OwnTerminalStatus, RUNNER_COMMAND as TERMINAL_RUNNER_COMMAND, TerminalSize,
};
pub use countersign_agents::worktree::{
    DiffFile, DiscardWork, FileStatus, MergeOutcome, RemovalOutcome as WorktreeOutcome,
    WorktreeDiff,
};
pub use countersign_agents::{
    ExpectedFile, FilePiece, FileRange, ListDepth, ListedFile, ListedKind, PieceText,
    RewrittenFile, TerminalPiece, TerminalSummary, catalog, procfs,
};
pub use countersign_core::{GrantDraft, GrantState};
pub use countersign_notify::{
    AddressError, NtfyChannel, PushSubscription, WebhookChannel, WebhookSecretError, check_address,
};
pub use countersign_rules::{RuleArea, SuggestedRule, explain};
pub use countersign_sandbox::SandboxSupport;
pub use countersign_store::{
    ApprovalQuery, EventHistory, EventLog, EventQuery, QuestionQuery, RescuedRecord, SearchHit,
    SearchPage, StatusFilter, StoreError,
};
pub use crash::{
    AGENT_CRASH_POINTS, CRASH_POINTS, NOTIFY_CRASH_POINTS, PARENT_MESSAGE_CRASH_POINTS,
};
pub use driver::{ConfinementRequest, SandboxSettings};
pub use feed::{EventFeed, FeedEntry};
pub use ids::{
    new_agent_id, new_approval_id, new_device_id, new_mcp_agent_id, new_question_id,
    new_request_id, new_secret, random_hex,
};
pub use notify::{
    AskViewer, ChannelKind, ChannelReport, ChannelSettings, ChannelTarget, ChannelTest,
    NoticeContent, NoticeKind, NotifySettings, QuietHours, ViewerWatch,
};
pub use own_terminals::OwnTerminalSettings;
pub use reply::{CommandReply, ServiceError, StopCounts};
pub use rulebook::{
    DirRules, ListedRule, RuleFileProblem, RuleLayer, Rulebook, RulebookConfig, RulebookError,
    UntrustedRuleFile, foreign_policy,
};
pub use service::{
    AgentGoal, BacktestContradiction, BacktestReport, CatalogEntry, CgroupAgent, CheckRequest,
    EditorCallRange, EditorPresence, FolderLook, GrantAdded, HostOverview, HostSettings,
    NotifyOverview, OpenError, OwnTerminalRequest, RuleCheck, RuleProposal, RulesOverview,
    RunnerSettings, SearchRequest, Service, SpawnRequest, SupervisorExit, TokenIdentity,
    TranscriptPage, TranscriptRange, open, start,
};
pub use subscription::{EventFilter, Subscription};
pub use supervisor::HostCounters;
