use std::fmt::Write as _;

use super::*;

fn shown(hunks: &[DiffHunk]) -> String {
    let mut text = String::new();
    for hunk in hunks {
        let _ = writeln!(text, "@{},{}", hunk.old_start, hunk.new_start);
        for line in &hunk.lines {
            let _ = writeln!(text, "{}{}", line.kind.mark(), line.text);
        }
    }
    text
}

fn between(old: &str, new: &str) -> String {
    shown(&diff_lines(old, new, &mut DiffBudget::default()))
}

#[test]
fn a_change_is_shown_with_three_lines_around_it_and_where_it_stands() {
    let old: Vec<String> = (0..20).map(|n| format!("l{n}\n")).collect();
    let old = old.concat();
    let new = old.replace("l15", "fifteen").replace("l2\n", "");
    assert_eq!(
        between(&old, &new),
        "@1,1\n l0\n l1\n-l2\n l3\n l4\n l5\n@13,12\n l12\n l13\n l14\n-l15\n+fifteen\n l16\n l17\n l18\n"
    );
    assert_eq!(between(&old, &old), "");
    assert_eq!(between("", "a\n"), "@1,1\n+a\n");
    assert_eq!(between("a\n", ""), "@1,1\n-a\n");
    assert_eq!(between("a", "a\n"), "@1,1\n-a\n+a\n");
}

#[test]
fn code_is_shown_with_its_indentation_and_what_is_far_away_is_not_hidden() {
    let deep = format!("{}x", " ".repeat(INDENT_MAX));
    let far = format!("{}x", " ".repeat(INDENT_MAX + 1));
    assert_eq!(
        between("", &format!("{deep}\n{far}\na{far}\n")),
        format!("@1,1\n+{deep}\n+\u{27e8}49 spaces\u{27e9}x\n+a\u{27e8}49 spaces\u{27e9}x\n")
    );
}

#[test]
fn a_carriage_return_does_not_begin_a_line() {
    assert_eq!(between("a\rb\n", "a\rc\n"), "@1,1\n-a\\rb\n+a\\rc\n");
}

#[test]
fn without_a_budget_all_lines_are_still_shown() {
    let mut none = DiffBudget { lines: 0, words: 0 };
    let old = "same\nold\nmoved\n";
    let new = "same\nmoved\nnew\n";
    let hunks = diff_lines(old, new, &mut none);
    // `moved` stands once in both texts, so the parts around it are compared by themselves.
    assert_eq!(shown(&hunks), "@1,1\n same\n-old\n moved\n+new\n");
    let hunks = diff_lines("a\na\n", "b\nb\n", &mut none);
    assert_eq!(shown(&hunks), "@1,1\n-a\n-a\n+b\n+b\n");
}

#[test]
fn long_texts_with_few_changes_are_compared_within_the_budget() {
    let old: Vec<String> = (0..50_000).map(|n| format!("line {n}\n")).collect();
    let mut new = old.clone();
    new[10] = "first\n".to_owned();
    new[49_990] = "last\n".to_owned();
    let hunks = diff_lines(&old.concat(), &new.concat(), &mut DiffBudget::default());
    let lines: Vec<usize> = hunks.iter().map(|hunk| hunk.lines.len()).collect();
    assert_eq!(lines, [8, 8]);
    // Nothing in common: one block, and no more work than the budget.
    let other = "x\n".repeat(50_000);
    let hunks = diff_lines(&old.concat(), &other, &mut DiffBudget::default());
    let lines: Vec<usize> = hunks.iter().map(|hunk| hunk.lines.len()).collect();
    assert_eq!(lines, [100_000]);
}

#[test]
fn what_changed_within_a_line_is_marked_and_its_pieces_are_the_line() {
    let marked = |old: &str, new: &str| -> Vec<Vec<(String, bool)>> {
        let hunks = diff_lines(old, new, &mut DiffBudget::default());
        let lines = hunks.into_iter().flat_map(|hunk| hunk.lines);
        lines
            .map(|line| {
                let pieces = line.segments.into_iter();
                let pieces: Vec<_> = pieces.map(|piece| (piece.text, piece.changed)).collect();
                let joined: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
                assert!(pieces.is_empty() || joined == line.text);
                pieces
            })
            .collect()
    };
    let piece = |text: &str, changed| (text.to_owned(), changed);
    assert_eq!(
        marked("let x = 1;\n", "let x = 23;\n"),
        [
            vec![
                piece("let x = ", false),
                piece("1", true),
                piece(";", false)
            ],
            vec![
                piece("let x = ", false),
                piece("23", true),
                piece(";", false)
            ],
        ]
    );
    // Only hidden characters differ: they are what is marked.
    assert_eq!(
        marked("rm\n", "rm\u{200b}\n"),
        [
            vec![piece("rm", false)],
            vec![piece("rm", false), piece(r"\u{200b}", true)],
        ]
    );
    assert_eq!(marked("alpha\n", "beta\n"), [vec![], vec![]]);
}
