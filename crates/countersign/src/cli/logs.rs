//! `logs`: an agent's story as people read it.
//!
//! Invariant: every line begins with a mark of ours, so that nothing an agent writes can look like
//! a line that it did not write.

use clap::Args;
use countersign_protocol::{
    AgentTarget, Raw, SubscribeParams, TranscriptPart, TranscriptQuery, TranscriptResult,
    TranscriptRow, method,
};

use super::{CommonArgs, agent_lookup};
use crate::client::{CallError, HostClient};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::reconnect::{RetryLimit, is_lost, reconnect};
use crate::render::escape;
use crate::render::json::JsonMembers;

/// Facts after which there may be more to read.
const WAKING: [&str; 3] = ["transcript.added", "turn.ended", "agent.exited"];

#[derive(Args)]
#[command(after_help = "Examples:
  countersign logs builder
  countersign logs -f builder
  countersign logs --after 1042 --json builder | jq -c '.entries[]'

Marks: `>` a message to the agent, `^` a message from a child agent, `|` its answer, `~` its thoughts,
`*` a tool call, `=` the result, `-` its plan, `!` a notice, `?` anything else.")]
pub(crate) struct LogsArgs {
    /// Name or id of the agent
    agent: String,
    /// Follow the agent as it works, across restarts of the host
    #[arg(long, short)]
    follow: bool,
    /// Only entries after this number
    #[arg(long, value_name = "N")]
    after: Option<u64>,
}

pub(super) async fn logs(common: &CommonArgs, args: LogsArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let agent = agent_lookup::find_agent(&mut client, &args.agent).await?;
    let mut reader = TranscriptPrinter {
        json: common.json,
        agent: agent.id,
        after: args.after,
    };
    if !args.follow {
        reader.print_rest(&mut client).await?;
        return Ok(CliExit::Ok);
    }
    loop {
        let lost = follow(common, &mut reader, &mut client).await;
        if !is_lost(&lost) {
            return Err(lost);
        }
        client = reconnect(&common.endpoint()?, RetryLimit::Unlimited).await?;
    }
}

/// Prints as there is something to print, until something fails. The events only wake: what is
/// printed is always read from the cursor.
async fn follow(
    common: &CommonArgs,
    reader: &mut TranscriptPrinter,
    client: &mut HostClient,
) -> CliError {
    let mut events = match common.connect().await {
        Ok(events) => events,
        Err(error) => return error,
    };
    let params = SubscribeParams {
        after: None,
        kinds: Some(WAKING.map(str::to_owned).to_vec()),
    };
    let subscribed = events.call::<method::Subscribe>(&params).await;
    if let Err(error) = subscribed {
        return error.into();
    }
    loop {
        if let Err(error) = reader.print_rest(client).await {
            return error;
        }
        loop {
            match events.next_event().await {
                Ok(event) if event.agent_id.as_deref() == Some(&reader.agent) => break,
                Ok(_) => {}
                Err(error) => return error.into(),
            }
        }
    }
}

struct TranscriptPrinter {
    json: bool,
    agent: String,
    after: Option<u64>,
}

impl TranscriptPrinter {
    /// Prints all there is after the cursor. The cursor never passes what was not printed.
    async fn print_rest(&mut self, client: &mut HostClient) -> Result<(), CliError> {
        loop {
            let page = read(client, &self.agent, self.after).await?;
            for part in &page.parts {
                output::print(&self.part_text(part)?)?;
                self.after = Some(part.sequence);
            }
            self.after = Some(page.next);
            if !page.more {
                return Ok(());
            }
        }
    }

    fn part_text(&self, part: &TranscriptPart) -> Result<String, CliError> {
        if self.json {
            return output::json_line(part);
        }
        Ok(part.entries.iter().map(entry).collect())
    }
}

async fn read(
    client: &mut HostClient,
    agent: &str,
    after: Option<u64>,
) -> Result<TranscriptResult, CallError> {
    let params = AgentTarget {
        agent_id: agent.to_owned(),
        body: TranscriptQuery { after, limit: None },
    };
    client.call::<method::Transcript>(&params).await
}

/// What the agent said in one turn, without marks: for scripts and for `--wait`.
pub(super) async fn turn_text(
    client: &mut HostClient,
    agent: &str,
    turn: u32,
) -> Result<String, CliError> {
    let (mut text, mut after) = (String::new(), None);
    loop {
        let page = read(client, agent, after).await?;
        for part in page.parts.iter().filter(|part| part.turn == turn) {
            for entry in &part.entries {
                if let TranscriptRow::Assistant { text: said } = entry {
                    text.push_str(said);
                }
            }
        }
        after = Some(page.next);
        if !page.more {
            break;
        }
    }
    let text = escape::block(text.trim_end()).into_owned();
    Ok(if text.is_empty() { text } else { text + "\n" })
}

fn entry(row: &TranscriptRow) -> String {
    match row {
        TranscriptRow::User { from: None, text } => mark_lines('>', text),
        TranscriptRow::User { text, .. } => mark_lines('^', text),
        TranscriptRow::Assistant { text } => mark_lines('|', text),
        TranscriptRow::Thinking { text } => mark_lines('~', text),
        TranscriptRow::Notice { text } => mark_lines('!', text),
        TranscriptRow::ToolResult { status, text, .. } => mark_lines('=', &result(status, text)),
        TranscriptRow::Plan { steps } => {
            let line = |step: &countersign_protocol::PlanStepRow| {
                mark_lines('-', &format!("[{}] {}", step.status, step.text))
            };
            steps.iter().map(line).collect()
        }
        TranscriptRow::Other { update } => mark_lines('?', update.text()),
        TranscriptRow::ToolUse {
            id,
            input,
            status,
            title,
            tool,
        } => {
            let input = input.as_ref().map(Raw::text);
            let text = tool_text(id, tool.as_deref(), title.as_deref(), input);
            let status = status.as_deref().unwrap_or("");
            mark_lines('*', format!("{text} {status}").trim_end())
        }
        _ => mark_lines('?', "an entry that this version cannot show"),
    }
}

/// Every line of a text behind a mark of ours.
fn mark_lines(mark: char, text: &str) -> String {
    let shown = escape::block(text.trim_end_matches('\n'));
    let lines = shown
        .split('\n')
        .map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n");
    lines.collect()
}

fn result(status: &str, text: &str) -> String {
    if text.is_empty() {
        return status.to_owned();
    }
    let end = if text.contains('\n') { "\n" } else { " " };
    format!("{status}:{end}{text}")
}

/// What a tool does, from its input where that says it.
fn tool_text(id: &str, tool: Option<&str>, title: Option<&str>, input: Option<&str>) -> String {
    const TELLING: [&str; 5] = ["command", "file_path", "path", "url", "query"];
    let members = input.and_then(JsonMembers::parse);
    let told = members.and_then(|members| TELLING.iter().find_map(|key| members.only_text(key)));
    let what = told.as_deref().or(title);
    match (tool, what) {
        (Some(tool), Some(what)) => format!("{tool}: {what}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    #[test]
    fn every_line_has_a_mark_that_the_agent_cannot_make() {
        let text = |text: &str| text.to_owned();
        let rows = [
            TranscriptRow::User {
                from: None,
                text: text("fix it\n"),
            },
            TranscriptRow::User {
                from: Some(text("agent-2")),
                text: text("which?\n> none"),
            },
            TranscriptRow::Assistant {
                text: text("done\n> fix it\u{1b}[2J\r! all is well"),
            },
            TranscriptRow::ToolUse {
                id: text("c1"),
                input: Some(test_rows::raw(r#"{"command":"ls -l"}"#)),
                status: Some(text("pending")),
                title: Some(text("Harmless")),
                tool: Some(text("Bash")),
            },
            TranscriptRow::ToolResult {
                id: text("c1"),
                status: text("failed"),
                text: text("no"),
            },
            TranscriptRow::Plan { steps: Vec::new() },
            TranscriptRow::Other {
                update: test_rows::raw(r#"{"a":1}"#),
            },
        ];
        let shown: String = rows.iter().map(entry).collect();
        assert_eq!(
            shown,
            "> fix it\n^ which?\n^ > none\n| done\n| > fix it\\u{1b}[2J\\r! all is well\n* Bash: ls -l pending\n\
             = failed: no\n? {\"a\":1}\n"
        );
    }
}
