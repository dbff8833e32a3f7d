//! Questions with choices, which an agent asks people through a tool call, and the input that carries
//! their answers back to it.
//!
//! Invariant: such an ask is allowed only together with an answer to each of its questions. An allow
//! without them would tell the agent that nobody wanted to answer.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::event::Ask;
use crate::json::Json;
use crate::limits::OPTIONS_MAX;

/// The tool with which an agent asks people something, by the name that Claude Code has for it.
pub const ASK_PERSON_TOOL: &str = "AskUserQuestion";

/// One question to people.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChoiceQuestion {
    pub question: String,
    /// A short name for it.
    #[serde(default)]
    pub header: Option<String>,
    #[serde(default)]
    pub options: Vec<QuestionChoice>,
    /// Whether more than one choice can be given.
    #[serde(default)]
    pub multi_select: bool,
    /// Whether an answer can be something else than one of the choices.
    #[serde(default = "yes")]
    pub free_text: bool,
    /// Whether the answer has to be a number.
    #[serde(default)]
    pub number: bool,
}

/// One of the choices of a question.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct QuestionChoice {
    pub label: String,
    #[serde(default)]
    pub description: Option<String>,
}

fn yes() -> bool {
    true
}

impl Ask {
    /// Whether it asks people something, which no rule can know the answer to.
    pub fn asks_people(&self) -> bool {
        self.tool.as_deref() == Some(ASK_PERSON_TOOL)
    }

    /// What it asks people; nothing if it is another ask, or if its input cannot be read.
    pub fn choice_questions(&self) -> Vec<ChoiceQuestion> {
        if !self.asks_people() {
            return Vec::new();
        }
        let input = self.input.as_ref().and_then(Json::parse_unique_keys);
        let questions = input.and_then(|mut input| input.get_mut("questions").map(Value::take));
        let read = questions.and_then(|questions| serde_json::from_value(questions).ok());
        let read: Vec<ChoiceQuestion> = read.unwrap_or_default();
        // Answers go back by the text of their question, so two equal texts could not be told apart.
        let distinct: BTreeSet<&str> = read.iter().map(|one| one.question.as_str()).collect();
        if distinct.len() != read.len() || read.len() > OPTIONS_MAX {
            return Vec::new();
        }
        read
    }

    /// The input with an answer to each question, in their order. Fails with what does not fit.
    pub(crate) fn input_with_answers(&self, answers: &[Vec<String>]) -> Result<Json, String> {
        let questions = self.choice_questions();
        if questions.is_empty() {
            return Err("it asks no question: approve or deny it".to_owned());
        }
        if questions.len() != answers.len() {
            return Err(format!(
                "it asks {} questions and {} answers were given",
                questions.len(),
                answers.len()
            ));
        }
        let mut given = Map::new();
        for (question, chosen) in questions.iter().zip(answers) {
            let answer = question.check_answer(chosen)?;
            given.insert(question.question.clone(), Value::String(answer));
        }
        let input = self.input.as_ref().and_then(Json::parse_unique_keys);
        let Some(Value::Object(mut input)) = input else {
            return Err("its input cannot be read".to_owned());
        };
        input.insert("answers".to_owned(), Value::Object(given));
        Json::from_value(&Value::Object(input)).map_err(|error| error.to_string())
    }

    /// Whether an input says what each question is answered with.
    pub(crate) fn is_answered_by(&self, input: Option<&Json>) -> bool {
        let input = input.and_then(Json::parse_unique_keys);
        let answers = input.as_ref().and_then(|input| input.get("answers"));
        self.choice_questions().iter().all(|question| {
            let answer = answers.and_then(|answers| answers.get(&question.question)?.as_str());
            answer.is_some_and(|answer| !answer.is_empty())
        })
    }
}

impl ChoiceQuestion {
    fn check_answer(&self, chosen: &[String]) -> Result<String, String> {
        let is_choice = |answer: &String| self.options.iter().any(|one| one.label == *answer);
        if chosen.is_empty() || chosen.iter().any(|answer| answer.trim().is_empty()) {
            return Err(format!("`{}` has no answer", self.question));
        }
        if let Some(other) = chosen.iter().find(|one| !self.free_text && !is_choice(one)) {
            return Err(format!("`{other}` is not a choice of `{}`", self.question));
        }
        if let Some(other) = chosen.iter().find(|one| self.number && !is_number(one)) {
            return Err(format!(
                "`{other}` is not a number, which `{}` wants",
                self.question
            ));
        }
        match chosen {
            [one] if !self.multi_select => Ok(one.clone()),
            _ if !self.multi_select => Err(format!("`{}` takes one answer", self.question)),
            several => Ok(join_answers(several)),
        }
    }
}

fn is_number(text: &str) -> bool {
    serde_json::from_str::<serde_json::Number>(text).is_ok()
}

/// Several answers in one text, as Claude Code joins and splits them: with commas, and an answer that
/// has one itself as a JSON string.
fn join_answers(answers: &[String]) -> String {
    let quoted = answers.iter().map(|answer| {
        if answer.contains(", ") || answer.contains('"') {
            Value::String(answer.clone()).to_string()
        } else {
            answer.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(", ")
}

/// The answers that [`ChoiceQuestion`]s with several choices were given in one text.
pub fn split_answers(text: &str) -> Vec<String> {
    let mut answers = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut quoted = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let (answer, end) = if let Some(Ok(answer)) = quoted.next() {
            (answer, quoted.byte_offset())
        } else {
            let end = rest.find(", ").unwrap_or(rest.len());
            (rest[..end].to_owned(), end)
        };
        answers.push(answer);
        rest = rest[end..].strip_prefix(", ").unwrap_or_default();
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_were_joined_are_split_again() {
        for answers in [
            vec!["Redis"],
            vec!["Redis", "Postgres"],
            vec!["Redis, not Memcached", "a \"b\"", "c,d"],
        ] {
            let answers: Vec<String> = answers.into_iter().map(str::to_owned).collect();
            assert_eq!(split_answers(&join_answers(&answers)), answers);
        }
    }
}
