//! `rules check` and `rules explain`: what the rules say of a tool call.

use std::path::PathBuf;

use clap::Args;

use super::{Common, corpus};
use crate::exit::Exit;
use crate::failure::CliError;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules check --corpus cases.jsonl
  countersign rules check --corpus cases.jsonl --json | jq -r 'select(.right | not).id'

With --corpus no host is asked. It exits with 1 if a case is allowed that must not be, or if a
line is not understood.")]
pub(crate) struct CheckArgs {
    /// Judge each case of this JSONL file by its own rules, without a host
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
}

pub(super) async fn check(common: &Common, args: CheckArgs) -> Result<Exit, CliError> {
    if let Some(file) = &args.corpus {
        return corpus::check(common, file);
    }
    Err(CliError::usage("give --corpus FILE"))
}
