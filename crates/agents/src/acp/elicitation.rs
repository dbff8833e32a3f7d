//! Elicitation: forms that the agent wants people to fill in, asked as questions with choices.
//!
//! Invariants: a form is answered once; a field that nobody here can fill in ends the form without an
//! answer, and never with a made-up one; every field that the form requires is sent, and each that is
//! sent has the type, is among the choices and within the limits that the form declares.

use std::collections::BTreeSet;

use countersign_core::limits::{OPTIONS_MAX, WORD_BYTES_MAX};
use countersign_core::{
    ASK_PERSON_TOOL, AnswerLimits, ChoiceQuestion, Json, QuestionChoice, split_answers,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::state::{AcpState, PendingKind, PendingRequest};
use super::{AcpRequest, envelope};
use crate::adapter::{
    AdapterOutput, AgentEvent, AgentWrite, CommandError, PermissionAnswer, PermissionAsk,
    RequestId, WriteKind,
};

/// A field of a form, by what an answer needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ElicitationField {
    name: String,
    kind: FieldKind,
    /// What people are asked, and what fits as an answer.
    asked: ChoiceQuestion,
    /// The values of the choices, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<Value>,
    /// The field for an answer that is none of the choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<String>,
}

/// A value that can be chosen.
struct FieldChoice {
    value: Value,
    /// What people choose it by.
    label: String,
    description: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FieldKind {
    Text,
    Number,
    Boolean,
    List,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FormParams {
    mode: String,
    session_id: String,
    #[serde(default)]
    tool_call_id: Option<String>,
    message: String,
    requested_schema: FormSchema,
}

#[derive(Deserialize)]
struct FormSchema {
    #[serde(default)]
    properties: Map<String, Value>,
    /// The fields that have to be sent.
    #[serde(default)]
    required: Option<Vec<String>>,
}

impl FormSchema {
    fn requires(&self, name: &str) -> bool {
        let required = self.required.iter().flatten();
        required.into_iter().any(|required| required == name)
    }

    /// The field for an answer to this one in the person's own words, which Claude's adapter adds to
    /// each question. A field that has to be sent is one of its own.
    fn other_of(&self, name: &str) -> Option<(String, &Value)> {
        let other = format!("{name}_custom");
        let schema = self.properties.get(&other)?;
        let is_text = schema["type"] == "string" && choices(schema)?.is_empty();
        (is_text && !self.requires(&other)).then_some((other, schema))
    }

    fn is_other(&self, name: &str) -> bool {
        name.strip_suffix("_custom").is_some_and(|asked| {
            self.properties.contains_key(asked) && self.other_of(asked).is_some()
        })
    }
}

/// Asks people what the form asks, or ends the form without an answer.
pub(super) fn handle_request(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    request: &AcpRequest<'_>,
) {
    let params = request.params.map_or("null", RawValue::get);
    let params = serde_json::from_str::<FormParams>(params).ok();
    let params = params.filter(|params| {
        params.mode == "form" && state.is_our_session(&params.session_id) && !state.interrupted
    });
    let form = params.and_then(|params| Some((fields_of(&params)?, params)));
    let Some((fields, params)) = form else {
        let text = "the agent asked people something that cannot be shown, and got no answer";
        output.record_notice(text.to_owned());
        return output
            .writes
            .push(encode_cancelled(&request.id, request.line));
    };
    let call = params.tool_call_id.unwrap_or_else(|| request.id.0.clone());
    let ask = PermissionAsk {
        request: request.id.clone(),
        line: request.line,
        tool_call: envelope::truncate(&call, WORD_BYTES_MAX),
        title: envelope::truncate_noise(&params.message),
        tool: Some(ASK_PERSON_TOOL.to_owned()),
        input: Json::from_value(&questions(&params.message, &fields)).ok(),
        details: Json::null(),
        binds: Vec::new(),
        can_allow: true,
        can_edit: true,
        takes_denial_message: false,
    };
    let pending = PendingRequest {
        line: request.line,
        kind: PendingKind::Form { fields },
    };
    state.pending.insert(request.id.clone(), pending);
    output.events.push(AgentEvent::Asked(Box::new(ask)));
}

/// The fields of a form; nothing if one of them cannot be asked about.
fn fields_of(params: &FormParams) -> Option<Vec<ElicitationField>> {
    let schema = &params.requested_schema;
    let asked = schema.properties.iter();
    let asked = asked.filter(|(name, _)| !schema.is_other(name));
    let mut fields = asked
        .map(|(name, field)| ElicitationField::read(name, field, schema))
        .collect::<Option<Vec<_>>>()?;
    // A field that the form requires and does not have could never be sent.
    let mut required = schema.required.iter().flatten();
    if !required.all(|name| schema.properties.contains_key(name)) {
        return None;
    }
    // The message is the question of a form with one field.
    if let [field] = fields.as_mut_slice() {
        field.asked.question.clone_from(&params.message);
    }
    name_equal_questions(&mut fields);
    let texts: BTreeSet<&str> = fields
        .iter()
        .map(|one| one.asked.question.as_str())
        .collect();
    let are_distinct = texts.len() == fields.len();
    let fits = are_distinct && !fields.is_empty() && fields.len() <= OPTIONS_MAX;
    fits.then_some(fields)
}

/// Adds the name of the field to questions that have the same text, because answers are found by it.
fn name_equal_questions(fields: &mut [ElicitationField]) {
    let texts: Vec<String> = fields
        .iter()
        .map(|one| one.asked.question.clone())
        .collect();
    for field in fields {
        let question = &mut field.asked.question;
        if texts.iter().filter(|text| *text == question).count() > 1 {
            *question = format!("{question} ({})", field.name);
        }
    }
}

/// The choices of a field; nothing if one of them cannot be shown.
fn choices(schema: &Value) -> Option<Vec<FieldChoice>> {
    let titled = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key));
    let plain = schema.get("enum");
    let all = match (titled, plain, schema.get("const")) {
        (Some(titled), None, None) => titled.as_array()?.iter().map(titled_choice).collect(),
        (None, Some(plain), None) => plain.as_array()?.iter().map(plain_choice).collect(),
        (None, None, Some(only)) => Some(vec![plain_choice(only)?]),
        (None, None, None) => return Some(Vec::new()),
        // Only a value that is in all of them would fit.
        _ => None,
    };
    let mut all: Vec<FieldChoice> = all?;
    name_equal_labels(&mut all);
    // An empty list allows no value at all.
    (!all.is_empty()).then_some(all)
}

/// Adds the value to labels that are equal, because people choose by them.
fn name_equal_labels(choices: &mut [FieldChoice]) {
    let labels: Vec<String> = choices.iter().map(|choice| choice.label.clone()).collect();
    for choice in choices {
        if labels
            .iter()
            .filter(|label| **label == choice.label)
            .count()
            > 1
        {
            choice.label = format!("{} ({})", choice.label, choice.value);
        }
    }
}

fn titled_choice(schema: &Value) -> Option<FieldChoice> {
    let plain = plain_choice(&schema["const"])?;
    Some(FieldChoice {
        label: text_of(schema, "title").map_or(plain.label, str::to_owned),
        description: text_of(schema, "description").map(str::to_owned),
        value: plain.value,
    })
}

fn plain_choice(value: &Value) -> Option<FieldChoice> {
    let label = match value {
        Value::String(text) if text.trim().is_empty() => "(empty)".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(FieldChoice {
        value: value.clone(),
        label,
        description: None,
    })
}

fn text_of<'s>(schema: &'s Value, key: &str) -> Option<&'s str> {
    schema[key].as_str().filter(|text| !text.trim().is_empty())
}

/// The limits that a field declares.
fn limits_of(schema: &Value) -> AnswerLimits {
    let formats = ["format", "pattern"].map(|key| text_of(schema, key));
    let formats: Vec<&str> = formats.into_iter().flatten().collect();
    AnswerLimits {
        whole: schema["type"] == "integer",
        minimum: schema["minimum"].as_number().cloned(),
        maximum: schema["maximum"].as_number().cloned(),
        min_length: schema["minLength"].as_u64(),
        max_length: schema["maxLength"].as_u64(),
        min_choices: schema["minItems"].as_u64(),
        max_choices: schema["maxItems"].as_u64(),
        format: (!formats.is_empty()).then(|| formats.join(", ")),
    }
}

/// The form as the input of the tool with which Claude Code asks people.
fn questions(message: &str, fields: &[ElicitationField]) -> Value {
    let questions: Vec<&ChoiceQuestion> = fields.iter().map(|field| &field.asked).collect();
    json!({"message": message, "questions": questions})
}

impl FieldKind {
    fn of(schema: &Value) -> Option<Self> {
        Some(match schema["type"].as_str()? {
            "string" => Self::Text,
            "array" => Self::List,
            "number" | "integer" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    fn choices(self, schema: &Value) -> Option<Vec<FieldChoice>> {
        let found = match self {
            Self::List => choices(&schema["items"])?,
            Self::Text | Self::Number | Self::Boolean => choices(schema)?,
        };
        if !found.iter().all(|choice| self.takes(&choice.value)) {
            return None;
        }
        match self {
            // Without choices a list could only be guessed at.
            Self::List if found.is_empty() => None,
            Self::Boolean if found.is_empty() => [true, false]
                .iter()
                .map(|value| plain_choice(&json!(value)))
                .collect(),
            _ => Some(found),
        }
    }

    /// Whether one value, or one entry of a list, has the type of the field.
    fn takes(self, value: &Value) -> bool {
        match self {
            Self::Text | Self::List => value.is_string(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
        }
    }
}

impl ElicitationField {
    fn read(name: &str, schema: &Value, form: &FormSchema) -> Option<Self> {
        let kind = FieldKind::of(schema)?;
        let choices = kind.choices(schema)?;
        let is_required = form.requires(name);
        // What is typed goes to the other field, which does not do for one that has to be sent.
        let other = form
            .other_of(name)
            .filter(|_| !choices.is_empty() && !is_required);
        let mut limits = limits_of(schema);
        if let Some((_, schema)) = &other {
            let own = limits_of(schema);
            (limits.min_length, limits.max_length) = (own.min_length, own.max_length);
            limits.format = own.format;
        }
        let question = text_of(schema, "description").or(text_of(schema, "title"));
        let asked = ChoiceQuestion {
            question: question.unwrap_or(name).to_owned(),
            header: None,
            free_text: choices.is_empty() || other.is_some(),
            options: choices.iter().map(FieldChoice::shown).collect(),
            multi_select: kind == FieldKind::List,
            number: kind == FieldKind::Number,
            optional: !is_required,
            limits,
        };
        Some(Self {
            name: name.to_owned(),
            kind,
            asked,
            values: choices.into_iter().map(|choice| choice.value).collect(),
            other: other.map(|(name, _)| name),
        })
    }

    /// Puts the answer where the form wants it; nothing if it does not fit.
    fn fill_in(&self, content: &mut Map<String, Value>, answer: &str) -> Option<()> {
        // The same check as when the answer was given, because a wrong value must never be sent.
        self.asked.check_joined_answer(answer).ok()?;
        let answers = match self.kind {
            FieldKind::List => split_answers(answer),
            FieldKind::Text | FieldKind::Number | FieldKind::Boolean => vec![answer.to_owned()],
        };
        let chosen: Vec<&Value> = answers
            .iter()
            .filter_map(|one| self.find_value(one))
            .collect();
        let typed = answers.iter().filter(|one| self.find_value(one).is_none());
        let typed: Vec<&str> = typed.map(String::as_str).collect();
        if !typed.is_empty() && !self.values.is_empty() {
            content.insert(self.other.clone()?, json!(typed.join(", ")));
        }
        let value = match (self.kind, chosen.first()) {
            (FieldKind::List, Some(_)) => json!(chosen),
            (_, Some(value)) => (*value).clone(),
            // Only the other field is sent.
            (_, None) if !self.values.is_empty() => return Some(()),
            (FieldKind::Text, None) => json!(answer),
            (FieldKind::Number, None) => serde_json::from_str::<serde_json::Number>(answer)
                .ok()?
                .into(),
            (FieldKind::Boolean | FieldKind::List, None) => return None,
        };
        content.insert(self.name.clone(), value);
        Some(())
    }

    fn find_value(&self, label: &str) -> Option<&Value> {
        let mut options = self.asked.options.iter();
        let index = options.position(|choice| choice.label == label)?;
        self.values.get(index)
    }
}

impl FieldChoice {
    fn shown(&self) -> QuestionChoice {
        QuestionChoice {
            label: self.label.clone(),
            description: self.description.clone(),
        }
    }
}

/// Answers a form.
pub(super) fn answer(
    state: &mut AcpState,
    request: &RequestId,
    answer: PermissionAnswer,
) -> Result<Vec<AgentWrite>, CommandError> {
    let Some(PendingRequest {
        line,
        kind: PendingKind::Form { fields },
    }) = state.pending.get(request)
    else {
        return Err(CommandError::NotWaiting);
    };
    let line = *line;
    let written = match answer {
        PermissionAnswer::Allow { input } => {
            let content = input.and_then(|input| content_of(fields, &input));
            let Some(content) = content else {
                let reason = "the answers do not fit its form";
                return Err(CommandError::Unsupported(reason.to_owned()));
            };
            let accepted = json!({"action": "accept", "content": content});
            AgentWrite::reply_to(line, WriteKind::Allow, envelope::result(request, &accepted))
        }
        PermissionAnswer::Deny { .. } => {
            let declined = json!({"action": "decline"});
            AgentWrite::reply_to(line, WriteKind::Deny, envelope::result(request, &declined))
        }
        PermissionAnswer::Cancelled => encode_cancelled(request, line),
    };
    // Only now: an answer that was refused above leaves the form open for another.
    state.pending.remove(request);
    Ok(vec![written])
}

fn content_of(fields: &[ElicitationField], input: &Json) -> Option<Map<String, Value>> {
    let input = input.parse_unique_keys()?;
    let answers = input.get("answers")?.as_object()?;
    let mut content = Map::new();
    for field in fields {
        match answers.get(&field.asked.question) {
            Some(answer) => field.fill_in(&mut content, answer.as_str()?)?,
            None if field.asked.optional => {}
            None => return None,
        }
    }
    Some(content)
}

/// The end of a form that nobody answered.
pub(super) fn encode_cancelled(request: &RequestId, line: u64) -> AgentWrite {
    let bytes = envelope::result(request, &json!({"action": "cancel"}));
    AgentWrite::reply_to(line, WriteKind::Cancelled, bytes)
}
