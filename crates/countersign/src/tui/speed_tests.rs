//! How the cost of a picture grows: as ratios within one run, since machines differ.

use std::time::{Duration, Instant};

use countersign_protocol::{
    HostAgent, HostApproval, HostSnapshot, Time, TranscriptPart, TranscriptResult, TranscriptRow,
};
use countersign_tui::draw::draw;
use countersign_tui::host_call::ReplyTag;
use countersign_tui::message::{Message, Moment};
use countersign_tui::model::Model;
use countersign_tui::test_rows;
use countersign_tui::update::update;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::settings;

const NOW: Moment = Moment {
    ms: 10_000,
    wall: Time(200_000_000),
};

fn model(asks: u64, agents: u64) -> Model {
    let approvals = (0..asks).map(|number| HostApproval {
        id: format!("approval-{number}"),
        sequence: number,
        agent_id: Some("agent-0".into()),
        ..test_rows::approval()
    });
    let agents = (0..agents).map(|number| HostAgent {
        id: format!("agent-{number}"),
        name: format!("agent-{number}"),
        managed: Some(test_rows::managed()),
        ..test_rows::agent()
    });
    let snapshot = HostSnapshot {
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
    };
    let mut model = Model::new(settings::plain(), NOW);
    let message = Message::Connected {
        snapshot: Box::new(snapshot),
        notes: Vec::new(),
    };
    drop(update(&mut model, message, NOW));
    picture(&mut model);
    model
}

fn picture(model: &mut Model) {
    let mut buffer = Buffer::empty(Rect::new(0, 0, 200, 60));
    let report = draw(model, &mut buffer);
    drop(update(model, Message::Drawn(report), NOW));
}

/// The shortest of some tries: what else the machine does only makes a try longer.
fn shortest(mut run: impl FnMut()) -> Duration {
    let tries = (0..20).map(|_| {
        let begin = Instant::now();
        run();
        begin.elapsed()
    });
    tries.min().unwrap_or_default()
}

fn transcript(lines: u64) -> Model {
    const LINES_PER_PART: u64 = 100;
    let mut model = model(1, 1);
    let parts = (1..=lines / LINES_PER_PART).map(|sequence| TranscriptPart {
        entries: vec![TranscriptRow::Assistant {
            text: "what the agent says\n".repeat(100),
        }],
        sequence,
        timestamp: Time(0),
        turn: 1,
    });
    let page = TranscriptResult {
        first: None,
        more: false,
        next: lines,
        parts: parts.collect(),
    };
    let message = Message::Reply {
        tag: ReplyTag::TranscriptEnd {
            agent: "agent-0".into(),
        },
        result: Ok(serde_json::to_string(&page).unwrap()),
    };
    drop(update(&mut model, message, NOW));
    model
}

#[test]
fn a_full_inbox_costs_little_more_than_a_small_one() {
    let (mut small, mut full) = (model(60, 60), model(1_000, 500));
    let (one, other) = (
        shortest(|| picture(&mut small)),
        shortest(|| picture(&mut full)),
    );
    // Sixty rows fill the screen: the rest is counted and sorted, and not drawn.
    assert!(
        other < one * 12,
        "{one:?} with 60 asks and agents, {other:?} with 1,000 and 500"
    );
}

#[test]
fn a_long_transcript_costs_what_is_on_the_screen() {
    let (mut short, mut long) = (transcript(1_000), transcript(100_000));
    let (one, other) = (
        shortest(|| picture(&mut short)),
        shortest(|| picture(&mut long)),
    );
    assert!(
        other < one * 2,
        "{one:?} with 1,000 lines, {other:?} with 100,000"
    );
}
