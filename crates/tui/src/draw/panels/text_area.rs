//! Texts that a person writes in a panel: the editor and the notes.

use ratatui::layout::Rect;

use crate::agent_files::{EditorState, FileEditor};
use crate::canvas::{Canvas, TextLine};
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::text_box::TextBox;
use crate::theme::Role;

use super::super::DrawReport;

pub(super) fn editor_title(model: &Model) -> String {
    let Some(editor) = &model.files.editor else {
        return "Editor".to_owned();
    };
    let agent = escape::line(model.host.agent_name(&editor.file.agent));
    let mark = if editor.is_changed() {
        ", not saved"
    } else {
        ""
    };
    format!("Edit {} of {agent}{mark}", escape::line(&editor.file.path))
}

pub(super) fn notes_title(model: &Model) -> String {
    match &model.files.notes.folder {
        Some(folder) => format!("Notes of {}", escape::line(folder)),
        None => "Notes".to_owned(),
    }
}

pub(super) fn draw_editor(
    model: &Model,
    spec: &PanelSpec,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let Some(editor) = &model.files.editor else {
        let text = "  no file is edited: e on a file opens it";
        canvas.put_shown(area.x, area.y, area.width, text, Role::Dim);
        return;
    };
    canvas.put_line(
        area,
        &editor_state(editor, model.files.is_typing && is_focused),
    );
    let below = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    if editor.state != EditorState::Ready {
        return;
    }
    if editor.shows_other {
        let text = editor
            .other
            .as_ref()
            .and_then(|other| other.text.as_deref());
        let scroll = model.view(&spec.id).scroll;
        draw_other(text, scroll, below, canvas);
        return;
    }
    draw_text(&editor.text, below, is_focused, canvas, report);
}

fn editor_state(editor: &FileEditor, is_typing: bool) -> TextLine {
    match &editor.state {
        EditorState::Loading => TextLine::new(" reading", Role::Dim),
        EditorState::Refused(why) => {
            let mut line = TextLine::new(" it cannot be edited: ", Role::Warn);
            line.push(EscapedText::line(why), Role::Warn);
            line
        }
        EditorState::Ready if editor.shows_other => TextLine::new(
            " this is what is there now; o shows your text again",
            Role::Warn,
        ),
        EditorState::Ready if editor.other.is_some() => TextLine::new(
            " CHANGED OUTSIDE since it was read: o shows what is there now",
            Role::Warn,
        ),
        EditorState::Ready if editor.saving.is_some() => TextLine::new(" saving", Role::Dim),
        EditorState::Ready if editor.digest.is_none() => {
            TextLine::new(" a new file: it is made when it is saved", Role::Dim)
        }
        EditorState::Ready if is_typing => TextLine::new(" writing: Esc ends that", Role::Focus),
        EditorState::Ready => TextLine::new(" i writes, Ctrl-s saves", Role::Dim),
    }
}

fn draw_other(text: Option<&str>, scroll: usize, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(text) = text else {
        canvas.put_shown(
            area.x,
            area.y,
            area.width,
            "  no text: it was removed, or is binary",
            Role::Dim,
        );
        return;
    };
    let shown = text.split('\n').skip(scroll).take(usize::from(area.height));
    let lines: Vec<TextLine> = shown
        .map(|line| TextLine::new(EscapedText::line(line), Role::Text))
        .collect();
    canvas.put_lines(area, lines.iter());
}

pub(super) fn draw_notes(
    model: &Model,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let notes = &model.files.notes;
    if notes.folder.is_none() {
        let text = match &notes.problem {
            Some(problem) => format!("  {}", escape::line(problem)),
            None => "  reading".to_owned(),
        };
        canvas.put_shown(area.x, area.y, area.width, &text, Role::Dim);
        return;
    }
    if notes.text.is_empty() && !(is_focused && model.files.is_typing) {
        let text = "  i writes; what you write is saved by itself";
        canvas.put_shown(area.x, area.y, area.width, text, Role::Dim);
        return;
    }
    draw_text(&notes.text, area, is_focused, canvas, report);
}

/// The lines around the cursor. The line of the cursor is shown at the part that it stands in.
fn draw_text(
    text: &TextBox,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let (cursor_line, before) = text.cursor_line();
    let height = usize::from(area.height);
    let first = cursor_line.saturating_sub(height / 2);
    let width = usize::from(area.width).saturating_sub(1).max(1);
    let before_escaped = EscapedText::line(&before);
    let column = before_escaped.width();
    let lines = text.lines(first, height);
    for (y, (index, line)) in (area.y..area.bottom()).zip(lines.into_iter().enumerate()) {
        let is_cursor_line = first + index == cursor_line;
        let shown = if is_cursor_line {
            // Escaped alike on both sides, so that the cursor stands where the next letter goes.
            let after = line.get(before.len()..).unwrap_or_default();
            let whole = before_escaped.clone().with(&EscapedText::line(after));
            let mut parts = whole.wrapped(width).into_iter();
            parts.nth(column / width).unwrap_or_default()
        } else {
            EscapedText::line(&line)
        };
        canvas.put(area.x, y, area.width, &shown, Role::Text);
        if is_cursor_line && is_focused {
            let x = area.x + u16::try_from(column % width).unwrap_or(0);
            report.cursor = Some((x, y));
        }
    }
}
