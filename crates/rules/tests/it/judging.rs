//! Verdicts as whole values: what decided about each part, and how it reads.

use countersign_rules::{
    Effect, Floor, PartKind, RuleRef, ToolAction, Verdict, VerdictPart, explain,
};

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
    let action = ToolAction::Shell {
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
                "rm -rf 'a b'",
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
         deny run `rm -rf 'a b'`: deny `Bash(rm:*)` in rules.toml:3\n  \
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
fn no_limit_skips_a_deny() {
    let lines = ["+Bash", "-Bash(rm:*)"];
    let nested = (0..6).fold("rm x".to_owned(), |inner, _| {
        format!("sh -c '{}'", inner.replace('\'', r"'\''"))
    });
    for command in [
        format!("{}rm x", "env ".repeat(9)),
        format!("{}rm x", "timeout 5 ".repeat(40)),
        format!("{}rm x", "eval ".repeat(60)),
        format!("cat {}rm x{}", "<(".repeat(400), ")".repeat(400)),
        format!("{}rm x", "true && ".repeat(30_000)),
        format!("{}rm x", "ls\n".repeat(60_000)),
        format!("{}; rm x", "echo $(ls) ".repeat(5_000)),
        format!("(({}; rm x", "a) ".repeat(20_000)),
        "timeout -k 1 5 rm x".to_owned(),
        "nohup timeout -s KILL 5 rm x".to_owned(),
        "docker compose exec web rm x".to_owned(),
        "kubectl -n a exec p -- rm x".to_owned(),
        "flock -w 3 /l rm x".to_owned(),
        nested,
    ] {
        let shown: String = command.chars().take(60).collect();
        assert_eq!(shell(&command, &lines), Effect::Deny, "{shown}");
    }
}

#[test]
fn a_long_text_that_nothing_runs_is_no_command() {
    let body = "rm -rf is what this text speaks of\n".repeat(600);
    let command = format!("cat > notes.md <<'EOF'\n{body}EOF\n");
    let lines = ["+Bash", "+Edit(./**)", "-Bash(rm:*)"];
    assert_eq!(shell(&command, &lines), Effect::Ask);
    let command = format!("bash <<'EOF'\n{body}EOF\n");
    assert_eq!(shell(&command, &lines), Effect::Deny);
}

#[test]
fn many_parts_are_told_as_one() {
    let command = "make x; ".repeat(1_200);
    let action = ToolAction::Shell { command };
    let verdict = verdict_at(
        action,
        place(),
        &Links::default(),
        &Floor::default(),
        &["+Bash"],
    );
    assert_eq!(verdict.effect, Effect::Ask);
    assert!(verdict.parts.len() <= 402, "{}", verdict.parts.len());
}

#[test]
fn a_folder_written_in_another_way_escapes_no_deny() {
    for cwd in ["/home/dev/proj/.", "/home/dev//proj", "/home/dev/proj/a/.."] {
        let mut place = place();
        place.cwd = cwd.into();
        let action = ToolAction::Read {
            path: "/home/dev/proj/secret/key".into(),
        };
        let rules = ["+Read(//home/**)", "-Read(./secret/**)"];
        let links = Links::default();
        let verdict = verdict_at(action, place, &links, &Floor::default(), &rules);
        assert_eq!(verdict.effect, Effect::Deny, "{cwd}");
    }
}

#[test]
fn what_is_known_only_when_it_runs_is_shown_as_it_is_written() {
    let explained = |command: &str| {
        let action = ToolAction::Shell {
            command: command.into(),
        };
        let floor = Floor::default();
        explain(&verdict_at(action, place(), &Links::default(), &floor, &[]))
    };
    assert_eq!(
        explained("echo $i"),
        "ask\n  ask run `echo $i`: `$i` is known only when it runs"
    );
    assert_eq!(
        explained("for i in a b; do cp \"x-$i.txt\" '$HOME' > ${out}; done"),
        "ask\n  \
         ask run `for i in a b; do cp \"x-$i.txt\" '$HOME' > ${out}; done`: the command branches or loops\n  \
         ask write `${out}`: `${out}` is known only when it runs\n  \
         ask run `cp \"x-$i.txt\" '$HOME'`: `$i` is known only when it runs"
    );
    assert_eq!(
        explained("echo $a \"$b-$a\" {1..3}"),
        "ask\n  ask run `echo $a \"$b-$a\" {1..3}`: `$a`, `$b`, `{1..3}` are known only when it runs"
    );
}

#[test]
fn one_name_in_two_directories_is_two_files() {
    let action = ToolAction::Shell {
        command: "echo > x; cd sub && echo > x".into(),
    };
    let floor = Floor::default();
    let verdict = verdict_at(
        action,
        place(),
        &Links::default(),
        &floor,
        &["+Bash(echo:*)"],
    );
    let subjects: Vec<_> = verdict
        .parts
        .iter()
        .map(|part| part.subject.as_str())
        .collect();
    assert_eq!(subjects, ["x", "echo", "cd sub", "x", "echo"]);
}
