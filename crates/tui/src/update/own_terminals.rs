//! A person's own terminals: what keys and pasted text do there, and what is read of them.
//!
//! Invariants: all keys go to the program, save Ctrl-g, which leads to the commands of the screen; nothing is typed
//! twice; nothing is typed into a terminal that is not shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::limits::OWN_TERMINAL_WRITE_BYTES_MAX;
use countersign_protocol::{
    NoParams, OpenTerminalParams, OwnTerminalOutputParams, OwnTerminalParams, OwnTerminalRow,
    ResizeTerminalParams, TerminalOutputResult, WriteTerminalParams, WrittenTerminal, method,
};

use crate::agent_terminals::TerminalScreen;
use crate::decision_guard::GuardEvent;
use crate::host_call::{CallFailure, CallLane, HostCall, ReplyTag};
use crate::key::{Key, KeyCode};
use crate::keymap::KeyLookup;
use crate::layout::PanelKind;
use crate::message::Effect;
use crate::model::{ConfirmPurpose, Model, Overlay};
use crate::render::escape;
use crate::terminal_keys::{KeyModes, key_bytes, paste_bytes};

use super::keys::TypedKey;
use super::{answers, commands, keys, say};

/// The one key that the program does not get.
const LEADER: Key = Key::ctrl('g');
const ROWS_KEY: &str = "own terminals";
const OUTPUT_KEY: &str = "own terminal output";

/// Whether keys go to a program.
pub fn takes_keys(model: &Model) -> bool {
    model.overlay.is_none()
        && model.focused_kind() == PanelKind::OwnTerminal
        && model.own_terminals.live().is_some()
}

pub(super) fn handle_key(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    model.notices.clear();
    answers::cancel_pending(model);
    // A key for a program is a key in between as well: without this, a first act from before could
    // be completed after any amount of typing.
    model.ask.guard.step(&GuardEvent::OtherKey, typed.at);
    if model.typed.is_empty() {
        return match typed.key {
            LEADER => {
                model.typed.push(LEADER);
                model.typed_at = typed.at;
                Vec::new()
            }
            key => type_key(model, key),
        };
    }
    if model.typed != [LEADER] {
        return keys::look_up(model, typed);
    }
    // The leader twice types the leader, which the program could not get otherwise.
    if typed.key == LEADER {
        model.typed.clear();
        return type_bytes(model, &key_bytes(LEADER, KeyModes::default()));
    }
    let with_leader = [LEADER, typed.key];
    // Behind the leader the screen has its other keys too: Tab, the palette, the way back.
    if model.keymap.lookup(PanelKind::OwnTerminal, &with_leader) == KeyLookup::Unknown {
        model.typed.clear();
    }
    keys::look_up(model, typed)
}

fn type_key(model: &mut Model, key: Key) -> Vec<Effect> {
    let screen = model.own_terminals.screen.as_mut();
    // While older output is on screen, the page keys move in it. Any other key returns to the end
    // first, so that nobody types without seeing what the program shows.
    if let Some(screen) = screen.filter(|screen| screen.screen().scrollback() > 0) {
        // One row less than is shown, so that a row of the previous page stays visible.
        let page = isize::try_from(screen.size.1).unwrap_or(1).max(2) - 1;
        match key.code {
            KeyCode::PageUp => screen.scroll(-page),
            KeyCode::PageDown => screen.scroll(page),
            _ => screen.scroll(isize::MAX),
        }
        if matches!(key.code, KeyCode::PageUp | KeyCode::PageDown) {
            return Vec::new();
        }
    }
    let bytes = key_bytes(key, modes(model));
    type_bytes(model, &bytes)
}

pub(super) fn handle_paste(model: &mut Model, text: &str) -> Vec<Effect> {
    model.typed.clear();
    answers::cancel_pending(model);
    let bytes = paste_bytes(text, modes(model));
    type_bytes(model, &bytes)
}

fn modes(model: &Model) -> KeyModes {
    let screen = model.own_terminals.screen.as_ref();
    screen.map_or(KeyModes::default(), |screen| KeyModes {
        application_cursor: screen.screen().application_cursor(),
        bracketed_paste: screen.screen().bracketed_paste(),
    })
}

fn type_bytes(model: &mut Model, bytes: &[u8]) -> Vec<Effect> {
    if !model.host.is_up() {
        return say(model, "not connected: nothing was typed");
    }
    let Some(id) = model.own_terminals.live().map(|row| row.id.clone()) else {
        return Vec::new();
    };
    if !model.own_terminals.push_typed(&id, bytes) {
        return say(
            model,
            "nothing was typed: too much waits for the program in this terminal",
        );
    }
    send_typed(model)
}

/// Sends the next of what was typed, unless some is on its way.
fn send_typed(model: &mut Model) -> Vec<Effect> {
    let own = &mut model.own_terminals;
    // One write at a time: the host may take a part only, and a second write would overtake the rest.
    if own.is_typing {
        return Vec::new();
    }
    let Some((terminal, bytes)) = own.next_typed(OWN_TERMINAL_WRITE_BYTES_MAX) else {
        return Vec::new();
    };
    let params = WriteTerminalParams {
        terminal_id: terminal.to_owned(),
        data: STANDARD.encode(bytes),
    };
    own.is_typing = true;
    let call =
        HostCall::new::<method::WriteTerminal>(CallLane::Type, &params, ReplyTag::TerminalTyped);
    vec![Effect::Call(call)]
}

/// So much was taken; the rest is sent again.
pub(super) fn take_written(model: &mut Model, written: WrittenTerminal) -> Vec<Effect> {
    let count = usize::try_from(written.written).unwrap_or(usize::MAX);
    model.own_terminals.is_typing = false;
    model.own_terminals.drop_typed(count);
    send_typed(model)
}

/// What was on its way may have been typed, so nothing of it is sent again.
pub(super) fn drop_typed(model: &mut Model) {
    let was_empty = model.own_terminals.clear_typed();
    if !was_empty {
        let at = model.now.ms;
        model
            .notices
            .say("what was typed last may not have reached the terminal", at);
    }
}

/// The size of the panel, if there is one on the screen: its first row says which terminal it is.
fn shown_size(model: &Model) -> Option<(u16, u16)> {
    let mut panels = model.drawn.panels.iter();
    let panel = panels.find(|panel| panel.spec.kind == PanelKind::OwnTerminal)?;
    let size = (panel.area.width, panel.area.height.saturating_sub(1));
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// Reads what is on the screen, and has the terminal follow the size of the panel.
pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    let Some(size) = shown_size(model).filter(|_| model.host.is_up()) else {
        return Vec::new();
    };
    if !model.own_terminals.is_loaded {
        return list(model).into_iter().collect();
    }
    let own = &mut model.own_terminals;
    let Some(row) = own.selected() else {
        return Vec::new();
    };
    let (id, is_live) = (row.id.clone(), row.ended_at.is_none());
    let is_current = own.screen.as_ref().is_some_and(|screen| screen.id == id);
    if !is_current {
        own.screen = Some(TerminalScreen::raw(&id, size));
        // A read of the terminal that was shown before may still wait, and must not block the first
        // read of this one. Its answer names the other terminal and is ignored.
        model.loading.remove(OUTPUT_KEY);
    }
    let mut effects = Vec::new();
    if let Some(screen) = own.screen.as_mut().filter(|screen| screen.size != size) {
        screen.resize(size);
    }
    if is_live && own.told_size.as_ref() != Some(&(id.clone(), size)) {
        own.told_size = Some((id.clone(), size));
        effects.push(resize(&id, size));
    }
    effects.extend(read_output(model));
    effects
}

/// Once a second, while it is shown: which terminals there are.
pub(super) fn refresh(model: &mut Model) -> Vec<Effect> {
    if shown_size(model).is_none() {
        return Vec::new();
    }
    list(model).into_iter().collect()
}

fn list(model: &mut Model) -> Option<Effect> {
    if !model.host.is_up() || !model.loading.insert(ROWS_KEY.to_owned()) {
        return None;
    }
    let tag = ReplyTag::OwnTerminals;
    let call = HostCall::new::<method::OwnTerminals>(CallLane::Read, &NoParams {}, tag);
    Some(Effect::Call(call))
}

fn resize(id: &str, size: (u16, u16)) -> Effect {
    let params = ResizeTerminalParams {
        terminal_id: id.to_owned(),
        columns: size.0,
        rows: size.1,
    };
    let tag = ReplyTag::TerminalChanged;
    // With what is typed, so that a program learns of both in this order.
    Effect::Call(HostCall::new::<method::ResizeTerminal>(
        CallLane::Type,
        &params,
        tag,
    ))
}

/// Waits for more output of the selected terminal.
fn read_output(model: &mut Model) -> Option<Effect> {
    let screen = model.own_terminals.screen.as_ref()?;
    if screen.has_ended || !model.loading.insert(OUTPUT_KEY.to_owned()) {
        return None;
    }
    let params = OwnTerminalOutputParams {
        terminal_id: screen.id.clone(),
        after: Some(screen.next),
        wait: true,
    };
    let tag = ReplyTag::OwnTerminalOutput {
        terminal: screen.id.clone(),
        after: screen.next,
    };
    Some(Effect::Call(HostCall::new::<method::OwnTerminalOutput>(
        CallLane::Watch,
        &params,
        tag,
    )))
}

pub(super) fn take_rows(model: &mut Model, rows: Vec<OwnTerminalRow>) -> Vec<Effect> {
    model.loading.remove(ROWS_KEY);
    model.own_terminals.replace_rows(rows);
    Vec::new()
}

/// Takes in a piece, if it continues what is shown.
pub(super) fn take_output(
    model: &mut Model,
    terminal: &str,
    after: u64,
    piece: &TerminalOutputResult,
) -> Vec<Effect> {
    let screen = model.own_terminals.screen.as_mut();
    // A late answer may be about another terminal, or about bytes that were drawn already.
    let Some(screen) = screen.filter(|screen| screen.id == terminal && screen.next == after) else {
        return Vec::new();
    };
    model.loading.remove(OUTPUT_KEY);
    screen.process(&STANDARD.decode(&piece.data).unwrap_or_default());
    screen.next = piece.next;
    screen.has_ended = piece.ended;
    screen.is_cut |= piece.skipped > 0;
    if piece.skipped > 0 && screen.size.1 > 1 {
        // What filled the screen is not kept any more. A program that has all of it draws it anew for another size.
        let (id, (columns, rows)) = (screen.id.clone(), screen.size);
        return vec![
            resize(&id, (columns, rows - 1)),
            resize(&id, (columns, rows)),
        ];
    }
    // Whether keys still go to the program depends on the row, which does not know of the end yet.
    if piece.ended {
        return list(model).into_iter().collect();
    }
    Vec::new()
}

/// What cannot be read is said in the panel; it is tried again when the list is read.
pub(super) fn record_failure(model: &mut Model, tag: &ReplyTag, failure: &CallFailure) {
    match tag {
        ReplyTag::OwnTerminals => {
            model.loading.remove(ROWS_KEY);
            model.own_terminals.is_loaded = true;
            model.own_terminals.problem = Some(failure.message.clone());
        }
        ReplyTag::OwnTerminalOutput { terminal, .. } => {
            let screen = model.own_terminals.screen.as_mut();
            // Read again only when the list says that there is such a terminal.
            if let Some(screen) = screen.filter(|screen| screen.id == *terminal) {
                // A lost connection says nothing about the terminal, so it is read again once the host is back.
                screen.has_ended = !failure.is_lost;
            }
            model.loading.remove(OUTPUT_KEY);
        }
        _ => drop_typed(model),
    }
}

/// Opens one in the folder of the selected agent, or where the screen was opened.
pub(super) fn open(model: &mut Model) -> Vec<Effect> {
    let agent = model
        .subject_agent()
        .filter(|agent| agent.managed.is_some());
    let agent_id = agent.map(|agent| agent.id.clone());
    let size = shown_size(model);
    let params = OpenTerminalParams {
        cwd: model.folder.clone().filter(|_| agent_id.is_none()),
        agent_id,
        command: None,
        columns: size.map(|size| size.0),
        rows: size.map(|size| size.1),
    };
    commands::go(model, PanelKind::OwnTerminal);
    vec![Effect::Call(HostCall::new::<method::OpenTerminal>(
        CallLane::Type,
        &params,
        ReplyTag::TerminalOpened,
    ))]
}

pub(super) fn take_opened(model: &mut Model, row: OwnTerminalRow) -> Vec<Effect> {
    model.own_terminals.add(row);
    Vec::new()
}

pub(super) fn choose(model: &mut Model, step: isize) -> Vec<Effect> {
    model.own_terminals.move_selection(step);
    Vec::new()
}

pub(super) fn ask_to_close(model: &mut Model) -> Vec<Effect> {
    let Some(row) = model.own_terminals.selected() else {
        return say(model, "there is no terminal");
    };
    let command = escape::line(&row.command);
    let question = match row.ended_at {
        Some(_) => format!("close the terminal of {command}, which has ended?"),
        None => format!("close this terminal and end {command} and all that runs in it?"),
    };
    model.overlay = Some(Overlay::Confirm {
        purpose: ConfirmPurpose::CloseTerminal {
            terminal: row.id.clone(),
        },
        question,
        asked_at: model.now.ms,
    });
    Vec::new()
}

pub(super) fn close(terminal: &str) -> Vec<Effect> {
    let params = OwnTerminalParams {
        terminal_id: terminal.to_owned(),
    };
    let tag = ReplyTag::TerminalChanged;
    vec![Effect::Call(HostCall::new::<method::CloseTerminal>(
        CallLane::Type,
        &params,
        tag,
    ))]
}

/// Something was done to one of them.
pub(super) fn take_changed(model: &mut Model) -> Vec<Effect> {
    list(model).into_iter().collect()
}

pub(super) fn scroll(model: &mut Model, steps: isize) -> Vec<Effect> {
    if let Some(screen) = &mut model.own_terminals.screen {
        screen.scroll(steps);
    }
    Vec::new()
}
