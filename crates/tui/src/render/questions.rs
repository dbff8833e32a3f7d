//! Questions in words: the same on every screen of the terminal.

use std::borrow::Cow;

use countersign_core::hidden_warning;
use countersign_protocol::{HostQuestion, HostQuestionState, Time};

use crate::duration;
use crate::render::approvals::{self, asked_by, time_with_distance};
use crate::render::escape;

/// Everything about a question, name by name.
pub fn fields(row: &HostQuestion, now: Time) -> Vec<(&'static str, String)> {
    let answer = row.answer.as_deref();
    let asker = asked_by(
        row.agent_name.as_deref(),
        row.agent_id.as_deref(),
        Some(&row.asked_by),
    );
    approvals::present([
        ("question", Some(escape::block(&row.question).into_owned())),
        ("warning", hidden_warning(escape::hidden(&row.question))),
        ("asked by", Some(asker)),
        ("asks", first_asked(row, now)),
        (
            "answer",
            answer.map(|answer| escape::block(answer).into_owned()),
        ),
        (
            "deadline",
            row.deadline.map(|at| time_with_distance(now, at)),
        ),
        ("id", Some(escape::line(&row.id).into_owned())),
        ("state", Some(state(row))),
        ("history", Some(history(row, now))),
    ])
}

/// The orchestrator that is asked: by name, or by id if it is no longer listed.
fn orchestrator(row: &HostQuestion) -> Option<Cow<'_, str>> {
    let name = row.to_name.as_deref().or(row.to.as_deref());
    name.map(escape::line)
}

/// A question in one line, with whom it asks first where that is not a person.
pub fn summary(row: &HostQuestion, now: Time) -> String {
    let text = escape::line(&row.question);
    match (row.for_people, orchestrator(row)) {
        (false, Some(to)) => {
            let when = row.escalates_at.map(|at| duration::until(now, at));
            let when = when.map_or(String::new(), |when| format!(", you {when}"));
            format!("[asks {to} first{when}] {text}")
        }
        _ => text.into_owned(),
    }
}

/// How a question stands, with who ended it.
pub fn state(row: &HostQuestion) -> String {
    let state = row.state;
    match &row.answered_by {
        Some(who) => format!(
            "{state} by {}",
            approvals::resolver_name(who, row.agent_id.as_deref())
        ),
        None => state.to_string(),
    }
}

/// Which orchestrator is asked first, and when people are.
fn first_asked(row: &HostQuestion, now: Time) -> Option<String> {
    let to = orchestrator(row)?;
    Some(
        match (
            row.state == HostQuestionState::Pending,
            row.for_people,
            row.escalates_at,
        ) {
            (true, false, Some(at)) => format!(
                "its orchestrator {to} first, people {}; you can answer now",
                duration::until(now, at)
            ),
            (true, true, _) => {
                format!("its orchestrator {to}, which has not answered: people are asked now")
            }
            _ => format!("its orchestrator {to} first"),
        },
    )
}

fn history(row: &HostQuestion, now: Time) -> String {
    let mut lines = vec![format!(
        "{} ago  asked (event {})",
        duration::age(now, row.created_at),
        row.sequence
    )];
    if let Some(at) = row.ended_at {
        lines.push(format!("{} ago  {}", duration::age(now, at), state(row)));
    }
    lines.extend(approvals::answer_origin(row.door, row.considered_ms));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;
    use countersign_protocol::Who;

    fn field<'f>(fields: &'f [(&'static str, String)], name: &str) -> Option<&'f str> {
        let found = fields.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_question_says_whom_it_asks_first_and_when_people_are_asked() {
        let row = HostQuestion {
            to: Some("agent-1".into()),
            to_name: Some("builder".into()),
            for_people: false,
            escalates_at: Some(Time(60_000_000)),
            ..test_rows::question()
        };
        let now = Time(10_000_000);
        assert_eq!(
            summary(&row, now),
            "[asks builder first, you in 50s] Which title?"
        );
        assert_eq!(
            field(&fields(&row, now), "asks"),
            Some("its orchestrator builder first, people in 50s; you can answer now")
        );
        let late = HostQuestion {
            for_people: true,
            ..row
        };
        assert_eq!(summary(&late, now), "Which title?");
        assert_eq!(
            field(&fields(&late, now), "asks"),
            Some("its orchestrator builder, which has not answered: people are asked now")
        );
        assert_eq!(field(&fields(&test_rows::question(), now), "asks"), None);
    }

    #[test]
    fn an_answer_names_who_gave_it() {
        let by = |who: Who| {
            state(&HostQuestion {
                state: "answered".into(),
                answered_by: Some(who),
                ..test_rows::question()
            })
        };
        let boss = Who {
            agent_id: Some("agent-boss".into()),
            ..test_rows::who("boss", "agent")
        };
        assert_eq!(by(boss), "answered by orchestrator boss");
        assert_eq!(by(test_rows::who("ada", "operator")), "answered by ada");
    }
}
