//! Open asks and questions, recent notes, and which one is selected. Pure.
//!
//! Invariants: the selection moves only by a person's key or after their own decision; a selected item that ends
//! elsewhere stays and says so; `version` changes with whatever is shown of the selected item.

use std::collections::BTreeSet;

use countersign_protocol::{HostApproval, HostEvent, HostQuestion, HostQuestionState, Time, Who};

use crate::render::decisions;
use crate::render::inbox_item::{InboxContent, InboxItem};
use crate::render::notes;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inbox {
    items: Vec<InboxItem>,
    selected: Option<String>,
    version: u64,
    /// Items that a person put aside, until when.
    snoozed: Vec<(String, Time)>,
}

impl Inbox {
    pub fn items(&self) -> &[InboxItem] {
        &self.items
    }

    pub fn selected_id(&self) -> Option<&str> {
        self.selected.as_deref()
    }

    pub fn selected_index(&self) -> Option<usize> {
        let id = self.selected.as_deref()?;
        self.items.iter().position(|item| item.id() == id)
    }

    pub fn selected_item(&self) -> Option<&InboxItem> {
        self.selected_index()
            .and_then(|index| self.items.get(index))
    }

    /// Changes with what is shown of the selected item.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn find(&self, id: &str) -> Option<&InboxItem> {
        self.items.iter().find(|item| item.id() == id)
    }

    /// How many of a kind are open.
    pub fn count_open(&self, kind: &str) -> usize {
        let open = self.items.iter().filter(|item| item.ended.is_none());
        open.filter(|item| item.kind() == kind).count()
    }

    /// When the oldest thing that waits was asked.
    pub fn oldest_waiting(&self) -> Option<Time> {
        let waiting = self.items.iter().filter(|item| is_waiting(item));
        waiting.map(InboxItem::created_at).min()
    }

    pub fn is_snoozed(&self, id: &str, now: Time) -> bool {
        let mut snoozed = self.snoozed.iter();
        snoozed.any(|(known, until)| known == id && *until > now)
    }

    /// Puts an item aside on this screen: `w` passes it by until then.
    pub fn snooze(&mut self, id: &str, until: Time) {
        self.snoozed.retain(|(known, _)| known != id);
        self.snoozed.push((id.to_owned(), until));
    }

    /// Takes in an event; most change nothing here.
    pub fn apply(&mut self, event: &HostEvent) {
        let payload = event.payload.text();
        let item = match event.kind.as_str() {
            "approval.requested" => serde_json::from_str(payload).map(InboxItem::ask).ok(),
            "approval.resolved" => self.ended_ask(payload),
            "question.asked" => serde_json::from_str(payload).map(InboxItem::question).ok(),
            "question.ended" | "question.escalated" => self.changed_question(payload),
            decisions::NOTE => InboxItem::note(event.clone()),
            _ => None,
        };
        if let Some(item) = item {
            self.update_item(item);
        }
    }

    /// Takes in a row that is new, changed or ended.
    pub fn update_item(&mut self, item: InboxItem) {
        let is_selected = self.selected.as_deref() == Some(item.id());
        let known = self.items.iter().position(|known| known.id() == item.id());
        match (known, &item.ended) {
            // An event may repeat what the snapshot had. It must not make anybody read it again.
            (Some(index), _) if self.items[index] == item => {}
            (Some(index), _) if is_selected => {
                self.items[index] = item;
                self.version += 1;
            }
            // Not the selected one: that stays, so that a key typed at it does not hit another item.
            (Some(index), Some(_)) => drop(self.items.remove(index)),
            (Some(index), None) => self.items[index] = item,
            (None, Some(_)) => {}
            (None, None) => {
                let at = self
                    .items
                    .partition_point(|known| known.order() <= item.order());
                self.items.insert(at, item);
            }
        }
        if known.is_some() {
            self.items.sort_by_key(InboxItem::order);
        }
        self.select_first_if_none();
    }

    /// Takes in everything that is open, after a new connection.
    pub fn replace_items(&mut self, open: Vec<InboxItem>) {
        let ids: BTreeSet<&str> = open.iter().map(InboxItem::id).collect();
        let selected = self.selected.as_deref();
        self.items
            .retain(|item| ids.contains(item.id()) || Some(item.id()) == selected);
        for item in &mut self.items {
            // A note does not end: the selected one is only too old for the list.
            if !ids.contains(item.id()) && item.ended.is_none() && !item.is_note() {
                item.ended = Some("ended while disconnected".into());
                self.version += 1;
            }
        }
        if self.items.is_empty() {
            self.items = open;
            self.items.sort_by_key(InboxItem::order);
            return self.select_first_if_none();
        }
        for item in open {
            let item = self.keep_whole(item);
            self.update_item(item);
        }
    }

    /// A brief row of an ask that is known whole: what was read stays, because what an ask says never changes. The
    /// digest is compared all the same: the next host may be another one, and what is shown is what is allowed.
    fn keep_whole(&self, item: InboxItem) -> InboxItem {
        let known = self.find(item.id()).map(|known| &known.content);
        match (&item.content, known) {
            (InboxContent::Ask(row), Some(InboxContent::Ask(known)))
                if row.brief && !known.brief && row.input_digest == known.input_digest =>
            {
                InboxItem::ask(HostApproval {
                    agent_name: row.agent_name.clone(),
                    client_id: row.client_id.clone(),
                    lapses_at: row.lapses_at,
                    ..(**known).clone()
                })
            }
            _ => item,
        }
    }

    /// Removes the notes that `inbox` no longer lists, save the selected one.
    pub fn drop_old_notes(&mut self, now: Time) {
        let selected = self.selected.as_deref();
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

    /// The person's own decision reached the host: the item goes, the next one is selected.
    pub fn remove_settled(&mut self, id: &str) {
        let Some(index) = self.items.iter().position(|item| item.id() == id) else {
            return;
        };
        self.items.remove(index);
        if self.selected.as_deref() == Some(id) {
            // Notes are after everything else, so the last item before them is next to where this was.
            let waiting = self.items.iter().filter(|item| !item.is_note());
            let next = waiting.take(index + 1).last();
            self.select(next.map(|item| item.id().to_owned()));
        }
    }

    /// Moves the selection by a person's key. What ended and is left behind goes.
    pub fn move_selection(&mut self, steps: isize) {
        let Some(index) = self.selected_index() else {
            let first = self.items.first().map(|item| item.id().to_owned());
            return self.select(first);
        };
        let is_over = self.items[index].ended.is_some();
        let last = self.items.len() - 1;
        let next = index.saturating_add_signed(steps).min(last);
        if next == index && !is_over {
            return;
        }
        let target = if next == index {
            // At the edge there is nowhere to go, save away from something that is over.
            let mut open = self.items.iter().filter(|item| item.ended.is_none());
            open.next().map(|item| item.id().to_owned())
        } else {
            Some(self.items[next].id().to_owned())
        };
        self.items
            .retain(|item| item.ended.is_none() || target.as_deref() == Some(item.id()));
        self.select(target);
    }

    /// Selects an item by a person's key.
    pub fn select(&mut self, id: Option<String>) {
        if self.selected != id {
            self.selected = id;
            self.version += 1;
        }
    }

    /// The next item that waits, after the selected one and from the top again. What is put aside does not count.
    pub fn next_waiting(
        &self,
        now: Time,
        only_agents: Option<&BTreeSet<String>>,
    ) -> Option<String> {
        let start = self.selected_index().map_or(0, |index| index + 1);
        let (before, after) = self.items.split_at(start.min(self.items.len()));
        let mut candidates = after.iter().chain(before);
        let found = candidates.find(|item| {
            let is_wanted = only_agents
                .is_none_or(|agents| agent_of(item).is_some_and(|agent| agents.contains(agent)));
            is_waiting(item) && is_wanted && !self.is_snoozed(item.id(), now)
        });
        found.map(|item| item.id().to_owned())
    }

    fn select_first_if_none(&mut self) {
        // Selects what waits, and no note: an ask that came after it would stand there unselected.
        if self.selected_index().is_none() {
            let mut waiting = self.items.iter().filter(|item| !item.is_note());
            let first = waiting.next().map(|item| item.id().to_owned());
            self.select(first);
        }
    }

    /// An ask that ended. Its event has only the line that names it, so the rest stays as it was shown.
    fn ended_ask(&self, payload: &str) -> Option<InboxItem> {
        let mut row: HostApproval = serde_json::from_str(payload).ok()?;
        let shown = match self.find(&row.id).map(|item| &item.content) {
            Some(InboxContent::Ask(known)) => known.view.clone(),
            _ => None,
        };
        if row.view.as_ref().is_some_and(|view| view.cut) {
            row.view = shown.or(row.view);
        }
        Some(InboxItem::ask(row))
    }

    /// A question that is known here, as an event changes it: it ended, or people are asked as well.
    fn changed_question(&self, payload: &str) -> Option<InboxItem> {
        #[derive(serde::Deserialize)]
        struct Change {
            #[serde(alias = "question")]
            id: String,
            #[serde(default)]
            answer: Option<String>,
            #[serde(default)]
            answered_by: Option<Who>,
            #[serde(default)]
            state: Option<HostQuestionState>,
        }
        let change: Change = serde_json::from_str(payload).ok()?;
        let mut row: HostQuestion = match &self.find(&change.id)?.content {
            InboxContent::Question(row) => (**row).clone(),
            _ => return None,
        };
        // Both events mean it: people are asked now, or the question is over for everybody.
        row.for_people = true;
        row.answer = change.answer;
        row.answered_by = change.answered_by;
        row.state = change.state.unwrap_or(row.state);
        Some(InboxItem::question(row))
    }
}

/// Whether a person is to answer it.
fn is_waiting(item: &InboxItem) -> bool {
    let is_for_people = match &item.content {
        InboxContent::Ask(_) => true,
        InboxContent::Question(row) => row.for_people,
        InboxContent::Note(_) => false,
    };
    is_for_people && item.ended.is_none()
}

/// The agent that an item is about.
pub fn agent_of(item: &InboxItem) -> Option<&str> {
    match &item.content {
        InboxContent::Ask(row) => row.agent_id.as_deref(),
        InboxContent::Question(row) => row.agent_id.as_deref(),
        InboxContent::Note(note) => note.event.agent_id.as_deref(),
    }
}

#[cfg(test)]
mod tests;
