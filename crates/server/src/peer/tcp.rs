//! The processes at the client end of a TCP connection from this machine.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::socket::{SocketFacts, SocketTable};
use super::socket_holders::{SocketDescriptor, SocketHolders, scan};

/// The two ends of a connection, as the accepting side sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpEnds {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Finds the processes that hold the other ends of connections, cheaply for many at once.
#[derive(Debug, Default)]
pub(crate) struct TcpPeers {
    sockets: Mutex<SocketTable>,
    holders: Mutex<SocketHolders>,
    scans: ScanQueue,
}

impl TcpPeers {
    /// What the kernel knows about the client's socket. `None` if no process has it open any more,
    /// or if it never was on this machine.
    pub(crate) fn describe(&self, ends: TcpEnds) -> io::Result<Option<SocketFacts>> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        // The client's socket has our ends the other way round.
        sockets.find(ends.peer, ends.local)
    }

    /// Holders of a socket, found with what is remembered about processes. Each held it during the
    /// call, and those that inherited it are included. A process that got it from an unrelated one
    /// may be missed.
    pub(crate) async fn find_some(self: &Arc<Self>, inode: u64) -> Vec<SocketDescriptor> {
        let peers = self.clone();
        let searching = tokio::task::spawn_blocking(move || {
            // A poisoned lock is used all the same: every answer is verified, whatever a thread
            // that panicked left in the memory.
            let mut holders = peers.holders.lock().unwrap_or_else(PoisonError::into_inner);
            holders.find(inode)
        });
        searching.await.unwrap_or_default()
    }

    /// All holders of a socket, by a scan of all processes that begins after the call.
    pub(crate) async fn find_all(&self, inode: u64) -> Vec<SocketDescriptor> {
        self.scans.find(inode).await
    }
}

/// Runs one scan at a time. Callers that come while one runs share the next.
#[derive(Debug, Default)]
struct ScanQueue {
    waiting: Mutex<Vec<ScanWaiter>>,
    turn: tokio::sync::Mutex<()>,
}

type ScanWaiter = (u64, oneshot::Sender<Vec<SocketDescriptor>>);

impl ScanQueue {
    async fn find(&self, inode: u64) -> Vec<SocketDescriptor> {
        let (sender, found) = oneshot::channel();
        // Queued before waiting for the turn: the scan that takes this caller from the queue begins
        // after it came, so its result is not older than the question.
        self.lock().push((inode, sender));
        let turn = self.turn.lock().await;
        // The first of those who waited scans for all of them. The others then find the queue empty
        // and their answer ready.
        let waiters = std::mem::take(&mut *self.lock());
        if !waiters.is_empty() {
            let scanning = tokio::task::spawn_blocking(move || serve(waiters));
            // If it fails, the senders are dropped: each waiter finds no holder, and its caller is
            // refused.
            drop(scanning.await);
        }
        drop(turn);
        found.await.unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<ScanWaiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(waiters: Vec<ScanWaiter>) {
    let wanted: HashSet<u64> = waiters.iter().map(|(inode, _)| *inode).collect();
    let found = scan(&wanted);
    for (inode, waiter) in waiters {
        let holders = found.get(&inode).cloned().unwrap_or_default();
        // A caller that closed its connection meanwhile needs no answer.
        drop(waiter.send(holders));
    }
}
