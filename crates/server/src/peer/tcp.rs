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

/// Finds who holds the other end of connections, and remembers enough to do so cheaply for many at once.
#[derive(Debug, Default)]
pub(crate) struct TcpPeers {
    sockets: Mutex<SocketTable>,
    holders: Mutex<SocketHolders>,
    scans: ScanQueue,
}

impl TcpPeers {
    /// What the kernel knows about the client's socket. Nothing if nobody has it open any more, or it never was
    /// on this machine.
    pub(crate) fn describe(&self, ends: TcpEnds) -> io::Result<Option<SocketFacts>> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.find(ends.peer, ends.local)
    }

    /// Who holds a socket, by what is remembered of all processes: each that is named held it during the call, and
    /// those that inherited it are named too. One that was handed it by an unrelated process may be missed.
    pub(crate) async fn find_some(self: &Arc<Self>, inode: u64) -> Vec<SocketDescriptor> {
        let peers = self.clone();
        let looking = tokio::task::spawn_blocking(move || {
            // What a panicking thread left is still only a memory, and every answer from it is verified.
            let mut holders = peers.holders.lock().unwrap_or_else(PoisonError::into_inner);
            holders.find(inode)
        });
        looking.await.unwrap_or_default()
    }

    /// Who holds a socket, by a look at all processes that began after the call.
    pub(crate) async fn find_all(&self, inode: u64) -> Vec<SocketDescriptor> {
        self.scans.find(inode).await
    }
}

/// Looks at all processes, one at a time. Whoever waits while one runs shares the next.
#[derive(Debug, Default)]
struct ScanQueue {
    waiting: Mutex<Vec<ScanWaiter>>,
    turn: tokio::sync::Mutex<()>,
}

type ScanWaiter = (u64, oneshot::Sender<Vec<SocketDescriptor>>);

impl ScanQueue {
    async fn find(&self, inode: u64) -> Vec<SocketDescriptor> {
        let (sender, found) = oneshot::channel();
        self.lock().push((inode, sender));
        let turn = self.turn.lock().await;
        // Those who came while the last one ran are all served by the first of them.
        let waiters = std::mem::take(&mut *self.lock());
        if !waiters.is_empty() {
            let scanning = tokio::task::spawn_blocking(move || serve(waiters));
            // What fails leaves the waiters without holders, and so without a name.
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
        // Whoever went away meanwhile needs no answer.
        drop(waiter.send(holders));
    }
}
