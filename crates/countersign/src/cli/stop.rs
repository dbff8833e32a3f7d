//! `stop`: the emergency brake.

use clap::Args;
use countersign_protocol::{NoParams, StopAllResult, method};

use super::{CommonArgs, args};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;

#[derive(Args)]
#[command(after_help = "Examples:\n  countersign stop\n  countersign stop --yes   # asks nothing")]
pub(crate) struct StopArgs {
    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    yes: bool,
}

pub(super) async fn stop(common: &CommonArgs, args: StopArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    if !args.yes {
        let status = client.call::<method::Status>(&NoParams {}).await?;
        let question = format!(
            "This denies {} and interrupts up to {}. Continue?",
            output::plural(status.pending_approvals, "open ask"),
            output::plural(status.agents, "agent")
        );
        if !args::confirm(&question)? {
            output::print_message("nothing was stopped");
            return Ok(CliExit::Failure);
        }
        // The host may have closed a connection that was silent while the person thought.
        client = common.connect().await?;
    }
    let result = client.call::<method::StopAll>(&NoParams {}).await?;
    common.print(&result, || stopped_text(&result))
}

fn stopped_text(result: &StopAllResult) -> String {
    let asks = match result.denied {
        1 => "1 ask".to_owned(),
        count => format!("{count} asks"),
    };
    let turns = match result.interrupted {
        0 => "no turn was running".to_owned(),
        1 => "interrupted 1 agent".to_owned(),
        count => format!("interrupted {count} agents"),
    };
    format!("denied {asks}; {turns}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_counts_asks_and_turns() {
        let text = |denied, interrupted| {
            stopped_text(&StopAllResult {
                denied,
                interrupted,
            })
        };
        assert_eq!(text(1, 0), "denied 1 ask; no turn was running\n");
        assert_eq!(text(0, 2), "denied 0 asks; interrupted 2 agents\n");
    }
}
