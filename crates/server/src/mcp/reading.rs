//! `read_transcript`: what an agent below said and did, as text that another model reads.

use std::collections::VecDeque;

use countersign_core::limits::{MCP_TRANSCRIPT_BYTES_MAX, MCP_TRANSCRIPT_PAGES_MAX, PAGE_ROWS_MAX};
use countersign_protocol::{TranscriptQuery, TranscriptResult, TranscriptRow};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::Call;
use super::reply::{Outcome, Stop, Told, cut, named, quoted};
use super::steering::find;
use crate::ops;

/// Default number of transcript entries.
const ENTRIES: usize = 40;
const ENTRIES_MAX: usize = 400;

/// How much of one entry is shown.
const ENTRY_BYTES: usize = 4 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    agent: String,
    #[serde(default)]
    after: Option<u64>,
    #[serde(default)]
    limit: Option<usize>,
}

/// One entry as it is shown.
struct Shown {
    turn: u32,
    kind: &'static str,
    text: String,
}

pub(super) async fn transcript(call: &Call<'_>, read: Read) -> Outcome {
    let id = find(call, &read.agent).await?;
    let limit = read.limit.unwrap_or(ENTRIES).clamp(1, ENTRIES_MAX);
    let mut kept = Kept {
        entries: VecDeque::new(),
        limit,
    };
    let mut after = read.after;
    let mut more = true;
    for _ in 0..MCP_TRANSCRIPT_PAGES_MAX {
        let page = page(call, &id, after).await?;
        after = Some(page.next);
        more = page.more;
        kept.add(page);
        if !more {
            break;
        }
    }
    Ok(told(kept.entries, after, more))
}

async fn page(call: &Call<'_>, id: &str, after: Option<u64>) -> Result<TranscriptResult, Stop> {
    let query = TranscriptQuery {
        after,
        limit: u64::try_from(PAGE_ROWS_MAX).ok(),
    };
    let page = ops::managed::transcript(call.service(), &call.caller, id.to_owned(), query);
    Ok(page.await?)
}

/// The newest entries; text that was said in pieces is one.
struct Kept {
    entries: VecDeque<Shown>,
    limit: usize,
}

impl Kept {
    fn add(&mut self, page: TranscriptResult) {
        for part in page.parts {
            for entry in part.entries {
                self.add_entry(part.turn, &entry);
            }
        }
    }

    fn add_entry(&mut self, turn: u32, entry: &TranscriptRow) {
        let Some((kind, text)) = shown(entry) else {
            return;
        };
        if let Some(last) = self.entries.back_mut()
            && kind == "assistant"
            && last.kind == kind
            && last.turn == turn
        {
            if last.text.len() < ENTRY_BYTES {
                last.text.push_str(&text);
            }
            return;
        }
        if self.entries.len() == self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(Shown { turn, kind, text });
    }
}

/// What another model can make something of; thoughts and what nobody knows are left out.
fn shown(entry: &TranscriptRow) -> Option<(&'static str, String)> {
    match entry {
        TranscriptRow::User { text, .. } => Some(("user", text.clone())),
        TranscriptRow::Assistant { text } => Some(("assistant", text.clone())),
        TranscriptRow::ToolUse { title, tool, .. } => {
            let named = title.as_ref().or(tool.as_ref())?;
            Some(("tool", named.clone()))
        }
        TranscriptRow::ToolResult { status, text, .. } => {
            Some(("result", format!("{status}: {text}")))
        }
        TranscriptRow::Notice { text } => Some(("notice", text.clone())),
        _ => None,
    }
}

fn told(entries: VecDeque<Shown>, next: Option<u64>, more: bool) -> Told {
    let mut left = MCP_TRANSCRIPT_BYTES_MAX;
    let mut lines: VecDeque<String> = VecDeque::new();
    let mut data: VecDeque<Value> = VecDeque::new();
    for entry in entries.into_iter().rev() {
        let text = quoted(&cut(&entry.text, ENTRY_BYTES));
        let line = format!("[turn {}] {}: {text}", entry.turn, named(entry.kind));
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
    let words: Vec<String> = lines.into();
    Told::new(
        words.join("\n"),
        json!({"entries": data, "next": next, "more": more}),
    )
}
