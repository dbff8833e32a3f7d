#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{self, Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_daemon::procfs::find_key;
use futures_util::FutureExt as _;

use super::socket_holders::{SocketHolders, scan};
use super::{AncestryReach, TcpEnds, TcpPeers, ancestry, lineage};

/// A child that another test starts holds our sockets until it runs its program, so one test runs
/// at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that lives until it is dropped.
struct Waiting(Child);

impl Waiting {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn nested() -> Self {
        Self::start(
            Command::new("sh")
                .args(["-c", "cat; :"])
                .stdin(Stdio::piped()),
        )
    }

    fn holding(stream: TcpStream) -> Self {
        Self::start(
            Command::new("cat")
                .stdin(OwnedFd::from(stream))
                .stdout(Stdio::null()),
        )
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn connect(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// What is known of the client's end.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// By these processes.
    Held(Vec<u32>),
    Closed,
}

fn inode(server: &TcpStream) -> Option<u64> {
    let ends = TcpEnds {
        peer: server.peer_addr().unwrap(),
        local: server.local_addr().unwrap(),
    };
    let facts = TcpPeers::default().describe(ends).unwrap()?;
    assert_eq!(facts.uid, rustix::process::getuid().as_raw());
    Some(facts.inode)
}

/// By what is remembered, and by a look at all: they agree where nothing was handed on.
fn look_up(holders: &mut SocketHolders, server: &TcpStream) -> Found {
    let Some(inode) = inode(server) else {
        return Found::Closed;
    };
    let found = holders.find(inode);
    let all = scan(&HashSet::from([inode]));
    assert_eq!(all.get(&inode).cloned().unwrap_or_default(), found);
    assert!(found.iter().all(|descriptor| descriptor.is_socket(inode)));
    Found::Held(found.iter().map(|descriptor| descriptor.pid).collect())
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn own_lineage_starts_here_and_reaches_the_root() {
    let found = ancestry(process::id());
    assert_eq!(found.reach, AncestryReach::Root);
    assert_eq!(found.processes.first().copied(), find_key(process::id()));
    let parent = std::os::unix::process::parent_id();
    assert_eq!(found.processes.get(1).map(|one| one.pid), Some(parent));
    assert!(
        found
            .processes
            .is_sorted_by(|child, parent| child.start_time >= parent.start_time)
    );
}

#[test]
fn lineage_of_a_child_continues_with_ours() {
    let _alone = alone();
    let child = Waiting::nested();
    let own = lineage(process::id());
    let found = lineage(child.0.id());
    assert_eq!(found.first().map(|one| one.pid), Some(child.0.id()));
    assert_eq!(found[1..], own);
}

#[test]
fn process_that_ended_is_not_identified() {
    let _alone = alone();
    let mut child = Waiting::nested();
    let pid = child.0.id();
    let before = find_key(pid);
    assert!(before.is_some());
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert_ne!(find_key(pid), before);
    assert!(!lineage(pid).contains(&before.unwrap()));
}

#[test]
fn deep_nesting_is_told() {
    let _alone = alone();
    // Each shell runs the next as its child; the innermost tells its number.
    let script =
        "if [ $1 -gt 0 ]; then sh -c \"$0\" \"$0\" $(($1 - 1)); :; else echo $$; read x; fi";
    let mut child = Waiting::start(
        Command::new("sh")
            .args(["-c", script, script, "70"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut innermost = Vec::new();
    let mut output = child.0.stdout.take().unwrap();
    let mut byte = [0];
    while output.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        innermost.extend(byte);
    }
    let innermost = String::from_utf8(innermost).unwrap().parse().unwrap();
    let found = ancestry(innermost);
    assert_eq!(
        (found.reach, found.processes.len()),
        (AncestryReach::TooDeep, 64)
    );
}

#[test]
fn own_connection_is_found_over_both_families() {
    let _alone = alone();
    let mut peers = SocketHolders::default();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        let (_client, server) = connect(&listener);
        assert_eq!(
            look_up(&mut peers, &server),
            Found::Held(vec![process::id()]),
            "{address}"
        );
    }
}

#[test]
fn ipv4_client_of_an_ipv6_listener_is_found() {
    let _alone = alone();
    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (server, _) = listener.accept().unwrap();
    assert_eq!(
        look_up(&mut SocketHolders::default(), &server),
        Found::Held(vec![process::id()])
    );
}

#[test]
fn every_holder_of_a_shared_socket_is_named() {
    let _alone = alone();
    let listener = listen();
    let mut peers = SocketHolders::default();
    let (_warm, server) = connect(&listener);
    assert_eq!(
        look_up(&mut peers, &server),
        Found::Held(vec![process::id()])
    );

    let (client, server) = connect(&listener);
    let child = Waiting::holding(client.try_clone().unwrap());
    let mut both = vec![process::id(), child.0.id()];
    both.sort_unstable();
    assert_eq!(look_up(&mut peers, &server), Found::Held(both));

    drop(client);
    assert_eq!(
        look_up(&mut peers, &server),
        Found::Held(vec![child.0.id()])
    );
}

#[test]
fn new_owner_of_a_descriptor_number_is_not_confused_with_the_old() {
    let _alone = alone();
    let listener = listen();
    let mut peers = SocketHolders::default();
    for _ in 0..20 {
        let (client, server) = connect(&listener);
        assert_eq!(
            look_up(&mut peers, &server),
            Found::Held(vec![process::id()])
        );
        let child = Waiting::holding(client);
        assert_eq!(
            look_up(&mut peers, &server),
            Found::Held(vec![child.0.id()])
        );
    }
}

#[test]
fn connection_closed_by_its_client_is_held_by_nobody() {
    let _alone = alone();
    let listener = listen();
    let (client, server) = connect(&listener);
    let ends = TcpEnds {
        peer: server.peer_addr().unwrap(),
        local: server.local_addr().unwrap(),
    };
    drop(client);
    assert_eq!(TcpPeers::default().describe(ends).unwrap(), None);
}

/// A descriptor in a message that nobody has received yet is in no process.
#[test]
fn socket_that_is_parked_in_a_message_is_open_and_held_by_nobody() {
    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair,
    };
    let _alone = alone();
    let listener = listen();
    let (client, server) = connect(&listener);
    let (near, _far) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    let descriptors = [std::os::fd::AsFd::as_fd(&client)];
    assert!(buffer.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let byte = [std::io::IoSlice::new(b"x")];
    sendmsg(&near, &byte, &mut buffer, SendFlags::empty()).unwrap();
    drop(client);
    let mut peers = SocketHolders::default();
    assert_eq!(look_up(&mut peers, &server), Found::Held(Vec::new()));
}

#[test]
fn those_who_wait_at_once_get_their_own_holders() {
    let _alone = alone();
    let listener = listen();
    let pairs: Vec<_> = (0..20).map(|_| connect(&listener)).collect();
    let peers = TcpPeers::default();
    let looks = pairs.iter().map(|(_, server)| {
        let inode = inode(server).unwrap();
        peers.find_all(inode).map(move |found| (inode, found))
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let found = runtime.block_on(futures_util::future::join_all(looks));
    for (inode, found) in found {
        let [holder] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(holder.pid, process::id());
        assert!(holder.is_socket(inode));
    }
}

#[test]
fn every_connection_of_a_burst_is_found() {
    let _alone = alone();
    let listener = listen();
    let mut peers = SocketHolders::default();
    let pairs: Vec<_> = (0..300).map(|_| connect(&listener)).collect();
    for (_, server) in &pairs {
        assert_eq!(
            look_up(&mut peers, server),
            Found::Held(vec![process::id()])
        );
    }
}
