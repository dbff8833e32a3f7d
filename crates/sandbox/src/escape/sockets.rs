//! Sockets: those of other programs on this machine, and the network.

use std::io::{self, Read as _};
use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, ipproto, socket};

use super::{EscapeCase, EscapeScene, case, stopped};

/// `AF_ALG`.
const KERNEL_CRYPTO: u16 = 38;

pub(super) const CASES: &[EscapeCase] = &[
    case("unix_socket", "connect to a Unix socket by its path", |s| {
        greeted(UnixStream::connect(&s.socket)?)
    }),
    case(
        "unix_socket_link",
        "connect to a Unix socket through a link",
        |s| {
            let link = s.inside.join("socket-link");
            std::os::unix::fs::symlink(&s.socket, &link)?;
            greeted(UnixStream::connect(link)?)
        },
    ),
    case(
        "unix_socket_proc",
        "connect to a Unix socket through the root of another process",
        |s| {
            let path = format!("/proc/{}/root{}", s.sibling, s.socket.display());
            greeted(UnixStream::connect(path)?)
        },
    ),
    case(
        "unix_socket_tmp",
        "connect to a Unix socket for temporary files (tmux, ssh-agent)",
        |s| greeted(UnixStream::connect(&s.tmp_socket)?),
    ),
    case("unix_datagram", "send to a Unix datagram socket", |s| {
        UnixDatagram::unbound()?
            .send_to(b"x", &s.datagram)
            .map(drop)
    }),
    case(
        "abstract_socket",
        "connect to an abstract Unix socket",
        |s| {
            let address = SocketAddr::from_abstract_name(s.abstract_name.as_bytes())?;
            greeted(UnixStream::connect_addr(&address)?)
        },
    ),
    case("tcp", "connect over TCP", |s| {
        greeted(TcpStream::connect(("127.0.0.1", s.tcp_port))?)
    }),
    case("tcp6", "connect over TCP and IPv6", |s| {
        greeted(TcpStream::connect(("::1", s.tcp6_port))?)
    }),
    case("udp", "send over UDP", |s| {
        let sent = UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", ("127.0.0.1", s.udp_port));
        sent?;
        // In a namespace of its own it arrives nowhere.
        heard_udp(s)
    }),
    case("raw", "open a raw socket", |_| {
        opened(AddressFamily::INET, SocketType::RAW)
    }),
    case("packet", "open a packet socket", |_| {
        opened(AddressFamily::PACKET, SocketType::RAW)
    }),
    case("vsock", "open a socket to the hypervisor", |_| {
        opened(AddressFamily::VSOCK, SocketType::STREAM)
    }),
    case(
        "kernel_crypto",
        "open a socket of the kernel's cryptography",
        |_| {
            opened(
                AddressFamily::from_raw(KERNEL_CRYPTO),
                SocketType::SEQPACKET,
            )
        },
    ),
];

/// Whoever listens for the suite says a word.
fn greeted(mut stream: impl io::Read + SetTimeout) -> io::Result<()> {
    stream.limit(Duration::from_secs(5))?;
    let mut word = [0; 1];
    stream.read_exact(&mut word)
}

trait SetTimeout {
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl SetTimeout for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl SetTimeout for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// The scene counts what it hears in a file, which everybody can read.
fn heard_udp(scene: &EscapeScene) -> io::Result<()> {
    for _ in 0..50 {
        let mut text = String::new();
        std::fs::File::open(&scene.heard)?.read_to_string(&mut text)?;
        if text.contains("udp") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(stopped("nothing arrived"))
}

fn opened(family: AddressFamily, kind: SocketType) -> io::Result<()> {
    let protocol = (family == AddressFamily::INET).then_some(ipproto::ICMP);
    Ok(socket(family, kind, protocol).map(drop)?)
}
