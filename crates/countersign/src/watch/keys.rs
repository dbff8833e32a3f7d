//! What a key does. Pure: the same screen, key and time always give the same action.
//!
//! Invariant: an answer leaves only through the decision guard, which the terminal UI has as well.

use std::time::Instant;

use countersign_protocol::HostApproval;
use countersign_tui::decision_guard::{ActOrigin, GuardDecision, GuardEvent, GuardRefusal};

use super::screen::{InputMode, WatchScreen};
use crate::render::approvals::{self, APPROVE, DENY};
use crate::render::choices;
use crate::render::inbox_item::InboxContent;

/// The longest text that can be typed here.
const TEXT_CHARS_MAX: usize = 4_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPress {
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Escape,
    Backspace,
    Interrupt,
    Char(char),
    Paste(String),
}

/// What the loop is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    None,
    Quit,
    Resolve {
        id: String,
        option: String,
        message: Option<String>,
        /// Rules to be made of it.
        remember: Vec<String>,
    },
    /// The rules are to be found that an allow could become.
    Suggest {
        id: String,
        option: String,
    },
    Answer {
        id: String,
        text: String,
    },
    /// An ask is answered that asks people something.
    AnswerAsk {
        id: String,
        option: String,
        answers: Vec<Vec<String>>,
    },
}

/// When a key is handled, when it was typed, and whether it is held down.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyTime {
    pub(super) handled: Instant,
    pub(super) pressed: Instant,
    pub(super) is_repeat: bool,
}

impl KeyTime {
    fn origin(self, screen: &WatchScreen) -> ActOrigin {
        ActOrigin {
            pressed_at: Some(screen.guard_time(self.pressed)),
            repeated: self.is_repeat,
            ..ActOrigin::default()
        }
    }
}

pub(super) fn handle_key(screen: &mut WatchScreen, key: KeyPress, time: KeyTime) -> KeyAction {
    if key == KeyPress::Interrupt {
        return KeyAction::Quit;
    }
    match screen.mode.clone() {
        InputMode::Browse => browse(screen, &key, time),
        InputMode::Confirm { option } => confirm(screen, &key, option, Vec::new(), time),
        InputMode::Save { option, rules } => confirm_rules(screen, &key, option, rules, time),
        InputMode::Choose { index } => choose(screen, &key, index, time),
        InputMode::TypeDenial { text } => edit_text(screen, key, text, InputPurpose::Denial, time),
        InputMode::TypeAnswer { text, given } => {
            edit_text(screen, key, text, InputPurpose::Answer { given }, time)
        }
    }
}

fn browse(screen: &mut WatchScreen, key: &KeyPress, time: KeyTime) -> KeyAction {
    match key {
        KeyPress::Up => screen.move_selection(false, time.handled),
        KeyPress::Down => screen.move_selection(true, time.handled),
        KeyPress::PageUp | KeyPress::PageDown => scroll(screen, key),
        KeyPress::Char('v') => screen.toggle_detail(time.handled),
        KeyPress::Char('q') => return KeyAction::Quit,
        KeyPress::Char(letter @ ('a' | 's' | 'd' | 'm' | 'r')) => {
            return decide(screen, *letter, time);
        }
        _ => {}
    }
    KeyAction::None
}

fn scroll(screen: &mut WatchScreen, key: &KeyPress) {
    if *key == KeyPress::PageUp {
        screen.scroll = screen.scroll.saturating_sub(page_step(screen));
    } else {
        let last = screen.body.saturating_sub(screen.page);
        screen.scroll = (screen.scroll + page_step(screen)).min(last);
    }
}

/// One line less than a page, so that nothing is jumped over.
fn page_step(screen: &WatchScreen) -> usize {
    screen.page.saturating_sub(1).max(1)
}

/// A key that decides, if it may.
fn decide(screen: &mut WatchScreen, letter: char, time: KeyTime) -> KeyAction {
    let Some(item) = screen.selected_item().cloned() else {
        screen.note = "nothing is selected".into();
        return KeyAction::None;
    };
    // Before any of the keys that decide acts, so that none can be forgotten here.
    if let Some(why) = why_blocked(screen, time) {
        screen.note = why;
        return KeyAction::None;
    }
    screen.note.clear();
    match (letter, item.content) {
        ('r', InboxContent::Ask(row)) if !row.questions.is_empty() => reply(screen),
        ('a' | 's', InboxContent::Ask(row)) if !row.questions.is_empty() => {
            screen.note = "this is a question: r to reply".into();
        }
        ('a', InboxContent::Ask(row)) => approve(screen, &row, time),
        ('s', InboxContent::Ask(row)) => return suggest(screen, &row, time),
        // One key is enough for a denial: a wrong one costs a repetition, a wrong approval may cost the
        // machine.
        ('d', InboxContent::Ask(row)) => return deny(screen, &row, time),
        ('m', InboxContent::Ask(row)) if can_deny(&row) => {
            screen.mode = InputMode::TypeDenial {
                text: String::new(),
            }
        }
        ('r', InboxContent::Ask(_)) => screen.mode = InputMode::Choose { index: 0 },
        ('r', InboxContent::Question(_)) => {
            screen.mode = InputMode::TypeAnswer {
                text: String::new(),
                given: Vec::new(),
            }
        }
        (_, InboxContent::Ask(_)) => {
            screen.note = "no option is called `deny`: r to choose another".into();
        }
        (_, InboxContent::Question(_)) => {
            screen.note = "this is a question: r to reply".into();
        }
        (_, InboxContent::Note(_)) => screen.note = "this is a note: it needs no answer".into(),
    }
    KeyAction::None
}

/// Why nothing can be decided about the selected item right now.
fn why_blocked(screen: &WatchScreen, time: KeyTime) -> Option<String> {
    let at = screen.guard_time(time.handled);
    let refusal = screen.guard.refusal_of_act(time.origin(screen), at)?;
    Some(describe_refusal(screen, refusal))
}

fn describe_refusal(screen: &WatchScreen, refusal: GuardRefusal) -> String {
    let item = screen.selected_item();
    match (
        refusal,
        item.and_then(|item| item.ended.as_ref().zip(Some(item))),
    ) {
        (GuardRefusal::Ended, Some((ended, item))) => format!(
            "{} has ended ({ended}): ↑/↓ to continue",
            approvals::short_id(item.id())
        ),
        _ => refusal.describe().into(),
    }
}

fn approve(screen: &mut WatchScreen, row: &HostApproval, time: KeyTime) {
    match approving_option(row) {
        Ok(option) => ask_for_confirmation(screen, row, option, "key:a", time),
        Err(why) => screen.note = why.into(),
    }
}

fn approving_option(row: &HostApproval) -> Result<&str, &'static str> {
    match approvals::approving_options(row).as_slice() {
        [] => Err("no option approves it: r to choose an answer"),
        // Where `approve` is offered it is what `a` means, however many others allow as well: those may
        // allow more than this once.
        options if options.contains(&APPROVE) => Ok(APPROVE),
        [one] => Ok(one),
        _ => Err("more than one option approves it: r to choose"),
    }
}

/// The first step of an allow that becomes a rule: which rule it would be.
fn suggest(screen: &mut WatchScreen, row: &HostApproval, time: KeyTime) -> KeyAction {
    let option = match approving_option(row) {
        Ok(option) => option,
        Err(why) => {
            screen.note = why.into();
            return KeyAction::None;
        }
    };
    let pressed = screen.guard_time(time.pressed.min(time.handled));
    if let Some(refusal) = screen.guard.refusal_of_allow(pressed) {
        screen.note = describe_refusal(screen, refusal);
        return KeyAction::None;
    }
    KeyAction::Suggest {
        id: row.id.clone(),
        option: option.to_owned(),
    }
}

/// The second step: the rules stand above the ask, and count only if both were read.
fn confirm_rules(
    screen: &mut WatchScreen,
    key: &KeyPress,
    option: String,
    rules: Vec<String>,
    time: KeyTime,
) -> KeyAction {
    match key {
        KeyPress::PageUp | KeyPress::PageDown => scroll(screen, key),
        _ => return confirm(screen, key, option, rules, time),
    }
    KeyAction::None
}

/// Shows the question for the second key, if the guard takes the first.
fn ask_for_confirmation(
    screen: &mut WatchScreen,
    row: &HostApproval,
    option: &str,
    place: &str,
    time: KeyTime,
) {
    screen.mode = InputMode::Browse;
    if approvals::allows(row, option) {
        let first = GuardEvent::Allow {
            place,
            option: Some(option),
            form: true,
            origin: time.origin(screen),
        };
        if let GuardDecision::Refused(refusal) = screen.tell_guard(&first, time.handled) {
            screen.note = describe_refusal(screen, refusal);
            return;
        }
    }
    screen.mode = InputMode::Confirm {
        option: option.to_owned(),
    };
}

fn can_deny(row: &HostApproval) -> bool {
    // Agents name their options. One that is called `deny` and counts as an approval must not be sent
    // as a no.
    row.options.iter().any(|option| option == DENY) && !approvals::allows(row, DENY)
}

fn deny(screen: &mut WatchScreen, row: &HostApproval, time: KeyTime) -> KeyAction {
    if !can_deny(row) {
        screen.note = "no option is called `deny`: r to choose another".into();
        return KeyAction::None;
    }
    let denial = GuardEvent::Deny {
        origin: time.origin(screen),
    };
    match screen.tell_guard(&denial, time.handled) {
        GuardDecision::Deny { subject, .. } => KeyAction::Resolve {
            id: subject,
            option: DENY.into(),
            message: None,
            remember: Vec::new(),
        },
        decision => refuse(screen, &decision),
    }
}

/// Says why the guard let nothing through.
fn refuse(screen: &mut WatchScreen, decision: &GuardDecision) -> KeyAction {
    if let GuardDecision::Refused(refusal) = decision {
        screen.note = describe_refusal(screen, *refusal);
    }
    KeyAction::None
}

fn confirm(
    screen: &mut WatchScreen,
    key: &KeyPress,
    option: String,
    remember: Vec<String>,
    time: KeyTime,
) -> KeyAction {
    let place = match key {
        KeyPress::Char('y') => "key:y",
        KeyPress::Enter => "key:Enter",
        KeyPress::Char('n' | 'q') | KeyPress::Escape => {
            return cancel(screen, "nothing was sent", time);
        }
        // Somebody types: the second key would be one of their letters.
        _ => return cancel(screen, "nothing was sent: another key was pressed", time),
    };
    let origin = time.origin(screen);
    // With no ask to look at, the stricter case is assumed.
    let is_allow = match screen.selected_item().map(|item| &item.content) {
        Some(InboxContent::Ask(row)) => approvals::allows(row, &option),
        _ => true,
    };
    // Whatever changed in between voids the first key: the ask, the host, the window.
    if is_allow && screen.guard.confirmable_from().is_none() {
        let why = why_blocked(screen, time);
        let why = why.unwrap_or_else(|| "it changed meanwhile".to_owned());
        return cancel(screen, &format!("nothing was sent: {why}"), time);
    }
    let second = if is_allow {
        GuardEvent::Confirm { place, origin }
    } else {
        GuardEvent::Deny { origin }
    };
    match screen.tell_guard(&second, time.handled) {
        GuardDecision::Allow { subject, .. } | GuardDecision::Deny { subject, .. } => {
            screen.mode = InputMode::Browse;
            KeyAction::Resolve {
                id: subject,
                option,
                message: None,
                remember,
            }
        }
        GuardDecision::Refused(GuardRefusal::TooSoon) if is_allow => {
            screen.note = "key ignored: pressed too soon after the question".into();
            KeyAction::None
        }
        decision => refuse(screen, &decision),
    }
}

/// Goes back to the list, and says that nothing was sent.
fn cancel(screen: &mut WatchScreen, note: &str, time: KeyTime) -> KeyAction {
    screen.tell_guard(&GuardEvent::Cancel, time.handled);
    screen.mode = InputMode::Browse;
    note.clone_into(&mut screen.note);
    KeyAction::None
}

fn choose(screen: &mut WatchScreen, key: &KeyPress, index: usize, time: KeyTime) -> KeyAction {
    let Some(InboxContent::Ask(row)) = screen.selected_item().map(|item| item.content.clone())
    else {
        screen.mode = InputMode::Browse;
        return KeyAction::None;
    };
    let last = row.options.len().saturating_sub(1);
    match key {
        KeyPress::Up => {
            screen.mode = InputMode::Choose {
                index: index.saturating_sub(1),
            }
        }
        KeyPress::Down => {
            screen.mode = InputMode::Choose {
                index: (index + 1).min(last),
            }
        }
        KeyPress::Escape | KeyPress::Char('q') => screen.mode = InputMode::Browse,
        KeyPress::Enter => {
            if let Some(option) = row.options.get(index) {
                ask_for_confirmation(screen, &row, option, "key:Enter", time);
            }
        }
        _ => {}
    }
    KeyAction::None
}

/// Begins the reply to what an ask wants to know, once all its choices were on the screen.
fn reply(screen: &mut WatchScreen) {
    if screen.guard.is_seen() {
        screen.mode = InputMode::TypeAnswer {
            text: String::new(),
            given: Vec::new(),
        };
    } else {
        screen.note = GuardRefusal::NotSeen.describe().into();
    }
}

#[derive(Clone)]
enum InputPurpose {
    Denial,
    Answer {
        /// The answers to the earlier questions of the same ask.
        given: Vec<Vec<String>>,
    },
}

/// Typing goes on even if the item ended meanwhile, so that no letter turns into a command.
fn edit_text(
    screen: &mut WatchScreen,
    key: KeyPress,
    mut text: String,
    purpose: InputPurpose,
    time: KeyTime,
) -> KeyAction {
    match key {
        KeyPress::Char(c) if text.chars().count() < TEXT_CHARS_MAX => text.push(c),
        // A line break inside pasted text must not act as Enter.
        KeyPress::Paste(pasted) => {
            let room = TEXT_CHARS_MAX.saturating_sub(text.chars().count());
            text.extend(
                pasted
                    .chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .take(room),
            );
        }
        KeyPress::Backspace => drop(text.pop()),
        KeyPress::Escape => {
            screen.mode = InputMode::Browse;
            screen.note = "nothing was sent".into();
            return KeyAction::None;
        }
        KeyPress::Enter => return submit_text(screen, &text, purpose, time),
        _ => {}
    }
    screen.mode = match purpose {
        InputPurpose::Denial => InputMode::TypeDenial { text },
        InputPurpose::Answer { given } => InputMode::TypeAnswer { text, given },
    };
    KeyAction::None
}

fn submit_text(
    screen: &mut WatchScreen,
    text: &str,
    purpose: InputPurpose,
    time: KeyTime,
) -> KeyAction {
    let text = text.trim();
    let over = screen
        .selected_item()
        .is_none_or(|item| item.ended.is_some());
    if over {
        screen.mode = InputMode::Browse;
        screen.note = "nothing was sent: it ended elsewhere".into();
        return KeyAction::None;
    }
    if text.is_empty() && !can_be_left_empty(screen, &purpose) {
        screen.note = "type some text first, or Esc to go back".into();
        return KeyAction::None;
    }
    let origin = time.origin(screen);
    let sent = match purpose {
        InputPurpose::Denial => GuardEvent::Deny { origin },
        InputPurpose::Answer { .. } => GuardEvent::Answer { origin },
    };
    let decision = screen.tell_guard(&sent, time.handled);
    let (GuardDecision::Deny { subject: id, .. } | GuardDecision::Answer { subject: id, .. }) =
        decision
    else {
        return refuse(screen, &decision);
    };
    screen.mode = InputMode::Browse;
    match purpose {
        InputPurpose::Denial => KeyAction::Resolve {
            id,
            option: DENY.into(),
            message: Some(text.to_owned()),
            remember: Vec::new(),
        },
        InputPurpose::Answer { given } => match screen.selected_item().map(|item| &item.content) {
            Some(InboxContent::Ask(row)) => {
                let row = row.clone();
                submit_choice(screen, &row, text, given)
            }
            _ => KeyAction::Answer {
                id,
                text: text.to_owned(),
            },
        },
    }
}

/// Whether nothing is an answer to the question that is being answered.
fn can_be_left_empty(screen: &WatchScreen, purpose: &InputPurpose) -> bool {
    let item = screen.selected_item();
    match (purpose, item.map(|item| &item.content)) {
        (InputPurpose::Answer { given }, Some(InboxContent::Ask(row))) => {
            let asked = row.questions.get(given.len());
            asked.is_some_and(|asked| asked.optional)
        }
        _ => false,
    }
}

/// Takes the answer to one question of an ask, and sends all of them after the last.
fn submit_choice(
    screen: &mut WatchScreen,
    row: &HostApproval,
    text: &str,
    mut given: Vec<Vec<String>>,
) -> KeyAction {
    let Some(asked) = row.questions.get(given.len()) else {
        return KeyAction::None;
    };
    match choices::parse_answer(asked, text) {
        Ok(answer) => given.push(answer),
        Err(why) => screen.note = why,
    }
    // Also after an answer that does not fit: `given` did not grow, so the same
    // question comes again.
    if given.len() < row.questions.len() {
        screen.mode = InputMode::TypeAnswer {
            text: String::new(),
            given,
        };
        return KeyAction::None;
    }
    match approving_option(row) {
        Ok(option) => KeyAction::AnswerAsk {
            id: row.id.clone(),
            option: option.to_owned(),
            answers: given,
        },
        Err(why) => {
            screen.note = why.into();
            KeyAction::None
        }
    }
}
