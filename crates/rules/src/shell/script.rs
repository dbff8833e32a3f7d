//! Scripts: what a piece of bash would run, in the order it is written.

use std::ops::Range;

use super::word::ShellWord;

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptCommand {
    pub(crate) assigns: Vec<ScriptAssignment>,
    pub(crate) words: Vec<ShellWord>,
    pub(crate) redirects: Vec<ScriptRedirect>,
    /// Where it is written. Only the first parser says so, here and for the words.
    pub(crate) span: Range<usize>,
    pub(crate) word_spans: Vec<Range<usize>>,
}

impl ScriptCommand {
    pub(crate) fn push_word(&mut self, word: ShellWord, span: Range<usize>) {
        if self.word_spans.is_empty() {
            self.span.start = span.start;
        }
        self.span.end = span.end;
        self.words.push(word);
        self.word_spans.push(span);
    }
}

/// `NAME=value` before a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptAssignment {
    pub(crate) name: String,
    pub(crate) value: ShellWord,
}

/// A redirection that touches a file, or hands in text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptRedirect {
    pub(crate) kind: RedirectKind,
    /// The file; for a heredoc its text.
    pub(crate) target: ShellWord,
    /// Where the file is written. Only the first parser says so.
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectKind {
    Read,
    Write,
    ReadWrite,
    /// Text handed in: a heredoc or here-string.
    Text,
    /// Another descriptor, or none.
    Free,
}

/// A piece of a script in source order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptItem {
    Simple(ScriptCommand),
    /// A redirection of a whole group.
    Redirect(ScriptRedirect),
    And,
    Or,
    /// `;`, a line's end, or `&`.
    Next,
    Pipe,
    /// A subshell begins.
    Open,
    /// A subshell ends.
    Close,
}

/// What a parser found.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedScript {
    pub(crate) items: Vec<ScriptItem>,
    /// Why it cannot be read with certainty, if it cannot.
    pub(crate) doubt: Option<String>,
    /// Whether a limit was reached before its end.
    pub(crate) is_cut: bool,
}

impl ParsedScript {
    /// Nothing was read.
    pub(crate) fn cut() -> Self {
        Self {
            is_cut: true,
            ..Self::default()
        }
    }

    pub(crate) fn doubts(&mut self, reason: impl Into<String>) {
        self.doubt.get_or_insert_with(|| reason.into());
    }

    pub(crate) fn simples(&self) -> impl Iterator<Item = &ScriptCommand> {
        self.items.iter().filter_map(|item| match item {
            ScriptItem::Simple(simple) => Some(simple),
            _ => None,
        })
    }

    /// Whether both parsers saw the same commands with the same words.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        // Separators are not compared: each parser reports them in its own way, and a command that
        // one of them missed shows in the words.
        let mut ours = self.items.iter().filter(|item| has_words(item));
        let mut theirs = other.items.iter().filter(|item| has_words(item));
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (Some(one), Some(other)) if same(one, other) => {}
                _ => return false,
            }
        }
    }
}

fn has_words(item: &ScriptItem) -> bool {
    matches!(item, ScriptItem::Simple(_) | ScriptItem::Redirect(_))
}

fn same(one: &ScriptItem, other: &ScriptItem) -> bool {
    match (one, other) {
        (ScriptItem::Simple(one), ScriptItem::Simple(other)) => {
            one.words == other.words
                && one.assigns == other.assigns
                && one.redirects.len() == other.redirects.len()
                && one
                    .redirects
                    .iter()
                    .zip(&other.redirects)
                    .all(|(one, other)| same_redirect(one, other))
        }
        (ScriptItem::Redirect(one), ScriptItem::Redirect(other)) => same_redirect(one, other),
        _ => false,
    }
}

/// Text that is handed in is compared without the line ends around it, which parsers keep differently.
fn same_redirect(one: &ScriptRedirect, other: &ScriptRedirect) -> bool {
    match (one.kind, other.kind) {
        (RedirectKind::Text, RedirectKind::Text) => {
            one.target.text.trim_matches('\n') == other.target.text.trim_matches('\n')
                && one.target.dynamic == other.target.dynamic
        }
        _ => one.kind == other.kind && one.target == other.target,
    }
}
