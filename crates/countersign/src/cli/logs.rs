//! `logs`: an agent's story as people read it.
//!
//! Invariants: every line begins with a mark of ours, so that nothing an agent writes can look like
//! a line that it did not write; entries and decisions stand in the order in which they were recorded.

use std::collections::VecDeque;

use anstyle::Style;
use clap::Args;
use countersign_protocol::{
    AgentTarget, EventsParams, HostEvent, Kinds, Reason, SubscribeParams, TranscriptPart,
    TranscriptQuery, TranscriptResult, TranscriptRow, method,
};
use serde::Serialize;

use super::{CommonArgs, agent_lookup};
use crate::client::{CallError, HostClient};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::reconnect::{RetryLimit, is_lost, reconnect};
use crate::render::{decisions, escape, transcript};

/// Facts after which there may be more to read.
const WAKING: [&str; 7] = [
    "transcript.added",
    "turn.ended",
    "agent.exited",
    "approval.resolved",
    "turn.interrupted",
    "agent.stop_requested",
    decisions::NOTE,
];

/// Events in one page of decisions.
const DECISIONS_PAGE: u64 = 500;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign logs builder
  countersign logs -f builder
  countersign logs --after 1042 --json builder | jq -c '.parts[].entries[]'

Marks: `>` a message to the agent, `^` a message from a child agent, `|` text of the agent, `~` its
thoughts, `*` a tool call, `=` the result of a tool call, `@` a decision (an ask was allowed or denied,
the agent was interrupted or killed), `-` a step of its plan, `!` a notice of the host or the agent, or
a note that the agent sent, `?` anything else.")]
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
    let agent = agent_lookup::load_agent(&mut client, &args.agent).await?;
    let mut reader = TranscriptPrinter {
        format: match (common.json, args.follow) {
            (false, _) => StoryFormat::Text,
            (true, true) => StoryFormat::JsonLines,
            (true, false) => StoryFormat::Document(StoryDocument::default()),
        },
        agent: agent.id,
        after: args.after,
        decided: args.after,
        waiting: VecDeque::new(),
    };
    if !args.follow {
        reader.print_rest(&mut client).await?;
        reader.print_document()?;
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
    // Two connections, and subscribed before the first read: what is added while a page is read wakes
    // the next one, and is never missed.
    let mut events = match common.connect().await {
        Ok(events) => events,
        Err(error) => return error,
    };
    let params = SubscribeParams {
        kinds: Some(WAKING.map(str::to_owned).to_vec()),
        ..SubscribeParams::default()
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
                // Its content is not used: what is printed is read from the cursor, so no entry is
                // printed twice.
                Ok(event) if event.agent_id.as_deref() == Some(&reader.agent) => break,
                Ok(_) => {}
                Err(error) => return error.into(),
            }
        }
    }
}

enum StoryFormat {
    Text,
    /// One document for each part and each decision.
    JsonLines,
    /// One document for everything.
    Document(StoryDocument),
}

/// What `logs --json` prints when it does not follow.
#[derive(Default, Serialize)]
struct StoryDocument {
    parts: Vec<TranscriptPart>,
    decisions: Vec<HostEvent>,
    /// For `--after`.
    next: u64,
}

struct TranscriptPrinter {
    format: StoryFormat,
    agent: String,
    after: Option<u64>,
    /// The last decision that was read.
    decided: Option<u64>,
    /// Decisions that were read and not printed.
    waiting: VecDeque<HostEvent>,
}

impl TranscriptPrinter {
    /// Prints all there is after the cursor. The cursor never passes what was not printed.
    async fn print_rest(&mut self, client: &mut HostClient) -> Result<(), CliError> {
        self.read_decisions(client).await?;
        loop {
            let page = read(client, &self.agent, self.after).await?;
            if page.parts.is_empty() && !page.more {
                // Read after these decisions, the transcript has nothing that belongs before them.
                return self.print_decisions(u64::MAX);
            }
            // Read after the page, so that every decision that belongs between its parts is known.
            self.read_decisions(client).await?;
            for part in page.parts {
                self.print_decisions(part.sequence)?;
                self.after = Some(part.sequence);
                self.print_part(part)?;
            }
            self.after = Some(page.next);
        }
    }

    /// Reads the decisions that were made since the last time.
    async fn read_decisions(&mut self, client: &mut HostClient) -> Result<(), CliError> {
        let mut found: Vec<HostEvent> = Vec::new();
        let mut before = None;
        // The host gives the newest first.
        loop {
            let params = EventsParams {
                after: self.decided,
                before,
                limit: Some(DECISIONS_PAGE),
                kinds: Some(Kinds(decisions::KINDS.map(str::to_owned).to_vec())),
                agent_id: Some(self.agent.clone()),
            };
            let page = match client.call::<method::Events>(&params).await {
                Ok(page) => page,
                // An agent may read its own transcript, and not the record.
                Err(error) if error.reason() == Some(Reason::AgentNotAllowed) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let is_last = (page.len() as u64) < DECISIONS_PAGE;
            before = page.last().map(|event| event.sequence);
            found.extend(page);
            if is_last {
                break;
            }
        }
        found.sort_by_key(|event| event.sequence);
        self.decided = found.last().map(|event| event.sequence).or(self.decided);
        self.waiting.extend(found);
        Ok(())
    }

    /// Prints the decisions that were made before an event.
    fn print_decisions(&mut self, before: u64) -> Result<(), CliError> {
        while let Some(event) = self.waiting.front()
            && event.sequence < before
        {
            match &mut self.format {
                StoryFormat::Text => output::print(&decision_text(event))?,
                StoryFormat::JsonLines => output::print_json(event)?,
                StoryFormat::Document(document) => document.decisions.push(event.clone()),
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn print_part(&mut self, part: TranscriptPart) -> Result<(), CliError> {
        match &mut self.format {
            StoryFormat::Text => output::print(&part.entries.iter().map(entry).collect::<String>()),
            StoryFormat::JsonLines => output::print_json(&part),
            StoryFormat::Document(document) => {
                document.parts.push(part);
                Ok(())
            }
        }
    }

    fn print_document(&mut self) -> Result<(), CliError> {
        let StoryFormat::Document(document) = &mut self.format else {
            return Ok(());
        };
        document.next = self.after.max(self.decided).unwrap_or(0);
        output::print_json(document)
    }
}

fn decision_text(event: &HostEvent) -> String {
    let text = decisions::describe(event);
    if event.kind == decisions::NOTE {
        return mark_lines('!', &text);
    }
    let style = output::state_style(&text);
    styled_lines('@', &text, style)
}

async fn read(
    client: &mut HostClient,
    agent: &str,
    after: Option<u64>,
) -> Result<TranscriptResult, CallError> {
    let params = AgentTarget {
        agent_id: agent.to_owned(),
        body: TranscriptQuery {
            after,
            ..TranscriptQuery::default()
        },
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
    let texts = transcript::marked_texts(row).into_iter();
    texts.map(|(mark, text)| mark_lines(mark, &text)).collect()
}

/// Every line of a text behind a mark of ours.
fn mark_lines(mark: char, text: &str) -> String {
    let style = match mark {
        '>' | '^' => output::HEAD,
        '~' | '-' => output::FAINT,
        '!' => output::WARNING,
        _ => Style::new(),
    };
    styled_lines(mark, text, style)
}

fn styled_lines(mark: char, text: &str, style: Style) -> String {
    let shown = escape::block(text.trim_end_matches('\n'));
    let lines = shown.split('\n').map(|line| {
        let line = format!("{mark} {line}");
        format!("{style}{}{style:#}\n", line.trim_end())
    });
    lines.collect()
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
            anstream::adapter::strip_str(&shown).to_string(),
            "> fix it\n^ which?\n^ > none\n| done\n| > fix it\\u{1b}[2J\\r! all is well\n* Bash: ls -l pending\n\
             = failed: no\n? {\"a\":1}\n"
        );
    }
}
