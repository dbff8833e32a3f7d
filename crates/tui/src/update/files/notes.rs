//! The notes of a person: saved one second after a change, and when they are left.

use crate::layout::PanelKind;
use crate::message::{Effect, KeptNotes};
use crate::model::Model;
use crate::text_box::TextBox;

use super::say;

pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    let mut panels = model.drawn.panels.iter();
    let is_shown = panels.any(|panel| panel.spec.kind == PanelKind::Notes);
    let notes = &model.files.notes;
    let is_read = notes.folder.is_some() || notes.problem.is_some();
    if is_shown && !is_read && model.loading.insert("notes".to_owned()) {
        return vec![Effect::ReadNotes];
    }
    // Whoever goes to another panel has left them.
    let is_focused = model.focused_kind() == PanelKind::Notes;
    if is_focused {
        save_due(model)
    } else {
        save_now(model)
    }
    .into_iter()
    .collect()
}

pub(in crate::update) fn take_notes(
    model: &mut Model,
    kept: Result<KeptNotes, String>,
) -> Vec<Effect> {
    model.loading.remove("notes");
    match kept {
        Ok(kept) => {
            let notes = &mut model.files.notes;
            notes.folder = Some(kept.folder);
            notes.text = TextBox::verbatim(&kept.text);
            notes.problem = None;
            Vec::new()
        }
        Err(why) => {
            model.files.notes.problem = Some(why.clone());
            say(model, why)
        }
    }
}

pub(super) fn save_due(model: &mut Model) -> Option<Effect> {
    if model.now.ms < model.files.notes.saved_at()? {
        return None;
    }
    save_now(model)
}

pub(super) fn save_now(model: &mut Model) -> Option<Effect> {
    let notes = &mut model.files.notes;
    notes.changed_at.take()?;
    Some(Effect::SaveNotes(notes.text.text()))
}

/// What is not saved when the screen is left.
pub(in crate::update) fn save_before_leaving(model: &mut Model, effects: &mut Vec<Effect>) {
    if effects.contains(&Effect::Quit)
        && let Some(save) = save_now(model)
    {
        effects.insert(0, save);
    }
}
