//! What a message changes, and what is to be done because of it. Pure: the same model, message and time always give
//! the same result.

mod agents;
mod answers;
mod asks;
mod chat;
mod command_panels;
mod commands;
mod diff;
mod feed;
pub(crate) mod files;
mod keys;
mod letter_pattern;
mod lists;
mod overlays;
mod own_terminals;
mod palette;
mod replies;
mod rules;
mod search;
mod settings;
mod terminals;
mod transcripts;

use countersign_protocol::{HostEvent, HostSnapshot, NoParams, method};

use crate::decision_guard::GuardEvent;
use crate::draw::DrawReport;
use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::inbox::agent_of;
use crate::message::{Effect, Message, Moment};
use crate::model::{HostLink, Model};
use crate::render::inbox_item::InboxItem;

pub use asks::is_brief;
pub use commands::why_not;
pub use own_terminals::takes_keys as terminal_takes_keys;
pub use palette::palette_entries;

/// How often broken rule files and bypasses are asked for.
const STATUS_EVERY_MS: u64 = 2_000;

/// Takes in a message.
pub fn update(model: &mut Model, message: Message, now: Moment) -> Vec<Effect> {
    model.now = now;
    let mut effects = match message {
        Message::Key { key, at, is_repeat } => keys::handle_key(model, key, at, is_repeat),
        Message::Paste(text) => keys::handle_paste(model, &text),
        Message::Wheel { x, y, is_down } => lists::handle_wheel(model, x, y, is_down),
        Message::Click { x, y } => lists::handle_click(model, x, y),
        Message::Resized => restart_reading(model),
        Message::Focused(is_focused) => handle_focus(model, is_focused),
        Message::Tick => handle_tick(model),
        Message::Drawn(report) => handle_drawn(model, report),
        Message::Connected { snapshot, notes } => handle_connected(model, *snapshot, notes),
        Message::Lost => handle_lost(model),
        Message::Event(event) => handle_event(model, &event),
        Message::Viewers(viewers) => {
            model.viewers = viewers;
            Vec::new()
        }
        Message::TranscriptGrew { agent } => transcripts::read_next(model, &agent),
        Message::Reply { tag, result } => replies::handle_reply(model, tag, result),
        Message::Edited(text) => overlays::handle_edited(model, text),
        Message::Settings(files) => settings::take(model, *files),
        Message::CommandEnded { name, output, end } => {
            command_panels::take_output(model, &name, &output, end)
        }
        Message::Notes(kept) => files::take_notes(model, kept),
        Message::Failed(text) => say(model, text),
    };
    asks::sync_guard(model);
    effects.extend(asks::load_brief(model));
    effects.extend(agents::load_stale(model));
    effects.extend(transcripts::load_visible(model));
    effects.extend(diff::load_visible(model));
    effects.extend(feed::load_visible(model));
    effects.extend(rules::load_visible(model));
    effects.extend(terminals::load_visible(model));
    effects.extend(command_panels::run_visible(model));
    effects.extend(files::load_visible(model));
    files::save_before_leaving(model, &mut effects);
    effects.extend(own_terminals::load_visible(model));
    effects
}

/// Says something and does nothing.
fn say(model: &mut Model, text: impl Into<String>) -> Vec<Effect> {
    let at = model.now.ms;
    model.notices.say(text, at);
    Vec::new()
}

/// The window has another size: lines break elsewhere, so reading begins again.
fn restart_reading(model: &mut Model) -> Vec<Effect> {
    model.ask.restart_reading();
    model.ask.guard.step(&GuardEvent::Unseen, model.now.ms);
    Vec::new()
}

fn handle_focus(model: &mut Model, is_focused: bool) -> Vec<Effect> {
    let event = if is_focused {
        GuardEvent::Focus
    } else {
        GuardEvent::Blur
    };
    model.ask.guard.step(&event, model.now.ms);
    Vec::new()
}

fn handle_tick(model: &mut Model) -> Vec<Effect> {
    model.inbox.drop_old_notes(model.now.wall);
    let mut effects = terminals::refresh(model);
    effects.extend(settings::show_proposed(model));
    effects.extend(files::refresh(model));
    effects.extend(own_terminals::refresh(model));
    let is_due = model.now.ms >= model.status_asked_at + STATUS_EVERY_MS;
    if is_due && model.host.is_up() {
        effects.push(ask_status(model));
    }
    effects
}

fn ask_status(model: &mut Model) -> Effect {
    model.status_asked_at = model.now.ms;
    let call = HostCall::new::<method::Status>(CallLane::Read, &NoParams {}, ReplyTag::Status);
    Effect::Call(call)
}

/// Remembers what the picture showed: reading is a fact of the picture.
fn handle_drawn(model: &mut Model, report: DrawReport) -> Vec<Effect> {
    model.drawn = report;
    asks::record_drawn(model);
    files::record_drawn(model);
    lists::record_drawn(model);
    Vec::new()
}

fn handle_connected(
    model: &mut Model,
    snapshot: HostSnapshot,
    notes: Vec<HostEvent>,
) -> Vec<Effect> {
    let was_lost = matches!(model.host.link, HostLink::Lost { .. });
    model.host.replace(&snapshot);
    let asks = snapshot.approvals.into_iter().map(InboxItem::ask);
    let questions = snapshot.questions.into_iter().map(InboxItem::question);
    let open = asks.chain(questions).filter(|item| item.ended.is_none());
    let open = open.chain(notes.into_iter().filter_map(InboxItem::note));
    model.inbox.replace_items(open.collect());
    model.ask.guard.step(&GuardEvent::Connected, model.now.ms);
    // What was on its way is answered by what is open now, never by sending it again.
    model.ask.sending = None;
    model.loading.clear();
    if was_lost {
        say(model, "reconnected to the host");
    }
    adopt_selected_agent(model);
    let mut effects = vec![ask_status(model)];
    let followed = model.followed.clone();
    effects.push(Effect::FollowTranscript(followed.clone()));
    effects.extend(
        followed
            .iter()
            .flat_map(|agent| transcripts::read_next(model, agent)),
    );
    effects
}

fn handle_lost(model: &mut Model) -> Vec<Effect> {
    own_terminals::drop_typed(model);
    if model.host.is_up() {
        model.host.link = HostLink::Lost {
            since: model.now.ms,
        };
        model.ask.guard.step(&GuardEvent::Lost, model.now.ms);
        if model.ask.sending.take().is_some() {
            say(
                model,
                "lost the host: whether the answer arrived is known after reconnecting",
            );
        }
    }
    Vec::new()
}

fn handle_event(model: &mut Model, event: &HostEvent) -> Vec<Effect> {
    if model.host.apply(event) {
        model.feed.push(event.clone());
        let selected = model.inbox.selected_id().map(str::to_owned);
        model.inbox.apply(event);
        if model.inbox.selected_id() != selected.as_deref() {
            adopt_selected_agent(model);
        }
    }
    Vec::new()
}

/// Panels that show the selected agent show the one that asks.
fn adopt_selected_agent(model: &mut Model) {
    let agent = model.inbox.selected_item().and_then(agent_of);
    if let Some(agent) = agent.filter(|agent| model.host.agents.contains_key(*agent)) {
        model.selected_agent = Some(agent.to_owned());
    }
}

#[cfg(test)]
mod tests;
