//! The viewer and the tail: no more than a screenful is ever broken into lines.

use countersign_protocol::FileForm;
use ratatui::layout::Rect;

use crate::agent_files::LoadedPage;
use crate::canvas::{Canvas, TextLine};
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::theme::Role;
use crate::update::files::file_of;

use super::files::size_text;

/// Columns of a line's number, below which what follows the first row of a line stands.
const NUMBER_COLUMNS: usize = 6;

fn file_title(model: &Model, spec: &PanelSpec, what: &str) -> String {
    match file_of(model, spec) {
        Some(file) => {
            let agent = escape::line(model.host.agent_name(&file.agent));
            format!("{} of {agent}", escape::line(&file.path))
        }
        None => what.to_owned(),
    }
}

pub(super) fn view_title(model: &Model, spec: &PanelSpec) -> String {
    file_title(model, spec, "Viewer")
}

pub(super) fn tail_title(model: &Model, spec: &PanelSpec) -> String {
    format!("End of {}", file_title(model, spec, "a file"))
}

fn say(text: &str, area: Rect, canvas: &mut Canvas<'_>) {
    canvas.put_shown(area.x, area.y, area.width, text, Role::Dim);
}

const NO_FILE: &str = "  no file was opened: g o lists the files of the selected agent";

pub(super) fn draw_view(model: &Model, spec: &PanelSpec, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(file) = file_of(model, spec) else {
        return say(NO_FILE, area, canvas);
    };
    let view = model.files.views.get(&file);
    if let Some(problem) = view.and_then(|view| view.problem.as_deref()) {
        return say(&format!("  {}", escape::line(problem)), area, canvas);
    }
    let Some((view, page)) = view.and_then(|view| Some((view, view.page.as_ref()?))) else {
        return say("  reading", area, canvas);
    };
    let is_formatted = page.formatted.is_some() && !view.is_source;
    canvas.put_line(area, &view_heading(page, is_formatted));
    let below = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    if page.form == FileForm::Binary {
        return say("  this file is binary", below, canvas);
    }
    let indent = if is_formatted { 2 } else { NUMBER_COLUMNS };
    let rows = page.shown(view.is_source).iter();
    let shown = rows
        .skip(model.view(&spec.id).scroll)
        .take(usize::from(below.height));
    let lines: Vec<TextLine> = shown
        .flat_map(|row| row.wrapped(area.width.into(), indent, model.glyphs.continued))
        .take(usize::from(below.height))
        .collect();
    canvas.put_lines(below, lines.iter());
}

/// How much of the file is shown, and as what.
fn view_heading(page: &LoadedPage, is_formatted: bool) -> TextLine {
    let mut line = TextLine::shown(format!(" {}", size_text(page.size)), Role::Dim);
    if page.from > 0 || page.next < page.size {
        let text = format!("  bytes {} to {} of {}", page.from, page.next, page.size);
        line.push_shown(text, Role::Warn);
    }
    if page.form == FileForm::Damaged {
        line.push("  some bytes are not UTF-8", Role::Warn);
    }
    if is_formatted {
        line.push("  formatted", Role::Dim);
    }
    line
}

pub(super) fn draw_tail(model: &Model, spec: &PanelSpec, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(file) = file_of(model, spec) else {
        return say(NO_FILE, area, canvas);
    };
    let Some(tail) = model.files.tails.get(&file) else {
        return say("  reading", area, canvas);
    };
    let state = match (&tail.problem, tail.top) {
        (Some(problem), _) => TextLine::new(EscapedText::line(problem), Role::Bad),
        (None, _) if tail.is_binary => TextLine::new(" this file is binary", Role::Warn),
        (None, Some(_)) => TextLine::new(" read back: G follows the end again", Role::Warn),
        (None, None) => TextLine::new(" following the end", Role::Dim),
    };
    canvas.put_line(area, &state);
    let below = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    let height = usize::from(below.height);
    let width = usize::from(area.width);
    let continued = model.glyphs.continued;
    let lines: Vec<TextLine> = if let Some(top) = tail.top {
        let rows = tail.shown().skip(top).take(height);
        rows.flat_map(|row| row.wrapped(width, 2, continued))
            .take(height)
            .collect()
    } else {
        // From the end, so that the last row is shown however the rows before it are broken.
        let rows = tail.shown().rev().take(height);
        let broken = rows.flat_map(|row| row.wrapped(width, 2, continued).into_iter().rev());
        let mut lines: Vec<TextLine> = broken.take(height).collect();
        lines.reverse();
        lines
    };
    canvas.put_lines(below, lines.iter());
}
