//! Facts about an agent as updates of its session.

use countersign_core::event::{AgentPlan, TokenUsage, ToolStatus, TranscriptEntry};
use countersign_core::{TextLayout, visible};
use serde_json::{Value, json};

use super::session::{SessionCommand, SessionEvent};
use super::tool_calls::CallChange;
use super::{EditorConnection, EditorOutput, open};

impl EditorConnection {
    pub(super) fn apply_event(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        event: SessionEvent,
    ) {
        match event {
            SessionEvent::Ready => {}
            SessionEvent::Exited { message } => {
                self.tell(output, session, &format!("The agent ended: {message}"));
            }
            SessionEvent::Transcript { turn, entries } => {
                self.show_entries(output, session, turn, entries);
            }
            SessionEvent::TurnEnded {
                turn,
                reason,
                message,
            } => self.end_turn(output, session, turn, &reason, message.as_deref()),
            SessionEvent::MessageWithdrawn { text, by } => {
                self.fail_withdrawn_prompt(output, session, &text, &by);
            }
            SessionEvent::MessagesDropped { reason } => {
                self.fail_waiting_prompts(output, session, &reason);
            }
            SessionEvent::Reported {
                mode,
                model,
                usage,
                title,
            } => self.show_report(output, session, mode, model, usage, title),
            SessionEvent::ChoicesChanged(choices) => {
                self.show_choices(output, session, *choices);
            }
            SessionEvent::AskOpened(ask) => self.open_ask(output, session, &ask),
            SessionEvent::AskEnded(end) => self.end_ask(output, session, *end),
            SessionEvent::TerminalOpened { id, command } => {
                self.open_window(output, session, id, &command);
            }
            SessionEvent::TerminalEnded { id, succeeded } => {
                self.end_window(output, session, &id, succeeded);
            }
            SessionEvent::Called { id, call } => self.serve_call(output, session, id, call),
            SessionEvent::QuestionOpened(question) => {
                self.open_question(output, session, question);
            }
            SessionEvent::QuestionEnded { id, note } => {
                self.end_question(output, session, &id, &note);
            }
        }
    }

    fn show_entries(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        turn: u32,
        entries: Vec<TranscriptEntry>,
    ) {
        for entry in entries {
            if let TranscriptEntry::User { text, .. } = &entry
                && self.claim_message(output, session, turn, text)
            {
                continue;
            }
            self.show_entry(output, session, entry);
        }
    }

    /// Shows what was said or done.
    pub(super) fn show_entry(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        entry: TranscriptEntry,
    ) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        match entry {
            TranscriptEntry::User { text, .. } => {
                output.update(session, &chunk("user_message_chunk", &text));
            }
            TranscriptEntry::Assistant { text } => {
                output.update(session, &chunk("agent_message_chunk", &text));
            }
            TranscriptEntry::Thinking { text } => {
                output.update(session, &chunk("agent_thought_chunk", &text));
            }
            TranscriptEntry::ToolUse {
                id,
                title,
                tool,
                input,
                status,
            } => {
                let change = CallChange {
                    title,
                    tool,
                    input,
                    status,
                };
                opened.calls.change(output, session, &id, &change);
            }
            TranscriptEntry::ToolResult { id, status, text } => {
                opened.calls.finish(output, session, &id, status, text);
            }
            TranscriptEntry::Plan { plan } => output.update(session, &plan_update(&plan)),
            TranscriptEntry::Notice { text } => {
                let text = visible(&text, TextLayout::Block).into_owned();
                self.tell(output, session, &text);
            }
            // An editor knows no more of it than we do, and a strict one would refuse it.
            TranscriptEntry::Other { .. } => {}
        }
    }

    /// Tells the editor's user something that is not the agent's.
    pub(super) fn tell(&self, output: &mut EditorOutput, session: &str, text: &str) {
        let update = if self.client.notices {
            json!({"sessionUpdate": "notice", "severity": "info", "title": text})
        } else {
            // As a thought: never as something that the agent said.
            chunk("agent_thought_chunk", &format!("[countersign] {text}\n"))
        };
        output.update(session, &update);
    }

    fn show_report(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        mode: Option<String>,
        model: Option<String>,
        usage: Option<TokenUsage>,
        title: Option<String>,
    ) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        if let Some(usage) = usage.and_then(usage_update) {
            output.update(session, &usage);
        }
        if let Some(title) = title {
            output.update(session, &self::title(&title));
        }
        if mode.is_none() && model.is_none() {
            return;
        }
        // A report names only what changed; the rest stays as it was.
        let mut choices = opened.choices.clone();
        choices.mode = mode.or(choices.mode);
        choices.model = model.or(choices.model);
        self.show_choices(output, session, choices);
    }

    fn show_choices(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        choices: super::SessionChoices,
    ) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        let before = std::mem::replace(&mut opened.choices, choices);
        let now = &opened.choices;
        if now.mode != before.mode
            && let Some(mode) = &now.mode
        {
            let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": mode});
            output.update(session, &update);
        }
        let options = open::config_options(now);
        if options != open::config_options(&before) {
            let update = json!({"sessionUpdate": "config_option_update", "configOptions": options});
            output.update(session, &update);
        }
        if now.commands != before.commands {
            output.update(session, &commands(&now.commands));
        }
    }
}

pub(super) fn title(title: &str) -> Value {
    let title = visible(title, TextLayout::Line);
    json!({"sessionUpdate": "session_info_update", "title": title})
}

pub(super) fn commands(commands: &[SessionCommand]) -> Value {
    let rows = commands.iter().map(|command| {
        let mut row = json!({"name": command.name, "description": command.description});
        if let Some(hint) = &command.hint {
            row["input"] = json!({"hint": hint});
        }
        row
    });
    let rows: Vec<Value> = rows.collect();
    json!({"sessionUpdate": "available_commands_update", "availableCommands": rows})
}

pub(super) fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

fn plan_update(plan: &AgentPlan) -> Value {
    let steps = plan.steps.iter().map(|step| {
        let status = match step.status.as_str() {
            known @ ("in_progress" | "completed") => known,
            _ => "pending",
        };
        let text = visible(&step.text, TextLayout::Line);
        json!({"content": text, "priority": "medium", "status": status})
    });
    let steps: Vec<Value> = steps.collect();
    json!({"sessionUpdate": "plan", "entries": steps})
}

fn usage_update(usage: TokenUsage) -> Option<Value> {
    // Both are required there, and not every agent reports both.
    let (used, size) = (usage.context_used?, usage.context_size?);
    let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
    if let Some(micro) = usage.cost_micro_usd {
        #[expect(clippy::cast_precision_loss, reason = "an amount for people")]
        let amount = micro as f64 / 1e6;
        update["cost"] = json!({"amount": amount, "currency": "USD"});
    }
    Some(update)
}

/// The protocol's word for how far a call is. One whose end is not known did not succeed for certain.
pub(super) fn status_word(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Pending => "pending",
        ToolStatus::InProgress => "in_progress",
        ToolStatus::Completed => "completed",
        // The protocol has no word for it, and an editor would show `completed` as a success.
        ToolStatus::Failed | ToolStatus::Unknown => "failed",
    }
}

/// The protocol's kind for a tool of ours.
pub(super) fn kind_of(tool: Option<&str>) -> &'static str {
    match tool {
        Some("Bash") => "execute",
        Some("Edit" | "Write" | "MultiEdit" | "NotebookEdit") => "edit",
        Some("Read" | "NotebookRead" | "LS") => "read",
        Some("Grep" | "Glob" | "WebSearch") => "search",
        Some("WebFetch") => "fetch",
        _ => "other",
    }
}
