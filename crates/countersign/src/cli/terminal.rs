//! `terminal`: the output of a command of an agent, as it is written. For people to read, and for editors
//! that show it in a window of their own; nothing can be typed. Terminals of people are in `shell`.
//!
//! Invariant: nothing that an agent writes reaches the terminal it is shown in as a command: control
//! characters are shown as escapes.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use countersign_core::limits::TERMINAL_WAIT_MS;
use countersign_protocol::{
    AgentParams, TerminalOutputParams, TerminalOutputResult, TerminalRow, Time, method,
};

use super::CommonArgs;
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::reconnect::{RetryLimit, is_lost, reconnect};
use crate::render::escape;
use crate::{duration, output};

/// What a call may take beyond the time for which the host waits for output.
const MARGIN: Duration = Duration::from_secs(10);

#[derive(Args)]
#[command(after_help = "Examples:
  countersign terminal builder
  countersign terminal builder/term-1

With an agent alone, lists its terminals. With a terminal, follows the output until the command ends,
across restarts of the host. The output of an agent that ended stays readable until it is started
again, or until the record of its end is pruned: the last 64 KB of each of its newest 16 terminals.")]
pub(crate) struct TerminalArgs {
    /// The agent, or one of its terminals, as AGENT/TERMINAL
    #[arg(value_name = "AGENT[/TERMINAL]")]
    target: String,
}

pub(super) async fn terminal(common: &CommonArgs, args: TerminalArgs) -> Result<CliExit, CliError> {
    let Some((agent, terminal)) = args.target.split_once('/') else {
        return list(common, args.target).await;
    };
    let mut client = common.connect().await?;
    let mut text = TerminalText::default();
    let mut after = 0;
    loop {
        let params = TerminalOutputParams {
            agent_id: agent.to_owned(),
            terminal_id: terminal.to_owned(),
            after: Some(after),
            wait: true,
        };
        let piece = match read_piece(&mut client, &params).await {
            Err(error) if is_lost(&error) => {
                client = reconnect(&common.endpoint()?, RetryLimit::Unlimited).await?;
                continue;
            }
            piece => piece?,
        };
        if piece.skipped > 0 {
            output::print_message(format_args!(
                "{} bytes are not kept any more",
                piece.skipped
            ));
        }
        let bytes = BASE64_STANDARD.decode(&piece.data);
        let bytes = bytes.map_err(|error| CliError::failed(error.to_string()))?;
        output::print(&text.push(&bytes, piece.ended))?;
        after = piece.next;
        if piece.ended {
            return Ok(CliExit::Ok);
        }
    }
}

async fn list(common: &CommonArgs, agent_id: String) -> Result<CliExit, CliError> {
    let params = AgentParams { agent_id };
    let terminals = common.call::<method::Terminals>(&params).await?;
    if common.json {
        output::print_json(&BTreeMap::from([("terminals", terminals)]))?;
    } else if terminals.is_empty() {
        output::print_message("no terminals");
    } else {
        let now = duration::now();
        output::print(&terminal_list(&terminals, now, output::list_width()))?;
    }
    Ok(CliExit::Ok)
}

fn terminal_list(terminals: &[TerminalRow], now: Time, width: usize) -> String {
    let rows = terminals.iter().map(|terminal| {
        vec![
            escape::line(&terminal.id).into_owned(),
            describe_end(
                terminal.signal.as_deref(),
                terminal.exit_code,
                terminal.ended_at,
            ),
            duration::age(now, terminal.started_at),
            terminal.bytes.to_string(),
            escape::line(&terminal.command).into_owned(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::columns(&["ID", "STATE", "AGE", "BYTES", "COMMAND"], &rows, width)
}

/// How the program of a terminal ended, if it did.
pub(super) fn describe_end(
    signal: Option<&str>,
    exit_code: Option<i32>,
    ended_at: Option<Time>,
) -> String {
    match (signal, exit_code, ended_at) {
        (Some(signal), ..) => escape::line(signal).into_owned(),
        (None, Some(code), _) => format!("exit {code}"),
        (None, None, Some(_)) => "ended".to_owned(),
        (None, None, None) => "running".to_owned(),
    }
}

async fn read_piece(
    client: &mut HostClient,
    params: &TerminalOutputParams,
) -> Result<TerminalOutputResult, CliError> {
    let limit = Duration::from_millis(TERMINAL_WAIT_MS) + MARGIN;
    Ok(client
        .call_within::<method::TerminalOutput>(limit, params)
        .await?)
}

/// Bytes as text that is safe to print. A character that is cut in two waits for its rest.
#[derive(Default)]
struct TerminalText {
    rest: Vec<u8>,
}

impl TerminalText {
    fn push(&mut self, bytes: &[u8], is_end: bool) -> String {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            // Only a character that is not complete yet waits; bytes that are none are shown as such.
            Err(error) if error.error_len().is_none() && !is_end => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let text: Vec<u8> = self.rest.drain(..whole).collect();
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        escape::block(&text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_safe_and_whole() {
        let mut text = TerminalText::default();
        assert_eq!(text.push(b"a\xc3", false), "a");
        assert_eq!(text.push(b"\xa9\n", false), "é\n");
        assert_eq!(
            text.push(b"\x1b]52;c;aGk=\x07\xff", false),
            "\\u{1b}]52;c;aGk=\\u{7}\u{fffd}"
        );
        assert_eq!(text.push(b"\xc3", true), "\u{fffd}");
    }
}
