//! `audit`: prove, trim and export the record.

use clap::{Args, Subcommand};
use countersign_protocol::{AuditResult, PruneParams, RedactParams, Time};

use super::Common;
use crate::exit::Exit;
use crate::failure::CliError;
use crate::paths::Paths;
use crate::{audit, duration, output};

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Prove that the record is whole, and say what is gone; needs no host
    #[command(
        after_help = "Examples:\n  countersign audit verify\n  countersign audit verify --head \"$(cat head.txt)\"\n\nExits with 1 if anything does not hold. Keep the head it prints somewhere else: a record that\nwas cut off at its end is found only against it."
    )]
    Verify {
        /// A head that was kept elsewhere
        #[arg(long, value_name = "SEQ:HASH")]
        head: Option<audit::Head>,
    },
    /// Erase the content of one event, on the record
    Redact {
        /// The event's number
        sequence: u64,
        /// Why: goes on the record
        #[arg(long)]
        reason: String,
    },
    /// Erase old history, on the record
    Prune(PruneArgs),
    /// Print every event as one line of JSON; needs no host
    #[command(after_help = "Example:\n  countersign audit export > record.jsonl")]
    Export,
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign audit prune --before 90d
  countersign audit prune --before 2026-01-01T00:00:00Z
  countersign audit prune --before 5000")]
pub(crate) struct PruneArgs {
    /// A time (RFC 3339), an age like 90d, or the oldest event to keep
    #[arg(long, value_name = "TIME|AGE|SEQ")]
    before: String,
}

pub(super) async fn audit(common: &Common, command: AuditCommand) -> Result<Exit, CliError> {
    match command {
        AuditCommand::Verify { head } => {
            audit::verify(&Paths::from_environment()?.database, head, common.json)
        }
        AuditCommand::Export => audit::export(&Paths::from_environment()?.database),
        AuditCommand::Redact { sequence, reason } => {
            let params = RedactParams { sequence, reason };
            let result: AuditResult = common
                .connect()
                .await?
                .call("host.redact_event", &params)
                .await?;
            told(
                common,
                &result,
                &format!("the content of event {sequence} is erased"),
            )
        }
        AuditCommand::Prune(args) => {
            let params = prune_params(&args.before, duration::now());
            let result: AuditResult = common
                .connect()
                .await?
                .call("host.prune_events", &params)
                .await?;
            told(common, &result, "old history is erased")
        }
    }
}

fn told(common: &Common, result: &AuditResult, words: &str) -> Result<Exit, CliError> {
    if common.json {
        output::put_json(result)?;
    } else {
        output::put(&format!(
            "{words} (recorded as event {})\n",
            result.sequence
        ))?;
    }
    Ok(Exit::Ok)
}

/// A bare number is an event, a number with a unit an age, anything else a time.
fn prune_params(before: &str, now: Time) -> PruneParams {
    if let Ok(sequence) = before.parse() {
        return PruneParams {
            before_sequence: Some(sequence),
            before_time: None,
        };
    }
    let time = match duration::parse(before) {
        Ok(age) => {
            let micros = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
            Time(now.0.saturating_sub(micros)).to_string()
        }
        Err(_) => before.to_owned(),
    };
    PruneParams {
        before_sequence: None,
        before_time: Some(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_an_event_an_age_or_a_time() {
        let read = |text| {
            let params = prune_params(text, Time(172_800_000_000));
            (params.before_sequence, params.before_time)
        };
        assert_eq!(read("5000"), (Some(5000), None));
        assert_eq!(
            read("1d"),
            (None, Some("1970-01-02T00:00:00.000000Z".into()))
        );
        assert_eq!(
            read("2026-01-01T00:00:00Z"),
            (None, Some("2026-01-01T00:00:00Z".into()))
        );
    }
}
