//! Words for people on the terminal: columns, colours, JSON for programs.
//!
//! Invariants: data goes to stdout and everything else to stderr; colour never says anything
//! that a word does not.

use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use countersign_core::JsonMembers;
use serde::Serialize;
use serde_json::value::RawValue;
use unicode_width::UnicodeWidthStr as _;

use crate::error::CliError;
use crate::fit;

/// How wide a list may be when nobody looks at it.
const WIDTH_UNSEEN: usize = 160;

pub(crate) const HEAD: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
pub(crate) const WARNING: Style =
    Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
/// Black on white, whatever the colours of the terminal are.
pub(crate) const PAPER: Style = Style::new()
    .fg_color(Some(anstyle::Color::Ansi(AnsiColor::Black)))
    .bg_color(Some(anstyle::Color::Ansi(AnsiColor::BrightWhite)));
pub(crate) const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

/// The style of the state of an agent or an ask. The word itself says what the colour does.
pub(crate) fn state_style(text: &str) -> Style {
    let word = text.split([' ', ',']).next().unwrap_or_default();
    match word {
        _ if text.contains("BYPASS") => BAD,
        "awaiting_permission" | "waiting" | "pending" | "ask" | "expired" => WARNING,
        "running" | "starting" | "allowed" | "allow" => GOOD,
        "error" | "denied" | "deny" | "gone" => BAD,
        _ => Style::new(),
    }
}

/// Puts text on stdout. Colours stay only on a terminal.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        // The reader, `head` for example, has seen enough.
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::io("could not write to stdout", error),
    })
}

/// One JSON document on stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print(&json_line(value)?)
}

/// An agent or an ask as `--json` prints it: without `status`, the host wire's second word for what
/// `state` says. Everything else stays to the byte, repeated keys of an input included.
pub(crate) fn json_row(row: &impl Serialize) -> Result<Box<RawValue>, CliError> {
    let text = serde_json::to_string(row).map_err(json_error)?;
    let members: JsonMembers<'_> = serde_json::from_str(&text).map_err(json_error)?;
    let kept = members.0.iter().filter(|(name, _)| name != "status");
    let kept = kept.map(|(name, value)| Ok(format!("{}:{value}", serde_json::to_string(name)?)));
    let kept: Result<Vec<String>, serde_json::Error> = kept.collect();
    let text = format!("{{{}}}", kept.map_err(json_error)?.join(","));
    RawValue::from_string(text).map_err(json_error)
}

fn json_error(error: serde_json::Error) -> CliError {
    CliError::io("could not print JSON", error.into())
}

/// The same for each of them.
pub(crate) fn json_rows<'r, R: Serialize + 'r>(
    rows: impl IntoIterator<Item = &'r R>,
) -> Result<Vec<Box<RawValue>>, CliError> {
    rows.into_iter().map(json_row).collect()
}

/// One JSON document and its line end.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string(value).map_err(json_error)?;
    Ok(text + "\n")
}

/// Tells the person something that is not data. Nothing can be done if even that fails.
pub(crate) fn print_message(text: impl Display) {
    let mut out = anstream::stderr().lock();
    writeln!(out, "{text}").ok();
}

/// The same for something that must not be overlooked. The colour only repeats what the text says.
pub(crate) fn print_warning(text: impl Display) {
    print_message(format_args!("{WARNING}{text}{WARNING:#}"));
}

/// `1 agent`, `2 agents`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// How wide lists may be.
pub(crate) fn list_width() -> usize {
    if !io::stdout().is_terminal() {
        return WIDTH_UNSEEN;
    }
    crossterm::terminal::size().map_or(WIDTH_UNSEEN, |(width, _)| usize::from(width).max(40))
}

/// The style of a cell: of the row's cells, the one under this heading.
pub(crate) type CellStyle = fn(heading: &str, cell: &str) -> Style;

/// Aligned columns under a heading, the last one cut to fit `width`.
pub(crate) fn columns(heading: &[&str], rows: &[Vec<String>], width: usize) -> String {
    styled_columns(heading, rows, width, |_, _| Style::new())
}

/// The same, with a style for each cell.
pub(crate) fn styled_columns(
    heading: &[&str],
    rows: &[Vec<String>],
    width: usize,
    style: CellStyle,
) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|text| text.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let names: Vec<String> = heading.iter().map(|&text| text.to_owned()).collect();
    let mut text = row_line(&names, &widths, width, |_| HEAD);
    for row in rows {
        text.push_str(&row_line(row, &widths, width, |column| {
            style(heading[column], &row[column])
        }));
    }
    text
}

/// One line. Styles are put around what is left of a cell after it was cut, so that they count for
/// nothing in its width.
fn row_line(
    cells: &[String],
    widths: &[usize],
    width: usize,
    style: impl Fn(usize) -> Style,
) -> String {
    let filled = cells.iter().rposition(|cell| !cell.is_empty());
    let mut line = String::new();
    let (mut used, mut gap) = (0, 0);
    for (index, cell) in cells.iter().enumerate().take(filled.map_or(0, |at| at + 1)) {
        if used + gap >= width {
            break;
        }
        line.push_str(&" ".repeat(gap));
        used += gap;
        let shown = fit::truncate(cell, width - used);
        let style = style(index);
        // Writing into a text cannot fail.
        let _ = write!(line, "{style}{shown}{style:#}");
        used += shown.width();
        gap = widths[index].saturating_sub(cell.width()) + 2;
    }
    line.push('\n');
    line
}

/// A path with `~` for the home folder.
pub(crate) fn short_path(path: &str, home: &str) -> String {
    let rest = path.strip_prefix(home).filter(|_| !home.is_empty());
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

/// The folder that [`short_path`] leaves out; empty if it is not known.
pub(crate) fn home_folder() -> String {
    std::env::var("HOME").unwrap_or_default()
}

/// Names and values, the names aligned; further lines of a value stand under its first.
pub(crate) fn fields(pairs: &[(&str, String)]) -> String {
    let widths = pairs.iter().map(|(name, _)| name.width());
    let width = widths.max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in pairs {
        let pad = " ".repeat(width - name.width());
        let mut label = format!("{HEAD}{name}{HEAD:#}{pad}");
        for line in value.split('\n') {
            let line = styled_value(name, line);
            text.extend([label.as_str(), "  ", &line, "\n"]);
            label = " ".repeat(width);
        }
    }
    text
}

/// A line of a value in the colour of what it says.
fn styled_value(name: &str, line: &str) -> String {
    let style = match name {
        "warning" | "doubt" => WARNING,
        "diff" if line.starts_with('+') => GOOD,
        "diff" if line.starts_with('-') => BAD,
        "state" | "rules" => return styled_word(line),
        _ => return line.to_owned(),
    };
    format!("{style}{line}{style:#}")
}

/// A line whose first word is a state or an effect, with that word in its colour.
pub(crate) fn styled_word(line: &str) -> String {
    let end = line.find([' ', ',']).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    let style = state_style(word);
    format!("{style}{word}{style:#}{rest}")
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
    fn a_row_has_one_word_for_its_state_and_keeps_its_input_to_the_byte() {
        let row = countersign_protocol::HostApproval {
            input: Some(crate::test_rows::raw(r#"{"a": 1.50, "a":2,"status":"x"}"#)),
            ..crate::test_rows::approval()
        };
        let text = json_row(&row).unwrap().get().to_owned();
        assert!(
            text.contains(r#""input":{"a": 1.50, "a":2,"status":"x"}"#),
            "{text}"
        );
        assert!(text.contains(r#""state":"pending""#), "{text}");
        assert!(!text.contains(r#""status":"pending""#), "{text}");
    }

    #[test]
    fn colour_only_repeats_what_a_word_says() {
        let pairs = [
            ("state", "denied by ada".to_owned()),
            ("rules", "ask, because:\nallow  ls  <- no rule".to_owned()),
            ("warning", "look".to_owned()),
        ];
        let text = fields(&pairs);
        let coloured = format!("{BAD}denied{BAD:#} by ada");
        assert!(text.contains(&coloured), "{text:?}");
        assert!(
            text.contains(&format!("{GOOD}allow{GOOD:#}  ls")),
            "{text:?}"
        );
        assert!(
            text.contains(&format!("{WARNING}look{WARNING:#}")),
            "{text:?}"
        );
        let row = vec![vec!["running".to_owned(), "x".to_owned()]];
        let styled = styled_columns(&["STATE", "B"], &row, 80, |_, cell| state_style(cell));
        let bare = columns(&["STATE", "B"], &row, 80);
        assert_eq!(plain(&styled), plain(&bare));
        assert_ne!(styled, bare);
    }

    #[test]
    fn values_of_many_lines_stay_in_their_column() {
        let pairs = [("id", "1".to_owned()), ("input", "{\n}".to_owned())];
        assert_eq!(plain(&fields(&pairs)), "id     1\ninput  {\n       }\n");
    }
}
