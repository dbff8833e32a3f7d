use super::*;
use crate::assess::{Assessment, assess};
use crate::facts::NoFacts;
use crate::floor::Floor;
use crate::judge::{LayerAllows, LayerView, judge};
use crate::request::{RequestPlace, ToolAction, ToolRequest};
use crate::ruleset::RuleSet;

fn file<'a>(source: &'a str, scope: ForeignScope, text: &'a str) -> ForeignFile<'a> {
    ForeignFile {
        source,
        scope,
        text,
    }
}

fn user(tool: ForeignTool, text: &str) -> ForeignPolicy {
    read_foreign(tool, &[file("f", ForeignScope::User, text)])
}

/// Rules with rank and line, then what stands for more than it was, then what was not carried.
fn shown(policy: &ForeignPolicy) -> Vec<String> {
    let entry = |mark: &str, entry: &RuleEntry| {
        let line = entry.origin.line.unwrap_or_default();
        let effect = entry.effect.as_str();
        let text = entry.rule.text();
        format!("{mark}{line} {effect} {text} @{}", entry.rank)
    };
    let dropped = |found: &DroppedRule| {
        let line = found.line.unwrap_or_default();
        let strict = if found.strict { "!" } else { "" };
        format!("-{line} {strict}{}: {}", found.text, found.reason)
    };
    let mut lines: Vec<String> = policy.entries.iter().map(|e| entry("", e)).collect();
    lines.extend(policy.widened.iter().map(|e| entry("+", e)));
    lines.extend(policy.dropped.iter().map(dropped));
    lines.extend(policy.broken.iter().map(|why| format!("broken {why}")));
    lines
}

fn set(entries: &[RuleEntry]) -> RuleSet {
    let mut rules = RuleSet::default();
    for entry in entries {
        rules.insert(entry.clone());
    }
    rules
}

/// What a policy alone says of a command.
fn says(policy: &ForeignPolicy, command: &str) -> Effect {
    says_of(policy, &assessed(command))
}

fn says_of(policy: &ForeignPolicy, assessed: &Assessment) -> Effect {
    let (ranked, widened) = (set(&policy.entries), set(&policy.widened));
    let allows = policy
        .broken
        .clone()
        .map_or(LayerAllows::Count, LayerAllows::Suspended);
    let layer = |rules| LayerView {
        rules,
        admits: &|_| true,
        allows: &allows,
    };
    judge(
        assessed,
        &Floor::default(),
        &[layer(&ranked), layer(&widened)],
    )
    .effect
}

fn assessed(command: &str) -> Assessment {
    let request = ToolRequest {
        tool: "Bash".into(),
        action: ToolAction::Shell {
            command: command.into(),
        },
        place: RequestPlace {
            cwd: "/p".into(),
            project: "/p".into(),
            home: "/h".into(),
            ignores_case: false,
            in_sandbox: false,
        },
    };
    assess(&request, &NoFacts)
}

mod claude {
    use super::*;

    #[test]
    fn rules_stand_as_they_are_over_all_files() {
        let user = r#"{"model": "x", "permissions": {
            "allow": ["Bash(npm test:*)", "Read(./src/**)"],
            "defaultMode": "default"
        }}"#;
        let project = "{\"permissions\": {\n\"deny\": [\"Bash(npm test --watch:*)\"],\n\"ask\": [\"WebFetch\"]}}";
        let policy = read_foreign(
            ForeignTool::Claude,
            &[
                file("u", ForeignScope::User, user),
                file("p", ForeignScope::Project, project),
            ],
        );
        assert_eq!(
            shown(&policy),
            [
                "2 allow Bash(npm test:*) @0",
                "2 allow Read(./src/**) @0",
                "2 deny Bash(npm test --watch:*) @0",
                "3 ask WebFetch @0",
            ]
        );
        assert_eq!(says(&policy, "npm test x"), Effect::Allow);
        assert_eq!(says(&policy, "npm test --watch"), Effect::Deny);
    }

    #[test]
    fn what_loosens_without_a_rule_is_left_out() {
        let text = r#"{"permissions": {
            "allow": ["Write(docs/**)", "mcp__*", "Nope(x)"],
            "additionalDirectories": ["../x"],
            "defaultMode": "bypassPermissions"
        }}"#;
        assert_eq!(
            shown(&user(ForeignTool::Claude, text)),
            [
                "-2 Write(docs/**): left out: Claude Code reads paths in `Read` and `Edit` rules only",
                "-2 mcp__*: left out: an allow must name the server literally, as in `mcp__server__*`",
                "-2 Nope(x): left out: `Nope` takes no pattern",
                "-3 additionalDirectories: left out: reading there asks",
                "-4 defaultMode = bypassPermissions: left out: what no rule allows is asked",
            ]
        );
    }

    #[test]
    fn a_deny_that_we_cannot_say_asks_for_the_whole_tool() {
        let text = r#"{"permissions": {"deny": ["Task(x)"]}}"#;
        assert_eq!(
            shown(&user(ForeignTool::Claude, text)),
            [
                "+1 ask Task @0",
                "-1 !Task(x): asks for all of `Task`: `Task` takes no pattern",
            ]
        );
        let text = r#"{"permissions": {"deny": ["("]}}"#;
        let policy = user(ForeignTool::Claude, text);
        assert!(policy.broken.is_some(), "{policy:?}");
    }

    #[test]
    fn stricter_modes_ask() {
        let text = r#"{"permissions": {"allow": ["Bash(ls)"], "defaultMode": "plan"}}"#;
        assert_eq!(says(&user(ForeignTool::Claude, text), "ls"), Effect::Ask);
        let text = r#"{"permissions": {"allow": ["Bash(ls)"], "defaultMode": "dontAsk"}}"#;
        assert_eq!(says(&user(ForeignTool::Claude, text), "ls"), Effect::Allow);
    }

    #[test]
    fn an_administrator_can_keep_others_from_loosening() {
        let managed =
            r#"{"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Bash(a)"]}}"#;
        let own = r#"{"permissions": {"allow": ["Bash(b)"], "deny": ["Bash(c)"]}}"#;
        let policy = read_foreign(
            ForeignTool::Claude,
            &[
                file("u", ForeignScope::User, own),
                file("m", ForeignScope::Managed, managed),
            ],
        );
        assert_eq!(
            shown(&policy),
            [
                "1 deny Bash(c) @0",
                "1 allow Bash(a) @0",
                "-1 Bash(b): left out: an administrator allows only managed rules",
            ]
        );
    }

    #[test]
    fn a_file_that_is_no_json_suspends() {
        for text in [
            "{",
            "[]",
            "{\"permissions\": 1}",
            "{\"permissions\": {\"deny\": \"x\"}}",
        ] {
            assert!(user(ForeignTool::Claude, text).broken.is_some(), "{text}");
        }
        assert!(user(ForeignTool::Claude, "{} // x").broken.is_some());
    }
}

mod opencode {
    use super::*;

    #[test]
    fn the_last_matching_pattern_wins() {
        let text = r#"{
            // comments are fine
            "permission": {
                "bash": { "*": "ask", "git *": "allow", "git push *": "deny", "git push docs": "allow" },
            }
        }"#;
        let policy = user(ForeignTool::Opencode, text);
        assert_eq!(
            shown(&policy),
            [
                "4 ask Bash @1",
                "4 allow Bash(git:*) @2",
                "4 deny Bash(git push:*) @3",
                "4 allow Bash(git push docs) @4",
            ]
        );
        assert_eq!(says(&policy, "ls"), Effect::Ask);
        assert_eq!(says(&policy, "git status"), Effect::Allow);
        assert_eq!(says(&policy, "git push origin"), Effect::Deny);
        assert_eq!(says(&policy, "git push docs"), Effect::Allow);
    }

    #[test]
    fn a_project_is_laid_over_the_users_file_in_place() {
        let own = r#"{"permission": {"bash": {"*": "ask", "git *": "allow"}, "webfetch": "ask"}}"#;
        let project =
            r#"{"permission": {"bash": {"*": "deny", "ls": "allow"}, "webfetch": "deny"}}"#;
        let policy = read_foreign(
            ForeignTool::Opencode,
            &[
                file("p", ForeignScope::Project, project),
                file("u", ForeignScope::User, own),
            ],
        );
        assert_eq!(
            shown(&policy),
            [
                "1 deny Bash @1",
                "1 allow Bash(git:*) @2",
                "1 allow Bash(ls) @3",
                "1 deny WebFetch @4",
            ]
        );
    }

    #[test]
    fn paths_become_narrower_for_an_allow_and_wider_otherwise() {
        let text = r#"{"permission": {
            "read": {"*.env": "deny", "src/*": "allow", "docs/*.md": "allow", "a/*/b": "ask", "?": "allow"},
            "edit": {"/etc/*": "allow", "lib/x.rs": "deny"}
        }}"#;
        assert_eq!(
            shown(&user(ForeignTool::Opencode, text)),
            [
                "2 deny Read(**/*.env) @1",
                "2 allow Read(/src/**) @2",
                "2 allow Read(/docs/*.md) @3",
                "3 deny Edit(/lib/x.rs) @7",
                "+2 ask Read @0",
                "-2 !read a/*/b: ask: asks for all of `Read`: it cannot be translated exactly",
                "-2 read ?: allow: left out: it cannot be translated exactly",
                "-3 edit /etc/*: allow: left out: it cannot be translated exactly",
            ]
        );
    }

    #[test]
    fn an_ask_to_read_lifts_no_deny_of_a_command() {
        let text = r#"{"permission": {"bash": {"rm *": "deny"}, "read": {"secret/*": "ask"}}}"#;
        let policy = user(ForeignTool::Opencode, text);
        assert_eq!(
            shown(&policy),
            ["1 deny Bash(rm:*) @1", "1 ask Read(/secret/**) @2"]
        );
        assert_eq!(says(&policy, "rm secret/x"), Effect::Deny);
        assert_eq!(says(&policy, "cat secret/x"), Effect::Ask);
    }

    #[test]
    fn a_word_for_everything_is_carried_if_it_is_strict() {
        assert_eq!(
            shown(&user(ForeignTool::Opencode, r#"{"permission": "ask"}"#)),
            ["1 ask * @1"]
        );
        assert_eq!(
            shown(&user(ForeignTool::Opencode, r#"{"permission": "allow"}"#)),
            ["-1 *: allow: left out: an allow must name its tool"]
        );
    }

    #[test]
    fn tools_switched_off_are_denied() {
        let text = r#"{"tools": {"write": false, "webfetch": false, "bash": true}, "permission": {"webfetch": "ask"}}"#;
        assert_eq!(
            shown(&user(ForeignTool::Opencode, text)),
            [
                "1 ask WebFetch @1",
                "1 deny Edit @2",
                "1 deny patch @2",
                "1 deny apply_patch @2",
                "1 deny multiedit @2",
            ]
        );
    }

    #[test]
    fn what_holds_for_one_agent_never_loosens() {
        let text = r#"{"agent": {"plan": {"permission": {"bash": {"*": "deny", "ls": "allow"}}}}}"#;
        assert_eq!(
            shown(&user(ForeignTool::Opencode, text)),
            [
                "+1 ask Bash @0",
                "-1 !bash *: deny: asks for all of `Bash`: it is for opencode's agent `plan` alone",
                "-1 bash ls: allow: left out: it is for opencode's agent `plan` alone",
            ]
        );
    }

    #[test]
    fn an_unknown_word_suspends() {
        let text = r#"{"permission": {"bash": "maybe"}}"#;
        assert!(user(ForeignTool::Opencode, text).broken.is_some());
    }
}

mod codex {
    use super::*;

    #[test]
    fn prefixes_with_alternatives_are_spelled_out() {
        let text = r#"
prefix_rule(pattern = ["git", ["push", "fetch"]], decision = "prompt",
    match = [["git", "push", "origin"], "git fetch"], not_match = ["git status"],
    justification = "look first")
prefix_rule(pattern = ["ls"])
prefix_rule(pattern = ["rm"], decision = "forbidden")
"#;
        let policy = user(ForeignTool::Codex, text);
        assert_eq!(
            shown(&policy),
            [
                "2 ask Bash(git push:*) @0",
                "2 ask Bash(git fetch:*) @0",
                "5 allow Bash(ls:*) @0",
                "6 deny Bash(rm:*) @0",
            ]
        );
        assert_eq!(policy.entries[0].reason.as_deref(), Some("look first"));
        assert_eq!(says(&policy, "ls -la"), Effect::Allow);
        assert_eq!(says(&policy, "ls && rm x"), Effect::Deny);
    }

    #[test]
    fn words_that_are_patterns_to_us_are_never_wider() {
        let text = "prefix_rule(pattern=[\"echo\", \"*\"])\nprefix_rule(pattern=[\"a b\"], decision=\"forbidden\")";
        assert_eq!(
            shown(&user(ForeignTool::Codex, text)),
            [
                "+2 ask Bash @0",
                "-1 echo * allow: left out: it cannot be translated exactly",
                "-2 !a b forbidden: asks for all of `Bash`: it cannot be translated exactly",
            ]
        );
    }

    #[test]
    fn what_is_not_a_known_call_suspends() {
        for text in [
            "prefix_rule(pattern=[\"ls\"])\nfor x in y: pass",
            "other_rule(pattern=[\"ls\"])",
            "prefix_rule(pattern=[\"ls\"], decision=\"maybe\")",
            "prefix_rule(pattern=[])",
            "prefix_rule(pattern=[\"ls\"], match=[\"cat\"])",
            "prefix_rule(pattern=[\"ls\"], when=\"x\")",
        ] {
            let policy = user(ForeignTool::Codex, text);
            assert!(policy.broken.is_some(), "{text}");
            assert_eq!(says(&policy, "ls"), Effect::Ask, "{text}");
        }
    }
}

mod gemini {
    use super::*;

    #[test]
    fn the_highest_priority_wins_within_its_tier() {
        let own = r#"
[[rule]]
toolName = "run_shell_command"
decision = "ask_user"
priority = 1

[[rule]]
toolName = "run_shell_command"
commandPrefix = ["git status", "git log"]
decision = "allow"
priority = 100
"#;
        let project = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git\"\ndecision = \"deny\"\npriority = 999\n";
        let policy = read_foreign(
            ForeignTool::Gemini,
            &[
                file("u", ForeignScope::User, own),
                file("p", ForeignScope::Project, project),
            ],
        );
        assert_eq!(
            shown(&policy),
            [
                "2 ask Bash @4001",
                "7 allow Bash(git status:*) @4100",
                "7 allow Bash(git log:*) @4100",
                "1 deny Bash(git:*) @3999",
            ]
        );
        assert_eq!(says(&policy, "git status"), Effect::Allow);
        assert_eq!(says(&policy, "git push"), Effect::Ask);
    }

    #[test]
    fn a_regular_expression_is_left_out_or_asks_and_outranks_no_deny() {
        let text = r#"
[[rule]]
toolName = "run_shell_command"
commandRegex = "git (commit|push)"
decision = "ask_user"
priority = 900
[[rule]]
toolName = "run_shell_command"
commandPrefix = "rm"
decision = "deny"
priority = 1
[[rule]]
toolName = "write_file"
argsPattern = "x"
decision = "allow"
priority = 2
"#;
        let policy = user(ForeignTool::Gemini, text);
        assert_eq!(
            shown(&policy),
            [
                "7 deny Bash(rm:*) @4001",
                "+2 ask Bash @0",
                "-2 !run_shell_command ask: asks for all of `Bash`: it is a regular expression",
                "-12 write_file allow: left out: it is a regular expression",
            ]
        );
        assert_eq!(says(&policy, "rm x"), Effect::Deny);
    }

    #[test]
    fn conditions_we_cannot_check_never_loosen() {
        let rule = |more: &str, decision: &str| {
            let text = format!(
                "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"{decision}\"\npriority = 5\n{more}\n"
            );
            let policy = user(ForeignTool::Gemini, &text);
            (policy.entries.len(), policy.widened.len())
        };
        assert_eq!(rule("", "allow"), (1, 0));
        assert_eq!(rule("modes = [\"default\", \"yolo\"]", "allow"), (1, 0));
        for condition in [
            "modes = [\"yolo\"]",
            "subagent = \"x\"",
            "interactive = true",
        ] {
            assert_eq!(rule(condition, "allow"), (0, 0), "{condition}");
            assert_eq!(rule(condition, "deny"), (0, 1), "{condition}");
        }
    }

    #[test]
    fn servers_and_single_tools() {
        let text = r#"
[[rule]]
mcpName = "github"
toolName = ["get", "list"]
decision = "allow"
priority = 1
[[rule]]
mcpName = "*"
decision = "deny"
priority = 2
[[rule]]
toolName = ["write_file", "replace"]
decision = "allow"
priority = 3
[[rule]]
toolName = "replace"
decision = "deny"
priority = 4
"#;
        assert_eq!(
            shown(&user(ForeignTool::Gemini, text)),
            [
                "2 allow mcp__github__get @4001",
                "2 allow mcp_github_get @4001",
                "2 allow mcp__github__list @4001",
                "2 allow mcp_github_list @4001",
                "7 deny mcp__* @4002",
                "7 deny mcp_* @4002",
                "11 allow Edit @4003",
                "11 allow Edit @4003",
                "+15 deny Edit @0",
                "-15 !replace deny: holds for all of `Edit`",
            ]
        );
    }

    #[test]
    fn a_rule_that_it_would_refuse_suspends() {
        for text in [
            "[[rule]]\ntoolName = \"x\"\ndecision = \"allow\"\n",
            "[[rule]]\ntoolName = \"x\"\ndecision = \"yes\"\npriority = 1\n",
            "[[rule]]\ntoolName = \"x\"\ndecision = \"allow\"\npriority = 1000\n",
            "[[rule]]\ndecision = \"allow\"\npriority = 1\n",
            "rule = 1",
            "[[rule",
        ] {
            assert!(user(ForeignTool::Gemini, text).broken.is_some(), "{text}");
        }
    }
}

mod goose {
    use super::*;

    #[test]
    fn never_beats_always_and_always_beats_ask() {
        let text = "user:\n  always_allow:\n  - developer__shell\n  - github__get\n  ask_before:\n  - developer__shell\n  never_allow:\n  - github__get\nsmart_approve:\n  always_allow:\n  - developer__shell\n";
        let policy = user(ForeignTool::Goose, text);
        assert_eq!(
            shown(&policy),
            [
                "3 allow developer__shell @1",
                "3 allow Bash @1",
                "4 allow github__get @1",
                "4 allow mcp__github__get @1",
                "6 ask developer__shell @0",
                "6 ask Bash @0",
                "8 deny github__get @2",
                "8 deny mcp__github__get @2",
                "-11 smart_approve.always_allow: developer__shell: left out: it is what a model judged, not what the user said",
            ]
        );
    }

    #[test]
    fn other_yaml_suspends() {
        assert!(user(ForeignTool::Goose, "user: &a {}").broken.is_some());
    }
}

mod importing {
    use super::*;

    fn imported(policies: &[ForeignPolicy]) -> (String, Vec<String>) {
        let imported = import(policies);
        let toml = crate::file::parse_file(&imported.toml, "i", crate::file::FileKind::User);
        let entries = toml.unwrap().entries;
        let rules: Vec<_> = entries
            .iter()
            .map(|entry| format!("{} {}", entry.effect.as_str(), entry.rule.text()))
            .collect();
        let not: Vec<_> = imported
            .not_carried
            .iter()
            .map(|found| found.text.clone())
            .collect();
        (rules.join(", "), not)
    }

    #[test]
    fn a_default_that_asks_is_ours_already() {
        let text =
            r#"{"permission": {"bash": {"*": "ask", "git *": "allow", "git push *": "deny"}}}"#;
        assert_eq!(
            imported(&[user(ForeignTool::Opencode, text)]),
            ("allow Bash(git:*), deny Bash(git push:*)".into(), vec![])
        );
    }

    #[test]
    fn an_allow_above_a_deny_is_left_out() {
        let text = r#"{"permission": {"bash": {"*": "deny", "git *": "allow"}}}"#;
        assert_eq!(
            imported(&[user(ForeignTool::Opencode, text)]),
            ("deny Bash".into(), vec!["Bash(git:*)".into()])
        );
    }

    #[test]
    fn an_allow_below_an_ask_is_left_out() {
        let text = r#"{"permission": {"bash": {"git *": "allow", "*": "ask", "ls": "allow"}}}"#;
        assert_eq!(
            imported(&[user(ForeignTool::Opencode, text)]),
            ("allow Bash(ls)".into(), vec!["Bash(git:*)".into()])
        );
    }

    #[test]
    fn one_policy_does_not_loosen_another() {
        let asks = r#"{"permission": {"bash": {"*": "ask", "ls": "allow"}}}"#;
        let allows = r#"{"permissions": {"allow": ["Bash(ls)", "Bash(npm test)", "WebFetch"]}}"#;
        assert_eq!(
            imported(&[
                user(ForeignTool::Opencode, asks),
                user(ForeignTool::Claude, allows)
            ]),
            (
                "allow Bash(ls), allow WebFetch".into(),
                vec!["Bash(npm test)".into()]
            )
        );
    }

    #[test]
    fn nothing_is_allowed_while_something_is_not_understood() {
        let text = "prefix_rule(pattern=[\"ls\"])\nprefix_rule(pattern=[\"rm\"], decision=\"forbidden\")\n";
        let good = user(ForeignTool::Codex, text);
        let broken = user(ForeignTool::Claude, "{");
        assert_eq!(
            imported(&[good, broken]),
            ("deny Bash(rm:*)".into(), vec!["Bash(ls:*)".into()])
        );
    }

    #[test]
    fn a_file_name_cannot_end_its_comment() {
        let text = r#"{"permissions": {"allow": ["Bash(ls)"]}}"#;
        let hostile = file("a\nallow = [\"Bash(rm:*)\"]", ForeignScope::Project, text);
        let policy = read_foreign(ForeignTool::Claude, &[hostile]);
        assert_eq!(imported(&[policy]), ("allow Bash(ls)".into(), vec![]));
    }
}

mod never_wider {
    use super::*;

    const PATTERNS: [&str; 6] = ["*", "git *", "git push *", "ls", "g*", "* x"];
    const COMMANDS: [&str; 8] = [
        "git",
        "git push",
        "git push x",
        "git status",
        "ls",
        "ls -a",
        "rm x",
        "gcc a",
    ];
    const EFFECTS: [Effect; 3] = [Effect::Allow, Effect::Ask, Effect::Deny];

    /// opencode's own matching, written down once more.
    fn matches(pattern: &str, text: &str) -> bool {
        let optional = pattern
            .strip_suffix(" *")
            .is_some_and(|head| wild(head, text));
        optional || wild(pattern, text)
    }

    fn wild(pattern: &str, text: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == text,
            Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
                (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| wild(rest, text)))
            }),
        }
    }

    fn last_match(rules: &[(&str, Effect)], command: &str) -> Effect {
        let found = rules
            .iter()
            .rev()
            .find(|(pattern, _)| matches(pattern, command));
        found.map_or(Effect::Ask, |(_, effect)| *effect)
    }

    /// Every list of three different patterns with every effect.
    fn lists() -> impl Iterator<Item = Vec<(&'static str, Effect)>> {
        let places = PATTERNS.len() * EFFECTS.len();
        let rule = |n: usize| (PATTERNS[n / EFFECTS.len()], EFFECTS[n % EFFECTS.len()]);
        (0..places.pow(3)).filter_map(move |n| {
            let list = [n % places, n / places % places, n / places / places].map(rule);
            let [a, b, c] = list.map(|(pattern, _)| pattern);
            (a != b && b != c && a != c).then(|| list.to_vec())
        })
    }

    fn policy(rules: &[(&str, Effect)]) -> ForeignPolicy {
        let members: Vec<_> = rules
            .iter()
            .map(|(pattern, effect)| format!("\"{pattern}\": \"{}\"", effect.as_str()))
            .collect();
        let text = format!(
            "{{\"permission\": {{\"bash\": {{{}}}}}}}",
            members.join(", ")
        );
        user(ForeignTool::Opencode, &text)
    }

    #[test]
    fn no_list_of_patterns_is_wider_in_our_words_or_after_import() {
        let commands = COMMANDS.map(|command| (command, assessed(command)));
        for rules in lists() {
            let policy = policy(&rules);
            let imported = import(std::slice::from_ref(&policy));
            let file = crate::file::parse_file(&imported.toml, "i", crate::file::FileKind::User);
            let flat = ForeignPolicy {
                entries: file.unwrap().entries,
                widened: Vec::new(),
                ..policy.clone()
            };
            for (command, assessed) in &commands {
                let theirs = last_match(&rules, command);
                let ours = says_of(&policy, assessed);
                let flat = says_of(&flat, assessed);
                assert!(ours >= theirs, "{rules:?} {command}: {ours:?} {theirs:?}");
                assert!(flat >= ours, "{rules:?} {command}: {flat:?} {ours:?}");
            }
        }
    }

    #[test]
    fn prefixes_mean_the_same_in_our_words() {
        let commands = COMMANDS.map(|command| (command, assessed(command)));
        let prefixes = |rules: &Vec<(&str, Effect)>| rules.iter().all(|(p, _)| p.ends_with('*'));
        for rules in lists().filter(prefixes) {
            let policy = policy(&rules);
            for (command, assessed) in &commands {
                let theirs = last_match(&rules, command);
                assert_eq!(says_of(&policy, assessed), theirs, "{rules:?} {command}");
            }
        }
    }

    #[test]
    fn a_text_cut_short_or_with_a_hole_is_read_or_refused() {
        let samples = [
            (
                ForeignTool::Claude,
                r#"{"permissions": {"deny": ["Bash(a \u00e9)"], "defaultMode": "plan"}}"#,
            ),
            (
                ForeignTool::Opencode,
                r#"{"permission": {"bash": {"*": "deny", "a?": "ask",}, /* x */ "edit": "ask"}}"#,
            ),
            (
                ForeignTool::Codex,
                "prefix_rule(pattern=[\"a\", ['b', \"c\\\"\"]], decision=\"prompt\") # x\n",
            ),
            (
                ForeignTool::Gemini,
                "[[rule]]\ntoolName = [\"run_shell_command\"]\ncommandPrefix = \"a\"\ndecision = \"deny\"\npriority = 1\n",
            ),
            (ForeignTool::Goose, "user:\n  never_allow:\n  - 'a__b'\n"),
        ];
        for (tool, text) in samples {
            for (at, c) in text.char_indices() {
                let (head, tail) = (&text[..at], &text[at + c.len_utf8()..]);
                for changed in [
                    head.to_owned(),
                    format!("{head}{tail}"),
                    format!("{head}\u{0}{tail}"),
                ] {
                    let policy = user(tool, &changed);
                    let allows = |entry: &RuleEntry| entry.effect == Effect::Allow;
                    assert!(!policy.entries.iter().any(allows), "{changed}");
                    drop(import(&[policy]));
                }
            }
        }
    }
}
