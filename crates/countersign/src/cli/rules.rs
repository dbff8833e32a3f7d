//! `rules`: what settles asks without a person, and why.

mod backtest;
mod change;
mod check;
mod corpus;
mod import;
mod list;
mod offline;
mod suggest;
mod trust;

use clap::Subcommand;

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;

#[derive(Subcommand)]
pub(crate) enum RulesCommand {
    /// List every rule that counts: those in files, and those that were remembered
    List(list::ListRulesArgs),
    /// Add a rule with a leash; it also settles what waits in the inbox and is covered by it
    Add(change::AddRuleArgs),
    /// Take a remembered rule back, at once
    Remove(change::RemoveRuleArgs),
    /// Say what the host would do with a tool call, or judge a file of labelled cases
    Check(check::CheckArgs),
    /// Say part by part which rule decides about a tool call, with or without a host
    Explain(check::ExplainArgs),
    /// Suggest rules: for an ask, or from what was always allowed by hand
    Suggest(suggest::SuggestArgs),
    /// Replay the decisions on the record against a rule before you trust it
    Backtest(backtest::BacktestArgs),
    /// Turn the rules of other tools into ours, never wider, and say what could not be carried over
    Import(import::ImportArgs),
    /// Let a project's rule file loosen, exactly as it is now
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
        RulesCommand::Import(args) => import::import(common, &args).await,
        RulesCommand::Trust(args) => trust::trust(common, args).await,
    }
}
