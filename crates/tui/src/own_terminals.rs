//! A person's own terminals as this screen has them: a list, the screen of the selected one, and what waits to be typed.

use std::collections::VecDeque;

use countersign_protocol::OwnTerminalRow;

use crate::agent_terminals::TerminalScreen;

/// What may wait to be typed: a large paste, and some.
const TYPED_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub struct OwnTerminals {
    /// The oldest first.
    pub rows: Vec<OwnTerminalRow>,
    pub is_loaded: bool,
    /// Why nothing can be read.
    pub problem: Option<String>,
    chosen: Option<String>,
    pub screen: Option<TerminalScreen>,
    /// The size that the host was told last, and of which terminal.
    pub told_size: Option<(String, (u16, u16))>,
    /// What waits to be typed, in order, with the terminal it is for.
    typed: VecDeque<(String, Vec<u8>)>,
    /// Whether some of it is on its way.
    pub is_typing: bool,
}

impl OwnTerminals {
    pub fn replace_rows(&mut self, rows: Vec<OwnTerminalRow>) {
        self.is_loaded = true;
        self.problem = None;
        self.rows = rows;
        if self.chosen.is_none() {
            self.chosen = self.rows.last().map(|row| row.id.clone());
        }
        let is_listed = |id: &str| self.rows.iter().any(|row| row.id == id);
        if self
            .screen
            .as_ref()
            .is_some_and(|screen| !is_listed(&screen.id))
        {
            self.screen = None;
        }
        // What could not be read a moment ago is tried again, for as long as its program runs.
        let is_live = self.live().is_some();
        if let Some(screen) = self.screen.as_mut().filter(|_| is_live) {
            screen.has_ended = false;
        }
    }

    /// Lists a terminal that was just opened, and selects it.
    pub fn add(&mut self, row: OwnTerminalRow) {
        self.chosen = Some(row.id.clone());
        // A list that was read meanwhile may contain it already.
        self.rows.retain(|known| known.id != row.id);
        self.rows.push(row);
        self.is_loaded = true;
    }

    pub fn selected_index(&self) -> usize {
        let chosen = self.chosen.as_deref();
        let found = self
            .rows
            .iter()
            .position(|row| Some(row.id.as_str()) == chosen);
        found.unwrap_or(self.rows.len().saturating_sub(1))
    }

    /// The one that is shown. Nothing, if it was closed: the next key must not reach another one instead.
    pub fn selected(&self) -> Option<&OwnTerminalRow> {
        let chosen = self.chosen.as_deref()?;
        self.rows.iter().find(|row| row.id == chosen)
    }

    /// The selected one, if keys reach a program in it.
    pub fn live(&self) -> Option<&OwnTerminalRow> {
        self.selected().filter(|row| row.ended_at.is_none())
    }

    /// Goes round them.
    pub fn move_selection(&mut self, step: isize) {
        let count = self.rows.len();
        if count > 0 {
            // `count` is added so that a step back from the first terminal leads to the last and
            // does not stop at zero.
            let index = (self.selected_index() + count).saturating_add_signed(step) % count;
            self.chosen = Some(self.rows[index].id.clone());
        }
    }

    /// Takes what was typed, whole or not at all.
    pub fn push_typed(&mut self, terminal: &str, bytes: &[u8]) -> bool {
        let waiting: usize = self.typed.iter().map(|(_, bytes)| bytes.len()).sum();
        if waiting + bytes.len() > TYPED_BYTES_MAX {
            return false;
        }
        // Keys for the same terminal are joined, so that fast typing becomes one call. A new entry
        // for another terminal keeps the order of what was typed.
        match self.typed.back_mut() {
            Some((id, last)) if id == terminal => last.extend_from_slice(bytes),
            _ => self.typed.push_back((terminal.to_owned(), bytes.to_vec())),
        }
        true
    }

    /// What is typed next, no more than `bytes_max` of it.
    pub fn next_typed(&self, bytes_max: usize) -> Option<(&str, &[u8])> {
        let (id, bytes) = self.typed.front()?;
        Some((id, &bytes[..bytes.len().min(bytes_max)]))
    }

    /// So much of it was taken.
    pub fn drop_typed(&mut self, count: usize) {
        if let Some((_, bytes)) = self.typed.front_mut() {
            bytes.drain(..count.min(bytes.len()));
            if bytes.is_empty() {
                self.typed.pop_front();
            }
        }
    }

    /// Forgets it: whether that was nothing.
    pub fn clear_typed(&mut self) -> bool {
        let was_empty = self.typed.is_empty();
        self.typed.clear();
        self.is_typing = false;
        was_empty
    }
}
