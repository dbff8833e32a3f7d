//! Which screens are in front of somebody and what they show, by the word of the pages themselves. In
//! memory only: after a restart nobody is known to look, and whoever is not known to look is told.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_core::limits::{NOTIFY_FOCUS_MS, NOTIFY_OPENED_MS, NOTIFY_SCREENS_MAX};
use countersign_core::{Door, Timestamp};
use tokio::sync::watch;

/// What somebody looks at, as of one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenFocus {
    /// Until when some screen counts as being looked at.
    focused_until: Option<Timestamp>,
    /// Asks that were opened on a screen, each with the time until which it is not told elsewhere.
    opened: HashMap<String, Timestamp>,
}

impl ScreenFocus {
    /// Until when somebody counts as looking, if somebody does now.
    pub(super) fn focused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.focused_until.filter(|until| now < *until)
    }

    pub(super) fn opened_until(&self, subject: &str) -> Option<Timestamp> {
        self.opened.get(subject).copied()
    }

    #[cfg(test)]
    pub(super) fn focused(until: Timestamp) -> Self {
        Self {
            focused_until: Some(until),
            opened: HashMap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn opened(subject: &str, until: Timestamp) -> Self {
        Self {
            focused_until: None,
            opened: HashMap::from([(subject.to_owned(), until)]),
        }
    }
}

/// A screen on which an ask or a question is open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskViewer {
    /// The id of what is open.
    pub subject: String,
    /// Who looks, under the name that the record has for them.
    pub name: String,
    /// What the user of a browser that logged in calls it.
    pub device: Option<String>,
    pub door: Option<Door>,
}

/// What one page said about itself.
#[derive(Clone, Debug)]
pub(crate) struct ScreenReport {
    /// The page, or rather its connection.
    pub(crate) screen: String,
    pub(crate) focused: bool,
    /// What it shows.
    pub(crate) shown: Option<AskViewer>,
}

/// What the pages reported.
#[derive(Debug, Default)]
pub(crate) struct ScreenReports {
    tables: Mutex<ReportTables>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct ReportTables {
    /// Until when each screen counts as being looked at.
    focused: HashMap<String, Timestamp>,
    opened: HashMap<String, Timestamp>,
    /// What each screen shows, and until when that counts.
    shown: HashMap<String, (AskViewer, Timestamp)>,
}

impl ScreenReports {
    /// A page said whether it is in front, and what it shows.
    pub(crate) fn report(&self, report: ScreenReport, now: Timestamp) {
        let mut tables = self.lock();
        tables.forget_old(now);
        tables.note(report, now);
        drop(tables);
        self.changed.send_replace(());
    }

    /// A connection ended, and its screen with it.
    pub(crate) fn forget(&self, screen: &str) {
        let mut tables = self.lock();
        let was_focused = tables.focused.remove(screen).is_some();
        let was_shown = tables.shown.remove(screen).is_some();
        drop(tables);
        if was_focused || was_shown {
            self.changed.send_replace(());
        }
    }

    /// What is open on other screens than this one, in a fixed order, and when the first of it no
    /// longer counts.
    pub(crate) fn viewers_besides(
        &self,
        screen: &str,
        now: Timestamp,
    ) -> (Vec<AskViewer>, Option<Timestamp>) {
        let mut tables = self.lock();
        tables.forget_old(now);
        let others = tables.shown.iter().filter(|(other, _)| *other != screen);
        let (mut viewers, ends): (Vec<_>, Vec<_>) = others
            .map(|(_, (viewer, until))| (viewer.clone(), *until))
            .unzip();
        viewers.sort_unstable();
        (viewers, ends.into_iter().min())
    }

    pub(crate) fn focus(&self, now: Timestamp) -> ScreenFocus {
        let mut tables = self.lock();
        tables.forget_old(now);
        ScreenFocus {
            focused_until: tables.focused.values().max().copied(),
            opened: tables.opened.clone(),
        }
    }

    /// Fires whenever a page reported something.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, ReportTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportTables {
    fn forget_old(&mut self, now: Timestamp) {
        self.focused.retain(|_, until| now < *until);
        self.opened.retain(|_, until| now < *until);
        self.shown.retain(|_, (_, until)| now < *until);
    }

    fn note(&mut self, report: ScreenReport, now: Timestamp) {
        let ScreenReport {
            screen,
            focused,
            shown,
        } = report;
        let until = now.plus_ms(NOTIFY_FOCUS_MS);
        if !focused {
            self.focused.remove(&screen);
        } else if has_room_for(&self.focused, &screen) {
            self.focused.insert(screen.clone(), until);
        }
        let Some(viewer) = shown else {
            self.shown.remove(&screen);
            return;
        };
        // A page in the background shows it to nobody, so that others are still told.
        if focused && has_room_for(&self.opened, &viewer.subject) {
            let told_after = now.plus_ms(NOTIFY_OPENED_MS);
            self.opened.insert(viewer.subject.clone(), told_after);
        }
        if has_room_for(&self.shown, &screen) {
            self.shown.insert(screen, (viewer, until));
        }
    }
}

fn has_room_for<T>(table: &HashMap<String, T>, key: &str) -> bool {
    table.len() < NOTIFY_SCREENS_MAX || table.contains_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(subject: &str, name: &str) -> AskViewer {
        AskViewer {
            subject: subject.to_owned(),
            name: name.to_owned(),
            device: None,
            door: Some(Door::Web),
        }
    }

    fn report(screen: &str, focused: bool, subject: Option<&str>) -> ScreenReport {
        ScreenReport {
            screen: screen.to_owned(),
            focused,
            shown: subject.map(|subject| viewer(subject, screen)),
        }
    }

    #[test]
    fn a_screen_counts_for_half_a_minute_after_its_last_word() {
        let reports = ScreenReports::default();
        let now = Timestamp(1_000_000);
        assert_eq!(reports.focus(now), ScreenFocus::default());
        reports.report(report("a", true, Some("approval-1")), now);
        let expected = ScreenFocus {
            focused_until: Some(now.plus_ms(NOTIFY_FOCUS_MS)),
            opened: HashMap::from([("approval-1".to_owned(), now.plus_ms(NOTIFY_OPENED_MS))]),
        };
        assert_eq!(reports.focus(now), expected);
        let later = now.plus_ms(NOTIFY_FOCUS_MS);
        assert_eq!(reports.focus(later).focused_until(later), None);
    }

    #[test]
    fn a_screen_that_lost_focus_or_its_connection_no_longer_counts() {
        let reports = ScreenReports::default();
        let now = Timestamp(1);
        reports.report(report("a", true, None), now);
        reports.report(report("b", true, None), now);
        reports.report(report("a", false, Some("approval-1")), now);
        assert!(reports.focus(now).focused_until(now).is_some());
        assert_eq!(reports.focus(now).opened_until("approval-1"), None);
        reports.forget("b");
        assert_eq!(reports.focus(now), ScreenFocus::default());
    }

    #[test]
    fn screens_are_bounded() {
        let reports = ScreenReports::default();
        for number in 0..=NOTIFY_SCREENS_MAX {
            let name = number.to_string();
            reports.report(report(&name, true, Some(&name)), Timestamp(1));
        }
        let tables = reports.lock();
        let sizes = [
            tables.focused.len(),
            tables.opened.len(),
            tables.shown.len(),
        ];
        assert_eq!(sizes, [NOTIFY_SCREENS_MAX; 3]);
    }

    #[test]
    fn what_is_open_elsewhere_is_told_until_its_screen_closes_it() {
        let reports = ScreenReports::default();
        let now = Timestamp(1_000);
        let until = Some(now.plus_ms(NOTIFY_FOCUS_MS));
        reports.report(report("b", true, Some("approval-2")), now);
        // A window behind another one still has it open.
        reports.report(report("a", false, Some("approval-1")), now);
        let (first, second) = (viewer("approval-1", "a"), viewer("approval-2", "b"));
        let seen = |screen| reports.viewers_besides(screen, now);
        assert_eq!(seen("c"), (vec![first, second.clone()], until));
        assert_eq!(seen("a"), (vec![second], until));
        reports.report(report("b", true, None), now);
        assert_eq!(seen("a"), (Vec::new(), None));
        reports.forget("a");
        assert_eq!(seen("c"), (Vec::new(), None));
    }

    #[test]
    fn what_is_open_elsewhere_counts_for_half_a_minute() {
        let reports = ScreenReports::default();
        let now = Timestamp(1_000);
        reports.report(report("a", true, Some("approval-1")), now);
        let later = now.plus_ms(NOTIFY_FOCUS_MS);
        assert_eq!(reports.viewers_besides("b", later), (Vec::new(), None));
    }
}
