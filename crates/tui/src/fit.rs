//! Texts fitted to a width in columns.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The beginning of a text, with `…` where something is left out.
pub fn truncate(text: &str, width: usize) -> String {
    truncate_with(text, width, '…')
}

/// The same with another mark of one column.
pub fn truncate_with(text: &str, width: usize, mark: char) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        // One column is kept for the mark.
        if used + 1 > width {
            break;
        }
        kept.push(c);
    }
    kept.push(mark);
    kept
}

/// The beginning and the end of a text, with `…` where something is left out. For paths, whose last
/// part says most.
pub fn truncate_middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let begin = truncate(text, room / 2 + 1);
    let begin = begin.trim_end_matches('…');
    let mut end = Vec::new();
    let mut used = begin.width();
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        end.push(c);
    }
    let end: String = end.into_iter().rev().collect();
    format!("{begin}…{end}")
}

/// Breaks a text at blanks. A word that is longer than a line stands on one of its own.
pub fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(last) if last.width() + 1 + word.width() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Breaks a text wherever the width ends, not at words: nothing is moved or left out.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for c in text.chars() {
        // Control characters would have no width, and were escaped before.
        let columns = c.width().unwrap_or(0);
        if used + columns > width {
            lines.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(last) = lines.last_mut() {
            last.push(c);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_never_exceeds_its_width() {
        assert_eq!(truncate("日本語", 5), "日本…");
        assert_eq!(truncate("日本語", 4), "日…");
        assert_eq!(truncate("abc", 3), "abc");
    }

    #[test]
    fn a_path_is_cut_in_the_middle() {
        let path = "~/src/project.worktrees/some-agent/crates/core";
        assert_eq!(truncate_middle(path, 20), "~/src/pro…rates/core");
        assert_eq!(truncate_middle("日本語日本語", 7), "日…本語");
        assert_eq!(truncate_middle("abc", 3), "abc");
    }
}
