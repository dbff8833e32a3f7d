//! Tool calls as the editor shows them.
//!
//! Agents use their ids of calls again; the editor gets another id for each call. What it shows of a
//! call is kept in full with every change, because an update replaces the content.

use std::collections::VecDeque;

use countersign_core::event::ToolStatus;
use countersign_core::limits::{EDITOR_CALLS_KEPT, EDITOR_NOTES_MAX};
use countersign_core::{Json, TextLayout, visible};
use serde_json::{Value, json};

use super::ask::{AskOutcome, EditorAsk};
use super::{EditorOutput, permission, updates};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    calls: VecDeque<ShownCall>,
    made: u64,
}

#[derive(Debug)]
struct ShownCall {
    agent_id: String,
    editor_id: String,
    is_over: bool,
    /// What an ask about it showed.
    asked: Vec<Value>,
    notes: Vec<String>,
    result: Option<String>,
}

impl ShownCall {
    fn content(&self) -> Vec<Value> {
        let notes = self.notes.iter().map(|note| updates::text_content(note));
        let result = self.result.iter();
        let result = result.map(|text| updates::text_content(text));
        self.asked
            .iter()
            .cloned()
            .chain(notes)
            .chain(result)
            .collect()
    }
}

/// What the agent says of a call; absent fields are unchanged.
pub(super) struct CallChange {
    pub(super) title: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) input: Option<Json>,
    pub(super) status: Option<ToolStatus>,
}

impl ToolCalls {
    /// The newest call under the agent's id, unless it is over.
    fn find(&mut self, agent_id: &str) -> Option<&mut ShownCall> {
        let mut newest = self.calls.iter_mut().rev();
        let found = newest.find(|call| call.agent_id == agent_id);
        // A call that is over keeps its place, and an agent that uses its id again begins another.
        found.filter(|call| !call.is_over)
    }

    fn find_shown(&mut self, editor_id: &str) -> Option<&mut ShownCall> {
        let mut newest = self.calls.iter_mut().rev();
        newest.find(|call| call.editor_id == editor_id)
    }

    fn begin(&mut self, agent_id: &str) -> &mut ShownCall {
        let is_used = self.calls.iter().any(|call| call.agent_id == agent_id);
        self.made += 1;
        let editor_id = if is_used {
            format!("{agent_id}#{}", self.made)
        } else {
            agent_id.to_owned()
        };
        if self.calls.len() >= EDITOR_CALLS_KEPT {
            self.calls.pop_front();
        }
        self.calls.push_back(ShownCall {
            agent_id: agent_id.to_owned(),
            editor_id,
            is_over: false,
            asked: Vec::new(),
            notes: Vec::new(),
            result: None,
        });
        let newest = self.calls.len() - 1;
        &mut self.calls[newest]
    }

    /// The agent begins a call, or says more of one.
    pub(super) fn change(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        agent_id: &str,
        change: &CallChange,
    ) {
        let status = change.status.map_or("pending", updates::status_word);
        let title = change.title.as_deref().or(change.tool.as_deref());
        let title = title.map(|title| visible(title, TextLayout::Line).into_owned());
        let input = change.input.as_ref();
        let input = input.and_then(|input| serde_json::from_str::<Value>(input.text()).ok());
        let mut update = if let Some(call) = self.find(agent_id) {
            let mut update = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": call.editor_id,
            });
            if let Some(title) = title {
                update["title"] = json!(title);
            }
            if change.status.is_some() {
                update["status"] = json!(status);
            }
            update
        } else {
            let call = self.begin(agent_id);
            json!({
                "sessionUpdate": "tool_call", "toolCallId": call.editor_id, "status": status,
                "title": title.unwrap_or_else(|| "A tool".to_owned()),
            })
        };
        if change.tool.is_some() {
            update["kind"] = json!(updates::kind_of(change.tool.as_deref()));
        }
        if let Some(input) = input {
            update["rawInput"] = input;
        }
        output.update(session, &update);
    }

    pub(super) fn finish(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        agent_id: &str,
        status: ToolStatus,
        text: String,
    ) {
        if self.find(agent_id).is_none() {
            let change = CallChange {
                title: None,
                tool: None,
                input: None,
                status: None,
            };
            self.change(output, session, agent_id, &change);
        }
        let Some(call) = self.find(agent_id) else {
            return;
        };
        call.is_over = true;
        call.result = Some(text).filter(|text| !text.is_empty());
        if status == ToolStatus::Unknown {
            call.notes.push("Its end was not reported.".to_owned());
        }
        let update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call.editor_id,
            "status": updates::status_word(status), "content": call.content(),
        });
        output.update(session, &update);
    }

    /// Shows what an ask is about, and gives the id under which the editor knows it.
    pub(super) fn show_ask(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        agent_id: &str,
        ask: &EditorAsk,
    ) -> String {
        if self.find(agent_id).is_none() {
            self.announce(output, session, agent_id, &ask.title, ask.tool.as_deref());
        }
        let Some(call) = self.find(agent_id) else {
            return agent_id.to_owned();
        };
        call.asked = permission::ask_content(ask);
        let update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call.editor_id,
            "content": call.content(),
        });
        output.update(session, &update);
        call.editor_id.clone()
    }

    /// The id of the call that an ask was about which the editor was never asked.
    pub(super) fn show_outcome(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        end: &AskOutcome,
    ) -> String {
        let agent_id = end.tool_call.as_deref().unwrap_or(&end.id);
        if let Some(call) = self.find(agent_id) {
            return call.editor_id.clone();
        }
        self.announce(output, session, agent_id, &end.title, end.tool.as_deref());
        let call = self.find(agent_id);
        call.map_or_else(|| agent_id.to_owned(), |call| call.editor_id.clone())
    }

    fn announce(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        agent_id: &str,
        title: &str,
        tool: Option<&str>,
    ) {
        let call = self.begin(agent_id);
        let update = json!({
            "sessionUpdate": "tool_call", "toolCallId": call.editor_id, "status": "pending",
            "title": title, "kind": updates::kind_of(tool),
        });
        output.update(session, &update);
    }

    /// Adds a line of ours to a call.
    pub(super) fn add_note(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        editor_id: &str,
        note: String,
    ) {
        let Some(call) = self.find_shown(editor_id) else {
            return;
        };
        if call.notes.len() >= EDITOR_NOTES_MAX {
            call.notes.remove(0);
        }
        call.notes.push(note);
        let update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": editor_id,
            "content": call.content(),
        });
        output.update(session, &update);
    }
}
