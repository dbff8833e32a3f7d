//! Questions to people: as forms where the editor has those, else as a note with the command that
//! answers.
//!
//! Invariant: a form that the editor filled in by itself answers nothing unless the user configured it.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ask::{AskAnswer, EditorAsk, EditorQuestion, FieldForm, FormField};
use super::host_call::{EditorHostCall, PendingCall};
use super::settings::EditorAnswers;
use super::{AskedRequest, ConsideredMs, EditorConnection, EditorOutput, notes};
use crate::acp::envelope::AcpError;

/// A question that the editor was shown as a form.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    /// Our request, while the editor has not answered it.
    pub(super) request: Option<u64>,
    short_id: String,
}

/// What a form's user did.
enum FormResult {
    Accepted(Map<String, Value>),
    Declined,
    Unanswered,
}

impl EditorConnection {
    /// Shows a question of the agent.
    pub(super) fn open_question(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        question: EditorQuestion,
    ) {
        if !self.client.forms || self.settings.answers != EditorAnswers::All {
            let text = format!(
                "The agent asks:\n\n{}\n\nAnswer with `countersign answer {} TEXT`",
                notes::fenced(&question.question),
                question.short_id
            );
            return self.tell(output, session, &text);
        }
        let opened = self.sessions.get(session);
        if opened.is_none_or(|opened| opened.questions.contains_key(&question.id)) {
            return;
        }
        let params = json!({
            "sessionId": session,
            "mode": "form",
            "message": question.question,
            "requestedSchema": {
                "type": "object",
                "properties": {"answer": {"type": "string", "title": "Answer"}},
                "required": ["answer"],
            },
        });
        let about = AskedRequest::Question {
            session: session.to_owned(),
            question: question.id.clone(),
        };
        let request = self.ask_editor(output, "elicitation/create", &params, about);
        if let Some(opened) = self.sessions.get_mut(session) {
            let open = OpenQuestion {
                request: Some(request),
                short_id: question.short_id,
            };
            opened.questions.insert(question.id, open);
        }
    }

    pub(super) fn take_answer(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        question: &str,
        outcome: Result<&RawValue, AcpError>,
        considered: ConsideredMs,
    ) {
        let opened = self.sessions.get_mut(session);
        let open = opened.and_then(|opened| opened.questions.get_mut(question));
        let Some(open) = open else {
            return;
        };
        open.request = None;
        let short_id = open.short_id.clone();
        let content = match read_form(outcome) {
            FormResult::Accepted(content) => content,
            // To decline is no answer: somebody else may have one.
            FormResult::Declined | FormResult::Unanswered => Map::new(),
        };
        let text = content.get("answer").and_then(Value::as_str);
        let why = match text.filter(|text| !text.is_empty()) {
            Some(_) if self.refuses(considered) => self.record_automatic(output, session, question),
            Some(text) => {
                let call = EditorHostCall::AnswerQuestion {
                    question: question.to_owned(),
                    text: text.to_owned(),
                    considered_ms: considered.0,
                };
                return self.call(output, call, PendingCall::Unanswered);
            }
            None => "the form was closed without an answer",
        };
        let note = format!(
            "The question is still open: {why}. Answer with `countersign answer {short_id} TEXT`"
        );
        self.tell(output, session, &note);
    }

    pub(super) fn end_question(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        question: &str,
        note: &str,
    ) {
        let opened = self.sessions.get_mut(session);
        let open = opened.and_then(|opened| opened.questions.remove(question));
        if let Some(request) = open.and_then(|open| open.request) {
            self.cancel_request(output, request);
        }
        self.tell(output, session, note);
    }

    /// Asks for the fields of an ask that wants more than yes or no.
    pub(super) fn ask_form(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        ask: &EditorAsk,
        call: &str,
    ) {
        if !self.client.forms || self.settings.answers != EditorAnswers::All {
            return self.note_on_ask(output, session, &ask.id, "");
        }
        let params = json!({
            "sessionId": session,
            "toolCallId": call,
            "mode": "form",
            "message": ask.title,
            "requestedSchema": form_schema(&ask.fields),
        });
        let about = AskedRequest::AskForm {
            session: session.to_owned(),
            ask: ask.id.clone(),
        };
        let request = self.ask_editor(output, "elicitation/create", &params, about);
        self.set_request(session, &ask.id, Some(request));
    }

    pub(super) fn take_form(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        ask: &str,
        outcome: Result<&RawValue, AcpError>,
        considered: ConsideredMs,
    ) {
        self.set_request(session, ask, None);
        let opened = self.sessions.get(session);
        let Some(fields) = opened.and_then(|opened| Some(opened.asks.get(ask)?.fields)) else {
            return;
        };
        match read_form(outcome) {
            FormResult::Accepted(content) => {
                let answers = (0..fields).map(|number| field_answer(&content, number));
                let answer = AskAnswer::Form {
                    answers: answers.collect(),
                };
                self.answer_ask(output, session, ask, answer, considered);
            }
            // Here it is a decision: the ask is denied. What is merely closed stays open for
            // others.
            FormResult::Declined => {
                self.answer_ask(output, session, ask, AskAnswer::Deny, considered);
            }
            FormResult::Unanswered => {
                let why = "the editor closed the form without an answer";
                self.note_on_ask(output, session, ask, why);
            }
        }
    }
}

fn read_form(outcome: Result<&RawValue, AcpError>) -> FormResult {
    let result = outcome.ok().map(RawValue::get);
    let result = result.and_then(|result| serde_json::from_str::<Value>(result).ok());
    let result = result.unwrap_or_default();
    match (result["action"].as_str(), &result["content"]) {
        (Some("accept"), Value::Object(content)) => FormResult::Accepted(content.clone()),
        (Some("decline"), _) => FormResult::Declined,
        _ => FormResult::Unanswered,
    }
}

fn field_name(number: usize) -> String {
    format!("answer_{}", number + 1)
}

fn field_answer(content: &Map<String, Value>, number: usize) -> Vec<String> {
    match content.get(&field_name(number)) {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(texts)) => {
            let texts = texts.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        }
        // The host takes answers as texts, and judges by its own question whether one fits.
        Some(Value::Number(number)) => vec![number.to_string()],
        Some(Value::Bool(yes)) => vec![yes.to_string()],
        _ => Vec::new(),
    }
}

fn form_schema(fields: &[FormField]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (number, field) in fields.iter().enumerate() {
        let name = field_name(number);
        properties.insert(name.clone(), field_schema(field));
        if !field.optional {
            required.push(name);
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

fn field_schema(field: &FormField) -> Value {
    let title = &field.question;
    let choices: Vec<Value> = field
        .choices
        .iter()
        .map(|choice| json!({"const": choice, "title": choice}))
        .collect();
    match field.form {
        FieldForm::Number => json!({"type": "number", "title": title}),
        FieldForm::Words => {
            let offered = field.choices.join(", ");
            let mut schema = json!({"type": "string", "title": title});
            if !offered.is_empty() {
                schema["description"] = json!(offered);
            }
            schema
        }
        FieldForm::SeveralChoices => {
            json!({"type": "array", "title": title, "items": {"anyOf": choices}})
        }
        FieldForm::OneChoice => json!({"type": "string", "title": title, "oneOf": choices}),
    }
}
