//! What a key does. Pure: the same screen, key and time always give the same action.
//!
//! Invariants: an allow takes two keys and a text that was read to its end; keys that come with
//! or right after a change of the selected item decide nothing; pasted text decides nothing.

use std::time::{Duration, Instant};

use countersign_protocol::HostApproval;

use super::screen::{Content, Link, Mode, Screen};
use crate::describe::{self, APPROVE, DENY};

/// Keys that decide do not count for this long after the selected item appeared or changed.
pub(super) const SETTLE: Duration = Duration::from_millis(500);
/// Nobody reads the question for the second key faster than this.
pub(super) const PROMPT: Duration = Duration::from_millis(250);
const UNREAD: &str = "read it to its end first: PgDn";
/// The longest text that can be typed here.
const TEXT_CHARS_MAX: usize = 4_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
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
pub(super) enum Action {
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
        words: String,
    },
}

pub(super) fn key(screen: &mut Screen, key: Key, now: Instant) -> Action {
    if key == Key::Interrupt {
        return Action::Quit;
    }
    match screen.mode.clone() {
        Mode::Browse => browse(screen, &key, now),
        Mode::Confirm { option } => confirm(screen, &key, option, Vec::new(), now),
        Mode::Save { option, rules } => save(screen, &key, option, rules, now),
        Mode::Choose { index } => choose(screen, &key, index, now),
        Mode::DenyWords { text } => typing(screen, key, text, Words::Denial),
        Mode::AnswerWords { text } => typing(screen, key, text, Words::Answer),
    }
}

fn browse(screen: &mut Screen, key: &Key, now: Instant) -> Action {
    match key {
        Key::Up => screen.step(false, now),
        Key::Down => screen.step(true, now),
        Key::PageUp | Key::PageDown => scroll(screen, key),
        Key::Char('q') => return Action::Quit,
        Key::Char(letter @ ('a' | 's' | 'd' | 'm' | 'r')) => return decide(screen, *letter, now),
        _ => {}
    }
    Action::None
}

fn scroll(screen: &mut Screen, key: &Key) {
    if *key == Key::PageUp {
        screen.scroll = screen.scroll.saturating_sub(page_step(screen));
    } else {
        let last = screen.body.saturating_sub(screen.page);
        screen.scroll = (screen.scroll + page_step(screen)).min(last);
    }
}

/// One line less than a page, so that nothing is jumped over.
fn page_step(screen: &Screen) -> usize {
    screen.page.saturating_sub(1).max(1)
}

/// A key that decides, if it may.
fn decide(screen: &mut Screen, letter: char, now: Instant) -> Action {
    let Some(item) = screen.selected_item().cloned() else {
        screen.note = "nothing is selected".into();
        return Action::None;
    };
    if let Some(why) = obstacle(screen, now) {
        screen.note = why;
        return Action::None;
    }
    screen.note.clear();
    match (letter, item.content) {
        ('a', Content::Ask(row)) => approve(screen, &row, now),
        ('s', Content::Ask(row)) => return suggest(screen, &row),
        ('d', Content::Ask(row)) => return deny(screen, &row),
        ('m', Content::Ask(row)) if can_deny(&row) => {
            screen.mode = Mode::DenyWords {
                text: String::new(),
            }
        }
        ('r', Content::Ask(_)) => screen.mode = Mode::Choose { index: 0 },
        ('r', Content::Question(_)) => {
            screen.mode = Mode::AnswerWords {
                text: String::new(),
            }
        }
        (_, Content::Ask(_)) => screen.note = "it has no option `deny`: r to choose another".into(),
        (_, Content::Question(_)) => screen.note = "a question takes words: r to answer".into(),
    }
    Action::None
}

/// Why nothing can be decided about the selected item right now.
fn obstacle(screen: &Screen, now: Instant) -> Option<String> {
    let item = screen.selected_item()?;
    if let Some(ended) = &item.ended {
        return Some(format!(
            "{} is over ({ended}): ↑/↓ to go on",
            describe::short_id(item.id())
        ));
    }
    if screen.link == Link::Lost {
        return Some("the host is gone: nothing can be sent".into());
    }
    (now < screen.changed_at + SETTLE)
        .then(|| "that key came too soon and was ignored: read first".into())
}

fn approve(screen: &mut Screen, row: &HostApproval, now: Instant) {
    match one_that_allows(row) {
        Ok(option) => ask_twice(screen, row, option, now),
        Err(why) => screen.note = why.into(),
    }
}

fn one_that_allows(row: &HostApproval) -> Result<&str, &'static str> {
    match describe::allowing(row).as_slice() {
        [] => Err("no option allows it: r to choose an answer"),
        options if options.contains(&APPROVE) => Ok(APPROVE),
        [one] => Ok(one),
        _ => Err("more than one option allows it: r to choose"),
    }
}

/// The first step of an allow that becomes a rule: which rule it would be.
fn suggest(screen: &mut Screen, row: &HostApproval) -> Action {
    let why = match one_that_allows(row) {
        Ok(_) if !screen.end_seen => UNREAD,
        Ok(option) => {
            return Action::Suggest {
                id: row.id.clone(),
                option: option.to_owned(),
            };
        }
        Err(why) => why,
    };
    screen.note = why.into();
    Action::None
}

/// The second step: the rules stand above the ask, and count only if both were read.
fn save(
    screen: &mut Screen,
    key: &Key,
    option: String,
    rules: Vec<String>,
    now: Instant,
) -> Action {
    match key {
        Key::PageUp | Key::PageDown => scroll(screen, key),
        Key::Char('y') | Key::Enter if !screen.end_seen => screen.note = UNREAD.into(),
        _ => return confirm(screen, key, option, rules, now),
    }
    Action::None
}

/// Shows the question for the second key, if the item was read to its end where that matters.
fn ask_twice(screen: &mut Screen, row: &HostApproval, option: &str, now: Instant) {
    if describe::allows(row, option) && !screen.end_seen {
        screen.note = UNREAD.into();
        screen.mode = Mode::Browse;
        return;
    }
    screen.prompted_at = now;
    screen.mode = Mode::Confirm {
        option: option.to_owned(),
    };
}

fn can_deny(row: &HostApproval) -> bool {
    row.options.iter().any(|option| option == DENY) && !describe::allows(row, DENY)
}

fn deny(screen: &mut Screen, row: &HostApproval) -> Action {
    if can_deny(row) {
        return Action::Resolve {
            id: row.id.clone(),
            option: DENY.into(),
            message: None,
            remember: Vec::new(),
        };
    }
    screen.note = "it has no option `deny`: r to choose another".into();
    Action::None
}

fn confirm(
    screen: &mut Screen,
    key: &Key,
    option: String,
    remember: Vec<String>,
    now: Instant,
) -> Action {
    match key {
        Key::Char('y') | Key::Enter => {}
        Key::Char('n' | 'q') | Key::Escape => {
            screen.mode = Mode::Browse;
            screen.note = "nothing was sent".into();
            return Action::None;
        }
        _ => return Action::None,
    }
    if let Some(why) = obstacle(screen, now) {
        screen.mode = Mode::Browse;
        screen.note = format!("nothing was sent: {why}");
        return Action::None;
    }
    if now < screen.prompted_at + PROMPT {
        screen.note = "that key came too soon and was ignored".into();
        return Action::None;
    }
    screen.mode = Mode::Browse;
    let id = screen.selected.clone().unwrap_or_default();
    Action::Resolve {
        id,
        option,
        message: None,
        remember,
    }
}

fn choose(screen: &mut Screen, key: &Key, index: usize, now: Instant) -> Action {
    let Some(Content::Ask(row)) = screen.selected_item().map(|item| item.content.clone()) else {
        screen.mode = Mode::Browse;
        return Action::None;
    };
    let last = row.options.len().saturating_sub(1);
    match key {
        Key::Up => {
            screen.mode = Mode::Choose {
                index: index.saturating_sub(1),
            }
        }
        Key::Down => {
            screen.mode = Mode::Choose {
                index: (index + 1).min(last),
            }
        }
        Key::Escape | Key::Char('q') => screen.mode = Mode::Browse,
        Key::Enter => {
            if let Some(option) = row.options.get(index) {
                ask_twice(screen, &row, option, now);
            }
        }
        _ => {}
    }
    Action::None
}

#[derive(Clone, Copy)]
enum Words {
    Denial,
    Answer,
}

/// Typing goes on even if the item ended meanwhile, so that no letter turns into a command.
fn typing(screen: &mut Screen, key: Key, mut text: String, words: Words) -> Action {
    match key {
        Key::Char(c) if text.chars().count() < TEXT_CHARS_MAX => text.push(c),
        Key::Paste(pasted) => {
            let room = TEXT_CHARS_MAX.saturating_sub(text.chars().count());
            text.extend(
                pasted
                    .chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .take(room),
            );
        }
        Key::Backspace => drop(text.pop()),
        Key::Escape => {
            screen.mode = Mode::Browse;
            screen.note = "nothing was sent".into();
            return Action::None;
        }
        Key::Enter => return send(screen, &text, words),
        _ => {}
    }
    screen.mode = match words {
        Words::Denial => Mode::DenyWords { text },
        Words::Answer => Mode::AnswerWords { text },
    };
    Action::None
}

fn send(screen: &mut Screen, text: &str, words: Words) -> Action {
    let text = text.trim();
    let over = screen
        .selected_item()
        .is_none_or(|item| item.ended.is_some());
    if over {
        screen.mode = Mode::Browse;
        screen.note = "nothing was sent: it ended elsewhere".into();
        return Action::None;
    }
    if text.is_empty() || screen.link == Link::Lost {
        screen.note = match screen.link {
            Link::Up => "type some words first, or Esc to go back".into(),
            Link::Lost => "the host is gone: nothing can be sent".into(),
        };
        return Action::None;
    }
    screen.mode = Mode::Browse;
    let id = screen.selected.clone().unwrap_or_default();
    match words {
        Words::Denial => Action::Resolve {
            id,
            option: DENY.into(),
            message: Some(text.to_owned()),
            remember: Vec::new(),
        },
        Words::Answer => Action::Answer {
            id,
            words: text.to_owned(),
        },
    }
}
