//! The transcript of one agent: pages of it, the end first, and their lines at a width. Pure.
//!
//! Invariants: parts are in the order of the record, each once; only parts near the view are broken into lines, and
//! those lines are kept by width.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use countersign_protocol::{TranscriptPart, TranscriptResult, TranscriptRow};

use crate::canvas::TextLine;
use crate::escaped_text::EscapedText;
use crate::render::transcript::marked_texts;
use crate::theme::Role;
use crate::transcript_search::TranscriptGoal;

/// Parts that are kept of one agent; older ones are read again when somebody scrolls there.
const PARTS_MAX: usize = 4_000;
/// Lines that are kept: some hundred screens. Not counted in parts alone, of which one may have thousands of lines.
const CACHED_LINES_MAX: usize = 20_000;
/// Parts that are kept however long they are: what one picture needs is not made anew for each.
const CACHED_PARTS_MIN: usize = 64;
/// Lines of a long entry that are shown while it is folded.
const FOLDED_LINES: usize = 4;
/// Where texts begin: a mark and a blank.
const INDENT: usize = 2;

/// Where a view of a transcript ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TranscriptEnd {
    /// At the newest line, also when more comes.
    #[default]
    Newest,
    /// Below this line of a part.
    At { sequence: u64, line: usize },
}

/// How lines are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineFormat {
    pub width: usize,
    /// Whether long entries are shown whole.
    pub unfolded: bool,
    pub mark: char,
}

#[derive(Clone, Debug, Default)]
struct LineCache {
    format: LineFormat,
    lines: BTreeMap<u64, Rc<Vec<TextLine>>>,
    /// How many lines these are.
    count: usize,
}

impl LineCache {
    fn clear(&mut self) {
        self.lines.clear();
        self.count = 0;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Transcript {
    parts: VecDeque<TranscriptPart>,
    /// The `before` of the page before the first, if there is one.
    first: Option<u64>,
    /// The `after` of the next page, once a page was read.
    next: Option<u64>,
    /// Whether there are newer parts that were not asked for: somebody went to an older one.
    is_window: bool,
    cache: RefCell<LineCache>,
}

impl Transcript {
    /// A page far from the end, to read on from there.
    pub fn window(page: TranscriptResult) -> Self {
        let mut window = Self {
            is_window: true,
            ..Self::default()
        };
        window.append_to_window(page);
        window
    }

    pub fn is_window(&self) -> bool {
        self.is_window
    }

    /// Takes in the page that follows a window. With the newest part it is no window any more.
    pub fn append_to_window(&mut self, page: TranscriptResult) {
        self.is_window = page.more;
        self.append_page(page);
    }

    pub fn contains(&self, sequence: u64) -> bool {
        self.index_of(sequence).is_some()
    }

    /// The end of a view that has a text of an entry in its middle. Nothing if the part is not known.
    pub fn end_showing(
        &self,
        goal: &TranscriptGoal,
        format: LineFormat,
        height: usize,
    ) -> Option<TranscriptEnd> {
        let part = &self.parts[self.index_of(goal.sequence)?];
        let earlier = part.entries.iter().take(goal.entry);
        let above: usize = earlier.map(|entry| entry_lines(entry, format).len()).sum();
        let entry = part.entries.get(goal.entry);
        let lines = entry.map_or_else(Vec::new, |entry| entry_lines(entry, format));
        // The text may be folded, or broken into two lines: then the entry begins in the middle.
        let hit = lines
            .iter()
            .position(|line| line.text().contains(&goal.text));
        let wanted = above + hit.unwrap_or(0) + height / 2;
        let last = self.part_lines(part, format).len().saturating_sub(1);
        let line = wanted.min(last);
        let end = TranscriptEnd::At {
            sequence: goal.sequence,
            line,
        };
        let below = isize::try_from(wanted - line).unwrap_or(isize::MAX);
        Some(self.moved_end(end, below, format, height))
    }

    /// Whether a view ends with the newest part of a window, so that more is to be read.
    pub fn reaches_window_end(&self, end: TranscriptEnd, format: LineFormat) -> bool {
        self.is_window && end == self.bottom(format)
    }

    /// The end of a view of what is newest.
    fn bottom(&self, format: LineFormat) -> TranscriptEnd {
        let position = self.end_position(TranscriptEnd::Newest, format);
        match position.filter(|_| self.is_window) {
            Some((index, line)) => self.end_at(index, line),
            None => TranscriptEnd::Newest,
        }
    }

    /// Whether the end was read.
    pub fn is_loaded(&self) -> bool {
        self.next.is_some()
    }

    /// The cursor behind the newest part.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// The cursor before the oldest part, if there is more.
    pub fn before(&self) -> Option<u64> {
        self.first
    }

    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Takes in the newest page, or the page that follows what is known.
    pub fn append_page(&mut self, page: TranscriptResult) {
        // Only the first page that is read lies at the beginning of what is known. Later ones
        // follow it, and their `first` is a cursor into parts that are here already.
        if self.next.is_none() {
            self.first = page.first;
        }
        let known = self.parts.back().map_or(0, |part| part.sequence);
        let fresh = page.parts.into_iter().filter(|part| part.sequence > known);
        self.parts.extend(fresh);
        self.next = Some(page.next);
        while self.parts.len() > PARTS_MAX {
            self.parts.pop_front();
            // The cursor moves along, so that dropped parts are read again when somebody scrolls there.
            self.first = self.parts.front().map(|part| part.sequence);
        }
    }

    /// Takes in the page before what is known.
    pub fn prepend_page(&mut self, page: TranscriptResult) {
        let known = self.parts.front().map_or(u64::MAX, |part| part.sequence);
        for part in page.parts.into_iter().rev() {
            if part.sequence < known {
                self.parts.push_front(part);
            }
        }
        self.first = page.first;
    }

    /// The lines that fill `height` rows and end where `end` says; fewer if the beginning is near.
    pub fn visible_lines(
        &self,
        end: TranscriptEnd,
        format: LineFormat,
        height: usize,
    ) -> Vec<TextLine> {
        let (mut index, mut line_end) = match end {
            TranscriptEnd::Newest => (self.parts.len().checked_sub(1), usize::MAX),
            TranscriptEnd::At { sequence, line } => (self.index_of(sequence), line + 1),
        };
        let mut found: VecDeque<TextLine> = VecDeque::new();
        while let Some(at) = index
            && found.len() < height
        {
            let lines = self.part_lines(&self.parts[at], format);
            for line in lines.iter().take(line_end).rev() {
                if found.len() == height {
                    break;
                }
                found.push_front(line.clone());
            }
            // Only the part at the end of the view is cut there. Those above it are whole.
            line_end = usize::MAX;
            index = at.checked_sub(1);
        }
        found.into()
    }

    /// The end of a view that is moved by some lines: up if negative. At the newest line it follows again.
    pub fn moved_end(
        &self,
        end: TranscriptEnd,
        steps: isize,
        format: LineFormat,
        height: usize,
    ) -> TranscriptEnd {
        let Some((mut index, mut line)) = self.end_position(end, format) else {
            return self.bottom(format);
        };
        for _ in 0..steps.unsigned_abs() {
            let moved = if steps < 0 {
                self.line_before(index, line, format)
            } else {
                self.line_after(index, line, format)
            };
            match moved {
                Some(position) => (index, line) = position,
                None if steps > 0 => return self.bottom(format),
                None => break,
            }
        }
        // The first screenful is as far up as there is something to see.
        let mut above = self
            .visible_lines(self.end_at(index, line), format, height)
            .len();
        while above < height {
            let Some(position) = self.line_after(index, line, format) else {
                return self.bottom(format);
            };
            (index, line) = position;
            above += 1;
        }
        if self.line_after(index, line, format).is_none() {
            return self.bottom(format);
        }
        self.end_at(index, line)
    }

    /// Whether the view shows the oldest part that is known, so that more is to be read.
    pub fn reaches_start(&self, end: TranscriptEnd, format: LineFormat, height: usize) -> bool {
        let TranscriptEnd::At { sequence, line } = end else {
            return self.visible_lines(end, format, height + 1).len() <= height;
        };
        let Some(index) = self.index_of(sequence) else {
            return true;
        };
        let mut lines = line;
        for part in self.parts.iter().take(index).rev() {
            if lines > 2 * height {
                return false;
            }
            lines += self.part_lines(part, format).len();
        }
        lines <= 2 * height
    }

    /// The part where the turn before or after a view's end begins.
    pub fn turn_end(&self, end: TranscriptEnd, forward: bool, format: LineFormat) -> TranscriptEnd {
        let Some((index, _)) = self.end_position(end, format) else {
            return end;
        };
        let turn = self.parts[index].turn;
        let found = if forward {
            self.parts.iter().skip(index).find(|part| part.turn > turn)
        } else {
            let mut earlier = self.parts.iter().take(index + 1).rev();
            earlier.find(|part| part.turn < turn)
        };
        match found {
            Some(part) => TranscriptEnd::At {
                sequence: part.sequence,
                line: self.part_lines(part, format).len().saturating_sub(1),
            },
            None if forward => self.bottom(format),
            None => end,
        }
    }

    fn end_at(&self, index: usize, line: usize) -> TranscriptEnd {
        TranscriptEnd::At {
            sequence: self.parts[index].sequence,
            line,
        }
    }

    fn index_of(&self, sequence: u64) -> Option<usize> {
        self.parts
            .binary_search_by_key(&sequence, |part| part.sequence)
            .ok()
    }

    fn end_position(&self, end: TranscriptEnd, format: LineFormat) -> Option<(usize, usize)> {
        match end {
            TranscriptEnd::At { sequence, line } => Some((self.index_of(sequence)?, line)),
            TranscriptEnd::Newest => {
                let last = self.parts.len().checked_sub(1)?;
                let lines = self.part_lines(&self.parts[last], format).len();
                // A part with nothing but an update has no lines, so the last line is in an earlier part.
                if lines == 0 {
                    return self.line_before(last, 0, format);
                }
                Some((last, lines - 1))
            }
        }
    }

    fn line_before(&self, index: usize, line: usize, format: LineFormat) -> Option<(usize, usize)> {
        if line > 0 {
            return Some((index, line - 1));
        }
        let mut earlier = (0..index).rev();
        earlier.find_map(|at| {
            let count = self.part_lines(&self.parts[at], format).len();
            Some((at, count.checked_sub(1)?))
        })
    }

    fn line_after(&self, index: usize, line: usize, format: LineFormat) -> Option<(usize, usize)> {
        if line + 1 < self.part_lines(&self.parts[index], format).len() {
            return Some((index, line + 1));
        }
        let mut later = index + 1..self.parts.len();
        later.find_map(|at| {
            (!self.part_lines(&self.parts[at], format).is_empty()).then_some((at, 0))
        })
    }

    fn part_lines(&self, part: &TranscriptPart, format: LineFormat) -> Rc<Vec<TextLine>> {
        let mut cache = self.cache.borrow_mut();
        if cache.format != format {
            cache.format = format;
            cache.clear();
        }
        if let Some(lines) = cache.lines.get(&part.sequence) {
            return Rc::clone(lines);
        }
        // All of them at once: a picture needs few parts, and those are made again at the next one.
        if cache.count >= CACHED_LINES_MAX && cache.lines.len() >= CACHED_PARTS_MIN {
            cache.clear();
        }
        let made: Vec<TextLine> = part
            .entries
            .iter()
            .flat_map(|entry| entry_lines(entry, format))
            .collect();
        cache.count += made.len();
        let made = Rc::new(made);
        cache.lines.insert(part.sequence, Rc::clone(&made));
        made
    }
}

/// The lines of an entry, each behind its mark.
fn entry_lines(entry: &TranscriptRow, format: LineFormat) -> Vec<TextLine> {
    if is_bare_update(entry) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (mark, text) in marked_texts(entry) {
        let role = mark_role(mark);
        let escaped = EscapedText::block(text.trim_end_matches('\n'));
        let total = escaped.lines().count();
        let shown = if is_folded(entry, total, format) {
            FOLDED_LINES
        } else {
            total
        };
        for line in escaped.lines().take(shown) {
            let mut marked = TextLine::shown(format!("{mark} "), Role::Mark);
            marked.push(line, role);
            lines.extend(marked.wrapped(format.width, INDENT, format.mark));
        }
        if shown < total {
            let hidden = format!("{mark} {} more lines: z o", total - shown);
            lines.push(TextLine::shown(hidden, Role::Dim));
        }
    }
    lines
}

/// Whether an entry only tells that a call that was shown before goes on.
fn is_bare_update(entry: &TranscriptRow) -> bool {
    matches!(
        entry,
        TranscriptRow::ToolUse {
            input: None,
            title: None,
            tool: None,
            ..
        }
    )
}

fn is_folded(entry: &TranscriptRow, lines: usize, format: LineFormat) -> bool {
    let can_fold = matches!(
        entry,
        TranscriptRow::ToolResult { .. }
            | TranscriptRow::Thinking { .. }
            | TranscriptRow::ToolUse { .. }
    );
    // One line more needs no more room than the line that would say that it is hidden.
    can_fold && !format.unfolded && lines > FOLDED_LINES + 1
}

fn mark_role(mark: char) -> Role {
    match mark {
        '>' | '^' => Role::Strong,
        '~' | '-' | '=' => Role::Dim,
        '!' => Role::Warn,
        '*' => Role::Link,
        _ => Role::Text,
    }
}

#[cfg(test)]
mod tests;
