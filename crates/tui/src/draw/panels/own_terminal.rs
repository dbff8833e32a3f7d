//! A person's own terminal. Its cells go through the escaper like those of agents' terminals: what runs in it shows
//! text from anywhere.

use ratatui::layout::Rect;

use crate::agent_terminals::TerminalScreen;
use crate::canvas::{Canvas, TextLine};
use crate::draw::DrawReport;
use crate::escaped_text::EscapedText;
use crate::model::Model;
use crate::own_terminals::OwnTerminals;
use crate::render::escape;
use crate::theme::Role;

use super::terminals::draw_cells;

pub(super) fn title(model: &Model) -> String {
    match model.own_terminals.rows.len() {
        0 | 1 => "Terminal".to_owned(),
        count => format!(
            "Terminal {} of {count}",
            model.own_terminals.selected_index() + 1
        ),
    }
}

pub(super) fn draw(
    model: &Model,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let own = &model.own_terminals;
    if own.selected().is_none() {
        let text = match &own.problem {
            Some(problem) => format!("  {}", escape::line(problem)),
            None if !own.rows.is_empty() => {
                "  this terminal was closed: Ctrl-g ] shows another, Enter opens one".to_owned()
            }
            None if own.is_loaded => "  no terminal is open: Enter opens one".to_owned(),
            None => "  reading".to_owned(),
        };
        canvas.put_shown(area.x, area.y, area.width, &text, Role::Dim);
        return;
    }
    canvas.put_line(area, &heading(model, own));
    let below = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    if let Some(screen) = &own.screen {
        draw_cells(screen.screen(), 0, below, canvas);
        if is_focused && model.overlay.is_none() {
            report.cursor = find_cursor(screen, below);
        }
    }
}

/// How its program goes, what it is, and the one key that is the screen's.
fn heading(model: &Model, own: &OwnTerminals) -> TextLine {
    let Some(row) = own.selected() else {
        return TextLine::default();
    };
    let (text, role) = match (row.exit_code, &row.signal) {
        (Some(0), _) => ("done".to_owned(), Role::Good),
        (Some(code), _) => (format!("exit {code}"), Role::Bad),
        (None, Some(signal)) => (format!("ended by {}", escape::line(signal)), Role::Bad),
        (None, None) if row.ended_at.is_some() => ("ended".to_owned(), Role::Dim),
        (None, None) if !model.host.is_up() => ("not connected".to_owned(), Role::Warn),
        (None, None) => ("Ctrl-g for the screen".to_owned(), Role::Dim),
    };
    let mut line = TextLine::shown(format!(" {text}  "), role);
    let back = own
        .screen
        .as_ref()
        .map_or(0, |screen| screen.screen().scrollback());
    if back > 0 {
        line.push_shown(format!("{back} lines back  "), Role::Warn);
    }
    if own.screen.as_ref().is_some_and(|screen| screen.is_cut) {
        line.push_shown("its beginning is not kept  ", Role::Warn);
    }
    line.push(EscapedText::line(&row.command), Role::Text);
    if let Some(cwd) = &row.cwd {
        line.push_shown("  ", Role::Dim);
        line.push(EscapedText::line(cwd), Role::Dim);
    }
    line
}

fn find_cursor(screen: &TerminalScreen, area: Rect) -> Option<(u16, u16)> {
    let shown = screen.screen();
    let (row, column) = shown.cursor_position();
    let is_shown = !shown.hide_cursor() && shown.scrollback() == 0;
    (is_shown && row < area.height && column < area.width).then(|| (area.x + column, area.y + row))
}
