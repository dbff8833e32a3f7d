//! Questions with choices: how people see them, and what they may type as an answer.

use std::fmt::Write as _;

use countersign_protocol::{HostApproval, HostChoiceQuestion};

use crate::render::escape;

/// Every question of an ask with its choices, each by the number it is chosen with.
pub(crate) fn questions(row: &HostApproval) -> Option<String> {
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

fn how_to_answer(asked: &HostChoiceQuestion) -> &'static str {
    match (asked.choices.is_empty(), asked.several, asked.free_text) {
        (true, _, _) if asked.number => "answer with a number",
        (true, _, _) => "answer in your own words",
        (false, true, true) => "choose one or more (1,2), or answer in your own words",
        (false, true, false) => "choose one or more (1,2)",
        (false, false, true) => "choose one, or answer in your own words",
        (false, false, false) => "choose one",
    }
}

/// What an ask wants to know, in one line.
pub(crate) fn summary(row: &HostApproval) -> Option<String> {
    let first = row.questions.first()?;
    let more = match row.questions.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("asks you: {}{more}", first.question))
}

/// What a text answers: the choices it names by number or label, else the text itself.
pub(crate) fn parse_answer(asked: &HostChoiceQuestion, text: &str) -> Result<Vec<String>, String> {
    let text = text.trim();
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
    use countersign_protocol::HostChoice;

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
            number: false,
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
        assert_eq!(summary(&row).unwrap(), "asks you: Which store?");
    }
}
