//! Moving in lists and texts, by keys and by the wheel.

use crate::command::Action;
use crate::inbox::agent_of;
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::Model;

use super::{
    agents, answers, command_panels, commands, diff, feed, files, own_terminals, rules, say,
    search, terminals, transcripts,
};

/// Lines that the wheel moves by.
const WHEEL_LINES: isize = 3;

/// How far a command moves, in rows of a panel.
fn steps_of(action: Action, height: isize) -> isize {
    let page = (height - 1).max(1);
    match action {
        Action::LineDown => 1,
        Action::LineUp => -1,
        Action::PageDown => page,
        Action::PageUp => -page,
        Action::HalfDown => (page / 2).max(1),
        Action::HalfUp => -(page / 2).max(1),
        Action::Top => isize::MIN / 2,
        _ => isize::MAX / 2,
    }
}

pub(super) fn scroll(model: &mut Model, action: Action) -> Vec<Effect> {
    let panel = model.focused_panel();
    let height = model.drawn.panel_height(&panel.id);
    let steps = steps_of(action, isize::try_from(height).unwrap_or(isize::MAX));
    move_panel(model, &panel, steps)
}

/// Moves what a panel shows or selects.
fn move_panel(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    match panel.kind {
        PanelKind::Inbox => move_inbox(model, steps),
        // By no more than a page: what is jumped over was not read.
        PanelKind::Ask => {
            model.ask.scroll_by(steps);
            Vec::new()
        }
        PanelKind::Agents => agents::move_cursor(model, panel, steps),
        PanelKind::Transcript | PanelKind::Chat => transcripts::scroll(model, panel, steps),
        PanelKind::Diff => diff::move_cursor(model, panel, steps),
        PanelKind::Feed => feed::move_cursor(model, panel, steps),
        PanelKind::Rules => rules::move_cursor(model, panel, steps),
        PanelKind::History => move_history(model, &panel.id, steps),
        PanelKind::Terminals => terminals::scroll(model, panel, steps),
        PanelKind::Command => command_panels::scroll(model, panel, steps),
        PanelKind::Files
        | PanelKind::Viewer
        | PanelKind::Editor
        | PanelKind::Tail
        | PanelKind::Notes => files::move_cursor(model, panel, steps),
        PanelKind::OwnTerminal => own_terminals::scroll(model, steps),
        PanelKind::Search => search::move_cursor(model, panel, steps),
        PanelKind::Usage => Vec::new(),
    }
}

fn move_history(model: &mut Model, panel: &str, steps: isize) -> Vec<Effect> {
    let agents = model.history(panel);
    let last = agents.len().saturating_sub(1);
    let index = model.history_index(panel, &agents);
    let index = index.saturating_add_signed(steps).min(last);
    let selected = agents.get(index).map(|agent| agent.id.clone());
    let view = model.view_mut(panel);
    view.cursor = index;
    view.selected = selected;
    Vec::new()
}

/// Whoever sees a row as selected means what it is about, also if it stands elsewhere a moment later.
pub(super) fn record_drawn(model: &mut Model) {
    let panels = model.drawn.panels.iter();
    let lists = panels.filter(|panel| panel.spec.kind == PanelKind::History);
    let lists: Vec<String> = lists.map(|panel| panel.spec.id.clone()).collect();
    for panel in lists {
        if model.view(&panel).selected.is_none() {
            move_history(model, &panel, 0);
        }
    }
}

pub(super) fn move_inbox(model: &mut Model, steps: isize) -> Vec<Effect> {
    let steps = listed_steps(model, steps);
    model.inbox.move_selection(steps);
    follow_selection(model);
    Vec::new()
}

/// Steps among all items, for steps among those that are listed.
fn listed_steps(model: &Model, steps: isize) -> isize {
    let rows = model.inbox_rows();
    let selected = model.inbox.selected_index();
    let Some(at) = rows.iter().position(|row| Some(*row) == selected) else {
        return steps;
    };
    let next = at.saturating_add_signed(steps).min(rows.len() - 1);
    rows[next].cast_signed() - rows[at].cast_signed()
}

/// Selects an item of the inbox.
pub(super) fn select_item(model: &mut Model, id: String) {
    model.inbox.select(Some(id));
    follow_selection(model);
}

/// Panels that show the selected agent show the one of the selected item.
pub(super) fn follow_selection(model: &mut Model) {
    let agent = model
        .inbox
        .selected_item()
        .and_then(agent_of)
        .map(str::to_owned);
    if let Some(agent) = agent.filter(|agent| model.host.agents.contains_key(agent)) {
        model.selected_agent = Some(agent);
    }
}

pub(super) fn open_selected(model: &mut Model) -> Vec<Effect> {
    match model.focused_kind() {
        PanelKind::Inbox => commands::go(model, PanelKind::Ask),
        // Full size: more of it is on the screen at once.
        PanelKind::Ask => {
            if model.workspace.page().is_none() {
                model.workspace.open_page(PanelSpec {
                    id: "ask page".to_owned(),
                    ..PanelSpec::new(PanelKind::Ask)
                });
            }
            Vec::new()
        }
        PanelKind::Agents | PanelKind::History => agents::open(model),
        PanelKind::Feed => feed::open_selected(model),
        PanelKind::Search => search::open_selected(model),
        PanelKind::Files => files::open_selected(model),
        PanelKind::OwnTerminal => own_terminals::open(model),
        PanelKind::Transcript
        | PanelKind::Chat
        | PanelKind::Diff
        | PanelKind::Rules
        | PanelKind::Terminals
        | PanelKind::Command
        | PanelKind::Viewer
        | PanelKind::Editor
        | PanelKind::Tail
        | PanelKind::Notes
        | PanelKind::Usage => Vec::new(),
    }
}

/// Copies what names the selected thing in other programs.
pub(super) fn copy_selected(model: &mut Model) -> Vec<Effect> {
    let text = match model.focused_kind() {
        PanelKind::Inbox | PanelKind::Ask => {
            model.inbox.selected_item().map(|item| item.id().to_owned())
        }
        _ => model.subject_agent().map(|agent| agent.id.clone()),
    };
    let Some(text) = text else {
        return say(model, "nothing is selected");
    };
    say(model, "copied its id");
    vec![Effect::Copy(text)]
}

/// The wheel moves what is under it, and decides nothing.
pub(super) fn handle_wheel(model: &mut Model, x: u16, y: u16, is_down: bool) -> Vec<Effect> {
    let Some(panel) = model.drawn.panel_at(x, y) else {
        return Vec::new();
    };
    let steps = if is_down { WHEEL_LINES } else { -WHEEL_LINES };
    // The selection is a person's: turning the wheel over the inbox must not change what is being read.
    match panel.kind {
        PanelKind::Inbox | PanelKind::Agents => Vec::new(),
        _ => move_panel(model, &panel, steps),
    }
}

/// A click gives a panel the focus.
pub(super) fn handle_click(model: &mut Model, x: u16, y: u16) -> Vec<Effect> {
    if model.overlay.is_some() {
        return Vec::new();
    }
    if let Some(panel) = model.drawn.panel_at(x, y) {
        answers::cancel_pending(model);
        model.workspace.focus(&panel.id);
    }
    Vec::new()
}
