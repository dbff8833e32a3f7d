//! The terminals of an agent as they are read: a list, and the screen of the selected one.
//!
//! Invariant: bytes of an agent reach nothing but the parser, whose cells are drawn after they were escaped; titles,
//! bells and questions to the terminal end here.

use std::fmt;

use countersign_protocol::TerminalRow;

/// Lines above the screen that are kept for reading back.
const SCROLLBACK_LINES: usize = 2_000;

#[derive(Debug, Default)]
pub struct AgentTerminals {
    pub rows: Vec<TerminalRow>,
    pub is_loaded: bool,
    /// Why nothing can be read.
    pub problem: Option<String>,
    /// The terminal that a person chose; else the newest is shown.
    chosen: Option<String>,
    pub screen: Option<TerminalScreen>,
}

impl AgentTerminals {
    /// Takes in what the host lists. Without a list what was shown stays: the agent's run has ended.
    pub fn replace_rows(&mut self, rows: Vec<TerminalRow>) {
        self.is_loaded = true;
        self.problem = None;
        if rows.is_empty() {
            return;
        }
        // A new run counts its terminals from one again, so the same id can be another terminal.
        let began = |rows: &[TerminalRow], id: &str| {
            let mut rows = rows.iter();
            rows.find(|row| row.id == id).map(|row| row.started_at)
        };
        let is_other =
            |screen: &TerminalScreen| began(&rows, &screen.id) != began(&self.rows, &screen.id);
        if self.screen.as_ref().is_some_and(is_other) {
            self.screen = None;
        }
        self.rows = rows;
    }

    pub fn selected_index(&self) -> usize {
        let chosen = self.chosen.as_deref();
        let found = self
            .rows
            .iter()
            .position(|row| Some(row.id.as_str()) == chosen);
        found.unwrap_or(self.rows.len().saturating_sub(1))
    }

    pub fn selected(&self) -> Option<&TerminalRow> {
        self.rows.get(self.selected_index())
    }

    /// Selects the next one, or the one before.
    pub fn move_selection(&mut self, is_forward: bool) {
        let index = self.selected_index();
        let index = if is_forward {
            (index + 1).min(self.rows.len().saturating_sub(1))
        } else {
            index.saturating_sub(1)
        };
        self.chosen = self.rows.get(index).map(|row| row.id.clone());
    }
}

/// What a terminal shows, as far as its output was read.
pub struct TerminalScreen {
    pub id: String,
    /// Columns and rows.
    pub size: (u16, u16),
    /// How many bytes were read.
    pub next: u64,
    pub has_ended: bool,
    /// Whether its first output is not kept any more.
    pub is_cut: bool,
    last_byte: u8,
    /// Whether its output came through a pseudo-terminal, which ends lines itself.
    is_raw: bool,
    parser: vt100::Parser,
}

impl fmt::Debug for TerminalScreen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TerminalScreen")
            .field("id", &self.id)
            .field("size", &self.size)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl TerminalScreen {
    pub fn new(id: &str, size: (u16, u16)) -> Self {
        let (columns, rows) = (size.0.max(1), size.1.max(1));
        Self {
            id: id.to_owned(),
            size,
            next: 0,
            has_ended: false,
            is_cut: false,
            last_byte: 0,
            is_raw: false,
            parser: vt100::Parser::new(rows, columns, SCROLLBACK_LINES),
        }
    }

    /// Of output that came through a pseudo-terminal.
    pub fn raw(id: &str, size: (u16, u16)) -> Self {
        Self {
            is_raw: true,
            ..Self::new(id, size)
        }
    }

    /// The panel has another size: what comes from now on is for that.
    pub fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        let (columns, rows) = (size.0.max(1), size.1.max(1));
        self.parser.screen_mut().set_size(rows, columns);
    }

    /// Takes in more of the output.
    pub fn process(&mut self, bytes: &[u8]) {
        if self.is_raw {
            self.parser.process(bytes);
            return;
        }
        let mut text = Vec::with_capacity(bytes.len() + bytes.len() / 32);
        for byte in bytes {
            // Output of a pipe has no carriage returns; without them each line would begin where the last ended.
            if *byte == b'\n' && self.last_byte != b'\r' {
                text.push(b'\r');
            }
            text.push(*byte);
            self.last_byte = *byte;
        }
        self.parser.process(&text);
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Moves towards the beginning for negative steps.
    pub fn scroll(&mut self, steps: isize) {
        let back = self.parser.screen().scrollback();
        let back = back.saturating_add_signed(steps.saturating_neg());
        self.parser
            .screen_mut()
            .set_scrollback(back.min(SCROLLBACK_LINES));
    }
}

#[cfg(test)]
mod tests {
    use countersign_protocol::Time;

    use super::*;

    fn row(id: &str, started_at: u64) -> TerminalRow {
        TerminalRow {
            bytes: 0,
            command: "ls".to_owned(),
            cwd: None,
            ended_at: None,
            exit_code: None,
            first_offset: 0,
            id: id.to_owned(),
            signal: None,
            started_at: Time(started_at),
        }
    }

    #[test]
    fn a_terminal_of_the_next_run_is_read_from_its_beginning() {
        let mut terminals = AgentTerminals::default();
        terminals.replace_rows(vec![row("term-1", 1)]);
        terminals.screen = Some(TerminalScreen::new("term-1", (80, 24)));
        terminals.replace_rows(vec![row("term-1", 1), row("term-2", 2)]);
        assert!(terminals.screen.is_some());
        // The list of an agent that has none leaves what is shown.
        terminals.replace_rows(Vec::new());
        assert!(terminals.screen.is_some());
        terminals.replace_rows(vec![row("term-1", 3)]);
        assert!(terminals.screen.is_none());
    }
}
