//! The vocabulary and the state machines: what may happen next.
//!
//! Nothing here touches the world: time, ids and facts are passed in. [`decide`] says what an
//! input means, [`State::apply`] makes it so, [`State::next_deadline`] says what is owed to time.
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod agent;
mod approval;
mod ask_view;
mod checkpoint;
mod choice_question;
mod combining;
mod decide;
pub mod event;
mod grant;
mod ids;
mod input;
mod json;
pub mod limits;
mod line_diff;
mod managed;
mod own_tools;
mod principal;
mod question;
mod rejection;
mod snapshot;
mod state;
mod text;
mod text_search;
mod tool_input;
mod unique_keys;
mod visible;

pub use agent::{Agent, OpenCounts};
pub use approval::{APPROVE, Approval, ApprovalEnd, DENY, REPLACED};
pub use ask_view::{AskView, EditNote, FileEdit, JsonMembers, hidden_warning, pretty_json};
pub use checkpoint::Checkpoint;
pub use choice_question::{
    ASK_PERSON_TOOL, AnswerLimits, ChoiceQuestion, QuestionChoice, split_answers,
};
pub use decide::{
    Decision, DecisionSubject, EDITOR_TERMINALS_TOOL, SPAWN_TOOL, answer_again, decide, is_reserved,
};
pub use event::{Ask, CommittedEvent, Event};
pub use grant::{AskerScope, GrantState};
pub use ids::{
    AgentId, ApprovalId, ClientId, DeviceId, GrantId, PrincipalKey, QuestionId, Seq, Timestamp,
    TokenId,
};
pub use input::{
    ApprovalAnswer, AskJudgment, AskQuestion, AskRequest, ChildrenPolicy, ConnectionPresence,
    CreateGrant, CreateToken, DecisionContext, DelegationVerdict, GrantDraft, Input, ManagedAsk,
    ManagedInput, NotifyParent, PutDevice, RegisterAgent, ResolveApproval, RunEvent,
    SendNotification, SetStatus, SpawnAgent,
};
pub use json::{Json, hex};
pub use line_diff::{
    DiffBudget, DiffHunk, DiffLine, DiffLineKind, DiffSegment, FilePatch, diff_lines,
    parse_unified_diff,
};
pub use managed::{AllowedActions, Duty, ManagedAgent, Pass, RunState, Turn};
pub use own_tools::{OWN_SERVER, OWN_TOOLS, is_own_tool, own_tool_name};
pub use principal::{Caller, Door, Principal, RecordedActor, Role};
pub use question::{Question, QuestionEnd};
pub use rejection::Rejection;
pub use snapshot::{AccessToken, AnswerChange, CommitChanges, ProcessMark, Snapshot};
pub use state::State;
pub use text::{
    error_causes, error_chain, truncate_text, truncate_to_tail, truncate_with_ellipsis,
};
pub use text_search::{ExcerptPiece, TextWord, WordQuery, excerpt, split_words};
pub use tool_input::{COMMAND_FIELDS, DIRECTORY_FIELDS, PATH_FIELDS, find_subject};
pub use visible::{TextLayout, hidden_count, visible};
