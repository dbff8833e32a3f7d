//! Asks in the editor: allowed, denied, answered elsewhere, and answered by nobody.

use serde_json::{Value, json};

use super::client::Editor;
use crate::scene::{Scene, asks};
use crate::wire::Wire;

/// The names of the options that a request offers.
fn option_ids(request: &Value) -> Vec<&str> {
    let options = request["params"]["options"].as_array().unwrap();
    let ids = options.iter().map(|option| option["optionId"].as_str());
    ids.map(Option::unwrap).collect()
}

fn ask_steps(command: &str) -> Value {
    json!([asks("c1", command, &json!([{ "say": "it ran" }]))])
}

#[test]
fn an_ask_is_shown_with_its_verdict_and_an_allow_reaches_the_agent() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &ask_steps("make all"));
    let request = editor.asked("session/request_permission");
    let params = &request["params"];
    assert_eq!(params["sessionId"], session.as_str());
    assert_eq!(params["toolCall"]["title"], "Bash: make all");
    assert_eq!(params["toolCall"]["rawInput"]["command"], "make all");
    let text = params["toolCall"]["content"][0]["content"]["text"].as_str();
    let text = text.unwrap();
    assert!(text.contains("command: make all"), "{text}");
    assert!(text.contains("ask    make all  <- no rule"), "{text}");
    let offered = ["allow-once", "allow-session", "allow-remember", "deny"];
    assert_eq!(option_ids(&request), offered);
    editor.choose(&request, "allow-once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "it ran");
}

#[test]
fn a_denial_reaches_the_agent() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &ask_steps("make all"));
    let request = editor.asked("session/request_permission");
    editor.choose_at_once(&request, "deny");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "c1 was denied");
}

#[tokio::test]
async fn an_ask_answered_elsewhere_is_cancelled_in_the_editor_with_who_answered() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &ask_steps("make all"));
    let request = editor.asked("session/request_permission");
    let open = wire
        .ok("host.approvals", json!({ "status": "pending" }))
        .await;
    let params = json!({ "approval_id": open[0]["id"], "resolution": "approve" });
    wire.ok("host.resolve_approval", params).await;
    let cancelled = editor.told("$/cancel_request");
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    let note = editor.take("who answered", |message| {
        message["params"]["update"]
            .to_string()
            .contains("allowed by ")
    });
    assert_eq!(note["params"]["update"]["toolCallId"], "c1");
    // Too late, and harmless.
    editor.choose(&request, "deny");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "it ran");
}

#[tokio::test]
async fn an_automatic_allow_does_not_count_and_the_ask_stays() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &ask_steps("make all"));
    let request = editor.asked("session/request_permission");
    editor.choose_at_once(&request, "allow-once");
    let note = editor.take("why it did not count", |message| {
        message
            .to_string()
            .contains("automatic answer of the editor was not taken")
    });
    assert!(note.to_string().contains("countersign approve"), "{note}");
    let told = editor.update("agent_thought_chunk")["content"]["text"].to_string();
    assert!(told.contains("automatic = "), "{told}");
    let recorded = wire.event_of("editor.answer_refused").await;
    assert_eq!(recorded["agent_id"], session.as_str());
    let open = wire
        .ok("host.approvals", json!({ "status": "pending" }))
        .await;
    let params = json!({ "approval_id": open[0]["id"], "resolution": "approve" });
    wire.ok("host.resolve_approval", params).await;
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "it ran");
}

#[test]
fn what_the_floor_protects_cannot_be_allowed_in_an_editor() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    editor.prompt(&session, &ask_steps("echo x > .git/config"));
    let request = editor.asked("session/request_permission");
    assert_eq!(option_ids(&request), ["deny"]);
    let content = request["params"]["toolCall"]["content"].to_string();
    assert!(content.contains("countersign approve"), "{content}");
}

/// Text that changes what is seen of it: direction, an escape of terminals, an invisible character, an end of line.
const HOSTILE: &str = "a\u{202e}b\u{1b}[2Jc\u{200b}d\ne ```";

/// The same, made visible.
const ESCAPED: &str = "a\\u{202e}b\\u{1b}[2Jc\\u{200b}d\\ne ```";

#[test]
fn hostile_text_is_visible_in_titles_options_plans_and_lists() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let command = format!("make '{HOSTILE}'");
    let info = json!({ "sessionUpdate": "session_info_update", "title": HOSTILE });
    let ask = json!({ "ask": { "tool": { "call": "c1", "title": HOSTILE, "kind": "execute", "name": "Bash",
        "input": { "command": command } } } });
    let call = json!({ "tool": { "call": "c2", "title": HOSTILE, "ends": "completed" } });
    let steps = json!([{ "update": info }, { "plan": [[HOSTILE, "pending"]] }, call, ask]);
    editor.prompt(&session, &steps);
    let request = editor.asked("session/request_permission");
    let title = request["params"]["toolCall"]["title"].as_str().unwrap();
    assert!(title.contains(ESCAPED), "{title}");
    for option in request["params"]["options"].as_array().unwrap() {
        assert_eq!(find_hidden(&option["name"]), None, "{option}");
    }
    let explained = &request["params"]["toolCall"]["content"][0]["content"]["text"];
    let explained = explained.as_str().unwrap();
    // In a fence that is longer than the one in the text; only the lines of the explanation end.
    assert!(explained.starts_with("````\n"), "{explained}");
    assert_eq!(find_hidden(&json!(explained.replace('\n', ""))), None);
    assert_eq!(editor.update("plan")["entries"][0]["content"], ESCAPED);
    let call = editor.take("the call", |message| {
        message["params"]["update"]["toolCallId"] == "c2"
    });
    assert_eq!(call["params"]["update"]["title"], ESCAPED);
    let info = editor.take("the title", |message| {
        let title = message["params"]["update"]["title"].as_str();
        title.is_some_and(|title| title.starts_with('a'))
    });
    assert_eq!(info["params"]["update"]["title"], ESCAPED);
    let listed = editor.ok("session/list", &json!({}));
    let title = listed["sessions"][0]["title"].as_str().unwrap();
    assert!(title.ends_with(ESCAPED), "{title}");
}

/// The first character of a text that is not seen.
fn find_hidden(text: &Value) -> Option<char> {
    let mut characters = text.as_str().unwrap().chars();
    characters.find(|c| c.is_control() || "\u{202e}\u{200b}".contains(*c))
}

#[test]
fn what_a_rule_settles_is_not_asked_and_says_which() {
    let scene = Scene::begin_with_rules("allow = [\"Bash(make:*)\"]\n");
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &ask_steps("make all"));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "it ran");
    assert!(
        editor
            .rest()
            .all(|message| message["method"] != "session/request_permission")
    );
    let note = editor.take("the rule", |message| {
        message
            .to_string()
            .contains("allowed by rules.toml:1 Bash(make:*)")
    });
    assert_eq!(note["params"]["update"]["toolCallId"], "c1");
}

#[test]
fn a_rule_that_is_remembered_settles_the_next_ask() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &ask_steps("make all"));
    let request = editor.asked("session/request_permission");
    editor.choose(&request, "allow-session");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let prompt = editor.prompt(&session, &ask_steps("make all"));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "it ranit ran");
}

#[test]
fn a_change_of_a_file_is_shown_as_a_diff() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let path = scene.path("a.txt");
    let input = json!({ "file_path": path, "old_string": "one", "new_string": "two" });
    let ask = json!([{ "ask": { "tool": { "call": "c1", "title": "Edit", "kind": "edit", "name": "Edit",
        "input": input, "locations": [path] } } }]);
    editor.prompt(&session, &ask);
    let request = editor.asked("session/request_permission");
    let content = request["params"]["toolCall"]["content"].as_array().unwrap();
    let diff = content.iter().find(|part| part["type"] == "diff");
    let diff = diff.unwrap_or_else(|| panic!("{request}"));
    assert_eq!(
        (&diff["oldText"], &diff["newText"]),
        (&json!("one\n"), &json!("two\n"))
    );
    assert_eq!(diff["path"], path.as_str());
}
