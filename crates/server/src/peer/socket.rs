//! What the kernel knows about a TCP socket, by its two addresses.
//!
//! The kernel is asked for that one socket (`sock_diag(7)`); if that fails, its table of all is
//! read.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

#[cfg(target_os = "linux")]
mod diag;

/// One socket of this machine that some process, or a message on its way, has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketFacts {
    pub(crate) inode: u64,
    /// The user that created it.
    pub(crate) uid: u32,
    /// A number that no other socket gets while the machine runs. Only from `sock_diag`.
    pub(crate) cookie: Option<u64>,
    /// The id of the cgroup of the process that created it. Only from `sock_diag`, and not from
    /// every kernel.
    pub(crate) cgroup: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct SocketTable {
    #[cfg(target_os = "linux")]
    diag: diag::SockDiagClient,
}

impl SocketTable {
    /// Nothing if there is no such socket, or no process has it open.
    pub(super) fn find(
        &mut self,
        here: SocketAddr,
        there: SocketAddr,
    ) -> io::Result<Option<SocketFacts>> {
        // The kernel lists an IPv4 connection under IPv4 addresses, whatever kind of socket the
        // listener has.
        let here = SocketAddr::new(here.ip().to_canonical(), here.port());
        let there = SocketAddr::new(there.ip().to_canonical(), there.port());
        #[cfg(target_os = "linux")]
        if let Some(facts) = self.diag.find(here, there) {
            return Ok(Some(facts));
        }
        // `find` returns the same for "no such socket" and "the kernel cannot be asked", as in a
        // sandbox without netlink. Absence refuses a caller, so it is confirmed here.
        find_in_tables(here, there)
    }
}

fn find_in_tables(here: SocketAddr, there: SocketAddr) -> io::Result<Option<SocketFacts>> {
    if here.is_ipv4() {
        let row = [spell(here), spell(there)];
        if let Some(facts) = find_in_table(&fs::read("/proc/net/tcp")?, &row) {
            return Ok(Some(facts));
        }
    }
    // An IPv6 socket that is connected over IPv4 is in this table, with mapped addresses.
    let row = [spell(to_ipv6(here)), spell(to_ipv6(there))];
    match fs::read("/proc/net/tcp6") {
        Ok(table) => Ok(find_in_table(&table, &row)),
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound && here.is_ipv4() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Finds a socket in a table. One that no process has open any more has the inode 0.
fn find_in_table(table: &[u8], row: &[String; 2]) -> Option<SocketFacts> {
    let line = table.split(|&byte| byte == b'\n').find(|line| {
        let mut fields = words(line).skip(1);
        row.iter()
            .all(|wanted| fields.next() == Some(wanted.as_bytes()))
    })?;
    // sl, local, remote, st, queues, timer, retransmits; then uid, timeout, inode.
    let mut fields = words(line).skip(7);
    let uid = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let inode = str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    let facts = SocketFacts {
        inode,
        uid,
        cookie: None,
        cgroup: None,
    };
    (inode != 0).then_some(facts)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty())
}

/// As the table spells it: the address in words of 32 bits, each as a number of this machine, and
/// the port.
fn spell(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) => spell_words(&ip.octets()),
        IpAddr::V6(ip) => spell_words(&ip.octets()),
    };
    format!("{ip}:{:04X}", address.port())
}

fn spell_words(octets: &[u8]) -> String {
    let (words, _) = octets.as_chunks::<4>();
    words
        .iter()
        .map(|word| format!("{:08X}", u32::from_ne_bytes(*word)))
        .collect::<Vec<_>>()
        .concat()
}

fn to_ipv6(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddr::new(ip.into(), address.port())
}

#[cfg(test)]
mod tests;
