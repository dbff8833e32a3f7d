//! Ends of pipes and terminals, read and written without blocking.
//!
//! Invariant: giving up a read or a write half way loses nothing that was read.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{ioctl_fionbio, retry_on_intr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::coop::consume_budget;

/// Makes the runtime watch a descriptor, which must not block.
#[expect(
    deprecated,
    reason = "sound for a descriptor that is owned; its replacement is unsafe code"
)]
pub(crate) fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

/// Waits for what a child sends once, through its end of a socket. `receive` does not wait itself.
pub(crate) async fn receive_once<T>(
    from: OwnedFd,
    receive: impl Fn(&OwnedFd) -> io::Result<T>,
) -> io::Result<T> {
    ioctl_fionbio(&from, true)?;
    let from = register(from, Interest::READABLE)?;
    loop {
        let mut ready = from.readable().await?;
        if let Ok(received) = ready.try_io(|from| receive(from.get_ref())) {
            return received;
        }
    }
}

/// Where output comes from.
#[derive(Debug)]
pub(crate) struct FdReader(AsyncFd<OwnedFd>);

impl FdReader {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        register(fd, Interest::READABLE).map(Self)
    }

    /// Waits for bytes. None at all mean the end.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // A source that always has more must not keep its thread from others.
        consume_budget().await;
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(read) = ready.try_io(|fd| read_once(fd.get_ref(), buffer)) {
                return read;
            }
        }
    }

    /// Takes what is there already; nothing there and the end are the same.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> usize {
        read_once(self.0.get_ref(), buffer).unwrap_or(0)
    }
}

fn read_once(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::read(fd, &mut *buffer))?)
}

/// Where input goes.
#[derive(Debug)]
pub(crate) struct FdWriter(AsyncFd<OwnedFd>);

impl FdWriter {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        register(fd, Interest::WRITABLE).map(Self)
    }

    /// Returns when all of it is in the pipe.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            let written =
                ready.try_io(|fd| Ok(retry_on_intr(|| rustix::io::write(fd.get_ref(), bytes))?));
            if let Ok(written) = written {
                bytes = &bytes[written?..];
            }
        }
        Ok(())
    }

    /// Writes what there is room for now, which may be nothing.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match retry_on_intr(|| rustix::io::write(self.0.get_ref(), bytes)) {
            Err(rustix::io::Errno::AGAIN) => Ok(0),
            written => Ok(written?),
        }
    }
}
