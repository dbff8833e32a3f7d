//! Boxes over the panels: palette, lists, keys, notices.

use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::command::find_command;
use crate::model::{ListChoice, Model, Overlay, PaletteEntry};
use crate::render::escape;
use crate::theme::Role;
use crate::update::palette_entries;

use super::DrawReport;

/// Draws the box, and says whether there is one.
pub(super) fn draw(
    model: &Model,
    area: Rect,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) -> bool {
    match &model.overlay {
        None | Some(Overlay::Text { .. } | Overlay::Confirm { .. }) => return false,
        Some(Overlay::Palette { text, selected }) => {
            let entries = palette_entries(model, &text.text());
            let lines: Vec<TextLine> = entries.iter().map(entry_line).collect();
            let mut title = TextLine::new(" : ", Role::Focus);
            title.push_shown(escape::line(&text.text()).into_owned(), Role::Strong);
            title.push_shown(format!("{} ", model.glyphs.cursor), Role::Focus);
            draw_list(model, area, &title, &lines, Some(*selected), canvas, report);
        }
        Some(Overlay::List {
            title,
            choices,
            selected,
            ..
        }) => {
            let lines: Vec<TextLine> = choices.iter().map(choice_line).collect();
            let title = TextLine::shown(format!(" {title} "), Role::Focus);
            draw_list(model, area, &title, &lines, Some(*selected), canvas, report);
        }
        Some(Overlay::Keys { scroll }) => {
            let title = TextLine::shown(
                format!(" keys in {} ", model.focused_kind().name()),
                Role::Focus,
            );
            draw_text(model, area, &title, &key_lines(model), *scroll, canvas);
        }
        Some(Overlay::Notices { scroll }) => {
            let log = model.notices.log.iter().rev();
            let lines: Vec<TextLine> = log
                .map(|notice| {
                    let age = model.now.ms.saturating_sub(notice.at) / 1_000;
                    let mut line = TextLine::shown(format!("{age:>5}s ago  "), Role::Dim);
                    line.push(notice.text.clone(), Role::Text);
                    line
                })
                .collect();
            draw_text(
                model,
                area,
                &TextLine::new(" notices ", Role::Focus),
                &lines,
                *scroll,
                canvas,
            );
        }
    }
    true
}

fn entry_line(entry: &PaletteEntry) -> TextLine {
    let role = if entry.why_not.is_some() {
        Role::Dim
    } else {
        Role::Text
    };
    let mut line = TextLine::shown(format!("{:<9}", entry.key), Role::Focus);
    line.push_shown(entry.text.clone(), role);
    if let Some(why) = &entry.why_not {
        line.push_shown(format!("  ({why})"), Role::Dim);
    }
    line
}

fn choice_line(choice: &ListChoice) -> TextLine {
    let mut line = TextLine::shown(escape::line(&choice.value).into_owned(), Role::Text);
    if !choice.note.is_empty() {
        line.push_shown(format!("  {}", escape::line(&choice.note)), Role::Dim);
    }
    line
}

/// The keys of the focused panel, those of its own first.
fn key_lines(model: &Model) -> Vec<TextLine> {
    let commands = model.keymap.commands_in(model.focused_kind());
    let (own, common): (Vec<_>, Vec<_>) = commands
        .into_iter()
        .partition(|(_, command)| matches!(command.place, crate::command::CommandPlace::Panels(_)));
    let all = own.into_iter().chain(common);
    let lines = all.map(|(key, command)| {
        let why = crate::update::why_not(model, command.action);
        let role = if why.is_some() { Role::Dim } else { Role::Text };
        let mut line = TextLine::shown(format!("{key:>10}  "), Role::Focus);
        line.push(
            find_command(command.action).map_or("", |command| command.word),
            role,
        );
        if let Some(why) = why {
            line.push_shown(format!("  ({why})"), Role::Dim);
        }
        line
    });
    lines.collect()
}

/// The box in the middle of the screen.
fn box_area(area: Rect, rows: usize) -> Rect {
    let width = area.width.saturating_sub(4).min(90);
    let height = u16::try_from(rows + 2)
        .unwrap_or(u16::MAX)
        .min(area.height.saturating_sub(3));
    Rect {
        x: (area.width - width) / 2,
        y: 1 + (area.height - height) / 4,
        width,
        height,
    }
}

fn draw_frame(model: &Model, frame: Rect, title: &TextLine, canvas: &mut Canvas<'_>) -> Rect {
    let cleared = Rect {
        x: frame.x.saturating_sub(1),
        width: frame.width + 2,
        ..frame
    };
    canvas.clear(cleared);
    canvas.rule(frame, title);
    let last = Rect {
        y: frame.bottom() - 1,
        height: 1,
        ..frame
    };
    canvas.rule(last, &TextLine::default());
    let side = model.glyphs.vertical.to_string();
    for y in frame.y..frame.bottom() {
        canvas.put_shown(frame.x, y, 1, &side, Role::Border);
        canvas.put_shown(frame.right() - 1, y, 1, &side, Role::Border);
    }
    Rect {
        x: frame.x + 2,
        y: frame.y + 1,
        width: frame.width.saturating_sub(4),
        height: frame.height.saturating_sub(2),
    }
}

fn draw_list(
    model: &Model,
    area: Rect,
    title: &TextLine,
    lines: &[TextLine],
    selected: Option<usize>,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let frame = box_area(area, lines.len().max(1));
    let inner = draw_frame(model, frame, title, canvas);
    let selected = selected.map(|selected| selected.min(lines.len().saturating_sub(1)));
    let first = (selected.unwrap_or(0) + 1).saturating_sub(usize::from(inner.height).max(1));
    canvas.put_lines(inner, lines.iter().skip(first));
    if let Some(selected) = selected.filter(|_| !lines.is_empty()) {
        let offset = u16::try_from(selected - first).unwrap_or(0);
        let row = Rect {
            y: inner.y + offset,
            height: 1,
            ..inner
        };
        canvas.select_row(row);
        report.cursor = Some((row.x, row.y));
    }
}

fn draw_text(
    model: &Model,
    area: Rect,
    title: &TextLine,
    lines: &[TextLine],
    scroll: usize,
    canvas: &mut Canvas<'_>,
) {
    let frame = box_area(area, lines.len().max(1));
    let inner = draw_frame(model, frame, title, canvas);
    let last = lines.len().saturating_sub(inner.height.into());
    canvas.put_lines(inner, lines.iter().skip(scroll.min(last)));
}
