//! Keys while a person types in the editor or the notes: all of them are text, but those that save or leave.

use crate::agent_files::EditorState;
use crate::decision_guard::GuardEvent;
use crate::key::{Key, KeyCode};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::Model;
use crate::text_box::{BoxOutcome, TextBox};
use crate::update::keys::TypedKey;
use crate::update::{answers, say};

use super::notes;

/// The text of the focused panel, if it has one that can be changed.
fn focused_text(model: &mut Model) -> Option<&mut TextBox> {
    match model.focused_kind() {
        PanelKind::Editor => {
            let editor = model.files.editor.as_mut()?;
            let is_ready = editor.state == EditorState::Ready && !editor.shows_other;
            is_ready.then_some(&mut editor.text)
        }
        PanelKind::Notes => {
            let notes = &mut model.files.notes;
            notes.folder.is_some().then_some(&mut notes.text)
        }
        _ => None,
    }
}

pub(super) fn why_not(model: &Model) -> Option<String> {
    if model.focused_kind() == PanelKind::Notes {
        let is_read = model.files.notes.folder.is_some();
        return (!is_read).then(|| "the notes are being read".to_owned());
    }
    let Some(editor) = &model.files.editor else {
        return Some("no file is edited: e on a file opens it".to_owned());
    };
    match &editor.state {
        EditorState::Ready if editor.shows_other => {
            Some("this is what is there now; o shows your text".to_owned())
        }
        EditorState::Ready => None,
        EditorState::Loading => Some("the file is being read".to_owned()),
        EditorState::Refused(_) => Some("this file cannot be edited".to_owned()),
    }
}

pub(super) fn begin(model: &mut Model) -> Vec<Effect> {
    model.files.is_typing = true;
    Vec::new()
}

/// Takes a key as text, if a person types in the focused panel.
pub(in crate::update) fn handle_key(model: &mut Model, typed: TypedKey) -> Option<Vec<Effect>> {
    if !model.files.is_typing {
        return None;
    }
    let page = isize::try_from(model.drawn.panel_height(&model.focused_panel().id)).unwrap_or(10);
    let Some(text) = focused_text(model) else {
        model.files.is_typing = false;
        return None;
    };
    if typed.key == Key::ctrl('e') {
        return Some(open_external(model));
    }
    let outcome = match typed.key.code {
        KeyCode::PageDown => move_page(text, page - 1),
        KeyCode::PageUp => move_page(text, 1 - page),
        _ => text.handle_key(typed.key),
    };
    // A first act that waits must not be completed by a letter of a text.
    answers::cancel_pending(model);
    model.ask.guard.step(&GuardEvent::OtherKey, typed.at);
    Some(match outcome {
        BoxOutcome::Edited => note_change(model),
        BoxOutcome::Unused => Vec::new(),
        BoxOutcome::Send => super::save_focused(model),
        BoxOutcome::Leave => leave(model),
    })
}

fn move_page(text: &mut TextBox, steps: isize) -> BoxOutcome {
    text.move_lines(steps);
    BoxOutcome::Unused
}

/// Notes are saved a second after they were changed.
fn note_change(model: &mut Model) -> Vec<Effect> {
    if model.focused_kind() == PanelKind::Notes {
        let now = model.now.ms;
        model.files.notes.changed_at.get_or_insert(now);
    }
    Vec::new()
}

fn leave(model: &mut Model) -> Vec<Effect> {
    model.files.is_typing = false;
    if model.focused_kind() == PanelKind::Notes {
        return notes::save_now(model).into_iter().collect();
    }
    let is_changed = model
        .files
        .editor
        .as_ref()
        .is_some_and(crate::agent_files::FileEditor::is_changed);
    if is_changed {
        return say(model, "not saved yet; the text is kept: Ctrl-s saves");
    }
    Vec::new()
}

pub(in crate::update) fn handle_paste(model: &mut Model, pasted: &str) -> bool {
    if !model.files.is_typing {
        return false;
    }
    let Some(text) = focused_text(model) else {
        return false;
    };
    text.paste(pasted);
    note_change(model);
    true
}

/// Lets the person write it in an editor of their own, on a copy.
pub(super) fn open_external(model: &mut Model) -> Vec<Effect> {
    match focused_text(model) {
        Some(text) => vec![Effect::OpenEditor(text.text())],
        None => Vec::new(),
    }
}

/// Takes in what was written there. Whether it was for one of these panels.
pub(in crate::update) fn handle_edited(model: &mut Model, written: &str) -> bool {
    let Some(text) = focused_text(model) else {
        return false;
    };
    if !text.is_text(written) {
        *text = TextBox::verbatim(written);
        text.move_to_start();
        note_change(model);
    }
    true
}

pub(super) fn move_lines(model: &mut Model, panel: &PanelSpec, steps: isize) {
    let is_other = panel.kind == PanelKind::Editor
        && model
            .files
            .editor
            .as_ref()
            .is_some_and(|editor| editor.shows_other);
    if is_other {
        let view = model.view_mut(&panel.id);
        view.scroll = view.scroll.saturating_add_signed(steps).min(1_000_000);
        return;
    }
    let text = match panel.kind {
        PanelKind::Notes => Some(&mut model.files.notes.text),
        _ => model.files.editor.as_mut().map(|editor| &mut editor.text),
    };
    if let Some(text) = text {
        text.move_lines(steps);
    }
}
