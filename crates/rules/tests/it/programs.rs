//! The program table, program by program: what a rule for a whole program covers, and what not.

use countersign_rules::Effect;

use crate::support::shell;

/// `allow` or `ask`, and a command; the rule in force is the one for all of its program.
const CASES: &str = include_str!("../../corpus/programs.cases");

#[test]
fn a_rule_for_a_program_covers_what_is_known_to_be_harmless() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in CASES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (expected, command) = line.split_once(' ').unwrap();
        let program = command.split_whitespace().next().unwrap();
        let got = match shell(command, &[&format!("+Bash({program}:*)")]) {
            Effect::Allow => "allow",
            Effect::Ask | Effect::Deny => "ask",
        };
        count += 1;
        if got != expected {
            wrong.push(format!("{got}, not {line}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(count >= 900, "the cases only grow: there are {count}");
}

#[test]
fn a_rule_that_names_a_launched_program_covers_what_is_harmless_to_it() {
    for (command, rule, expected) in [
        ("uv run pytest -q", "+Bash(uv run pytest:*)", Effect::Allow),
        (
            "poetry run pytest -x",
            "+Bash(poetry run pytest:*)",
            Effect::Allow,
        ),
        (
            "bundle exec rspec spec/a",
            "+Bash(bundle exec rspec:*)",
            Effect::Allow,
        ),
        (
            "npx --yes tsc --noEmit",
            "+Bash(npx --yes tsc:*)",
            Effect::Allow,
        ),
        ("npx tsc --noEmit", "+Bash(npx tsc:*)", Effect::Allow),
        (
            "python3 -m pytest -q",
            "+Bash(python3 -m pytest:*)",
            Effect::Allow,
        ),
        (
            "uv run pytest -p evil",
            "+Bash(uv run pytest:*)",
            Effect::Ask,
        ),
        ("uv run pytest -q", "+Bash(uv run:*)", Effect::Ask),
        (
            "uv run --with x pytest",
            "+Bash(uv run pytest:*)",
            Effect::Ask,
        ),
        ("npx sed -i s/a/b/ f", "+Bash(npx sed:*)", Effect::Ask),
        (
            "npx jest --config /tmp/e.js",
            "+Bash(npx jest:*)",
            Effect::Ask,
        ),
        ("cargo expand", "+Bash(cargo expand:*)", Effect::Allow),
        ("cargo expand --lib", "+Bash(cargo expand:*)", Effect::Allow),
        ("cargo expand --odd", "+Bash(cargo expand:*)", Effect::Ask),
    ] {
        assert_eq!(shell(command, &[rule]), expected, "{command} under {rule}");
    }
    let both = ["+Bash(cargo:*)", "+Bash(cargo expand:*)"];
    assert_eq!(shell("cargo expand", &both), Effect::Allow);
}

#[test]
fn a_program_by_its_path_is_judged_like_the_same_by_its_name() {
    for command in [
        "/usr/bin/git -c core.pager=x log",
        "/usr/bin/sed -i s/a/b/ f",
        "/usr/bin/sort -o x f",
        "/usr/bin/awk 'BEGIN{system(1)}'",
        "/usr/bin/tar xf a.tar",
        "/usr/bin/timeout 5 rm f",
        "/usr/bin/nice rm f",
    ] {
        let program = command.split(' ').next().unwrap();
        let rule = format!("+Bash({program}:*)");
        assert_eq!(shell(command, &[&rule]), Effect::Ask, "{command}");
    }
    let rule = ["+Bash(/usr/bin/git:*)"];
    assert_eq!(shell("/usr/bin/git log -3", &rule), Effect::Allow);
}
