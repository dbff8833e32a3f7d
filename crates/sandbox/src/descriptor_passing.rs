//! Descriptors that a confined program hands to its runner, through a socket that it was started with.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use countersign_core::limits::SANDBOX_LOCAL_PORTS_MAX;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors go with at least one byte.
const MESSAGE_BYTES: usize = 1;
/// A listener for the proxy, those for local ports, and two namespaces.
const DESCRIPTORS_MAX: usize = 3 + SANDBOX_LOCAL_PORTS_MAX;

pub(crate) fn send(to: &OwnedFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let message = [0; MESSAGE_BYTES];
    sendmsg(
        to,
        &[IoSlice::new(&message)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Takes what one [`send`] sent, without waiting if the socket does not block. Fails at the end.
pub(crate) fn receive(from: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut message = [0; MESSAGE_BYTES];
    let received = recvmsg(
        from,
        &mut [io::IoSliceMut::new(&mut message)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors = control
        .drain()
        .filter_map(|sent| match sent {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == MESSAGE_BYTES {
        Ok(descriptors)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
