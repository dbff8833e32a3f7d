//! What waits for a host's word: connections out of a sandbox, and opens outside of its roots.
//!
//! Invariants: one thing is asked about once, however many wait for it; nothing is let through that no host allowed;
//! what was allowed when nobody waited any more counts for the next try, once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use countersign_core::limits::{HOLD_ANSWERS_KEPT, HOLD_PASSES_MAX, HOLDS_MAX};
use countersign_sandbox::OpenKind;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Runner;
use super::proxy::ConnectTarget;
use super::wire::{VERSION_WITH_HELD_OPENS, VERSION_WITH_HOLDS};

/// What is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HeldTarget {
    /// A connection to this place.
    Connect(ConnectTarget),
    /// An open outside of the roots.
    Open(HeldFile),
}

/// A file that a program would write, or a folder that it would make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFile {
    /// Without links.
    pub path: String,
    pub kind: OpenKind,
    /// The command line of the program, as it says itself.
    pub command: String,
}

impl HeldTarget {
    /// Whether one answer is for both. A command line is only what a program says of itself.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Connect(one), Self::Connect(other)) => one == other,
            (Self::Open(one), Self::Open(other)) => {
                (&one.path, one.kind) == (&other.path, other.kind)
            }
            _ => false,
        }
    }

    /// The first version of the link in which hosts know of such a target.
    pub(super) fn first_version(&self) -> u32 {
        match self {
            Self::Connect(_) => VERSION_WITH_HOLDS,
            Self::Open(_) => VERSION_WITH_HELD_OPENS,
        }
    }
}

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldOutcome {
    Allowed,
    Denied,
    /// Nobody decided in time. An allow that comes later counts for the next try.
    NotDecided,
    /// Too much waits already.
    TooMany,
}

impl Runner {
    /// Waits for a host's word, at most for `hold`.
    pub(super) async fn wait_for_word(&self, target: HeldTarget, hold: Duration) -> HoldOutcome {
        if hold.is_zero() {
            return HoldOutcome::Denied;
        }
        let answer = {
            let mut state = self.state();
            match state.holds.begin(&target) {
                HoldStart::Pass => return HoldOutcome::Allowed,
                HoldStart::Full => return HoldOutcome::TooMany,
                HoldStart::Wait(answer, None) => answer,
                HoldStart::Wait(answer, Some(hold)) => {
                    state.send_hold(hold, target);
                    answer
                }
            }
        };
        match timeout(hold, answer).await {
            Ok(Ok(true)) => HoldOutcome::Allowed,
            Ok(_) => HoldOutcome::Denied,
            Err(_) => HoldOutcome::NotDecided,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct HeldRequests {
    made: u64,
    open: BTreeMap<u64, HeldRequest>,
    /// What may be done once.
    passes: VecDeque<HeldTarget>,
    /// The newest answers: a host that lost its link gives them again.
    answered: VecDeque<(u64, bool)>,
}

#[derive(Debug)]
struct HeldRequest {
    target: HeldTarget,
    waiters: Vec<oneshot::Sender<bool>>,
}

/// What becomes of a new request.
#[derive(Debug)]
enum HoldStart {
    /// It was allowed before.
    Pass,
    /// It waits; a number is that of a new hold, of which a host has to be told.
    Wait(oneshot::Receiver<bool>, Option<u64>),
    /// Too many wait.
    Full,
}

impl HeldRequests {
    fn begin(&mut self, target: &HeldTarget) -> HoldStart {
        if let Some(at) = self.passes.iter().position(|pass| pass.is_same(target)) {
            self.passes.remove(at);
            return HoldStart::Pass;
        }
        let (waiter, answer) = oneshot::channel();
        let mut open = self.open.values_mut();
        if let Some(held) = open.find(|held| held.target.is_same(target)) {
            // A program that tries again and again leaves a closed waiter behind each time.
            held.waiters.retain(|waiter| !waiter.is_closed());
            held.waiters.push(waiter);
            return HoldStart::Wait(answer, None);
        }
        if self.open.len() >= HOLDS_MAX {
            return HoldStart::Full;
        }
        self.made += 1;
        let held = HeldRequest {
            target: target.clone(),
            waiters: vec![waiter],
        };
        self.open.insert(self.made, held);
        HoldStart::Wait(answer, Some(self.made))
    }

    /// What a host says about a hold. False if it is not known, so that nothing came of it.
    pub(super) fn release(&mut self, hold: u64, allow: bool) -> bool {
        let Some(held) = self.open.remove(&hold) else {
            // A host that lost its link does not know whether its answer arrived, and repeats it.
            return self.answered.contains(&(hold, allow));
        };
        keep_newest(&mut self.answered, (hold, allow), HOLD_ANSWERS_KEPT);
        let mut told = 0;
        for waiter in held.waiters {
            told += usize::from(waiter.send(allow).is_ok());
        }
        // The program gave up waiting and gets the answer when it tries again. A denial is not
        // kept: the next try is a new question.
        if allow && told == 0 {
            keep_newest(&mut self.passes, held.target, HOLD_PASSES_MAX);
        }
        true
    }

    /// Everything that waits, for a host that comes.
    pub(super) fn list(&self) -> Vec<(u64, HeldTarget)> {
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
    use super::super::proxy::ConnectHost;
    use super::*;

    fn target(port: u16) -> HeldTarget {
        let host = ConnectHost::Domain("docs.rs".to_owned());
        HeldTarget::Connect(ConnectTarget { host, port })
    }

    fn file(path: &str, kind: OpenKind, command: &str) -> HeldTarget {
        HeldTarget::Open(HeldFile {
            path: path.to_owned(),
            kind,
            command: command.to_owned(),
        })
    }

    #[test]
    fn a_file_is_asked_about_once_whatever_program_opens_it() {
        let mut holds = HeldRequests::default();
        let first = file("/etc/hosts", OpenKind::File, "tee /etc/hosts");
        drop(wait(holds.begin(&first)));
        let (_, none) = wait(holds.begin(&file("/etc/hosts", OpenKind::File, "sed")));
        let (_, folder) = wait(holds.begin(&file("/etc/hosts", OpenKind::Folder, "mkdir")));
        assert_eq!((none, folder), (None, Some(2)));
        assert_eq!(holds.list()[0], (1, first));
        let read = |target: &HeldTarget| -> HeldTarget {
            serde_json::from_str(&serde_json::to_string(target).unwrap()).unwrap()
        };
        for target in [target(443), file("/a", OpenKind::Folder, "")] {
            assert_eq!(read(&target), target);
        }
    }

    fn wait(start: HoldStart) -> (oneshot::Receiver<bool>, Option<u64>) {
        match start {
            HoldStart::Wait(answer, hold) => (answer, hold),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_place_is_asked_about_once() {
        let mut holds = HeldRequests::default();
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
        let mut holds = HeldRequests::default();
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
        let mut holds = HeldRequests::default();
        let ports = 1..=u16::try_from(HOLDS_MAX).unwrap();
        let _waiting: Vec<_> = ports.map(|port| wait(holds.begin(&target(port)))).collect();
        assert!(matches!(holds.begin(&target(9999)), HoldStart::Full));
        assert!(holds.release(1, false));
        assert!(matches!(holds.begin(&target(9999)), HoldStart::Wait(..)));
    }
}
