//! Asks in words: the same on every screen of the terminal.
//!
//! What an ask means is the host's view of it (`core::HostAskView`), which came with the row.

use std::fmt::Write as _;

use countersign_protocol::{
    HostApproval, HostApprovalState, HostAskView, HostDoor, HostRole, Raw, SandboxRow, Time, Who,
};

use crate::duration;
use crate::render::{choices, diff, escape, rules};

/// The option that always allows.
pub const APPROVE: &str = "approve";
/// The option that always denies.
pub const DENY: &str = "deny";

/// An id as people type it: without its prefix, eight characters of it.
pub fn short_id(id: &str) -> String {
    let bare = id
        .strip_prefix("approval-")
        .or_else(|| id.strip_prefix("question-"))
        .or_else(|| id.strip_prefix("grant-"))
        .unwrap_or(id);
    escape::line(&bare.chars().take(8).collect::<String>()).into_owned()
}

/// Whether choosing this option lets the agent go on.
pub fn allows(row: &HostApproval, option: &str) -> bool {
    option == APPROVE || row.approving.iter().any(|name| name == option)
}

/// Whether two asks are about the same: the same tool with the same input, whoever asks.
pub fn are_equal(one: &HostApproval, other: &HostApproval) -> bool {
    let is_known = one.tool.is_some() && one.input_digest.is_some();
    is_known && one.tool == other.tool && one.input_digest == other.input_digest
}

/// The options that let the agent go on.
pub fn approving_options(row: &HostApproval) -> Vec<&str> {
    row.options
        .iter()
        .map(String::as_str)
        .filter(|option| allows(row, option))
        .collect()
}

/// Who asks, as a list shows it.
pub fn asker(agent_name: Option<&str>, agent_id: Option<&str>, asked_by: Option<&Who>) -> String {
    // An agent that asks for itself goes by its name; another's ask by the agent it is for.
    let itself = asked_by.filter(|who| agent_id.is_some() && who.agent_id.as_deref() == agent_id);
    let name = agent_name
        .or(itself.map(|who| who.name.as_str()))
        .or(agent_id)
        .or(asked_by.map(|who| who.name.as_str()))
        .unwrap_or("-");
    escape::line(name).into_owned()
}

/// What would happen, in one line, as the host says it.
pub fn summary(row: &HostApproval) -> String {
    if let Some(view) = &row.view {
        return view.summary.clone();
    }
    // Only the reply to an asker has none. The agent's words must not look like a command.
    let tool = row
        .tool
        .as_deref()
        .map(|tool| format!("{tool} (unparsed): "));
    let text = format!("{}{}", tool.unwrap_or_default(), row.action);
    escape::line(&text).into_owned()
}

/// What people see of an ask, if all of it came with the row.
fn whole_view(row: &HostApproval) -> Option<&HostAskView> {
    row.view.as_ref().filter(|view| !view.cut)
}

/// What else was sent.
fn details(row: &HostApproval) -> Option<String> {
    match whole_view(row) {
        Some(view) => view.details_text.clone(),
        None => shown_json(Some(&row.details)),
    }
}

/// JSON as it came, where its layout is too large to come with the row.
fn shown_json(json: Option<&Raw>) -> Option<String> {
    let text = json?.text();
    (text != "null").then(|| escape::block(text).into_owned())
}

/// The options in one line, with the word for those that allow.
pub fn options(row: &HostApproval) -> String {
    let marked = row.options.iter().map(|option| {
        if allows(row, option) {
            format!("{} (allows)", escape::line(option))
        } else {
            escape::line(option).into_owned()
        }
    });
    marked.collect::<Vec<_>>().join(", ")
}

/// A sandbox, by its profile and how much of it is enforced.
pub fn sandbox(row: &SandboxRow) -> String {
    let profile = escape::line(&row.profile);
    let enforced = if row.profile == "open" {
        profile.into_owned()
    } else {
        format!("{profile} ({})", escape::line(&row.level))
    };
    match row.terminals.as_deref() {
        Some("none") => format!("{enforced}, no commands"),
        Some(outside) => format!("{enforced}, unconfined: {}", escape::line(outside)),
        None => enforced,
    }
}

/// How much of an ask is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldDetail {
    /// What decides: what will run, the rules, warnings. The rest is named in one line.
    #[default]
    Folded,
    Full,
}

/// An ask, name by name: what will run, its parts with the rule beside each, what is unusual about it,
/// then the rest. No text stands there twice.
///
/// Invariant: folded or not, every member of the input is shown.
pub fn ask_fields(
    row: &HostApproval,
    now: Time,
    detail: FieldDetail,
) -> Vec<(&'static str, String)> {
    let tool = row.tool.as_deref().map(|tool| escape::line(tool).into());
    let command = whole_view(row).and_then(|view| view.command.clone());
    let cwd = row.cwd.as_deref().map(|cwd| escape::line(cwd).into());
    let asker = asked_by(
        row.agent_name.as_deref(),
        row.agent_id.as_deref(),
        row.asked_by.as_ref(),
    );
    let owner = row.client_id.as_deref().map(escape::line);
    let title = match whole_view(row) {
        Some(view) => view.title.clone(),
        None => Some(escape::block(&row.action).into_owned()),
    };
    // Without an input the agent's words are all there is to decide on.
    let (action, title) = match row.input {
        None => (title, None),
        Some(_) => (None, title),
    };
    let fields = present([
        ("action", action),
        ("questions", choices::questions(row)),
        ("tool", tool),
        ("command", command),
        (
            "diff",
            whole_view(row).and_then(|view| diff::edits(&view.edits)),
        ),
        ("input", input(row, detail)),
        ("folder", cwd),
        ("sandbox", row.sandbox.as_ref().map(sandbox)),
        ("rules", row.verdict.as_ref().map(rules::verdict)),
        ("warning", warning(row)),
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
    let Some(view) = whole_view(row) else {
        return shown_json(row.input.as_ref());
    };
    let whole = match detail {
        FieldDetail::Full => view.input_text.as_ref(),
        FieldDetail::Folded => None,
    };
    whole.or(view.rest_text.as_ref()).cloned()
}

/// The fields that have a value.
pub fn present<const N: usize>(
    fields: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    let present = fields.into_iter();
    present
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Who decided. An agent that did so for another is an orchestrator, and never looks like a person.
pub fn resolver_name(who: &Who, asker: Option<&str>) -> String {
    let name = escape::line(&who.name);
    if who.role == HostRole::Agent && who.agent_id.as_deref() != asker {
        format!("orchestrator {name}")
    } else {
        name.into_owned()
    }
}

/// How an ask stands, with who ended it and the words that came with it.
pub fn ask_state(row: &HostApproval) -> String {
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
    let warnings = &row.view.as_ref()?.warnings;
    (!warnings.is_empty()).then(|| warnings.join("\n"))
}

pub fn asked_by(agent_name: Option<&str>, agent_id: Option<&str>, who: Option<&Who>) -> String {
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
pub fn time_with_distance(now: Time, at: Time) -> String {
    format!("{} ({at})", duration::until(now, at))
}

/// How an answer came in, and how long what it answers was looked at.
pub fn answer_origin(door: Option<HostDoor>, considered_ms: Option<u64>) -> Option<String> {
    let through = match door? {
        HostDoor::Web => "on the web page",
        HostDoor::Websocket => "over a WebSocket",
        HostDoor::Rest => "over REST",
        HostDoor::Socket => "over the Unix socket",
        HostDoor::Mcp => "over MCP",
        HostDoor::Hook => "by a hook",
        HostDoor::Unknown => "in another way",
    };
    let after = considered_ms.map(|ms| format!(", {} after it was shown", duration::in_words(ms)));
    Some(format!("answered {through}{}", after.unwrap_or_default()))
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
    lines.extend(answer_origin(row.door, row.considered_ms));
    let edited = match whole_view(row) {
        Some(view) => view.edited_text.clone(),
        None => shown_json(row.edited_input.as_ref()),
    };
    lines.extend(edited.map(|edited| format!("input edited to:\n{edited}")));
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
            verdict: Some(test_rows::verdict()),
            view: Some(HostAskView {
                command: Some("cargo test --workspace".into()),
                details_text: Some("{\n  \"kind\": \"execute\",\n  \"locations\": []\n}".into()),
                input_text: Some(
                    "{\n  \"command\": \"cargo test --workspace\",\n  \"timeout\": 5\n}".into(),
                ),
                rest_text: Some("timeout: 5".into()),
                title: Some("Run the tests".into()),
                ..HostAskView::default()
            }),
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
    fn a_row_whose_view_was_cut_still_shows_all_that_was_sent() {
        let row = HostApproval {
            details: test_rows::raw(r#"{"kind":"execute"}"#),
            edited_input: Some(test_rows::raw(r#"{"command":"true"}"#)),
            view: test_rows::approval().view.map(|view| HostAskView {
                cut: true,
                warnings: vec!["odd".to_owned()],
                command: None,
                ..view
            }),
            ..test_rows::approval()
        };
        let full = ask_fields(&row, Time(1_000_000), FieldDetail::Full);
        assert_eq!(
            texts(&full),
            [
                ("tool", "Bash"),
                ("input", r#"{"command":"cargo test --workspace"}"#),
                ("warning", "odd"),
                ("title", "Run the tests"),
                ("asked by", "agent builder, as builder (agent)"),
                ("state", "pending"),
                ("id", "approval-aaaa11112222"),
                ("details", r#"{"kind":"execute"}"#),
                ("digest", "sha256:d1gest"),
                (
                    "history",
                    "0s ago  asked (event 7)\ninput edited to:\n{\"command\":\"true\"}"
                ),
            ]
        );
        assert_eq!(summary(&row), "Bash: cargo test --workspace");
        let reply = HostApproval {
            action: "l\u{202e}s".into(),
            view: None,
            ..row
        };
        assert_eq!(summary(&reply), r"Bash (unparsed): l\u{202e}s");
    }

    #[test]
    fn an_ask_without_an_input_shows_its_agents_words_first() {
        let words = HostApproval {
            input: None,
            view: Some(HostAskView {
                summary: "Bash (unparsed): Run the tests".into(),
                title: Some("Run the tests".into()),
                ..HostAskView::default()
            }),
            ..test_rows::approval()
        };
        let folded = ask_fields(&words, Time(0), FieldDetail::Folded);
        assert_eq!(folded[0], ("action", "Run the tests".to_owned()));
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
    fn the_history_says_how_an_answer_came_in() {
        let row = HostApproval {
            state: "allowed".into(),
            resolved_at: Some(Time(2_000_000)),
            resolved_by: Some(test_rows::who("ada", "operator")),
            door: Some(HostDoor::Web),
            considered_ms: Some(4_000),
            ..test_rows::approval()
        };
        assert_eq!(
            ask_history(&row, Time(3_000_000)),
            "2s ago  asked (event 7)\n1s ago  allowed by ada\nanswered on the web page, 4 seconds after it was shown"
        );
        assert_eq!(
            answer_origin(Some(HostDoor::Socket), None).as_deref(),
            Some("answered over the Unix socket")
        );
        assert_eq!(answer_origin(None, Some(1)), None);
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
