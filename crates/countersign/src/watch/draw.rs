//! The picture of a screen, line by line. Pure.
//!
//! Invariant: what the selected item would do is shown whole, over as many lines as it takes; a line
//! that goes on below has its mark in a column that no agent can write to.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::screen::{HostPresence, InputMode, WatchScreen};
use crate::duration;
use crate::fit::{self, wrap};
use crate::render::inbox_item::{InboxContent, InboxItem};
use crate::render::{approvals, escape};

/// Where values begin: the longest name, and two columns for marks.
const LABEL: usize = 11;
/// Smaller than this and nothing can be read, so nothing can be decided.
const WIDTH_MIN: usize = 40;
const HEIGHT_MIN: usize = 10;
/// What the host said about a refusal must not push the ask itself off the screen.
const NOTE_LINES_MAX: usize = 2;
/// Nor must broken files and bypasses.
const WARNING_LINES_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineTone {
    Plain,
    Strong,
    Faint,
    Reverse,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScreenLine {
    pub(super) text: String,
    pub(super) tone: LineTone,
}

fn line(text: impl Into<String>, tone: LineTone) -> ScreenLine {
    ScreenLine {
        text: text.into(),
        tone,
    }
}

/// A picture, and how much of the selected item it holds.
pub(super) struct ScreenFrame {
    pub(super) lines: Vec<ScreenLine>,
    /// Lines that fit, and lines there are.
    pub(super) page: usize,
    pub(super) body: usize,
}

pub(super) fn draw(screen: &WatchScreen, width: usize, height: usize) -> ScreenFrame {
    if width < WIDTH_MIN || height < HEIGHT_MIN {
        let text = fit::truncate("the window is too small", width);
        // No room and one line to show: `record_drawn` never counts that as read, so nothing can be
        // approved unseen in a tiny window.
        return ScreenFrame {
            lines: vec![line(text, LineTone::Plain)],
            page: 0,
            body: 1,
        };
    }
    let footer = footer(screen, width);
    let body = screen
        .selected_item()
        .map(|item| body(item, screen, width))
        .unwrap_or_default();
    // On a small screen the ask needs the room.
    let cares = warning_lines(
        screen,
        width,
        if height < 16 { 1 } else { WARNING_LINES_MAX },
    );
    // The list gets a third of what is left: the selected item must be readable whole.
    let rest = height.saturating_sub(cares.len());
    let list = list(screen, width, (rest / 3).max(1));
    let page = height.saturating_sub(2 + cares.len() + list.len() + footer.len());
    let scroll = screen.scroll.min(body.len().saturating_sub(page.max(1)));
    let total = body.len();
    let mut lines = vec![header(screen, width)];
    lines.extend(cares);
    lines.extend(list);
    lines.push(divider(screen, width, scroll, page, total));
    lines.extend(body.into_iter().skip(scroll).take(page));
    // Filled up, so that the footer is at the bottom and the rest of a longer picture is overwritten.
    lines.resize(height - footer.len(), line("", LineTone::Plain));
    lines.extend(footer);
    ScreenFrame {
        lines,
        page,
        body: total,
    }
}

fn header(screen: &WatchScreen, width: usize) -> ScreenLine {
    let (asks, questions) = (count_open(screen, "ask"), count_open(screen, "question"));
    let notes = match count_open(screen, "note") {
        0 => String::new(),
        notes => format!("  notes: {notes}"),
    };
    let link = match screen.link {
        HostPresence::Up => "connected",
        HostPresence::Lost => "HOST LOST, waiting for it",
    };
    let text = format!("countersign  asks: {asks}  questions: {questions}{notes}  {link}");
    line(fit::truncate(&text, width), LineTone::Strong)
}

fn count_open(screen: &WatchScreen, kind: &str) -> usize {
    let open = screen.items.iter().filter(|item| item.ended.is_none());
    open.filter(|item| item.kind() == kind).count()
}

/// What must be seen whatever is selected, within bounds: the ask itself comes first.
fn warning_lines(screen: &WatchScreen, width: usize, lines_max: usize) -> Vec<ScreenLine> {
    let all = screen.warnings.lines(screen.wall);
    let fits = if all.len() > lines_max {
        lines_max - 1
    } else {
        all.len()
    };
    let more = all.len() - fits;
    let shown = all.iter().take(fits);
    let mut lines: Vec<ScreenLine> = shown
        .map(|text| line(fit::truncate(text, width), LineTone::Strong))
        .collect();
    if more > 0 {
        let text = format!("{more} MORE WARNINGS: see `countersign status`");
        lines.push(line(fit::truncate(&text, width), LineTone::Strong));
    }
    lines
}

/// The list, moved so that the selected row is in it.
fn list(screen: &WatchScreen, width: usize, rows_max: usize) -> Vec<ScreenLine> {
    if screen.items.is_empty() {
        return vec![line("  inbox empty", LineTone::Faint)];
    }
    let selected = screen.selected_index();
    let rows = rows_max.min(screen.items.len());
    let first = (selected.unwrap_or(0) + 1).saturating_sub(rows);
    let shown = screen.items.iter().enumerate().skip(first).take(rows);
    shown
        .map(|(index, item)| list_line(screen, item, Some(index) == selected, width))
        .collect()
}

fn list_line(screen: &WatchScreen, item: &InboxItem, selected: bool, width: usize) -> ScreenLine {
    let mark = if selected { '>' } else { ' ' };
    let age = duration::age(screen.wall, item.created_at());
    let who = fit::truncate(&item.asker(), 12);
    let pad = " ".repeat(12 - who.width());
    let what = match &item.ended {
        Some(ended) => format!("ENDED: {ended}"),
        None => item.summary(screen.wall),
    };
    let text = format!(
        "{mark} {:<8}  {:<8}  {age:>4}  {who}{pad}  {what}",
        item.short_id(),
        item.kind()
    );
    line(
        fit::truncate(&text, width),
        if selected {
            LineTone::Reverse
        } else {
            LineTone::Plain
        },
    )
}

fn divider(
    screen: &WatchScreen,
    width: usize,
    scroll: usize,
    page: usize,
    total: usize,
) -> ScreenLine {
    let text = match screen.selected_item() {
        None => String::new(),
        Some(_) if total <= page => String::new(),
        Some(_) => {
            let end = (scroll + page).min(total);
            let more = if end < total {
                ", more below: PgDn"
            } else {
                ""
            };
            format!("── lines {}-{end} of {total}{more} ", scroll + 1)
        }
    };
    let rest = width.saturating_sub(text.width());
    line(format!("{text}{}", "─".repeat(rest)), LineTone::Faint)
}

/// The selected item, whole.
fn body(item: &InboxItem, screen: &WatchScreen, width: usize) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    if let Some(ended) = &item.ended {
        let text = format!("this ended: {ended}");
        lines.extend(
            wrap(&text, width)
                .into_iter()
                .map(|text| line(text, LineTone::Strong)),
        );
    }
    let rules = match &screen.mode {
        InputMode::Save { rules, .. } => Some(("to save", rules_notice(rules))),
        _ => None,
    };
    let fields = item.fields(screen.wall, screen.detail);
    for (name, value) in rules.into_iter().chain(fields) {
        let mut label = format!("{name:<LABEL$}");
        for written in value.split('\n') {
            for (index, piece) in wrap(written, width - LABEL).into_iter().enumerate() {
                if index > 0 {
                    label = format!("{:>width$} ", "↳", width = LABEL - 1);
                }
                lines.push(line(format!("{label}{piece}"), LineTone::Plain));
                label = " ".repeat(LABEL);
            }
        }
    }
    lines
}

/// The rules that an allow becomes, and where they will count.
fn rules_notice(rules: &[String]) -> String {
    let rules: Vec<_> = rules.iter().map(|rule| escape::line(rule)).collect();
    format!(
        "{}\nfor this project and 30 days (for this session, where there is no project)",
        rules.join("\n")
    )
}

fn footer(screen: &WatchScreen, width: usize) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    if let Some(prompt) = prompt(screen, width) {
        lines.push(line(prompt, LineTone::Strong));
    }
    if !screen.note.is_empty() {
        let note = escape::line(&screen.note);
        lines.extend(
            wrap(&note, width)
                .into_iter()
                .take(NOTE_LINES_MAX)
                .map(|text| line(text, LineTone::Strong)),
        );
    }
    lines.extend(
        wrap_hints(key_hints(screen), width)
            .into_iter()
            .map(|text| line(text, LineTone::Faint)),
    );
    lines
}

/// The line that says what the next key would do.
fn prompt(screen: &WatchScreen, width: usize) -> Option<String> {
    let item = screen.selected_item()?;
    let id = approvals::short_id(item.id());
    let text = match &screen.mode {
        InputMode::Browse => return None,
        InputMode::Confirm { option } => {
            format!(
                "{} {id}? y/n  {}",
                escape::line(option),
                item.summary(screen.wall)
            )
        }
        InputMode::Save { option, rules } => format!(
            "{} {id} and save {} rules, shown above? y/n",
            escape::line(option),
            rules.len()
        ),
        InputMode::Choose { index } => {
            let InboxContent::Ask(row) = &item.content else {
                return None;
            };
            let option = row.options.get(*index).map_or("", String::as_str);
            let allows = if approvals::allows(row, option) {
                " (allows)"
            } else {
                ""
            };
            let total = row.options.len();
            format!(
                "answer {id} with: {}{allows}  ({} of {total})",
                escape::line(option),
                index + 1
            )
        }
        InputMode::TypeDenial { text } => {
            return Some(input_line(&format!("deny {id}, and say: "), text, width));
        }
        InputMode::TypeAnswer { text, given } => {
            let label = match &item.content {
                InboxContent::Ask(row) if row.questions.len() > 1 => {
                    format!("answer {id}, question {}: ", given.len() + 1)
                }
                _ => format!("answer {id}: "),
            };
            return Some(input_line(&label, text, width));
        }
    };
    Some(fit::truncate(&text, width))
}

/// A text that is being typed: its end is what matters.
fn input_line(label: &str, text: &str, width: usize) -> String {
    let text = escape::line(text);
    let room = width.saturating_sub(label.width() + 1);
    let mut begin = text.len();
    let mut used = 0;
    for (index, c) in text.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        begin = index;
    }
    format!("{label}{}_", &text[begin..])
}

fn key_hints(screen: &WatchScreen) -> &'static [&'static str] {
    match screen.mode {
        InputMode::Browse => &[
            "↑/↓ select",
            "a approve",
            "s save as rule",
            "d deny",
            "m deny with a message",
            "r reply",
            "v view all",
            "PgUp/PgDn scroll",
            "q quit",
        ],
        InputMode::Confirm { .. } => &["y yes", "n no"],
        InputMode::Save { .. } => &["y yes", "n no", "PgUp/PgDn scroll"],
        InputMode::Choose { .. } => &["↑/↓ choose", "Enter select", "Esc back"],
        InputMode::TypeDenial { .. } | InputMode::TypeAnswer { .. } => &["Enter send", "Esc back"],
    }
}

fn wrap_hints(text: &[&str], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text {
        match lines.last_mut() {
            Some(last) if last.width() + 3 + word.width() <= width => {
                last.push_str("   ");
                last.push_str(word);
            }
            _ => lines.push((*word).to_owned()),
        }
    }
    lines
}
