use super::*;

fn ours() -> HookSpec {
    HookSpec {
        program: "/opt/bin/countersign".to_owned(),
        timeout: 615,
    }
}

fn installed(text: &str) -> String {
    install(Some(text), &ours()).unwrap()
}

#[test]
fn what_was_there_stays_to_the_byte_and_comes_back() {
    let files = [
        "{}",
        "{ }",
        "{}\n",
        "{\n}\n",
        "{\"model\":\"opus\"}",
        "{ \"model\" : \"opus\" }\n",
        "{\n  \"hooks\": {}\n}\n",
        "{\n  \"hooks\": { \n }\n}\n",
        "{\n\t\"b\": [1,\n2],\n\t\"hooks\": {\n\t\t\"Stop\": []\n\t},\n\t\"a\": \"\\u0041\"\n}",
        "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"Bash\",\"hooks\":[{\"type\":\"command\",\"command\":\"lint\"}]}]}}",
        "{\r\n    \"z\": 1,\r\n    \"hooks\": {\r\n        \"PreToolUse\": [ ],\r\n        \"Other\": 1\r\n    }\r\n}\r\n",
        "\n\n{\"hooks\":{\"Stop\":[],\"PreToolUse\":[ ]}}  ",
    ];
    for file in files {
        let with = installed(file);
        assert_ne!(with, file);
        assert!(is_installed(&with, &ours()).unwrap(), "{with}");
        assert_eq!(installed(&with), with, "{with}");
        assert_eq!(uninstall(&with).unwrap().as_deref(), Some(file), "{with}");
        assert_eq!(uninstall(file).unwrap().as_deref(), Some(file));
        let kept = |text: &str| {
            let mut value: Value = serde_json::from_str(text).unwrap();
            value.as_object_mut().unwrap().remove("hooks");
            value
        };
        assert_eq!(kept(&with), kept(file));
    }
}

#[test]
fn a_file_that_was_made_goes_again() {
    let made = install(None, &ours()).unwrap();
    assert_eq!(uninstall(&made).unwrap(), None);
    assert_eq!(installed(&made), made);
    let document: Value = serde_json::from_str(&made).unwrap();
    let command = |timeout: u64, rest: &str| {
        let command = format!("/opt/bin/countersign hook claude --timeout {timeout}{rest}");
        json!([{ "type": "command", "command": command, "timeout": timeout }])
    };
    let mut hooks = command(615, " || exit 2");
    hooks[0]["statusMessage"] = STATUS_MESSAGE.into();
    let deciding = json!([{ "matcher": "*", "hooks": hooks }]);
    let telling = json!([{ "hooks": command(10, "") }]);
    let expected = json!({ "hooks": {
        "PreToolUse": deciding, "PermissionRequest": deciding,
        "Notification": telling, "Stop": telling, "SessionStart": telling, "SessionEnd": telling,
    } });
    assert_eq!(document, expected);
    assert!(
        made.starts_with("{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \""),
        "{made}"
    );
}

#[test]
fn another_limit_replaces_ours_and_touches_nobody_elses() {
    let file = "{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"bell\"}]}\n    ]\n  }\n}\n";
    let with = installed(file);
    let longer = HookSpec {
        timeout: 1205,
        ..ours()
    };
    let again = install(Some(&with), &longer).unwrap();
    assert_eq!(again, install(Some(file), &longer).unwrap());
    assert_eq!(uninstall(&again).unwrap().as_deref(), Some(file));
}

#[test]
fn what_others_added_meanwhile_stays() {
    let with = installed("{}");
    let changed = with.replacen("{\"hooks\": {", "{\"model\": \"opus\", \"hooks\": {", 1);
    assert_ne!(changed, with);
    let left = uninstall(&changed).unwrap().unwrap();
    let value: Value = serde_json::from_str(&left).unwrap();
    assert_eq!(value, json!({ "model": "opus" }));
    let shared = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"bell"},{"type":"command","command":"countersign hook claude"}]}]}}"#;
    let left = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"bell"}]}]}}"#;
    assert_eq!(uninstall(shared).unwrap().as_deref(), Some(left));
}

#[test]
fn what_is_not_understood_is_refused() {
    let refused = [
        ("", "is not JSON"),
        ("{\"a\":1,}", "is not JSON"),
        ("// mine\n{}", "is not JSON"),
        ("{\"a\": 1 /* x */}", "is not JSON"),
        ("\u{feff}{}", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{\"hooks\": []}", "has `hooks` that is not an object"),
        ("{\"hooks\": null}", "has `hooks` that is not an object"),
        (
            "{\"hooks\": {\"PreToolUse\": {}}}",
            "has `hooks.PreToolUse` that is not a list",
        ),
        (
            "{\"hooks\": {}, \"hooks\": {}}",
            "has a repeated key in settings",
        ),
    ];
    for (text, problem) in refused {
        let said = install(Some(text), &ours()).unwrap_err();
        assert!(said.starts_with(problem), "{text}: {said}");
    }
}

#[test]
fn our_command_is_known_however_it_is_quoted() {
    for line in [
        "countersign hook claude",
        "/opt/bin/countersign hook claude --timeout 615 || exit 2",
        "'/opt/my bin/countersign' hook claude --timeout 5",
    ] {
        assert!(is_our_command(line), "{line}");
    }
    for line in [
        "countersign hook install claude",
        "echo countersign hook claude",
        "countersign-old hook claude",
        "'",
        "",
    ] {
        assert!(!is_our_command(line), "{line}");
    }
}
