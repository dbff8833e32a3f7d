//! The vocabulary and the state machines: what may happen next.
//!
//! Nothing here touches the world: time, ids and facts are passed in. [`decide`] says what an
//! input means, [`State::apply`] makes it so, [`State::next_deadline`] says what is owed to time.
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod agent;
mod approval;
mod bookmark;
mod combining;
mod decide;
#[cfg(test)]
mod decide_tests;
pub mod event;
mod exact;
mod grant;
mod ids;
mod input;
mod json;
pub mod limits;
mod managed;
mod own_tools;
mod principal;
mod question;
mod rejection;
mod snapshot;
mod state;
mod visible;

pub use agent::{Agent, OpenCounts};
pub use approval::{APPROVE, Approval, DENY, Ended};
pub use bookmark::Bookmark;
pub use decide::{Decision, SPAWN_TOOL, Subject, answer_again, decide};
pub use event::{Ask, Committed, Event};
pub use grant::{Asking, GrantState};
pub use ids::{
    AgentId, ApprovalId, ClientId, DeviceId, GrantId, PrincipalKey, QuestionId, Seq, Timestamp,
    TokenId,
};
pub use input::{
    Answer, AskQuestion, AskRequest, Children, Context, CreateGrant, CreateToken, Delegated,
    GrantDraft, Input, Judged, ManagedAsk, ManagedInput, Notify, NotifyParent, Presence, PutDevice,
    Ran, RegisterAgent, ResolveApproval, SetStatus, SpawnAgent,
};
pub use json::{Json, hex};
pub use managed::{AllowedActions, Duties, Duty, Life, Managed, Pass, Turn};
pub use own_tools::{OWN_SERVER, OWN_TOOLS, is_own_tool, own_tool_name};
pub use principal::{By, Caller, Principal, Role};
pub use question::{Question, QuestionEnded};
pub use rejection::Rejection;
pub use snapshot::{AnswerChange, Changes, Mark, Snapshot, Token};
pub use state::State;
pub use visible::{Layout, hidden_count, visible};
