//! `read_transcript`: what a descendant said and did, as text that another model reads.

use std::collections::VecDeque;

use countersign_core::event::TranscriptEntry;
use countersign_core::limits::{MCP_TRANSCRIPT_BYTES_MAX, MCP_TRANSCRIPT_PAGES_MAX, PAGE_ROWS_MAX};
use countersign_daemon::TranscriptPage;
use countersign_protocol::TranscriptQuery;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::ToolCall;
use super::reply::{ToolFailure, ToolReply, ToolResult, cut, quoted};
use super::steering::find_agent;
use crate::convert::managed::tool_status;
use crate::ops;

/// Default number of transcript entries.
const ENTRIES: usize = 40;
const ENTRIES_MAX: usize = 400;

/// How much of one entry is shown.
const ENTRY_BYTES: usize = 4 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct TranscriptArguments {
    /// Its name or id.
    agent: String,
    /// Only what came after this: `next` of an earlier result.
    #[serde(default)]
    after: Option<u64>,
    /// How many entries. Default: 40.
    #[serde(default)]
    #[schemars(range(min = 1, max = 400))]
    limit: Option<usize>,
}

struct ShownEntry {
    turn: u32,
    kind: &'static str,
    text: String,
}

pub(super) async fn transcript(call: &ToolCall<'_>, arguments: TranscriptArguments) -> ToolResult {
    let id = find_agent(call, &arguments.agent).await?;
    let limit = arguments.limit.unwrap_or(ENTRIES).clamp(1, ENTRIES_MAX);
    let mut newest = NewestEntries {
        entries: VecDeque::new(),
        limit,
    };
    let mut after = arguments.after;
    let mut more = true;
    // Forward from the cursor to the end, and only the newest entries are kept. The bound keeps a
    // long transcript from holding up the host; `more` then says that the reader is not at the end.
    for _ in 0..MCP_TRANSCRIPT_PAGES_MAX {
        let page = page(call, &id, after).await?;
        after = Some(page.next.0);
        more = page.more;
        newest.add(&page);
        if !more {
            break;
        }
    }
    Ok(reply(newest.entries, after, more))
}

async fn page(
    call: &ToolCall<'_>,
    id: &str,
    after: Option<u64>,
) -> Result<TranscriptPage, ToolFailure> {
    let query = TranscriptQuery {
        after,
        limit: u64::try_from(PAGE_ROWS_MAX).ok(),
        ..TranscriptQuery::default()
    };
    let page = ops::managed::transcript(call.service(), &call.caller, id.to_owned(), query);
    Ok(page.await?)
}

/// The newest entries. Text that arrived in pieces is joined to one entry.
struct NewestEntries {
    entries: VecDeque<ShownEntry>,
    limit: usize,
}

impl NewestEntries {
    fn add(&mut self, page: &TranscriptPage) {
        for (_, _, added) in &page.parts {
            for entry in &added.entries {
                self.add_entry(added.turn, entry);
            }
        }
    }

    fn add_entry(&mut self, turn: u32, entry: &TranscriptEntry) {
        let Some((kind, text)) = shown(entry) else {
            return;
        };
        if let Some(last) = self.entries.back_mut()
            && kind == "assistant"
            && last.kind == kind
            && last.turn == turn
        {
            // What is beyond would be cut anyway, and a turn can have any number of pieces.
            if last.text.len() < ENTRY_BYTES {
                last.text.push_str(&text);
            }
            return;
        }
        if self.entries.len() == self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(ShownEntry { turn, kind, text });
    }
}

/// What is of use to another model; thoughts and unknown updates are left out.
fn shown(entry: &TranscriptEntry) -> Option<(&'static str, String)> {
    match entry {
        TranscriptEntry::User { text, .. } => Some(("user", text.clone())),
        TranscriptEntry::Assistant { text } => Some(("assistant", text.clone())),
        TranscriptEntry::ToolUse { title, tool, .. } => {
            Some(("tool", title.as_ref().or(tool.as_ref())?.clone()))
        }
        TranscriptEntry::ToolResult { status, text, .. } => {
            Some(("result", format!("{}: {text}", tool_status(*status))))
        }
        TranscriptEntry::Notice { text } => Some(("notice", text.clone())),
        _ => None,
    }
}

fn reply(entries: VecDeque<ShownEntry>, next: Option<u64>, more: bool) -> ToolReply {
    let mut left = MCP_TRANSCRIPT_BYTES_MAX;
    let mut lines: VecDeque<String> = VecDeque::new();
    let mut data: VecDeque<Value> = VecDeque::new();
    // From the newest backwards, so that the oldest are left out if there is too much.
    for entry in entries.into_iter().rev() {
        let text = quoted(&cut(&entry.text, ENTRY_BYTES));
        let line = format!("[turn {}] {}: {text}", entry.turn, entry.kind);
        let Some(rest) = left.checked_sub(line.len()) else {
            break;
        };
        left = rest;
        lines.push_front(line);
        data.push_front(json!({"turn": entry.turn, "kind": entry.kind, "text": text}));
    }
    if lines.is_empty() {
        lines.push_back("nothing yet".to_owned());
    }
    let lines: Vec<String> = lines.into();
    ToolReply::new(
        lines.join("\n"),
        json!({"entries": data, "next": next, "more": more}),
    )
}
