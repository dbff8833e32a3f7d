//! `--remember`: the rule an answer becomes, shown before it is saved.
//!
//! Invariant: what is saved is what was shown: the rules are sent by their text, never left to be
//! chosen again by the host.

use std::time::Duration;

use clap::{Args, ValueEnum};
use countersign_protocol::{
    HostApproval, HostApprovalState, Remember, RememberBody, RememberScope, RuleCandidate,
    SuggestRulesParams, method,
};

use super::{CommonArgs, args};
use crate::client::HostClient;
use crate::error::CliError;
use crate::render::{approvals, escape, rules};
use crate::{duration, output};

#[derive(Args)]
pub(super) struct RememberArgs {
    /// Make a rule of this answer; it also answers other open asks that it covers
    #[arg(long, help_heading = "Decide once")]
    remember: bool,
    /// Use this rule instead of the narrowest suggestion; repeatable
    #[arg(
        long = "rule",
        value_name = "RULE",
        requires = "remember",
        help_heading = "Decide once"
    )]
    rules: Vec<String>,
    /// Where the rule applies [default: project, or session outside a project]
    #[arg(long, requires = "remember", help_heading = "Decide once")]
    scope: Option<ScopeArg>,
    /// Time until the rule expires: 12h, 7d [default: 30d; never for session and always]
    #[arg(long, value_name = "TIME", requires = "remember", value_parser = duration::parse, help_heading = "Decide once")]
    expires: Option<Duration>,
    /// How often the rule may be used
    #[arg(
        long,
        value_name = "N",
        requires = "remember",
        help_heading = "Decide once"
    )]
    uses: Option<u32>,
}

/// Where a remembered answer counts.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ScopeArg {
    /// This agent, until it ends
    Session,
    /// Agents with this name
    Agent,
    /// This project and its worktrees
    Project,
    /// Everywhere
    Always,
}

impl ScopeArg {
    fn on_the_wire(self) -> RememberScope {
        match self {
            Self::Session => RememberScope::Session,
            Self::Agent => RememberScope::Agent,
            Self::Project => RememberScope::Project,
            Self::Always => RememberScope::Always,
        }
    }
}

/// A person looked at the rule and did not want it.
pub(super) struct RuleDeclined;

impl RememberArgs {
    /// Whether the rule is to be found.
    pub(super) fn needs_suggestion(&self) -> bool {
        self.remember && self.rules.is_empty()
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.remember
    }

    /// What is to be remembered, after it was shown. A rule that was suggested and not named needs a
    /// person's yes, or `yes`.
    pub(super) async fn confirm_rules(
        self,
        common: &CommonArgs,
        client: &mut HostClient,
        row: &HostApproval,
        yes: bool,
    ) -> Result<Result<Option<Remember>, RuleDeclined>, CliError> {
        if !self.remember {
            return Ok(Ok(None));
        }
        let mut rules = self.rules;
        // Nothing is shown for an ask that has ended: the host refuses, and says how it ended.
        if rules.is_empty() && row.state != HostApprovalState::Pending {
            return Ok(Ok(Some(Remember::Usual(true))));
        }
        if rules.is_empty() {
            let params = SuggestRulesParams {
                approval_id: Some(row.id.clone()),
            };
            let found = client.call::<method::SuggestRules>(&params).await?;
            rules = suggested(row, &found.candidates)?;
            show(&rules, &found.candidates);
            if !yes {
                if !args::confirm("Remember this?")? {
                    output::print_message("nothing was changed");
                    return Ok(Err(RuleDeclined));
                }
                // The host may have closed a connection that was silent while the person thought.
                *client = common.connect().await?;
            }
        }
        Ok(Ok(Some(Remember::Named(RememberBody {
            rules: Some(rules),
            scope: self.scope.map(ScopeArg::on_the_wire),
            expires_in_ms: self.expires.map(duration::millis),
            uses: self.uses,
        }))))
    }
}

fn suggested(row: &HostApproval, candidates: &[RuleCandidate]) -> Result<Vec<String>, CliError> {
    let rules = rules::narrowest(candidates);
    if rules.is_empty() {
        let id = approvals::short_id(&row.id);
        return Err(CliError::usage(format!("no narrow rule can be suggested for {id}; nothing was changed")).with_hint(format!(
                "name a rule with `countersign approve {id} --remember --rule RULE`, or answer without --remember"
            )));
    }
    Ok(rules)
}

fn show(rules: &[String], candidates: &[RuleCandidate]) {
    for rule in rules {
        let note = candidates
            .iter()
            .find(|candidate| candidate.rule == *rule)
            .map_or("", |candidate| candidate.note.as_str());
        output::print_message(format_args!(
            "to remember: {}  {}",
            escape::line(rule),
            escape::line(note)
        ));
    }
}
