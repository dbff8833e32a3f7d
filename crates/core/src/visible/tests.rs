use std::borrow::Cow;
use std::collections::HashMap;

use super::{HIDDEN, TextLayout, hidden_count, visible};

#[track_caller]
fn check(text: &str, line: &str, block: &str, hidden: usize) {
    assert_eq!(visible(text, TextLayout::Line), line, "in a line");
    assert_eq!(visible(text, TextLayout::Block), block, "in a block");
    assert_eq!(hidden_count(text), hidden, "hidden");
}

#[track_caller]
fn check_both(text: &str, shown: &str, hidden: usize) {
    check(text, shown, shown, hidden);
}

#[test]
fn ordinary_text_is_borrowed() {
    for text in [
        "",
        "git commit -m 'x'",
        "naïve 日本語 €12 🙂",
        "a        b",
        r"C:\Windows",
    ] {
        for layout in [TextLayout::Line, TextLayout::Block] {
            assert!(matches!(visible(text, layout), Cow::Borrowed(same) if same == text));
        }
        assert_eq!(hidden_count(text), 0);
    }
    let lines = "if true\nthen :\nfi\n";
    assert!(matches!(visible(lines, TextLayout::Block), Cow::Borrowed(same) if same == lines));
}

#[test]
fn line_breaks_and_tabs_follow_the_layout() {
    check("a\n\tb\n", r"a\n\tb\n", "a\n    b\n", 0);
    check("a\r\nb", r"a\r\nb", "a\\r\nb", 1);
}

#[test]
fn terminal_sequences_are_shown() {
    check_both("\u{1b}[2Kok", r"\u{1b}[2Kok", 1);
    check_both("\u{9b}2Kok", r"\u{9b}2Kok", 1);
    check_both(
        "\u{1b}]52;c;cm0=\u{7}\u{8}\u{7f}\0",
        r"\u{1b}]52;c;cm0=\u{7}\u{8}\u{7f}\u{0}",
        5,
    );
    check_both("rm -rf /\rls", r"rm -rf /\rls", 1);
    check_both("a\u{b}b\u{c}c\u{85}d", r"a\u{b}b\u{c}c\u{85}d", 3);
}

#[test]
fn bidi_and_zero_width_characters_are_shown() {
    check_both(
        "a\u{202e}b\u{2066}c\u{2069}\u{200f}\u{61c}",
        r"a\u{202e}b\u{2066}c\u{2069}\u{200f}\u{61c}",
        5,
    );
    check_both(
        "r\u{200b}m\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}",
        r"r\u{200b}m\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}",
        6,
    );
    check_both(
        "\u{fe0f}\u{e0100}\u{e0001}\u{e0041}\u{180e}\u{fffb}",
        r"\u{fe0f}\u{e0100}\u{e0001}\u{e0041}\u{180e}\u{fffb}",
        6,
    );
}

#[test]
fn blanks_that_are_not_the_space_are_shown() {
    check_both(
        "a\u{a0}b\u{2003}c\u{3000}d\u{1680}\u{202f}\u{205f}",
        r"a\u{a0}b\u{2003}c\u{3000}d\u{1680}\u{202f}\u{205f}",
        6,
    );
    check_both("a\u{2028}b\u{2029}c", r"a\u{2028}b\u{2029}c", 2);
    check_both(
        "\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2800}",
        r"\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2800}",
        5,
    );
}

#[test]
fn private_and_impossible_characters_are_shown() {
    check_both(
        "\u{e000}\u{f0000}\u{10ffff}\u{fdd0}\u{ffff}\u{50000}",
        r"\u{e000}\u{f0000}\u{10ffff}\u{fdd0}\u{ffff}\u{50000}",
        6,
    );
    check_both("\u{fffd}", "\u{fffd}", 0);
}

#[test]
fn marks_are_not_stacked_higher_than_any_script_needs() {
    let marks = |count: usize| "\u{301}".repeat(count);
    for text in [
        "e\u{301}".to_owned(),
        format!("a{}", marks(8)),
        format!("a{}b{}", marks(8), marks(8)),
    ] {
        check_both(&text, &text, 0);
    }
    let nine = format!("a{}\u{302}b", marks(8));
    check_both(&nine, &format!("a{}\\u{{302}}b", marks(8)), 1);
    let many = format!("x{}\u{5b0}\u{20dd}", marks(12));
    let shown = format!("x{}{}\\u{{5b0}}\\u{{20dd}}", marks(8), r"\u{301}".repeat(4));
    check_both(&many, &shown, 6);
    // At the start of a text they are drawn onto whatever stands before it.
    check_both(&marks(9), &format!("{}\\u{{301}}", marks(8)), 1);
    // A character that is shown as an escape begins anew, as do line breaks.
    let hidden = format!("{}\u{200d}{}", marks(8), marks(8));
    check_both(&hidden, &format!("{}\\u{{200d}}{}", marks(8), marks(8)), 1);
}

#[test]
fn long_runs_of_blanks_become_their_number() {
    check_both("ls         x", "ls⟨9 spaces⟩x", 0);
    check_both(
        &format!("ls{}; rm -rf ~", " ".repeat(412)),
        "ls⟨412 spaces⟩; rm -rf ~",
        0,
    );
    check_both(&" ".repeat(9), "⟨9 spaces⟩", 0);
    check(
        "        \n        ",
        r"        \n        ",
        "        \n        ",
        0,
    );
    check(
        "\t\t\t\t\t\t\t\t x",
        r"\t\t\t\t\t\t\t\t x",
        "⟨9 blanks⟩x",
        0,
    );
}

#[test]
fn mark_for_blanks_cannot_be_forged() {
    check_both("a⟨9 spaces⟩b", r"a\u{27e8}9 spaces\u{27e9}b", 2);
}

#[test]
fn backslash_stays_where_it_cannot_be_mistaken() {
    check_both(r"C:\Windows \$x \\ \", r"C:\Windows \$x \\ \", 0);
    check_both(r"\u00e9 \x1b", r"\u00e9 \x1b", 0);
}

#[test]
fn literal_escape_is_told_apart() {
    check(r"echo a\nb", r"echo a\\nb", r"echo a\nb", 0);
    check(r"\u{202e}", r"\\u{202e}", r"\u{202e}", 0);
    check("\\\u{202e}", r"\\\u{202e}", r"\\u{202e}", 1);
    check("a \\\nb", r"a \\\nb", "a \\\nb", 0);
    check(r"a \\nb", r"a \\\\nb", r"a \\nb", 0);
}

#[test]
fn different_texts_look_different_in_a_line() {
    let pieces = [
        "\\",
        "n",
        "t",
        "\n",
        "\t",
        "u{a}",
        "\u{a0}",
        " ",
        "         ",
        "⟨9 spaces⟩",
        "a0}",
        "u{",
        "\u{301}",
        "\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    ];
    let mut seen = HashMap::new();
    for a in pieces {
        for b in pieces {
            for c in pieces {
                for d in pieces {
                    let text = [a, b, c, d].concat();
                    let shown = visible(&text, TextLayout::Line).into_owned();
                    let earlier = seen.entry(shown).or_insert_with(|| text.clone());
                    assert_eq!(*earlier, text);
                }
            }
        }
    }
}

#[test]
fn no_character_gets_through_unseen() {
    let unseen = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    for some in all.chunks(256) {
        let text: String = some.iter().collect();
        let line = visible(&text, TextLayout::Line);
        let block = visible(&text, TextLayout::Block);
        assert!(!line.contains(unseen), "{line:?}");
        assert!(!block.replace('\n', "").contains(unseen), "{block:?}");
        assert_eq!(block.matches('\n').count(), text.matches('\n').count());
    }
}

#[test]
fn every_hidden_character_becomes_ascii_alike_in_both_layouts() {
    for &(first, last) in HIDDEN {
        let hidden: Vec<char> = (first..=last)
            .filter(|c| !matches!(c, '\n' | '\t'))
            .collect();
        for some in hidden.chunks(256) {
            let text: String = some.iter().collect();
            let shown = visible(&text, TextLayout::Line);
            assert!(shown.is_ascii(), "{shown:?}");
            assert_eq!(shown, visible(&text, TextLayout::Block));
            assert_eq!(hidden_count(&text), some.len());
        }
    }
}

#[test]
fn table_is_sorted() {
    assert!(HIDDEN.iter().all(|(first, last)| first <= last));
    assert!(HIDDEN.windows(2).all(|pair| pair[0].1 < pair[1].0));
}
