//! The palette: every command, agent, item, layout and theme by its words.

use crate::agent_files::AgentFile;
use crate::command::COMMANDS;
use crate::key::KeyCode;
use crate::layout::PanelKind;
use crate::message::Effect;
use crate::model::{Model, Overlay, PaletteEntry, PaletteTarget};
use crate::render::escape;
use crate::text_box::{BoxOutcome, TextBox};

use super::keys::TypedKey;
use super::letter_pattern::LetterPattern;
use super::{command_panels, commands, files, lists, overlays, say};

/// Entries that are listed at once.
const ENTRIES_MAX: usize = 200;

/// The entries whose words have what was typed, the best first.
pub fn palette_entries(model: &Model, typed: &str) -> Vec<PaletteEntry> {
    if let Some(needle) = typed.strip_prefix(files::FIND_WORD) {
        return file_entries(model, needle);
    }
    let letters = LetterPattern::new(typed);
    let mut scored: Vec<(usize, PaletteEntry)> = all_entries(model)
        .into_iter()
        .filter_map(|entry| Some((letters.score(&entry.text)?, entry)))
        .collect();
    scored.sort_by_key(|(score, _)| *score);
    let entries = scored.into_iter().map(|(_, entry)| entry);
    let mut entries: Vec<PaletteEntry> = entries.take(ENTRIES_MAX).collect();
    // Files come after what is named in words, and only once something was typed: there are thousands of them.
    if !typed.trim().is_empty() {
        entries.extend(file_entries(model, typed));
        entries.truncate(ENTRIES_MAX);
    }
    entries
}

/// The files whose path has the typed letters in their order, the best first.
fn file_entries(model: &Model, typed: &str) -> Vec<PaletteEntry> {
    let agent = files::found_agent(model);
    let found = agent.and_then(|agent| Some((model.files.found.get(&agent)?, agent)));
    let Some((found, agent)) = found else {
        return Vec::new();
    };
    let letters = LetterPattern::new(typed);
    let mut scored: Vec<(usize, &String)> = found
        .paths
        .iter()
        .filter_map(|path| Some((letters.score_path(path)?, path)))
        .collect();
    // Stable, so that equally good paths stay in the order of the tree.
    scored.sort_by_key(|(score, _)| *score);
    let paths = scored.into_iter().map(|(_, path)| path).take(ENTRIES_MAX);
    let entries = paths.map(|path| PaletteEntry {
        target: PaletteTarget::File(AgentFile {
            agent: agent.clone(),
            path: path.clone(),
        }),
        text: format!("file {}", escape::line(path)),
        key: String::new(),
        why_not: None,
    });
    entries.collect()
}

fn all_entries(model: &Model) -> Vec<PaletteEntry> {
    let entry = |target: PaletteTarget, text: String| PaletteEntry {
        target,
        text,
        key: String::new(),
        why_not: None,
    };
    let commands = COMMANDS.iter().map(|command| PaletteEntry {
        target: PaletteTarget::Command(command.action),
        text: format!("{}: {}", command.id, command.word),
        key: model.keymap.key_of(command.action).unwrap_or_default(),
        why_not: commands::why_not(model, command.action),
    });
    let agents = model.host.agents.values().map(|agent| {
        let text = format!("agent {}", escape::line(&agent.name));
        entry(PaletteTarget::Agent(agent.id.clone()), text)
    });
    let items = model.inbox.items().iter().map(|item| {
        let text = format!(
            "{} {} {}",
            item.kind(),
            item.asker(),
            item.summary(model.now.wall)
        );
        entry(PaletteTarget::Item(item.id().to_owned()), text)
    });
    let layouts = model.workspace.layouts.iter().map(|layout| {
        let text = format!("layout {}", escape::line(&layout.name));
        entry(PaletteTarget::Layout(layout.name.clone()), text)
    });
    let themes = model.themes.iter().map(|theme| {
        let text = format!("theme {}", escape::line(&theme.name));
        entry(PaletteTarget::Theme(theme.name.clone()), text)
    });
    let panels = model.commands.names().map(|name| {
        let text = format!("panel {}", escape::line(name));
        entry(PaletteTarget::CommandPanel(name.to_owned()), text)
    });
    commands
        .chain(agents)
        .chain(items)
        .chain(layouts)
        .chain(themes)
        .chain(panels)
        .collect()
}

pub(super) fn handle_key(
    model: &mut Model,
    typed: TypedKey,
    mut text: TextBox,
    selected: usize,
) -> Vec<Effect> {
    let count = palette_entries(model, &text.text()).len();
    let last = count.saturating_sub(1);
    let selected = match typed.key.code {
        KeyCode::Down | KeyCode::Tab => (selected + 1).min(last),
        KeyCode::Up | KeyCode::BackTab => selected.saturating_sub(1),
        _ => match text.handle_key(typed.key) {
            BoxOutcome::Leave => return Vec::new(),
            BoxOutcome::Send => return perform_entry(model, typed, &text.text(), selected),
            BoxOutcome::Edited => 0,
            BoxOutcome::Unused => selected,
        },
    };
    model.overlay = Some(Overlay::Palette { text, selected });
    Vec::new()
}

fn perform_entry(model: &mut Model, typed: TypedKey, text: &str, selected: usize) -> Vec<Effect> {
    let Some(entry) = palette_entries(model, text).into_iter().nth(selected) else {
        return say(model, "no command has these words");
    };
    if let Some(why) = entry.why_not {
        return say(model, why);
    }
    match entry.target {
        PaletteTarget::Command(action) => {
            // Decision keys work only while the ask has the focus, so from here they go to the ask first.
            if is_decision(action) && model.focused_kind() != PanelKind::Ask {
                commands::go(model, PanelKind::Ask);
                return say(model, "this is the ask: read it, then use its key");
            }
            commands::perform(model, action, typed)
        }
        PaletteTarget::Agent(id) => {
            model.selected_agent = Some(id);
            commands::go(model, PanelKind::Transcript)
        }
        PaletteTarget::Item(id) => {
            lists::select_item(model, id);
            commands::go(model, PanelKind::Ask)
        }
        PaletteTarget::Layout(name) => overlays::set_layout(model, &name),
        PaletteTarget::Theme(name) => overlays::set_theme(model, &name),
        PaletteTarget::CommandPanel(name) => command_panels::open(model, &name),
        PaletteTarget::File(file) => files::open_file(model, file, PanelKind::Viewer),
    }
}

fn is_decision(action: crate::command::Action) -> bool {
    let command = crate::command::find_command(action);
    command.is_some_and(|command| command.id.starts_with("ask."))
}
