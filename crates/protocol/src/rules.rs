//! Rules on the wire: what callers send about them, and what they get back.
//!
//! Invariant: where a field that is misspelt would make a rule wider, an unknown field is an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::rows::Who;
use crate::scalar::{Raw, Time};
use crate::states::{HostApprovalState, HostEffect, HostRuleArea};

/// `host.rules`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RulesParams {
    /// Also the rules that apply in this directory: an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^/")]
    pub cwd: Option<String>,
}

// `deny_unknown_fields` here and below, in addition to what the server checks: a misspelt limit
// would make a rule wider.
/// `host.add_rule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddRuleParams {
    /// The rule, like `Bash(git status:*)`.
    pub rule: String,
    /// `allow`, `ask` or `deny` (default: `allow`).
    #[serde(
        default,
        deserialize_with = "HostEffect::strict_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, pattern = "^(allow|ask|deny)$")]
    pub effect: Option<HostEffect>,
    /// Only for agents to which an operator gave this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only in the project that this folder belongs to, worktrees included: an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub project: Option<String>,
    /// Only for the agent with this id, until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only for agents with all of these labels, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it ends, from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// How often it may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
}

/// `host.remove_rule`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RemoveRuleParams {
    /// The grant; the first characters are enough.
    pub id: String,
}

/// `host.check_rules`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRulesParams {
    /// The tool.
    pub tool: String,
    /// Its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub input: Option<Raw>,
    /// Where it would run: an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub cwd: Option<String>,
    /// The agent that would ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// `host.backtest_rule`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BacktestRuleParams {
    /// The rule.
    pub rule: String,
    /// `allow`, `ask` or `deny` (default: `allow`).
    #[serde(
        default,
        deserialize_with = "HostEffect::strict_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, pattern = "^(allow|ask|deny)$")]
    pub effect: Option<HostEffect>,
    /// How many asks to look at, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// `host.suggest_rules`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct SuggestRulesParams {
    /// Candidates for this ask; without it, what the record shows was always allowed by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
}

/// `host.trust_rules`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustRulesParams {
    /// The rule file: an absolute path.
    #[schema(pattern = "^/")]
    pub file: String,
    // The content that the person read: a file that was changed since is not trusted with it.
    /// SHA-256 of the content that was read, in hexadecimal.
    pub digest: String,
}

/// A rule file whose allows do not apply until a person trusts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UntrustedFileRow {
    /// Its absolute path.
    pub file: String,
    /// SHA-256 of its content, in hexadecimal: what `host.trust_rules` wants.
    pub digest: String,
    /// Its content.
    pub text: String,
}

/// `host.set_bypass`: how long an agent's asks are allowed without a person.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BypassBody {
    /// How long; null ends it.
    pub for_ms: Option<u64>,
}

/// What to remember of an answer: `true` for the narrowest suggestions in this project for 30 days,
/// or exactly what is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Remember {
    /// `true` for the usual, `false` for nothing.
    Usual(bool),
    /// What is named.
    Named(RememberBody),
}

// `host.resolve_approval` belongs to the host wire and ignores unknown fields, but not in here.
/// The rules to remember, and their limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RememberBody {
    /// The rules (default: the narrowest suggestions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<String>>,
    /// Where they apply (default: the project, or the session where there is no project).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<RememberScope>,
    /// When they expire, from now (default: 30 days, and never for `session` and `always`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// How often each may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
}

/// Where a remembered rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RememberScope {
    /// For this agent until it ends.
    Session,
    /// For agents of this name, as an operator gave it.
    Agent,
    /// In this project, all its worktrees included.
    Project,
    /// Everywhere, for every agent.
    Always,
}

// By hand: the derived code for an untagged enum would say "did not match any variant" instead of
// naming the field that is wrong.
impl<'de> Deserialize<'de> for Remember {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Bool(usual) => Ok(Self::Usual(usual)),
            named @ serde_json::Value::Object(_) => serde_json::from_value(named)
                .map(Self::Named)
                .map_err(|error| serde::de::Error::custom(format!("remember: {error}"))),
            _ => Err(serde::de::Error::custom(
                "remember: true, false or an object",
            )),
        }
    }
}

/// What the rules say about an ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostVerdict {
    /// The strictest of the parts.
    pub effect: HostEffect,
    /// Each thing the ask would do, with what decided about it.
    pub parts: Vec<HostVerdictPart>,
    /// The same as text for people.
    #[serde(default)]
    pub text: String,
}

/// One thing an ask would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostVerdictPart {
    pub effect: HostEffect,
    /// Whether nothing lifts it: no rule, grant or bypass.
    #[serde(default)]
    pub floor: bool,
    /// `command`, `read`, `write`, `fetch` or `tool`.
    pub kind: String,
    /// Why, where the rule alone does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that decided; absent for "no rule".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<HostRule>,
    /// The command, path, host or tool, as it was understood.
    pub subject: String,
}

/// A rule, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostRule {
    pub effect: HostEffect,
    /// The grant it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// The line in its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The rule as it was written.
    pub rule: String,
    /// The file it is written in, or `grant`.
    pub source: String,
}

/// A rule of a file, and whether it applies now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileRule {
    /// Where it applies; everywhere if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<HostRuleArea>,
    /// Whether it applies: an allow in an untrusted or suspended file does not.
    pub counts: bool,
    /// The rule.
    #[serde(flatten)]
    pub rule: HostRule,
}

/// Where a grant applies: all fields that are present must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleScope {
    /// Agents to which an operator gave this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// One project with all its worktrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// One agent until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The name of that agent, if it is still listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// Agents with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A remembered decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantRow {
    /// Who made it.
    pub by: Who,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    pub effect: HostEffect,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
    /// How often it was used.
    pub fired: u64,
    /// Its id.
    pub id: String,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used: Option<Time>,
    /// The ask it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The rule.
    pub rule: String,
    /// Where it applies.
    pub scope: RuleScope,
    /// How often it may be used in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// How often it may still be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
}

/// An agent whose asks are allowed without a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BypassRow {
    /// The agent.
    pub agent_id: String,
    /// Its name.
    pub name: String,
    /// Until when.
    #[schema(value_type = String, format = DateTime)]
    pub until: Time,
}

/// Something wrong with a rule file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleProblem {
    /// The file.
    pub file: String,
    /// The line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// Whether nothing is allowed by rule until it is fixed.
    pub suspends: bool,
}

/// All rules that apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RulesResult {
    /// The rules in files.
    pub files: Vec<FileRule>,
    /// Remembered decisions, oldest first.
    pub grants: Vec<GrantRow>,
    /// What is wrong with files.
    pub problems: Vec<RuleProblem>,
    /// The project that the folder belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Why nothing is allowed by rule, if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<String>,
    /// Files whose allows do not apply because no person has trusted them.
    #[serde(default)]
    #[schema(required = true)]
    pub untrusted: Vec<String>,
}

/// A rule that was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedRule {
    /// The grant it is.
    #[serde(flatten)]
    pub grant: GrantRow,
    /// How many open asks it settled.
    pub settled: usize,
    /// What to consider.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A rule that would allow an ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleCandidate {
    /// What it would mean.
    pub note: String,
    /// Which part of the ask it covers, from zero.
    pub part: usize,
    /// The rule.
    pub rule: String,
}

/// What the rules say about a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckedRules {
    /// Rules that would allow it, narrowest first.
    #[serde(default)]
    pub candidates: Vec<RuleCandidate>,
    /// What they say.
    pub verdict: HostVerdict,
}

/// Suggested rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleSuggestions {
    /// For one ask: rules that would allow it, narrowest first.
    #[serde(default)]
    pub candidates: Vec<RuleCandidate>,
    /// From the record: what was always allowed by hand and never denied.
    #[serde(default)]
    pub mined: Vec<MinedRule>,
}

/// A rule that would have made the same decisions as people did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MinedRule {
    /// How often what it covers was allowed by hand.
    pub allowed: usize,
    /// Some of the asks it covers.
    pub examples: Vec<String>,
    /// When it was last allowed.
    #[schema(value_type = String, format = DateTime)]
    pub last_at: Time,
    /// The rule.
    pub rule: String,
}

/// What a rule would have done with the asks on the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BacktestResult {
    /// Asks it would have settled as they were decided.
    pub agreed: usize,
    /// Asks that rules settled at the time.
    pub already_settled_by_rules: usize,
    /// Asks that people decided differently.
    pub contradicted: Vec<Contradiction>,
    /// Decisions made by hand that were looked at.
    pub examined: usize,
    /// Asks it would have settled.
    pub settled: usize,
    /// Asks that ended in any other way, or that no rule can cover.
    pub skipped_by_others: usize,
    /// Open asks that would end with the rule if it were made now, oldest first.
    #[serde(default)]
    pub would_settle: Vec<String>,
}

/// An ask that a person decided differently than a rule would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Contradiction {
    /// The ask.
    pub approval_id: String,
    /// Who decided.
    pub by: Who,
    /// How.
    pub decided: HostApprovalState,
    /// What the rules would have said.
    pub verdict: HostVerdict,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Remember, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_to_remember_is_a_word_or_named_whole() {
        assert_eq!(read("true"), Ok(Remember::Usual(true)));
        let named = RememberBody {
            rules: Some(vec!["Bash(ls)".into()]),
            scope: Some(RememberScope::Session),
            expires_in_ms: None,
            uses: Some(1),
        };
        let text = r#"{"rules":["Bash(ls)"],"scope":"session","uses":1}"#;
        assert_eq!(read(text), Ok(Remember::Named(named)));
    }

    #[test]
    fn a_misspelt_leash_is_an_error() {
        for text in [
            r#"{"scop":"session"}"#,
            r#"{"scope":"world"}"#,
            "\"yes\"",
            "[]",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let rule = r#"{"rule":"Bash(ls)","sesion":"a"}"#;
        assert!(serde_json::from_str::<AddRuleParams>(rule).is_err());
    }
}
