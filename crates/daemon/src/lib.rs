//! The loop, and the [`Service`] that is the only way in.
//!
//! Invariants: one thread owns the state; nothing leaves it before what it rests on is committed;
//! the host may be killed at any instant. Deliberately absent: any knowledge of a wire.
#![forbid(unsafe_code)]

pub mod audit;
mod board;
mod clock;
mod crash;
mod driver;
mod feed;
mod gate;
mod names;
mod reply;
mod rulebook;
mod secrets;
mod service;
mod subscription;
mod supervisor;
mod timekeeper;

pub use clock::Clock;
pub use countersign_agents::ContainmentMethod;
pub use countersign_agents::adapter::McpServer;
pub use countersign_agents::catalog;
pub use countersign_agents::worktree::{
    DiffFile, DiscardWork, FileStatus, RemovalOutcome as WorktreeOutcome, WorktreeDiff,
};
pub use countersign_core::{GrantDraft, GrantState};
pub use countersign_rules::{Candidate, explain};
pub use countersign_store::{
    ApprovalQuery, EventHistory, EventLog, EventQuery, QuestionQuery, RescuedRecord, StatusFilter,
    StoreError,
};
pub use crash::{AGENT_CRASH_POINTS, CRASH_POINTS, PARENT_MESSAGE_CRASH_POINTS};
pub use feed::{Entry, Feed};
pub use names::{new_secret, random_hex};
pub use reply::{Reply, ServiceError};
pub use rulebook::{
    Chapter, ChapterLayer, LayerAllows, ListedRule, Problem, Rulebook, RulebookConfig,
    RulebookError, foreign_policy,
};
pub use service::{
    Backtest, CatalogEntry, CgroupAgent, CheckRequest, Checked, Contradiction, GrantAdded,
    Identified, Mined, OpenError, Overview, RulesOverview, RunnerSettings, Service, Settings,
    SpawnRequest, Stopped, TranscriptPage, open, start,
};
pub use subscription::{Filter, Subscription};
pub use supervisor::Counters;
