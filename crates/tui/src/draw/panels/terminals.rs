//! What the commands of an agent print, read only.

use countersign_protocol::TerminalRow;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr as _;

use crate::agent_terminals::AgentTerminals;
use crate::canvas::{Canvas, TextLine};
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::theme::{ColorDepth, Role};

pub(super) fn title(model: &Model, spec: &PanelSpec) -> String {
    match model.panel_agent(spec) {
        Some(agent) => format!("Terminals of {}", escape::line(&agent.name)),
        None => "Terminals".to_owned(),
    }
}

pub(super) fn draw(model: &Model, spec: &PanelSpec, area: Rect, canvas: &mut Canvas<'_>) {
    let agent = model.panel_agent(spec);
    let terminals = agent.and_then(|agent| model.terminals.get(&agent.id));
    let Some((terminals, row)) =
        terminals.and_then(|terminals| Some((terminals, terminals.selected()?)))
    else {
        let problem = terminals.and_then(|terminals| terminals.problem.as_deref());
        let text = match (problem, terminals) {
            (Some(problem), _) => format!("  {}", escape::line(problem)),
            (None, Some(terminals)) if terminals.is_loaded => {
                "  no command of it ran in a terminal".to_owned()
            }
            _ if agent.is_none() => "  no agent is selected".to_owned(),
            _ => "  reading".to_owned(),
        };
        canvas.put_shown(area.x, area.y, area.width, &text, Role::Dim);
        return;
    };
    canvas.put_line(area, &heading(model, terminals, row));
    let below = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    if let Some(screen) = terminals
        .screen
        .as_ref()
        .filter(|screen| screen.id == row.id)
    {
        draw_cells(screen.screen(), 0, below, canvas);
    }
}

/// Which terminal it is, and how its command goes.
fn heading(model: &Model, terminals: &AgentTerminals, row: &TerminalRow) -> TextLine {
    let (index, count) = (terminals.selected_index() + 1, terminals.rows.len());
    let mut line = TextLine::shown(format!(" {index} of {count}  "), Role::Dim);
    let (text, role) = match (row.exit_code, &row.signal) {
        (Some(0), _) => ("done".to_owned(), Role::Good),
        (Some(code), _) => (format!("exit {code}"), Role::Bad),
        (None, Some(signal)) => (format!("ended by {}", escape::line(signal)), Role::Bad),
        (None, None) if row.ended_at.is_some() => ("ended".to_owned(), Role::Dim),
        (None, None) => ("running".to_owned(), Role::Strong),
    };
    line.push_shown(text, role);
    let age = duration::age(model.now.wall, row.started_at);
    line.push_shown(format!("  {age}  "), Role::Dim);
    let screen = terminals.screen.as_ref();
    let back = screen.map_or(0, |screen| screen.screen().scrollback());
    if back > 0 {
        line.push_shown(format!("{back} lines back  "), Role::Warn);
    }
    if screen.is_some_and(|screen| screen.is_cut) {
        line.push_shown("its beginning is not kept  ", Role::Warn);
    }
    line.push(EscapedText::line(&row.command), Role::Text);
    line
}

/// Draws cells from a row on.
pub(super) fn draw_cells(screen: &vt100::Screen, first: u16, area: Rect, canvas: &mut Canvas<'_>) {
    let (rows, columns) = screen.size();
    let area = area.intersection(canvas.buffer.area);
    for row in 0..rows.saturating_sub(first).min(area.height) {
        for column in 0..columns.min(area.width) {
            let Some(cell) = screen.cell(first + row, column) else {
                continue;
            };
            if cell.is_wide_continuation() {
                continue;
            }
            let room = usize::from(area.width - column);
            let (symbol, style) = match shown_symbol(cell.contents(), room) {
                Some(symbol) => (symbol, cell_style(cell, canvas.theme.depth())),
                // Cells have no room for an escape: the mark says that something is there.
                None => ("?", canvas.theme.style(Role::Warn)),
            };
            if let Some(target) = canvas.buffer.cell_mut((area.x + column, area.y + row)) {
                target.set_symbol(symbol).set_style(style);
            }
        }
    }
}

/// What a cell shows, if that is what it looks like.
fn shown_symbol(contents: &str, room: usize) -> Option<&str> {
    if contents.is_empty() {
        return Some(" ");
    }
    let is_plain = escape::line(contents) == contents && contents.width() <= room.min(2);
    is_plain.then_some(contents)
}

fn cell_style(cell: &vt100::Cell, depth: ColorDepth) -> Style {
    let weights = [
        (cell.bold(), Modifier::BOLD),
        (cell.dim(), Modifier::DIM),
        (cell.italic(), Modifier::ITALIC),
        (cell.underline(), Modifier::UNDERLINED),
        (cell.inverse(), Modifier::REVERSED),
    ];
    let set = weights.into_iter().filter(|(is_set, _)| *is_set);
    let modifiers = set.fold(Modifier::empty(), |all, (_, one)| all | one);
    let style = Style::new().add_modifier(modifiers);
    style
        .fg(cell_color(cell.fgcolor(), depth))
        .bg(cell_color(cell.bgcolor(), depth))
}

/// A colour, where the terminal has it.
fn cell_color(color: vt100::Color, depth: ColorDepth) -> Color {
    match (depth, color) {
        (ColorDepth::Sixteen | ColorDepth::Full, vt100::Color::Idx(index)) if index < 16 => {
            Color::Indexed(index)
        }
        (ColorDepth::Full, vt100::Color::Idx(index)) => Color::Indexed(index),
        (ColorDepth::Full, vt100::Color::Rgb(red, green, blue)) => Color::Rgb(red, green, blue),
        _ => Color::Reset,
    }
}
