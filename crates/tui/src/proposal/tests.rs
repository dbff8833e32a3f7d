//! What is taken and what is refused.

use ratatui::style::Color;
use serde_json::json;

use super::*;
use crate::glyphs::ASCII;
use crate::message::{Message, ProposedView, SettingsFiles};
use crate::test_rows;
use crate::test_screen::TestScreen;
use crate::theme::{Background, ColorDepth};

const LAYOUT: &str = "[[tab]]\ntitle = \"One\"\nroot = { panel = \"inbox\" }\n";

fn parse(tool: &str, input: &serde_json::Value) -> Result<Proposal, String> {
    Proposal::parse(&format!("mcp__countersign__{tool}"), &input.to_string())
}

#[test]
fn a_proposal_says_what_it_changes_and_marks_its_file() {
    let shown = parse(
        "propose_layout",
        &json!({ "name": "mine", "layout": LAYOUT }),
    )
    .unwrap();
    assert_eq!(shown.describe(), "show and save the layout mine");
    let text = shown.file_text().unwrap();
    assert!(was_proposed(&text) && is_shown_at_once(&text));
    let kept = parse("save_layout", &json!({ "name": "mine", "layout": LAYOUT })).unwrap();
    assert_eq!(kept.describe(), "save the layout mine");
    let text = kept.file_text().unwrap();
    assert!(was_proposed(&text) && !is_shown_at_once(&text));
    assert!(!was_proposed(LAYOUT));
    let theme =
        json!({ "name": "sea", "theme": "ask = { light = \"#8a4b00\", dark = \"#e8b86d\" }" });
    let theme = parse("propose_theme", &theme).unwrap();
    assert_eq!(theme.describe(), "use and save the theme sea");
    let key = json!({ "command": "go.feed", "keys": ["Ctrl-x f"] });
    let key = parse("propose_key_binding", &key).unwrap();
    assert_eq!(key.describe(), "bind Ctrl-x f to go.feed");
    assert_eq!(key.file_text(), None);
}

#[test]
fn a_name_is_no_path_and_nothing_that_comes_with_the_program() {
    let long = "a".repeat(41);
    for name in [
        "",
        "..",
        "../keys",
        "/etc/passwd",
        "a/b",
        ".hidden",
        "a.toml",
        "a\0b",
        "a\nb",
        "\u{202e}evil",
        "café",
        long.as_str(),
    ] {
        for tool in ["propose_layout", "save_layout"] {
            let refused = parse(tool, &json!({ "name": name, "layout": LAYOUT })).unwrap_err();
            assert_eq!(
                refused, "a name has 1 to 40 letters, digits, - and _",
                "{name:?}"
            );
        }
    }
    let refused = parse("save_layout", &json!({ "name": "home", "layout": LAYOUT })).unwrap_err();
    assert_eq!(
        refused,
        "`home` comes with the program: choose another name"
    );
    let refused = parse("propose_theme", &json!({ "name": "quiet", "theme": "" })).unwrap_err();
    assert_eq!(
        refused,
        "`quiet` comes with the program: choose another name"
    );
}

#[test]
fn text_that_could_hide_something_is_refused() {
    let theme =
        |text: &str| parse("propose_theme", &json!({ "name": "sea", "theme": text })).unwrap_err();
    assert_eq!(
        theme("warn = { light = \"#fdfdfd\", dark = \"#ffffff\" }"),
        "warn, light: the contrast of #FDFDFD is 1.0, below 4.5"
    );
    assert_eq!(
        theme("text = { light = \"default\", dark = \"#000000\" }"),
        "text, dark: the contrast of #000000 is 1.0, below 4.5"
    );
    assert_eq!(
        theme("text = \"black\""),
        "text, light: use #rrggbb or `default`"
    );
    let large = "#".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(theme(&large), "the text is longer than 16384 bytes");
}

#[test]
fn keys_that_decide_stay_as_they_are() {
    let refused = |command: &str, key: &str| {
        parse(
            "propose_key_binding",
            &json!({ "command": command, "keys": [key] }),
        )
        .unwrap_err()
    };
    assert_eq!(
        refused("ask.approve", "Ctrl-x"),
        "the keys of `ask.approve` can be changed by a person alone"
    );
    assert_eq!(
        refused("go.feed", "y"),
        "`y` can be changed by a person alone"
    );
    assert_eq!(
        refused("go.feed", "a"),
        "`a` can be changed by a person alone"
    );
    assert_eq!(
        refused("go.feed", "Alt-h"),
        "`Alt-h` is a key of both `focus.left` and `go.feed`"
    );
    assert_eq!(refused("go.feed", "nonsense"), "`nonsense` is not a key");
    assert_eq!(
        refused("quit\u{1b}[2J", "x"),
        "there is no such command: `countersign keys` prints all of them"
    );
}

#[test]
fn unknown_fields_and_other_tools_are_refused() {
    let extra = json!({ "name": "mine", "layout": LAYOUT, "path": "/etc" });
    assert!(
        parse("save_layout", &extra)
            .unwrap_err()
            .starts_with("unknown field `path`")
    );
    assert!(parse("spawn_agent", &json!({})).is_err());
    assert!(Proposal::parse("save_layout", "{}").is_err());
}

/// An ask that proposes something, as the host sends it.
fn asked(tool: &str, input: &serde_json::Value) -> countersign_protocol::HostApproval {
    let text = input.to_string();
    countersign_protocol::HostApproval {
        action: "proposes".into(),
        tool: Some(format!("mcp__countersign__{tool}")),
        input: Some(test_rows::raw(&text)),
        view: Some(countersign_protocol::HostAskView {
            summary: "proposes".into(),
            input_text: Some(text),
            ..countersign_protocol::HostAskView::default()
        }),
        ..test_rows::approval()
    }
}

const REVIEW: &str = r#"[[tab]]
title = "Review"
root = { split = "right", parts = [
  { panel = "inbox", id = "in", size = "35%" },
  { split = "down", parts = [
    { panel = "ask", size = "60%" },
    { stack = [{ panel = "transcript", agent = "fix" }, { panel = "feed" }] } ] } ] }
"#;

fn proposals() -> [(&'static str, serde_json::Value); 3] {
    let theme = "ask = { light = \"#7a4b01\", dark = \"#e8b86e\" }\ntext = \"default\"\n";
    [
        (
            "propose_layout",
            json!({ "name": "mine", "layout": REVIEW }),
        ),
        ("propose_theme", json!({ "name": "sea", "theme": theme })),
        (
            "propose_key_binding",
            json!({ "command": "go.feed", "keys": ["Ctrl-x"] }),
        ),
    ]
}

#[test]
fn the_title_of_a_tab_is_short_and_plain() {
    let titled = |title: &str| {
        let title = serde_json::Value::from(title);
        let layout = format!("[[tab]]\ntitle = {title}\nroot = {{ panel = \"inbox\" }}\n");
        let input = json!({ "name": "mine", "layout": layout }).to_string();
        Proposal::parse("mcp__countersign__propose_layout", &input)
    };
    for title in ["One", "Zwölf Blätter", "a-b_c 2"] {
        assert!(titled(title).is_ok(), "{title}");
    }
    for title in [
        "",
        "x]  0 asks  [y",
        "all quiet, nothing to do at all",
        "a\u{202e}b",
    ] {
        assert!(titled(title).is_err(), "{title}");
    }
}

#[test]
fn a_proposal_is_drawn_in_its_ask() {
    for (tool, input) in proposals() {
        for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            let mut screen = TestScreen::new(width, height);
            screen.connect(vec![asked(tool, &input)]);
            screen.press("g s Enter");
            insta::assert_snapshot!(format!("{tool}_{width}x{height}"), screen.draw());
        }
    }
}

#[test]
fn a_proposal_in_ascii_has_no_other_characters_and_samples_have_their_colours() {
    for (tool, input) in proposals() {
        let mut screen = TestScreen::styled(100, 50, &ASCII, Background::Dark, ColorDepth::None);
        screen.connect(vec![asked(tool, &input)]);
        screen.press("g s Enter");
        let shown = screen.draw();
        assert!(shown.is_ascii(), "{shown}");
    }
    for (background, wanted) in [
        (Background::Light, Color::Rgb(0x7a, 0x4b, 1)),
        (Background::Dark, Color::Rgb(0xe8, 0xb8, 0x6e)),
    ] {
        let (tool, input) = &proposals()[1];
        let mut screen = TestScreen::styled(
            100,
            50,
            &crate::glyphs::UNICODE,
            background,
            ColorDepth::Full,
        );
        screen.connect(vec![asked(tool, input)]);
        screen.press("g s Enter");
        let cells = screen.cells();
        let found = cells
            .content()
            .iter()
            .filter(|cell| cell.fg == wanted && cell.symbol() != " ");
        assert_eq!(found.count(), "sampletext".len(), "{background:?}");
    }
}

#[test]
fn hostile_proposals_stay_text_and_say_why_they_would_be_refused() {
    let evil = "\u{1b}[2J\u{202e}\u{200b}\"\n";
    let layout = format!(
        "[[tab]]\ntitle = {}\nroot = {{ panel = \"inbox\" }}\n",
        json!("a\u{202e}b")
    );
    for (tool, input, says) in [
        (
            "propose_layout",
            json!({ "name": evil, "layout": LAYOUT }),
            "it would be refused",
        ),
        (
            "propose_layout",
            json!({ "name": "a", "layout": evil }),
            "it would be refused",
        ),
        (
            "propose_layout",
            json!({ "name": "a", "layout": layout }),
            "the title of a tab",
        ),
        (
            "propose_theme",
            json!({ "name": "a", "theme": evil }),
            "it would be refused",
        ),
        (
            "propose_key_binding",
            json!({ "command": evil, "keys": [evil] }),
            "it would be refused",
        ),
        ("propose_key_binding", json!([]), "it would be refused"),
    ] {
        let mut screen = TestScreen::new(100, 50);
        screen.connect(vec![asked(tool, &input)]);
        screen.press("g s Enter");
        let shown = screen.draw();
        assert!(shown.contains(says), "{tool} {input}: {shown}");
        assert_eq!(
            countersign_core::hidden_count(&shown.replace('\n', "")),
            0,
            "{shown}"
        );
    }
}

#[test]
fn a_proposal_is_read_to_its_end_before_it_can_be_allowed() {
    let (tool, input) = &proposals()[0];
    let mut screen = TestScreen::new(80, 24);
    screen.connect(vec![asked(tool, input)]);
    screen.press("g s");
    screen.wait(1_000);
    screen.draw();
    assert!(
        !screen.model.ask.guard.is_seen(),
        "the picture is part of the ask"
    );
}

#[test]
fn an_allowed_layout_is_shown_once_nobody_types() {
    let layout = parse_layout("mine", REVIEW).unwrap();
    let files = || SettingsFiles {
        layouts: vec![layout.clone()],
        proposed: vec![ProposedView::Layout("mine".into())],
        shown: vec![ProposedView::Layout("mine".into())],
        ..SettingsFiles::default()
    };
    let mut screen = TestScreen::connected(120, 40);
    screen.wait(5_000);
    screen.press("g s");
    screen.send(Message::Settings(Box::new(files())));
    assert_eq!(
        screen.model.workspace.layout.name, "home",
        "a key was typed just now"
    );
    screen.wait(1_999);
    screen.send(Message::Tick);
    assert_eq!(screen.model.workspace.layout.name, "home");
    screen.wait(1);
    screen.press("r");
    screen.wait(3_000);
    if screen.model.overlay.is_some() {
        screen.send(Message::Tick);
        assert_eq!(
            screen.model.workspace.layout.name, "home",
            "a text is being written"
        );
        screen.press("Esc");
        screen.wait(3_000);
    }
    screen.send(Message::Tick);
    assert_eq!(screen.model.workspace.layout.name, "mine");
    assert_eq!(
        screen.notice(),
        "this is the layout mine, which an agent proposed"
    );
}

#[test]
fn the_layout_that_is_shown_does_not_change_between_two_keys() {
    let mut screen = TestScreen::connected(120, 40);
    let before = parse_layout("mine", REVIEW).unwrap();
    screen.model.workspace.take_layout(before.clone());
    let after = parse_layout("mine", LAYOUT).unwrap();
    let files = SettingsFiles {
        layouts: vec![after.clone()],
        proposed: vec![ProposedView::Layout("mine".into())],
        ..SettingsFiles::default()
    };
    screen.wait(5_000);
    screen.press("g s");
    screen.send(Message::Settings(Box::new(files)));
    assert_eq!(screen.model.workspace.layout, before);
    screen.wait(2_000);
    screen.send(Message::Tick);
    assert_eq!(screen.model.workspace.layout, after);
}
