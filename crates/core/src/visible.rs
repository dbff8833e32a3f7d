//! Hostile text made safe to show: the one escaper for every screen, log line and notice.
//!
//! Invariants: the output has no control character except `\n` in [`TextLayout::Block`], and no character that draws
//! nothing, draws as a blank other than the space, or moves its neighbours. No text can forge `⟨412 spaces⟩`, since
//! its brackets are escaped where they stand in the text. No more than [`MARKS_MAX`] marks are drawn onto one
//! character, so that no text covers the lines around it. In [`TextLayout::Line`] different texts look different.
//!
//! Deliberately absent: look-alike letters, which are visible, and truncation, since what is cut off is what is
//! approved unseen.

use std::borrow::Cow;

use crate::combining::is_combining;

/// Where the text will stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextLayout {
    /// In one line: line breaks and tabs are escaped too, and a backslash is doubled where it would otherwise read as
    /// the start of an escape. An odd number of backslashes is an escape of ours, an even one is the text's own.
    Line,
    /// In lines of its own: line breaks stay, and a tab becomes four spaces. Backslashes stay as they are, so that an
    /// ordinary command is shown as it will run; [`hidden_count`] tells the text's own `\u{202e}` from ours.
    Block,
}

const BLANKS_MAX: usize = 8;

/// Marks on one character: twice what any script needs.
const MARKS_MAX: usize = 8;

/// The brackets of our own mark for collapsed blanks.
const MARK: (char, char) = ('\u{27e8}', '\u{27e9}');

/// Characters that are never shown as themselves, sorted.
///
/// From the Unicode Character Database 16.0: general categories Cc, Cf, Co, Zl, Zp and Zs save the space; the property
/// `Default_Ignorable_Code_Point`; the noncharacters; the planes above 3, where nothing visible is assigned. Added by
/// hand, because they draw nothing: U+2800, U+16FE4, U+1D159. Added for [`MARK`]: U+27E8 and U+27E9.
const HIDDEN: &[(char, char)] = &[
    ('\u{0}', '\u{1f}'),
    ('\u{7f}', '\u{a0}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2000}', '\u{200f}'),
    ('\u{2028}', '\u{202f}'),
    ('\u{205f}', '\u{206f}'),
    MARK,
    ('\u{2800}', '\u{2800}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{fffe}', '\u{ffff}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{1fffe}', '\u{1ffff}'),
    ('\u{2fffe}', '\u{2ffff}'),
    ('\u{3fffe}', '\u{3ffff}'),
    ('\u{40000}', '\u{10ffff}'),
];

/// Shows every character that a screen would hide, obey or turn into a blank as `\u{…}` or `\r`, also each mark after
/// the eighth on one character, and more than eight blanks in a row as their number. Nothing is left out. Ordinary text is borrowed as it is.
///
/// The result is plain text: a sink with a markup of its own still has to escape that.
pub fn visible(text: &str, layout: TextLayout) -> Cow<'_, str> {
    if is_plain(text, layout) {
        return Cow::Borrowed(text);
    }
    let shown = render(text, layout);
    // A backslash in a line is doubled only in front of what reads as an escape.
    if shown == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(shown)
    }
}

/// How many characters of `text` [`visible`] shows as an escape, in either layout, line breaks and tabs not counted.
///
/// Zero means that each `\u{…}` and `\r` a person sees in [`TextLayout::Block`] stands in the text itself; a screen prints
/// a warning for anything else.
pub fn hidden_count(text: &str) -> usize {
    let mut marks = MarkRun::default();
    text.chars()
        .filter(|&c| marks.is_excess(c) || (is_hidden(c) && !matches!(c, '\n' | '\t')))
        .count()
}

/// How many marks the last character has.
#[derive(Default)]
struct MarkRun(usize);

impl MarkRun {
    /// Whether the next character is one mark too many. Called for each character of a text, in order.
    fn is_excess(&mut self, c: char) -> bool {
        self.0 = if is_combining(c) { self.0 + 1 } else { 0 };
        self.0 > MARKS_MAX
    }
}

/// False for a backslash in a line, which only [`render`] can judge.
fn is_plain(text: &str, layout: TextLayout) -> bool {
    let mut blanks = 0;
    let mut marks = MarkRun::default();
    text.chars().all(|c| {
        blanks = if c == ' ' { blanks + 1 } else { 0 };
        blanks <= BLANKS_MAX
            && !marks.is_excess(c)
            && match layout {
                TextLayout::Line => c != '\\' && !is_hidden(c),
                TextLayout::Block => c == '\n' || !is_hidden(c),
            }
    })
}

fn render(text: &str, layout: TextLayout) -> String {
    let mut shown = String::with_capacity(text.len() + text.len() / 4);
    let mut rest = text;
    let mut marks = MarkRun::default();
    while let Some(first) = rest.chars().next() {
        // Blanks and backslashes are taken as whole runs, because their number decides how they are
        // shown.
        let run = if is_blank(first, layout) {
            rest.find(|c| !is_blank(c, layout))
        } else if first == '\\' {
            rest.find(|c| c != '\\')
        } else {
            Some(first.len_utf8())
        };
        let (head, tail) = rest.split_at(run.unwrap_or(rest.len()));
        if marks.is_excess(first) {
            shown.extend(first.escape_unicode());
        } else if is_blank(first, layout) {
            shown.push_str(&show_blanks(head));
        } else if first == '\\' {
            push_backslashes(&mut shown, head, tail, layout);
        } else {
            push_char(&mut shown, first, layout);
        }
        rest = tail;
    }
    shown
}

fn is_blank(c: char, layout: TextLayout) -> bool {
    c == ' ' || (c == '\t' && layout == TextLayout::Block)
}

fn show_blanks(blanks: &str) -> String {
    // Spaces and tabs are one byte each.
    let count = blanks.len();
    if count <= BLANKS_MAX {
        return blanks.replace('\t', "    ");
    }
    let noun = if blanks.contains('\t') {
        "blanks"
    } else {
        "spaces"
    };
    let (open, close) = MARK;
    format!("{open}{count} {noun}{close}")
}

fn push_backslashes(shown: &mut String, backslashes: &str, next: &str, layout: TextLayout) {
    shown.push_str(backslashes);
    // The whole run is doubled, and also before an escape of ours: otherwise a backslash that ends a line would look
    // like a backslash and the letter n.
    if layout == TextLayout::Line
        && (next.starts_with(['n', 'r', 't'])
            || next.starts_with("u{")
            || next.starts_with(is_hidden))
    {
        shown.push_str(backslashes);
    }
}

fn push_char(shown: &mut String, c: char, layout: TextLayout) {
    match (c, layout) {
        ('\n', TextLayout::Block) => shown.push(c),
        ('\n' | '\t' | '\r', _) => shown.extend(c.escape_default()),
        _ if is_hidden(c) => shown.extend(c.escape_unicode()),
        _ => shown.push(c),
    }
}

fn is_hidden(c: char) -> bool {
    // Nearly every character is one of these, and none of them is in the table.
    if (' '..='~').contains(&c) {
        return false;
    }
    let after = HIDDEN.partition_point(|&(first, _)| first <= c);
    after > 0 && c <= HIDDEN[after - 1].1
}

#[cfg(test)]
mod page_table;
#[cfg(test)]
mod tests;
