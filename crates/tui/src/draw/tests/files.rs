//! The panels about files, at four sizes and in four styles, and with hostile text in every place that others write.

use std::fmt::Write as _;

use countersign_protocol::{HostApproval, Time};
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::super::buffer_text;
use super::{HOSTILE, ask_with_rules, styles_of};
use crate::agent_files::AgentFile;
use crate::glyphs::{ASCII, UNICODE};
use crate::host_call::{FileReply, ReplyTag};
use crate::layout::PanelKind;
use crate::message::{KeptNotes, Message};
use crate::test_screen::TestScreen;
use crate::theme::{Background, ColorDepth};

const PANELS: [(&str, PanelKind); 5] = [
    ("files", PanelKind::Files),
    ("viewer", PanelKind::Viewer),
    ("editor", PanelKind::Editor),
    ("tail", PanelKind::Tail),
    ("notes", PanelKind::Notes),
];

/// What is in the files that a screen shows.
struct FileTexts<'t> {
    name: &'t str,
    text: &'t str,
}

const GUIDE: FileTexts<'static> = FileTexts {
    name: "guide.md",
    text: "# Guide\n\nRun *the tests* first:\n\n```sh\ncargo test --workspace\n```\n\n- one\n- two, see [docs](https://docs.example)\n",
};

fn page(path: &str, text: &str) -> Value {
    json!({
        "content": text, "digest": "d", "form": "text", "from": 0, "next": text.len(), "path": path, "size": text.len(),
    })
}

/// A screen whose focused panel is of this kind, filled.
fn filled(mut screen: TestScreen, kind: PanelKind, texts: &FileTexts<'_>) -> TestScreen {
    screen.connect(vec![ask_with_rules()]);
    screen.draw();
    let file = AgentFile {
        agent: "builder".into(),
        path: texts.name.into(),
    };
    screen.press("g o");
    let modified = Time(1_000_000);
    let listed = json!({ "folder": "/srv/app", "more": true, "path": "", "entries": [
        { "name": "src", "kind": "folder", "modified_at": modified },
        { "name": texts.name, "kind": "file", "bytes": 120, "modified_at": modified },
        { "name": "latest", "kind": "link" }, { "name": "pipe", "kind": "other" },
    ] });
    let tag = FileReply::Folder {
        agent: "builder".into(),
        path: String::new(),
    };
    screen.reply(ReplyTag::File(tag), &listed);
    screen.press("j");
    let (key, tag) = match kind {
        PanelKind::Viewer => ("Enter", FileReply::View { file, offset: 0 }),
        PanelKind::Editor => ("e", FileReply::Edit { file }),
        PanelKind::Tail => ("t", FileReply::Tail { file, after: None }),
        PanelKind::Notes => {
            screen.press("g n");
            screen.send(Message::Notes(Ok(KeptNotes {
                folder: "/srv/app".into(),
                text: texts.text.into(),
            })));
            screen.draw();
            return screen;
        }
        _ => return screen,
    };
    screen.press(key);
    screen.reply(ReplyTag::File(tag), &page(texts.name, texts.text));
    screen.draw();
    screen
}

#[test]
fn files_at_four_sizes() {
    for (name, kind) in PANELS {
        let mut shown = String::new();
        for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            let mut screen = filled(TestScreen::new(width, height), kind, &GUIDE);
            let _ = writeln!(shown, "{width}x{height}\n{}", screen.draw());
        }
        assert_snapshot!(format!("{name}_sizes"), shown);
    }
}

#[test]
fn files_in_four_styles() {
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
    for (style, glyphs, background, depth) in styles {
        let mut shown = String::new();
        for (name, kind) in PANELS {
            let screen = TestScreen::styled(60, 16, glyphs, background, depth);
            let mut screen = filled(screen, kind, &GUIDE);
            let cells = screen.cells();
            if depth == ColorDepth::None {
                let text = buffer_text(&cells);
                assert!(text.is_ascii(), "{text}");
            }
            let _ = writeln!(shown, "{name}\n{}", styles_of(&cells));
        }
        assert_snapshot!(format!("files_{style}"), shown);
    }
}

#[test]
fn hostile_files_stay_text() {
    let evil = HOSTILE.join(" ");
    let text = format!(
        "{}\n# {evil}\n```\n{evil}\n```\n> [{evil}]({evil})\n",
        HOSTILE.join("\n")
    );
    for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        for (_, kind) in PANELS {
            for ending in ["", ".md"] {
                let name = format!("{evil}{ending}");
                let texts = FileTexts {
                    name: &name,
                    text: &text,
                };
                let mut screen = filled(TestScreen::new(width, height), kind, &texts);
                for keys in [
                    "g g", "i", "PgDn x", "Esc", "G", "v", "Ctrl-g f", "z o", "Esc",
                ] {
                    screen.press(keys);
                    check_cells(&mut screen);
                }
            }
        }
    }
}

fn check_cells(screen: &mut TestScreen) {
    let cells = screen.cells();
    for cell in cells.content() {
        let symbol = cell.symbol().replace(['\u{27e8}', '\u{27e9}'], "");
        assert_eq!(countersign_core::hidden_count(&symbol), 0, "{symbol:?}");
    }
    let first = buffer_text(&cells);
    assert!(first.starts_with(" countersign"), "{first}");
}

#[test]
fn an_ask_beside_a_file_keeps_the_focus_where_it_is() {
    let mut screen = filled(TestScreen::new(120, 40), PanelKind::Viewer, &GUIDE);
    let row = HostApproval {
        id: "other".into(),
        ..ask_with_rules()
    };
    screen.connect(vec![ask_with_rules(), row]);
    screen.draw();
    assert_eq!(screen.model.focused_kind(), PanelKind::Viewer);
    assert!(screen.draw().contains("2 asks"), "{}", screen.draw());
}
