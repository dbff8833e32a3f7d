//! One connection, and everything that was ever found out about its other end.
//!
//! Invariant: findings are added and never removed. Once an agent held the other end, the
//! connection stays that agent's; once its holder could not be identified, it stays unidentified.

use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use countersign_core::AgentId;
use countersign_core::event::ProcessKey;
use tokio::sync::OwnedSemaphorePermit;

use crate::peer::{SocketDescriptor, SocketFacts, TcpEnds};

/// Processes that may have held the other end of one connection, with their ancestors. No honest
/// client passes its connection on this often, and the list must not grow without bound.
const PROCESSES_MAX: usize = 1024;

/// The other end of a connection, as the kernel names it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConnectionPeer {
    /// A process on the Unix socket, as it was when it connected: its number may be another's
    /// later.
    Unix {
        uid: u32,
        process: Option<ProcessKey>,
    },
    /// A TCP connection.
    Tcp(TcpEnds),
}

/// Why the process at the other end cannot be identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnnamedReason {
    /// The socket exists, and no process that we may read holds it.
    Hidden,
    /// No process holds it any more, or it never was on this machine.
    Closed,
    /// Another user created or holds it.
    OtherUser,
    /// The process that connected has ended.
    Ended,
    /// Its process has more ancestors than are read.
    TooDeep,
    /// Ancestors of its process ended each time they were read.
    Changing,
    /// Too many processes held it.
    PassedAround,
    /// It was created in a cgroup that was removed.
    CreatorUnknown,
}

impl fmt::Display for UnnamedReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Hidden => "no process is seen to hold its socket",
            Self::Closed => "it closed its end",
            Self::OtherUser => "it is another user's",
            Self::Ended => "it has ended",
            Self::TooDeep => "it is nested too deeply",
            Self::Changing => "what started it changed while it was looked at",
            Self::PassedAround => "its socket went through too many processes",
            Self::CreatorUnknown => "its socket was created in a cgroup that is no longer there",
        })
    }
}

/// A process that holds the other end, and what it descends from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerHolder {
    /// Its descriptor; on the Unix socket the kernel names the process without one.
    pub(crate) descriptor: Option<SocketDescriptor>,
    /// The process and everything above it, itself first.
    pub(crate) chain: Vec<ProcessKey>,
    /// Whether it runs as another user.
    pub(crate) is_foreign: bool,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct PeerRecord {
    /// The socket at the other end, as the kernel described it first.
    pub(super) socket: Option<SocketFacts>,
    /// Who held it when it was last looked at.
    pub(super) holders: Vec<PeerHolder>,
    /// Every process that ever held it, with all above them.
    pub(super) seen: Vec<ProcessKey>,
    pub(super) creator_checked: bool,
    pub(super) agent: Option<AgentId>,
    pub(super) unnamed: Option<UnnamedReason>,
    /// Rises with everything that is found anew.
    pub(super) version: u64,
    /// The version of trust and of this record that were last judged.
    pub(super) judged: Option<(u64, u64)>,
}

impl PeerRecord {
    pub(super) fn note_unnamed(&mut self, reason: UnnamedReason) {
        // The first reason stays, so that the same caller gets the same error each time, and its
        // version does not rise with every look.
        if self.unnamed.is_none() {
            self.unnamed = Some(reason);
            self.version += 1;
        }
    }

    pub(super) fn note_agent(&mut self, agent: AgentId) {
        // The first agent stays: one that holds the socket later does not take over what it began.
        if self.agent.is_none() {
            self.agent = Some(agent);
            self.version += 1;
        }
    }

    pub(super) fn note_holders(&mut self, holders: Vec<PeerHolder>) {
        if holders == self.holders {
            return;
        }
        self.version += 1;
        // Processes stay in `seen` after they let the socket go: an agent that passed its
        // connection on may be recognised as one only later.
        for process in holders.iter().flat_map(|holder| &holder.chain) {
            if self.seen.len() <= PROCESSES_MAX && !self.seen.contains(process) {
                self.seen.push(*process);
            }
        }
        self.holders = holders;
        if self.seen.len() > PROCESSES_MAX {
            self.note_unnamed(UnnamedReason::PassedAround);
        }
    }

    /// A number of the kernel's own says whether it is still the same socket.
    pub(super) fn note_socket(&mut self, facts: SocketFacts) {
        match self.socket {
            None => self.socket = Some(facts),
            Some(first) if is_same_socket(first, facts) => {}
            // Another socket now has the same two addresses: the one that was accepted is closed.
            Some(_) => self.note_unnamed(UnnamedReason::Closed),
        }
    }
}

/// The kernel's table, which is read where it cannot be asked, has no cookies.
fn is_same_socket(first: SocketFacts, now: SocketFacts) -> bool {
    let cookies = first.cookie.zip(now.cookie);
    first.inode == now.inode && cookies.is_none_or(|(first, now)| first == now)
}

/// A connection and what was found out about its other end.
pub(crate) struct CallerConnection {
    pub(crate) peer: ConnectionPeer,
    /// Held as long as anything of the connection lives, its upgrade included.
    permit: OnceLock<OwnedSemaphorePermit>,
    record: Mutex<PeerRecord>,
}

impl CallerConnection {
    pub(crate) fn new(peer: ConnectionPeer) -> Self {
        Self {
            peer,
            permit: OnceLock::new(),
            record: Mutex::default(),
        }
    }

    /// Holds the connection's permit until the connection ends.
    pub(crate) fn hold_permit(&self, permit: OwnedSemaphorePermit) {
        // Called once for each connection, so it is not set yet.
        drop(self.permit.set(permit));
    }

    /// Whether the other end is on the Unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.peer, ConnectionPeer::Unix { .. })
    }

    /// From now on the connection is this agent's.
    pub(super) fn note_agent(&self, agent: AgentId) {
        self.record().note_agent(agent);
    }

    /// Rises with everything that is found out about the other end.
    pub(super) fn version(&self) -> u64 {
        self.record().version
    }

    /// Those that hold the other end, each followed by what is above it.
    pub(super) fn holder_processes(&self) -> Vec<ProcessKey> {
        let record = self.record();
        let chains = record.holders.iter().map(|holder| holder.chain.as_slice());
        chains.collect::<Vec<_>>().concat()
    }

    pub(super) fn record(&self) -> MutexGuard<'_, PeerRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32) -> PeerHolder {
        let process = |pid| ProcessKey { pid, start_time: 1 };
        PeerHolder {
            descriptor: Some(SocketDescriptor { pid, number: 3 }),
            chain: vec![process(pid), process(1)],
            is_foreign: false,
        }
    }

    #[test]
    fn nothing_that_was_found_is_taken_back() {
        let mut record = PeerRecord::default();
        record.note_holders(vec![holder(7)]);
        let version = record.version;
        record.note_holders(vec![holder(7)]);
        assert_eq!(record.version, version, "nothing is new");
        record.note_holders(vec![holder(8)]);
        let seen: Vec<u32> = record.seen.iter().map(|process| process.pid).collect();
        assert_eq!((seen, record.holders), (vec![7, 1, 8], vec![holder(8)]));

        let mut record = PeerRecord::default();
        record.note_unnamed(UnnamedReason::Hidden);
        record.note_unnamed(UnnamedReason::Closed);
        record.note_holders(vec![holder(7)]);
        record.note_agent(AgentId::new("first"));
        record.note_agent(AgentId::new("second"));
        assert_eq!(record.unnamed, Some(UnnamedReason::Hidden));
        assert_eq!(record.agent, Some(AgentId::new("first")));
    }

    #[test]
    fn another_socket_between_the_same_ports_is_not_taken_for_the_first() {
        let first = SocketFacts {
            inode: 5,
            uid: 1000,
            cookie: Some(9),
            cgroup: None,
        };
        let noted = |facts| {
            let mut record = PeerRecord::default();
            record.note_socket(first);
            record.note_socket(facts);
            record.unnamed
        };
        assert_eq!(noted(first), None);
        let by_table = SocketFacts {
            cookie: None,
            ..first
        };
        assert_eq!(noted(by_table), None);
        for other in [
            SocketFacts { inode: 6, ..first },
            SocketFacts {
                cookie: Some(10),
                ..first
            },
        ] {
            assert_eq!(noted(other), Some(UnnamedReason::Closed));
        }
    }

    #[test]
    fn a_connection_that_goes_through_very_many_processes_is_refused() {
        let mut record = PeerRecord::default();
        for pid in 2..2000 {
            record.note_holders(vec![holder(pid)]);
        }
        assert_eq!(record.unnamed, Some(UnnamedReason::PassedAround));
    }
}
