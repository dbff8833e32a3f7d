//! What a key does: the overlay takes it, else the question that waits, else the table of commands.

use crate::decision_guard::{ActOrigin, GuardEvent};
use crate::key::{Key, KeyCode};
use crate::keymap::KeyLookup;
use crate::layout::PanelKind;
use crate::message::Effect;
use crate::model::{Model, Overlay};

use super::{answers, commands, files, overlays, own_terminals, say};

/// A key with when it is handled, and when and how it was typed.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypedKey {
    pub(super) key: Key,
    pub(super) at: u64,
    pub(super) origin: ActOrigin,
}

impl TypedKey {
    /// When it was typed, which may be before it is handled.
    pub(super) fn pressed_at(self) -> u64 {
        self.origin.pressed_at.unwrap_or(self.at).min(self.at)
    }
}

pub(super) fn handle_key(model: &mut Model, key: Key, at: u64, is_repeat: bool) -> Vec<Effect> {
    let typed = TypedKey {
        key,
        at: model.now.ms,
        origin: ActOrigin {
            pressed_at: Some(at),
            repeated: is_repeat,
            // With a modifier it is another key: Alt-y is not `y`.
            modified: key.ctrl || key.alt,
            ..ActOrigin::default()
        },
    };
    model.key_at = model.now.ms;
    // Before everything else: there even Ctrl-c is the program's.
    if own_terminals::takes_keys(model) {
        return own_terminals::handle_key(model, typed);
    }
    if key == Key::ctrl('c') {
        return vec![Effect::Quit];
    }
    if model.overlay.is_some() {
        return overlays::handle_key(model, typed);
    }
    if let Some(effects) = files::handle_key(model, typed) {
        return effects;
    }
    model.notices.clear();
    if model.ask.pending.is_some() {
        if model.focused_kind() == PanelKind::Ask {
            return answers::handle_pending_key(model, typed);
        }
        // The keys go to another panel now, so a `y` would not be meant for the ask.
        answers::cancel_pending(model);
    }
    look_up(model, typed)
}

pub(super) fn look_up(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    // Esc forgets what was begun.
    if typed.key.code == KeyCode::Escape && !model.typed.is_empty() {
        model.typed.clear();
        return Vec::new();
    }
    model.typed.push(typed.key);
    model.typed_at = typed.at;
    match model.keymap.lookup(model.focused_kind(), &model.typed) {
        KeyLookup::Prefix => Vec::new(),
        KeyLookup::Unknown => {
            let keys = std::mem::take(&mut model.typed);
            // Somebody types: a first act that waits must not be completed by one of the letters.
            model.ask.guard.step(&GuardEvent::OtherKey, typed.at);
            let decides = model.keymap.lookup(PanelKind::Ask, &keys) != KeyLookup::Unknown;
            if decides && model.focused_kind() == PanelKind::Inbox {
                return say(model, "this key works in the ask: Enter opens it");
            }
            Vec::new()
        }
        KeyLookup::Found(action) => {
            model.typed.clear();
            match commands::why_not(model, action) {
                Some(why) => say(model, why),
                None => commands::perform(model, action, typed),
            }
        }
    }
}

/// Pasted text goes into a text box, and nowhere else.
pub(super) fn handle_paste(model: &mut Model, text: &str) -> Vec<Effect> {
    if let Some(Overlay::Text { text: typed, .. } | Overlay::Palette { text: typed, .. }) =
        &mut model.overlay
    {
        typed.paste(text);
        return Vec::new();
    }
    if files::handle_paste(model, text) {
        return Vec::new();
    }
    if own_terminals::takes_keys(model) {
        return own_terminals::handle_paste(model, text);
    }
    model.typed.clear();
    // A paste is a key in between: whatever it was meant for, it does not answer the question.
    answers::cancel_pending(model);
    say(model, "pasted text is ignored here")
}
