//! Reading the record for the feed.

use countersign_protocol::{EventsParams, HostEvent, method};

use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::Model;
use crate::render::inbox_item::InboxItem;

use super::{commands, lists, say};

/// Events in one page.
const PAGE_EVENTS: u64 = 200;
/// Rows before the end at which older events are read.
const READ_AHEAD: usize = 20;

fn read_page(model: &mut Model) -> Vec<Effect> {
    if !model.host.is_up() || !model.loading.insert("feed".to_owned()) {
        return Vec::new();
    }
    let params = EventsParams {
        before: model.feed.before().filter(|_| model.feed.is_loaded),
        limit: Some(PAGE_EVENTS),
        ..EventsParams::default()
    };
    vec![Effect::Call(HostCall::new::<method::Events>(
        CallLane::Read,
        &params,
        ReplyTag::FeedPage,
    ))]
}

/// Reads the newest events once a feed is on the screen.
pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    let is_shown = model
        .drawn
        .panels
        .iter()
        .any(|panel| panel.spec.kind == PanelKind::Feed);
    if is_shown && !model.feed.is_loaded {
        return read_page(model);
    }
    Vec::new()
}

pub(super) fn move_cursor(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    let count = model.feed_rows(&model.view(&panel.id).filter).len();
    let view = model.view_mut(&panel.id);
    view.cursor = view
        .cursor
        .saturating_add_signed(steps)
        .min(count.saturating_sub(1));
    let is_near_end = view.cursor + READ_AHEAD >= count;
    if is_near_end && steps > 0 && !model.feed.is_complete {
        return read_page(model);
    }
    Vec::new()
}

/// The event in the selected row.
pub(super) fn selected_event(model: &Model, panel: &PanelSpec) -> Option<HostEvent> {
    let view = model.view(&panel.id);
    let events = model.feed_rows(&view.filter);
    events
        .get(view.cursor.min(events.len().saturating_sub(1)))
        .map(|event| (*event).clone())
}

/// Goes to what an event is about: an open ask, or its agent.
pub(super) fn open_selected(model: &mut Model) -> Vec<Effect> {
    #[derive(serde::Deserialize)]
    struct Subject {
        id: String,
    }
    let Some(event) = selected_event(model, &model.focused_panel()) else {
        return Vec::new();
    };
    let subject: Option<Subject> = serde_json::from_str(event.payload.text()).ok();
    let known = subject.and_then(|subject| {
        model
            .inbox
            .find(&subject.id)
            .map(InboxItem::id)
            .map(str::to_owned)
    });
    if let Some(id) = known {
        lists::select_item(model, id);
        return commands::go(model, PanelKind::Ask);
    }
    match event
        .agent_id
        .filter(|agent| model.host.agents.contains_key(agent))
    {
        Some(agent) => {
            model.selected_agent = Some(agent);
            commands::go(model, PanelKind::Transcript)
        }
        None => say(model, "what this is about is not there any more"),
    }
}
