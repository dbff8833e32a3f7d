//! The viewer and the tail.

use std::collections::BTreeSet;

use countersign_core::limits::FILE_PIECE_BYTES;
use countersign_protocol::{AgentTarget, ReadFileQuery, method};

use crate::agent_files::{AgentFile, LoadedPage};
use crate::host_call::{CallResult, FileReply, parse_result};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::Model;

use super::{call, editor, file_of, say};

/// What a tail begins with, and what it reads at a time.
const TAIL_BYTES: u32 = 64 * 1024;

fn shown_files(model: &Model, kind: PanelKind) -> BTreeSet<AgentFile> {
    let panels = model.drawn.panels.iter();
    let shown = panels.filter(|panel| panel.spec.kind == kind);
    shown
        .filter_map(|panel| file_of(model, &panel.spec))
        .collect()
}

/// What is not on the screen is read again when it is.
pub(super) fn forget_hidden(model: &mut Model) {
    let (viewed, followed) = (
        shown_files(model, PanelKind::Viewer),
        shown_files(model, PanelKind::Tail),
    );
    model.files.views.retain(|file, _| viewed.contains(file));
    model.files.tails.retain(|file, _| followed.contains(file));
}

pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    let mut effects = Vec::new();
    for file in shown_files(model, PanelKind::Viewer) {
        let view = model.files.views.entry(file.clone()).or_default();
        if !view.is_loaded() {
            let offset = view.wanted;
            effects.extend(read_page(model, file, offset));
        }
    }
    for file in shown_files(model, PanelKind::Tail) {
        let tail = model.files.tails.entry(file.clone()).or_default();
        if tail.next.is_none() && tail.problem.is_none() {
            effects.extend(read_tail(model, file));
        }
    }
    effects
}

/// Once a second: what was appended to followed files, and whether the edited one was changed.
pub(crate) fn refresh(model: &mut Model) -> Vec<Effect> {
    let mut effects: Vec<Effect> = super::notes::save_due(model).into_iter().collect();
    for file in shown_files(model, PanelKind::Tail) {
        effects.extend(read_tail(model, file));
    }
    effects.extend(editor::check(model));
    effects
}

fn read_page(model: &mut Model, file: AgentFile, offset: u64) -> Option<Effect> {
    let params = AgentTarget {
        agent_id: file.agent.clone(),
        body: ReadFileQuery {
            path: file.path.clone(),
            offset: Some(offset),
            limit: u32::try_from(FILE_PIECE_BYTES).ok(),
            from_end: false,
        },
    };
    call::<method::ReadFile>(model, &params, FileReply::View { file, offset })
}

fn read_tail(model: &mut Model, file: AgentFile) -> Option<Effect> {
    let after = model.files.tails.get(&file).and_then(|tail| tail.next);
    let params = AgentTarget {
        agent_id: file.agent.clone(),
        body: ReadFileQuery {
            path: file.path.clone(),
            offset: after,
            limit: Some(TAIL_BYTES),
            from_end: after.is_none(),
        },
    };
    call::<method::ReadFile>(model, &params, FileReply::Tail { file, after })
}

pub(super) fn take_page(model: &mut Model, file: &AgentFile, result: CallResult) -> Vec<Effect> {
    let Some(view) = model.files.views.get_mut(file) else {
        return Vec::new();
    };
    match parse_result::<method::ReadFile>(result) {
        Ok(page) => {
            view.wanted = page.from;
            view.page = Some(LoadedPage::new(page));
            view.problem = None;
        }
        Err(failure) => view.problem = Some(failure.message),
    }
    Vec::new()
}

pub(super) fn take_piece(model: &mut Model, file: &AgentFile, result: CallResult) -> Vec<Effect> {
    let Some(tail) = model.files.tails.get_mut(file) else {
        return Vec::new();
    };
    match parse_result::<method::ReadFile>(result) {
        Ok(piece) => {
            tail.append(&piece);
            // A file that grows faster than it is read: its end is what is followed.
            let behind = piece.size.saturating_sub(piece.next);
            if behind > u64::from(TAIL_BYTES) && tail.next == Some(piece.next) {
                tail.next = Some(piece.size - u64::from(TAIL_BYTES));
                tail.note_gap();
            }
        }
        Err(failure) => tail.problem = Some(failure.message),
    }
    Vec::new()
}

fn focused_file(model: &Model) -> Option<AgentFile> {
    file_of(model, &model.focused_panel())
}

pub(super) fn toggle_format(model: &mut Model) -> Vec<Effect> {
    let panel = model.focused_panel().id;
    if let Some(view) = focused_file(model).and_then(|file| model.files.views.get_mut(&file)) {
        view.is_source = !view.is_source;
        model.view_mut(&panel).scroll = 0;
    }
    Vec::new()
}

pub(super) fn turn_page(model: &mut Model, is_forward: bool) -> Vec<Effect> {
    let panel = model.focused_panel().id;
    let view = focused_file(model).and_then(|file| model.files.views.get_mut(&file));
    if view.is_some_and(|view| view.turn_page(is_forward)) {
        model.view_mut(&panel).scroll = 0;
        return Vec::new();
    }
    say(model, "there is no other page")
}

pub(super) fn scroll_view(model: &mut Model, panel: &PanelSpec, steps: isize) {
    let view = file_of(model, panel).and_then(|file| model.files.views.get(&file));
    let rows = view.and_then(|view| Some(view.page.as_ref()?.shown(view.is_source).len()));
    let last = rows.unwrap_or(0).saturating_sub(1);
    let view = model.view_mut(&panel.id);
    view.scroll = view.scroll.saturating_add_signed(steps).min(last);
}

pub(super) fn scroll_tail(model: &mut Model, panel: &PanelSpec, steps: isize) {
    let height = usize::from(model.drawn.panel_height(&panel.id)).saturating_sub(1);
    let file = file_of(model, panel);
    if let Some(tail) = file.and_then(|file| model.files.tails.get_mut(&file)) {
        tail.scroll(steps, height);
    }
}
