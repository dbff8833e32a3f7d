//! A screen for tests: a model with a host, drawn into cells, with keys typed at times.

use countersign_protocol::{
    HostAgent, HostApproval, HostEvent, HostSnapshot, ManagedRow, Time, TranscriptPart,
    TranscriptResult, TranscriptRow, UsageRow,
};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::draw::{buffer_text, draw};
use crate::glyphs::{Glyphs, UNICODE};
use crate::host_call::{CallFailure, HostCall, ReplyTag};
use crate::key::Key;
use crate::keymap::Keymap;
use crate::layout::built_in_layouts;
use crate::message::{Effect, Message, Moment};
use crate::model::{Model, ScreenSettings};
use crate::test_rows;
use crate::theme::{Background, ColorDepth, Theme, built_in_themes};
use crate::update::update;

/// Three minutes after 1970, when the rows of the tests are some minutes old.
const WALL: Time = Time(181_000_000);

pub(crate) struct TestScreen {
    pub(crate) model: Model,
    pub(crate) width: u16,
    pub(crate) height: u16,
    ms: u64,
}

pub(crate) fn agent(name: &str, state: &str) -> HostAgent {
    HostAgent {
        id: name.into(),
        name: name.into(),
        state: state.into(),
        managed: Some(ManagedRow {
            last_activity: Time(120_000_000),
            usage: UsageRow {
                context_size: Some(200),
                context_used: Some(122),
                cost_micro_usd: Some(420_000),
                ..UsageRow::default()
            },
            ..test_rows::managed()
        }),
        ..test_rows::agent()
    }
}

pub(crate) fn snapshot(approvals: Vec<HostApproval>) -> HostSnapshot {
    HostSnapshot {
        agents: vec![
            agent("builder", "awaiting_permission"),
            agent("docs", "running"),
        ],
        approvals,
        devices: Vec::new(),
        event_sequence: 10,
        events: Vec::new(),
        identity: None,
        pending_signins: Vec::new(),
        questions: vec![test_rows::question()],
        rule_problems: Vec::new(),
        store_error: None,
        subscribed: true,
    }
}

pub(crate) fn event(kind: &str, payload: &Value) -> HostEvent {
    let event = json!({
        "id": "e", "kind": kind, "message": "", "payload": payload, "sequence": 99,
        "timestamp": "1970-01-01T00:00:00.000000Z",
    });
    serde_json::from_str(&event.to_string()).unwrap()
}

impl TestScreen {
    pub(crate) fn new(width: u16, height: u16) -> Self {
        Self::styled(
            width,
            height,
            &UNICODE,
            Background::Dark,
            ColorDepth::Sixteen,
        )
    }

    pub(crate) fn styled(
        width: u16,
        height: u16,
        glyphs: &'static Glyphs,
        background: Background,
        depth: ColorDepth,
    ) -> Self {
        let themes = built_in_themes();
        let settings = ScreenSettings {
            layouts: built_in_layouts(),
            theme: Theme::new(themes[1].clone(), background, depth),
            themes,
            glyphs,
            keymap: Keymap::default(),
            folder: Some("/srv/app".into()),
        };
        let mut screen = Self {
            model: Model::new(settings, Moment::default()),
            width,
            height,
            ms: 1_000,
        };
        screen.draw();
        screen
    }

    /// With the rows of the tests open.
    pub(crate) fn connected(width: u16, height: u16) -> Self {
        let mut screen = Self::new(width, height);
        screen.connect(vec![test_rows::approval()]);
        screen
    }

    pub(crate) fn connect(&mut self, approvals: Vec<HostApproval>) -> Vec<Effect> {
        let message = Message::Connected {
            snapshot: Box::new(snapshot(approvals)),
            notes: Vec::new(),
        };
        self.send(message)
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment {
            ms: self.ms,
            wall: WALL,
        }
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.ms += ms;
    }

    pub(crate) fn send(&mut self, message: Message) -> Vec<Effect> {
        let now = self.moment();
        update(&mut self.model, message, now)
    }

    /// Draws as the loop does, so that the screen knows what was seen.
    pub(crate) fn draw(&mut self) -> String {
        buffer_text(&self.cells())
    }

    pub(crate) fn cells(&mut self) -> Buffer {
        let mut buffer = Buffer::default();
        // Twice: panels are laid out by what was drawn before.
        for _ in 0..2 {
            buffer = Buffer::empty(Rect::new(0, 0, self.width, self.height));
            self.model.now = self.moment();
            let report = draw(&self.model, &mut buffer);
            self.send(Message::Drawn(report));
        }
        buffer
    }

    /// Types keys now, with a picture before each.
    pub(crate) fn press(&mut self, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for key in Key::parse_sequence(keys).unwrap() {
            self.draw();
            effects.extend(self.type_key(key));
        }
        self.draw();
        effects
    }

    pub(crate) fn type_key(&mut self, key: Key) -> Vec<Effect> {
        let at = self.ms;
        self.send(Message::Key {
            key,
            at,
            is_repeat: false,
        })
    }

    pub(crate) fn reply(&mut self, tag: ReplyTag, result: &Value) -> Vec<Effect> {
        self.send(Message::Reply {
            tag,
            result: Ok(result.to_string()),
        })
    }

    pub(crate) fn refuse(&mut self, tag: ReplyTag, message: &str, is_lost: bool) -> Vec<Effect> {
        let failure = CallFailure {
            message: message.into(),
            reason: None,
            is_lost,
        };
        self.send(Message::Reply {
            tag,
            result: Err(failure),
        })
    }

    /// What the screen says.
    pub(crate) fn notice(&self) -> &str {
        self.model
            .notices
            .current
            .as_ref()
            .map_or("", |notice| notice.as_str())
    }

    /// The transcript of the first agent.
    pub(crate) fn fill_transcript(&mut self, texts: &[&str]) {
        let parts = texts
            .iter()
            .enumerate()
            .map(|(index, text)| TranscriptPart {
                entries: vec![TranscriptRow::Assistant {
                    text: (*text).into(),
                }],
                sequence: index as u64 + 1,
                timestamp: Time(0),
                turn: 1,
            });
        let page = TranscriptResult {
            first: None,
            more: false,
            next: texts.len() as u64,
            parts: parts.collect(),
        };
        let tag = ReplyTag::TranscriptEnd {
            agent: "builder".into(),
        };
        self.reply(tag, &serde_json::to_value(page).unwrap());
    }
}

/// Calls that decide something.
pub(crate) fn decisions(effects: &[Effect]) -> Vec<&HostCall> {
    let calls = effects.iter().filter_map(|effect| match effect {
        Effect::Call(call) => Some(call),
        _ => None,
    });
    let deciding = [
        "host.resolve_approval",
        "host.resolve_approvals",
        "host.answer_question",
    ];
    calls
        .filter(|call| deciding.contains(&call.method))
        .collect()
}

/// The parameters of the one decision among effects.
pub(crate) fn only_decision(effects: &[Effect]) -> Value {
    let found = decisions(effects);
    assert_eq!(found.len(), 1, "{effects:?}");
    serde_json::from_str(&found[0].params).unwrap()
}
