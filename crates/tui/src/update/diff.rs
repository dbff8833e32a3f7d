//! Reading changes, commenting on them, and sending the comments as one message.

use countersign_protocol::{AgentTarget, DiffForm, DiffQuery, method};

use crate::command::Action;
use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::{ConfirmPurpose, Model, Overlay, TextPurpose};
use crate::render::escape;
use crate::review::{DiffRow, Review};

use super::{agents, overlays, say};

/// The agent whose changes the focused panel shows.
fn shown_agent(model: &Model) -> Option<String> {
    model
        .panel_agent(&model.focused_panel())
        .map(|agent| agent.id.clone())
}

fn call(agent: &str) -> Effect {
    let params = AgentTarget {
        agent_id: agent.to_owned(),
        body: DiffQuery {
            form: Some(DiffForm::Hunks),
            path: None,
        },
    };
    let tag = ReplyTag::Diff {
        agent: agent.to_owned(),
    };
    Effect::Call(HostCall::new::<method::AgentChanges>(
        CallLane::Read,
        &params,
        tag,
    ))
}

/// Reads the changes that are on the screen and were not read yet.
pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    if !model.host.is_up() {
        return Vec::new();
    }
    let panels = model
        .drawn
        .panels
        .iter()
        .filter(|panel| panel.spec.kind == PanelKind::Diff);
    let agents = panels.filter_map(|panel| model.panel_agent(&panel.spec));
    let wanted =
        agents.filter(|agent| agent.managed.is_some() && !model.reviews.contains_key(&agent.id));
    let wanted: Vec<String> = wanted.map(|agent| agent.id.clone()).collect();
    let mut effects = Vec::new();
    for agent in wanted {
        if model.loading.insert(format!("diff {agent}")) {
            effects.push(call(&agent));
        }
    }
    effects
}

pub(super) fn reload(model: &mut Model) -> Vec<Effect> {
    shown_agent(model).map_or_else(Vec::new, |agent| vec![call(&agent)])
}

/// Moves by rows.
pub(super) fn move_cursor(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    let count = row_count(model, panel);
    let view = model.view_mut(&panel.id);
    view.cursor = view
        .cursor
        .saturating_add_signed(steps)
        .min(count.saturating_sub(1));
    Vec::new()
}

fn row_count(model: &Model, panel: &PanelSpec) -> usize {
    let agent = model.panel_agent(panel).map(|agent| agent.id.clone());
    let review = agent.and_then(|agent| model.reviews.get(&agent));
    review.map_or(0, |review| review.rows().len())
}

/// Moves to the next row of a kind.
pub(super) fn jump(model: &mut Model, action: Action) -> Vec<Effect> {
    let panel = model.focused_panel();
    let Some(review) = shown_agent(model).and_then(|agent| model.reviews.get(&agent)) else {
        return Vec::new();
    };
    let is_wanted = |row: &DiffRow<'_>| match action {
        Action::NextHunk | Action::PreviousHunk => matches!(row, DiffRow::Hunk(_)),
        _ => matches!(row, DiffRow::File(_)),
    };
    let rows = review.rows();
    let cursor = model.view(&panel.id).cursor;
    let mut wanted = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| is_wanted(row))
        .map(|(index, _)| index);
    let found = match action {
        Action::NextHunk | Action::NextFile => wanted.find(|index| *index > cursor),
        _ => wanted.rfind(|index| *index < cursor),
    };
    if let Some(index) = found {
        model.view_mut(&panel.id).cursor = index;
    }
    Vec::new()
}

/// Opens a text box for a comment on the selected line.
pub(super) fn begin_comment(model: &mut Model) -> Vec<Effect> {
    let row = model.view(&model.focused_panel().id).cursor;
    let agent = shown_agent(model);
    let review = agent.as_ref().and_then(|agent| model.reviews.get(agent));
    let can_comment = review.is_some_and(|review| review.comment_at(row, "").is_some());
    match agent {
        Some(agent) if can_comment => {
            overlays::open_text(model, TextPurpose::Comment { agent, row }, "")
        }
        _ => say(
            model,
            "a comment stands at a changed line: j and k select one",
        ),
    }
}

pub(super) fn add_comment(model: &mut Model, agent: &str, row: usize, text: &str) -> Vec<Effect> {
    if let Some(review) = model.reviews.get_mut(agent)
        && let Some(comment) = review.comment_at(row, text)
    {
        review.add_comment(comment);
    }
    Vec::new()
}

/// Does something with the changes in the focused panel.
pub(super) fn change(model: &mut Model, action: Action) -> Vec<Effect> {
    let row = model.view(&model.focused_panel().id).cursor;
    let Some(agent) = shown_agent(model) else {
        return say(model, "no agent is selected");
    };
    let Some(review) = model.reviews.get_mut(&agent) else {
        return Vec::new();
    };
    match action {
        Action::RemoveComment => {
            review.remove_comment(row);
        }
        Action::MarkViewed => {
            if let Some(path) = path_at(review, row) {
                review.toggle_viewed(&path);
            }
        }
        _ if review.was_sent() => review.only_new = !review.only_new,
        _ => return say(model, "no review was sent yet"),
    }
    Vec::new()
}

/// The file that a row belongs to.
fn path_at(review: &Review, row: usize) -> Option<String> {
    let rows = review.rows();
    let mut above = rows.iter().take(row + 1).rev();
    above.find_map(|row| match row {
        DiffRow::File(file) => Some(file.path.clone()),
        _ => None,
    })
}

/// Asks whether to send the comments.
pub(super) fn ask_to_send(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = shown_agent(model) else {
        return say(model, "no agent is selected");
    };
    let count = model
        .reviews
        .get(&agent)
        .map_or(0, |review| review.comments.len());
    if count == 0 {
        return say(model, "there are no comments: c writes one");
    }
    let name = escape::line(model.host.agent_name(&agent)).into_owned();
    model.overlay = Some(Overlay::Confirm {
        question: format!("send {count} comments to {name} as one message?"),
        purpose: ConfirmPurpose::SendReview { agent },
        asked_at: model.now.ms,
    });
    Vec::new()
}

pub(super) fn send(model: &mut Model, agent: &str) -> Vec<Effect> {
    let Some(review) = model.reviews.get_mut(agent) else {
        return Vec::new();
    };
    let message = review.message();
    review.mark_sent();
    agents::send_message(model, agent, &message)
}
