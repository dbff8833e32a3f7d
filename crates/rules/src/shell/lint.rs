//! The raw text of a command, looked at before any parser: what parsers are known to read
//! differently from bash, and what people cannot see.

/// Longer commands than this are never allowed by rule.
pub(crate) const COMMAND_BYTES_MAX: usize = 10_000;
/// Deeper parentheses than this are never allowed by rule: one parser is exponential in them.
const PAREN_DEPTH_MAX: usize = 12;

/// Why the text cannot be allowed by rule, if it cannot.
pub(crate) fn doubt(text: &str) -> Option<&'static str> {
    if text.len() > COMMAND_BYTES_MAX {
        return Some("the command is too long to be judged");
    }
    // A carriage return or an escape can make a terminal show another command than the one that
    // runs.
    if text
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
    {
        return Some("the command holds a control character");
    }
    if text.chars().any(is_invisible) {
        return Some("the command holds an invisible character or an unusual blank");
    }
    if joins_lines(text) {
        return Some("a backslash at the end of a line joins words");
    }
    if names_a_descriptor(text) {
        return Some("a redirection opens a descriptor by a variable's name");
    }
    if numbers_a_descriptor_oddly(text) {
        return Some("a redirection opens a descriptor with a long number");
    }
    if nests_deeply(text) {
        return Some("the command nests too deeply");
    }
    None
}

/// Zero width, direction marks, blanks that are not ASCII, and what is not assigned to be seen.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{1680}'
        | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
        | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn joins_lines(text: &str) -> bool {
    // Bash removes both characters, so `r\` and `m` on the next line are `rm`; the parsers may see
    // two words. Behind a blank nothing is joined.
    text.match_indices("\\\n").any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + 2..].chars().next();
        !matches!(before, Some(' ' | '\t')) || matches!(after, Some('\n'))
    })
}

/// `{name}>file` is no word to bash, and one to both parsers.
fn names_a_descriptor(text: &str) -> bool {
    text.match_indices(['<', '>']).any(|(at, _)| {
        let before = text[..at].strip_suffix('}');
        let name = before.and_then(|before| before.rsplit_once('{'));
        name.is_some_and(|(_, name)| {
            let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            rest.len() < name.len()
                && (rest.is_empty() || rest.starts_with('[') && rest.ends_with(']'))
        })
    })
}

/// One parser panics on numbers that do not fit.
fn numbers_a_descriptor_oddly(text: &str) -> bool {
    text.match_indices(['<', '>']).any(|(at, operator)| {
        let before = &text.as_bytes()[..at];
        let after = text[at + operator.len()..].trim_start_matches(['&', '>', '<', '|', ' ']);
        let digits = before.iter().rev().take_while(|c| c.is_ascii_digit());
        let following = after.bytes().take_while(u8::is_ascii_digit);
        digits.count() > 6 || following.count() > 6
    })
}

/// Counts every opening that is not closed, quoted or not: more than enough for real commands.
fn nests_deeply(text: &str) -> bool {
    let mut depth = 0usize;
    for c in text.chars() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > PAREN_DEPTH_MAX {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_parser_cannot_take_is_doubt() {
        for text in [
            "ls 77777777777777777>>x",
            "ls >&99999999999",
            "ls {fd}>x",
            "ls {a[1]}>x",
            "l\\\ns",
            "ls \u{200b}",
            "ls \u{1b}[1m",
        ] {
            assert!(doubt(text).is_some(), "{text:?}");
        }
        for text in [
            "ls 2>&1",
            "ls \\\n -la",
            "jq '{a:.b}' x > y",
            "echo 1234567 > y",
        ] {
            assert_eq!(doubt(text), None, "{text:?}");
        }
    }
}
