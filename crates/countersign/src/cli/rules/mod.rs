//! `rules`: what settles asks without a person, and why.

mod check;
mod corpus;

use clap::Subcommand;

use super::Common;
use crate::exit::Exit;
use crate::failure::CliError;

#[derive(Subcommand)]
pub(crate) enum RulesCommand {
    /// Say what the rules would do with a tool call, or judge a file of labelled cases
    Check(check::CheckArgs),
}

pub(super) async fn rules(common: &Common, command: RulesCommand) -> Result<Exit, CliError> {
    match command {
        RulesCommand::Check(args) => check::check(common, args).await,
    }
}
