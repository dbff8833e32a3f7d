//! Reading the terminals of agents: those on the screen, once a second.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_protocol::{AgentParams, TerminalOutputParams, TerminalOutputResult, method};

use crate::agent_terminals::TerminalScreen;
use crate::host_call::{CallFailure, CallLane, HostCall, ReplyTag};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::Model;

/// Pieces that are read between two seconds. An agent that floods its terminal costs no more than this.
const PIECES_PER_SECOND: u8 = 8;

/// The agents whose terminals are on the screen, with the size of the panel.
fn shown_agents(model: &Model) -> Vec<(String, (u16, u16))> {
    let panels = model
        .drawn
        .panels
        .iter()
        .filter(|panel| panel.spec.kind == PanelKind::Terminals);
    let shown = panels.filter_map(|panel| {
        let agent = model.panel_agent(&panel.spec)?;
        // The first row says which terminal it is.
        let size = (panel.area.width, panel.area.height.saturating_sub(1));
        Some((agent.id.clone(), size))
    });
    shown.collect()
}

/// Reads what is on the screen and was not read yet, and forgets what is not.
pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    let shown = shown_agents(model);
    model
        .terminals
        .retain(|agent, _| shown.iter().any(|(id, _)| id == agent));
    if !model.host.is_up() {
        return Vec::new();
    }
    let mut effects = Vec::new();
    for (agent, size) in shown {
        let terminals = model.terminals.entry(agent.clone()).or_default();
        if !terminals.is_loaded {
            effects.extend(list(model, &agent));
            continue;
        }
        let Some(id) = terminals.selected().map(|row| row.id.clone()) else {
            continue;
        };
        let is_current = terminals
            .screen
            .as_ref()
            .is_some_and(|screen| screen.id == id && screen.size == size);
        // At another size lines break elsewhere, so it is read again.
        if !is_current {
            terminals.screen = Some(TerminalScreen::new(&id, size));
            model.terminal_pieces = PIECES_PER_SECOND;
            model.loading.remove(&output_key(&agent));
            effects.extend(read_output(model, &agent));
        }
    }
    effects
}

/// Once a second: what is new.
pub(super) fn refresh(model: &mut Model) -> Vec<Effect> {
    model.terminal_pieces = PIECES_PER_SECOND;
    let mut effects = Vec::new();
    for (agent, _) in shown_agents(model) {
        effects.extend(list(model, &agent));
        effects.extend(read_output(model, &agent));
    }
    effects
}

fn output_key(agent: &str) -> String {
    format!("terminal output {agent}")
}

fn list(model: &mut Model, agent: &str) -> Option<Effect> {
    if !model.host.is_up() || !model.loading.insert(format!("terminals {agent}")) {
        return None;
    }
    let params = AgentParams {
        agent_id: agent.to_owned(),
    };
    let tag = ReplyTag::Terminals {
        agent: agent.to_owned(),
    };
    Some(Effect::Call(HostCall::new::<method::Terminals>(
        CallLane::Read,
        &params,
        tag,
    )))
}

fn read_output(model: &mut Model, agent: &str) -> Option<Effect> {
    let screen = model.terminals.get(agent)?.screen.as_ref()?;
    if screen.has_ended || !model.host.is_up() {
        return None;
    }
    let (terminal, after) = (screen.id.clone(), screen.next);
    if !model.loading.insert(output_key(agent)) {
        return None;
    }
    let params = TerminalOutputParams {
        agent_id: agent.to_owned(),
        terminal_id: terminal.clone(),
        after: Some(after),
        wait: false,
    };
    let tag = ReplyTag::TerminalOutput {
        agent: agent.to_owned(),
        terminal,
        after,
    };
    Some(Effect::Call(HostCall::new::<method::TerminalOutput>(
        CallLane::Read,
        &params,
        tag,
    )))
}

/// What cannot be read is said in the panel, where it does not hide what the screen says otherwise.
pub(super) fn record_failure(model: &mut Model, agent: &str, failure: &CallFailure) -> Vec<Effect> {
    model.loading.remove(&format!("terminals {agent}"));
    model.loading.remove(&output_key(agent));
    if let Some(terminals) = model.terminals.get_mut(agent) {
        terminals.is_loaded = true;
        terminals.problem = Some(failure.message.clone());
    }
    Vec::new()
}

/// Takes in a piece, if it continues what is shown.
pub(super) fn take_output(
    model: &mut Model,
    agent: &str,
    terminal: &str,
    after: u64,
    piece: &TerminalOutputResult,
) -> Vec<Effect> {
    let Some(screen) = model
        .terminals
        .get_mut(agent)
        .and_then(|terminals| terminals.screen.as_mut())
        .filter(|screen| screen.id == terminal && screen.next == after)
    else {
        return Vec::new();
    };
    model.loading.remove(&output_key(agent));
    let bytes = STANDARD.decode(&piece.data).unwrap_or_default();
    screen.process(&bytes);
    screen.next = piece.next;
    screen.has_ended = piece.ended;
    screen.is_cut |= piece.skipped > 0;
    if bytes.is_empty() || model.terminal_pieces == 0 {
        return Vec::new();
    }
    model.terminal_pieces -= 1;
    read_output(model, agent).into_iter().collect()
}

pub(super) fn scroll(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    let agent = model.panel_agent(panel).map(|agent| agent.id.clone());
    let terminals = agent.and_then(|agent| model.terminals.get_mut(&agent));
    if let Some(screen) = terminals.and_then(|terminals| terminals.screen.as_mut()) {
        screen.scroll(steps);
    }
    Vec::new()
}

/// Shows the next terminal of the agent, or the one before.
pub(super) fn choose(model: &mut Model, is_forward: bool) -> Vec<Effect> {
    let panel = model.focused_panel();
    let agent = model.panel_agent(&panel).map(|agent| agent.id.clone());
    if let Some(terminals) = agent.and_then(|agent| model.terminals.get_mut(&agent)) {
        terminals.move_selection(is_forward);
    }
    Vec::new()
}
