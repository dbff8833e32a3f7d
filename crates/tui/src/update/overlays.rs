//! Keys while a text box, a list or a question stands over the panels.

use crate::decision_guard::{GuardDecision, GuardEvent, PROMPT_MS};
use crate::key::{Key, KeyCode};
use crate::message::Effect;
use crate::model::{ConfirmPurpose, ListPurpose, Model, Overlay, PendingAllow, TextPurpose};
use crate::render::approvals::{self, DENY};
use crate::render::escape;
use crate::text_box::{BoxOutcome, TextBox};

use super::keys::TypedKey;
use super::{
    agents, answers, asks, chat, command_panels, commands, diff, files, palette, rules, say, search,
};

/// The longest bypass that the host takes.
const BYPASS_MINUTES_MAX: u64 = 24 * 60;

/// Opens a text box, with the text that was begun before.
pub(super) fn open_text(model: &mut Model, purpose: TextPurpose, start: &str) -> Vec<Effect> {
    let draft = model.drafts.remove(&purpose.draft_key());
    let start = draft.as_deref().unwrap_or(start);
    let text = if purpose.is_multiline() {
        TextBox::multi_line(start)
    } else {
        TextBox::single_line(start)
    };
    model.overlay = Some(Overlay::Text { purpose, text });
    Vec::new()
}

pub(super) fn handle_key(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    // Taken out first: a handler may open another overlay, and puts this one back
    // only if it stays open.
    let Some(overlay) = model.overlay.take() else {
        return Vec::new();
    };
    match overlay {
        Overlay::Text { purpose, text } => edit_text(model, typed, purpose, text),
        Overlay::Palette { text, selected } => palette::handle_key(model, typed, text, selected),
        Overlay::Confirm {
            purpose,
            question,
            asked_at,
        } => confirm(model, typed, purpose, question, asked_at),
        Overlay::Keys { scroll } => {
            model.overlay = scrolled(typed.key, scroll).map(|scroll| Overlay::Keys { scroll });
            Vec::new()
        }
        Overlay::Notices { scroll } => {
            model.overlay = scrolled(typed.key, scroll).map(|scroll| Overlay::Notices { scroll });
            Vec::new()
        }
        Overlay::List { .. } => choose(model, typed, overlay),
    }
}

/// Where a text stands after a key; nothing if the key closes it.
fn scrolled(key: Key, scroll: usize) -> Option<usize> {
    match key.code {
        KeyCode::Escape | KeyCode::Char('q' | '?') => None,
        KeyCode::Down | KeyCode::Char('j') => Some(scroll + 1),
        KeyCode::Up | KeyCode::Char('k') => Some(scroll.saturating_sub(1)),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(scroll + 10),
        KeyCode::PageUp => Some(scroll.saturating_sub(10)),
        _ => Some(scroll),
    }
}

fn edit_text(
    model: &mut Model,
    typed: TypedKey,
    purpose: TextPurpose,
    mut text: TextBox,
) -> Vec<Effect> {
    // In an editor of the person's own, where there is room.
    if typed.key == Key::ctrl('e') {
        let written = text.text();
        model.overlay = Some(Overlay::Text { purpose, text });
        return vec![Effect::OpenEditor(written)];
    }
    match text.handle_key(typed.key) {
        BoxOutcome::Edited | BoxOutcome::Unused => {
            if let TextPurpose::Filter { panel } = &purpose {
                model.view_mut(panel).filter = text.text();
            }
            model.overlay = Some(Overlay::Text { purpose, text });
            Vec::new()
        }
        BoxOutcome::Leave => {
            if let TextPurpose::Filter { panel } = &purpose {
                // The filter narrows the list with every key, so leaving the box
                // has to take it back.
                model.view_mut(panel).filter.clear();
            } else if !text.is_empty() {
                model.drafts.insert(purpose.draft_key(), text.text());
                return say(model, "nothing was sent; the draft is kept");
            }
            Vec::new()
        }
        BoxOutcome::Send => submit(model, typed, purpose, &text.text()),
    }
}

fn submit(model: &mut Model, typed: TypedKey, purpose: TextPurpose, text: &str) -> Vec<Effect> {
    let trimmed = text.trim();
    let may_be_empty = matches!(
        purpose,
        TextPurpose::Filter { .. } | TextPurpose::Spawn { .. } | TextPurpose::AnswerAsk { .. }
    );
    if trimmed.is_empty() && !may_be_empty {
        return say(model, "nothing was sent: the text is empty");
    }
    // Sending with Alt or Ctrl held is how a text is sent.
    let typed = TypedKey {
        origin: crate::decision_guard::ActOrigin {
            modified: false,
            ..typed.origin
        },
        ..typed
    };
    match purpose {
        TextPurpose::Deny { id } => deny_with(model, typed, id, trimmed),
        TextPurpose::AllowWithMessage { id, option } => {
            let message = trimmed.to_owned();
            if model.inbox.selected_id() != Some(&id) {
                return say(model, "nothing was sent: another item is selected");
            }
            asks::begin_allow(
                model,
                typed,
                "text",
                PendingAllow::WithMessage { option, message },
            )
        }
        TextPurpose::EditInput { id, option } => match answers::edited_input(model, &id, text) {
            Ok(input) if model.inbox.selected_id() == Some(&id) => {
                asks::begin_allow(model, typed, "text", PendingAllow::Edited { option, input })
            }
            Ok(_) => say(model, "nothing was sent: another item is selected"),
            Err(why) => {
                // The box opens again with what was typed, so that the mistake can be corrected.
                open_text(model, TextPurpose::EditInput { id, option }, text);
                say(model, why)
            }
        },
        TextPurpose::AnswerQuestion { id } => answers::send_answer(model, typed, &id, trimmed),
        TextPurpose::AnswerAsk { id, given } => {
            answers::take_choice(model, typed, &id, given, text)
        }
        TextPurpose::Message { agent } => match chat::slash_command(model, &agent, trimmed) {
            Some(effects) => effects,
            None => {
                agents::send_message(model, &agent, trimmed.strip_prefix('/').unwrap_or(trimmed))
            }
        },
        TextPurpose::Comment { agent, row } => diff::add_comment(model, &agent, row, trimmed),
        TextPurpose::Search => search::begin(model, trimmed),
        TextPurpose::TryRule => rules::try_command(model, trimmed),
        TextPurpose::AddRule => rules::test_rule(trimmed),
        TextPurpose::RunAgain { agent } => chat::run_again(model, &agent, trimmed),
        TextPurpose::SaveLayout => save_layout(model, trimmed),
        TextPurpose::NewFile { agent } => files::create(model, agent, trimmed),
        TextPurpose::Rename { agent } => agents::rename(model, &agent, trimmed),
        TextPurpose::Configure { agent } => agents::configure(model, &agent, trimmed),
        TextPurpose::Spawn { agent } => agents::spawn(model, &agent, trimmed),
        TextPurpose::Bypass { agent } => ask_to_bypass(model, agent, trimmed),
        TextPurpose::Filter { panel } => {
            trimmed.clone_into(&mut model.view_mut(&panel).filter);
            Vec::new()
        }
    }
}

fn deny_with(model: &mut Model, typed: TypedKey, id: String, message: &str) -> Vec<Effect> {
    // The guard judges the item that is shown, and an event may have changed the selection while
    // the text was typed.
    if model.inbox.selected_id() != Some(&id) {
        return say(model, "nothing was sent: another item is selected");
    }
    match model.ask.guard.step(
        &GuardEvent::Deny {
            origin: typed.origin,
        },
        typed.at,
    ) {
        GuardDecision::Deny {
            subject,
            considered_ms,
        } => answers::send_resolution(model, &subject, DENY, considered_ms, |body| {
            body.message = Some(message.to_owned());
        }),
        GuardDecision::Refused(refusal) => {
            // Typing took a while, and what was typed must not be lost with it.
            model
                .drafts
                .insert(TextPurpose::Deny { id }.draft_key(), message.to_owned());
            say(model, format!("nothing was sent: {}", refusal.describe()))
        }
        _ => Vec::new(),
    }
}

/// Asks for the second key of a bypass.
fn ask_to_bypass(model: &mut Model, agent: String, minutes: &str) -> Vec<Effect> {
    let minutes = minutes.trim_end_matches('m').parse::<u64>().ok();
    let Some(minutes) = minutes.filter(|minutes| (1..=BYPASS_MINUTES_MAX).contains(minutes)) else {
        return say(model, "type a number of minutes, at most 1440");
    };
    let name = escape::line(model.host.agent_name(&agent)).into_owned();
    model.overlay = Some(Overlay::Confirm {
        purpose: ConfirmPurpose::Bypass { agent, minutes },
        question: format!("allow all asks of {name} without you for {minutes} minutes?"),
        asked_at: model.now.ms,
    });
    Vec::new()
}

fn confirm(
    model: &mut Model,
    typed: TypedKey,
    purpose: ConfirmPurpose,
    question: String,
    asked_at: u64,
) -> Vec<Effect> {
    match typed.key.typed() {
        // The question stays open: such a key may have been pressed before the question was read.
        Some('y') if typed.origin.repeated || typed.pressed_at() < asked_at + PROMPT_MS => {
            model.overlay = Some(Overlay::Confirm {
                purpose,
                question,
                asked_at,
            });
            say(model, "key ignored: pressed too soon after the question")
        }
        Some('y') => agents::perform_confirmed(model, &purpose),
        _ => say(model, "nothing was done"),
    }
}

fn choose(model: &mut Model, typed: TypedKey, overlay: Overlay) -> Vec<Effect> {
    let Overlay::List {
        purpose,
        title,
        choices,
        selected,
    } = overlay
    else {
        return Vec::new();
    };
    let last = choices.len().saturating_sub(1);
    let selected = match typed.key.code {
        KeyCode::Escape | KeyCode::Char('q') => return Vec::new(),
        KeyCode::Down | KeyCode::Char('j') => (selected + 1).min(last),
        KeyCode::Up | KeyCode::Char('k') => selected.saturating_sub(1),
        KeyCode::Enter => {
            let chosen = choices.into_iter().nth(selected).map(|choice| choice.value);
            return chosen
                .map_or_else(Vec::new, |value| take_choice(model, typed, &purpose, value));
        }
        _ => selected,
    };
    model.overlay = Some(Overlay::List {
        purpose,
        title,
        choices,
        selected,
    });
    Vec::new()
}

fn take_choice(
    model: &mut Model,
    typed: TypedKey,
    purpose: &ListPurpose,
    value: String,
) -> Vec<Effect> {
    match purpose {
        ListPurpose::Option { id } => choose_option(model, typed, id, value),
        ListPurpose::Layout => set_layout(model, &value),
        ListPurpose::NewTab => {
            let found = model
                .workspace
                .layouts
                .iter()
                .find(|layout| layout.name == value)
                .cloned();
            if let Some(layout) = found {
                model.workspace.add_tabs(&layout);
            }
            Vec::new()
        }
        ListPurpose::Theme => set_theme(model, &value),
        ListPurpose::CommandPanel => command_panels::open(model, &value),
        ListPurpose::Project => commands::set_project(model, &value),
        ListPurpose::Agent => open_text(model, TextPurpose::Spawn { agent: value }, ""),
    }
}

/// Answers with one of the options of an ask: one that allows takes its second key.
fn choose_option(model: &mut Model, typed: TypedKey, id: &str, option: String) -> Vec<Effect> {
    let Some(row) = asks::selected_ask(model).filter(|row| row.id == id) else {
        return say(model, "nothing was sent: another item is selected");
    };
    if approvals::allows(row, &option) {
        return asks::begin_allow(model, typed, "key:Enter", PendingAllow::Once { option });
    }
    match model.ask.guard.step(
        &GuardEvent::Deny {
            origin: typed.origin,
        },
        typed.at,
    ) {
        GuardDecision::Deny {
            subject,
            considered_ms,
        } => answers::send_resolution(model, &subject, &option, considered_ms, |_| {}),
        GuardDecision::Refused(refusal) => say(model, refusal.describe()),
        _ => Vec::new(),
    }
}

pub(super) fn set_layout(model: &mut Model, name: &str) -> Vec<Effect> {
    let found = model
        .workspace
        .layouts
        .iter()
        .find(|layout| layout.name == name)
        .cloned();
    if let Some(layout) = found {
        model.workspace.take_layout(layout);
    }
    Vec::new()
}

/// Keeps the layout as it is now under a name.
fn save_layout(model: &mut Model, name: &str) -> Vec<Effect> {
    let is_name = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !is_name {
        return say(model, "the name of a layout has letters, digits, - and _");
    }
    let layout = crate::layout::Layout {
        name: name.to_owned(),
        ..model.workspace.layout.clone()
    };
    let text = crate::layout::layout_toml(&layout);
    model.workspace.add_layout(layout);
    vec![Effect::SaveLayout {
        name: name.to_owned(),
        text,
    }]
}

pub(super) fn set_theme(model: &mut Model, name: &str) -> Vec<Effect> {
    let found = model
        .themes
        .iter()
        .find(|theme| theme.name == name)
        .cloned();
    if let Some(colors) = found {
        model.theme = model.theme.with_colors(colors);
    }
    Vec::new()
}

/// Takes in what was written in an editor.
pub(super) fn handle_edited(model: &mut Model, text: Option<String>) -> Vec<Effect> {
    let Some(written) = text else {
        return say(model, "the editor failed; the text is as it was");
    };
    // With a text box open, the editor was started from that box, and the text belongs there.
    if model.overlay.is_none() && files::handle_edited(model, &written) {
        return Vec::new();
    }
    if let Some(Overlay::Text { text, .. }) = &mut model.overlay {
        // Editors end a file with a line end that nobody typed.
        let written = written.trim_end_matches('\n');
        *text = if text.is_multiline() {
            TextBox::multi_line(written)
        } else {
            TextBox::single_line(written)
        };
    }
    Vec::new()
}
