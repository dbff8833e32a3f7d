//! Commands of the person's: when they run, and what they printed.

use crate::command_panel::CommandEnd;
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::{ListChoice, ListPurpose, Model, Overlay};

use super::say;

/// Runs the commands whose panels are on the screen and whose time has come.
pub(super) fn run_visible(model: &mut Model) -> Vec<Effect> {
    let panels = model
        .drawn
        .panels
        .iter()
        .filter(|panel| panel.spec.kind == PanelKind::Command);
    let shown: Vec<(String, u16)> = panels
        .filter_map(|panel| Some((panel.spec.name.clone()?, panel.area.width)))
        .collect();
    // Not in the folder that the panels are narrowed to: an agent may have named it, and programs such as git run what
    // a folder's own settings say.
    let cwd = model.folder.clone();
    let now = model.now.ms;
    let runs = shown.into_iter().filter_map(|(name, width)| {
        let panel = model.commands.get_mut(&name)?;
        panel.next_run(now, width, cwd.clone())
    });
    runs.map(Effect::RunCommand).collect()
}

pub(super) fn take_output(
    model: &mut Model,
    name: &str,
    output: &[u8],
    end: CommandEnd,
) -> Vec<Effect> {
    let now = model.now.ms;
    if let Some(panel) = model.commands.get_mut(name) {
        panel.take_output(output, end, now);
    }
    Vec::new()
}

pub(super) fn scroll(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    let height = model.drawn.panel_height(&panel.id);
    let command = panel
        .name
        .as_deref()
        .and_then(|name| model.commands.get(name));
    let lines = command.map_or(0, super::super::command_panel::CommandPanel::line_count);
    // One row says how the command goes.
    let last = usize::from((lines + 1).saturating_sub(height));
    let view = model.view_mut(&panel.id);
    view.scroll = view.scroll.saturating_add_signed(steps).min(last);
    Vec::new()
}

/// Opens the only panel, or lists them.
pub(super) fn choose(model: &mut Model) -> Vec<Effect> {
    let names: Vec<String> = model.commands.names().map(str::to_owned).collect();
    match names.as_slice() {
        [] => say(model, "there is no file in tui/panels: see docs/tui.md"),
        [name] => open(model, name),
        _ => {
            let choices = names.into_iter().map(|value| ListChoice {
                value,
                note: String::new(),
            });
            model.overlay = Some(Overlay::List {
                purpose: ListPurpose::CommandPanel,
                title: "panel".to_owned(),
                choices: choices.collect(),
                selected: 0,
            });
            Vec::new()
        }
    }
}

pub(super) fn open(model: &mut Model, name: &str) -> Vec<Effect> {
    let width = model.drawn.width;
    let panels = model.workspace.tab().tree(width).panels();
    let found = panels
        .iter()
        .find(|panel| panel.kind == PanelKind::Command && panel.name.as_deref() == Some(name))
        .map(|panel| panel.id.clone());
    match found {
        Some(id) => model.workspace.focus(&id),
        None => model.workspace.open_page(PanelSpec::command(name)),
    }
    Vec::new()
}

/// Runs the command of the focused panel now.
pub(super) fn run_again(model: &mut Model) -> Vec<Effect> {
    let name = model.focused_panel().name;
    if let Some(panel) = name.and_then(|name| model.commands.get_mut(&name)) {
        panel.run_soon();
    }
    Vec::new()
}
