//! What a command of the person's printed.

use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::command_panel::{CommandEnd, CommandPanel};
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::theme::Role;

use super::terminals::draw_cells;

fn name(spec: &PanelSpec) -> &str {
    spec.name.as_deref().unwrap_or_default()
}

pub(super) fn title(spec: &PanelSpec) -> String {
    escape::line(name(spec)).into_owned()
}

pub(super) fn draw(model: &Model, spec: &PanelSpec, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(panel) = model.commands.get(name(spec)) else {
        let text = format!("  there is no tui/panels/{}.toml", escape::line(name(spec)));
        canvas.put_shown(area.x, area.y, area.width, &text, Role::Dim);
        return;
    };
    canvas.put_line(area, &heading(model, panel));
    let below = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    if let Some(screen) = panel.screen() {
        let last = panel.line_count().saturating_sub(below.height);
        let scroll = u16::try_from(model.view(&spec.id).scroll).unwrap_or(u16::MAX);
        draw_cells(screen, scroll.min(last), below, canvas);
    }
}

/// How the command goes, and how often it runs.
fn heading(model: &Model, panel: &CommandPanel) -> TextLine {
    let (text, role) = match &panel.ended {
        None => ("running".to_owned(), Role::Strong),
        Some((_, CommandEnd::Exit(0))) => ("done".to_owned(), Role::Good),
        Some((_, CommandEnd::Exit(code))) => (format!("exit {code}"), Role::Bad),
        Some((_, CommandEnd::Signal(signal))) => (format!("ended by signal {signal}"), Role::Bad),
        Some((_, CommandEnd::TimedOut)) => (
            format!(
                "ended after {}s: it took too long",
                panel.spec.timeout_ms / 1_000
            ),
            Role::Bad,
        ),
        Some((_, CommandEnd::PrintedTooMuch)) => {
            ("ended: it printed too much".to_owned(), Role::Bad)
        }
        Some((_, CommandEnd::Failed(why))) => (escape::line(why).into_owned(), Role::Bad),
    };
    let mut line = TextLine::shown(format!(" {text}"), role);
    if let Some((at, _)) = &panel.ended {
        let age = model.now.ms.saturating_sub(*at) / 1_000;
        let every = panel.spec.every_ms / 1_000;
        line.push_shown(format!("  {age}s ago, every {every}s  "), Role::Dim);
    } else {
        line.push("  ", Role::Dim);
    }
    line.push(EscapedText::line(&panel.spec.command.join(" ")), Role::Dim);
    line
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::command_panel::{CommandEnd, parse_command_panel};
    use crate::glyphs::{ASCII, UNICODE};
    use crate::message::{Effect, Message, SettingsFiles};
    use crate::test_screen::TestScreen;
    use crate::theme::{Background, ColorDepth};

    const FILE: &str = "command = [\"df\", \"-h\"]\nevery_seconds = 5\n";

    /// With the panel open, and its command run once.
    fn with_panel(mut screen: TestScreen, output: &[u8], end: CommandEnd) -> TestScreen {
        screen.connect(Vec::new());
        let files = SettingsFiles {
            commands: vec![parse_command_panel("disk", FILE).unwrap()],
            ..SettingsFiles::default()
        };
        screen.send(Message::Settings(Box::new(files)));
        screen.press("g p");
        screen.send(Message::CommandEnded {
            name: "disk".into(),
            output: output.to_vec(),
            end,
        });
        screen.wait(2_000);
        screen
    }

    const OUTPUT: &[u8] = b"\x1b[1mFilesystem  Use%\x1b[0m\n/dev/vda     \x1b[31m97%\x1b[0m\n";

    #[test]
    fn a_command_is_shown_at_four_sizes() {
        for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            let screen = TestScreen::new(width, height);
            let mut screen = with_panel(screen, OUTPUT, CommandEnd::Exit(0));
            assert_snapshot!(format!("command_{width}x{height}"), screen.draw());
        }
    }

    #[test]
    fn a_command_in_four_styles() {
        for (name, glyphs, background, depth) in [
            ("dark", &UNICODE, Background::Dark, ColorDepth::Full),
            ("light", &UNICODE, Background::Light, ColorDepth::Full),
            ("sixteen", &UNICODE, Background::Dark, ColorDepth::Sixteen),
            ("no_colour", &ASCII, Background::Dark, ColorDepth::None),
        ] {
            let screen = TestScreen::styled(60, 12, glyphs, background, depth);
            let mut screen = with_panel(screen, OUTPUT, CommandEnd::Exit(3));
            let cells = screen.cells();
            assert_snapshot!(
                format!("command_{name}"),
                crate::draw::tests::styles_of(&cells)
            );
            let is_ascii = crate::draw::buffer_text(&cells).is_ascii();
            assert_eq!(is_ascii, name == "no_colour", "{name}");
        }
    }

    #[test]
    fn it_runs_only_while_its_panel_is_on_the_screen() {
        let mut screen = with_panel(TestScreen::new(120, 40), OUTPUT, CommandEnd::Exit(0));
        let runs = |effects: &[Effect]| {
            effects
                .iter()
                .filter(|effect| matches!(effect, Effect::RunCommand(_)))
                .count()
        };
        screen.draw();
        assert_eq!(
            runs(&screen.send(Message::Tick)),
            0,
            "5 seconds are not over"
        );
        screen.wait(5_000);
        assert_eq!(runs(&screen.send(Message::Tick)), 1);
        screen.send(Message::CommandEnded {
            name: "disk".into(),
            output: Vec::new(),
            end: CommandEnd::TimedOut,
        });
        assert!(screen.draw().contains("ended after 10s: it took too long"));
        screen.press("g i");
        screen.wait(60_000);
        assert_eq!(runs(&screen.send(Message::Tick)), 0);
        screen.press("g p");
        screen.send(Message::CommandEnded {
            name: "disk".into(),
            output: Vec::new(),
            end: CommandEnd::Failed("no such program".into()),
        });
        assert!(screen.draw().contains("no such program"));
        assert_eq!(runs(&screen.press("Ctrl-r")), 1);
    }

    #[test]
    fn hostile_output_stays_in_its_cells() {
        let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[99;99Ha\u{202e}b\u{200b}\u{feff}日本語e\u{301}\u{301}\u{301}\r\n"
            .repeat(500);
        for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            let screen = TestScreen::new(width, height);
            let mut screen = with_panel(screen, evil.as_bytes(), CommandEnd::Signal(9));
            screen.press("j G");
            let cells = screen.cells();
            for cell in cells.content() {
                assert_eq!(countersign_core::hidden_count(cell.symbol()), 0, "{cell:?}");
            }
            assert!(crate::draw::buffer_text(&cells).starts_with(" countersign"));
        }
    }
}
