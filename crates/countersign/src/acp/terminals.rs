//! Terminals of a followed agent: which run and which ended. The host has no event for them; they are
//! looked for after what lets a command run, and while one runs.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign_agents::editor::SessionEvent;
use countersign_protocol::{HostEvent, TerminalRow};
use tokio::time::Instant;

/// When terminals are looked for after a command was allowed.
const AFTER_ALLOW: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(8),
];
/// How often they are looked for while one runs.
const WHILE_RUNNING: Duration = Duration::from_secs(2);

/// Events after which a command may begin.
const BEGINNINGS: [&str; 2] = ["approval.pass_used", "approval.resolved"];

/// See the module.
#[derive(Default)]
pub(super) struct TerminalWatch {
    /// When to look, soonest first.
    due: Vec<Instant>,
    /// Terminals that were told, and whether their end was.
    known: BTreeMap<String, bool>,
    /// Whether those that are there at first were left aside.
    has_begun: bool,
}

impl TerminalWatch {
    pub(super) fn note_event(&mut self, event: &HostEvent) {
        if BEGINNINGS.contains(&event.kind.as_str()) {
            let now = Instant::now();
            self.due = AFTER_ALLOW.map(|after| now + after).to_vec();
        }
    }

    /// When to look next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().copied()
    }

    /// What is new in a list of all terminals.
    pub(super) fn compare(&mut self, rows: Vec<TerminalRow>) -> Vec<SessionEvent> {
        let now = Instant::now();
        self.due.retain(|due| *due > now);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let mut events = Vec::new();
        for row in rows {
            let has_ended = row.ended_at.is_some();
            // What ended before anybody looked belongs to the past.
            let is_old = is_first && has_ended;
            let told = self.known.get(&row.id).copied();
            if told.is_none() && !is_old {
                events.push(SessionEvent::TerminalOpened {
                    id: row.id.clone(),
                    command: row.command,
                });
            }
            if told != Some(true) && has_ended && !is_old {
                events.push(SessionEvent::TerminalEnded {
                    id: row.id.clone(),
                    succeeded: row.exit_code == Some(0),
                });
            }
            self.known.insert(row.id, has_ended);
        }
        if self.due.is_empty() && self.known.values().any(|has_ended| !has_ended) {
            self.due.push(now + WHILE_RUNNING);
        }
        events
    }
}
