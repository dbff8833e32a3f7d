//! Which screens are in front of somebody, by the word of the pages themselves. In memory only: after a
//! restart nobody is known to look, and whoever is not known to look is told.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_core::Timestamp;
use countersign_core::limits::{NOTIFY_FOCUS_MS, NOTIFY_OPENED_MS, NOTIFY_SCREENS_MAX};
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
}

impl ScreenReports {
    /// A page said whether it is in front, and what it shows.
    pub(crate) fn report(
        &self,
        screen: &str,
        focused: bool,
        subject: Option<&str>,
        now: Timestamp,
    ) {
        let mut tables = self.lock();
        tables.forget_old(now);
        let ReportTables {
            focused: screens,
            opened,
        } = &mut *tables;
        if !focused {
            screens.remove(screen);
        } else if screens.len() < NOTIFY_SCREENS_MAX || screens.contains_key(screen) {
            screens.insert(screen.to_owned(), now.plus_ms(NOTIFY_FOCUS_MS));
        }
        // A page in the background shows it to nobody.
        if let Some(subject) = subject.filter(|_| focused && opened.len() < NOTIFY_SCREENS_MAX) {
            opened.insert(subject.to_owned(), now.plus_ms(NOTIFY_OPENED_MS));
        }
        drop(tables);
        self.changed.send_replace(());
    }

    /// A connection ended, and its screen with it.
    pub(crate) fn forget(&self, screen: &str) {
        if self.lock().focused.remove(screen).is_some() {
            self.changed.send_replace(());
        }
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_counts_for_half_a_minute_after_its_last_word() {
        let reports = ScreenReports::default();
        let now = Timestamp(1_000_000);
        assert_eq!(reports.focus(now), ScreenFocus::default());
        reports.report("a", true, Some("approval-1"), now);
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
        reports.report("a", true, None, now);
        reports.report("b", true, None, now);
        reports.report("a", false, Some("approval-1"), now);
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
            reports.report(&name, true, Some(&name), Timestamp(1));
        }
        let tables = reports.lock();
        let sizes = (tables.focused.len(), tables.opened.len());
        assert_eq!(sizes, (NOTIFY_SCREENS_MAX, NOTIFY_SCREENS_MAX));
    }
}
