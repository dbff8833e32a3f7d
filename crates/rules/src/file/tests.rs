use super::*;

fn read(text: &str) -> Result<Vec<String>, String> {
    parse_file(text, "rules.toml", FileKind::User)
        .map(|file| file.entries.iter().map(shown).collect())
        .map_err(|problems| problems.to_string())
}

fn shown(entry: &RuleEntry) -> String {
    let line = entry.origin.line.unwrap_or_default();
    let effect = entry.effect.as_str();
    let mut text = format!("{line} {effect} {}", entry.rule.text());
    for (name, value) in [("agent", &entry.agent), ("reason", &entry.reason)] {
        if let Some(value) = value {
            text.extend([" ", name, "=", value]);
        }
    }
    text
}

#[test]
fn short_and_long_rules_keep_their_lines() {
    let text = r#"
allow = [
  "Bash(cargo test:*)",
  "Read(./src/**)",
]
deny = ["Read(./.env)"]

[[rule]]
ask = "Bash(git push:*)"
agent = "claude"
reason = "people look first"
"#;
    assert_eq!(
        read(text),
        Ok(vec![
            "3 allow Bash(cargo test:*)".into(),
            "4 allow Read(./src/**)".into(),
            "6 deny Read(./.env)".into(),
            "9 ask Bash(git push:*) agent=claude reason=people look first".into(),
        ])
    );
}

#[test]
fn an_empty_file_has_no_rules() {
    assert_eq!(read(""), Ok(vec![]));
}

#[test]
fn a_misspelt_key_is_a_problem_with_its_line() {
    assert_eq!(
        read("allow = []\ndney = [\"Bash(rm:*)\"]\n"),
        Err("rules.toml:2: unknown key `dney`; known are allow, ask, deny, rule, folder, worktree, sandbox, others".into())
    );
    assert_eq!(
        read("[[rule]]\ndeny = \"Bash(rm:*)\"\nreson = \"no\"\n"),
        Err(
            "rules.toml:3: unknown key `reson`; known are allow, ask, deny, reason, agent, examples"
                .into()
        )
    );
}

#[test]
fn every_problem_is_named_in_the_order_of_lines() {
    let text = "deny = [\"\", 3]\nask = \"Bash\"\n[[rule]]\nreason = 1\n";
    assert_eq!(
        read(text),
        Err("rules.toml:1: ``: the rule is empty\n\
             rules.toml:1: a rule must be a string, not a number\n\
             rules.toml:2: `ask` must be a list of rules\n\
             rules.toml:3: a rule needs one of `allow`, `ask` and `deny`\n\
             rules.toml:4: `reason` must be a text, not a number"
            .into())
    );
}

#[test]
fn a_text_that_is_no_toml_names_the_line() {
    let problems = parse_file("allow = [\n\"a\"\ndeny = 1\n", "rules.toml", FileKind::User);
    let lines: Vec<_> = problems
        .unwrap_err()
        .problems
        .iter()
        .map(|problem| problem.line)
        .collect();
    assert!(
        lines.iter().all(|line| matches!(line, Some(1..=4))),
        "{lines:?}"
    );
}

#[test]
fn a_rule_cannot_say_two_things() {
    assert_eq!(
        read("[[rule]]\nallow = \"Bash(ls)\"\ndeny = \"Bash(rm)\"\n"),
        Err("rules.toml:1: a rule needs one of `allow`, `ask` and `deny`".into())
    );
}

#[test]
fn a_sandbox_is_no_place_for_rules_about_other_tools() {
    let text = "[sandbox]\nallow = [\"Bash\", \"mcp__github__get_issue\", \"Write(./x)\"]\n";
    let file = parse_file(text, "rules.toml", FileKind::User).unwrap();
    let rules: Vec<_> = file
        .entries
        .iter()
        .map(|entry| (entry.area, entry.rule.text()))
        .collect();
    assert_eq!(rules, [(RuleArea::Sandbox, "Bash")]);
    let expected = ["Write(./x)", "mcp__github__get_issue"].map(|rule| {
        format!(
            "`{rule}` does not count: [sandbox] is for rules about commands: Bash, Read and Edit"
        )
    });
    let warnings = file.warnings.iter().map(|warning| warning.message.clone());
    assert_eq!(warnings.collect::<Vec<_>>(), expected);
}

#[test]
fn an_allow_that_is_not_understood_is_left_out_with_a_warning() {
    let file = parse_file(
        "allow = [\"Bash(ls)\", \" \"]",
        "rules.toml",
        FileKind::User,
    )
    .unwrap();
    assert_eq!(
        (
            file.entries.iter().map(shown).collect::<Vec<_>>(),
            file.warnings
        ),
        (
            vec!["1 allow Bash(ls)".to_owned()],
            vec![FileProblem {
                line: Some(1),
                message: "` ` does not count: the rule is empty".into()
            }]
        )
    );
}

#[test]
fn others_are_the_users_choice() {
    let text = "[others]\nclaude = true\nopencode = false\n";
    let file = parse_file(text, "rules.toml", FileKind::User).unwrap();
    assert_eq!(
        file.others,
        ForeignSwitches {
            claude: true,
            ..ForeignSwitches::default()
        }
    );
    let refused = parse_file(text, "p/rules.toml", FileKind::Project).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "p/rules.toml:1: `others` belongs into the user's own file"
    );
    assert_eq!(
        read("[others]\nclade = true\n"),
        Err(
            "rules.toml:2: unknown key `clade`; known are claude, opencode, codex, gemini, goose"
                .into()
        )
    );
}

#[test]
fn a_rule_is_held_to_its_examples() {
    let rule = |effect: &str, rule: &str, matching: &str, other: &str| {
        read(&format!(
            "[[rule]]\n{effect} = \"{rule}\"\nexamples = {{ match = [\"{matching}\"], no_match = [\"{other}\"] }}\n"
        ))
    };
    let taken = |text: &str| Ok(vec![format!("2 {text}")]);
    assert_eq!(
        rule("deny", "Bash(curl:*)", "sudo curl x", "ls"),
        taken("deny Bash(curl:*)")
    );
    assert_eq!(
        rule("allow", "Read(./src/**)", "src/a.rs", "../b"),
        taken("allow Read(./src/**)")
    );
    assert_eq!(
        rule(
            "ask",
            "WebFetch(domain:docs.rs)",
            "https://docs.rs/x",
            "https://x.rs"
        ),
        taken("ask WebFetch(domain:docs.rs)")
    );
    assert_eq!(
        rule("deny", "Bash(curl:*)", "wget x", "ls"),
        Err("rules.toml:2: `Bash(curl:*)`: it does not match its example `wget x`".into())
    );
    assert_eq!(
        rule("deny", "Bash(git push:*)", "git push", "git push x"),
        Err("rules.toml:2: `Bash(git push:*)`: it matches `git push x`, and should not".into())
    );
    assert_eq!(rule("allow", "Bash(ls:*)", "ls; rm x", "rm"), Ok(vec![]));
}

#[test]
fn rules_that_likely_do_not_say_what_was_meant_are_pointed_out() {
    let text = "allow = [\n\"Bash(git * push)\",\n\"Bash(python3:*)\",\n\"Bash(cd x && ls)\"]\n";
    let file = parse_file(text, "rules.toml", FileKind::User).unwrap();
    let warned: Vec<_> = file.warnings.iter().map(|found| found.line).collect();
    assert_eq!(warned, [Some(2), Some(3), Some(4)]);
}

#[test]
fn the_example_is_read_without_a_word() {
    let text = include_str!("../../../../examples/rules.toml");
    let file = parse_file(text, "rules.toml", FileKind::User).unwrap();
    assert_eq!((file.entries.len(), file.warnings), (18, vec![]));
}

#[test]
fn a_reason_is_no_book() {
    let text = format!(
        "[[rule]]\nask = \"Bash\"\nreason = \"{}\"\n",
        "x".repeat(2_000)
    );
    assert_eq!(
        read(&text),
        Err("rules.toml:1: `reason` is longer than 1024 bytes".into())
    );
}
