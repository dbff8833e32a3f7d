//! Screens with much on them, for measurements: without a terminal, a host or a clock.

use countersign_protocol::{
    HostAgent, HostApproval, HostSnapshot, Time, TranscriptPart, TranscriptResult, TranscriptRow,
};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::draw::draw;
use crate::glyphs::ASCII;
use crate::host_call::ReplyTag;
use crate::key::Key;
use crate::keymap::Keymap;
use crate::layout::built_in_layouts;
use crate::message::{Effect, Message, Moment};
use crate::model::{Model, ScreenSettings};
use crate::test_rows;
use crate::theme::{Background, ColorDepth, Theme, built_in_themes};
use crate::update::update;

const SIZE: Rect = Rect::new(0, 0, 200, 60);
/// Some minutes after 1970, so that ages are shown in minutes.
const BEGINNING: Moment = Moment {
    ms: 10_000,
    wall: Time(200_000_000),
};
/// As an agent that talks much has them.
const LINES_PER_PART: u64 = 100;

/// A model, and the picture of it.
pub struct CrowdedScreen {
    model: Model,
    cells: Buffer,
    now: Moment,
}

impl CrowdedScreen {
    /// Connected to a host with so many open asks and agents, and drawn.
    pub fn new(asks: u64, agents: u64) -> Self {
        let themes = built_in_themes();
        let settings = ScreenSettings {
            layouts: built_in_layouts(),
            theme: Theme::new(themes[0].clone(), Background::Dark, ColorDepth::None),
            themes,
            glyphs: &ASCII,
            keymap: Keymap::default(),
            folder: None,
        };
        let mut screen = Self {
            model: Model::new(settings, BEGINNING),
            cells: Buffer::empty(SIZE),
            now: BEGINNING,
        };
        screen.send(Message::Connected {
            snapshot: Box::new(snapshot(asks, agents)),
            notes: Vec::new(),
        });
        // Twice: panels are laid out by what was drawn before.
        screen.draw();
        screen.draw();
        screen
    }

    fn send(&mut self, message: Message) -> Vec<Effect> {
        update(&mut self.model, message, self.now)
    }

    /// Draws as the loop does, so that the screen knows what was seen.
    pub fn draw(&mut self) -> &Buffer {
        self.cells.reset();
        let report = draw(&self.model, &mut self.cells);
        self.send(Message::Drawn(report));
        &self.cells
    }

    /// Types keys, as the table of commands names them.
    pub fn press(&mut self, keys: &str) {
        for key in Key::parse_sequence(keys).into_iter().flatten() {
            let at = self.now.ms;
            self.send(Message::Key {
                key,
                at,
                is_repeat: false,
            });
        }
    }

    /// A second later.
    pub fn tick(&mut self) -> Vec<Effect> {
        self.now.ms += 1_000;
        self.now.wall = Time(self.now.wall.0 + 1_000_000);
        self.send(Message::Tick)
    }

    /// Takes in a transcript of the agent that is shown, all of it.
    pub fn take_transcript(&mut self, lines: u64) {
        let parts = (1..=lines / LINES_PER_PART).map(|sequence| {
            let first = (sequence - 1) * LINES_PER_PART;
            let lines = (first..first + LINES_PER_PART)
                .map(|number| format!("{number}: what the agent says\n"));
            TranscriptPart {
                entries: vec![TranscriptRow::Assistant {
                    text: lines.collect(),
                }],
                sequence,
                timestamp: Time(0),
                turn: 1,
            }
        });
        let page = TranscriptResult {
            first: None,
            more: false,
            next: lines,
            parts: parts.collect(),
        };
        let tag = ReplyTag::TranscriptEnd {
            agent: "agent-0".into(),
        };
        let result = serde_json::to_string(&page);
        // A page of texts and numbers always is JSON.
        let result = Ok(result.unwrap_or_default());
        self.send(Message::Reply { tag, result });
    }
}

fn snapshot(asks: u64, agents: u64) -> HostSnapshot {
    let approvals = (0..asks).map(|number| HostApproval {
        id: format!("approval-{number}"),
        sequence: number,
        agent_id: Some(format!("agent-{}", number % agents.max(1))),
        ..test_rows::bash(&format!("cargo test --package part-{number}"))
    });
    let agents = (0..agents).map(|number| HostAgent {
        id: format!("agent-{number}"),
        name: format!("agent-{number}"),
        managed: Some(test_rows::managed()),
        ..test_rows::agent()
    });
    HostSnapshot {
        agents: agents.collect(),
        approvals: approvals.collect(),
        devices: Vec::new(),
        event_sequence: 1,
        events: Vec::new(),
        identity: None,
        pending_signins: Vec::new(),
        questions: Vec::new(),
        rule_problems: Vec::new(),
        store_error: None,
        subscribed: true,
    }
}
