//! Keeps the table that the page's own escaper is made from and tested with true to [`visible`].
//!
//! `COUNTERSIGN_BLESS=1 cargo test -p countersign-core page_table` writes the file anew.

use std::fmt::Write as _;

use serde_json::json;

use super::{BLANKS_MAX, HIDDEN, MARK, MARKS_MAX, TextLayout, hidden_count, visible};
use crate::combining::COMBINING;

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../web/src/visible_table.json"
);

fn marks(count: usize) -> String {
    "\u{301}".repeat(count)
}

/// Texts that an escaper gets wrong if it is not exactly this one.
fn cases() -> Vec<String> {
    let plain = [
        "",
        "git commit -m 'x'",
        "na\u{ef}ve \u{65e5}\u{672c}\u{8a9e} \u{20ac}12 \u{1f642}",
        "a        b",
        "ls         x",
        "        \n        ",
        "\t\t\t\t\t\t\t\t x",
        "\t\tx",
        "a\n\tb\n",
        "a\r\nb",
        "\u{1b}[2Kok",
        "\u{9b}2Kok",
        "\u{1b}]52;c;cm0=\u{7}\u{8}\u{7f}\0",
        "rm -rf /\rls",
        "a\u{202e}b\u{2066}c\u{2069}\u{200f}\u{61c}",
        "r\u{200b}m\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}",
        "\u{fe0f}\u{e0100}\u{e0001}\u{e0041}\u{180e}\u{fffb}",
        "a\u{a0}b\u{2003}c\u{3000}d\u{1680}\u{202f}\u{205f}",
        "a\u{2028}b\u{2029}c",
        "\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2800}",
        "\u{e000}\u{f0000}\u{10ffff}\u{fdd0}\u{ffff}\u{50000}",
        "\u{fffd}",
        "a\u{27e8}9 spaces\u{27e9}b",
        r"C:\Windows \$x \\ \",
        r"\u00e9 \x1b",
        r"echo a\nb",
        r"\u{202e}",
        "\\\u{202e}",
        "a \\\nb",
        r"a \\nb",
        "e\u{301}",
    ];
    let mut cases: Vec<String> = plain.map(str::to_owned).to_vec();
    cases.extend([
        format!("ls{}; rm -rf ~", " ".repeat(412)),
        format!("a{}b{}", marks(8), marks(8)),
        format!("a{}\u{302}b", marks(8)),
        format!("x{}\u{5b0}\u{20dd}", marks(12)),
        marks(9),
        format!("{}\u{200d}{}", marks(8), marks(8)),
        format!("a{}\n{}", marks(9), marks(9)),
        format!("{}{}", " ".repeat(9), marks(9)),
    ]);
    cases
}

fn range_lines(ranges: &[(char, char)]) -> Vec<String> {
    let ranges = ranges.iter();
    ranges
        .map(|&(first, last)| json!([u32::from(first), u32::from(last)]).to_string())
        .collect()
}

fn case_lines() -> Vec<String> {
    let cases = cases().into_iter().map(|input| {
        // In the order of the alphabet: whether maps keep their order or sort depends on which crates
        // are built together.
        json!({
            "block": visible(&input, TextLayout::Block),
            "hidden": hidden_count(&input),
            "input": input,
            "line": visible(&input, TextLayout::Line),
        })
        .to_string()
    });
    cases.collect()
}

/// The same JSON in ASCII: no editor or tool on the way changes what cannot be seen.
fn to_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

fn to_list(lines: &[String]) -> String {
    format!("[\n    {}\n  ]", lines.join(",\n    "))
}

fn table() -> String {
    let (open, close) = MARK;
    to_ascii(&format!(
        "{{\n  \"blanks_max\": {BLANKS_MAX},\n  \"marks_max\": {MARKS_MAX},\n  \"mark\": {},\n  \
         \"hidden\": {},\n  \"combining\": {},\n  \"cases\": {}\n}}\n",
        json!([open, close]),
        to_list(&range_lines(HIDDEN)),
        to_list(&range_lines(COMBINING)),
        to_list(&case_lines()),
    ))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test compares a file of the tree"
)]
#[test]
fn the_pages_table_is_true() {
    let expected = table();
    if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
        std::fs::write(PATH, &expected).unwrap();
    }
    let found = std::fs::read_to_string(PATH).unwrap();
    assert!(
        found == expected,
        "web/src/visible_table.json is not what core::visible does; write it anew with \
         COUNTERSIGN_BLESS=1 cargo test -p countersign-core page_table"
    );
}
