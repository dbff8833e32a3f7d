//! What the screen knows: open asks and questions, recent notes, which one is selected, and what is
//! being typed.
//!
//! Invariants: the selection moves only by a person's key or after their own decision; a
//! selected item that ends elsewhere stays and says so; whatever changes the selected item
//! restarts the time in which keys that decide do not count.

use std::collections::BTreeSet;
use std::time::Instant;

use countersign_protocol::{HostApproval, HostQuestion, Time};
use countersign_tui::decision_guard::{ActOrigin, DecisionGuard, GuardDecision, GuardEvent};
pub(super) use countersign_tui::host_warnings::HostWarnings;

use crate::notes;
use crate::render::approvals::{self, FieldDetail};
use crate::render::inbox_item::{InboxContent, InboxItem};

/// What the next key means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InputMode {
    Browse,
    /// `option` is sent after a second key.
    Confirm {
        option: String,
    },
    /// `option` is sent after a second key, and becomes these rules.
    Save {
        option: String,
        rules: Vec<String>,
    },
    /// One of the options is being chosen.
    Choose {
        index: usize,
    },
    /// Words that go with a denial.
    TypeDenial {
        text: String,
    },
    /// Words that answer a question.
    TypeAnswer {
        text: String,
        /// The answers to the earlier questions of the same ask.
        given: Vec<Vec<String>>,
    },
}

/// Whether the host is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostPresence {
    Up,
    Lost,
}

/// Everything that is drawn, and everything a key can depend on.
#[derive(Clone, Debug)]
pub(super) struct WatchScreen {
    pub(super) items: Vec<InboxItem>,
    pub(super) selected: Option<String>,
    /// The first line of the selected item that is shown.
    pub(super) scroll: usize,
    /// How much of the selected item is shown.
    pub(super) detail: FieldDetail,
    /// Lines of the selected item that fit on the screen, and lines it has, as last drawn.
    pub(super) page: usize,
    pub(super) body: usize,
    /// Decides whether a key may answer; the same as in the terminal UI.
    pub(super) guard: DecisionGuard,
    /// What the guard's milliseconds are counted from.
    pub(super) epoch: Instant,
    /// Changes whenever the selected item does.
    pub(super) version: u64,
    pub(super) mode: InputMode,
    pub(super) note: String,
    /// What a person must know whatever is selected.
    pub(super) warnings: HostWarnings,
    pub(super) link: HostPresence,
    pub(super) wall: Time,
}

impl WatchScreen {
    pub(super) fn new(now: Instant, wall: Time) -> Self {
        Self {
            items: Vec::new(),
            selected: None,
            scroll: 0,
            detail: FieldDetail::Folded,
            page: 0,
            body: 0,
            guard: DecisionGuard::new(true, true),
            epoch: now,
            version: 0,
            mode: InputMode::Browse,
            note: String::new(),
            warnings: HostWarnings::default(),
            link: HostPresence::Up,
            wall,
        }
    }

    /// How long the whole of the selected item has been on the screen, in milliseconds. For the record.
    pub(super) fn considered_ms(&self, now: Instant) -> u64 {
        self.guard.considered_ms(self.guard_time(now))
    }

    /// An instant as the guard counts it.
    pub(super) fn guard_time(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.epoch);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Tells the guard something, and returns what may happen because of it.
    pub(super) fn tell_guard(&mut self, event: &GuardEvent<'_>, now: Instant) -> GuardDecision {
        let at = self.guard_time(now);
        self.guard.step(event, at)
    }

    /// The host is there, or is not.
    pub(super) fn set_link(&mut self, link: HostPresence, now: Instant) {
        self.link = link;
        let event = match link {
            HostPresence::Up => GuardEvent::Connected,
            HostPresence::Lost => GuardEvent::Lost,
        };
        self.tell_guard(&event, now);
    }

    /// Tells the guard about a selected item that is another one than before, or looks different.
    fn show_selected(&mut self, now: Instant) {
        self.version += 1;
        let (version, at) = (self.version.to_string(), self.guard_time(now));
        let Some(item) = self.selected_item() else {
            self.tell_guard(&GuardEvent::Hide, now);
            return;
        };
        let (subject, is_over) = (item.id().to_owned(), item.ended.is_some());
        let shown = GuardEvent::Show {
            subject: &subject,
            version: &version,
            confirm: true,
        };
        self.guard.step(&shown, at);
        if is_over {
            self.guard.step(&GuardEvent::Ended, at);
        }
    }

    pub(super) fn selected_index(&self) -> Option<usize> {
        let id = self.selected.as_deref()?;
        self.items.iter().position(|item| item.id() == id)
    }

    pub(super) fn selected_item(&self) -> Option<&InboxItem> {
        self.selected_index().map(|index| &self.items[index])
    }

    /// Takes in a row that is new, changed or ended.
    pub(super) fn update_item(&mut self, item: InboxItem, now: Instant) {
        let is_selected = self.selected.as_deref() == Some(item.id());
        let known = self.items.iter().position(|known| known.id() == item.id());
        match (known, &item.ended) {
            // An event may repeat what the snapshot had. It must not restart the waiting time of an ask
            // that looks the same as before.
            (Some(index), _) if self.items[index] == item => {}
            (Some(index), ended) if is_selected => {
                if ended.is_some() {
                    self.note = format!(
                        "{} ended elsewhere; ↑/↓ to continue",
                        approvals::short_id(item.id())
                    );
                }
                self.items[index] = item;
                self.show_selected(now);
            }
            // Not the selected one: that stays, so that a key typed at it does not hit another item.
            (Some(index), Some(_)) => drop(self.items.remove(index)),
            (Some(index), None) => self.items[index] = item,
            (None, Some(_)) => {}
            (None, None) => {
                self.items.push(item);
            }
        }
        self.items.sort_by_key(InboxItem::order);
        self.select_first_if_none(now);
    }

    /// The question as it is known here, if it is open.
    pub(super) fn find_question(&self, id: &str) -> Option<&HostQuestion> {
        let found = self.items.iter().find(|item| item.id() == id)?;
        match &found.content {
            InboxContent::Question(row) if found.ended.is_none() => Some(row),
            _ => None,
        }
    }

    /// The ask as it is known here.
    pub(super) fn find_ask(&self, id: &str) -> Option<&HostApproval> {
        let found = self.items.iter().find(|item| item.id() == id)?;
        match &found.content {
            InboxContent::Ask(row) => Some(row),
            InboxContent::Question(_) | InboxContent::Note(_) => None,
        }
    }

    /// Takes in everything that is open, after a new connection.
    pub(super) fn replace_items(&mut self, open: Vec<InboxItem>, now: Instant) {
        let ids: BTreeSet<&str> = open.iter().map(InboxItem::id).collect();
        let selected = self.selected.as_deref();
        self.items
            .retain(|item| ids.contains(item.id()) || Some(item.id()) == selected);
        let mut has_ended = false;
        for item in &mut self.items {
            // A note does not end: the selected one is only too old for the list.
            if !ids.contains(item.id()) && item.ended.is_none() && !item.is_note() {
                item.ended = Some("ended while disconnected".into());
                has_ended = true;
            }
        }
        if has_ended {
            self.tell_guard(&GuardEvent::Ended, now);
        }
        for item in open {
            self.update_item(item, now);
        }
    }

    /// Removes the notes that `inbox` no longer lists, save the selected one.
    pub(super) fn drop_old_notes(&mut self) {
        let (now, selected) = (self.wall, self.selected.as_deref());
        let total = self.items.iter().filter(|item| item.is_note()).count();
        let mut surplus = total.saturating_sub(notes::LISTED_MAX);
        // In their order, which for notes is oldest first.
        self.items.retain(|item| {
            if !item.is_note() || selected == Some(item.id()) {
                return true;
            }
            let is_surplus = surplus > 0;
            surplus = surplus.saturating_sub(1);
            !is_surplus && notes::is_recent(item.created_at(), now)
        });
    }

    /// Shows the rules that an allow would become, above the ask they came from. Both are to be read
    /// before the second key counts.
    pub(super) fn show_rule_offer(
        &mut self,
        id: &str,
        option: String,
        rules: Vec<String>,
        now: Instant,
    ) {
        let is_open = self
            .selected_item()
            .is_some_and(|item| item.id() == id && item.ended.is_none());
        // The host may answer after the person moved on: rules are offered only for the ask they were
        // looked up for.
        if !is_open || self.mode != InputMode::Browse {
            return;
        }
        // The key that asked for the rules was judged when it was typed. Its time counts from here on, where the
        // question for the second key appears.
        let begun = GuardEvent::Allow {
            place: "key:s",
            option: Some(&option),
            form: true,
            origin: ActOrigin::default(),
        };
        if let GuardDecision::Refused(refusal) = self.tell_guard(&begun, now) {
            self.note = refusal.describe().into();
            return;
        }
        self.mode = InputMode::Save { option, rules };
        self.restart_reading(now);
    }

    /// The person's own decision reached the host: the item goes, the next one is selected.
    pub(super) fn remove_settled(&mut self, id: &str, note: String, now: Instant) {
        self.note = note;
        self.mode = InputMode::Browse;
        let Some(index) = self.items.iter().position(|item| item.id() == id) else {
            return;
        };
        self.items.remove(index);
        if self.selected.as_deref() == Some(id) {
            // Notes are after everything else, so the last item before them is next to where this was.
            let waiting = self.items.iter().filter(|item| !item.is_note());
            let next = waiting.take(index + 1).last();
            let next = next.map(|item| item.id().to_owned());
            self.select(next, now);
        }
    }

    /// Moves the selection by a person's key. What ended and is left behind goes.
    pub(super) fn move_selection(&mut self, down: bool, now: Instant) {
        let Some(index) = self.selected_index() else {
            let first = self.items.first().map(|item| item.id().to_owned());
            return self.select(first, now);
        };
        // Above the first item the index wraps round, and then no item has it, as below the last.
        let next = if down {
            index + 1
        } else {
            index.wrapping_sub(1)
        };
        let ended = self.items[index].ended.is_some();
        let target = match self.items.get(next) {
            Some(item) => Some(item.id().to_owned()),
            // At the edge there is nowhere to go, save away from something that is over.
            None if ended => self
                .items
                .iter()
                .find(|item| item.ended.is_none())
                .map(|item| item.id().to_owned()),
            None => return,
        };
        self.note.clear();
        self.items.retain(|item| item.ended.is_none());
        self.select(target, now);
    }

    /// Remembers what the last drawing showed of the selected item.
    pub(super) fn record_drawn(&mut self, page: usize, body: usize, now: Instant) {
        self.page = page;
        self.body = body;
        self.scroll = self.scroll.min(body.saturating_sub(page.max(1)));
        // In a window without room for the body nothing was read. What was seen once stays seen until
        // the item changes: scrolling back is reading, too.
        if page > 0 && self.scroll + page >= body && !self.guard.is_seen() {
            self.tell_guard(&GuardEvent::Seen, now);
        }
    }

    /// The window has another size: lines break elsewhere, so reading begins again.
    pub(super) fn restart_reading(&mut self, now: Instant) {
        self.scroll = 0;
        self.tell_guard(&GuardEvent::Unseen, now);
    }

    /// Shows what is folded, or folds it again. What comes into view is to be read as well.
    pub(super) fn toggle_detail(&mut self, now: Instant) {
        self.detail = match self.detail {
            FieldDetail::Folded => FieldDetail::Full,
            FieldDetail::Full => FieldDetail::Folded,
        };
        self.restart_reading(now);
    }

    /// Selects what waits, and no note: an ask that came after it would stand there unselected.
    fn select_first_if_none(&mut self, now: Instant) {
        if self.selected_index().is_none() {
            let mut waiting = self.items.iter().filter(|item| !item.is_note());
            let first = waiting.next().map(|item| item.id().to_owned());
            self.select(first, now);
        }
    }

    fn select(&mut self, id: Option<String>, now: Instant) {
        if self.selected == id {
            return;
        }
        self.selected = id;
        self.detail = FieldDetail::Folded;
        self.scroll = 0;
        self.show_selected(now);
        // A question for a second key belongs to the item that it was asked about.
        self.mode = InputMode::Browse;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use countersign_protocol::{BypassRow, HostApprovalState, RuleProblem};
    use countersign_tui::decision_guard::SETTLE_MS;

    use super::*;
    use crate::test_rows;

    fn ask(id: &str, sequence: u64) -> InboxItem {
        InboxItem::ask(HostApproval {
            id: id.into(),
            sequence,
            ..test_rows::approval()
        })
    }

    fn ended(id: &str, sequence: u64) -> InboxItem {
        InboxItem::ask(HostApproval {
            id: id.into(),
            sequence,
            state: HostApprovalState::Denied,
            ..test_rows::approval()
        })
    }

    fn ids(screen: &WatchScreen) -> Vec<&str> {
        screen.items.iter().map(InboxItem::id).collect()
    }

    #[test]
    fn a_broken_file_and_a_bypass_that_lasts_are_told() {
        let cares = HostWarnings {
            problems: vec![RuleProblem {
                file: "/u/rules.toml".into(),
                line: Some(1),
                message: "odd".into(),
                suspends: true,
            }],
            bypassed: vec![BypassRow {
                agent_id: "a".into(),
                name: "builder".into(),
                until: Time(60_000_000),
            }],
            store_error: None,
        };
        let told = |now| cares.lines(Time(now)).len();
        assert_eq!((told(0), told(60_000_000)), (2, 1));
        let lost = HostWarnings {
            store_error: Some("it was removed".into()),
            ..HostWarnings::default()
        };
        assert_eq!(
            lost.lines(Time(0)),
            ["THE RECORD CANNOT BE WRITTEN: it was removed"]
        );
    }

    #[test]
    fn the_selection_stays_when_others_come_and_go() {
        let start = Instant::now();
        let mut screen = WatchScreen::new(start, Time(0));
        screen.update_item(ask("b", 2), start);
        let later = start + Duration::from_secs(1);
        screen.update_item(ask("a", 1), later);
        screen.update_item(ask("c", 3), later);
        assert_eq!(
            (ids(&screen), screen.selected.as_deref()),
            (vec!["a", "b", "c"], Some("b"))
        );
        assert_eq!(screen.guard.settled_at(), SETTLE_MS);
        screen.update_item(ended("a", 1), later);
        assert_eq!(
            (ids(&screen), screen.selected.as_deref()),
            (vec!["b", "c"], Some("b"))
        );
        assert_eq!(screen.guard.settled_at(), SETTLE_MS);
    }

    #[test]
    fn an_end_elsewhere_leaves_the_selection_where_it_is() {
        let start = Instant::now();
        let mut screen = WatchScreen::new(start, Time(0));
        screen.update_item(ask("a", 1), start);
        screen.update_item(ask("b", 2), start);
        let later = start + Duration::from_secs(1);
        screen.update_item(ended("a", 1), later);
        assert_eq!(
            (ids(&screen), screen.selected.as_deref()),
            (vec!["a", "b"], Some("a"))
        );
        assert_eq!(screen.items[0].ended.as_deref(), Some("denied"));
        assert_eq!(screen.guard.settled_at(), 1_000 + SETTLE_MS);
        screen.move_selection(true, later);
        assert_eq!(
            (ids(&screen), screen.selected.as_deref()),
            (vec!["b"], Some("b"))
        );
    }

    #[test]
    fn the_time_for_which_an_ask_was_whole_on_the_screen_is_counted() {
        let start = Instant::now();
        let mut screen = WatchScreen::new(start, Time(0));
        screen.update_item(ask("a", 1), start);
        let drawn_at = start + Duration::from_secs(1);
        screen.record_drawn(4, 9, drawn_at);
        assert_eq!(screen.considered_ms(drawn_at + Duration::from_secs(1)), 0);
        screen.record_drawn(9, 9, drawn_at);
        let answered_at = drawn_at + Duration::from_millis(1_250);
        assert_eq!(screen.considered_ms(answered_at), 1_250);
    }

    #[test]
    fn after_the_last_one_ended_a_step_finds_what_is_open() {
        let start = Instant::now();
        let mut screen = WatchScreen::new(start, Time(0));
        screen.update_item(ask("b", 2), start);
        screen.update_item(ended("b", 2), start);
        screen.update_item(ask("a", 1), start);
        assert_eq!(screen.selected.as_deref(), Some("b"));
        screen.move_selection(true, start);
        assert_eq!(
            (ids(&screen), screen.selected.as_deref()),
            (vec!["a"], Some("a"))
        );
    }

    #[test]
    fn a_new_connection_keeps_the_selection_and_marks_what_is_over() {
        let start = Instant::now();
        let mut screen = WatchScreen::new(start, Time(0));
        screen.update_item(ask("a", 1), start);
        screen.update_item(ask("b", 2), start);
        screen.replace_items(vec![ask("c", 3)], start);
        assert_eq!(
            (ids(&screen), screen.selected.as_deref()),
            (vec!["a", "c"], Some("a"))
        );
        assert!(screen.items[0].ended.is_some());
    }
}
