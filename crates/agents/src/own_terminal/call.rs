//! A host's calls of a terminal.
//!
//! Invariant: nothing is said to a process that is not the terminal's runner: it could be a password.

use std::io;
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_core::limits::OWN_TERMINAL_CALL_MS;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::record::RECORDED_FILE;
use super::wire::{TerminalCall, TerminalReply};
use super::{OwnTerminalRecord, OwnTerminalStatus, TerminalSize};
use crate::procfs;
use crate::runner::folder;
use crate::runner::frame::{read_frame, write_frame};
use crate::shells::TerminalPiece;

/// Why a call had no result.
#[derive(Debug, thiserror::Error)]
pub enum OwnTerminalError {
    /// Its runner is gone, and with it all that ran in it.
    #[error("the terminal has ended")]
    Gone,
    #[error("the terminal's runner refused: {0}")]
    Refused(String),
    #[error("the terminal's runner could not be reached")]
    Failed(#[source] io::Error),
}

/// A terminal whose runner lives, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTerminal {
    pub record: OwnTerminalRecord,
    pub runner: ProcessKey,
}

impl OwnTerminal {
    pub async fn status(&self) -> Result<OwnTerminalStatus, OwnTerminalError> {
        match self.call(TerminalCall::Status, &[], 0).await? {
            (TerminalReply::Status(status), _) => Ok(*status),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The status, when its program has ended or that time is over.
    pub async fn wait_for_exit(&self, wait_ms: u64) -> Result<OwnTerminalStatus, OwnTerminalError> {
        let call = TerminalCall::WaitForExit { wait_ms };
        match self.call(call, &[], wait_ms).await? {
            (TerminalReply::Status(status), _) => Ok(*status),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Whether its end is on the record.
    pub fn is_recorded(&self) -> bool {
        self.record.is_recorded()
    }

    /// Notes that its end is on the record, for the hosts that come after.
    pub fn note_recorded(&self) {
        // If this fails the end is recorded twice, which harms nobody.
        drop(folder::write(&self.record.folder, RECORDED_FILE, &true));
    }

    /// Output from a byte on. With `wait_ms` it returns when there is some, or when that time is over.
    pub async fn read(&self, after: u64, wait_ms: u64) -> Result<TerminalPiece, OwnTerminalError> {
        let call = TerminalCall::Read { after, wait_ms };
        match self.call(call, &[], wait_ms).await? {
            (TerminalReply::Piece { from, is_end }, bytes) => Ok(TerminalPiece {
                from,
                bytes,
                is_end,
            }),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Types something; how much of it was taken. A program that does not read takes no more than some.
    pub async fn write(&self, bytes: &[u8]) -> Result<usize, OwnTerminalError> {
        match self.call(TerminalCall::Write, bytes, 0).await? {
            (TerminalReply::Written { bytes }, _) => Ok(bytes),
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub async fn resize(&self, size: TerminalSize) -> Result<(), OwnTerminalError> {
        self.done(TerminalCall::Resize(size)).await
    }

    /// Ends everything in it.
    pub async fn close(&self) -> Result<(), OwnTerminalError> {
        self.done(TerminalCall::Close).await
    }

    async fn done(&self, call: TerminalCall) -> Result<(), OwnTerminalError> {
        match self.call(call, &[], 0).await? {
            (TerminalReply::Done, _) => Ok(()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    async fn call(
        &self,
        call: TerminalCall,
        body: &[u8],
        wait_ms: u64,
    ) -> Result<(TerminalReply, Vec<u8>), OwnTerminalError> {
        // The runner itself waits for up to `wait_ms` before it answers.
        let limit = Duration::from_millis(OWN_TERMINAL_CALL_MS + wait_ms);
        let replied = timeout(limit, self.exchange(call, body)).await;
        match replied.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok((TerminalReply::Refused { why }, _)) => Err(OwnTerminalError::Refused(why)),
            Ok(replied) => Ok(replied),
            // Checked after the failure: a runner that ends while it is called causes any of
            // several errors.
            Err(_) if !procfs::is_alive(self.runner) => Err(OwnTerminalError::Gone),
            Err(error) => Err(OwnTerminalError::Failed(error)),
        }
    }

    async fn exchange(
        &self,
        call: TerminalCall,
        body: &[u8],
    ) -> io::Result<(TerminalReply, Vec<u8>)> {
        let mut stream = self.connect().await?;
        write_frame(&mut stream, &call, body).await?;
        let replied = read_frame(&mut stream).await?;
        replied.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    async fn connect(&self) -> io::Result<UnixStream> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for socket in &self.record.sockets {
            match UnixStream::connect(socket).await {
                Ok(stream) if self.is_runner(&stream) => return Ok(stream),
                Ok(_) => last = io::Error::other("another process listens there"),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn is_runner(&self, stream: &UnixStream) -> bool {
        let peer = stream.peer_cred().ok();
        // Where the system does not say which process it is, its user has to do.
        let pid = peer.and_then(|peer| peer.pid());
        let is_process = pid.is_none_or(|pid| u32::try_from(pid) == Ok(self.runner.pid));
        let ours = rustix::process::geteuid().as_raw();
        is_process && peer.is_some_and(|peer| peer.uid() == ours) && procfs::is_alive(self.runner)
    }
}

fn unexpected(reply: &TerminalReply) -> OwnTerminalError {
    OwnTerminalError::Refused(format!("it answered with {reply:?}"))
}
