//! Text for people and logs: errors with their causes, and text cut to a number of bytes.

use std::error::Error;

/// The causes of an error, the nearest first.
pub fn error_causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// An error and its causes on one line, separated by colons.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in error_causes(error) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    text
}

/// The longest beginning of `text` that has at most `bytes_max` bytes and ends at a character.
pub fn truncate_text(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// As [`truncate_text`], with an ellipsis where something is missing.
pub fn truncate_with_ellipsis(text: &str, bytes_max: usize) -> String {
    let kept = truncate_text(text, bytes_max);
    let ellipsis = if kept.len() < text.len() { "…" } else { "" };
    format!("{kept}{ellipsis}")
}

/// Removes the beginning of `text`, so that at most `bytes_max` bytes are left and the rest begins
/// at a character.
pub fn truncate_to_tail(text: &mut String, bytes_max: usize) {
    let surplus = text.len().saturating_sub(bytes_max);
    text.drain(..text.ceil_char_boundary(surplus));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn an_error_is_printed_with_its_causes() {
        let cause = std::fmt::Error;
        let expected = format!("outer: {cause}");
        assert_eq!(error_chain(&Outer(cause)), expected);
        assert_eq!(error_causes(&Outer(cause)).count(), 1);
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(truncate_text("aé", 2), "a");
        assert_eq!(truncate_with_ellipsis("aé", 2), "a…");
        assert_eq!(truncate_with_ellipsis("aé", 3), "aé");
        let mut text = "éab".to_owned();
        truncate_to_tail(&mut text, 3);
        assert_eq!(text, "ab");
    }
}
