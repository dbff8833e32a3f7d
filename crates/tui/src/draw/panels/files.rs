//! The tree of files of an agent.

use countersign_protocol::ListedFileKind;
use ratatui::layout::Rect;

use crate::agent_files::TreeRow;
use crate::canvas::{Canvas, TextLine};
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::theme::Role;

use super::super::DrawReport;
use super::draw_rows;

/// Columns of the indentation of one folder.
const INDENT: usize = 2;

pub(super) fn title(model: &Model, spec: &PanelSpec) -> String {
    let Some(agent) = model.panel_agent(spec) else {
        return "Files".to_owned();
    };
    let filter = model.view(&spec.id).filter;
    let name = escape::line(&agent.name);
    if filter.is_empty() {
        format!("Files of {name}")
    } else {
        format!("Files of {name} with {}", escape::line(&filter))
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
    let agent = model.panel_agent(spec);
    let tree = agent.and_then(|agent| model.files.trees.get(&agent.id));
    let filter = model.view(&spec.id).filter;
    let rows = tree.map_or_else(Vec::new, |tree| tree.rows(&filter));
    let problem = tree.and_then(|tree| tree.problem.as_deref());
    if rows.is_empty() || problem.is_some() {
        let text = match (agent, tree, problem) {
            (None, ..) => "  no agent is selected".to_owned(),
            (_, _, Some(problem)) => format!("  {}", escape::line(problem)),
            (_, Some(tree), _) if tree.folder.is_some() && !filter.is_empty() => {
                "  no listed file has this in its path".to_owned()
            }
            (_, Some(tree), _) if tree.folder.is_some() => "  the folder is empty".to_owned(),
            _ => "  reading".to_owned(),
        };
        canvas.put_shown(area.x, area.y, area.width, &text, Role::Dim);
        return;
    }
    let selected = tree.map_or(0, |tree| tree.selected_index(&filter));
    draw_rows(
        &rows,
        selected,
        area,
        is_focused,
        canvas,
        report,
        |row, is_selected| row_line(model, row, is_selected),
    );
}

fn row_line(model: &Model, row: &TreeRow<'_>, is_selected: bool) -> TextLine {
    let mark = if is_selected {
        model.glyphs.selected
    } else {
        ' '
    };
    let indent = " ".repeat(row.depth * INDENT);
    let Some(entry) = row.entry else {
        return TextLine::shown(format!("{mark}{indent}  more is not listed"), Role::Dim);
    };
    let (sign, role) = match entry.kind {
        ListedFileKind::Folder if row.is_expanded => ('-', Role::Strong),
        ListedFileKind::Folder => ('+', Role::Strong),
        ListedFileKind::File => (' ', Role::Text),
        ListedFileKind::Link => ('@', Role::Link),
        ListedFileKind::Other => ('?', Role::Dim),
    };
    let mut line = TextLine::shown(format!("{mark}{indent}{sign} "), Role::Dim);
    line.push(EscapedText::line(&entry.name), role);
    if entry.kind == ListedFileKind::Folder {
        line.push("/", Role::Dim);
    }
    if let Some(bytes) = entry.bytes {
        line.push_shown(format!("  {}", size_text(bytes)), Role::Dim);
    }
    if let Some(modified) = entry.modified_at {
        let age = duration::age(model.now.wall, modified);
        line.push_shown(format!("  {age}"), Role::Dim);
    }
    line
}

/// A length for people.
pub(super) fn size_text(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
