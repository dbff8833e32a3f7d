//! Asks in words: the same on every screen of the terminal.
//!
//! Invariant: what will run comes from the input, never from what the agent says about it.

use std::fmt::Write as _;

use countersign_core::SPAWN_TOOL;
use countersign_protocol::{HostApproval, HostApprovalState, HostRole, Time, Who};

use crate::duration;
use crate::render::json::{self, JsonMembers};
use crate::render::{choices, diff, escape, rules};

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

/// Whether two asks are about the same: the same tool with the same input, whoever asks.
pub(crate) fn are_equal(one: &HostApproval, other: &HostApproval) -> bool {
    let is_known = one.tool.is_some() && one.input_digest.is_some();
    is_known && one.tool == other.tool && one.input_digest == other.input_digest
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
pub(crate) fn asker(
    agent_name: Option<&str>,
    agent_id: Option<&str>,
    asked_by: Option<&Who>,
) -> String {
    // An agent that asks for itself goes by its name; another's ask by the agent it is for.
    let itself = asked_by.filter(|who| agent_id.is_some() && who.agent_id.as_deref() == agent_id);
    let name = agent_name
        .or(itself.map(|who| who.name.as_str()))
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
    if let Some(asked) = choices::summary(row) {
        return escape::line(&asked).into_owned();
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
    let is_usual = members.0.iter().all(|(name, _)| USUAL.contains(&&**name));
    if members.repeated().is_some() || !is_usual {
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
    // With a repeated key nobody knows which value the tool takes, so none of them is shown as the
    // subject.
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
    // Compared as laid out: other blanks between tokens do not make a copy something else.
    members
        .0
        .retain(|(name, value)| name != "rawInput" || Some(json::pretty(value.get())) != input);
    if members.0.len() == before {
        return Some(json::pretty(text));
    }
    member_lines(members.0.iter())
}

/// Why what an agent says of its ask cannot be relied upon, where the host found a reason.
fn doubt(row: &HostApproval) -> Option<String> {
    let doubt = JsonMembers::parse(row.details.text())?.only_text("doubt")?;
    Some(escape::line(&doubt).into_owned())
}

/// The options in one line, with the word for those that allow.
pub(crate) fn options(row: &HostApproval) -> String {
    let marked = row.options.iter().map(|option| {
        if allows(row, option) {
            format!("{} (allows)", escape::line(option))
        } else {
            escape::line(option).into_owned()
        }
    });
    marked.collect::<Vec<_>>().join(", ")
}

/// How much of an ask is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldDetail {
    /// What decides: what will run, the rules, warnings. The rest is named in one line.
    #[default]
    Folded,
    Full,
}

/// An ask, name by name: what will run, its parts with the rule beside each, what is unusual about it,
/// then the rest. No text stands there twice.
///
/// Invariant: folded or not, every member of the input is shown.
pub(crate) fn ask_fields(
    row: &HostApproval,
    now: Time,
    detail: FieldDetail,
) -> Vec<(&'static str, String)> {
    let tool = row.tool.as_deref().map(|tool| escape::line(tool).into());
    let command = command(row).map(|command| escape::block(&command).into_owned());
    let cwd = row.cwd.as_deref().map(|cwd| escape::line(cwd).into());
    let asker = asked_by(
        row.agent_name.as_deref(),
        row.agent_id.as_deref(),
        row.asked_by.as_ref(),
    );
    let owner = row.client_id.as_deref().map(escape::line);
    let action = escape::block(&row.action).into_owned();
    // Without an input the agent's words are all there is to decide on.
    let (action, title) = match row.input {
        None => (Some(action), None),
        Some(_) => (None, Some(action).filter(|_| !repeats_input(row))),
    };
    let fields = present([
        ("action", action),
        ("questions", choices::questions(row)),
        ("tool", tool),
        ("command", command),
        ("diff", diff::diff(row)),
        ("input", input(row, detail)),
        ("folder", cwd),
        ("rules", row.verdict.as_ref().map(rules::verdict)),
        ("warning", warning(row)),
        ("doubt", doubt(row)),
        ("title", title),
        ("asked by", Some(asker)),
        (
            "owner",
            owner.map(|id| format!("connection {id}, which decides")),
        ),
        ("asker", absent_asker(row, now)),
        (
            "options",
            Some(options(row)).filter(|_| !has_usual_options(row)),
        ),
        (
            "deadline",
            row.deadline.map(|at| time_with_distance(now, at)),
        ),
        ("state", Some(ask_state(row))),
        ("id", Some(escape::line(&row.id).into_owned())),
    ]);
    let rest = rest_fields(row, now);
    let is_pending = row.state == HostApprovalState::Pending;
    match detail {
        FieldDetail::Full => fields.into_iter().chain(rest).collect(),
        FieldDetail::Folded => {
            // How an ask ended is what one looks at an ended one for.
            let (shown, folded): (Vec<_>, Vec<_>) = rest
                .into_iter()
                .partition(|(name, _)| *name == "history" && !is_pending);
            let folded = fold(&folded).map(|names| ("folded", names));
            fields.into_iter().chain(shown).chain(folded).collect()
        }
    }
}

/// What nobody needs in order to decide.
fn rest_fields(row: &HostApproval, now: Time) -> Vec<(&'static str, String)> {
    let digest = row.input_digest.as_deref().map(escape::line);
    present([
        ("details", details(row)),
        ("digest", digest.map(|digest| format!("sha256:{digest}"))),
        ("history", Some(ask_history(row, now))),
    ])
}

/// The names of fields that are not shown, with their size where that says something.
fn fold(fields: &[(&'static str, String)]) -> Option<String> {
    let names = fields
        .iter()
        .map(|(name, value)| match value.lines().count() {
            0 | 1 => (*name).to_owned(),
            count => format!("{name} ({count} lines)"),
        });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Whether the agent's words for the ask are in what will run anyway.
fn repeats_input(row: &HostApproval) -> bool {
    let what = subject(row).unwrap_or_default();
    let tool = row.tool.as_deref().unwrap_or_default();
    format!("{tool} {what}").contains(row.action.trim())
}

/// That the program that asked is gone, and until when it may come back.
fn absent_asker(row: &HostApproval, now: Time) -> Option<String> {
    let lapses_at = row.lapses_at?;
    let until = duration::until(now, lapses_at);
    Some(format!(
        "its program is not connected; the ask ends {until} unless it comes back"
    ))
}

fn has_usual_options(row: &HostApproval) -> bool {
    row.options == [APPROVE, DENY] && approving_options(row) == [APPROVE]
}

/// The input: as it was sent in full; else what no other field shows of it.
fn input(row: &HostApproval, detail: FieldDetail) -> Option<String> {
    let raw = row.input.as_ref()?.text();
    let members = JsonMembers::parse(raw).filter(|members| members.repeated().is_none());
    let Some(members) = members.filter(|_| detail == FieldDetail::Folded) else {
        return Some(json::pretty(raw));
    };
    let mut shown = diff::members_shown(row);
    shown.extend(command(row).map(|_| "command"));
    let is_shown = |name: &str| shown.contains(&name);
    if members.0.iter().all(|(name, _)| !is_shown(name)) {
        return Some(json::pretty(raw));
    }
    member_lines(members.0.iter().filter(|(name, _)| !is_shown(name)))
}

/// Members of an object, one under the other.
fn member_lines<'m>(
    members: impl Iterator<Item = &'m (String, Box<serde_json::value::RawValue>)>,
) -> Option<String> {
    let lines = members
        .map(|(name, value)| format!("{}: {}", escape::line(name), json::pretty(value.get())));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The fields that have a value.
pub(crate) fn present<const N: usize>(
    fields: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    let present = fields.into_iter();
    present
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
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
        // Decoded as well: what JSON spells as an escape in the input is a hidden character here.
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

pub(crate) fn asked_by(
    agent_name: Option<&str>,
    agent_id: Option<&str>,
    who: Option<&Who>,
) -> String {
    let agent = agent_id.map(|id| match agent_name {
        Some(name) => format!("{} ({})", escape::line(name), escape::line(id)),
        None => format!("agent {}", escape::line(id)),
    });
    // An agent that asks for itself was named already.
    let who = who.filter(|who| agent_name.is_none() || who.agent_id.as_deref() != agent_id);
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

    fn texts<'f>(fields: &'f [(&'static str, String)]) -> Vec<(&'static str, &'f str)> {
        let fields = fields.iter();
        fields.map(|(name, text)| (*name, text.as_str())).collect()
    }

    #[test]
    fn an_ask_shows_what_will_run_first_and_folds_the_rest() {
        let row = HostApproval {
            deadline: Some(Time(1_800_000_000)),
            input: Some(test_rows::raw(
                r#"{"command":"cargo test --workspace","timeout":5}"#,
            )),
            verdict: Some(test_rows::verdict()),
            details: test_rows::raw(r#"{"kind":"execute","locations":[]}"#),
            ..test_rows::approval()
        };
        let first = [
            ("tool", "Bash"),
            ("command", "cargo test --workspace"),
            ("input", "timeout: 5"),
            (
                "rules",
                "ask, because:\n\
                 allow  cargo test  <- allow Bash(cargo test:*) (/u/rules.toml:3)\n\
                 ask    write /p/.git/config  <- git internals (no rule, grant or bypass can allow this)",
            ),
            ("title", "Run the tests"),
            ("asked by", "agent builder, as builder (agent)"),
            ("deadline", "in 28m (1970-01-01T00:30:00.000000Z)"),
            ("state", "pending"),
            ("id", "approval-aaaa11112222"),
        ];
        let now = Time(120_000_000);
        let folded = ask_fields(&row, now, FieldDetail::Folded);
        let names = [("folded", "details (4 lines), digest, history")];
        assert_eq!(texts(&folded), [&first[..], &names].concat());
        let full = ask_fields(&row, now, FieldDetail::Full);
        let rest = [
            (
                "details",
                "{\n  \"kind\": \"execute\",\n  \"locations\": []\n}",
            ),
            ("digest", "sha256:d1gest"),
            ("history", "1m ago  asked (event 7)"),
        ];
        let mut expected = [&first[..], &rest].concat();
        expected[2].1 = "{\n  \"command\": \"cargo test --workspace\",\n  \"timeout\": 5\n}";
        assert_eq!(texts(&full), expected);
    }

    #[test]
    fn no_text_is_shown_twice_and_every_member_of_the_input_once() {
        let folded = |row: &HostApproval| ask_fields(row, Time(0), FieldDetail::Folded);
        let named = |row: &HostApproval, name: &str| {
            let found = folded(row).into_iter().find(|(own, _)| *own == name);
            found.map(|(_, text)| text)
        };
        let plain = HostApproval {
            action: "cargo test --workspace".into(),
            ..test_rows::approval()
        };
        assert_eq!(
            (named(&plain, "title"), named(&plain, "input")),
            (None, None)
        );
        let edit = HostApproval {
            tool: Some("Edit".into()),
            input: Some(test_rows::raw(
                r#"{"file_path":"/a","path":"/b","old_string":"x","new_string":"y","content":"z"}"#,
            )),
            ..test_rows::approval()
        };
        assert_eq!(named(&edit, "diff").unwrap(), "/a\n-x\n+y");
        assert_eq!(
            named(&edit, "input").unwrap(),
            "path: \"/b\"\ncontent: \"z\""
        );
        let twice = HostApproval {
            input: Some(test_rows::raw(r#"{"command":"ls","command":"rm"}"#)),
            ..test_rows::approval()
        };
        assert!(named(&twice, "input").unwrap().contains("rm"));
        let words = HostApproval {
            input: None,
            ..test_rows::approval()
        };
        assert_eq!(folded(&words)[0], ("action", "Run the tests".to_owned()));
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
    fn an_ask_whose_program_went_away_says_so_and_when_it_ends() {
        let row = HostApproval {
            client_id: Some("client-1".into()),
            lapses_at: Some(Time(30_000_000)),
            ..test_rows::approval()
        };
        let fields = ask_fields(&row, Time(10_000_000), FieldDetail::Folded);
        let asker = fields.iter().find(|(name, _)| *name == "asker");
        assert_eq!(
            asker.map(|(_, text)| text.as_str()),
            Some("its program is not connected; the ask ends in 20s unless it comes back")
        );
    }

    #[test]
    fn an_agent_that_asks_for_itself_goes_by_its_name() {
        let itself = Who {
            agent_id: Some("agent-1".into()),
            ..test_rows::who("ann", "agent")
        };
        let asked = |who: &Who| asked_by(Some("ann"), Some("agent-1"), Some(who));
        assert_eq!(asked(&itself), "ann (agent-1)");
        let script = test_rows::who("ci", "operator");
        assert_eq!(asked(&script), "ann (agent-1), as ci (operator)");
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
