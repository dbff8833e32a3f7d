//! `stop --all`: the emergency brake.

use std::io::{self, IsTerminal as _};

use clap::Args;
use countersign_protocol::{NoParams, method};

use super::{CommonArgs, args};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  countersign stop --all\n  countersign stop --all --yes   # asks nothing"
)]
pub(crate) struct StopArgs {
    /// Everything: there is no half stop
    #[arg(long, required = true)]
    all: bool,
    /// Do not ask whether you are sure
    #[arg(long)]
    yes: bool,
}

pub(super) async fn stop(common: &CommonArgs, args: StopArgs) -> Result<CliExit, CliError> {
    debug_assert!(args.all);
    let mut client = common.connect().await?;
    if !args.yes && io::stdin().is_terminal() {
        let status = client.call::<method::Status>(&NoParams {}).await?;
        output::print_message(format_args!(
            "This denies {} open asks and interrupts {} agents. Go on? [y/N]",
            status.pending_approvals, status.agents
        ));
        if !args::read_confirmation()? {
            output::print_message("nothing was stopped");
            return Ok(CliExit::Failure);
        }
        // The host may have closed a connection that was silent while the person thought.
        client = common.connect().await?;
    }
    let result = client.call::<method::StopAll>(&NoParams {}).await?;
    if common.json {
        output::print_json(&result)?;
    } else {
        output::print(&format!(
            "denied {} asks, interrupted {} agents\n",
            result.denied, result.interrupted
        ))?;
    }
    Ok(CliExit::Ok)
}
