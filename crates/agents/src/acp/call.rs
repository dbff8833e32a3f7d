//! Tool calls of the running turn: what was said of each so far.
//!
//! Invariant: their number and bytes are bounded. A call that had to be forgotten is an unknown
//! one, and what is unknown is asked about, never allowed.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{ToolCallContent, ToolCallLocation};
use countersign_core::Json;
use countersign_core::event::ToolStatus;
use countersign_core::limits::{
    TOOL_CALL_BYTES_KNOWN_MAX, TOOL_CALLS_KNOWN_MAX, TOOL_CALLS_OVER_KNOWN_MAX,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::envelope;
use crate::adapter::is_default;
use crate::truncate::to_bounded_json;

/// What an agent says of a tool call in one message. Absent and `null` fields say nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallUpdate<'a> {
    pub(super) tool_call_id: String,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    locations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    raw_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    raw_output: Option<&'a RawValue>,
    #[serde(rename = "_meta", default)]
    meta: Option<Value>,
}

/// One edit that an agent shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCallDiff {
    pub(super) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) old_text: Option<String>,
    pub(super) new_text: String,
}

/// What is known of one tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolCallState {
    /// When it was first output of, counted per connection.
    born: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    /// The agent's own name of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<ToolStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) raw_input: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) diffs: Vec<ToolCallDiff>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) locations: Vec<String>,
    /// Rises whenever something becomes known that an ask would show.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) revision: u64,
    /// Why what is known cannot be relied upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) doubt: Option<String>,
}

impl ToolCallState {
    /// Takes in what one message says.
    pub(super) fn learn(&mut self, update: &CallUpdate<'_>) {
        if let Some(title) = update.title.as_ref().filter(|title| !title.is_empty()) {
            self.title = Some(envelope::truncate_noise(title));
        }
        if let Some(status) = update.status() {
            self.status = Some(status);
        }
        let mut changed = self.learn_name(update);
        if let Some(kind) = &update.kind {
            changed |= replace_if_changed(&mut self.kind, Some(envelope::truncate_noise(kind)));
        }
        if let Some(raw) = update.raw_input {
            changed |= replace_if_changed(&mut self.raw_input, to_bounded_json(raw));
            // An earlier input must not stand in for one that was too large: it is not what would
            // run.
            let is_lost = self.raw_input.is_none();
            let doubt = is_lost.then(|| "the input is too large to be shown".to_owned());
            changed |= replace_if_changed(&mut self.doubt, doubt);
        }
        if let Some(content) = update.contents() {
            changed |= replace_if_changed(&mut self.diffs, diffs(content));
        }
        if let Some(locations) = update.locations {
            let all: Vec<Value> = serde_json::from_str(locations.get()).unwrap_or_default();
            let all = all.into_iter().filter_map(location).collect();
            changed |= replace_if_changed(&mut self.locations, all);
        }
        self.revision += u64::from(changed);
    }

    fn learn_name(&mut self, update: &CallUpdate<'_>) -> bool {
        let name = update.name.clone().or_else(|| {
            let meta = update.meta.as_ref()?;
            let name = meta.pointer("/claudeCode/toolName")?;
            Some(name.as_str()?.to_owned())
        });
        let name = name.filter(|name| !name.is_empty());
        name.is_some_and(|name| {
            replace_if_changed(&mut self.name, Some(envelope::truncate_noise(&name)))
        })
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(
            self.status,
            Some(ToolStatus::Completed | ToolStatus::Failed | ToolStatus::Unknown)
        )
    }

    /// Whether anything but its id is known.
    fn is_described(&self) -> bool {
        self.status.is_some() || self.title.is_some() || self.raw_input.is_some()
    }

    /// Forgets what only an ask could need.
    fn drop_details(&mut self) {
        self.raw_input = None;
        self.diffs = Vec::new();
        self.locations = Vec::new();
    }

    fn bytes(&self) -> usize {
        let input = self.raw_input.as_ref().map_or(0, |raw| raw.text().len());
        let diffs = self.diffs.iter().map(|diff| {
            diff.path.len() + diff.new_text.len() + diff.old_text.as_ref().map_or(0, String::len)
        });
        let locations = self.locations.iter().map(String::len);
        input + diffs.sum::<usize>() + locations.sum::<usize>()
    }
}

impl CallUpdate<'_> {
    pub(super) fn status(&self) -> Option<ToolStatus> {
        match self.status.as_deref()? {
            "pending" => Some(ToolStatus::Pending),
            "in_progress" => Some(ToolStatus::InProgress),
            "completed" => Some(ToolStatus::Completed),
            // The protocol has no `cancelled`; read as a failure, such a call does not stay open.
            "failed" | "cancelled" => Some(ToolStatus::Failed),
            _ => None,
        }
    }

    pub(super) fn input(&self) -> Option<Json> {
        to_bounded_json(self.raw_input?)
    }

    /// Each piece by itself: one that is not understood takes none of the others away.
    fn contents(&self) -> Option<Vec<ToolCallContent>> {
        let pieces: Vec<Value> = serde_json::from_str(self.content?.get()).ok()?;
        let known = pieces
            .into_iter()
            .filter_map(|piece| serde_json::from_value::<ToolCallContent>(piece).ok());
        Some(known.collect())
    }

    /// What the tool gave: its texts, or its raw output where that is all there is.
    pub(super) fn output(&self) -> String {
        let texts: Vec<String> = self
            .contents()
            .into_iter()
            .flatten()
            .filter_map(|piece| match piece {
                ToolCallContent::Content(content) => super::translate::text_of(&content.content),
                _ => None,
            })
            .collect();
        if !texts.is_empty() {
            return texts.join("\n");
        }
        let raw = self.raw_output.map(RawValue::get).unwrap_or_default();
        match serde_json::from_str(raw) {
            Ok(Value::String(text)) => text,
            Ok(Value::Object(fields)) => {
                ["formatted_output", "aggregated_output", "content", "output"]
                    .iter()
                    .find_map(|name| fields.get(*name)?.as_str().map(str::to_owned))
                    .unwrap_or_else(|| raw.to_owned())
            }
            _ => raw.to_owned(),
        }
    }
}

/// Whether that is another value than before.
fn replace_if_changed<T: PartialEq>(place: &mut T, value: T) -> bool {
    let changed = *place != value;
    *place = value;
    changed
}

fn diffs(content: Vec<ToolCallContent>) -> Vec<ToolCallDiff> {
    let known = content.into_iter().filter_map(|piece| match piece {
        ToolCallContent::Diff(diff) => Some(ToolCallDiff {
            path: diff.path.to_string_lossy().into_owned(),
            old_text: diff.old_text,
            new_text: diff.new_text,
        }),
        _ => None,
    });
    known.collect()
}

fn location(value: Value) -> Option<String> {
    let location: ToolCallLocation = serde_json::from_value(value).ok()?;
    Some(location.path.to_string_lossy().into_owned())
}

/// The calls of the running turn, by the agent's ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolCallTable {
    known: BTreeMap<String, ToolCallState>,
    born: u64,
    /// What all of them carry: counted along, because every word about a call needs it.
    #[serde(default)]
    bytes: usize,
}

impl ToolCallTable {
    pub(super) fn find(&self, id: &str) -> Option<&ToolCallState> {
        self.known.get(id)
    }

    /// Begins a call: anew if an earlier one of that id is over, because agents use their ids again,
    /// and otherwise with what is known of it, because some tell the end of a call as another begin.
    pub(super) fn begin(&mut self, update: &CallUpdate<'_>) -> &ToolCallState {
        if self
            .find(&update.tool_call_id)
            .is_some_and(ToolCallState::is_over)
        {
            self.forget(&update.tool_call_id);
        }
        self.learn(update)
    }

    /// Takes in more of a call, known or not.
    pub(super) fn learn(&mut self, update: &CallUpdate<'_>) -> &ToolCallState {
        let id = update.tool_call_id.clone();
        self.make_room(&id);
        self.born += 1;
        let born = self.born;
        let call = self.known.entry(id).or_insert_with(|| ToolCallState {
            born,
            ..ToolCallState::default()
        });
        // Without this call, whose size is counted again after the change.
        let others = self.bytes.saturating_sub(call.bytes());
        call.learn(update);
        // Dropped input is never guessed later: with a doubt set the call cannot be allowed.
        if others + call.bytes() > TOOL_CALL_BYTES_KNOWN_MAX {
            call.drop_details();
            call.doubt = Some("too much is under way to remember the input".to_owned());
            call.revision += 1;
        }
        self.bytes = others + call.bytes();
        call
    }

    /// Forgets what a call that is over was: only that it is over still counts, so that its end is
    /// told once. Of those that ended long ago nothing is kept.
    pub(super) fn settle(&mut self, id: &str) {
        let Some(call) = self.known.get_mut(id).filter(|call| call.is_over()) else {
            return;
        };
        self.bytes = self.bytes.saturating_sub(call.bytes());
        *call = ToolCallState {
            born: call.born,
            status: call.status,
            revision: call.revision,
            doubt: call.doubt.take(),
            ..ToolCallState::default()
        };
        let mut over: Vec<_> = self
            .known
            .iter()
            .filter(|(_, call)| call.is_over())
            .map(|(id, call)| (call.born, id.clone()))
            .collect();
        if over.len() > TOOL_CALLS_OVER_KNOWN_MAX {
            over.sort_unstable();
            self.forget(&over[0].1);
        }
    }

    /// Notes that what was last said of a call could not be read.
    pub(super) fn doubt(&mut self, id: &str) {
        self.make_room(id);
        let call = self.known.entry(id.to_owned()).or_default();
        call.doubt = Some("what the agent sent with its ask cannot be read".to_owned());
        call.revision += 1;
    }

    /// The oldest one that is over goes first, then the oldest.
    fn make_room(&mut self, id: &str) {
        while self.known.len() >= TOOL_CALLS_KNOWN_MAX && !self.known.contains_key(id) {
            let oldest = self
                .known
                .iter()
                .min_by_key(|(_, call)| (!call.is_over(), call.born))
                .map(|(id, _)| id.clone());
            match oldest {
                Some(oldest) => self.forget(&oldest),
                None => return,
            }
        }
    }

    fn forget(&mut self, id: &str) {
        let forgotten = self.known.remove(id);
        let carried = forgotten.as_ref().map_or(0, ToolCallState::bytes);
        self.bytes = self.bytes.saturating_sub(carried);
    }

    /// Forgets them all; gives those that were never said to have ended, in the order they began.
    pub(super) fn close(&mut self) -> Vec<(String, ToolStatus)> {
        let known = std::mem::take(&mut self.known);
        self.bytes = 0;
        let mut open: Vec<(u64, String)> = known
            .into_iter()
            .filter(|(_, call)| !call.is_over() && call.is_described())
            .map(|(id, call)| (call.born, id))
            .collect();
        open.sort_unstable();
        let closed = open.into_iter();
        closed.map(|(_, id)| (id, ToolStatus::Unknown)).collect()
    }
}

#[cfg(test)]
mod tests {
    use countersign_core::limits::JSON_BYTES_MAX;

    use super::*;

    fn update(text: &str) -> CallUpdate<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_call_is_filled_by_what_comes_later() {
        let mut calls = ToolCallTable::default();
        calls.begin(&update(
            r#"{"toolCallId":"a","title":"Terminal","kind":"execute","status":"pending","rawInput":{},"content":[]}"#,
        ));
        let call = calls.learn(&update(
            r#"{"toolCallId":"a","title":"ls","rawInput":{"command":"ls"},"_meta":{"claudeCode":{"toolName":"Bash"}}}"#,
        ));
        assert_eq!(
            (call.title.as_deref(), call.name.as_deref(), call.status),
            (Some("ls"), Some("Bash"), Some(ToolStatus::Pending))
        );
        assert_eq!(
            call.raw_input.as_ref().unwrap().text(),
            r#"{"command":"ls"}"#
        );
        assert_eq!(calls.close(), vec![("a".to_owned(), ToolStatus::Unknown)]);
        assert_eq!(
            calls,
            ToolCallTable {
                born: 2,
                ..ToolCallTable::default()
            }
        );
    }

    #[test]
    fn what_is_known_is_bounded_in_number_and_bytes() {
        let mut calls = ToolCallTable::default();
        for number in 0..TOOL_CALLS_KNOWN_MAX + 3 {
            let text = format!(r#"{{"toolCallId":"{number}","status":"pending"}}"#);
            calls.begin(&update(&text));
        }
        assert_eq!(calls.known.len(), TOOL_CALLS_KNOWN_MAX);
        assert_eq!(calls.find("2"), None);

        let big = "x".repeat(JSON_BYTES_MAX - 100);
        for number in 3..5 {
            let text = format!(r#"{{"toolCallId":"{number}","rawInput":{{"command":"{big}"}}}}"#);
            calls.learn(&update(&text));
        }
        let text = format!(r#"{{"toolCallId":"5","rawInput":{{"command":"{big}"}}}}"#);
        let call = calls.learn(&update(&text));
        assert!(call.raw_input.is_none() && call.doubt.is_some());
        let text = format!(r#"{{"toolCallId":"6","rawInput":{{"command":"{big}{big}"}}}}"#);
        let call = calls.learn(&update(&text));
        assert!(call.raw_input.is_none() && call.doubt.is_some());
        let carried: usize = calls.known.values().map(ToolCallState::bytes).sum();
        assert_eq!(calls.bytes, carried);
        calls.begin(&update(r#"{"toolCallId":"3","status":"completed"}"#));
        calls.settle("3");
        calls.begin(&update(r#"{"toolCallId":"3","rawInput":{}}"#));
        let carried: usize = calls.known.values().map(ToolCallState::bytes).sum();
        assert_eq!(calls.bytes, carried);
    }
}
