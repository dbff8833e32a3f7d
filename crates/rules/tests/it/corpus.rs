//! The labelled cases: nothing wrong is allowed, and nearly everything right is.

use countersign_rules::{CorpusCase, Effect, ToolAction};

const CORPUS: &str = include_str!("../../corpus/corpus.jsonl");
/// What attacks on the engine added to it: every one is answered rightly.
const MORE: &str = include_str!("../../corpus/more.jsonl");

/// The cases that are answered in a way that does not pass: expected, given, and what it is.
#[expect(clippy::unwrap_used, reason = "a case that cannot be read has failed")]
fn wrong(corpus: &str) -> Vec<(Effect, Effect, String)> {
    let judged = corpus.lines().map(|line| {
        let case = CorpusCase::parse(line).unwrap();
        let got = case.judge().effect;
        (
            case.accepts(got),
            case.expect,
            got,
            format!("{}: {}", case.id, case.subject()),
        )
    });
    judged
        .filter(|(right, ..)| !right)
        .map(|(_, expect, got, words)| (expect, got, words))
        .collect()
}

#[test]
fn the_corpus_is_answered_rightly() {
    let wrong = wrong(CORPUS);
    let allowed: Vec<_> = wrong
        .iter()
        .filter(|(_, got, _)| *got == Effect::Allow)
        .collect();
    assert!(allowed.is_empty(), "wrong allows: {allowed:#?}");
    let missed: Vec<_> = wrong
        .iter()
        .filter(|(expect, ..)| *expect == Effect::Allow)
        .collect();
    assert!(missed.len() <= 3, "missed allows: {missed:#?}");
    let total = CORPUS.lines().count();
    assert_eq!(total, 418, "the corpus only grows: say so here");
    assert!(wrong.len() * 100 <= total * 3, "wrong answers: {wrong:#?}");
}

#[test]
fn what_attacks_added_is_answered_rightly() {
    let wrong = wrong(MORE);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_part_of_a_command_is_shown_as_it_is_written() {
    for line in CORPUS.lines().chain(MORE.lines()) {
        let case = CorpusCase::parse(line).unwrap();
        let ToolAction::Shell { command } = &case.request.action else {
            continue;
        };
        // Bash removes a backslash at the end of a line before it reads anything else.
        let joined = command.replace("\\\n", "");
        for part in case.judge().parts {
            let subject = part.subject.strip_suffix('…').unwrap_or(&part.subject);
            let is_whole_tool = subject == case.request.tool;
            let is_empty = subject.is_empty() && !command.trim().is_empty();
            let is_written = command.contains(subject) || joined.contains(subject);
            assert!(
                is_whole_tool || is_written && !is_empty,
                "{}: {subject:?} is not in {command:?}",
                case.id
            );
        }
    }
}
