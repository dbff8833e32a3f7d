//! What each command does, and why it cannot be done now.

use crate::command::Action;
use crate::feed::FeedRows;
use crate::layout::PanelKind;
use crate::message::Effect;
use crate::model::{ListChoice, ListPurpose, Model, Overlay, TextPurpose};
use crate::render::inbox_item::InboxContent;
use crate::text_box::TextBox;

use super::keys::TypedKey;
use super::{
    agents, asks, chat, command_panels, diff, files, lists, overlays, own_terminals, rules, say,
    search, terminals, transcripts,
};

/// The choice that narrows to no folder.
pub(super) const EVERY_FOLDER: &str = "every folder";
/// How long an item is passed by.
const SNOOZE_MICROS: u64 = 600 * 1_000_000;

/// Why a command cannot be done now, for people.
pub fn why_not(model: &Model, action: Action) -> Option<String> {
    match action {
        Action::Approve
        | Action::Remember
        | Action::Deny
        | Action::DenyWithMessage
        | Action::AllowWithMessage
        | Action::EditInput
        | Action::SameAgain => why_not_decide(model, action),
        Action::Reply => why_not_answer(model),
        Action::OpenAgent
        | Action::MessageAgent
        | Action::RenameAgent
        | Action::BypassAgent
        | Action::ConfigureAgent
        | Action::ArchiveAgent
        | Action::InterruptAgent
        | Action::KillAgent
        | Action::ForkAgent
        | Action::RunAgain
        | Action::ResumeAgent => agents::why_not(model, action),
        Action::MessageOrchestrator => model
            .orchestrator()
            .is_none()
            .then(|| "there is no orchestrator".to_owned()),
        Action::AddRule
        | Action::RemoveRule
        | Action::TryRule
        | Action::SpawnAgent
        | Action::OpenOwnTerminal
        | Action::CloseOwnTerminal
        | Action::StopAll => why_not_connected(model),
        Action::NextWaiting => {
            let next = model.inbox.next_waiting(model.now.wall, None);
            next.is_none()
                .then(|| "nothing else waits for you".to_owned())
        }
        Action::File(command) => files::why_not(model, command),
        _ => None,
    }
}

fn why_not_connected(model: &Model) -> Option<String> {
    if !model.host.is_up() {
        return Some("not connected: nothing can be sent".to_owned());
    }
    (!model.host.can_decide()).then(|| "an observer can look, and not decide".to_owned())
}

fn why_not_answer(model: &Model) -> Option<String> {
    let Some(item) = model.inbox.selected_item() else {
        return Some("nothing is selected".to_owned());
    };
    if model.ask.sending.as_deref() == Some(item.id()) {
        return Some("an answer to this is on its way".to_owned());
    }
    why_not_connected(model)
}

fn why_not_decide(model: &Model, action: Action) -> Option<String> {
    if let Some(why) = why_not_answer(model) {
        return Some(why);
    }
    let item = model.inbox.selected_item()?;
    let InboxContent::Ask(row) = &item.content else {
        let is_note = item.is_note();
        let why = if is_note {
            "this is a note: it needs no answer"
        } else {
            "this is a question: r to reply"
        };
        return Some(why.to_owned());
    };
    let is_denial = matches!(action, Action::Deny | Action::DenyWithMessage);
    if is_denial {
        let why = "no option is called `deny`: r to choose another";
        return (!asks::can_deny(row)).then(|| why.to_owned());
    }
    (!row.questions.is_empty()).then(|| "this is a question: r to reply".to_owned())
}

/// Does what a command says.
pub(super) fn perform(model: &mut Model, action: Action, typed: TypedKey) -> Vec<Effect> {
    match action {
        Action::FocusNext => focus_by(model, true),
        Action::FocusPrevious => focus_by(model, false),
        Action::FocusLeft => focus_towards(model, -1, 0),
        Action::FocusRight => focus_towards(model, 1, 0),
        Action::FocusUp => focus_towards(model, 0, -1),
        Action::FocusDown => focus_towards(model, 0, 1),
        Action::NextWaiting => go_to_waiting(model, false),
        Action::NextWaitingHere => go_to_waiting(model, true),
        Action::OpenPalette => open_overlay(
            model,
            Overlay::Palette {
                text: TextBox::single_line(""),
                selected: 0,
            },
        ),
        Action::ShowKeys => open_overlay(model, Overlay::Keys { scroll: 0 }),
        Action::ShowNotices => open_overlay(model, Overlay::Notices { scroll: 0 }),
        Action::Go(PanelKind::Command) => command_panels::choose(model),
        Action::Go(
            kind @ (PanelKind::Diff
            | PanelKind::Terminals
            | PanelKind::Files
            | PanelKind::Viewer
            | PanelKind::Tail),
        ) => go_to_agent(model, kind),
        Action::Go(kind) => go(model, kind),
        Action::ZoomPanel => zoom(model),
        Action::Back => go_back(model, true),
        Action::Cancel => go_back(model, false),
        Action::Quit => vec![Effect::Quit],
        Action::ReleaseMouse => toggle_mouse(model),
        Action::Redraw => vec![Effect::Redraw],
        Action::Suspend => vec![Effect::Suspend],
        Action::Filter => filter(model),
        Action::LineDown
        | Action::LineUp
        | Action::PageDown
        | Action::PageUp
        | Action::HalfDown
        | Action::HalfUp
        | Action::Top
        | Action::Bottom => lists::scroll(model, action),
        Action::Open => lists::open_selected(model),
        Action::Snooze => snooze(model),
        Action::Copy => lists::copy_selected(model),
        Action::Approve => asks::approve(model, typed),
        Action::Remember => asks::suggest_rules(model, typed),
        Action::Deny => asks::deny(model, typed),
        Action::DenyWithMessage => open_about_ask(model, |id, _| TextPurpose::Deny { id }),
        Action::AllowWithMessage => open_about_ask(model, |id, option| {
            TextPurpose::AllowWithMessage { id, option }
        }),
        Action::EditInput => asks::edit_input(model),
        Action::Reply => asks::reply(model),
        Action::ShowRaw => asks::toggle_detail(model),
        Action::SameAgain => asks::approve_same(model, typed),
        Action::NextAsk => lists::move_inbox(model, 1),
        Action::PreviousAsk => lists::move_inbox(model, -1),
        Action::OpenAgent => agents::open(model),
        Action::MessageAgent => agents::open_text(model, |agent| TextPurpose::Message { agent }),
        Action::RenameAgent => agents::open_text(model, |agent| TextPurpose::Rename { agent }),
        Action::BypassAgent => agents::begin_bypass(model),
        Action::ConfigureAgent => {
            agents::open_text(model, |agent| TextPurpose::Configure { agent })
        }
        Action::InterruptAgent => agents::interrupt(model),
        Action::KillAgent => agents::ask_to_kill(model),
        Action::ResumeAgent => agents::resume(model),
        Action::ArchiveAgent => agents::archive(model),
        Action::SpawnAgent => agents::ask_catalog(),
        Action::ShowArchived => {
            model.show_archived = !model.show_archived;
            Vec::new()
        }
        Action::ToggleFollow
        | Action::Unfold
        | Action::Fold
        | Action::TurnBefore
        | Action::TurnAfter => transcripts::change_view(model, action),
        Action::MessageOrchestrator => message_orchestrator(model),
        Action::ForkAgent => with_agent(model, |_, agent| chat::fork(&agent)),
        Action::RunAgain => with_agent(model, begin_run_again),
        Action::NextHunk | Action::PreviousHunk | Action::NextFile | Action::PreviousFile => {
            diff::jump(model, action)
        }
        Action::CommentLine => diff::begin_comment(model),
        Action::RemoveComment | Action::MarkViewed | Action::OnlyNew => diff::change(model, action),
        Action::SendReview => diff::ask_to_send(model),
        Action::CycleShow => {
            model.feed.filter = model.feed.filter.next();
            Vec::new()
        }
        Action::CycleRows => {
            model.feed.rows = match model.feed.rows {
                FeedRows::Compact => FeedRows::Expanded,
                FeedRows::Expanded => FeedRows::Compact,
            };
            Vec::new()
        }
        Action::Search => search::ask_text(model),
        Action::TryRule => overlays::open_text(model, TextPurpose::TryRule, ""),
        Action::AddRule => overlays::open_text(model, TextPurpose::AddRule, ""),
        Action::RemoveRule => rules::ask_to_remove(model),
        Action::NextTerminal => terminals::choose(model, true),
        Action::PreviousTerminal => terminals::choose(model, false),
        Action::OpenOwnTerminal => own_terminals::open(model),
        Action::NextOwnTerminal => own_terminals::choose(model, 1),
        Action::PreviousOwnTerminal => own_terminals::choose(model, -1),
        Action::CloseOwnTerminal => own_terminals::ask_to_close(model),
        Action::Reload => reload(model),
        Action::SaveLayout => overlays::open_text(model, TextPurpose::SaveLayout, ""),
        Action::ResetLayout => {
            model.workspace.reset_layout();
            Vec::new()
        }
        Action::Grow => resize(model, 5),
        Action::Shrink => resize(model, -5),
        Action::NewTab => open_list(model, ListPurpose::NewTab, "new tab with"),
        Action::CloseTab => {
            if model.workspace.close_tab() {
                return Vec::new();
            }
            say(model, "this is the only tab")
        }
        Action::NextTab => step_tab(model, 1),
        Action::PreviousTab => step_tab(model, -1),
        Action::Tab(number) => go_to_tab(model, usize::from(number).wrapping_sub(1)),
        Action::ChooseLayout => open_list(model, ListPurpose::Layout, "layout"),
        Action::ChooseTheme => choose_theme(model),
        Action::ChooseProject => choose_project(model),
        Action::StopAll => agents::ask_to_stop_all(model),
        Action::File(command) => files::perform(model, command),
    }
}

fn open_overlay(model: &mut Model, overlay: Overlay) -> Vec<Effect> {
    model.overlay = Some(overlay);
    Vec::new()
}

fn focus_by(model: &mut Model, forward: bool) -> Vec<Effect> {
    let width = model.drawn.width;
    model.workspace.focus_by(forward, width);
    Vec::new()
}

fn focus_towards(model: &mut Model, columns: i32, rows: i32) -> Vec<Effect> {
    let area = model.drawn.body;
    model.workspace.focus_towards(columns, rows, area);
    Vec::new()
}

pub(super) fn go(model: &mut Model, kind: PanelKind) -> Vec<Effect> {
    let width = model.drawn.width;
    model.workspace.open(kind, width);
    Vec::new()
}

/// Goes to a panel about the agent of the selected row, which nobody may have selected by a key yet.
fn go_to_agent(model: &mut Model, kind: PanelKind) -> Vec<Effect> {
    if let Some(agent) = model.subject_agent().map(|agent| agent.id.clone()) {
        model.selected_agent = Some(agent);
    }
    go(model, kind)
}

fn zoom(model: &mut Model) -> Vec<Effect> {
    model.workspace.is_zoomed = !model.workspace.is_zoomed;
    Vec::new()
}

fn go_back(model: &mut Model, leaves: bool) -> Vec<Effect> {
    if model.workspace.go_back() {
        return Vec::new();
    }
    // From the ask the way back is the list that it stands in.
    if model.focused_kind() == PanelKind::Ask {
        return go(model, PanelKind::Inbox);
    }
    if !leaves {
        return Vec::new();
    }
    match files::leave_unsaved(model) {
        Some(question) => open_overlay(model, question),
        None => vec![Effect::Quit],
    }
}

fn toggle_mouse(model: &mut Model) -> Vec<Effect> {
    model.captures_mouse = !model.captures_mouse;
    let text = if model.captures_mouse {
        "the mouse scrolls and focuses here"
    } else {
        "the mouse belongs to your terminal, for selecting and copying"
    };
    say(model, text);
    vec![Effect::CaptureMouse(model.captures_mouse)]
}

fn filter(model: &mut Model) -> Vec<Effect> {
    let panel = model.focused_panel().id;
    let start = model.view(&panel).filter;
    overlays::open_text(model, TextPurpose::Filter { panel }, &start)
}

/// Selects the next item that waits, and goes to where it is decided.
fn go_to_waiting(model: &mut Model, only_here: bool) -> Vec<Effect> {
    let here = only_here.then(|| agents::agents_of_project(model));
    let Some(id) = model.inbox.next_waiting(model.now.wall, here.as_ref()) else {
        return say(model, "nothing else waits for you");
    };
    lists::select_item(model, id);
    go(model, PanelKind::Ask)
}

fn snooze(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.inbox.selected_id().map(str::to_owned) else {
        return say(model, "nothing is selected");
    };
    let until = countersign_protocol::Time(model.now.wall.0 + SNOOZE_MICROS);
    model.inbox.snooze(&id, until);
    lists::move_inbox(model, 1);
    say(
        model,
        "not now: w passes it by for 10 minutes on this screen; it stays open",
    )
}

fn open_about_ask(
    model: &mut Model,
    purpose: impl FnOnce(String, String) -> TextPurpose,
) -> Vec<Effect> {
    let Some(row) = asks::selected_ask(model) else {
        return Vec::new();
    };
    let option = asks::approving_option(row).unwrap_or_default().to_owned();
    let purpose = purpose(row.id.clone(), option);
    if let TextPurpose::AllowWithMessage { option, .. } = &purpose
        && option.is_empty()
    {
        return say(model, "no single option approves it: r to choose");
    }
    asks::open_ask_text(model, purpose, "")
}

/// Lists the layouts.
fn open_list(model: &mut Model, purpose: ListPurpose, title: &str) -> Vec<Effect> {
    let choices = model.workspace.layouts.iter().map(|layout| ListChoice {
        value: layout.name.clone(),
        note: if layout.name == model.workspace.layout.name {
            "now"
        } else {
            ""
        }
        .to_owned(),
    });
    let overlay = Overlay::List {
        purpose,
        title: title.to_owned(),
        choices: choices.collect(),
        selected: 0,
    };
    open_overlay(model, overlay)
}

/// Goes round the tabs.
fn step_tab(model: &mut Model, step: isize) -> Vec<Effect> {
    let count = model.workspace.layout.tabs.len();
    let index = (model.workspace.active_tab + count).saturating_add_signed(step) % count;
    go_to_tab(model, index)
}

fn go_to_tab(model: &mut Model, index: usize) -> Vec<Effect> {
    if model.workspace.go_to_tab(index) {
        return Vec::new();
    }
    say(model, "there is no such tab: Ctrl-t opens one")
}

fn resize(model: &mut Model, percent: i16) -> Vec<Effect> {
    let width = model.drawn.width;
    model.workspace.resize(percent, width);
    Vec::new()
}

fn message_orchestrator(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = model.orchestrator().map(|agent| agent.id.clone()) else {
        return say(model, "there is no orchestrator");
    };
    overlays::open_text(model, TextPurpose::Message { agent }, "")
}

fn with_agent(
    model: &mut Model,
    act: impl FnOnce(&mut Model, String) -> Vec<Effect>,
) -> Vec<Effect> {
    match model.subject_agent().map(|agent| agent.id.clone()) {
        Some(agent) => act(model, agent),
        None => say(model, "no agent is selected"),
    }
}

/// Begins with what the agent was to do, as far as it is known.
fn begin_run_again(model: &mut Model, agent: String) -> Vec<Effect> {
    let managed = model
        .host
        .agents
        .get(&agent)
        .and_then(|agent| agent.managed.as_ref());
    let title = managed
        .and_then(|managed| managed.title.clone())
        .unwrap_or_default();
    overlays::open_text(model, TextPurpose::RunAgain { agent }, &title)
}

/// Reads again what the focused panel shows.
fn reload(model: &mut Model) -> Vec<Effect> {
    match model.focused_kind() {
        PanelKind::Diff => diff::reload(model),
        PanelKind::Rules => rules::read(model),
        PanelKind::Search => search::reload(model),
        PanelKind::Command => command_panels::run_again(model),
        PanelKind::Files | PanelKind::Viewer | PanelKind::Editor | PanelKind::Tail => {
            files::reload(model)
        }
        _ => {
            model
                .host
                .stale_agents
                .extend(model.host.agents.keys().cloned());
            Vec::new()
        }
    }
}

fn choose_project(model: &mut Model) -> Vec<Effect> {
    let now = |is_now: bool| if is_now { "now" } else { "" }.to_owned();
    let every = ListChoice {
        value: EVERY_FOLDER.to_owned(),
        note: now(model.project.is_none()),
    };
    let folders = model
        .project_folders()
        .into_iter()
        .map(|folder| ListChoice {
            note: now(model.project.as_ref() == Some(&folder)),
            value: folder,
        });
    let overlay = Overlay::List {
        purpose: ListPurpose::Project,
        title: "narrow to".to_owned(),
        choices: std::iter::once(every).chain(folders).collect(),
        selected: 0,
    };
    open_overlay(model, overlay)
}

/// Narrows every panel to a folder, or to none.
pub(super) fn set_project(model: &mut Model, folder: &str) -> Vec<Effect> {
    if folder == EVERY_FOLDER {
        model.project = None;
        return say(model, "every panel shows all folders");
    }
    if !folder.starts_with('/') {
        return say(model, "/project takes an absolute path");
    }
    let folder = folder.trim_end_matches('/');
    model.project = Some(if folder.is_empty() { "/" } else { folder }.to_owned());
    let agent = model.selected_agent.as_ref();
    let selected = agent.and_then(|id| model.host.agents.get(id));
    if selected.is_some_and(|agent| !model.is_in_project(agent)) {
        model.selected_agent = None;
    }
    say(model, "w still reaches everything that waits")
}

fn choose_theme(model: &mut Model) -> Vec<Effect> {
    let choices = model.themes.iter().map(|theme| ListChoice {
        value: theme.name.clone(),
        note: if theme.name == model.theme.name() {
            "now"
        } else {
            ""
        }
        .to_owned(),
    });
    let overlay = Overlay::List {
        purpose: ListPurpose::Theme,
        title: "theme".to_owned(),
        choices: choices.collect(),
        selected: 0,
    };
    open_overlay(model, overlay)
}
