//! What an agent changed, file by file, with comments between the lines.

use countersign_protocol::{DiffFileRow, HostDiffHunk, HostDiffLineKind};
use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::draw::DrawReport;
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::review::{DiffRow, Review, line_number, mark_of};
use crate::theme::Role;

use super::draw_rows;

pub(super) fn title(model: &Model, spec: &PanelSpec) -> String {
    let Some(agent) = model.panel_agent(spec) else {
        return "Diff".to_owned();
    };
    let name = escape::line(&agent.name);
    let review = model.reviews.get(&agent.id);
    let Some(review) = review.filter(|review| review.diff.is_some()) else {
        return format!("Diff of {name}");
    };
    let (added, removed) = review
        .files()
        .iter()
        .fold((0, 0), |(added, removed), file| {
            (added + file.added, removed + file.removed)
        });
    let new = if review.only_new {
        ", since your review"
    } else {
        ""
    };
    format!(
        "Diff of {name}: {} files +{added} -{removed}{new}, {} comments",
        review.files().len(),
        review.comments.len()
    )
}

pub(super) fn draw(
    model: &Model,
    spec: &PanelSpec,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let review = model
        .panel_agent(spec)
        .and_then(|agent| model.reviews.get(&agent.id));
    if let Some(problem) = review.and_then(|review| review.problem.as_ref()) {
        let text = EscapedText::shown("  ").with(&EscapedText::line(problem));
        canvas.put(area.x, area.y, area.width, &text, Role::Dim);
        return;
    }
    let Some(review) = review.filter(|review| review.diff.is_some()) else {
        let text = model
            .panel_agent(spec)
            .map_or("  no agent is selected", |_| "  reading the changes");
        canvas.put_shown(area.x, area.y, area.width, text, Role::Dim);
        return;
    };
    let rows = review.rows();
    if rows.is_empty() {
        canvas.put_shown(
            area.x,
            area.y,
            area.width,
            "  nothing was changed",
            Role::Dim,
        );
        return;
    }
    let selected = model.view(&spec.id).cursor.min(rows.len() - 1);
    draw_rows(
        &rows,
        selected,
        area,
        is_focused,
        canvas,
        report,
        |row, is_selected| row_line(model, review, row, is_selected),
    );
}

fn row_line(model: &Model, review: &Review, row: &DiffRow<'_>, is_selected: bool) -> TextLine {
    let mark = if is_selected {
        model.glyphs.selected
    } else {
        ' '
    };
    let mut line = TextLine::shown(mark.to_string(), Role::Focus);
    match row {
        DiffRow::File(file) => push_file(model, review, file, &mut line),
        DiffRow::Hunk(hunk) => {
            let header = hunk.header.as_deref().unwrap_or_default();
            line.push_shown(format!("@@ {} ", hunk.new_start), Role::Link);
            line.push(EscapedText::line(header), Role::Dim);
        }
        DiffRow::Line { hunk, index, .. } => push_line(hunk, *index, &mut line),
        DiffRow::Comment(comment) => {
            line.push_shown(format!("     {} ", model.glyphs.vertical), Role::Ask);
            line.push(EscapedText::line(&comment.text), Role::Strong);
        }
        DiffRow::Note(text) => line.push_shown(format!("  {text}"), Role::Dim),
    }
    line
}

fn push_file(model: &Model, review: &Review, file: &DiffFileRow, line: &mut TextLine) {
    line.push(EscapedText::line(&file.path), Role::Strong);
    line.push_shown(format!("  +{}", file.added), Role::Added);
    line.push_shown(format!(" -{}", file.removed), Role::Removed);
    if file.status != "modified" {
        line.push_shown(format!("  {}", escape::line(&file.status)), Role::Dim);
    }
    if review.is_viewed(file) {
        line.push_shown(format!("  {} viewed", model.glyphs.done), Role::Good);
    }
}

fn push_line(hunk: &HostDiffHunk, index: usize, line: &mut TextLine) {
    let Some(changed) = hunk.lines.get(index) else {
        return;
    };
    let role = match changed.kind {
        HostDiffLineKind::Added => Role::Added,
        HostDiffLineKind::Removed => Role::Removed,
        HostDiffLineKind::Context => Role::Text,
    };
    let number = line_number(hunk, index);
    // The mark stands in a column that no file can write to.
    line.push_shown(format!("{} {number:>5} ", mark_of(changed.kind)), role);
    line.push(EscapedText::line(&changed.text), role);
}
