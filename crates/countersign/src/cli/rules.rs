//! `rules`: what settles asks without a person, and why.

mod backtest;
mod change;
mod check;
mod corpus;
mod import;
pub(super) mod init;
mod list;
mod offline;
mod suggest;
mod trust;
mod user_file;

use clap::Subcommand;
use countersign_protocol::{NoParams, method};
use countersign_rules::ForeignPolicy;

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::escape;

#[derive(Subcommand)]
pub(crate) enum RulesCommand {
    /// List the rules in effect, from files and from answers
    List(list::ListRulesArgs),
    /// Add a rule, optionally with limits; open asks that it covers are answered as well
    Add(change::AddRuleArgs),
    /// Remove a rule that was added here or remembered from an answer
    Remove(change::RemoveRuleArgs),
    /// Check what the host would do with a tool call, or judge a file of labelled cases
    Check(check::CheckArgs),
    /// Explain which rule decides each part of a tool call, with or without a host
    Explain(check::ExplainArgs),
    /// Suggest rules for an ask, or from what people always allowed
    Suggest(suggest::SuggestArgs),
    /// Compare a rule with the decisions people made
    Backtest(backtest::BacktestArgs),
    /// Write rules to begin with, after showing them
    Init(init::InitArgs),
    /// Import the rules of other tools, and list what cannot be imported
    Import(import::ImportArgs),
    /// Trust what a project's rule file allows, as the file is now
    Trust(trust::TrustArgs),
}

pub(super) async fn rules(common: &CommonArgs, command: RulesCommand) -> Result<CliExit, CliError> {
    match command {
        RulesCommand::List(args) => list::list(common, args).await,
        RulesCommand::Add(args) => change::add(common, args).await,
        RulesCommand::Remove(args) => change::remove(common, args).await,
        RulesCommand::Check(args) => check::check(common, args).await,
        RulesCommand::Explain(args) => check::explain(common, args).await,
        RulesCommand::Suggest(args) => suggest::suggest(common, args).await,
        RulesCommand::Backtest(args) => backtest::backtest(common, args).await,
        RulesCommand::Init(args) => init::init(common, args).await,
        RulesCommand::Import(args) => import::import(common, &args).await,
        RulesCommand::Trust(args) => trust::trust(common, args).await,
    }
}

/// Agents make no rules: a host that runs says whether we are one.
async fn refuse_agents(common: &CommonArgs) -> Result<(), CliError> {
    match common.connect().await {
        Ok(mut client) => {
            client.call::<method::Status>(&NoParams {}).await?;
            Ok(())
        }
        Err(CliError::NoHost { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn report_broken(policies: &[ForeignPolicy]) -> bool {
    let broken = policies
        .iter()
        .filter_map(|policy| Some((policy.tool, policy.broken.as_deref()?)));
    let mut any = false;
    for (tool, why) in broken {
        any = true;
        output::print_message(format_args!(
            "not understood: rules of {tool}: {}",
            escape::line(why)
        ));
    }
    any
}
