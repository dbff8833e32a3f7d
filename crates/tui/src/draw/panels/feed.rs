//! What happened, newest first.

use countersign_protocol::HostEvent;
use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::draw::DrawReport;
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::feed::{FeedRows, describe};
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::theme::Role;

use super::first_row;

const NAME_COLUMNS: usize = 12;
/// Lines of an event that is shown in full.
const EXPANDED_LINES: usize = 4;

pub(super) fn title(model: &Model, spec: &PanelSpec) -> String {
    let filter = model.view(&spec.id).filter;
    let filter = if filter.is_empty() {
        String::new()
    } else {
        format!(" /{}", escape::line(&filter))
    };
    format!("Feed: {}{filter}", model.feed.filter.name())
}

pub(super) fn draw(
    model: &Model,
    spec: &PanelSpec,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let view = model.view(&spec.id);
    let events = model.feed_rows(&view.filter);
    if events.is_empty() {
        let text = if model.feed.is_loaded {
            "  nothing"
        } else {
            "  reading the record"
        };
        canvas.put_shown(area.x, area.y, area.width, text, Role::Dim);
        return;
    }
    let selected = view.cursor.min(events.len() - 1);
    let lines_each = match model.feed.rows {
        FeedRows::Compact => 1,
        FeedRows::Expanded => EXPANDED_LINES,
    };
    let rows_fit = u16::try_from((usize::from(area.height) / lines_each).max(1)).unwrap_or(1);
    let first = first_row(selected, rows_fit);
    let mut y = area.y;
    for (index, event) in events.iter().enumerate().skip(first) {
        let lines = event_lines(model, event, index == selected, lines_each, area.width);
        for (offset, line) in lines.iter().enumerate() {
            if y >= area.bottom() {
                return;
            }
            let row = Rect {
                y,
                height: 1,
                ..area
            };
            canvas.put_line(row, line);
            if index == selected && offset == 0 && is_focused {
                canvas.select_row(row);
                report.cursor = Some((area.x, y));
            }
            y += 1;
        }
    }
}

fn event_lines(
    model: &Model,
    event: &HostEvent,
    is_selected: bool,
    lines_max: usize,
    width: u16,
) -> Vec<TextLine> {
    let mark = if is_selected {
        model.glyphs.selected
    } else {
        ' '
    };
    let age = duration::age(model.now.wall, event.timestamp);
    let agent = event
        .agent_name
        .as_deref()
        .or(event.agent_id.as_deref())
        .unwrap_or("");
    let name = EscapedText::line(agent)
        .truncated(NAME_COLUMNS)
        .padded(NAME_COLUMNS);
    let role = match event.kind.as_str() {
        "approval.requested" | "question.asked" | "question.escalated" => Role::Ask,
        "agent.exited" => Role::Warn,
        _ => Role::Text,
    };
    let text = EscapedText::shown(describe(event));
    let indent = 7 + NAME_COLUMNS + 1;
    let room = usize::from(width).saturating_sub(indent).max(1);
    let pieces = if lines_max == 1 {
        text.lines().take(1).collect()
    } else {
        text.wrapped(room)
    };
    let lines = pieces
        .into_iter()
        .take(lines_max)
        .enumerate()
        .map(|(index, piece)| {
            let mut line = TextLine::default();
            if index == 0 {
                line.push_shown(format!("{mark}{age:>4}  "), Role::Dim);
                line.push(name.clone(), Role::Dim);
                line.push(" ", Role::Text);
            } else {
                line.push_shown(" ".repeat(indent), Role::Text);
            }
            line.push(piece, role);
            line
        });
    lines.collect()
}
