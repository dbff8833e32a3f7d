//! The cases that the terminal UI runs as well.

use std::time::{Duration, Instant};

use countersign_protocol::{HostApproval, Time};
use countersign_tui::decision_guard::GuardEvent;
use countersign_tui::safety_suite::{self, GuardedScreen, SafetyKey, SentAnswer};

use super::draw::draw;
use super::keys::{KeyAction, KeyPress, KeyTime, handle_key};
use super::screen::{HostPresence, WatchScreen};
use crate::render::inbox_item::InboxItem;

struct SmallScreen {
    screen: WatchScreen,
    now: Instant,
    width: u16,
    height: u16,
}

impl SmallScreen {
    fn type_key(&mut self, key: KeyPress, pressed: Instant, is_repeat: bool) -> Vec<SentAnswer> {
        let time = KeyTime {
            handled: self.now,
            pressed,
            is_repeat,
        };
        match handle_key(&mut self.screen, key, time) {
            KeyAction::Resolve {
                id,
                option,
                message,
                remember,
            } => vec![SentAnswer {
                id,
                option,
                message,
                rules: remember,
            }],
            KeyAction::None | KeyAction::Quit | KeyAction::Suggest { .. } => Vec::new(),
            other => panic!("{other:?}"),
        }
    }
}

impl GuardedScreen for SmallScreen {
    fn open(ask: HostApproval, width: u16, height: u16) -> Self {
        let now = Instant::now();
        let mut opened = Self {
            screen: WatchScreen::new(now, Time(181_000_000)),
            now,
            width,
            height,
        };
        opened.update_ask(ask);
        opened.draw();
        opened
    }

    fn set_time(&mut self, ms: u64) {
        self.now = self.screen.epoch + Duration::from_millis(ms);
    }

    fn draw(&mut self) {
        let picture = draw(&self.screen, self.width.into(), self.height.into());
        self.screen
            .record_drawn(picture.page, picture.body, self.now);
    }

    fn resize(&mut self, width: u16, height: u16) {
        (self.width, self.height) = (width, height);
        self.screen.restart_reading(self.now);
        self.draw();
    }

    fn press(&mut self, key: SafetyKey) -> Vec<SentAnswer> {
        let pressed = self.screen.epoch + Duration::from_millis(key.pressed_at);
        self.type_key(KeyPress::Char(key.letter), pressed, key.is_repeat)
    }

    fn page_down(&mut self) {
        self.type_key(KeyPress::PageDown, self.now, false);
    }

    fn submit(&mut self) -> Vec<SentAnswer> {
        self.type_key(KeyPress::Enter, self.now, false)
    }

    fn paste(&mut self, text: &str) -> Vec<SentAnswer> {
        self.type_key(KeyPress::Paste(text.to_owned()), self.now, false)
    }

    fn update_ask(&mut self, ask: HostApproval) {
        self.screen.update_item(InboxItem::ask(ask), self.now);
    }

    fn set_connected(&mut self, is_connected: bool) {
        let link = if is_connected {
            HostPresence::Up
        } else {
            HostPresence::Lost
        };
        self.screen.set_link(link, self.now);
    }

    fn set_focused(&mut self, is_focused: bool) {
        let event = if is_focused {
            GuardEvent::Focus
        } else {
            GuardEvent::Blur
        };
        self.screen.tell_guard(&event, self.now);
    }

    fn offer_rule(&mut self, rule: &str) {
        let id = self.screen.selected.clone().unwrap();
        let rules = vec![rule.to_owned()];
        self.screen
            .show_rule_offer(&id, "approve".into(), rules, self.now);
    }
}

#[test]
fn what_a_key_can_never_do() {
    safety_suite::check::<SmallScreen>();
}
