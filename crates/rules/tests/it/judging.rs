//! Verdicts as whole values: what decided about each part, and how it reads.

use countersign_rules::{Action, Effect, Floor, PartKind, RuleRef, Verdict, VerdictPart, explain};

use crate::support::{Links, place, shell, verdict_at};

fn part(subject: &str, effect: Effect, rule: Option<(&str, Effect, u32)>) -> VerdictPart {
    VerdictPart {
        kind: PartKind::Command,
        subject: subject.into(),
        effect,
        rule: rule.map(|(rule, effect, line)| RuleRef {
            rule: rule.into(),
            effect,
            source: "rules.toml".into(),
            line: Some(line),
            grant: None,
        }),
        reason: None,
        floor: false,
    }
}

#[test]
fn each_part_names_what_decided() {
    let lines = ["+Bash(git status:*)", "?Bash(git push:*)", "-Bash(rm:*)"];
    let command = "git status && git push origin; rm -rf 'a b'; make";
    let action = Action::Shell {
        command: command.into(),
    };
    let verdict = verdict_at(
        action,
        place(),
        &Links::default(),
        &Floor::default(),
        &lines,
    );
    let expected = Verdict {
        effect: Effect::Deny,
        parts: vec![
            part(
                "git status",
                Effect::Allow,
                Some(("Bash(git status:*)", Effect::Allow, 1)),
            ),
            part(
                "git push origin",
                Effect::Ask,
                Some(("Bash(git push:*)", Effect::Ask, 2)),
            ),
            part(
                "rm -rf a b",
                Effect::Deny,
                Some(("Bash(rm:*)", Effect::Deny, 3)),
            ),
            part("make", Effect::Ask, None),
        ],
    };
    assert_eq!(verdict, expected);
    assert_eq!(
        explain(&verdict),
        "deny\n  \
         allow run `git status`: allow `Bash(git status:*)` in rules.toml:1\n  \
         ask run `git push origin`: ask `Bash(git push:*)` in rules.toml:2\n  \
         deny run `rm -rf a b`: deny `Bash(rm:*)` in rules.toml:3\n  \
         ask run `make`: no rule"
    );
}

#[test]
fn words_are_compared_as_words() {
    assert_eq!(shell("rm 'a b'", &["+Bash(rm a b)"]), Effect::Ask);
    assert_eq!(shell("rm 'a b'", &["+Bash(rm 'a b')"]), Effect::Allow);
    assert_eq!(shell("git 'log x'", &["+Bash(git log:*)"]), Effect::Ask);
    assert_eq!(shell("git 'push x'", &["-Bash(git push:*)"]), Effect::Deny);
}

#[test]
fn a_rule_may_name_a_wrapper_with_what_it_wraps() {
    assert_eq!(
        shell("timeout 5 make test", &["+Bash(timeout 5 make:*)"]),
        Effect::Allow
    );
    assert_eq!(
        shell("timeout 5 make test", &["+Bash(timeout 5:*)"]),
        Effect::Ask
    );
    assert_eq!(
        shell("timeout -k 3 5 make test", &["+Bash(make test:*)"]),
        Effect::Allow
    );
    assert_eq!(
        shell("timeout --bogus 5 make test", &["+Bash(make test:*)"]),
        Effect::Ask
    );
    assert_eq!(shell("npx tsc -p x", &["+Bash(npx tsc:*)"]), Effect::Allow);
    assert_eq!(shell("npx evil", &["+Bash(npx:*)"]), Effect::Ask);
    assert_eq!(
        shell("docker exec c sh", &["+Bash(docker exec:*)"]),
        Effect::Ask
    );
}

#[test]
fn a_subshell_gives_its_directory_back() {
    let lines = ["+Bash(cd:*)", "+Bash(echo:*)", "+Edit(/f)"];
    assert_eq!(
        shell("(cd src && echo a) && echo x > f", &lines),
        Effect::Allow
    );
    assert_eq!(shell("cd src && echo x > f", &lines), Effect::Ask);
    assert_eq!(shell("cd src; echo x > f", &lines), Effect::Ask);
    assert_eq!(shell("cd src | echo x > f", &lines), Effect::Ask);
    assert_eq!(shell("cd .. && echo x > proj/f", &lines), Effect::Allow);
}

#[test]
fn a_folder_written_in_another_way_escapes_no_deny() {
    for cwd in ["/home/dev/proj/.", "/home/dev//proj", "/home/dev/proj/a/.."] {
        let mut place = place();
        place.cwd = cwd.into();
        let action = Action::Read {
            path: "/home/dev/proj/secret/key".into(),
        };
        let rules = ["+Read(//home/**)", "-Read(./secret/**)"];
        let links = Links::default();
        let verdict = verdict_at(action, place, &links, &Floor::default(), &rules);
        assert_eq!(verdict.effect, Effect::Deny, "{cwd}");
    }
}
