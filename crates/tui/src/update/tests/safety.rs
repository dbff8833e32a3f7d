//! The cases that `watch` runs as well.

use countersign_protocol::{HostApproval, HostApprovalState};
use serde_json::{Value, json};

use crate::host_call::ReplyTag;
use crate::key::Key;
use crate::message::{Effect, Message};
use crate::safety_suite::{self, GuardedScreen, SafetyKey, SentAnswer};
use crate::test_screen::{TestScreen, decisions, event};

struct TuiScreen {
    screen: TestScreen,
    ask: HostApproval,
    opened_at: u64,
    now: u64,
    sequence: u64,
}

impl TuiScreen {
    fn answers(effects: &[Effect]) -> Vec<SentAnswer> {
        let calls = decisions(effects).into_iter();
        let sent = calls.map(|call| serde_json::from_str::<Value>(&call.params).unwrap());
        sent.map(|body| SentAnswer {
            id: body["approval_id"].as_str().unwrap().to_owned(),
            option: body["resolution"].as_str().unwrap().to_owned(),
            message: body["message"].as_str().map(str::to_owned),
            rules: serde_json::from_value(body["remember"]["rules"].clone()).unwrap_or_default(),
        })
        .collect()
    }
}

impl GuardedScreen for TuiScreen {
    fn open(ask: HostApproval, width: u16, height: u16) -> Self {
        let mut screen = TestScreen::new(width, height);
        screen.connect(vec![ask.clone()]);
        screen.press("g s");
        let opened_at = screen.moment().ms;
        Self {
            screen,
            ask,
            opened_at,
            now: 0,
            sequence: 100,
        }
    }

    fn set_time(&mut self, ms: u64) {
        self.screen.wait(ms - self.now);
        self.now = ms;
    }

    fn draw(&mut self) {
        self.screen.draw();
    }

    fn resize(&mut self, width: u16, height: u16) {
        (self.screen.width, self.screen.height) = (width, height);
        self.screen.send(Message::Resized);
        self.screen.draw();
    }

    fn press(&mut self, key: SafetyKey) -> Vec<SentAnswer> {
        let effects = self.screen.send(Message::Key {
            key: Key::char(key.letter),
            at: self.opened_at + key.pressed_at,
            is_repeat: key.is_repeat,
        });
        Self::answers(&effects)
    }

    fn page_down(&mut self) {
        self.screen.press("PgDn");
    }

    fn submit(&mut self) -> Vec<SentAnswer> {
        let effects = self.screen.press("Ctrl-s");
        Self::answers(&effects)
    }

    fn paste(&mut self, text: &str) -> Vec<SentAnswer> {
        let effects = self.screen.send(Message::Paste(text.to_owned()));
        Self::answers(&effects)
    }

    fn update_ask(&mut self, ask: HostApproval) {
        let kind = if ask.state == HostApprovalState::Pending {
            "approval.requested"
        } else {
            "approval.resolved"
        };
        self.sequence += 1;
        let mut told = event(kind, &serde_json::to_value(&ask).unwrap());
        told.sequence = self.sequence;
        self.ask = ask;
        self.screen.send(Message::Event(Box::new(told)));
    }

    fn set_connected(&mut self, is_connected: bool) {
        if is_connected {
            self.screen.connect(vec![self.ask.clone()]);
        } else {
            self.screen.send(Message::Lost);
        }
    }

    fn set_focused(&mut self, is_focused: bool) {
        self.screen.send(Message::Focused(is_focused));
    }

    fn offer_rule(&mut self, rule: &str) {
        let tag = ReplyTag::Suggested {
            id: self.ask.id.clone(),
            option: "approve".into(),
        };
        let found = json!({ "candidates": [{ "note": "this command", "part": 0, "rule": rule }] });
        self.screen.reply(tag, &found);
    }
}

#[test]
fn what_a_key_can_never_do() {
    safety_suite::check::<TuiScreen>();
}
