//! Ticks: the numbered notifications that producers send and every subscriber must see once, in order.

use std::borrow::Cow;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(super) const KIND: &str = "bench.tick";

/// The payload of a tick. `run` keeps apart what an earlier load left in the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tick {
    pub(super) run: u64,
    pub(super) producer: usize,
    pub(super) n: u64,
}

/// What one subscriber saw of a run.
#[derive(Debug)]
pub(super) struct Seen {
    run: u64,
    producers: Vec<SeenOfProducer>,
    last_sequence: Option<u64>,
    pub(super) repeated: u64,
    /// Its `sequence` did not rise.
    pub(super) out_of_order: u64,
    /// A later tick of the same producer came first.
    pub(super) overtaken: u64,
}

#[derive(Debug, Default)]
struct SeenOfProducer {
    /// One bit for each `n`.
    bits: Vec<u64>,
    distinct: u64,
    highest: Option<u64>,
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
    sequence: Option<u64>,
}

impl Seen {
    pub(super) fn new(run: u64, producers: usize) -> Self {
        Self {
            run,
            producers: (0..producers).map(|_| SeenOfProducer::default()).collect(),
            last_sequence: None,
            repeated: 0,
            out_of_order: 0,
            overtaken: 0,
        }
    }

    /// Takes in one frame; says whether it was a tick of this run.
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
        self.check_sequence(event.sequence);
        self.mark(tick)?;
        Ok(true)
    }

    /// The oldest hosts number no events; then only producers' own numbers can tell.
    fn check_sequence(&mut self, sequence: Option<u64>) {
        let Some(sequence) = sequence else { return };
        if self.last_sequence.is_some_and(|last| sequence <= last) {
            self.out_of_order += 1;
        }
        self.last_sequence = Some(sequence);
    }

    fn mark(&mut self, tick: Tick) -> Result<()> {
        let seen = self
            .producers
            .get_mut(tick.producer)
            .context("a tick is from a producer that does not exist")?;
        if !seen.mark(tick.n)? {
            self.repeated += 1;
        } else if seen.highest > Some(tick.n) {
            self.overtaken += 1;
        }
        seen.highest = seen.highest.max(Some(tick.n));
        Ok(())
    }

    pub(super) fn received(&self) -> u64 {
        self.producers.iter().map(|seen| seen.distinct).sum()
    }

    /// How many of the ticks that the host acknowledged, by producer, never came.
    pub(super) fn lost(&self, acknowledged: &[u64]) -> u64 {
        self.producers
            .iter()
            .zip(acknowledged)
            .map(|(seen, acknowledged)| acknowledged.saturating_sub(seen.distinct))
            .sum()
    }
}

impl SeenOfProducer {
    /// Whether it was new.
    fn mark(&mut self, n: u64) -> Result<bool> {
        let word = usize::try_from(n / 64)?;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        let bit = 1 << (n % 64);
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.distinct += u64::from(new);
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64, producer: usize, n: u64) -> String {
        let payload = Tick {
            run: 9,
            producer,
            n,
        };
        serde_json::json!({
            "jsonrpc": "2.0",
            "method": "host.event",
            "params": { "id": "event-1", "kind": KIND, "message": "", "payload": payload, "sequence": sequence },
        })
        .to_string()
    }

    fn seen(events: &[(u64, usize, u64)]) -> Seen {
        let mut seen = Seen::new(9, 2);
        for (sequence, producer, n) in events {
            assert!(seen.observe(&event(*sequence, *producer, *n)).unwrap());
        }
        seen
    }

    #[test]
    fn what_came_once_and_in_order_is_clean() {
        let seen = seen(&[(1, 0, 0), (4, 1, 0), (5, 0, 1)]);
        assert_eq!((seen.received(), seen.lost(&[2, 1])), (3, 0));
        assert_eq!(
            (seen.repeated, seen.out_of_order, seen.overtaken),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_gap_is_a_loss() {
        assert_eq!(seen(&[(1, 0, 0), (3, 0, 2)]).lost(&[3, 1]), 2);
    }

    #[test]
    fn a_repeat_does_not_make_up_for_a_loss() {
        let seen = seen(&[(1, 0, 0), (2, 0, 0)]);
        assert_eq!((seen.repeated, seen.lost(&[2, 0])), (1, 1));
    }

    #[test]
    fn a_falling_sequence_is_out_of_order_and_a_falling_number_was_overtaken() {
        let seen = seen(&[(2, 0, 1), (1, 0, 0)]);
        assert_eq!((seen.out_of_order, seen.overtaken), (1, 1));
    }

    #[test]
    fn other_events_and_other_runs_are_passed_over() {
        let mut seen = Seen::new(9, 1);
        let other =
            r#"{"method":"host.event","params":{"kind":"approval.requested","payload":"x"}}"#;
        assert!(!seen.observe(other).unwrap());
        assert!(
            !seen
                .observe(&event(1, 0, 0).replace("\"run\":9", "\"run\":8"))
                .unwrap()
        );
    }
}
