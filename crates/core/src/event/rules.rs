//! What the rules said, and what was remembered: the persisted shapes of verdicts and grants.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ApprovalId, GrantId, Timestamp};
use crate::principal::RecordedActor;

/// What a rule does to what it matches. The order is by strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Goes ahead.
    Allow,
    /// Waits for a person.
    Ask,
    /// Is refused.
    Deny,
}

impl Effect {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// What the rules say of an ask: the strictest of what they say of its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The strictest of the parts.
    pub effect: Effect,
    /// Each thing the ask would do, with what decided about it. Never empty.
    pub parts: Vec<VerdictPart>,
}

impl Verdict {
    /// Whether something says more than allow that no bypass lifts.
    pub fn is_on_the_floor(&self) -> bool {
        self.parts
            .iter()
            .any(|part| part.floor && part.effect > Effect::Allow)
    }

    /// The grants that allow parts of it, one entry for each part.
    pub fn grants(&self) -> impl Iterator<Item = &GrantId> {
        self.parts
            .iter()
            .filter_map(|part| part.rule.as_ref()?.grant.as_ref())
    }

    /// What it takes in memory and on the wire, about.
    pub(crate) fn bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|part| {
                let rule = part.rule.as_ref();
                part.subject.len()
                    + part.reason.as_ref().map_or(0, String::len)
                    + rule.map_or(0, |rule| rule.rule.len() + rule.source.len())
            })
            .sum()
    }
}

/// One thing an ask would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictPart {
    /// What kind of thing.
    pub kind: PartKind,
    /// The command, path, host or tool, as it was understood.
    pub subject: String,
    /// What follows for it.
    pub effect: Effect,
    /// The rule that decided; absent for "no rule".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// Why, in words, where the rule alone does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether nothing lifts it: no rule, grant or bypass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub floor: bool,
}

/// What kind of thing a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// One simple command.
    Command,
    /// A file that would be read.
    Read,
    /// A file that would be written.
    Write,
    /// A page that would be fetched.
    Fetch,
    /// Any other tool.
    Tool,
}

/// The rule that decided, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRef {
    /// The rule as it was written.
    pub rule: String,
    /// What it says.
    pub effect: Effect,
    /// The file it stands in, or `grant`.
    pub source: String,
    /// The line in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The grant it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
}

/// A rule with a leash, made by a person. Never changes; uses are counted beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    pub rule: String,
    /// What it says: allow, ask or deny.
    pub effect: Effect,
    /// Where it counts.
    pub scope: GrantScope,
    pub by: RecordedActor,
    /// The ask it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<ApprovalId>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How many parts it may allow; without a number, any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// The orchestrator that made it: it ends with that one's ceiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<AgentId>,
}

/// Where a grant counts: everything that is named must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantScope {
    /// Agents to which an operator gave this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// One repository with all its worktrees, or one folder: the path that stands for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// One agent until it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<AgentId>,
    /// Agents that the host runs and that have all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// See `Event::GrantCreated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantCreated {
    pub grant: Arc<Grant>,
}

/// Why a grant counts no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantEnd {
    /// Somebody took it back.
    Revoked,
    /// Its time is over.
    Expired,
    /// It was used as often as it may be.
    UsedUp,
    /// Its agent has ended.
    SessionEnded,
    /// The ceiling under which an orchestrator made it has ended.
    CeilingEnded,
}

/// See `Event::GrantRemoved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantRemoved {
    pub grant: GrantId,
    pub reason: GrantEnd,
    /// Who took it back, where somebody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<RecordedActor>,
}

/// How many parts of one ask a grant decided about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantUse {
    pub grant: GrantId,
    pub times: u32,
}

/// See `Event::AgentBypassChanged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentBypassChanged {
    pub agent: AgentId,
    /// Until when its asks are let through; absent if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who switched it, or the host where time or the agent's end did.
    pub by: RecordedActor,
}

/// See `Event::RulesTrusted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RulesTrusted {
    pub file: String,
    /// SHA-256 of its content, in hexadecimal.
    pub digest: String,
    /// Who trusted it.
    pub by: RecordedActor,
}
