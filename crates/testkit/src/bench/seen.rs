//! Ticks: the numbered notifications that the producer sends and every subscriber must see once, in order.

use std::borrow::Cow;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(super) const KIND: &str = "bench.tick";

/// The payload of a tick. `run` tells it from what an earlier load left in the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tick {
    pub(super) run: u64,
    pub(super) n: usize,
}

/// What one subscriber saw of a run.
#[derive(Debug, Default)]
pub(super) struct SeenTicks {
    run: u64,
    seen: Vec<bool>,
    last_sequence: u64,
    /// Different ticks.
    pub(super) received: u64,
    pub(super) repeated: u64,
    /// Its `sequence` did not rise.
    pub(super) out_of_order: u64,
}

/// Only what is checked is read; the rest of the frame is skipped unparsed, since this runs for every delivery.
#[derive(Deserialize)]
struct EventFrame<'a> {
    #[serde(borrow)]
    params: Option<EventParams<'a>>,
}

#[derive(Deserialize)]
struct EventParams<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    sequence: u64,
}

impl SeenTicks {
    pub(super) fn new(run: u64) -> Self {
        Self {
            run,
            ..Self::default()
        }
    }

    /// Takes in one frame; returns whether it was a tick of this run.
    pub(super) fn observe(&mut self, text: &str) -> Result<bool> {
        let frame: EventFrame = serde_json::from_str(text)
            .with_context(|| format!("could not read event `{text:.200}`"))?;
        let Some(event) = frame.params.filter(|event| event.kind == KIND) else {
            return Ok(false);
        };
        let payload = event.payload.context("a tick has no payload")?;
        let tick: Tick = serde_json::from_str(payload.get())?;
        if tick.run != self.run {
            return Ok(false);
        }
        self.out_of_order += u64::from(event.sequence <= self.last_sequence);
        self.last_sequence = event.sequence;
        if self.seen.len() <= tick.n {
            self.seen.resize(tick.n + 1, false);
        }
        if std::mem::replace(&mut self.seen[tick.n], true) {
            self.repeated += 1;
        } else {
            self.received += 1;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64, n: usize) -> String {
        let payload = Tick { run: 9, n };
        serde_json::json!({
            "jsonrpc": "2.0",
            "method": "host.event",
            "params": { "id": "event-1", "kind": KIND, "message": "", "payload": payload, "sequence": sequence },
        })
        .to_string()
    }

    fn counts(events: &[(u64, usize)]) -> [u64; 3] {
        let mut seen = SeenTicks::new(9);
        for (sequence, n) in events {
            assert!(seen.observe(&event(*sequence, *n)).unwrap());
        }
        [seen.received, seen.repeated, seen.out_of_order]
    }

    #[test]
    fn what_came_once_and_in_order_is_clean() {
        assert_eq!(counts(&[(1, 0), (4, 2), (5, 1)]), [3, 0, 0]);
    }

    #[test]
    fn a_repeat_is_not_received_again() {
        assert_eq!(counts(&[(1, 0), (2, 0)]), [1, 1, 0]);
    }

    #[test]
    fn a_falling_sequence_is_out_of_order() {
        assert_eq!(counts(&[(2, 1), (1, 0)]), [2, 0, 1]);
    }

    #[test]
    fn other_events_and_other_runs_are_passed_over() {
        let mut seen = SeenTicks::new(9);
        let other =
            r#"{"method":"host.event","params":{"kind":"approval.requested","payload":"x"}}"#;
        assert!(!seen.observe(other).unwrap());
        let other_run = event(1, 0).replace("\"run\":9", "\"run\":8");
        assert!(!seen.observe(&other_run).unwrap());
    }
}
