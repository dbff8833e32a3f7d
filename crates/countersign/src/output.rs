//! Words for people on the terminal: columns, colours, JSON for programs.
//!
//! Invariants: data goes to stdout and everything else to stderr; colour never says anything
//! that a word does not.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::error::CliError;

/// How wide a list may be when nobody looks at it.
const WIDTH_UNSEEN: usize = 160;

pub(crate) const HEAD: Style = Style::new().bold();
pub(crate) const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
pub(crate) const WARNING: Style =
    Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
pub(crate) const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

/// Puts text on stdout. Colours stay only on a terminal.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::io("could not write to stdout", error),
    })
}

/// One JSON document on stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print(&json_line(value)?)
}

/// One JSON document and its line end.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string(value)
        .map_err(|error| CliError::io("could not print JSON", error.into()))?;
    Ok(text + "\n")
}

/// Tells the person something that is not data. Nothing can be done if even that fails.
pub(crate) fn print_message(text: impl Display) {
    let mut out = anstream::stderr().lock();
    writeln!(out, "{text}").ok();
}

/// How wide lists may be.
pub(crate) fn list_width() -> usize {
    if !io::stdout().is_terminal() {
        return WIDTH_UNSEEN;
    }
    crossterm::terminal::size().map_or(WIDTH_UNSEEN, |(width, _)| usize::from(width).max(40))
}

/// Aligned columns under a heading, the last one cut to fit `width`.
pub(crate) fn columns(heading: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|text| text.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let heading: Vec<String> = heading.iter().map(|&text| text.to_owned()).collect();
    let first = row_line(&heading, &widths, width);
    let mut text = format!("{HEAD}{first}{HEAD:#}\n");
    for row in rows {
        text.push_str(&row_line(row, &widths, width));
        text.push('\n');
    }
    text
}

fn row_line(cells: &[String], widths: &[usize], width: usize) -> String {
    let mut line = String::new();
    let last = cells.len().saturating_sub(1);
    for (index, (cell, column)) in cells.iter().zip(widths).enumerate() {
        line.push_str(cell);
        if index < last {
            line.push_str(&" ".repeat(column.saturating_sub(cell.width()) + 2));
        }
    }
    truncate(line.trim_end(), width)
}

/// The beginning of a text, with `…` where something is left out.
pub(crate) fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// Names and values, the names aligned; further lines of a value stand under its first.
pub(crate) fn fields(pairs: &[(&str, String)]) -> String {
    let width = pairs
        .iter()
        .map(|(name, _)| name.width())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (name, value) in pairs {
        let pad = " ".repeat(width - name.width());
        let mut label = format!("{HEAD}{name}{HEAD:#}{pad}");
        for line in value.split('\n') {
            text.extend([label.as_str(), "  ", line, "\n"]);
            label = " ".repeat(width);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn columns_are_aligned_and_the_last_is_cut() {
        let rows = vec![
            vec!["3m".into(), "日本".into(), "cargo test --workspace".into()],
            vec!["12h".into(), "b".into(), "ls".into()],
        ];
        assert_eq!(
            plain(&columns(&["AGE", "WHO", "WHAT"], &rows, 20)),
            "AGE  WHO   WHAT\n3m   日本  cargo te…\n12h  b     ls\n"
        );
    }

    #[test]
    fn a_cut_text_never_exceeds_its_width() {
        assert_eq!(truncate("日本語", 5), "日本…");
        assert_eq!(truncate("日本語", 4), "日…");
        assert_eq!(truncate("abc", 3), "abc");
    }

    #[test]
    fn values_of_many_lines_stay_in_their_column() {
        let pairs = [("id", "1".to_owned()), ("input", "{\n}".to_owned())];
        assert_eq!(plain(&fields(&pairs)), "id     1\ninput  {\n       }\n");
    }
}
