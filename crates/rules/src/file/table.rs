//! Tables of a TOML text, taken apart key by key so that no key is left unread.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Spanned;
use toml::de::DeValue;

use super::{FileProblem, unknown_key};

/// Where each line of a text begins.
pub(crate) struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    pub(crate) fn of(text: &str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            starts: std::iter::once(0).chain(after).collect(),
        }
    }

    /// The line, from one, of the byte at `offset`.
    pub(crate) fn at(&self, offset: usize) -> u32 {
        let line = self.starts.partition_point(|start| *start <= offset);
        u32::try_from(line).unwrap_or(u32::MAX)
    }
}

/// A table whose keys are taken out one after the other.
pub(crate) struct TableReader<'a, 'l> {
    /// Where it begins.
    pub(crate) line: u32,
    /// What was wrong so far.
    pub(crate) problems: Vec<FileProblem>,
    lines: &'l LineIndex,
    keys: BTreeMap<&'a str, (u32, &'a Spanned<DeValue<'a>>)>,
}

impl<'a, 'l> TableReader<'a, 'l> {
    /// Nothing, if the value is no table.
    pub(crate) fn of(value: &'a Spanned<DeValue<'a>>, lines: &'l LineIndex) -> Option<Self> {
        let table = value.get_ref().as_table()?;
        let keys = table
            .iter()
            .map(|(key, value)| {
                let line = lines.at(key.span().start);
                (key.get_ref().as_ref(), (line, value))
            })
            .collect();
        Some(Self {
            line: lines.at(value.span().start),
            problems: Vec::new(),
            lines,
            keys,
        })
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.keys.remove(key).map(|(_, value)| value)
    }

    pub(crate) fn take_text(&mut self, key: &str) -> Option<Arc<str>> {
        let value = self.take(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong(value, key, "a text");
        }
        text.map(Into::into)
    }

    /// Off, unless it says on.
    pub(crate) fn take_switch(&mut self, key: &str) -> bool {
        let Some(value) = self.take(key) else {
            return false;
        };
        let switch = value.get_ref().as_bool();
        if switch.is_none() {
            self.wrong(value, key, "`true` or `false`");
        }
        switch.unwrap_or(false)
    }

    pub(crate) fn take_texts(&mut self, key: &str) -> Vec<String> {
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        let texts: Option<Vec<_>> = value.get_ref().as_array().and_then(|items| {
            let texts = items.iter().map(|item| item.get_ref().as_str());
            texts.map(|text| text.map(str::to_owned)).collect()
        });
        if texts.is_none() {
            self.wrong(value, key, "a list of texts");
        }
        texts.unwrap_or_default()
    }

    pub(crate) fn take_table(&mut self, key: &str) -> Option<Self> {
        let value = self.take(key)?;
        let table = Self::of(value, self.lines);
        if table.is_none() {
            self.wrong(value, key, "a table");
        }
        table
    }

    /// Something is wrong with the table as a whole.
    pub(crate) fn problem(&mut self, message: String) {
        let line = Some(self.line);
        self.problems.push(FileProblem { line, message });
    }

    pub(crate) fn wrong(&mut self, value: &Spanned<DeValue<'_>>, key: &str, expected: &str) {
        self.problems.push(FileProblem {
            line: Some(self.lines.at(value.span().start)),
            message: format!("`{key}` must be {expected}, not {}", kind(value.get_ref())),
        });
    }

    /// Every key that nobody took is a problem.
    pub(crate) fn finish(&mut self, known: &[&str]) {
        // A mistyped key may be a limit of a rule, and without it the rule would say more.
        for (key, (line, _)) in std::mem::take(&mut self.keys) {
            self.problems.push(FileProblem {
                line: Some(line),
                message: unknown_key(key, known),
            });
        }
    }
}

/// What kind of value it is, with its article.
pub(crate) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a switch",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
