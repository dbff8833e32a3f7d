//! `audit`: prove, trim and export the record.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use countersign_protocol::{
    AuditResult, PruneParams, RedactParams, RescueRecordParams, RescueResult, Time, method,
};

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::paths::HostPaths;
use crate::{audit, duration, output};

const RESCUE_HELP: &str = "Example:
  countersign audit rescue ~/rescued.db

The host must still run: what it has is in its open files and its memory. Do not end it before; one that
is ended all the same, and not killed, first saves it to `countersign.db.rescued` beside the database.
Afterwards end it, move the rescued file to the place of the database, and start it again; the command
prints each step.";

/// How long writing the whole record to another file may take.
const RESCUE_WAIT: Duration = Duration::from_mins(10);

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Prove that the record is whole, and say what is gone; needs no host
    #[command(
        after_help = "Examples:\n  countersign audit verify\n  countersign audit verify --head \"$(cat head.txt)\"\n\nExits with 1 if anything does not hold. Keep the head it prints somewhere else: a record that\nwas cut off at its end is found only against it."
    )]
    Verify {
        /// A head that was kept elsewhere
        #[arg(long, value_name = "SEQ:HASH")]
        head: Option<audit::AuditHead>,
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
    /// Save what a running host still has after its database was removed, replaced or cut short
    #[command(after_help = RESCUE_HELP)]
    Rescue {
        /// The file to write; nothing may exist there yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
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

pub(super) async fn audit(common: &CommonArgs, command: AuditCommand) -> Result<CliExit, CliError> {
    match command {
        AuditCommand::Verify { head } => {
            audit::verify(&HostPaths::from_environment()?.database, head, common.json)
        }
        AuditCommand::Export => audit::export(&HostPaths::from_environment()?.database),
        AuditCommand::Rescue { file } => rescue(common, &file).await,
        AuditCommand::Redact { sequence, reason } => {
            let params = RedactParams { sequence, reason };
            let result = common
                .connect()
                .await?
                .call::<method::RedactEvent>(&params)
                .await?;
            print_result(
                common,
                &result,
                &format!("the content of event {sequence} is erased"),
            )
        }
        AuditCommand::Prune(args) => {
            let params = prune_params(&args.before, duration::now());
            let result = common
                .connect()
                .await?
                .call::<method::PruneEvents>(&params)
                .await?;
            print_result(common, &result, "old history is erased")
        }
    }
}

async fn rescue(common: &CommonArgs, file: &Path) -> Result<CliExit, CliError> {
    let absolute = std::path::absolute(file)
        .map_err(|source| CliError::io("could not find the current folder", source))?;
    let path = absolute
        .into_os_string()
        .into_string()
        .map_err(|path| CliError::usage(format!("`{}` is not UTF-8", path.to_string_lossy())))?;
    let params = RescueRecordParams { path };
    let rescued = common
        .connect()
        .await?
        .call_within::<method::RescueRecord>(RESCUE_WAIT, &params)
        .await?;
    if common.json {
        output::print_json(&rescued)?;
    } else {
        output::print(&format!(
            "rescued {} events, head {}\n",
            rescued.events, rescued.head
        ))?;
        output::print_message(steps_to_restore(&rescued));
    }
    Ok(CliExit::Ok)
}

/// What to type to go on with the rescued file. What is left of the old one must not lie beside it:
/// its write-ahead log would be mixed with the new database.
fn steps_to_restore(rescued: &RescueResult) -> String {
    let RescueResult { database, path, .. } = rescued;
    format!(
        "put it in place with:\n  countersign down\n  rm -f '{database}' '{database}-wal' '{database}-shm'\n  \
         mv '{path}' '{database}'\n  countersign up --detach\n  countersign audit verify --head {}",
        rescued.head
    )
}

fn print_result(
    common: &CommonArgs,
    result: &AuditResult,
    message: &str,
) -> Result<CliExit, CliError> {
    if common.json {
        output::print_json(result)?;
    } else {
        output::print(&format!(
            "{message} (recorded as event {})\n",
            result.sequence
        ))?;
    }
    Ok(CliExit::Ok)
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
