//! Opens outside of a sandbox's roots, as the runner hears of them.
//!
//! Invariant: every call gets one answer. What is not held goes on at once and is judged by the kernel; what is held
//! and dropped fails.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::descriptor_passing;
use crate::held_open::{HeldOpen, OpenKind};
use crate::syscall_notices::NoticeSocket;
use crate::write_boundary::WriteBoundary;

/// Hears of the opens of one program and of all it starts.
#[derive(Debug)]
pub struct OpenListener {
    socket: Arc<NoticeSocket>,
    boundary: Arc<WriteBoundary>,
}

/// A system call that waits inside the kernel until it is answered.
#[derive(Debug)]
pub struct HeldCall {
    socket: Arc<NoticeSocket>,
    id: u64,
    open: HeldOpen,
    is_answered: bool,
}

impl OpenListener {
    /// Takes what a confined program sent through a socket that it was started with, without waiting.
    pub fn receive(from: &OwnedFd, boundary: Arc<WriteBoundary>) -> io::Result<Self> {
        let listener = descriptor_passing::receive(from)?.into_iter().next();
        let listener = listener.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Self {
            socket: Arc::new(NoticeSocket::new(listener)),
            boundary,
        })
    }

    /// Blocks until somebody has to be asked about an open. Nothing once no program is left.
    pub fn next_held(&self) -> io::Result<Option<HeldCall>> {
        while let Some(notice) = self.socket.wait()? {
            let open = HeldOpen::find(&notice, &self.boundary);
            match open {
                // Checked after everything was read: until then the thread could have been replaced by another one
                // with its number.
                Some(open) if self.socket.still_waits(notice.id) => {
                    return Ok(Some(HeldCall {
                        socket: self.socket.clone(),
                        id: notice.id,
                        open,
                        is_answered: false,
                    }));
                }
                Some(_) => {}
                // If it does not wait any more there is nobody to tell.
                None => drop(self.socket.resume(notice.id)),
            }
        }
        Ok(None)
    }
}

impl HeldCall {
    /// The path that is judged.
    pub fn path(&self) -> &str {
        &self.open.path
    }

    pub fn kind(&self) -> OpenKind {
        self.open.kind
    }

    /// The command line of the program, as it says itself.
    pub fn command(&self) -> &str {
        &self.open.command
    }

    /// Opens what was judged and gives it to the program.
    pub fn allow(mut self) {
        match self.open.perform() {
            Ok(Some(file)) => self.inject(&file),
            Ok(None) => self.finish(None),
            Err(error) => self.finish(Some(error)),
        }
    }

    /// The call fails.
    pub fn deny(mut self) {
        self.finish(Some(Errno::ACCESS));
    }

    /// The call fails because nobody decided in time.
    pub fn time_out(mut self) {
        self.finish(Some(Errno::TIMEDOUT));
    }

    /// The kernel performs the call, and refuses it.
    pub fn resume(mut self) {
        self.is_answered = true;
        // Whoever was killed meanwhile needs no answer.
        drop(self.socket.resume(self.id));
    }

    fn inject(&mut self, file: &OwnedFd) {
        let close_on_exec = self.open.close_on_exec();
        match self.socket.inject(self.id, file, close_on_exec) {
            Ok(()) => self.is_answered = true,
            // It has no room for another file, or it is gone.
            Err(error) => {
                let error = Errno::from_io_error(&error).unwrap_or(Errno::ACCESS);
                self.finish(Some(error));
            }
        }
    }

    fn finish(&mut self, error: Option<Errno>) {
        self.is_answered = true;
        // Whoever was killed meanwhile needs no answer.
        drop(self.socket.finish(self.id, error));
    }
}

impl Drop for HeldCall {
    fn drop(&mut self) {
        if !self.is_answered {
            self.finish(Some(Errno::ACCESS));
        }
    }
}
