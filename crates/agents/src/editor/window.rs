//! Terminals of agents in windows of the editor: the command runs with the agent, and the editor runs a
//! program that only shows its output.

use countersign_core::{TextLayout, visible};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{AskedRequest, EditorConnection, EditorOutput, EditorTerminals};
use crate::acp::envelope::AcpError;

impl EditorConnection {
    pub(super) fn shows_terminals(&self) -> bool {
        let has_windows = self.settings.terminals == EditorTerminals::Window;
        has_windows && self.client.terminal && self.settings.viewer.is_some()
    }

    /// Whether the editor runs the commands of its agents.
    pub(super) fn runs_commands(&self) -> bool {
        self.settings.terminals == EditorTerminals::Editor && self.client.terminal
    }

    /// Has the editor show a terminal.
    pub(super) fn open_window(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        terminal: String,
        command: &str,
    ) {
        let Some(viewer) = self
            .settings
            .viewer
            .clone()
            .filter(|_| self.shows_terminals())
        else {
            return;
        };
        let env = viewer.env.iter();
        let env: Vec<Value> = env
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let mut args = viewer.args;
        args.push(format!("{session}/{terminal}"));
        let params = json!({
            "sessionId": session, "command": viewer.command, "args": args, "env": env,
        });
        let about = AskedRequest::Window {
            session: session.to_owned(),
            terminal,
            title: visible(command, TextLayout::Line).into_owned(),
        };
        self.ask_editor(output, "terminal/create", &params, about);
    }

    /// The editor made a window, or did not: then there is only no window.
    pub(super) fn show_window(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        terminal: &str,
        title: &str,
        outcome: Result<&RawValue, AcpError>,
    ) {
        let result = outcome.ok().map(RawValue::get);
        let result = result.and_then(|result| serde_json::from_str::<Value>(result).ok());
        let result = result.unwrap_or_default();
        let Some(window) = result.get("terminalId").and_then(Value::as_str) else {
            return;
        };
        if self.sessions.contains_key(session) {
            let update = json!({
                "sessionUpdate": "tool_call", "toolCallId": call_id(terminal), "title": title,
                "kind": "execute", "status": "in_progress",
                "content": [{"type": "terminal", "terminalId": window}],
            });
            output.update(session, &update);
        }
    }

    pub(super) fn end_window(
        &self,
        output: &mut EditorOutput,
        session: &str,
        terminal: &str,
        succeeded: bool,
    ) {
        if self.shows_terminals() {
            let status = if succeeded { "completed" } else { "failed" };
            let update = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": call_id(terminal), "status": status,
            });
            output.update(session, &update);
        }
    }
}

/// What the editor knows a terminal's tool call by: no agent's id of a call has this form.
fn call_id(terminal: &str) -> String {
    format!("countersign/terminal/{terminal}")
}
