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
