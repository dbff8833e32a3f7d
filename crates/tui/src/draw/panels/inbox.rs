//! The inbox: what waits, oldest first.

use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::draw::DrawReport;
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::model::Model;
use crate::render::inbox_item::{InboxContent, InboxItem};
use crate::theme::Role;

use super::first_row;

/// Columns of a name.
const NAME_COLUMNS: usize = 12;

pub(super) fn title(model: &Model) -> String {
    let (listed, all) = (model.inbox_rows().len(), model.inbox.items().len());
    match all {
        0 => "Inbox".to_owned(),
        _ if listed < all => format!("Inbox {listed} of {all}"),
        count => format!("Inbox {count}"),
    }
}

pub(super) fn draw(
    model: &Model,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let items = model.inbox.items();
    if items.is_empty() {
        canvas.put_shown(area.x, area.y, area.width, "  inbox empty", Role::Dim);
        return;
    }
    let selected = model.inbox.selected_index();
    let listed = model.inbox_rows();
    let at = listed.iter().position(|index| Some(*index) == selected);
    let first = first_row(at.unwrap_or(0), area.height);
    let rows = listed.into_iter().skip(first);
    for (y, index) in (area.y..area.bottom()).zip(rows) {
        let item = &items[index];
        let row = Rect {
            y,
            height: 1,
            ..area
        };
        let is_selected = Some(index) == selected;
        canvas.put_line(row, &item_line(model, item, is_selected, area.width));
        if is_selected && is_focused {
            canvas.select_row(row);
            report.cursor = Some((area.x, y));
        }
    }
}

fn item_line(model: &Model, item: &InboxItem, is_selected: bool, width: u16) -> TextLine {
    let glyphs = model.glyphs;
    let mark = if is_selected { glyphs.selected } else { ' ' };
    let (shape, role) = match (&item.content, &item.ended) {
        (_, Some(_)) => (glyphs.stopped, Role::Dim),
        (InboxContent::Ask(_), None) => (glyphs.asks, Role::Ask),
        (InboxContent::Question(_), None) => (glyphs.question, Role::Ask),
        (InboxContent::Note(_), None) => (glyphs.note, Role::Dim),
    };
    let name = EscapedText::shown(item.asker())
        .truncated(NAME_COLUMNS)
        .padded(NAME_COLUMNS);
    let age = duration::age(model.now.wall, item.created_at());
    let what = match &item.ended {
        Some(ended) => format!("ENDED: {ended}"),
        None if model.inbox.is_snoozed(item.id(), model.now.wall) => {
            format!("(not now) {}", item.summary(model.now.wall))
        }
        None => item.summary(model.now.wall),
    };
    let taken = 4 + NAME_COLUMNS + 1 + age.len() + 2;
    let room = usize::from(width).saturating_sub(taken);
    let what = EscapedText::shown(what).truncated(room).padded(room);
    let mut line = TextLine::shown(format!("{mark}{shape} "), role);
    line.push(name, Role::Text);
    line.push(" ", Role::Text);
    line.push(
        what,
        if item.ended.is_some() {
            Role::Dim
        } else {
            Role::Text
        },
    );
    line.push_shown(format!(" {age} "), Role::Dim);
    line
}
