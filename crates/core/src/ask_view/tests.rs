use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::event::AskAttachment;
use crate::ids::{ApprovalId, PrincipalKey, Timestamp};
use crate::principal::{RecordedActor, Role};

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn ask(tool: &str, input: &str, details: &str) -> Ask {
    Ask {
        id: ApprovalId::new("approval-1"),
        agent: None,
        turn: None,
        tool_call: None,
        action: "Run the tests".to_owned(),
        tool: Some(tool.to_owned()),
        input: Some(json(input)),
        input_digest: None,
        cwd: None,
        verdict: None,
        details: json(details),
        a2ui: None,
        options: Vec::new(),
        approving: Vec::new(),
        request: None,
        takes_denial_message: false,
        can_edit: false,
        passes: Vec::new(),
        repeats: None,
        sandbox: None,
        by: RecordedActor {
            key: PrincipalKey::new("k"),
            name: Arc::from("ada"),
            role: Role::Operator,
        },
        client: None,
        attachment: AskAttachment::None,
        idempotency_key: None,
        request_digest: None,
        asked_at: Timestamp(0),
        deadline: None,
    }
}

fn view(ask: &Ask) -> AskView {
    AskView::new(ask, &ask.choice_questions(), None)
}

fn bash(input: &str) -> Ask {
    ask("Bash", input, "null")
}

fn edit(input: &str, details: &str) -> AskView {
    view(&ask("Edit", input, details))
}

/// The edits as a unified diff.
fn diff(view: &AskView) -> String {
    let mut text = String::new();
    for edit in &view.edits {
        let _ = writeln!(text, "{} {:?}", edit.path, edit.note);
        for line in edit.hunks.iter().flat_map(|hunk| &hunk.lines) {
            let _ = writeln!(text, "{}{}", line.kind.mark(), line.text);
        }
    }
    text
}

#[test]
fn what_will_run_comes_from_the_input_and_every_member_is_shown_once() {
    let input = r#"{"command":"cargo test\n\u202e","timeout":5.0}"#;
    assert_eq!(
        view(&bash(input)),
        AskView {
            summary: r"Bash: cargo test\n\u{202e}".to_owned(),
            command: Some("cargo test\n\\u{202e}".to_owned()),
            edits: Vec::new(),
            input_text: Some(
                "{\n  \"command\": \"cargo test\\n\\u202e\",\n  \"timeout\": 5.0\n}".to_owned()
            ),
            rest_text: Some("timeout: 5.0".to_owned()),
            title: Some("Run the tests".to_owned()),
            details_text: None,
            warnings: vec!["1 invisible character is shown as an escape".to_owned()],
            editable: true,
            edited_summary: None,
            edited_text: None,
        }
    );
    let other = view(&ask("Fetch", r#"{"uri":"x"}"#, "null"));
    assert_eq!(
        (other.rest_text.as_deref(), other.input_text, other.command),
        (Some("{\n  \"uri\": \"x\"\n}"), None, None)
    );
}

#[test]
fn nothing_is_picked_from_an_input_with_a_repeated_key() {
    let twice = view(&bash(r#"{"command":"ls","command":"rm"}"#));
    assert_eq!(twice.summary, r#"Bash: {"command":"ls","command":"rm"}"#);
    assert_eq!(twice.command, None);
    assert_eq!(
        twice.rest_text.as_deref(),
        Some("{\n  \"command\": \"ls\",\n  \"command\": \"rm\"\n}")
    );
    assert_eq!(
        twice.warnings,
        ["the input repeats the key `command`: what runs may differ from what is shown"]
    );
    let twice = edit(r#"{"file_path":"/a","content":"x","content":"y"}"#, "null");
    assert_eq!(twice.edits, []);
}

#[test]
fn an_ask_without_an_input_is_known_by_its_agents_words() {
    let words = Ask {
        input: None,
        ..bash("{}")
    };
    assert_eq!(
        view(&words),
        AskView {
            summary: "Bash (unparsed): Run the tests".to_owned(),
            title: Some("Run the tests".to_owned()),
            ..AskView::default()
        }
    );
}

#[test]
fn words_that_repeat_the_input_are_no_title() {
    let repeated = Ask {
        action: "cargo test".to_owned(),
        ..bash(r#"{"command":"cargo test -p x"}"#)
    };
    assert_eq!(view(&repeated).title, None);
}

#[test]
fn an_agent_to_be_started_is_told_in_words_unless_there_is_more_to_it() {
    let summary = |input: &str| view(&ask(SPAWN_TOOL, input, "null")).summary;
    assert_eq!(
        summary(r#"{"agent":"codex","name":"fixer","prompt":"Fix it"}"#),
        format!("{SPAWN_TOOL}: codex, as fixer: Fix it")
    );
    assert_eq!(
        summary(r#"{"agent":"codex","env":{"A":"b"}}"#),
        format!(r#"{SPAWN_TOOL}: {{"agent":"codex","env":{{"A":"b"}}}}"#)
    );
}

#[test]
fn an_edit_is_shown_from_the_input_and_not_from_the_story() {
    let story = r#"{"diffs":[{"path":"/p/other","newText":"harmless"}]}"#;
    let input =
        r#"{"file_path":"/p/a","path":"/b","old_string":"x\ny\nz","new_string":"x\nY\u202e\nz"}"#;
    let shown = edit(input, story);
    assert_eq!(diff(&shown), "/p/a None\n x\n-y\n+Y\\u{202e}\n z\n");
    assert_eq!((shown.edits[0].added(), shown.edits[0].removed()), (1, 1));
    assert_eq!(shown.rest_text.as_deref(), Some(r#"path: "/b""#));
    assert_eq!(
        shown.warnings,
        ["1 invisible character is shown as an escape"]
    );
    let whole = edit(r#"{"file_path":"/p/new","content":"1\n2\n"}"#, "null");
    assert_eq!(diff(&whole), "/p/new Some(WholeFile)\n+1\n+2\n");
    assert_eq!(whole.rest_text, None);
}

#[test]
fn what_an_agent_shows_is_used_where_the_input_says_nothing_and_marked() {
    let details = r#"{"diffs":[{"path":"/p/a","oldText":"1\n2\n","newText":"1\n3\n"}]}"#;
    let shown = edit(r#"{"file_path":"/p/a"}"#, details);
    assert_eq!(diff(&shown), "/p/a Some(AgentCopy)\n 1\n-2\n+3\n");
    // No member of the input is shown by it.
    assert_eq!(
        shown.rest_text.as_deref(),
        Some("{\n  \"file_path\": \"/p/a\"\n}")
    );
    let same = edit(r#"{"path":"/p/a","content":"1\n3\n"}"#, details);
    assert_eq!(diff(&same), "/p/a Some(AgentCopy)\n 1\n-2\n+3\n");
    assert_eq!(edit(r#"{"command":"ls"}"#, "null").edits, []);
}

#[test]
fn a_copy_of_the_input_is_not_shown_twice_and_another_is() {
    let details = |text: &str| {
        let ask = ask("Bash", r#"{"command":"ls"}"#, text);
        view(&ask).details_text.unwrap()
    };
    assert_eq!(
        details(r#"{"kind":"execute","rawInput":{ "command" : "ls" }}"#),
        r#"kind: "execute""#
    );
    assert_eq!(
        details(r#"{"rawInput":{"command":"rm"}}"#),
        "{\n  \"rawInput\": {\n    \"command\": \"rm\"\n  }\n}"
    );
}

#[test]
fn everything_unusual_is_a_warning() {
    let odd = Ask {
        repeats: Some(ApprovalId::new("approval-0")),
        action: "a\u{200b}".to_owned(),
        ..ask("Bash", r#"{"a":1,"a":2}"#, r#"{"doubt":"not its input"}"#)
    };
    assert_eq!(
        view(&odd).warnings,
        [
            "this may already have run: approval-0 allowed exactly the same, and its result is unknown",
            "the input repeats the key `a`: what runs may differ from what is shown",
            "1 invisible character is shown as an escape",
            "not its input",
        ]
    );
}

#[test]
fn an_invisible_character_that_is_repeated_counts_once() {
    let repeated = Ask {
        action: "Run ls \u{200b}\u{200c}".to_owned(),
        ..ask(
            "Bash",
            r#"{"command":"ls \u200b\u200c"}"#,
            r#"{"rawInput":{"command":"ls \u200b\u200c"}}"#,
        )
    };
    assert_eq!(
        view(&repeated).warnings,
        ["2 invisible characters are shown as escapes"]
    );
}

#[test]
fn only_an_input_that_would_be_passed_on_is_editable() {
    let managed = Ask {
        request: Some("7".to_owned()),
        ..bash("{}")
    };
    let can_edit = Ask {
        can_edit: true,
        ..managed.clone()
    };
    let no_input = Ask {
        input: None,
        ..bash("{}")
    };
    let editable = [&bash("{}"), &managed, &can_edit, &no_input].map(|ask| view(ask).editable);
    assert_eq!(editable, [true, false, true, false]);
}

#[test]
fn another_input_is_shown_beside_the_one_that_was_asked() {
    let asked = bash(r#"{"command":"cargo test"}"#);
    let edited = json(r#"{"command":"cargo test -p core"}"#);
    let shown = AskView::new(&asked, &[], Some(&edited));
    assert_eq!(
        (
            shown.edited_summary.as_deref(),
            shown.edited_text.as_deref()
        ),
        (
            Some("Bash: cargo test -p core"),
            Some("{\n  \"command\": \"cargo test -p core\"\n}")
        )
    );
}

#[test]
fn what_a_list_shows_does_not_grow_with_the_ask() {
    let long = "x".repeat(100_000);
    let details = format!(r#"{{"doubt":"{long}"}}"#);
    let asked = ask(
        "Write",
        &format!(r#"{{"file_path":"{long}","content":"{long}"}}"#),
        &details,
    );
    let short = AskView::short(&asked, &[], None);
    let cut = |text: &str| format!("{}…", &text[..SUMMARY_BYTES_MAX]);
    assert_eq!(
        short,
        AskView {
            summary: cut(&format!("Write: {long}")),
            warnings: vec![cut(&long)],
            editable: true,
            ..AskView::default()
        }
    );
    let whole = view(&asked);
    assert_eq!(
        (whole.summary, whole.warnings),
        (short.summary, short.warnings)
    );
}
