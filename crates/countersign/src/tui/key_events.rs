//! What the terminal tells, as messages.

use countersign_tui::key::{Key, KeyCode};
use countersign_tui::message::Message;
use crossterm::event::{
    self, Event, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// A message, unless it means nothing here. `at` is when it came in.
pub(super) fn message_of(event: Event, at: u64) -> Option<Message> {
    match event {
        Event::Key(event) => {
            let is_repeat = event.kind == KeyEventKind::Repeat;
            let key = key_of(&event)?;
            Some(Message::Key { key, at, is_repeat })
        }
        Event::Paste(text) => Some(Message::Paste(text)),
        Event::Resize(..) => Some(Message::Resized),
        Event::FocusGained => Some(Message::Focused(true)),
        Event::FocusLost => Some(Message::Focused(false)),
        Event::Mouse(event) => mouse_message(event),
    }
}

fn mouse_message(event: MouseEvent) -> Option<Message> {
    let (x, y) = (event.column, event.row);
    match event.kind {
        MouseEventKind::ScrollDown => Some(Message::Wheel {
            x,
            y,
            is_down: true,
        }),
        MouseEventKind::ScrollUp => Some(Message::Wheel {
            x,
            y,
            is_down: false,
        }),
        MouseEventKind::Down(MouseButton::Left) => Some(Message::Click { x, y }),
        _ => None,
    }
}

fn key_of(event: &KeyEvent) -> Option<Key> {
    // Some terminals report releases as well: one press must not count twice.
    if event.kind == KeyEventKind::Release || event.modifiers.contains(KeyModifiers::SUPER) {
        return None;
    }
    let code = match event.code {
        event::KeyCode::Char(c) => KeyCode::Char(c),
        event::KeyCode::Enter => KeyCode::Enter,
        event::KeyCode::Esc => KeyCode::Escape,
        event::KeyCode::Backspace => KeyCode::Backspace,
        event::KeyCode::Delete => KeyCode::Delete,
        event::KeyCode::Tab => KeyCode::Tab,
        event::KeyCode::BackTab => KeyCode::BackTab,
        event::KeyCode::Up => KeyCode::Up,
        event::KeyCode::Down => KeyCode::Down,
        event::KeyCode::Left => KeyCode::Left,
        event::KeyCode::Right => KeyCode::Right,
        event::KeyCode::Home => KeyCode::Home,
        event::KeyCode::End => KeyCode::End,
        event::KeyCode::PageUp => KeyCode::PageUp,
        event::KeyCode::PageDown => KeyCode::PageDown,
        event::KeyCode::F(number) => KeyCode::Function(number),
        _ => return None,
    };
    Some(Key {
        code,
        ctrl: event.modifiers.contains(KeyModifiers::CONTROL),
        alt: event.modifiers.contains(KeyModifiers::ALT),
    })
}
