//! What a key does. Pure: the same screen, key and time always give the same action.
//!
//! Invariants: an allow takes two keys and a text that was read to its end; keys that come with
//! or right after a change of the selected item decide nothing; pasted text decides nothing.

use std::time::{Duration, Instant};

use countersign_protocol::HostApproval;

use super::screen::{HostPresence, InputMode, WatchScreen};
use crate::render::approvals::{self, APPROVE, DENY};
use crate::render::choices;
use crate::render::inbox_item::InboxContent;

/// Keys that decide do not count for this long after the selected item appeared or changed.
pub(super) const SETTLE: Duration = Duration::from_millis(500);
/// Nobody reads the question for the second key faster than this.
pub(super) const PROMPT: Duration = Duration::from_millis(250);
const UNREAD: &str = "read it to the end first: PgDn";
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

pub(super) fn handle_key(screen: &mut WatchScreen, key: KeyPress, now: Instant) -> KeyAction {
    if key == KeyPress::Interrupt {
        return KeyAction::Quit;
    }
    match screen.mode.clone() {
        InputMode::Browse => browse(screen, &key, now),
        InputMode::Confirm { option } => confirm(screen, &key, option, Vec::new(), now),
        InputMode::Save { option, rules } => confirm_rules(screen, &key, option, rules, now),
        InputMode::Choose { index } => choose(screen, &key, index, now),
        InputMode::TypeDenial { text } => edit_text(screen, key, text, TextPurpose::Denial),
        InputMode::TypeAnswer { text, given } => {
            edit_text(screen, key, text, TextPurpose::Answer { given })
        }
    }
}

fn browse(screen: &mut WatchScreen, key: &KeyPress, now: Instant) -> KeyAction {
    match key {
        KeyPress::Up => screen.move_selection(false, now),
        KeyPress::Down => screen.move_selection(true, now),
        KeyPress::PageUp | KeyPress::PageDown => scroll(screen, key),
        KeyPress::Char('v') => screen.toggle_detail(),
        KeyPress::Char('q') => return KeyAction::Quit,
        KeyPress::Char(letter @ ('a' | 's' | 'd' | 'm' | 'r')) => {
            return decide(screen, *letter, now);
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
fn decide(screen: &mut WatchScreen, letter: char, now: Instant) -> KeyAction {
    let Some(item) = screen.selected_item().cloned() else {
        screen.note = "nothing is selected".into();
        return KeyAction::None;
    };
    // Before any of the keys that decide acts, so that none can be forgotten here.
    if let Some(why) = why_blocked(screen, now) {
        screen.note = why;
        return KeyAction::None;
    }
    screen.note.clear();
    match (letter, item.content) {
        ('r', InboxContent::Ask(row)) if !row.questions.is_empty() => reply(screen),
        ('a' | 's', InboxContent::Ask(row)) if !row.questions.is_empty() => {
            screen.note = "this is a question: r to reply".into();
        }
        ('a', InboxContent::Ask(row)) => approve(screen, &row, now),
        ('s', InboxContent::Ask(row)) => return suggest(screen, &row),
        // One key is enough for a denial: a wrong one costs a repetition, a wrong approval may cost the
        // machine.
        ('d', InboxContent::Ask(row)) => return deny(screen, &row),
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
fn why_blocked(screen: &WatchScreen, now: Instant) -> Option<String> {
    let item = screen.selected_item()?;
    if let Some(ended) = &item.ended {
        return Some(format!(
            "{} has ended ({ended}): ↑/↓ to continue",
            approvals::short_id(item.id())
        ));
    }
    if screen.link == HostPresence::Lost {
        return Some("not connected: nothing can be sent".into());
    }
    (now < screen.changed_at + SETTLE)
        .then(|| "key ignored: this just appeared or changed; read it first".into())
}

fn approve(screen: &mut WatchScreen, row: &HostApproval, now: Instant) {
    match approving_option(row) {
        Ok(option) => ask_for_confirmation(screen, row, option, now),
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
fn suggest(screen: &mut WatchScreen, row: &HostApproval) -> KeyAction {
    let why = match approving_option(row) {
        Ok(_) if !screen.end_seen => UNREAD,
        Ok(option) => {
            return KeyAction::Suggest {
                id: row.id.clone(),
                option: option.to_owned(),
            };
        }
        Err(why) => why,
    };
    screen.note = why.into();
    KeyAction::None
}

/// The second step: the rules stand above the ask, and count only if both were read.
fn confirm_rules(
    screen: &mut WatchScreen,
    key: &KeyPress,
    option: String,
    rules: Vec<String>,
    now: Instant,
) -> KeyAction {
    match key {
        KeyPress::PageUp | KeyPress::PageDown => scroll(screen, key),
        KeyPress::Char('y') | KeyPress::Enter if !screen.end_seen => screen.note = UNREAD.into(),
        _ => return confirm(screen, key, option, rules, now),
    }
    KeyAction::None
}

/// Shows the question for the second key, if the item was read to its end where that matters.
fn ask_for_confirmation(screen: &mut WatchScreen, row: &HostApproval, option: &str, now: Instant) {
    if approvals::allows(row, option) && !screen.end_seen {
        screen.note = UNREAD.into();
        screen.mode = InputMode::Browse;
        return;
    }
    screen.prompted_at = now;
    screen.mode = InputMode::Confirm {
        option: option.to_owned(),
    };
}

fn can_deny(row: &HostApproval) -> bool {
    // Agents name their options. One that is called `deny` and counts as an approval must not be sent
    // as a no.
    row.options.iter().any(|option| option == DENY) && !approvals::allows(row, DENY)
}

fn deny(screen: &mut WatchScreen, row: &HostApproval) -> KeyAction {
    if can_deny(row) {
        return KeyAction::Resolve {
            id: row.id.clone(),
            option: DENY.into(),
            message: None,
            remember: Vec::new(),
        };
    }
    screen.note = "no option is called `deny`: r to choose another".into();
    KeyAction::None
}

fn confirm(
    screen: &mut WatchScreen,
    key: &KeyPress,
    option: String,
    remember: Vec<String>,
    now: Instant,
) -> KeyAction {
    match key {
        KeyPress::Char('y') | KeyPress::Enter => {}
        KeyPress::Char('n' | 'q') | KeyPress::Escape => {
            screen.mode = InputMode::Browse;
            screen.note = "nothing was sent".into();
            return KeyAction::None;
        }
        // Any other key leaves the question open: only a clear yes or no ends it.
        _ => return KeyAction::None,
    }
    // Again for the second key: in between the ask may have ended or changed, or the host may be lost.
    if let Some(why) = why_blocked(screen, now) {
        screen.mode = InputMode::Browse;
        screen.note = format!("nothing was sent: {why}");
        return KeyAction::None;
    }
    // Two keys in one stroke, or one that repeats while it is held down, are not two decisions.
    if now < screen.prompted_at + PROMPT {
        screen.note = "key ignored: pressed too soon after the question".into();
        return KeyAction::None;
    }
    screen.mode = InputMode::Browse;
    let id = screen.selected.clone().unwrap_or_default();
    KeyAction::Resolve {
        id,
        option,
        message: None,
        remember,
    }
}

fn choose(screen: &mut WatchScreen, key: &KeyPress, index: usize, now: Instant) -> KeyAction {
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
                ask_for_confirmation(screen, &row, option, now);
            }
        }
        _ => {}
    }
    KeyAction::None
}

/// Begins the reply to what an ask wants to know, once all its choices were on the screen.
fn reply(screen: &mut WatchScreen) {
    if screen.end_seen {
        screen.mode = InputMode::TypeAnswer {
            text: String::new(),
            given: Vec::new(),
        };
    } else {
        screen.note = UNREAD.into();
    }
}

#[derive(Clone)]
enum TextPurpose {
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
    purpose: TextPurpose,
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
        KeyPress::Enter => return submit_text(screen, &text, purpose),
        _ => {}
    }
    screen.mode = match purpose {
        TextPurpose::Denial => InputMode::TypeDenial { text },
        TextPurpose::Answer { given } => InputMode::TypeAnswer { text, given },
    };
    KeyAction::None
}

fn submit_text(screen: &mut WatchScreen, text: &str, purpose: TextPurpose) -> KeyAction {
    let text = text.trim();
    // No reading time is asked for: a text takes longer to type, and neither a denial nor an answer
    // approves anything.
    let over = screen
        .selected_item()
        .is_none_or(|item| item.ended.is_some());
    if over {
        screen.mode = InputMode::Browse;
        screen.note = "nothing was sent: it ended elsewhere".into();
        return KeyAction::None;
    }
    let is_missing = text.is_empty() && !can_be_left_empty(screen, &purpose);
    if is_missing || screen.link == HostPresence::Lost {
        screen.note = match screen.link {
            HostPresence::Up => "type some text first, or Esc to go back".into(),
            HostPresence::Lost => "not connected: nothing can be sent".into(),
        };
        return KeyAction::None;
    }
    screen.mode = InputMode::Browse;
    let id = screen.selected.clone().unwrap_or_default();
    match purpose {
        TextPurpose::Denial => KeyAction::Resolve {
            id,
            option: DENY.into(),
            message: Some(text.to_owned()),
            remember: Vec::new(),
        },
        TextPurpose::Answer { given } => match screen.selected_item().map(|item| &item.content) {
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
fn can_be_left_empty(screen: &WatchScreen, purpose: &TextPurpose) -> bool {
    let item = screen.selected_item();
    match (purpose, item.map(|item| &item.content)) {
        (TextPurpose::Answer { given }, Some(InboxContent::Ask(row))) => {
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
