//! Texts of ours in an editor: markdown that no text of an agent can leave.

/// Text in a fence that is longer than any run of backticks in it.
pub(super) fn fenced(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let text = text.trim_end_matches('\n');
    format!("{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_cannot_be_closed_from_inside() {
        assert_eq!(fenced("ls\n"), "```\nls\n```");
        assert_eq!(fenced("a\n```\nb"), "````\na\n```\nb\n````");
        assert_eq!(fenced("``````"), "```````\n``````\n```````");
    }
}
