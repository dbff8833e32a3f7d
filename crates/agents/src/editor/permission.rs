//! Asks in the editor: shown as requests for permission, and the answers of its user.
//!
//! Invariants: only an option that was offered counts; an allow that came sooner than a person can read
//! is not taken unless the user configured it; a request that failed, was dismissed or was cancelled
//! answers nothing, and the ask stays in the inbox.

use agent_client_protocol_schema::v1::{RequestPermissionOutcome, RequestPermissionResponse};
use countersign_core::{TextLayout, visible};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ask::{AskAnswer, AskGuard, AskOutcome, EditorAsk, EditorDiff};
use super::host_call::{EditorHostCall, PendingCall};
use super::settings::{AutomaticAllows, EditorAnswers};
use super::{AskedRequest, ConsideredMs, EditorConnection, EditorOutput, notes, updates};
use crate::acp::envelope::AcpError;

const ALLOW_ONCE: &str = "allow-once";
const ALLOW_SESSION: &str = "allow-session";
const ALLOW_REMEMBER: &str = "allow-remember";
const DENY: &str = "deny";

/// What people are told of an answer that the editor gave by itself.
const AUTOMATIC_REFUSED: &str = "an automatic answer of the editor was not taken \
                                 (`[editor] automatic = \"allow\"` in config.toml would take it)";

/// An ask that the editor was shown.
#[derive(Debug)]
pub(super) struct OpenAsk {
    /// Our request, while the editor has not answered it.
    pub(super) request: Option<u64>,
    short_id: String,
    /// The tool call under which the editor shows it.
    call: String,
    offered: Vec<OfferedOption>,
    pub(super) fields: usize,
}

/// One option of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfferedOption {
    id: &'static str,
    name: String,
    kind: &'static str,
    answer: AskAnswer,
}

impl EditorConnection {
    /// Shows an ask, and asks for an answer where the editor may give one.
    pub(super) fn open_ask(&mut self, output: &mut EditorOutput, session: &str, ask: &EditorAsk) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        // It is in the snapshot and among the events that came while the session was opened.
        if opened.asks.contains_key(&ask.id) {
            return;
        }
        let agent_call = ask.tool_call.clone().unwrap_or_else(|| ask.id.clone());
        let call = opened.calls.show_ask(output, session, &agent_call, ask);
        let offered = offered_options(self.settings.answers, ask);
        let open = OpenAsk {
            request: None,
            short_id: ask.short_id.clone(),
            call: call.clone(),
            offered: offered.clone(),
            fields: ask.fields.len(),
        };
        opened.asks.insert(ask.id.clone(), open);
        if self.settings.answers == EditorAnswers::None {
            return self.note_on_ask(output, session, &ask.id, "");
        }
        if !ask.fields.is_empty() {
            return self.ask_form(output, session, ask, &call);
        }
        let params = json!({
            "sessionId": session,
            "toolCall": tool_call(&call, ask),
            "options": option_rows(&offered),
        });
        let about = AskedRequest::Permission {
            session: session.to_owned(),
            ask: ask.id.clone(),
        };
        let request = self.ask_editor(output, "session/request_permission", &params, about);
        self.set_request(session, &ask.id, Some(request));
    }

    pub(super) fn set_request(&mut self, session: &str, ask: &str, request: Option<u64>) {
        let opened = self.sessions.get_mut(session);
        if let Some(open) = opened.and_then(|opened| opened.asks.get_mut(ask)) {
            open.request = request;
        }
    }

    /// Takes the editor's answer to a request for permission.
    pub(super) fn take_permission(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        ask: &str,
        outcome: Result<&RawValue, AcpError>,
        considered: ConsideredMs,
    ) {
        // Answered, so there is nothing to withdraw when the ask ends.
        self.set_request(session, ask, None);
        let opened = self.sessions.get(session);
        let Some(open) = opened.and_then(|opened| opened.asks.get(ask)) else {
            return;
        };
        let chosen = match read_choice(outcome) {
            Ok(chosen) => chosen,
            Err(why) => return self.note_on_ask(output, session, ask, &why),
        };
        let Some(option) = open.offered.iter().find(|option| option.id == chosen) else {
            // An allow that was withheld (a guarded ask, `answers`) is not among the options of the
            // request, and an editor that names it all the same gets nothing by that.
            let why = "the editor chose something that was not offered";
            return self.note_on_ask(output, session, ask, why);
        };
        let answer = option.answer.clone();
        self.answer_ask(output, session, ask, answer, considered);
    }

    /// Whether an answer other than a denial came too soon to be a person's, and is not taken for that reason.
    pub(super) fn refuses(&self, considered: ConsideredMs) -> bool {
        considered.is_automatic() && self.settings.automatic == AutomaticAllows::Refuse
    }

    /// Puts on the record that the editor answered something by itself, and gives what people are told.
    pub(super) fn record_automatic(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        about: &str,
    ) -> &'static str {
        let record = EditorHostCall::Record {
            session: session.to_owned(),
            message: format!("{about}: {AUTOMATIC_REFUSED}"),
        };
        self.call(output, record, PendingCall::Unanswered);
        AUTOMATIC_REFUSED
    }

    /// Answers an ask for the editor's user, unless the editor did so by itself.
    pub(super) fn answer_ask(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        ask: &str,
        answer: AskAnswer,
        considered: ConsideredMs,
    ) {
        // A denial counts however soon it comes: it lets nothing through.
        if answer != AskAnswer::Deny && self.refuses(considered) {
            let why = self.record_automatic(output, session, ask);
            self.note_on_ask(output, session, ask, why);
            // Not every editor shows what is on a call that has not ended.
            return self.tell(output, session, why);
        }
        let call = EditorHostCall::AnswerAsk {
            ask: ask.to_owned(),
            answer,
            considered_ms: considered.0,
        };
        let pending = PendingCall::Answer {
            session: session.to_owned(),
            ask: ask.to_owned(),
        };
        self.call(output, call, pending);
    }

    /// Says on the tool call of an ask why the editor's answer does not count, and where it is answered.
    pub(super) fn note_on_ask(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        ask: &str,
        why: &str,
    ) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        // It has ended meanwhile, and the editor was told how.
        let Some(open) = opened.asks.get(ask) else {
            return;
        };
        let commands = if open.fields > 0 {
            format!("`countersign answer {}`", open.short_id)
        } else {
            let id = &open.short_id;
            format!("`countersign approve {id}` or `countersign deny {id}`")
        };
        let why = Some(why).filter(|why| !why.is_empty());
        let why = why.map(|why| format!("{why}. ")).unwrap_or_default();
        let note = format!("{why}It waits in the inbox: {commands}");
        let call = open.call.clone();
        opened.calls.add_note(output, session, &call, note);
    }

    /// An ask ended: the editor is told by whom, and no longer asked.
    pub(super) fn end_ask(&mut self, output: &mut EditorOutput, session: &str, end: AskOutcome) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        let open = opened.asks.remove(&end.id);
        let request = open.as_ref().and_then(|open| open.request);
        if let Some(request) = request {
            self.cancel_request(output, request);
        }
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        let call = match open {
            Some(open) => open.call,
            None => opened.calls.show_outcome(output, session, &end),
        };
        opened.calls.add_note(output, session, &call, end.note);
    }
}

fn read_choice(outcome: Result<&RawValue, AcpError>) -> Result<String, String> {
    let result =
        outcome.map_err(|error| format!("the editor gave no answer: {}", error.describe()))?;
    let response: RequestPermissionResponse = serde_json::from_str(result.get())
        .map_err(|_| "the editor's answer could not be read".to_owned())?;
    match response.outcome {
        RequestPermissionOutcome::Selected(selected) => Ok(selected.option_id.0.to_string()),
        _ => Err("the editor closed the request without an answer".to_owned()),
    }
}

fn offered_options(answers: EditorAnswers, ask: &EditorAsk) -> Vec<OfferedOption> {
    let mut options = Vec::new();
    if answers == EditorAnswers::All && ask.guard == AskGuard::Open {
        options.push(OfferedOption {
            id: ALLOW_ONCE,
            name: "Allow once".to_owned(),
            kind: "allow_once",
            answer: AskAnswer::AllowOnce,
        });
        if !ask.rules.is_empty() {
            let rules = ask.rules.clone();
            let named = rules.join(", ");
            // A rule can hold whatever the agent put into its command.
            let named = visible(&named, TextLayout::Line);
            options.push(OfferedOption {
                id: ALLOW_SESSION,
                name: format!("Allow for this session: {named}"),
                kind: "allow_always",
                answer: AskAnswer::AllowForSession {
                    rules: rules.clone(),
                },
            });
            options.push(OfferedOption {
                id: ALLOW_REMEMBER,
                name: format!("Allow and remember in this project: {named}"),
                kind: "allow_always",
                answer: AskAnswer::AllowAndRemember { rules },
            });
        }
    }
    options.push(OfferedOption {
        id: DENY,
        name: "Deny".to_owned(),
        kind: "reject_once",
        answer: AskAnswer::Deny,
    });
    options
}

fn option_rows(options: &[OfferedOption]) -> Vec<Value> {
    let rows = options.iter();
    rows.map(|option| json!({"optionId": option.id, "name": option.name, "kind": option.kind}))
        .collect()
}

/// What the editor shows beside the options.
fn tool_call(call: &str, ask: &EditorAsk) -> Value {
    let mut shown = json!({
        "toolCallId": call,
        "title": ask.title,
        "kind": updates::kind_of(ask.tool.as_deref()),
        "status": "pending",
        "content": ask_content(ask),
    });
    let input = ask
        .input
        .as_deref()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(input) = input {
        shown["rawInput"] = input;
    }
    shown
}

/// The explanation of an ask, and the changes it would make.
pub(super) fn ask_content(ask: &EditorAsk) -> Vec<Value> {
    let mut text = notes::fenced(&ask.explanation);
    match ask.guard {
        AskGuard::Open => {}
        AskGuard::Guarded => {
            text.push_str("\n\nThis is protected: allow it with `countersign approve ");
            text.push_str(&ask.short_id);
            text.push_str("`.");
        }
        AskGuard::Closed => text.push_str("\n\nThis cannot be allowed."),
    }
    let diffs = ask.diffs.iter().map(diff_row);
    std::iter::once(updates::text_content(&text))
        .chain(diffs)
        .collect()
}

fn diff_row(diff: &EditorDiff) -> Value {
    let mut row = json!({"type": "diff", "path": diff.path, "newText": diff.new_text});
    if let Some(old) = &diff.old_text {
        row["oldText"] = json!(old);
    }
    row
}
