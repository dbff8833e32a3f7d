//! Files of settings: what they change on a running screen.

use crate::message::{Effect, SettingsFiles};
use crate::model::Model;

use super::say;

/// Takes in what was read. A file that is wrong changes nothing, and is named.
pub(super) fn take(model: &mut Model, files: SettingsFiles) -> Vec<Effect> {
    if let Some(keymap) = files.keymap {
        model.keymap = keymap;
    }
    for layout in files.layouts {
        model.workspace.add_layout(layout);
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
    match files.problems.first() {
        Some(problem) => say(model, problem.clone()),
        None => Vec::new(),
    }
}
