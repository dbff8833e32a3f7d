//! Connections that wait for a host's word.
//!
//! Invariants: one place is asked about once, however many connections wait for it; nothing is let through that no
//! host allowed; what was allowed when nobody waited any more counts for the next try, once.

use std::collections::{BTreeMap, VecDeque};

use countersign_core::limits::{NETWORK_ANSWERS_KEPT, NETWORK_HOLDS_MAX, NETWORK_PASSES_MAX};
use tokio::sync::oneshot;

use super::request::ConnectTarget;

#[derive(Debug, Default)]
pub(in crate::runner) struct HeldConnections {
    made: u64,
    open: BTreeMap<u64, HeldPlace>,
    /// Places that may be connected to once.
    passes: VecDeque<ConnectTarget>,
    /// The newest answers: a host that lost its link gives them again.
    answered: VecDeque<(u64, bool)>,
}

#[derive(Debug)]
struct HeldPlace {
    target: ConnectTarget,
    waiters: Vec<oneshot::Sender<bool>>,
}

/// What becomes of a new connection.
#[derive(Debug)]
pub(in crate::runner) enum HoldStart {
    /// It was allowed before.
    Pass,
    /// It waits; a number is that of a new hold, of which a host has to be told.
    Wait(oneshot::Receiver<bool>, Option<u64>),
    /// Too many places wait.
    Full,
}

impl HeldConnections {
    pub(in crate::runner) fn begin(&mut self, target: &ConnectTarget) -> HoldStart {
        if let Some(at) = self.passes.iter().position(|pass| pass == target) {
            self.passes.remove(at);
            return HoldStart::Pass;
        }
        let (waiter, answer) = oneshot::channel();
        if let Some(held) = self.open.values_mut().find(|held| held.target == *target) {
            held.waiters.retain(|waiter| !waiter.is_closed());
            held.waiters.push(waiter);
            return HoldStart::Wait(answer, None);
        }
        if self.open.len() >= NETWORK_HOLDS_MAX {
            return HoldStart::Full;
        }
        self.made += 1;
        let held = HeldPlace {
            target: target.clone(),
            waiters: vec![waiter],
        };
        self.open.insert(self.made, held);
        HoldStart::Wait(answer, Some(self.made))
    }

    /// What a host says about a hold. False if it is not known, so that nothing came of it.
    pub(in crate::runner) fn release(&mut self, hold: u64, allow: bool) -> bool {
        let Some(held) = self.open.remove(&hold) else {
            return self.answered.contains(&(hold, allow));
        };
        keep_newest(&mut self.answered, (hold, allow), NETWORK_ANSWERS_KEPT);
        let mut told = 0;
        for waiter in held.waiters {
            told += usize::from(waiter.send(allow).is_ok());
        }
        if allow && told == 0 {
            keep_newest(&mut self.passes, held.target, NETWORK_PASSES_MAX);
        }
        true
    }

    /// Everything that waits, for a host that comes.
    pub(in crate::runner) fn list(&self) -> Vec<(u64, ConnectTarget)> {
        let open = self.open.iter();
        open.map(|(hold, held)| (*hold, held.target.clone()))
            .collect()
    }
}

fn keep_newest<T>(list: &mut VecDeque<T>, item: T, count: usize) {
    if list.len() >= count {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::super::request::ConnectHost;
    use super::*;

    fn target(port: u16) -> ConnectTarget {
        let host = ConnectHost::Domain("docs.rs".to_owned());
        ConnectTarget { host, port }
    }

    fn wait(start: HoldStart) -> (oneshot::Receiver<bool>, Option<u64>) {
        match start {
            HoldStart::Wait(answer, hold) => (answer, hold),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_place_is_asked_about_once() {
        let mut holds = HeldConnections::default();
        let (mut first, hold) = wait(holds.begin(&target(443)));
        let (mut second, none) = wait(holds.begin(&target(443)));
        let (mut other, another) = wait(holds.begin(&target(80)));
        assert_eq!((hold, none, another), (Some(1), None, Some(2)));
        assert_eq!(holds.list(), [(1, target(443)), (2, target(80))]);
        assert!(holds.release(1, true));
        assert_eq!(first.try_recv(), Ok(true));
        assert_eq!(second.try_recv(), Ok(true));
        assert!(other.try_recv().is_err());
        // An answer that is given again changes nothing, and another one is not taken.
        assert!(holds.release(1, true));
        assert!(!holds.release(1, false));
        assert!(!holds.release(9, true));
    }

    #[test]
    fn a_late_allow_counts_once() {
        let mut holds = HeldConnections::default();
        drop(wait(holds.begin(&target(443))));
        assert!(holds.release(1, true));
        assert!(matches!(
            holds.begin(&target(80)),
            HoldStart::Wait(_, Some(2))
        ));
        assert!(matches!(holds.begin(&target(443)), HoldStart::Pass));
        assert!(matches!(
            holds.begin(&target(443)),
            HoldStart::Wait(_, Some(3))
        ));
        drop(wait(holds.begin(&target(443))));
        assert!(holds.release(3, false));
        assert!(matches!(
            holds.begin(&target(443)),
            HoldStart::Wait(_, Some(4))
        ));
    }

    #[test]
    fn a_flood_of_places_is_refused() {
        let mut holds = HeldConnections::default();
        let ports = 1..=u16::try_from(NETWORK_HOLDS_MAX).unwrap();
        let _waiting: Vec<_> = ports.map(|port| wait(holds.begin(&target(port)))).collect();
        assert!(matches!(holds.begin(&target(9999)), HoldStart::Full));
        assert!(holds.release(1, false));
        assert!(matches!(holds.begin(&target(9999)), HoldStart::Wait(..)));
    }
}
