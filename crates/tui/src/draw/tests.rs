//! Pictures, compared whole, at four sizes and in four styles; and hostile text in every panel.

mod files;

use std::fmt::Write as _;

use countersign_protocol::{HostApproval, HostAskView, HostQuestion};
use insta::assert_snapshot;

use ratatui::buffer::Buffer;
use serde_json::json;

use super::buffer_text;
use crate::glyphs::{ASCII, UNICODE};
use crate::host_call::ReplyTag;
use crate::message::Message;
use crate::test_rows;
use crate::test_screen::{TestScreen, event};
use crate::theme::{Background, ColorDepth};

fn ask_with_rules() -> HostApproval {
    HostApproval {
        verdict: Some(test_rows::verdict()),
        ..test_rows::approval()
    }
}

/// A screen with an ask, a question, two agents and a transcript.
fn home(mut screen: TestScreen) -> TestScreen {
    screen.connect(vec![ask_with_rules()]);
    screen.draw();
    screen.fill_transcript(&[
        "The test fails because the parser drops the last line.",
        "I run it again.",
    ]);
    screen.wait(1_000);
    screen
}

#[test]
fn home_at_four_sizes() {
    for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        let mut screen = home(TestScreen::new(width, height));
        assert_snapshot!(format!("home_{width}x{height}"), screen.draw());
    }
}

/// The cells with their styles: one line for each run of a style.
pub(super) fn styles_of(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut runs: Vec<(String, String)> = Vec::new();
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            let style = format!("{:?} {:?}", cell.fg, cell.modifier);
            match runs.last_mut() {
                Some((known, run)) if *known == style => run.push_str(cell.symbol()),
                _ => runs.push((style, cell.symbol().to_owned())),
            }
        }
        for (style, run) in runs.iter().filter(|(_, run)| !run.trim().is_empty()) {
            let _ = writeln!(text, "{y:>2} {style}: {}", run.trim_end());
        }
    }
    text
}

#[test]
fn home_in_four_styles() {
    let styles = [
        ("dark", &UNICODE, Background::Dark, ColorDepth::Full),
        ("light", &UNICODE, Background::Light, ColorDepth::Full),
        (
            "sixteen_colours",
            &UNICODE,
            Background::Dark,
            ColorDepth::Sixteen,
        ),
        ("no_colour", &ASCII, Background::Dark, ColorDepth::None),
    ];
    for (name, glyphs, background, depth) in styles {
        let screen = TestScreen::styled(80, 24, glyphs, background, depth);
        let mut screen = home(screen);
        screen.press("g s");
        screen.wait(600);
        assert_snapshot!(format!("style_{name}"), styles_of(&screen.cells()));
    }
}

#[test]
fn ascii_has_no_other_characters() {
    let mut screen = home(TestScreen::styled(
        80,
        24,
        &ASCII,
        Background::Dark,
        ColorDepth::None,
    ));
    for keys in ["g s", "a", "n", "g a", "g t", "?", "Esc", ":", "Esc"] {
        screen.press(keys);
        let shown = screen.draw();
        assert!(shown.is_ascii(), "{keys}: {shown}");
        screen.wait(600);
    }
}

#[test]
fn the_question_for_the_second_key_says_when_it_counts() {
    let mut screen = home(TestScreen::new(100, 24));
    screen.press("g s");
    screen.wait(600);
    screen.press("a");
    screen.wait(100);
    let early = screen.draw();
    assert!(
        early.contains("allow once?  y yes  n no ▮▯▯▯ not yet"),
        "{early}"
    );
    screen.wait(150);
    let ready = screen.draw();
    assert!(
        ready.contains("allow once?  y yes  n no   Bash: cargo test --workspace"),
        "{ready}"
    );
}

#[test]
fn remember_shows_rules_limits_and_the_back_test() {
    let mut screen = home(TestScreen::new(100, 32));
    screen.press("g s");
    screen.wait(600);
    screen.press("s");
    let id = test_rows::approval().id;
    let candidates = json!({ "candidates": [
        { "note": "this command", "part": 0, "rule": "Bash(cargo test --workspace)" },
        { "note": "wider", "part": 0, "rule": "Bash(cargo test:*)" },
    ] });
    screen.reply(
        ReplyTag::Suggested {
            id: id.clone(),
            option: "approve".into(),
        },
        &candidates,
    );
    let tested = json!({
        "agreed": 41, "already_settled_by_rules": 0, "contradicted": [], "examined": 60, "settled": 41,
        "skipped_by_others": 0, "would_settle": ["a", "b"],
    });
    screen.reply(
        ReplyTag::Backtested {
            id,
            rule: "Bash(cargo test:*)".into(),
        },
        &tested,
    );
    assert_snapshot!("remember", screen.draw());
}

#[test]
fn palette_keys_and_text_box() {
    let mut screen = home(TestScreen::new(100, 24));
    screen.press(": k i l l");
    assert_snapshot!("palette", screen.draw());
    screen.press("Esc g s ?");
    assert_snapshot!("keys", screen.draw());
    screen.press("Esc");
    screen.wait(600);
    screen.press("m n o t Space o n Space F r i d a y s");
    assert_snapshot!("text_box", screen.draw());
}

#[test]
fn what_follows_a_prefix_is_shown_after_a_while() {
    let mut screen = home(TestScreen::new(100, 24));
    screen.press("g");
    assert!(!screen.draw().contains("to the top"));
    screen.wait(500);
    let shown = screen.draw();
    assert!(shown.contains("     g  to the top"), "{shown}");
    assert!(shown.contains("     a  agents"), "{shown}");
}

#[test]
fn trouble_stands_in_the_top_lines_whatever_the_layout() {
    let mut screen = home(TestScreen::new(120, 30));
    screen.model.host.warnings.store_error = Some("the disk is full".into());
    screen.model.host.warnings.bypassed = vec![countersign_protocol::BypassRow {
        agent_id: "docs".into(),
        name: "docs".into(),
        until: countersign_protocol::Time(901_000_000),
    }];
    screen.press("Ctrl-g z");
    let shown = screen.draw();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[..2],
        [
            " countersign  1 ask  1 question  oldest 3m  BYPASS docs 12m                                      2 agents $0.84  ● live",
            " THE RECORD CANNOT BE WRITTEN: the disk is full",
        ]
    );
    screen.send(Message::Lost);
    screen.wait(12_000);
    let shown = screen.draw();
    assert!(
        shown
            .lines()
            .next()
            .unwrap()
            .ends_with("HOST LOST 12s, looking for it"),
        "{shown}"
    );
}

/// An agent may propose a layout, and somebody else chose the names of folders.
#[test]
fn long_names_do_not_push_what_waits_out_of_the_top_line() {
    for width in [60, 80, 120, 200] {
        let mut screen = home(TestScreen::new(width, 30));
        screen.model.host.warnings.bypassed = vec![countersign_protocol::BypassRow {
            agent_id: "docs".into(),
            name: "docs".into(),
            until: countersign_protocol::Time(901_000_000),
        }];
        screen.model.project = Some(format!("/srv/{}", "x".repeat(300)));
        let tabs = &mut screen.model.workspace.layout.tabs;
        tabs[0].title = "all quiet ".repeat(30);
        tabs.push(tabs[0].clone());
        let shown = screen.draw();
        let top = shown.lines().next().unwrap_or_default();
        assert!(top.contains("  1 ask"), "{width}: {top}");
        assert!(
            width < 120 || top.contains("BYPASS docs 12m"),
            "{width}: {top}"
        );
    }
}

/// Texts that try to hide, move, obey or overflow.
const HOSTILE: [&str; 8] = [
    "\u{1b}[2J\u{1b}]0;owned\u{7}",
    "a\u{202e}b\u{2066}c",
    "zero\u{200b}width\u{feff}",
    "tab\tand\rreturn",
    "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    "日本語日本語日本語日本語日本語日本語日本語日本語日本語",
    "│ allow once?  y yes ──────────────────────────────",
    "line\nline\nline",
];

#[test]
fn hostile_text_stays_text_in_every_panel() {
    let evil = HOSTILE.join(" ");
    for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        let mut screen = TestScreen::new(width, height);
        let row = HostApproval {
            action: evil.clone(),
            agent_name: Some(evil.clone()),
            tool: Some(evil.clone()),
            cwd: Some(evil.clone()),
            view: Some(HostAskView {
                // A host that forgot to escape.
                summary: evil.clone(),
                command: Some(evil.repeat(20)),
                title: Some(evil.clone()),
                warnings: vec![evil.clone()],
                ..HostAskView::default()
            }),
            ..ask_with_rules()
        };
        screen.connect(vec![row]);
        let mut bad = crate::test_screen::agent("builder", "awaiting_permission");
        bad.name.clone_from(&evil);
        screen.model.host.update_agent(bad);
        let question = HostQuestion {
            question: evil.clone(),
            ..test_rows::question()
        };
        screen.send(Message::Event(Box::new(event(
            "question.asked",
            &serde_json::to_value(question).unwrap(),
        ))));
        screen.draw();
        screen.fill_transcript(&HOSTILE);
        fill_other_panels(&mut screen, &evil);
        for keys in [
            "g i",
            "g s",
            "i",
            "g a",
            "g t",
            "z o",
            "?",
            "Esc",
            ":",
            "Esc",
            "g a X",
            "n",
            "g f",
            "v",
            "g h",
            "g r",
            "g u",
            "g c",
            "g a D",
            "c x Enter",
        ] {
            screen.press(keys);
            let cells = screen.cells();
            assert_eq!(cells.area.height, height);
            for cell in cells.content() {
                let symbol = cell.symbol();
                assert_eq!(
                    countersign_core::hidden_count(&symbol.replace(['\u{27e8}', '\u{27e9}'], "")),
                    0,
                    "{symbol:?}"
                );
            }
            let first = buffer_text(&cells);
            assert!(first.starts_with(" countersign"), "{first}");
        }
    }
}

#[test]
fn the_end_of_a_hostile_ask_can_be_reached() {
    let mut screen = TestScreen::new(60, 16);
    screen.connect(vec![test_rows::bash(&"日本語 ".repeat(2_000))]);
    screen.press("g s");
    for _ in 0..200 {
        screen.press("PgDn");
    }
    assert!(screen.model.ask.guard.is_seen());
    assert!(
        screen.draw().contains("folded     digest, history"),
        "{}",
        screen.draw()
    );
}

/// Changes, events and rules with a text in every place that others write.
fn fill_other_panels(screen: &mut TestScreen, evil: &str) {
    let diff = json!({ "text": "", "truncated": false, "files": [{
        "path": evil, "status": evil, "added": 1, "removed": 0, "hunks": [{
            "header": evil, "old_start": 1, "new_start": 1, "lines": [{ "kind": "added", "text": evil }],
        }],
    }] });
    screen.reply(
        ReplyTag::Diff {
            agent: "builder".into(),
        },
        &diff,
    );
    let events = json!([{
        "id": "e", "kind": "agent.exited", "message": evil, "agent_name": evil, "payload": null, "sequence": 3,
        "timestamp": "1970-01-01T00:00:00.000000Z",
    }]);
    screen.reply(ReplyTag::FeedPage, &events);
    let mut grant = test_rows::grant();
    grant.rule = evil.to_owned();
    let rules = json!({
        "files": [{ "counts": false, "effect": "allow", "rule": evil, "source": evil, "line": 1 }],
        "grants": [grant], "problems": [], "untrusted": [evil],
    });
    screen.reply(ReplyTag::Rules, &rules);
}

#[test]
fn changes_with_a_comment() {
    let mut screen = home(TestScreen::new(100, 24));
    let diff = json!({ "text": "", "truncated": false, "files": [
        { "path": "src/parse.rs", "status": "modified", "added": 1, "removed": 1, "hunks": [{
            "digest": "d1", "header": "fn last_line", "old_start": 40, "new_start": 40, "lines": [
                { "kind": "context", "text": "let rest = text;" },
                { "kind": "removed", "text": "rest.split('\\n')" },
                { "kind": "added", "text": "rest.split_inclusive('\\n')" },
            ],
        }] },
        { "path": "CHANGELOG.md", "status": "added", "added": 1, "removed": 0, "hunks": [] },
    ] });
    screen.press("g a");
    screen.press("D");
    screen.reply(
        ReplyTag::Diff {
            agent: "builder".into(),
        },
        &diff,
    );
    screen.press("j j j j c w h y Enter");
    assert_snapshot!("diff", screen.draw());
    let effects = screen.press("S");
    assert_eq!(effects, []);
    screen.wait(300);
    let effects = screen.press("y");
    assert!(
        matches!(&effects[..], [crate::message::Effect::Call(call)] if call.params.contains("src/parse.rs, line 41")),
        "{effects:?}"
    );
}

#[test]
fn feed_history_rules_and_usage() {
    let mut screen = home(TestScreen::new(100, 16));
    let events = json!([
        { "id": "b", "kind": "agent.exited", "message": "docs ended", "agent_name": "docs", "payload": null,
          "sequence": 9, "timestamp": "1970-01-01T00:02:00.000000Z" },
        { "id": "a", "kind": "turn.ended", "message": "turn 1 ended", "agent_name": "builder", "payload": null,
          "sequence": 8, "timestamp": "1970-01-01T00:01:00.000000Z" },
    ]);
    screen.press("g f");
    screen.reply(ReplyTag::FeedPage, &events);
    assert_snapshot!("feed", screen.draw());
    screen.press("g h");
    assert_snapshot!("history", screen.draw());
    screen.press("g r");
    let rules = json!({
        "files": [{ "counts": true, "effect": "deny", "rule": "Bash(rm -rf:*)", "source": "/u/rules.toml", "line": 9 }],
        "grants": [test_rows::grant()], "problems": [], "untrusted": [],
    });
    screen.reply(ReplyTag::Rules, &rules);
    assert_snapshot!("rules", screen.draw());
    screen.press("g u");
    assert_snapshot!("usage", screen.draw());
}
