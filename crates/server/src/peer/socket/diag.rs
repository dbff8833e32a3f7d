//! A client of `sock_diag`: `SOCK_DIAG_BY_FAMILY` for exactly one TCP socket.
//!
//! The layouts are those of `linux/netlink.h` and `linux/inet_diag.h`: a header of 16 bytes, then
//! `inet_diag_req_v2` or `inet_diag_msg`. Ports and addresses are in network order, the rest in
//! this machine's.

use std::net::{IpAddr, SocketAddr};

use super::SocketFacts;
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: u32 = 72;
const ANSWER_BYTES: usize = HEADER_BYTES + 72;

/// Where the cookie and the user stand in an answer.
const COOKIE_START: usize = HEADER_BYTES + 44;
const UID_START: usize = HEADER_BYTES + 64;
const INODE_START: usize = HEADER_BYTES + 68;

/// The attribute with the cgroup of the process that created the socket, since Linux 5.9.
const INET_DIAG_CGROUP_ID: u16 = 21;
const ATTRIBUTE_HEADER_BYTES: usize = 4;

/// Where the two ports and addresses start in an answer, and how long they are.
const PAIR_START: usize = HEADER_BYTES + 4;
const PAIR_BYTES: usize = 36;

#[derive(Debug, Default)]
pub(super) struct SockDiagClient {
    socket: Option<OwnedFd>,
    sequence: u32,
}

impl SockDiagClient {
    /// `None` if there is no such socket, if no process has it open, or if the kernel cannot be
    /// asked.
    pub(super) fn find(&mut self, here: SocketAddr, there: SocketAddr) -> Option<SocketFacts> {
        self.sequence = self.sequence.wrapping_add(1);
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => open()?,
        };
        let pair = lay_out(here, there);
        let question = ask(here, &pair, self.sequence);
        send(&socket, &question, SendFlags::empty()).ok()?;
        let mut answer = [0; 512];
        // The kernel answers before `send` returns, so an answer that is not there yet never comes,
        // and waiting for it would block every other caller.
        let (_, length) = recv(&socket, &mut answer, RecvFlags::DONTWAIT).ok()?;
        // Kept only after a complete exchange. After an error a new socket is used, so that a late
        // answer is not taken for the answer to the next question.
        self.socket = Some(socket);
        parse_answer(answer.get(..length)?, &pair, self.sequence)
    }
}

fn open() -> Option<OwnedFd> {
    socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )
    .ok()
}

fn lay_out(here: SocketAddr, there: SocketAddr) -> [u8; PAIR_BYTES] {
    let mut pair = [0; PAIR_BYTES];
    pair[0..2].copy_from_slice(&here.port().to_be_bytes());
    pair[2..4].copy_from_slice(&there.port().to_be_bytes());
    put_address(&mut pair[4..20], here.ip());
    put_address(&mut pair[20..36], there.ip());
    pair
}

fn put_address(place: &mut [u8], ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => place[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => place.copy_from_slice(&ip.octets()),
    }
}

fn ask(here: SocketAddr, pair: &[u8; PAIR_BYTES], sequence: u32) -> Vec<u8> {
    let family = if here.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let [family, _] = family.as_raw().to_le_bytes();
    let mut question = Vec::new();
    question.extend(QUESTION_BYTES.to_ne_bytes());
    question.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question.extend(NLM_F_REQUEST.to_ne_bytes());
    question.extend(sequence.to_ne_bytes());
    question.extend(0_u32.to_ne_bytes());
    question.extend([family, IPPROTO_TCP, 0, 0]);
    // idiag_states: whatever state the connection is in.
    question.extend(u32::MAX.to_ne_bytes());
    question.extend(pair);
    // idiag_if: on any interface.
    question.extend(0_u32.to_ne_bytes());
    // INET_DIAG_NOCOOKIE: the cookie is what we want to know.
    question.extend([0xff; 8]);
    question
}

fn parse_answer(answer: &[u8], pair: &[u8; PAIR_BYTES], sequence: u32) -> Option<SocketFacts> {
    let (fixed, attributes) = answer.split_first_chunk::<ANSWER_BYTES>()?;
    let kind = u16::from_ne_bytes(read(fixed, 4)?);
    let answered = u32::from_ne_bytes(read(fixed, 8)?);
    if kind != SOCK_DIAG_BY_FAMILY || answered != sequence {
        return None;
    }
    // If nothing is connected with these addresses, the kernel answers with a socket that listens
    // on the port, which may be any process's.
    let named = &fixed[PAIR_START..PAIR_START + PAIR_BYTES];
    if named != pair && named != to_mapped(pair) {
        return None;
    }
    let inode = u32::from_ne_bytes(read(fixed, INODE_START)?);
    let facts = SocketFacts {
        inode: inode.into(),
        uid: u32::from_ne_bytes(read(fixed, UID_START)?),
        cookie: Some(u64::from_ne_bytes(read(fixed, COOKIE_START)?)),
        cgroup: find_cgroup(attributes),
    };
    // A socket that no process has open any more still exists until its last packets are sent.
    (inode != 0).then_some(facts)
}

fn find_cgroup(mut attributes: &[u8]) -> Option<u64> {
    loop {
        let length = usize::from(u16::from_ne_bytes(read(attributes, 0)?));
        let kind = u16::from_ne_bytes(read(attributes, 2)?);
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        if kind == INET_DIAG_CGROUP_ID {
            return Some(u64::from_ne_bytes(value.try_into().ok()?));
        }
        // Attributes are aligned to four bytes (NLA_ALIGN); `length` does not count the padding.
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn read<const N: usize>(bytes: &[u8], start: usize) -> Option<[u8; N]> {
    bytes.get(start..start + N)?.try_into().ok()
}

/// The pair as an IPv6 socket has it that is connected over IPv4.
fn to_mapped(pair: &[u8; PAIR_BYTES]) -> [u8; PAIR_BYTES] {
    let mut mapped = [0; PAIR_BYTES];
    mapped[0..4].copy_from_slice(&pair[0..4]);
    for start in [4, 20] {
        mapped[start + 10..start + 12].fill(0xff);
        mapped[start + 12..start + 16].copy_from_slice(&pair[start..start + 4]);
    }
    mapped
}
