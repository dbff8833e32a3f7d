//! `notify`: how notifications fare, and a test.

use clap::Subcommand;
use countersign_protocol::{NoParams, NotifyChannelKind, NotifyChannelRow, NotifyTestRow, method};

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Subcommand)]
pub(crate) enum NotifyCommand {
    /// Send a test message to every channel
    #[command(
        after_help = "Examples:\n  countersign notify test\n\nExits with 1 if a channel fails, or if there is none."
    )]
    Test,
    /// List the channels, with the last error of each
    #[command(after_help = "Examples:\n  countersign notify status --json")]
    Status,
}

const NONE: &str = "no channels: add some under `[notify]` in config.toml and restart the host";

pub(super) async fn notify(
    common: &CommonArgs,
    command: NotifyCommand,
) -> Result<CliExit, CliError> {
    match command {
        NotifyCommand::Test => test(common).await,
        NotifyCommand::Status => status(common).await,
    }
}

async fn test(common: &CommonArgs) -> Result<CliExit, CliError> {
    let tested = common.call::<method::NotifyTest>(&NoParams {}).await?;
    common.print(&tested, || tested.results.iter().map(test_line).collect())?;
    if tested.results.is_empty() && !common.json {
        output::print_message(NONE);
    }
    let all_ok = !tested.results.is_empty() && tested.results.iter().all(|result| result.ok);
    Ok(CliExit::failure_if(!all_ok))
}

async fn status(common: &CommonArgs) -> Result<CliExit, CliError> {
    let status = common.call::<method::NotifyStatus>(&NoParams {}).await?;
    common.print(&status, || {
        status.channels.iter().map(channel_line).collect()
    })?;
    if status.channels.is_empty() && !common.json {
        output::print_message(NONE);
    }
    Ok(CliExit::Ok)
}

fn test_line(result: &NotifyTestRow) -> String {
    let name = escape::line(&result.name);
    match &result.error {
        None => format!("{name}: sent\n"),
        Some(error) => format!("{name}: failed: {}\n", escape::line(error)),
    }
}

fn channel_line(channel: &NotifyChannelRow) -> String {
    let name = escape::line(&channel.name);
    let last = match (&channel.last_error, channel.last_ok) {
        (Some(error), _) => format!("failed: {}", escape::line(error)),
        (None, Some(at)) => format!("sent {} ago", duration::age(duration::now(), at)),
        (None, None) => "nothing sent yet".to_owned(),
    };
    format!("{}  {name}: {last}\n", kind_name(channel.kind))
}

fn kind_name(kind: NotifyChannelKind) -> &'static str {
    match kind {
        NotifyChannelKind::Command => "command",
        NotifyChannelKind::Ntfy => "ntfy",
        NotifyChannelKind::Webhook => "webhook",
        NotifyChannelKind::Push => "push",
        NotifyChannelKind::Unknown => "unknown",
    }
}
