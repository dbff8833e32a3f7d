//! The screen of a terminal as bytes: put back when somebody attaches, and undone when they leave.

use countersign_tui::agent_terminals::TerminalScreen;

/// Makes a terminal usable again whatever a program had asked it for.
///
/// The cursor is saved first, because leaving the other screen and forgetting the scrolled rows both move it.
pub(super) const RESTORE: &str = concat!(
    "\x1b7\x1b[?1049l\x1b7\x1b[r\x1b8",
    // Colours, the cursor, wrapping, and keys in their usual form.
    "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1l\x1b>\x1b[=0u\x1b[>4m",
    // Pasted text, focus and the mouse.
    "\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l",
    "\r\n",
);

/// What draws this screen.
///
/// Not what the program once wrote: that has questions to the terminal in it, whose answers would be typed into the
/// program now.
pub(super) fn drawing(screen: &TerminalScreen) -> Vec<u8> {
    let shown = screen.screen();
    // Pushes out what is on the terminal, so that it can be scrolled back to.
    let mut bytes = "\r\n".repeat(usize::from(screen.size.1)).into_bytes();
    if shown.alternate_screen() {
        bytes.extend(b"\x1b[?1049h");
    }
    bytes.extend(shown.state_formatted());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen_of(bytes: &[u8]) -> TerminalScreen {
        let mut screen = TerminalScreen::raw("t", (20, 4));
        screen.process(bytes);
        screen
    }

    #[test]
    fn what_is_drawn_shows_the_same_and_asks_the_terminal_nothing() {
        let written = b"one\r\n\x1b[1mtwo\x1b[c\x1b]11;?\x07\x1b[?1h\x1b[?2004h";
        let bytes = drawing(&screen_of(written));
        for question in [&b"\x1b[c"[..], b"\x1b]"] {
            let is_there = bytes.windows(question.len()).any(|part| part == question);
            assert!(!is_there, "{bytes:?}");
        }
        let drawn = screen_of(&bytes);
        let (drawn, before) = (drawn.screen(), screen_of(written));
        assert_eq!(drawn.contents(), "one\ntwo");
        assert_eq!(
            drawn.contents_formatted(),
            before.screen().contents_formatted()
        );
        assert!(drawn.application_cursor() && drawn.bracketed_paste());
    }

    #[test]
    fn a_program_on_the_other_screen_is_left_with_everything_it_asked_for() {
        let editor = b"before\x1b[?1049h\x1b[2J\x1b[Hvi\x1b[?25l\x1b[?1000h\x1b[2;3r\x1b[31m";
        let bytes = drawing(&screen_of(editor));
        let mut screen = screen_of(b"$ ");
        screen.process(&bytes);
        assert!(screen.screen().alternate_screen());
        assert_eq!(screen.screen().contents(), "vi");
        screen.process(RESTORE.as_bytes());
        let shown = screen.screen();
        assert!(!shown.alternate_screen() && !shown.hide_cursor());
        let untouched = screen_of(b"");
        assert_eq!(
            (shown.mouse_protocol_mode(), shown.fgcolor()),
            (
                untouched.screen().mouse_protocol_mode(),
                untouched.screen().fgcolor()
            )
        );
    }

    #[test]
    fn a_cursor_stays_where_it_was_if_there_is_nothing_to_undo() {
        let mut screen = screen_of(b"one\r\ntwo");
        screen.process(RESTORE.trim_end().as_bytes());
        assert_eq!(screen.screen().cursor_position(), (1, 3));
    }
}
