//! Asks in words: the same on every screen of the terminal.
//!
//! Invariant: what will run comes from the input, never from what the agent says about it.

use std::fmt::Write as _;

use countersign_core::SPAWN_TOOL;
use countersign_protocol::{HostApproval, HostRole, Time, Who};
use serde_json::value::RawValue;

use crate::duration;
use crate::render::json::{self, JsonMembers};
use crate::render::{diff, escape, rules};

/// The option that always allows.
pub(crate) const APPROVE: &str = "approve";
/// The option that always denies.
pub(crate) const DENY: &str = "deny";

/// An id as people type it: without its prefix, eight characters of it.
pub(crate) fn short_id(id: &str) -> String {
    let bare = id
        .strip_prefix("approval-")
        .or_else(|| id.strip_prefix("question-"))
        .or_else(|| id.strip_prefix("grant-"))
        .unwrap_or(id);
    escape::line(&bare.chars().take(8).collect::<String>()).into_owned()
}

/// Whether choosing this option lets the agent go on.
pub(crate) fn allows(row: &HostApproval, option: &str) -> bool {
    option == APPROVE || row.approving.iter().any(|name| name == option)
}

/// The options that let the agent go on.
pub(crate) fn approving_options(row: &HostApproval) -> Vec<&str> {
    row.options
        .iter()
        .map(String::as_str)
        .filter(|option| allows(row, option))
        .collect()
}

/// Who asks, as a list shows it.
pub(crate) fn asker(agent_id: Option<&str>, asked_by: Option<&Who>) -> String {
    // An agent that asks for itself goes by its name; another's ask by the agent it is for.
    let itself = asked_by.filter(|who| agent_id.is_some() && who.agent_id.as_deref() == agent_id);
    let name = itself
        .map(|who| who.name.as_str())
        .or(agent_id)
        .or(asked_by.map(|who| who.name.as_str()))
        .unwrap_or("-");
    escape::line(name).into_owned()
}

/// What would happen, in one line: from the input where there is one. A tool without one is known by
/// its agent's words alone, which must not look like a command.
pub(crate) fn summary(row: &HostApproval) -> String {
    if let Some(started) = spawn_summary(row) {
        return escape::line(&format!("SpawnAgent: {started}")).into_owned();
    }
    let text = match (&row.tool, subject(row)) {
        (Some(tool), Some(what)) => format!("{tool}: {what}"),
        (Some(tool), None) => format!("{tool} (unparsed): {}", row.action),
        (None, Some(what)) => what,
        (None, None) => row.action.clone(),
    };
    escape::line(&text).into_owned()
}

/// The agent that an orchestrator would start. Where it would get more than is usual, the input itself
/// is shown instead.
fn spawn_summary(row: &HostApproval) -> Option<String> {
    const USUAL: [&str; 3] = ["agent", "name", "prompt"];
    if row.tool.as_deref() != Some(SPAWN_TOOL) {
        return None;
    }
    let members = JsonMembers::parse(row.input.as_ref()?.text())?;
    let usual = |name: &String| USUAL.contains(&name.as_str());
    if members.repeated().is_some() || !members.0.iter().all(|(name, _)| usual(name)) {
        return None;
    }
    let name = members.only_text("name");
    let name = name.map_or(String::new(), |name| format!(", as {name}"));
    let prompt = members.only_text("prompt").unwrap_or_default();
    Some(format!("{}{name}: {prompt}", members.only_text("agent")?))
}

/// What the input is about: the one word of it that says most, else all of it.
fn subject(row: &HostApproval) -> Option<String> {
    const TELLING: [&str; 5] = ["command", "file_path", "path", "url", "query"];
    let raw = row.input.as_ref()?.text();
    let members = JsonMembers::parse(raw);
    let telling = members.filter(|members| members.repeated().is_none());
    let word = telling.and_then(|members| TELLING.iter().find_map(|key| members.only_text(key)));
    Some(word.unwrap_or_else(|| raw.to_owned()))
}

fn command(row: &HostApproval) -> Option<String> {
    JsonMembers::parse(row.input.as_ref()?.text())?.only_text("command")
}

/// What else was sent, without a second copy of the input.
fn details(row: &HostApproval) -> Option<String> {
    let text = row.details.text();
    if text == "null" {
        return None;
    }
    let input = row.input.as_ref().map(|input| json::pretty(input.text()));
    let members = JsonMembers::parse(text).filter(|members| members.repeated().is_none());
    let Some(mut members) = members else {
        return Some(json::pretty(text));
    };
    let before = members.0.len();
    let is_copy = |raw: &str| Some(json::pretty(raw)) == input;
    members
        .0
        .retain(|(name, value)| name != "rawInput" || !is_copy(value.get()));
    if members.0.len() == before {
        return Some(json::pretty(text));
    }
    let line = |(name, value): &(String, Box<RawValue>)| {
        format!("{}: {}", escape::line(name), json::pretty(value.get()))
    };
    let lines: Vec<String> = members.0.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Why what an agent says of its ask cannot be relied upon, where the host found a reason.
fn doubt(row: &HostApproval) -> Option<String> {
    let doubt = JsonMembers::parse(row.details.text())?.only_text("doubt")?;
    Some(escape::line(&doubt).into_owned())
}

/// The options in one line, with the word for those that allow.
pub(crate) fn options(row: &HostApproval) -> String {
    let mark = |option: &String| {
        if allows(row, option) {
            format!("{} (allows)", escape::line(option))
        } else {
            escape::line(option).into_owned()
        }
    };
    row.options.iter().map(mark).collect::<Vec<_>>().join(", ")
}

/// Everything about an ask, name by name.
pub(crate) fn ask_fields(row: &HostApproval, now: Time) -> Vec<(&'static str, String)> {
    let mut fields = vec![("action", escape::block(&row.action).into_owned())];
    let mut add = |name, value: Option<String>| fields.extend(value.map(|value| (name, value)));
    add(
        "tool",
        row.tool
            .as_deref()
            .map(|tool| escape::line(tool).into_owned()),
    );
    add(
        "command",
        command(row).map(|command| escape::block(&command).into_owned()),
    );
    add("diff", diff::diff(row));
    add("doubt", doubt(row));
    add(
        "input",
        row.input.as_ref().map(|input| json::pretty(input.text())),
    );
    add(
        "folder",
        row.cwd.as_deref().map(|cwd| escape::line(cwd).into_owned()),
    );
    add("rules", row.verdict.as_ref().map(rules::verdict));
    add("details", details(row));
    add("warning", warning(row));
    add(
        "asked by",
        Some(asked_by(row.agent_id.as_deref(), row.asked_by.as_ref())),
    );
    add(
        "owner",
        row.client_id
            .as_deref()
            .map(|id| format!("connection {}, which decides", escape::line(id))),
    );
    add("options", Some(options(row)));
    add(
        "deadline",
        row.deadline.map(|at| time_with_distance(now, at)),
    );
    add(
        "digest",
        row.input_digest
            .clone()
            .map(|digest| format!("sha256:{}", escape::line(&digest))),
    );
    add("id", Some(escape::line(&row.id).into_owned()));
    add("state", Some(ask_state(row)));
    add("history", Some(ask_history(row, now)));
    fields
}

/// Who decided. An agent that did so for another is an orchestrator, and never looks like a person.
pub(crate) fn resolver_name(who: &Who, asker: Option<&str>) -> String {
    let name = escape::line(&who.name);
    if who.role == HostRole::Agent && who.agent_id.as_deref() != asker {
        format!("orchestrator {name}")
    } else {
        name.into_owned()
    }
}

/// How an ask stands, with who ended it and the words that came with it.
pub(crate) fn ask_state(row: &HostApproval) -> String {
    let mut text = row.state.to_string();
    if let Some(resolution) = row
        .resolution
        .as_deref()
        .filter(|resolution| *resolution != row.state.as_str())
    {
        let _ = write!(text, " ({})", escape::line(resolution));
    }
    if let Some(who) = &row.resolved_by {
        let _ = write!(text, " by {}", resolver_name(who, row.agent_id.as_deref()));
    }
    if let Some(message) = &row.message {
        let _ = write!(text, ": {}", escape::line(message));
    }
    text
}

fn warning(row: &HostApproval) -> Option<String> {
    let input = row.input.as_ref().map_or("", |input| input.text());
    let hidden = [
        row.action.as_str(),
        input,
        row.details.text(),
        &command(row).unwrap_or_default(),
    ]
    .into_iter()
    .map(escape::hidden)
    .sum();
    let members = JsonMembers::parse(input);
    let repeated = members.as_ref().and_then(JsonMembers::repeated).map(|key| {
        format!(
            "the input repeats the key `{}`: what runs may differ from what is shown",
            escape::line(key)
        )
    });
    let again = row.repeats.as_deref().map(|earlier| {
        format!(
            "this may already have run: {} allowed exactly the same, and its result is unknown",
            escape::line(earlier)
        )
    });
    let warnings = again.into_iter().chain(repeated);
    let warnings: Vec<String> = warnings.chain(hidden_warning(hidden)).collect();
    (!warnings.is_empty()).then(|| warnings.join("\n"))
}

pub(crate) fn hidden_warning(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} invisible characters are shown as escapes"))
}

pub(crate) fn asked_by(agent_id: Option<&str>, who: Option<&Who>) -> String {
    let agent = agent_id.map(|id| format!("agent {}", escape::line(id)));
    let who = who.map(|who| format!("{} ({})", escape::line(&who.name), who.role));
    match (agent, who) {
        (Some(agent), Some(who)) => format!("{agent}, as {who}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "unknown".into(),
    }
}

/// A time to come, relative and exact.
pub(crate) fn time_with_distance(now: Time, at: Time) -> String {
    format!("{} ({at})", duration::until(now, at))
}

fn ask_history(row: &HostApproval, now: Time) -> String {
    let mut lines = vec![format!(
        "{} ago  asked (event {})",
        duration::age(now, row.created_at),
        row.sequence
    )];
    if let Some(at) = row.resolved_at {
        lines.push(format!(
            "{} ago  {}",
            duration::age(now, at),
            ask_state(row)
        ));
    }
    if let Some(delivery) = &row.delivery {
        lines.push(format!(
            "answer {} {}",
            delivery,
            duration::times(u64::from(row.deliveries))
        ));
    }
    if let Some(edited) = &row.edited_input {
        lines.push(format!("input edited to:\n{}", json::pretty(edited.text())));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    #[test]
    fn an_ask_is_told_whole() {
        let row = HostApproval {
            deadline: Some(Time(1_800_000_000)),
            ..test_rows::approval()
        };
        let expected = [
            ("action", "Run the tests"),
            ("tool", "Bash"),
            ("command", "cargo test --workspace"),
            ("input", "{\n  \"command\": \"cargo test --workspace\"\n}"),
            ("asked by", "agent builder, as builder (agent)"),
            ("options", "approve (allows), deny"),
            ("deadline", "in 28m (1970-01-01T00:30:00.000000Z)"),
            ("digest", "sha256:d1gest"),
            ("id", "approval-aaaa11112222"),
            ("state", "pending"),
            ("history", "1m ago  asked (event 7)"),
        ]
        .map(|(name, value)| (name, value.to_owned()));
        assert_eq!(ask_fields(&row, Time(120_000_000)), expected);
    }

    #[test]
    fn a_copy_of_the_input_is_not_shown_twice_and_another_is() {
        let with = |details: &str| HostApproval {
            details: test_rows::raw(details),
            ..test_rows::approval()
        };
        let same = r#"{"kind":"execute","rawInput":{ "command" : "cargo test --workspace" }}"#;
        assert_eq!(details(&with(same)).unwrap(), r#"kind: "execute""#);
        let other = r#"{"rawInput":{"command":"rm"}}"#;
        assert!(details(&with(other)).unwrap().contains("rm"));
    }

    #[test]
    fn the_summary_shows_the_command_and_not_the_story() {
        assert_eq!(
            summary(&test_rows::approval()),
            "Bash: cargo test --workspace"
        );
        let twice = HostApproval {
            input: Some(test_rows::raw(r#"{"command":"ls","command":"rm"}"#)),
            ..test_rows::approval()
        };
        assert_eq!(summary(&twice), r#"Bash: {"command":"ls","command":"rm"}"#);
        assert!(warning(&twice).is_some());
        let unknown = HostApproval {
            action: "ls".into(),
            input: None,
            ..test_rows::approval()
        };
        assert_eq!(summary(&unknown), "Bash (unparsed): ls");
    }

    #[test]
    fn an_agent_to_be_started_is_told_in_words_unless_there_is_more_to_it() {
        let with = |input: &str| HostApproval {
            tool: Some(SPAWN_TOOL.into()),
            input: Some(test_rows::raw(input)),
            ..test_rows::approval()
        };
        let usual = with(r#"{"agent":"codex","name":"fixer","prompt":"Fix it"}"#);
        assert_eq!(summary(&usual), "SpawnAgent: codex, as fixer: Fix it");
        let more = with(r#"{"agent":"codex","prompt":"x","env":{"A":"b"}}"#);
        assert!(
            summary(&more).contains(r#""env":{"A":"b"}"#),
            "{}",
            summary(&more)
        );
    }

    #[test]
    fn only_named_options_allow() {
        let row = HostApproval {
            options: vec!["once".into(), "always".into(), "no".into()],
            approving: vec!["once".into(), "other".into()],
            ..test_rows::approval()
        };
        assert_eq!(approving_options(&row), ["once"]);
        assert_eq!(options(&row), "once (allows), always, no");
    }

    #[test]
    fn an_end_names_who_and_why() {
        let row = HostApproval {
            state: "denied".into(),
            resolution: Some("deny".into()),
            resolved_by: Some(test_rows::who("ada", "operator")),
            message: Some("not on Fridays".into()),
            ..test_rows::approval()
        };
        assert_eq!(ask_state(&row), "denied (deny) by ada: not on Fridays");
    }

    #[test]
    fn an_orchestrator_that_answered_does_not_look_like_a_person() {
        let orchestrator = Who {
            agent_id: Some("agent-boss".into()),
            ..test_rows::who("ada", "agent")
        };
        let row = HostApproval {
            state: "allowed".into(),
            resolved_by: Some(orchestrator.clone()),
            ..test_rows::approval()
        };
        assert_eq!(ask_state(&row), "allowed by orchestrator ada");
        let itself = HostApproval {
            state: "cancelled".into(),
            agent_id: orchestrator.agent_id.clone(),
            ..row
        };
        assert_eq!(ask_state(&itself), "cancelled by ada");
    }
}
