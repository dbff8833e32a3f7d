//! Sockets and descriptors as an attacker handles them: parked in messages, handed on, taken back.

use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// What comes within this time after the last of it is the answer.
const SILENCE: Duration = Duration::from_millis(1500);

/// A connection to the host by either door.
pub(super) struct Connected(OwnedFd);

impl Connected {
    /// To `unix:PATH` or `IP:PORT`.
    pub(super) fn open(address: &str) -> Self {
        match address.strip_prefix("unix:") {
            Some(path) => Self(UnixStream::connect(path).unwrap().into()),
            None => Self(TcpStream::connect(address).unwrap().into()),
        }
    }

    pub(super) fn copy(&self) -> OwnedFd {
        self.0.try_clone().unwrap()
    }

    /// A host that refuses early may have closed already.
    pub(super) fn write(&self, request: &[u8]) {
        drop(std::fs::File::from(self.copy()).write_all(request));
    }

    /// Gets an answer that needs no caller, so that the host has looked at the connection.
    pub(super) fn wait_until_served(&self, host: &str) {
        let head = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n");
        self.write(head.as_bytes());
        let mut stream = std::fs::File::from(self.copy());
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"ok\n") {
            stream.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
    }

    /// Everything that comes until the end, or until nothing comes for a while.
    pub(super) fn read(self) -> String {
        // Reading with a limit is the same on both kinds of sockets.
        let mut stream = UnixStream::from(self.0);
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut part) {
            answer.extend(&part[..length]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Puts the only descriptor into a message that nobody has received yet.
    pub(super) fn park(self) -> Parked {
        let (near, far) = UnixStream::pair().unwrap();
        self.hand_to(&near);
        Parked { _near: near, far }
    }

    /// Hands the descriptor on and keeps none.
    pub(super) fn hand_to(self, to: &UnixStream) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut buffer = SendAncillaryBuffer::new(&mut space);
        let descriptors = [self.0.as_fd()];
        assert!(buffer.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(to, &[IoSlice::new(b"x")], &mut buffer, SendFlags::empty()).unwrap();
    }

    /// Takes what was handed on.
    pub(super) fn take_from(from: &UnixStream) -> Self {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut buffer = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut bytes = [IoSliceMut::new(&mut byte)];
        recvmsg(from, &mut bytes, &mut buffer, RecvFlags::CMSG_CLOEXEC).unwrap();
        let taken = buffer.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Self(taken.unwrap())
    }
}

/// A connection that no process holds.
pub(super) struct Parked {
    _near: UnixStream,
    far: UnixStream,
}

impl Parked {
    pub(super) fn take_back(self) -> Connected {
        Connected::take_from(&self.far)
    }
}
