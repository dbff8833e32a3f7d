//! Questions with choices: how people see them, and what they may type as an answer.

use std::fmt::{Display, Write as _};

use countersign_protocol::{HostApproval, HostChoiceQuestion};

use crate::render::escape;

/// Every question of an ask with its choices, each by the number it is chosen with.
pub fn questions(row: &HostApproval) -> Option<String> {
    let mut text = String::new();
    for (index, asked) in row.questions.iter().enumerate() {
        let _ = writeln!(text, "{}. {}", index + 1, escape::block(&asked.question));
        for (number, choice) in asked.choices.iter().enumerate() {
            let _ = write!(text, "   {}  {}", number + 1, escape::line(&choice.label));
            if let Some(description) = choice.description.as_deref().filter(|d| !d.is_empty()) {
                let _ = write!(text, ": {}", escape::line(description));
            }
            text.push('\n');
        }
        let _ = writeln!(text, "   {}", how_to_answer(asked));
    }
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}

fn how_to_answer(asked: &HostChoiceQuestion) -> String {
    let how = match (asked.choices.is_empty(), asked.several, asked.free_text) {
        (true, _, _) if asked.number => {
            let number = if asked.limits.whole {
                "a whole number"
            } else {
                "a number"
            };
            format!("answer with {number}")
        }
        (true, _, _) => "answer in your own words".to_owned(),
        (false, true, true) => "choose one or more (1,2), or answer in your own words".to_owned(),
        (false, true, false) => "choose one or more (1,2)".to_owned(),
        (false, false, true) => "choose one, or answer in your own words".to_owned(),
        (false, false, false) => "choose one".to_owned(),
    };
    let parts = limit_parts(asked);
    let optional = asked.optional.then(|| "can be left empty".to_owned());
    let parts: Vec<String> = [how].into_iter().chain(parts).chain(optional).collect();
    parts.join("; ")
}

/// The limits of an answer, in words.
fn limit_parts(asked: &HostChoiceQuestion) -> Vec<String> {
    let limits = &asked.limits;
    let mut parts = Vec::new();
    if asked.number {
        let (least, most) = (limits.minimum.as_ref(), limits.maximum.as_ref());
        parts.extend(range(least, most));
    }
    if asked.several {
        let choices = range(limits.min_choices.as_ref(), limits.max_choices.as_ref());
        parts.extend(choices.map(|range| format!("{range} choices")));
    }
    if asked.free_text && !asked.number {
        let length = range(limits.min_length.as_ref(), limits.max_length.as_ref());
        parts.extend(length.map(|range| format!("{range} characters")));
        let format = limits.format.as_ref();
        parts.extend(format.map(|format| format!("format: {}", escape::line(format))));
    }
    parts
}

fn range<T: Display>(least: Option<&T>, most: Option<&T>) -> Option<String> {
    match (least, most) {
        (Some(least), Some(most)) => Some(format!("from {least} to {most}")),
        (Some(least), None) => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        (None, None) => None,
    }
}

/// What a text answers: the choices it names by number or label, else the text itself. An empty text
/// leaves an optional question without an answer.
pub fn parse_answer(asked: &HostChoiceQuestion, text: &str) -> Result<Vec<String>, String> {
    let text = text.trim();
    if text.is_empty() && asked.optional {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = if asked.several {
        text.split(',').map(str::trim).collect()
    } else {
        vec![text]
    };
    let chosen: Option<Vec<String>> = parts.iter().map(|part| find_choice(asked, part)).collect();
    match chosen {
        Some(chosen) => Ok(chosen),
        None if text.is_empty() => Err("type an answer first".to_owned()),
        None if asked.free_text => Ok(vec![text.to_owned()]),
        None => {
            let labels = asked.choices.iter().enumerate();
            let labels: Vec<String> = labels
                .map(|(index, choice)| format!("{} {}", index + 1, escape::line(&choice.label)))
                .collect();
            Err(format!(
                "`{}` is not one of the choices: {}",
                escape::line(text),
                labels.join(", ")
            ))
        }
    }
}

fn find_choice(asked: &HostChoiceQuestion, part: &str) -> Option<String> {
    let number = part.parse::<usize>().ok();
    let by_number = number.and_then(|number| asked.choices.get(number.checked_sub(1)?));
    let by_label = || {
        let mut choices = asked.choices.iter();
        choices.find(|choice| choice.label.eq_ignore_ascii_case(part))
    };
    by_number
        .or_else(by_label)
        .map(|choice| choice.label.clone())
}

#[cfg(test)]
mod tests {
    use countersign_protocol::{HostAnswerLimits, HostChoice};

    use super::*;
    use crate::test_rows;

    fn asked(several: bool, free_text: bool) -> HostChoiceQuestion {
        let choice = |label: &str, description: Option<&str>| HostChoice {
            description: description.map(str::to_owned),
            label: label.to_owned(),
        };
        HostChoiceQuestion {
            choices: vec![choice("SQLite", Some("one file")), choice("Postgres", None)],
            free_text,
            header: None,
            limits: HostAnswerLimits::default(),
            number: false,
            optional: false,
            question: "Which store?".to_owned(),
            several,
        }
    }

    #[test]
    fn an_answer_names_choices_by_number_or_label_or_is_a_text() {
        let parse = |several, free, text| parse_answer(&asked(several, free), text);
        assert_eq!(parse(false, true, "2"), Ok(vec!["Postgres".to_owned()]));
        assert_eq!(
            parse(false, false, " sqlite "),
            Ok(vec!["SQLite".to_owned()])
        );
        assert_eq!(
            parse(true, true, "2, 1"),
            Ok(vec!["Postgres".to_owned(), "SQLite".to_owned()])
        );
        assert_eq!(
            parse(true, true, "Redis, not SQLite"),
            Ok(vec!["Redis, not SQLite".to_owned()])
        );
        assert_eq!(parse(false, true, "8080"), Ok(vec!["8080".to_owned()]));
        assert_eq!(
            parse(false, false, "3"),
            Err("`3` is not one of the choices: 1 SQLite, 2 Postgres".to_owned())
        );
        assert!(parse(false, true, " ").is_err());
    }

    #[test]
    fn choices_are_shown_with_the_numbers_that_choose_them() {
        let mut row = test_rows::approval();
        row.questions = vec![asked(false, true)];
        assert_eq!(
            questions(&row).unwrap(),
            "1. Which store?\n   1  SQLite: one file\n   2  Postgres\n   \
             choose one, or answer in your own words"
        );
    }
    #[test]
    fn an_optional_question_can_be_left_empty() {
        let optional = HostChoiceQuestion {
            optional: true,
            ..asked(false, false)
        };
        assert_eq!(parse_answer(&optional, " "), Ok(Vec::new()));
        assert_eq!(
            parse_answer(&asked(false, false), " "),
            Err("type an answer first".to_owned())
        );
        assert_eq!(how_to_answer(&optional), "choose one; can be left empty");
    }

    #[test]
    fn the_limits_of_an_answer_are_shown() {
        let open = |number: bool, limits: HostAnswerLimits| HostChoiceQuestion {
            choices: Vec::new(),
            limits,
            number,
            ..asked(false, true)
        };
        let whole = HostAnswerLimits {
            whole: true,
            minimum: Some(1.into()),
            maximum: Some(9.into()),
            ..HostAnswerLimits::default()
        };
        let text = HostAnswerLimits {
            max_length: Some(20),
            format: Some("email".to_owned()),
            ..HostAnswerLimits::default()
        };
        let list = HostChoiceQuestion {
            limits: HostAnswerLimits {
                min_choices: Some(2),
                ..HostAnswerLimits::default()
            },
            ..asked(true, false)
        };
        assert_eq!(
            [open(true, whole), open(false, text), list].map(|asked| how_to_answer(&asked)),
            [
                "answer with a whole number; from 1 to 9",
                "answer in your own words; at most 20 characters; format: email",
                "choose one or more (1,2); at least 2 choices",
            ]
        );
    }
}
