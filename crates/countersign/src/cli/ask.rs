//! `ask`: a script asks, and waits as long as it takes.
//!
//! Invariants: one run is one ask, however often the connection breaks, because it is asked
//! again under the same key; the exit code is 0 only if exactly what was asked is allowed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    CancelApprovalParams, HostApproval, Raw, Reason, RequestApprovalParams, WaitApprovalParams,
    method,
};
use tokio::time::Instant;

use super::{CommonArgs, args, shutdown};
use crate::client::{CallError, HostClient, HostEndpoint};
use crate::duration::{self, TimeLimit};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::random_id::random_id;
use crate::reconnect::is_lost;
use crate::render::{approvals, escape};

/// How long one call waits; short enough that a connection that died unseen is noticed.
const WAIT: Duration = Duration::from_secs(30);
const WAIT_SLACK: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_millis(500);
/// How long after its deadline an ask can still be settled: a host that comes back holds expiry.
const AFTER_DEADLINE: Duration = Duration::from_mins(2);

#[derive(Args)]
#[command(after_help = "Examples:
  countersign ask 'Deploy 1.4 to production' && ./deploy.sh
  countersign ask 'Clean the cache' --tool Bash --input '{\"command\":\"rm -rf cache\"}' --timeout 10m
  countersign ask 'Which region?' --option eu --option us --timeout none

Prints the chosen option, then the message that came with it. Exit codes: 0 allowed exactly as
asked, 3 denied, 4 answered with an option that neither allows nor denies, or allowed with an edited
input (see --json), 5 expired, 6 cancelled, 7 no host. Ctrl-C cancels the ask.")]
pub(crate) struct AskArgs {
    /// What you want to do
    action: String,
    /// Name of the tool that would run
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The tool's exact input: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Folder it would run in [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Agent this ask is for
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Further details to show: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    details: Option<String>,
    /// Offer this answer; repeatable [default: approve, deny]
    #[arg(long = "option", value_name = "NAME")]
    options: Vec<String>,
    /// Count this option as an approval; repeatable [default: approve]
    #[arg(long, value_name = "NAME")]
    approving: Vec<String>,
    /// Time until the ask expires: 90s, 30m, 1h, 2d, or none
    #[arg(long, default_value = "30m")]
    timeout: TimeLimit,
    /// Idempotency key: the same key is the same ask [default: a new one]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print only the message that came with the answer
    #[arg(long)]
    message_only: bool,
}

pub(super) async fn ask(common: &CommonArgs, args: AskArgs) -> Result<CliExit, CliError> {
    let endpoint = common.endpoint()?;
    let message_only = args.message_only;
    let limit = args.timeout;
    let params = request(args)?;
    // Before anything is asked: from then on Ctrl-C has to take the ask back, not only end this
    // process.
    let interrupted = shutdown::interruption()?;
    let mut client = HostClient::connect(&endpoint).await?;
    let row = client.call::<method::RequestApproval>(&params).await?;
    if CliExit::of_ask(&row).is_none() {
        output::print_message(format_args!(
            "waiting for {} (Ctrl-C cancels it)",
            approvals::short_id(&row.id)
        ));
    }
    let id = row.id.clone();
    let row = tokio::select! {
        row = wait(&endpoint, &mut client, &params, row, limit) => row?,
        () = interrupted => return Ok(cancel(&endpoint, id).await),
    };
    print(common, &row, message_only)?;
    Ok(CliExit::of_ask(&row).unwrap_or(CliExit::Failure))
}

fn request(args: AskArgs) -> Result<RequestApprovalParams, CliError> {
    Ok(RequestApprovalParams {
        action: args.action,
        agent_id: args.agent,
        details: raw_argument(args.details)?.unwrap_or_default(),
        options: args.options,
        approving: (!args.approving.is_empty()).then_some(args.approving),
        system_level: true,
        tool: args.tool,
        input: raw_argument(args.input)?,
        cwd: match args.cwd {
            Some(dir) => Some(args::absolute_folder(Some(&dir))?),
            // A folder that is gone or has no name in UTF-8 only makes the rules ask more.
            None => args::absolute_folder(None).ok(),
        },
        idempotency_key: Some(
            args.key
                .map_or_else(|| random_id().map(|nonce| format!("ask-{nonce}")), Ok)?,
        ),
        timeout_ms: args.timeout.as_ms(),
        ..RequestApprovalParams::default()
    })
}

fn raw_argument(text: Option<String>) -> Result<Option<Raw>, CliError> {
    text.map(|text| Ok(Raw(args::json_argument(&text)?.into())))
        .transpose()
}

/// Waits until the ask ended, across lost connections and restarts of the host.
pub(crate) async fn wait(
    endpoint: &HostEndpoint,
    client: &mut HostClient,
    params: &RequestApprovalParams,
    mut row: HostApproval,
    limit: TimeLimit,
) -> Result<HostApproval, CliError> {
    let give_up = match limit {
        TimeLimit::After(span) => Some(Instant::now() + span + AFTER_DEADLINE),
        TimeLimit::None => None,
    };
    let mut told = false;
    while CliExit::of_ask(&row).is_none() {
        match wait_once(client, &row.id).await {
            Ok(next) => row = next,
            Err(error) if error.is_connection() => {
                output::print_message("lost the host; the ask is kept, waiting for the host");
                (*client, row) = ask_again(endpoint, params, give_up).await?;
                output::print_message("the host is back");
            }
            // The ask is on the record, and may be answered once that can be written again.
            Err(error) if is_unrecorded(&error) && give_up.is_none_or(|at| Instant::now() < at) => {
                if !std::mem::replace(&mut told, true) {
                    output::print_message(format_args!("{}; the ask stays", CliError::from(error)));
                }
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(row)
}

/// Whether the host could not write or read its record.
fn is_unrecorded(error: &CallError) -> bool {
    error.reason() == Some(Reason::StoreUnavailable)
}

async fn wait_once(client: &mut HostClient, approval_id: &str) -> Result<HostApproval, CallError> {
    let params = WaitApprovalParams {
        approval_id: approval_id.to_owned(),
        timeout_ms: Some(duration::millis(WAIT)),
    };
    client
        .call_within::<method::WaitApproval>(WAIT + WAIT_SLACK, &params)
        .await
}

/// The same request under the same key: the host gives back the same ask.
async fn ask_again(
    endpoint: &HostEndpoint,
    params: &RequestApprovalParams,
    give_up: Option<Instant>,
) -> Result<(HostClient, HostApproval), CliError> {
    loop {
        tokio::time::sleep(RETRY).await;
        let error = match HostClient::connect(endpoint).await {
            Ok(mut client) => match client.call::<method::RequestApproval>(params).await {
                Ok(row) => return Ok((client, row)),
                Err(error) => CliError::from(error),
            },
            Err(error) => error,
        };
        if !is_lost(&error) || give_up.is_some_and(|at| Instant::now() >= at) {
            return Err(error);
        }
    }
}

/// Takes the ask back. Whatever the host says, the script was interrupted.
async fn cancel(endpoint: &HostEndpoint, approval_id: String) -> CliExit {
    let params = CancelApprovalParams {
        approval_id,
        message: Some("interrupted".into()),
    };
    // A connection of its own: on the other one a call was dropped half way.
    let cancelled = async {
        let mut client = HostClient::connect(endpoint).await?;
        client.call::<method::CancelApproval>(&params).await?;
        Ok::<_, CliError>(())
    };
    match cancelled.await {
        Ok(()) => output::print_message("ask cancelled"),
        Err(error) => output::print_message(error.report().trim_end()),
    }
    CliExit::Cancelled
}

fn print(common: &CommonArgs, row: &HostApproval, message_only: bool) -> Result<(), CliError> {
    if common.json {
        return output::print_json(&output::json_row(row)?);
    }
    let message = row
        .message
        .as_deref()
        .map(|message| format!("{}\n", escape::block(message)))
        .unwrap_or_default();
    if message_only {
        return output::print(&message);
    }
    if row.edited_input.is_some() {
        output::print_message("allowed with an edited input: run that instead (printed by --json)");
    }
    let resolution = row.resolution.as_deref().unwrap_or(row.state.as_str());
    output::print(&format!("{}\n{message}", escape::line(resolution)))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        ask: AskArgs,
    }

    fn parse(arguments: &[&str]) -> RequestApprovalParams {
        request(Line::parse_from(["ask"].iter().chain(arguments)).ask).unwrap()
    }

    #[test]
    fn the_line_becomes_one_request_that_any_operator_answers() {
        let params = parse(&[
            "Deploy",
            "--tool",
            "Bash",
            "--input",
            r#"{"command": "ls"}"#,
            "--option",
            "eu",
            "--option",
            "us",
            "--approving",
            "eu",
            "--timeout",
            "10m",
            "--key",
            "k",
            "--cwd",
            "/",
        ]);
        let expected = serde_json::json!({
            "action": "Deploy", "details": null, "options": ["eu", "us"], "approving": ["eu"], "system_level": true,
            "tool": "Bash", "input": {"command": "ls"}, "cwd": "/", "idempotency_key": "k", "timeout_ms": 600_000,
        });
        assert_eq!(serde_json::to_value(&params).unwrap(), expected);
    }

    #[test]
    fn without_a_key_each_run_is_an_ask_of_its_own() {
        let (one, two) = (parse(&["x", "--timeout", "none"]), parse(&["x"]));
        assert_ne!(one.idempotency_key, two.idempotency_key);
        assert_eq!((one.timeout_ms, two.timeout_ms), (None, Some(1_800_000)));
    }
}
