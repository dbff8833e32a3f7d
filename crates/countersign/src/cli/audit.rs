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

const RESCUE_HELP: &str = "Examples:
  countersign audit rescue ~/rescued.db

The host must still be running: it reads the record from its open files and memory. If the host is
stopped instead (not killed), it first saves the record to `countersign.db.rescued` beside the database.

After the rescue, stop the host, replace the database with the rescued file and start the host
again. The command prints what to type for each of these steps.";

/// How long writing the whole record to another file may take.
const RESCUE_WAIT: Duration = Duration::from_mins(10);

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify that the audit log is complete and unchanged; needs no host
    #[command(
        after_help = "Examples:\n  countersign audit verify\n  countersign audit verify --head \"$(cat head.txt)\"\n\nExits with 1 if a check fails. Store the printed head in another place: only a comparison with it\nshows that events at the end are missing."
    )]
    Verify {
        /// Compare with this head, printed by an earlier run
        #[arg(long, value_name = "SEQ:HASH")]
        head: Option<audit::AuditHead>,
    },
    /// Erase the content of one event and record that
    #[command(
        after_help = "Examples:\n  countersign audit redact 4711 --reason 'contains a password'"
    )]
    Redact {
        /// Sequence number of the event
        sequence: u64,
        /// Reason, which is recorded
        #[arg(long)]
        reason: String,
    },
    /// Erase old events and record that
    Prune(PruneArgs),
    /// Save the record of a running host whose database was removed, replaced or truncated
    #[command(after_help = RESCUE_HELP)]
    Rescue {
        /// File to write; it must not exist yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print every event as one line of JSON; needs no host
    #[command(after_help = "Examples:\n  countersign audit export > record.jsonl")]
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
            let result = common.call::<method::RedactEvent>(&params).await?;
            let message = format!("erased the content of event {sequence}");
            print_result(common, &result, &message)
        }
        AuditCommand::Prune(args) => {
            let params = prune_params(&args.before, duration::now());
            let result = common.call::<method::PruneEvents>(&params).await?;
            print_result(common, &result, "erased old events")
        }
    }
}

async fn rescue(common: &CommonArgs, file: &Path) -> Result<CliExit, CliError> {
    // The host runs in another folder, where a relative path would mean another file.
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
    let exit = common.print(&rescued, || {
        let RescueResult { events, head, .. } = &rescued;
        format!("rescued {events} events, head {head}\n")
    })?;
    if !common.json {
        output::print_message(steps_to_restore(&rescued));
    }
    Ok(exit)
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
    let sequence = result.sequence;
    common.print(result, || {
        format!("{message} (recorded as event {sequence})\n")
    })
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
