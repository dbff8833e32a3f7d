//! Commands with wildcards, links and other folders, judged and then run in a real bash with the
//! same files: nothing that touches a denied or guarded file is allowed.

use countersign_rules::Effect;

use crate::scratch::ScratchTree;

/// Written by hand: `allow` must be allowed, `any` must not be allowed if it touches something.
const CASES: &str = include_str!("../../corpus/expansion.cases");

/// Ways to name something that is denied or guarded.
const SPELLINGS: [&str; 44] = [
    "~/.ssh/id_rsa",
    "~/.ss?/id_rsa",
    "~/.s*/id_rsa",
    "~/.ssh/i*",
    "~/.ssh/[i]d_rsa",
    "~/.ss[h]/id_rsa",
    "~/.[s]sh/id_rsa",
    "~/.ssh/id_[!x]sa",
    "~/.ssh/id_[^x]sa",
    "~/.ssh/id_[[:alpha:]]sa",
    "~/.ssh/id_[\"!\"r]sa",
    "~/.*/id_rsa",
    "~/.ssh/*",
    "~/.ssh*",
    "~/.s\"\"sh/id_rs?",
    "k1/id_rsa",
    "k?/id_rsa",
    "k*/id_*",
    "*/id_rsa",
    "[k]1/id_rsa",
    "k[0-9]/config",
    "hm/.s*/id_rsa",
    "h?/.ssh/id_rsa",
    "up/.ss*/id_rsa",
    "u*/../.ssh/id_rsa",
    "../.ss*/id_rsa",
    "src/../../.s*/id_rsa",
    "~~/.ss*/id_rsa",
    "../../home/.s?h/id_rsa",
    "linked/s*/id_rsa",
    "l*/b*/key.pem",
    ".en?",
    ".e*",
    ".[e]nv",
    "e*.txt",
    "secret?/key.pem",
    "s*/key.pem",
    "s*/d*/token",
    "fake.r?",
    "*.rs",
    "ho/run/*",
    "h*/countersign.db",
    "{.env,a}",
    "./.e\\nv*",
];

/// Commands that read what they are given.
const READERS: [&str; 13] = [
    "cat @",
    "head -n 1 @",
    "grep -n . @",
    "grep -v -- -zzz @",
    "wc -l @",
    "cat < @",
    "cat -- @",
    "cd src && cat ../@",
    "sort a @",
    "cp @ out/",
    "tail -n1 a @",
    "sed -n p @",
    "ls @",
];

/// Ways to name something that must not change without an ask.
const GUARDED_SPELLINGS: [&str; 21] = [
    ".git/config",
    ".gi?/config",
    ".g*/config",
    ".gi[t]/config",
    ".[g]it/config",
    "*/config",
    "gl/config",
    "g?/config",
    "g*/hooks/pre-commit",
    ".claud?/settings.json",
    ".c*/settings.json",
    "c?",
    "~/.bashr?",
    "~/.bash*",
    "~/.[b]ashrc",
    "r?",
    "hm/.bashr?",
    "up/.zsh*",
    ".mcp.jso?",
    ".env*",
    ".vs*/settings.json",
];

/// Commands that write what they are given.
const WRITERS: [&str; 8] = [
    "tee @",
    "tee -a @",
    "echo x > @",
    "echo x >> @",
    "cp a @",
    "touch @",
    "cd src && tee ../@",
    "truncate -s 0 @",
];

/// How many commands touched something for real, and those that were allowed to.
fn check(commands: impl Iterator<Item = String>) -> (usize, Vec<String>) {
    let tree = ScratchTree::new();
    let mut hostile = 0;
    let mut wrong = Vec::new();
    for command in commands {
        let command = tree.spelled(&command);
        let effect = tree.judge(&command).effect;
        let touched = tree.run(&command);
        hostile += usize::from(!touched.is_empty());
        if effect == Effect::Allow && !touched.is_empty() {
            wrong.push(format!("{command}: {touched:?}"));
        }
    }
    (hostile, wrong)
}

fn combined(templates: &[&str], spellings: &[&str]) -> impl Iterator<Item = String> {
    let pairs = templates
        .iter()
        .flat_map(|template| spellings.iter().map(move |spelling| (template, spelling)));
    pairs.map(|(template, spelling)| template.replace('@', spelling))
}

#[test]
fn no_spelling_of_a_denied_file_is_allowed_to_a_reader() {
    let (hostile, wrong) = check(combined(&READERS, &SPELLINGS));
    assert_eq!(wrong, Vec::<String>::new());
    assert!(hostile >= 350, "only {hostile} commands touched something");
}

#[test]
fn no_spelling_of_a_guarded_file_is_allowed_to_a_writer() {
    let (hostile, wrong) = check(combined(&WRITERS, &GUARDED_SPELLINGS));
    assert_eq!(wrong, Vec::<String>::new());
    assert!(hostile >= 100, "only {hostile} commands touched something");
}

#[test]
fn cases_written_by_hand_are_judged_rightly() {
    let tree = ScratchTree::new();
    let mut wrong = Vec::new();
    let mut missed = Vec::new();
    let mut count = 0;
    for line in CASES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (expected, command) = line.split_once(' ').unwrap();
        let command = tree.spelled(command);
        count += 1;
        let verdict = tree.judge(&command);
        let touched = tree.run(&command);
        if verdict.effect == Effect::Allow && !touched.is_empty() {
            wrong.push(format!("{command}: {touched:?}"));
        }
        match expected {
            "allow" if verdict.effect != Effect::Allow => {
                let reasons = verdict.parts.iter().map(|part| part.reason.clone());
                missed.push(format!("{command}: {:?}", reasons.collect::<Vec<_>>()));
            }
            "never" if verdict.effect == Effect::Allow => wrong.push(command),
            "allow" | "any" | "never" => {}
            _ => panic!("{line}"),
        }
    }
    assert_eq!(
        (wrong, missed),
        Default::default(),
        "wrong and missed allows"
    );
    assert!(count >= 150, "the cases only grow: there are {count}");
}
