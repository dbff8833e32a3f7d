//! The panels, one file each.

mod agents;
mod ask;
mod command;
mod diff;
mod feed;
mod files;
mod history;
mod inbox;
mod own_terminal;
mod readers;
mod rules;
mod search;
mod terminals;
mod text_area;
mod transcript;
mod usage;

use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::layout::{PanelKind, PanelSpec};
use crate::model::Model;

use super::DrawReport;

/// What stands above a panel.
pub(super) fn title(model: &Model, spec: &PanelSpec) -> String {
    match spec.kind {
        PanelKind::Inbox => inbox::title(model),
        PanelKind::Ask => ask::title(model),
        PanelKind::Agents => agents::title(model, spec),
        PanelKind::Transcript => transcript::title(model, spec),
        PanelKind::Chat => transcript::chat_title(model, spec),
        PanelKind::Feed => feed::title(model, spec),
        PanelKind::History => history::title(model, spec),
        PanelKind::Rules => rules::title(model),
        PanelKind::Diff => diff::title(model, spec),
        PanelKind::Search => search::title(model),
        PanelKind::Usage => "Usage".to_owned(),
        PanelKind::Terminals => terminals::title(model, spec),
        PanelKind::Command => command::title(spec),
        PanelKind::Files => files::title(model, spec),
        PanelKind::Viewer => readers::view_title(model, spec),
        PanelKind::Editor => text_area::editor_title(model),
        PanelKind::Tail => readers::tail_title(model, spec),
        PanelKind::Notes => text_area::notes_title(model),
        PanelKind::OwnTerminal => own_terminal::title(model),
    }
}

pub(super) fn draw(
    model: &Model,
    spec: &PanelSpec,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    match spec.kind {
        PanelKind::Inbox => inbox::draw(model, area, is_focused, canvas, report),
        PanelKind::Ask => ask::draw(model, area, canvas, report),
        PanelKind::Agents => agents::draw(model, spec, area, is_focused, canvas, report),
        PanelKind::Transcript | PanelKind::Chat => transcript::draw(model, spec, area, canvas),
        PanelKind::Feed => feed::draw(model, spec, area, is_focused, canvas, report),
        PanelKind::History => history::draw(model, spec, area, is_focused, canvas, report),
        PanelKind::Rules => rules::draw(model, spec, area, is_focused, canvas, report),
        PanelKind::Diff => diff::draw(model, spec, area, is_focused, canvas, report),
        PanelKind::Search => search::draw(model, spec, area, is_focused, canvas, report),
        PanelKind::Usage => usage::draw(model, area, canvas),
        PanelKind::Terminals => terminals::draw(model, spec, area, canvas),
        PanelKind::Command => command::draw(model, spec, area, canvas),
        PanelKind::Files => files::draw(model, spec, area, is_focused, canvas, report),
        PanelKind::Viewer => readers::draw_view(model, spec, area, canvas),
        PanelKind::Editor => text_area::draw_editor(model, spec, area, is_focused, canvas, report),
        PanelKind::Tail => readers::draw_tail(model, spec, area, canvas),
        PanelKind::Notes => text_area::draw_notes(model, area, is_focused, canvas, report),
        PanelKind::OwnTerminal => own_terminal::draw(model, area, is_focused, canvas, report),
    }
}

/// Draws a list so that the selected row is on the screen, with the cursor at it if the panel has the focus.
fn draw_rows<T>(
    rows: &[T],
    selected: usize,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
    line_of: impl Fn(&T, bool) -> TextLine,
) {
    let rows = rows
        .iter()
        .enumerate()
        .skip(first_row(selected, area.height));
    for (y, (index, row)) in (area.y..area.bottom()).zip(rows) {
        let place = Rect {
            y,
            height: 1,
            ..area
        };
        canvas.put_line(place, &line_of(row, index == selected));
        if index == selected && is_focused {
            canvas.select_row(place);
            report.cursor = Some((area.x, y));
        }
    }
}

/// The first row of a list that is shown, so that the selected one is in it.
fn first_row(selected: usize, height: u16) -> usize {
    (selected + 1).saturating_sub(usize::from(height).max(1))
}
