//! Searching transcripts on the screen.

use serde_json::{Value, json};

use crate::host_call::ReplyTag;
use crate::layout::PanelKind;
use crate::message::Effect;
use crate::test_screen::TestScreen;

/// The parameters of the calls of a method among effects.
fn calls(effects: &[Effect], method: &str) -> Vec<Value> {
    let found = effects.iter().filter_map(|effect| match effect {
        Effect::Call(call) if call.method == method => Some(&call.params),
        _ => None,
    });
    found
        .map(|params| serde_json::from_str(params).unwrap())
        .collect()
}

fn tag(before: Option<u64>) -> ReplyTag {
    ReplyTag::SearchPage {
        text: "par".into(),
        before,
    }
}

fn hit(agent: &str, sequence: u64, kind: &str, pieces: &[&str]) -> Value {
    let pieces: Vec<Value> = pieces
        .iter()
        .enumerate()
        .map(|(index, text)| json!({ "text": text, "hit": index == 1 }))
        .collect();
    json!({
        "agent_id": agent, "agent_name": agent, "sequence": sequence, "entry": 0, "turn": 1, "kind": kind,
        "timestamp": "1970-01-01T00:02:00.000000Z", "excerpt": pieces,
    })
}

/// A screen on which somebody searched, before the host answered.
fn searched() -> TestScreen {
    let mut screen = TestScreen::connected(80, 24);
    screen.press("g /");
    assert_eq!(screen.model.focused_kind(), PanelKind::Search);
    let sent = screen.press("p a r Enter");
    assert_eq!(
        calls(&sent, "host.search"),
        [json!({ "text": "par", "limit": 100 })]
    );
    screen
}

/// Parts of a transcript, each with one line.
fn page(sequences: std::ops::RangeInclusive<u64>, first: Option<u64>, more: bool) -> Value {
    let parts = sequences.clone().map(|sequence| {
        json!({
            "sequence": sequence, "turn": 1, "timestamp": "1970-01-01T00:00:00.000000Z",
            "entries": [{ "type": "assistant", "text": format!("line {sequence} of the parser") }],
        })
    });
    let parts: Vec<Value> = parts.collect();
    json!({ "first": first, "more": more, "next": sequences.end(), "parts": parts })
}

fn around() -> ReplyTag {
    ReplyTag::TranscriptAround {
        agent: "builder".into(),
    }
}

fn panel_lines(screen: &mut TestScreen) -> Vec<String> {
    let shown = screen.draw();
    let lines = shown.lines().map(|line| line.trim_matches(['│', ' ']));
    lines.map(str::to_owned).collect()
}

#[test]
fn what_was_found_is_listed_and_escaped() {
    let mut screen = searched();
    assert!(screen.draw().contains("searching"));
    let hits = json!({ "hits": [
        hit("builder", 40, "assistant", &["the ", "parser", " drops\u{202e} it"]),
        hit("docs\u{1b}[2J", 7, "tool_use", &["Bash: ", "par", "ted"]),
    ] });
    assert_eq!(screen.reply(tag(None), &hits), []);
    let shown = panel_lines(&mut screen).join("\n");
    assert!(shown.contains("Search par: 2"), "{shown}");
    assert!(
        shown.contains("1m  builder      | the parser drops\\u{202e} it"),
        "{shown}"
    );
    assert!(
        shown.contains("1m  docs\\u{1b}[… * Bash: parted"),
        "{shown}"
    );
    // The same answer once more adds nothing.
    assert_eq!(screen.reply(tag(None), &hits), []);
    assert_eq!(screen.model.search_rows().len(), 2);
    assert_eq!(screen.reply(tag(Some(9)), &hits), []);
    assert_eq!(screen.model.search_rows().len(), 2);
}

#[test]
fn nothing_found_and_a_refusal_are_said() {
    let mut screen = searched();
    screen.reply(tag(None), &json!({ "hits": [] }));
    assert!(screen.draw().contains("nothing was found"));
    // Begun again with the same words.
    assert_eq!(
        calls(&screen.press("Ctrl-r"), "host.search"),
        [json!({ "text": "par", "limit": 100 })]
    );
    screen.refuse(tag(None), "no\u{1b}[2J", false);
    assert_eq!(screen.notice(), "no\\u{1b}[2J");
    assert!(screen.draw().contains("nothing was found"));
    screen.press("g / Esc");
    assert_eq!(screen.notice(), "nothing was sent; the draft is kept");
}

#[test]
fn older_hits_are_read_on_the_way_down() {
    let mut screen = searched();
    // A page that the host ended early is followed by the next at once.
    let none = json!({ "hits": [], "next": 90 });
    assert_eq!(
        calls(&screen.reply(tag(None), &none), "host.search"),
        [json!({ "text": "par", "limit": 100, "before": 90 })]
    );
    let hits: Vec<Value> = (0..30)
        .map(|n| hit("builder", 89 - n, "user", &["", "par"]))
        .collect();
    screen.reply(tag(Some(90)), &json!({ "hits": hits, "next": 50 }));
    assert!(screen.draw().contains("Search par: 30+"));
    assert_eq!(calls(&screen.press("j"), "host.search"), [Value::Null; 0]);
    assert_eq!(
        calls(&screen.press("G"), "host.search"),
        [json!({ "text": "par", "limit": 100, "before": 50 })]
    );
    assert_eq!(calls(&screen.press("G"), "host.search"), [Value::Null; 0]);
}

#[test]
fn a_hit_in_what_is_known_is_shown_without_reading() {
    let mut screen = TestScreen::connected(80, 24);
    screen.press("g a g t");
    let end = ReplyTag::TranscriptEnd {
        agent: "builder".into(),
    };
    screen.reply(end, &page(1..=90, None, false));
    screen.press("g /");
    screen.press("p a r Enter");
    let found =
        json!({ "hits": [hit("builder", 20, "assistant", &["line 20 of the ", "parser"])] });
    screen.reply(tag(None), &found);
    screen.press("Enter");
    assert_eq!(screen.model.focused_kind(), PanelKind::Transcript);
    assert_eq!(screen.model.transcript_goal, None);
    let lines = panel_lines(&mut screen);
    assert!(
        lines.iter().any(|line| line == "| line 20 of the parser"),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line == "| line 22 of the parser"),
        "{lines:?}"
    );
    assert!(!screen.model.loading.contains("around builder"));
}

#[test]
fn an_old_hit_is_read_with_what_is_around_it() {
    let mut screen = TestScreen::connected(80, 24);
    screen.press("g a g t");
    let end = ReplyTag::TranscriptEnd {
        agent: "builder".into(),
    };
    screen.reply(end.clone(), &page(901..=1_000, Some(901), false));
    screen.press("g /");
    screen.press("p a r Enter");
    let found =
        json!({ "hits": [hit("builder", 150, "assistant", &["line 150 of the ", "parser"])] });
    screen.reply(tag(None), &found);
    screen.press("Enter");
    assert!(screen.model.loading.contains("around builder"));
    // Late answers about the end do not follow what is shown from now on.
    screen.reply(around(), &page(51..=150, Some(51), true));
    let next = ReplyTag::TranscriptNext {
        agent: "builder".into(),
    };
    screen.reply(next, &page(1_001..=1_001, None, false));
    screen.reply(end, &page(901..=1_001, None, false));
    let lines = panel_lines(&mut screen);
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("| line 150 of the parser")),
        "{lines:?}"
    );
    let parts = &screen.model.transcripts["builder"];
    assert_eq!((parts.part_count(), parts.is_window()), (100, true));

    // Further down, page by page, until the end is reached.
    let after = |effects: &[Effect]| calls(effects, "host.transcript");
    assert_eq!(
        after(&screen.press("j")),
        [json!({ "agent_id": "builder", "after": 150, "limit": 100 })]
    );
    let following = ReplyTag::TranscriptAfter {
        agent: "builder".into(),
    };
    screen.reply(following.clone(), &page(151..=250, None, true));
    assert_eq!(after(&screen.press("j")), [Value::Null; 0]);
    let lines = panel_lines(&mut screen);
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("| line 151 of the parser")),
        "{lines:?}"
    );
    assert_eq!(after(&screen.press("G")).len(), 1);
    assert_eq!(
        after(&screen.reply(following, &page(251..=300, None, false))),
        [json!({ "agent_id": "builder", "after": 300, "limit": 100 })]
    );
    let parts = &screen.model.transcripts["builder"];
    assert_eq!((parts.part_count(), parts.is_window()), (250, false));
}

#[test]
fn the_end_is_read_again_when_somebody_follows() {
    let mut screen = searched();
    let found = json!({ "hits": [hit("builder", 150, "assistant", &["", "parser"])] });
    screen.reply(tag(None), &found);
    screen.press("Enter");
    screen.reply(around(), &page(51..=150, Some(51), true));
    screen.draw();
    assert_eq!(
        calls(&screen.press("f"), "host.transcript"),
        [json!({ "agent_id": "builder", "from_end": true, "limit": 100 })]
    );
}

#[test]
fn what_was_erased_meanwhile_is_said() {
    let mut screen = searched();
    let gone = json!({ "hits": [
        hit("nobody", 160, "user", &["", "par"]),
        hit("builder", 150, "user", &["", "par"]),
    ] });
    screen.reply(tag(None), &gone);
    screen.press("Enter");
    assert_eq!(
        screen.notice(),
        "the agent that this is about is not there any more"
    );
    assert_eq!(screen.model.focused_kind(), PanelKind::Search);
    screen.press("j Enter");
    screen.reply(around(), &page(1..=20, None, true));
    assert_eq!(
        screen.notice(),
        "that part of the transcript is not there any more"
    );
    assert_eq!(screen.model.transcript_goal, None);
}
