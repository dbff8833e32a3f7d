//! Elicitation: forms that the agent wants people to fill in, asked as questions with choices.
//!
//! Invariants: a form is answered once; a field that nobody here can fill in ends the form without an
//! answer, and never with a made-up one.

use countersign_core::limits::{OPTIONS_MAX, WORD_BYTES_MAX};
use countersign_core::{ASK_PERSON_TOOL, Json, split_answers};
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
pub(super) struct FormField {
    name: String,
    /// The text by which its answer is found.
    question: String,
    kind: FieldKind,
    /// The values that can be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    choices: Vec<FieldChoice>,
    /// The field for an answer that is none of the choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FieldChoice {
    value: String,
    /// What people choose it by.
    label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
fn fields_of(params: &FormParams) -> Option<Vec<FormField>> {
    let properties = &params.requested_schema.properties;
    let mut fields = Vec::new();
    for (name, schema) in properties {
        // Claude's adapter adds to each question a field for an answer in the person's own words.
        let is_other = name
            .strip_suffix("_custom")
            .is_some_and(|asked| properties.contains_key(asked));
        if !is_other {
            let other = format!("{name}_custom");
            let other = properties.contains_key(&other).then_some(other);
            fields.push(field(name, schema, other)?);
        }
    }
    // The message is the question of a form with one field.
    if let [field] = fields.as_mut_slice() {
        field.question.clone_from(&params.message);
    }
    let fits = !fields.is_empty() && fields.len() <= OPTIONS_MAX;
    fits.then_some(fields)
}

fn field(name: &str, schema: &Value, other: Option<String>) -> Option<FormField> {
    let text = |key: &str| schema[key].as_str().filter(|text| !text.is_empty());
    let (kind, choices) = match schema["type"].as_str()? {
        "string" => (FieldKind::Text, choices(schema)),
        "array" => (FieldKind::List, choices(&schema["items"])),
        "number" | "integer" => (FieldKind::Number, Vec::new()),
        "boolean" => (
            FieldKind::Boolean,
            ["true", "false"].map(plain_choice).into(),
        ),
        _ => return None,
    };
    // Without choices a list could only be guessed at.
    if kind == FieldKind::List && choices.is_empty() {
        return None;
    }
    let question = text("description").or(text("title")).unwrap_or(name);
    Some(FormField {
        name: name.to_owned(),
        question: question.to_owned(),
        kind,
        choices,
        other,
    })
}

fn choices(schema: &Value) -> Vec<FieldChoice> {
    let titled = ["oneOf", "anyOf"]
        .iter()
        .find_map(|key| schema[key].as_array());
    let titled = titled.into_iter().flatten().filter_map(|choice| {
        let value = choice["const"].as_str()?;
        Some(FieldChoice {
            value: value.to_owned(),
            label: choice["title"].as_str().unwrap_or(value).to_owned(),
            description: choice["description"].as_str().map(str::to_owned),
        })
    });
    let plain = schema["enum"].as_array().into_iter().flatten();
    let plain = plain.filter_map(Value::as_str).map(plain_choice);
    titled.chain(plain).collect()
}

fn plain_choice(value: &str) -> FieldChoice {
    FieldChoice {
        value: value.to_owned(),
        label: value.to_owned(),
        description: None,
    }
}

/// The form as the input of the tool with which Claude Code asks people.
fn questions(message: &str, fields: &[FormField]) -> Value {
    let questions: Vec<Value> = fields.iter().map(FormField::question).collect();
    json!({"message": message, "questions": questions})
}

impl FormField {
    fn question(&self) -> Value {
        let options = self.choices.iter();
        let options =
            options.map(|choice| json!({"label": choice.label, "description": choice.description}));
        json!({
            "question": self.question,
            "options": options.collect::<Vec<_>>(),
            "multiSelect": self.kind == FieldKind::List,
            "freeText": self.choices.is_empty() || self.other.is_some(),
            "number": self.kind == FieldKind::Number,
        })
    }

    /// Puts the answer where the form wants it.
    fn fill_in(&self, content: &mut Map<String, Value>, answer: &str) -> Option<()> {
        let answers = match self.kind {
            FieldKind::List => split_answers(answer),
            _ => vec![answer.to_owned()],
        };
        let find = |label: &String| self.choices.iter().find(|choice| choice.label == *label);
        let chosen: Vec<&str> = answers
            .iter()
            .filter_map(|label| Some(find(label)?.value.as_str()))
            .collect();
        let typed: Vec<&str> = answers
            .iter()
            .filter(|label| find(label).is_none())
            .map(String::as_str)
            .collect();
        if !typed.is_empty() && !self.choices.is_empty() {
            let other = self.other.clone()?;
            content.insert(other, json!(typed.join(", ")));
        }
        let value = match self.kind {
            FieldKind::List if chosen.is_empty() => return Some(()),
            FieldKind::List => json!(chosen),
            FieldKind::Number => serde_json::from_str::<serde_json::Number>(answer)
                .ok()?
                .into(),
            FieldKind::Boolean => json!(*chosen.first()? == "true"),
            FieldKind::Text if self.choices.is_empty() => json!(answer),
            FieldKind::Text => match chosen.first() {
                Some(value) => json!(value),
                None => return Some(()),
            },
        };
        content.insert(self.name.clone(), value);
        Some(())
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

fn content_of(fields: &[FormField], input: &Json) -> Option<Map<String, Value>> {
    let input = input.parse_unique_keys()?;
    let mut content = Map::new();
    for field in fields {
        let answer = input.get("answers")?.get(&field.question)?.as_str()?;
        field.fill_in(&mut content, answer)?;
    }
    Some(content)
}

/// The end of a form that nobody answered.
pub(super) fn encode_cancelled(request: &RequestId, line: u64) -> AgentWrite {
    let bytes = envelope::result(request, &json!({"action": "cancel"}));
    AgentWrite::reply_to(line, WriteKind::Cancelled, bytes)
}
