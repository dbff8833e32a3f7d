//! Questions with choices, which an agent asks people through a tool call, and the input that carries
//! their answers back to it.
//!
//! Invariant: such an ask is allowed only together with answers, to each question that is not optional,
//! and only with answers that fit what was asked. An allow without them would tell the agent that
//! nobody wanted to answer.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::event::Ask;
use crate::json::Json;
use crate::limits::OPTIONS_MAX;

/// The tool with which an agent asks people something, by the name that Claude Code has for it.
pub const ASK_PERSON_TOOL: &str = "AskUserQuestion";

/// One question to people.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the tool's input"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChoiceQuestion {
    pub question: String,
    /// A short name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Whether it can be left without an answer.
    #[serde(default)]
    pub optional: bool,
    #[serde(default, skip_serializing_if = "AnswerLimits::is_empty")]
    pub limits: AnswerLimits,
}

/// One of the choices of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionChoice {
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The limits of the answer to one question. Those of a number hold for numbers, those of a length for
/// texts that are not among the choices, and those of a count where several choices can be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnswerLimits {
    /// Whether a number has to be a whole one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// In characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_choices: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_choices: Option<u64>,
    /// The form of a text, such as `email`, or a regular expression. People are told it; only the agent
    /// can check it, because it says in which dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
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
            if chosen.is_empty() && question.optional {
                continue;
            }
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

    /// Whether an input that a person gave answers what is asked. Fails with what does not fit.
    pub(crate) fn check_answered_by(&self, input: Option<&Json>) -> Result<(), AnswerProblem> {
        let questions = self.choice_questions();
        if questions.is_empty() {
            return Ok(());
        }
        let input = input.and_then(Json::parse_unique_keys);
        let answers = input.as_ref().and_then(|input| input.get("answers"));
        // Even if every question is optional: that all of them are left out has to be said.
        let Some(answers) = answers.and_then(Value::as_object) else {
            return Err(AnswerProblem::Missing);
        };
        for question in &questions {
            match answers.get(&question.question) {
                None if question.optional => {}
                None => return Err(AnswerProblem::Missing),
                Some(Value::String(text)) => question
                    .check_joined_answer(text)
                    .map_err(AnswerProblem::Unfit)?,
                Some(_) => {
                    let why = format!("the answer to `{}` is not a text", question.question);
                    return Err(AnswerProblem::Unfit(why));
                }
            }
        }
        Ok(())
    }
}

/// Why an input does not answer an ask that asks people something.
pub(crate) enum AnswerProblem {
    /// A question has no answer.
    Missing,
    /// An answer is not what was asked for.
    Unfit(String),
}

impl ChoiceQuestion {
    /// Checks the answer as it is in the input that goes back, where several are in one text.
    pub fn check_joined_answer(&self, text: &str) -> Result<(), String> {
        let answers = if self.multi_select {
            split_answers(text)
        } else {
            vec![text.to_owned()]
        };
        self.check_answer(&answers).map(drop)
    }

    /// The text in which the answers go back. Fails with what does not fit.
    fn check_answer(&self, chosen: &[String]) -> Result<String, String> {
        if chosen.is_empty() || chosen.iter().any(|answer| answer.trim().is_empty()) {
            return Err(format!("`{}` has no answer", self.question));
        }
        if chosen.len() > 1 && !self.multi_select {
            return Err(format!("`{}` takes one answer", self.question));
        }
        self.check_choices(chosen)?;
        self.check_typed(chosen)?;
        Ok(if self.multi_select {
            join_answers(chosen)
        } else {
            chosen.concat()
        })
    }

    fn is_choice(&self, answer: &str) -> bool {
        self.options.iter().any(|choice| choice.label == answer)
    }

    fn check_choices(&self, chosen: &[String]) -> Result<(), String> {
        let asked = &self.question;
        if let Some(other) = chosen
            .iter()
            .find(|one| !self.free_text && !self.is_choice(one))
        {
            return Err(format!("`{other}` is not a choice of `{asked}`"));
        }
        let repeated = chosen
            .iter()
            .enumerate()
            .find(|&(index, one)| chosen[..index].contains(one));
        if let Some((_, twice)) = repeated {
            return Err(format!("`{twice}` is chosen twice for `{asked}`"));
        }
        if !self.multi_select {
            return Ok(());
        }
        let count = chosen.iter().filter(|one| self.is_choice(one)).count() as u64;
        // An answer in somebody's own words stands beside the choices, so it is not counted as one,
        // and where no choice is given there is nothing to count.
        if count > 0 && self.limits.min_choices.is_some_and(|least| count < least) {
            let least = self.limits.min_choices.unwrap_or_default();
            return Err(format!("`{asked}` takes at least {least} choices"));
        }
        match self.limits.max_choices {
            Some(most) if count > most => Err(format!("`{asked}` takes at most {most} choices")),
            _ => Ok(()),
        }
    }

    /// Checks what is not one of the choices.
    fn check_typed(&self, chosen: &[String]) -> Result<(), String> {
        let typed = chosen.iter().filter(|one| !self.is_choice(one));
        let typed: Vec<&str> = typed.map(String::as_str).collect();
        if typed.is_empty() {
            return Ok(());
        }
        if self.number {
            return typed.iter().try_for_each(|text| self.check_number(text));
        }
        let (asked, length) = (&self.question, typed.join(", ").chars().count() as u64);
        match (self.limits.min_length, self.limits.max_length) {
            (Some(least), _) if length < least => Err(format!(
                "the answer to `{asked}` has {length} characters and needs at least {least}"
            )),
            (_, Some(most)) if length > most => Err(format!(
                "the answer to `{asked}` has {length} characters and may have {most}"
            )),
            _ => Ok(()),
        }
    }

    fn check_number(&self, text: &str) -> Result<(), String> {
        let (asked, limits) = (&self.question, &self.limits);
        let Ok(number) = serde_json::from_str::<Number>(text) else {
            return Err(format!("`{text}` is not a number, which `{asked}` wants"));
        };
        if limits.whole && number.as_i128().is_none() {
            return Err(format!(
                "`{text}` is not a whole number, which `{asked}` wants"
            ));
        }
        match (&limits.minimum, &limits.maximum) {
            (Some(least), _) if is_less(&number, least) => Err(format!(
                "`{asked}` wants a number from {least}, and {text} is less"
            )),
            (_, Some(most)) if is_less(most, &number) => Err(format!(
                "`{asked}` wants a number up to {most}, and {text} is more"
            )),
            _ => Ok(()),
        }
    }
}

impl AnswerLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn is_less(one: &Number, other: &Number) -> bool {
    // Whole numbers by themselves: large ones that differ are equal as floating-point numbers.
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one < other,
        _ => one.as_f64() < other.as_f64(),
    }
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
