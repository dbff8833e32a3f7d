//! Pictures from a recorded log, without a host: a snapshot or events of the wire, one JSON document in a line.

use countersign_protocol::{HostEvent, HostSnapshot, Time};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::draw::{buffer_text, draw};
use crate::message::{Message, Moment};
use crate::model::{Model, ScreenSettings};
use crate::update::update;

/// A line of a log.
enum LogLine {
    Snapshot(Box<HostSnapshot>),
    Event(Box<HostEvent>),
}

fn parse_line(line: &str) -> Result<LogLine, String> {
    let snapshot: Result<HostSnapshot, _> = serde_json::from_str(line);
    match snapshot {
        Ok(snapshot) => Ok(LogLine::Snapshot(Box::new(snapshot))),
        Err(_) => serde_json::from_str(line)
            .map(|event| LogLine::Event(Box::new(event)))
            .map_err(|error| error.to_string()),
    }
}

/// The picture after the last line of a log, as text.
pub fn replay_log(
    log: &str,
    settings: ScreenSettings,
    width: u16,
    height: u16,
) -> Result<String, String> {
    let mut model = Model::new(settings, Moment::default());
    let mut wall = Time(0);
    for (index, line) in log.lines().enumerate() {
        let parsed = parse_line(line).map_err(|why| format!("line {}: {why}", index + 1))?;
        let message = match parsed {
            LogLine::Snapshot(snapshot) => Message::Connected {
                snapshot,
                notes: Vec::new(),
            },
            LogLine::Event(event) => {
                wall = wall.max(event.timestamp);
                Message::Event(event)
            }
        };
        // What it wants done needs a host.
        drop(update(&mut model, message, moment(wall)));
    }
    let mut buffer = Buffer::default();
    // Twice: panels are laid out by what was drawn before.
    for _ in 0..2 {
        buffer = Buffer::empty(Rect::new(0, 0, width, height));
        model.now = moment(wall);
        let report = draw(&model, &mut buffer);
        drop(update(&mut model, Message::Drawn(report), moment(wall)));
    }
    Ok(buffer_text(&buffer))
}

/// Long enough after the beginning for keys to count.
fn moment(wall: Time) -> Moment {
    Moment { ms: 10_000, wall }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;
    use crate::test_screen::{TestScreen, event, snapshot};

    fn settings() -> ScreenSettings {
        let model = TestScreen::new(80, 24).model;
        ScreenSettings {
            layouts: model.workspace.layouts,
            themes: model.themes,
            theme: model.theme,
            glyphs: model.glyphs,
            keymap: model.keymap,
            folder: None,
        }
    }

    #[test]
    fn a_log_is_drawn_as_the_screen_would_be() {
        let start = serde_json::to_string(&snapshot(vec![test_rows::approval()])).unwrap();
        let ended = serde_json::to_value(test_rows::approval()).unwrap();
        let mut ended = event("approval.resolved", &ended);
        ended.timestamp = Time(181_000_000);
        let log = format!("{start}\n{}\n", serde_json::to_string(&ended).unwrap());
        let picture = replay_log(&log, settings(), 100, 20).unwrap();
        assert!(
            picture.starts_with(" countersign  1 ask  1 question  oldest 3m"),
            "{picture}"
        );
        assert_eq!(
            replay_log("{}\n", settings(), 100, 20)
                .unwrap_err()
                .split(':')
                .next(),
            Some("line 1")
        );
    }
}
