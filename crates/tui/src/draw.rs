//! The picture of a model. Pure: the same model always gives the same picture.
//!
//! Invariants: the top line is always there; what the selected ask would do is drawn whole, over as many lines as it
//! takes, and what was drawn of it is reported; in a window too small to read, nothing counts as read.

mod bottom;
mod overlays;
mod panels;
mod top_line;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::layout::{PanelSpec, PlacedPanel, solve};
use crate::model::{AskLayout, HostLink, Model};
use crate::theme::Role;

/// Smaller than this and nothing can be read, so nothing can be decided.
pub const WIDTH_MIN: u16 = 40;
pub const HEIGHT_MIN: u16 = 10;

/// How much of the selected ask a picture had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskExtent {
    pub layout: AskLayout,
    /// The first line that was shown, how many were, and how many there are.
    pub first: usize,
    pub page: usize,
    pub total: usize,
    /// Whether all of the ask has come from the host.
    pub is_whole: bool,
}

/// A panel that was drawn, without its title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnPanel {
    pub spec: PanelSpec,
    pub area: Rect,
}

/// What a picture had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrawReport {
    pub width: u16,
    pub height: u16,
    /// Where the panels are.
    pub body: Rect,
    pub panels: Vec<DrawnPanel>,
    pub ask: Option<AskExtent>,
    /// Where the terminal's own cursor stands: on the selected row or in the text.
    pub cursor: Option<(u16, u16)>,
}

impl DrawReport {
    pub fn panel_area(&self, id: &str) -> Rect {
        let found = self.panels.iter().find(|panel| panel.spec.id == id);
        found.map_or(Rect::default(), |panel| panel.area)
    }

    pub fn panel_height(&self, id: &str) -> u16 {
        self.panel_area(id).height
    }

    pub fn panel_at(&self, x: u16, y: u16) -> Option<PanelSpec> {
        let found = self
            .panels
            .iter()
            .find(|panel| panel.area.contains((x, y).into()));
        found.map(|panel| panel.spec.clone())
    }
}

/// Draws a model over a whole buffer.
pub fn draw(model: &Model, buffer: &mut Buffer) -> DrawReport {
    let area = buffer.area;
    let mut canvas = Canvas {
        buffer,
        theme: &model.theme,
        glyphs: model.glyphs,
    };
    let mut report = DrawReport {
        width: area.width,
        height: area.height,
        ..DrawReport::default()
    };
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        canvas.put_shown(
            0,
            0,
            area.width,
            "the window is too small: 40x10",
            Role::Warn,
        );
        return report;
    }
    let top = top_line::draw(model, area, &mut canvas);
    let bottom = bottom::height(model, area);
    report.body = Rect {
        y: top,
        height: area.height.saturating_sub(top + bottom),
        ..area
    };
    draw_body(model, &mut canvas, &mut report);
    let foot = Rect {
        y: area.height - bottom,
        height: bottom,
        ..area
    };
    bottom::draw(model, foot, &mut canvas, &mut report);
    let covers = overlays::draw(model, area, &mut canvas, &mut report);
    if covers && let Some(ask) = &mut report.ask {
        // What a box stands over cannot be read.
        ask.page = 0;
    }
    report
}

fn draw_body(model: &Model, canvas: &mut Canvas<'_>, report: &mut DrawReport) {
    let tree = model.workspace.visible_tree(report.width);
    let solved = solve(&tree, report.body, model.workspace.recent());
    let focused = model.focused_panel().id;
    for placed in &solved.panels {
        draw_panel(model, placed, placed.spec.id == focused, canvas, report);
    }
    for (x, top, bottom) in &solved.rules {
        canvas.column_rule(*x, *top, *bottom);
    }
}

fn draw_panel(
    model: &Model,
    placed: &PlacedPanel<'_>,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let role = if is_focused { Role::Focus } else { Role::Dim };
    let mut title = TextLine::shown(format!(" {} ", panels::title(model, placed.spec)), role);
    for other in placed
        .stack
        .iter()
        .filter(|other| other.id != placed.spec.id)
    {
        title.push_shown(format!(" {} ", other.kind.name()), Role::Dim);
    }
    let row = Rect {
        height: 1,
        ..placed.area
    };
    canvas.rule(row, &title);
    if is_focused {
        let mark = model.glyphs.selected.to_string();
        canvas.put_shown(placed.area.x, placed.area.y, 1, &mark, Role::Focus);
    }
    let inner = Rect {
        y: placed.area.y + 1,
        height: placed.area.height.saturating_sub(1),
        ..placed.area
    };
    report.panels.push(DrawnPanel {
        spec: placed.spec.clone(),
        area: inner,
    });
    panels::draw(model, placed.spec, inner, is_focused, canvas, report);
    if matches!(model.host.link, HostLink::Lost { .. }) {
        // What is shown may be old.
        let style = ratatui::style::Style::new().add_modifier(ratatui::style::Modifier::DIM);
        canvas.buffer.set_style(inner, style);
    }
}

/// The cells as lines of text.
pub fn buffer_text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            if skip > 0 {
                skip -= 1;
                continue;
            }
            skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
