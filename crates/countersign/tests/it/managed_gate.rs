//! What an agent may do is what was allowed, to the byte: commands in terminals and files through the
//! host, each allow good for one request, everything else an ask of its own.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::scene::{Scene, answer_next, asks, next_ask, rested, terminal, told};
use crate::wire::Wire;

/// Plays an agent that does these steps; its asks are answered one after the other, and there may be
/// no more of them. Gives what each asked for, and what the agent said.
async fn play(scene: &Scene, steps: Value, answers: &[&str]) -> (Vec<Value>, String) {
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let mut asked = Vec::new();
    for answer in answers {
        asked.push(answer_next(&mut wire, answer).await["input"].take());
    }
    let agent = rested(&mut wire, &id).await;
    assert_eq!(agent["state"], "idle", "{agent}");
    let said = told(&mut wire, &id).await;
    let all = wire.ok("host.approvals", json!({ "limit": 500 })).await;
    let by_person = all.as_array().unwrap().iter();
    let by_person = by_person.filter(|ask| ask["resolved_by"]["name"] != "rules");
    assert_eq!(by_person.count(), answers.len(), "{all}");
    scene.end_all(&mut wire).await;
    (asked, said)
}

/// How the rules ended each ask of a scene, oldest first.
async fn by_rules(scene: &Scene) -> Vec<(String, String)> {
    let mut wire = Wire::operator(&scene.host).await;
    let all = wire.ok("host.approvals", json!({ "limit": 500 })).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ended = all.as_array().unwrap().iter().rev();
    ended
        .filter(|ask| ask["resolved_by"]["name"] == "rules")
        .map(|ask| (text(&ask["input"]["command"]), text(&ask["state"])))
        .collect()
}

fn writes(path: &str, content: &str) -> Value {
    json!({ "write": { "path": path, "content": content } })
}

/// A step that asks to write a file, and goes on once it may.
fn asks_to_write(path: &str, content: &str, on_allow: &Value) -> Value {
    json!({ "ask": {
        "tool": { "call": "w1", "title": "Write", "kind": "edit",
                  "input": { "file_path": path, "content": content } },
        "on_allow": on_allow,
    } })
}

#[tokio::test]
async fn an_allowed_command_runs_once_and_its_second_use_is_an_ask_of_its_own() {
    let scene = Scene::begin(&[]);
    let command = scene.adds("once");
    let twice = json!([terminal(&command), terminal(&command)]);
    let steps = json!([asks("a1", &command, &twice)]);
    let (asked, said) = play(&scene, steps, &["approve", "deny"]).await;
    let same = json!({ "command": command });
    assert_eq!(asked, [same.clone(), same]);
    assert_eq!(scene.effects(), ["once"]);
    assert!(said.contains("terminal/create failed"), "{said}");
}

#[tokio::test]
async fn an_allowed_command_with_anything_changed_is_an_ask_of_its_own() {
    let scene = Scene::begin(&[]);
    let command = scene.adds("once");
    let sub = scene.path("sub");
    fs::create_dir(&sub).unwrap();
    let others = json!([
        terminal(&format!("{command} ")),
        { "terminal": { "command": command, "cwd": sub } },
        { "terminal": { "command": command, "env": [["A", "it's 1"]] } },
        { "terminal": { "command": "sh", "args": ["-c", command] } },
    ]);
    let steps = json!([asks("a1", &command, &others)]);
    let (asked, _) = play(&scene, steps, &["approve", "deny", "deny", "deny"]).await;
    let expected = [
        json!({ "command": command }),
        json!({ "command": format!("{command} ") }),
        json!({ "command": command, "cwd": sub }),
        json!({ "command": format!(r"export A='it'\''s 1'; {command}") }),
    ];
    assert_eq!(asked, expected);
    // The last is what was allowed, in other words.
    assert_eq!(scene.effects(), ["once"]);
}

#[tokio::test]
async fn what_was_allowed_in_one_turn_is_asked_again_in_the_next() {
    let scene = Scene::begin(&[]);
    let command = scene.adds("late");
    let mut wire = Wire::subscriber(&scene.host).await;
    let steps = json!([asks("a1", &command, &json!([]))]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    answer_next(&mut wire, "approve").await;
    rested(&mut wire, &id).await;
    let message = crate::managed::script(&json!([terminal(&command)]));
    let params = json!({ "agent_id": id, "message": message });
    wire.ok("host.prompt_agent", params).await;
    answer_next(&mut wire, "deny").await;
    rested(&mut wire, &id).await;
    assert_eq!(scene.effects(), Vec::<String>::new());
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_denied_command_never_runs_and_the_agent_hears_why() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let steps = json!([terminal(&scene.adds("never"))]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let asked = wire.event_of("approval.requested").await;
    let params = json!({
        "approval_id": asked["payload"]["id"], "resolution": "deny", "message": "not on a Friday",
    });
    wire.ok("host.resolve_approval", params).await;
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert!(said.contains("not on a Friday"), "{said}");
    assert_eq!(scene.effects(), Vec::<String>::new());
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn an_allowed_file_is_written_once_and_another_content_is_an_ask_of_its_own() {
    let scene = Scene::begin(&[]);
    let path = scene.path("a.txt");
    let on_allow = json!([
        writes(&path, "other"),
        writes(&path, "text"),
        writes(&path, "text")
    ]);
    let steps = json!([asks_to_write(&path, "text", &on_allow)]);
    let (asked, _) = play(&scene, steps, &["approve", "deny", "deny"]).await;
    let one = |content: &str| json!({ "file_path": path, "content": content });
    assert_eq!(asked, [one("text"), one("other"), one("text")]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
}

#[tokio::test]
async fn an_allowed_file_that_became_a_link_is_an_ask_about_where_it_leads() {
    let scene = Scene::begin(&[]);
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().canonicalize().unwrap().join("target");
    fs::write(&target, "old").unwrap();
    let path = scene.path("a.txt");
    let target = target.to_str().unwrap();
    let swap = json!({ "run": format!("ln -s {target} {path}") });
    let steps = json!([asks_to_write(
        &path,
        "new",
        &json!([swap, writes(&path, "new")])
    )]);
    let (asked, said) = play(&scene, steps, &["approve", "deny"]).await;
    assert_eq!(
        asked[1],
        json!({ "file_path": target, "content": "new" }),
        "{said}"
    );
    assert_eq!(fs::read_to_string(target).unwrap(), "old");
}

#[tokio::test]
async fn a_file_outside_is_asked_about_and_its_allow_is_for_that_file_alone() {
    let scene = Scene::begin(&[]);
    let outside = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let path = outside.path().canonicalize().unwrap().join(name);
        path.to_str().unwrap().to_owned()
    };
    let (one, other) = (at("one"), at("other"));
    let steps = json!([writes(&one, "1"), writes(&other, "2"), { "read": { "path": one } }]);
    let (asked, said) = play(&scene, steps, &["approve", "deny", "approve"]).await;
    let expected = [
        json!({ "file_path": one, "content": "1" }),
        json!({ "file_path": other, "content": "2" }),
        json!({ "file_path": one }),
    ];
    assert_eq!(asked, expected);
    assert_eq!(fs::read_to_string(&one).unwrap(), "1");
    assert!(!fs::exists(&other).unwrap());
    assert!(
        said.contains(r#"fs/read_text_file: {"content":"1"}"#),
        "{said}"
    );
}

#[tokio::test]
async fn a_file_outside_that_is_swapped_while_it_is_asked_about_is_left_alone() {
    let scene = Scene::begin(&[]);
    let outside = tempfile::tempdir().unwrap();
    let outside = outside.path().canonicalize().unwrap();
    let (shown, secret) = (outside.join("shown"), outside.join("secret"));
    fs::write(&secret, "secret").unwrap();
    fs::write(&shown, "plain").unwrap();
    let mut wire = Wire::subscriber(&scene.host).await;
    let path = shown.to_str().unwrap();
    let steps = json!([writes(path, "new"), { "read": { "path": path } }]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let asked = next_ask(&mut wire).await;
    assert_eq!(asked["input"]["file_path"], *path);
    fs::remove_file(&shown).unwrap();
    symlink(&secret, &shown).unwrap();
    let params = json!({ "approval_id": asked["id"], "resolution": "approve" });
    wire.ok("host.resolve_approval", params).await;
    let asked = next_ask(&mut wire).await;
    assert_eq!(asked["input"]["file_path"], *secret.to_str().unwrap());
    let params = json!({ "approval_id": asked["id"], "resolution": "deny" });
    wire.ok("host.resolve_approval", params).await;
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert!(said.contains("fs/write_text_file failed"), "{said}");
    assert!(!said.contains("\"secret\""), "{said}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn reads_are_judged_by_the_rules() {
    let rules = "allow = [\"Read(**/open/**)\"]\ndeny = [\"Read(**/hidden/**)\"]\n";
    let scene = Scene::begin_with_rules(rules);
    for (name, text) in [("open", "OPEN"), ("hidden", "HIDDEN"), ("other", "OTHER")] {
        fs::create_dir(scene.path(name)).unwrap();
        fs::write(scene.path(&format!("{name}/file")), text).unwrap();
    }
    symlink(scene.path("hidden/file"), scene.path("open/link")).unwrap();
    let read = |name: &str| json!({ "read": { "path": scene.path(name) } });
    let steps = json!([
        read("open/file"),
        read("hidden/file"),
        read("open/link"),
        read("other/file")
    ]);
    let (asked, said) = play(&scene, steps, &["deny"]).await;
    assert_eq!(asked, [json!({ "file_path": scene.path("other/file") })]);
    assert!(said.contains("OPEN"), "{said}");
    assert!(
        !said.contains("HIDDEN") && !said.contains("OTHER"),
        "{said}"
    );
}

#[tokio::test]
async fn a_command_that_a_rule_allows_runs_without_a_person_and_leaves_its_trace() {
    let scene = Scene::begin_with_rules("allow = [\"Bash(touch:*)\", \"Edit(**)\"]\n");
    let (asked_for, straight) = ("touch asked".to_owned(), "touch straight");
    let on_allow = json!([terminal(&asked_for)]);
    let steps = json!([asks("a1", &asked_for, &on_allow), terminal(straight)]);
    let (_, said) = play(&scene, steps, &[]).await;
    for name in ["asked", "straight"] {
        assert!(fs::exists(scene.path(name)).unwrap(), "{name}: {said}");
    }
    let allowed = |command: &str| (command.to_owned(), "allowed".to_owned());
    assert_eq!(
        by_rules(&scene).await,
        [allowed(&asked_for), allowed(straight)]
    );
}

#[tokio::test]
async fn a_command_that_a_deny_covers_never_runs_whatever_it_is_wrapped_in() {
    let rules = "allow = [\"Bash\"]\ndeny = [\"Bash(rm:*)\", \"Edit(**/kept/**)\"]\n";
    let scene = Scene::begin_with_rules(rules);
    fs::create_dir(scene.path("kept")).unwrap();
    fs::write(scene.path("kept/file"), "kept").unwrap();
    let wrapped = [
        "rm kept/file",
        "sh -c 'rm kept/file'",
        "env A=1 rm kept/file",
        "timeout 5 nice rm -f kept/file",
        "echo kept/file | xargs rm",
        "true && echo $(rm kept/file)",
        "bash -lc \"bash -c 'rm kept/file'\"",
        "r''m kept/file",
        "\\rm kept/file",
        "if true; then rm kept/file; fi",
        "echo x > kept/file",
    ];
    let mut steps: Vec<Value> = wrapped.iter().map(|command| terminal(command)).collect();
    let asked = wrapped
        .iter()
        .map(|command| asks("a1", command, &json!([{ "run": command }])));
    steps.extend(asked);
    steps.push(json!({ "terminal": { "command": "rm", "args": ["kept/file"] } }));
    steps.push(json!({ "terminal": { "command": "bash", "args": ["-c", "rm kept/file"] } }));
    steps.push(
        json!({ "terminal": { "command": "sh -c 'echo x > file'", "cwd": scene.path("kept") } }),
    );
    let count = steps.len();
    let (_, said) = play(&scene, json!(steps), &[]).await;
    assert_eq!(
        fs::read_to_string(scene.path("kept/file")).unwrap(),
        "kept",
        "{said}"
    );
    let ended = by_rules(&scene).await;
    let denied = ended.iter().filter(|(_, state)| state == "denied");
    assert_eq!(denied.count(), count, "{ended:#?}");
}

#[tokio::test]
async fn what_waits_for_an_answer_is_cancelled_with_its_turn() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let steps = json!([terminal(&scene.adds("never"))]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let asked = wire.event_of("approval.requested").await["payload"]["id"].take();
    wire.ok("host.interrupt_agent", json!({ "agent_id": id }))
        .await;
    let agent = rested(&mut wire, &id).await;
    assert_eq!(agent["state"], "idle", "{agent}");
    let ask = wire
        .ok("host.approval", json!({ "approval_id": asked }))
        .await;
    assert_eq!(ask["state"], "cancelled");
    assert_eq!(scene.effects(), Vec::<String>::new());
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn two_asks_for_one_tool_call_are_both_answered() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let ask = |word: &str| asks("same", &scene.adds(word), &json!([{ "say": word }]))["ask"].take();
    let steps = json!([{ "parallel": [ask("first"), ask("second")] }, { "say": " and went on" }]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    // The first is shown again with what the second says of the call, and then gives way to it.
    for word in ["first", "second", "second"] {
        let asked = wire.event_of("approval.requested").await;
        assert_eq!(asked["payload"]["input"]["command"], scene.adds(word));
    }
    let open = wire
        .ok("host.approvals", json!({ "status": "pending" }))
        .await;
    assert_eq!(open.as_array().unwrap().len(), 1, "{open}");
    let params = json!({ "approval_id": open[0]["id"], "resolution": "approve" });
    wire.ok("host.resolve_approval", params).await;
    let agent = rested(&mut wire, &id).await;
    assert_eq!(agent["state"], "idle", "{agent}");
    let said = told(&mut wire, &id).await;
    assert_eq!(said, "same was cancelledsecond and went on");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn an_id_that_is_used_again_does_not_carry_the_answer_along() {
    let scene = Scene::begin_with_rules("allow = [\"Bash(true:*)\"]\n");
    let mut wire = Wire::subscriber(&scene.host).await;
    let ask = |call: usize, command: &str, on_allow: &Value| {
        let mut ask = asks(&format!("c{call}"), command, on_allow)["ask"].take();
        ask["id"] = json!(7_000);
        ask
    };
    // Of each pair a rule allows the first, and nobody the second.
    let evil = json!([{ "run": scene.adds("evil") }]);
    let pairs = (0..40).flat_map(|pair| {
        [
            ask(2 * pair, "true", &json!([])),
            ask(2 * pair + 1, "evil", &evil),
        ]
    });
    let steps = json!([{ "parallel": pairs.collect::<Vec<_>>() }]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    // Whether it is still open or already cancelled: the pairs before it are over.
    while wire.event_of("approval.requested").await["payload"]["tool_call_id"] != "c79" {}
    // The agent may have taken an answer for the last one too, and then its turn is over by itself.
    wire.reply("host.interrupt_agent", json!({ "agent_id": id }))
        .await;
    wire.event_of("turn.ended").await;
    // An agent may take an answer that was on its way for one to its later request; that is between
    // the two halves of the agent. What the host said of the later one is what counts here.
    let asks = wire.ok("host.approvals", json!({ "limit": 500 })).await;
    let asks = asks.as_array().unwrap().iter();
    let evil = asks.filter(|ask| ask["input"]["command"] == "evil");
    let allowed = evil.filter(|ask| ask["resolution"] == "approve").count();
    assert_eq!(allowed, 0);
    scene.end_all(&mut wire).await;
}
