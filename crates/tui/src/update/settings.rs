//! Files of settings: what they change on a running screen.

use crate::layout::PanelKind;
use crate::message::{Effect, ProposedView, SettingsFiles};
use crate::model::Model;

use super::{commands, overlays, restart_reading, say};

/// How long no key was typed before a screen changes by itself.
const IDLE_MS: u64 = 2_000;
/// Proposals that wait for that. More than one at a time are rare, and the last counts.
const WAITING_MAX: usize = 10;

/// Takes in what was read. A file that is wrong changes nothing, and is named.
pub(super) fn take(model: &mut Model, mut files: SettingsFiles) -> Vec<Effect> {
    if let Some(keymap) = files.keymap {
        model.keymap = keymap;
    }
    for layout in files.layouts {
        let view = ProposedView::Layout(layout.name.clone());
        if !files.proposed.contains(&view) {
            model.workspace.add_layout(layout);
            continue;
        }
        // The layout that is shown does not change under a person's keys because an agent proposed another.
        if layout.name == model.workspace.layout.name && !files.shown.contains(&view) {
            files.shown.push(view);
        }
        model.workspace.put_layout(layout);
    }
    for colors in files.themes {
        if colors.name == model.theme.name() {
            model.theme = model.theme.with_colors(colors.clone());
        }
        match model
            .themes
            .iter_mut()
            .find(|known| known.name == colors.name)
        {
            Some(known) => *known = colors,
            None => model.themes.push(colors),
        }
    }
    for spec in files.commands {
        model.commands.put(spec);
    }
    model.proposed_views.extend(files.shown);
    let excess = model.proposed_views.len().saturating_sub(WAITING_MAX);
    model.proposed_views.drain(..excess);
    if let Some(problem) = files.problems.first() {
        return say(model, problem.clone());
    }
    show_proposed(model)
}

/// Shows what was proposed and allowed, but never between two keys of a person.
pub(super) fn show_proposed(model: &mut Model) -> Vec<Effect> {
    // A pause in a terminal or a text is not the end of typing there.
    let takes_text = matches!(
        model.focused_kind(),
        PanelKind::OwnTerminal | PanelKind::Editor | PanelKind::Notes
    );
    let is_idle = !takes_text
        && model.overlay.is_none()
        && model.ask.pending.is_none()
        && model.typed.is_empty()
        && model.now.ms >= model.key_at + IDLE_MS;
    if !is_idle || model.proposed_views.is_empty() {
        return Vec::new();
    }
    let focused = model.focused_kind();
    for view in std::mem::take(&mut model.proposed_views) {
        let (what, name) = match view {
            ProposedView::Layout(name) => {
                overlays::set_layout(model, &name);
                ("layout", name)
            }
            ProposedView::Theme(name) => {
                overlays::set_theme(model, &name);
                ("theme", name)
            }
        };
        say(
            model,
            format!("this is the {what} {name}, which an agent proposed"),
        );
    }
    // A proposal must not put the keys that decide under a person's hands.
    if focused != PanelKind::Ask && model.focused_kind() == PanelKind::Ask {
        let mut effects = commands::go(model, PanelKind::Inbox);
        effects.extend(restart_reading(model));
        return effects;
    }
    // What is on the screen moved, so what was read of an ask is read again.
    restart_reading(model)
}
