//! What the suite tries to reach: files, a process and sockets of its own.

use std::fs;
use std::io::{self, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

use super::cases;
use super::held::PERMITTED;

pub(super) const CONTENT: &[u8] = b"as it was\n";

/// Where everything is, as attempts are told it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscapeScene {
    /// A root that may be changed.
    pub(crate) inside: PathBuf,
    /// A folder beside it, with a file for each case.
    pub(crate) outside: PathBuf,
    pub(crate) hidden: PathBuf,
    pub(crate) home: PathBuf,
    /// What the sandbox has for temporary files.
    pub(crate) own_tmp: PathBuf,
    pub(crate) tmp_file: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) tmp_socket: PathBuf,
    pub(crate) datagram: PathBuf,
    pub(crate) abstract_name: String,
    pub(crate) tcp_port: u16,
    pub(crate) tcp6_port: u16,
    pub(crate) udp_port: u16,
    /// What the listeners heard.
    pub(crate) heard: PathBuf,
    /// A process outside.
    pub(crate) sibling: u32,
    /// The number of a descriptor that was left open.
    pub(crate) inherited: Option<i32>,
}

impl EscapeScene {
    /// The file outside that belongs to a case.
    pub(super) fn victim(&self, name: &str) -> PathBuf {
        self.outside.join(name)
    }

    /// A new file in the root.
    pub(super) fn own_file(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.inside.join(format!("own-{name}"));
        fs::write(&path, "own\n")?;
        Ok(path)
    }
}

/// A scene with everything in it. What it made in shared places goes with it; its folder is its maker's.
pub(super) struct SceneKeeper {
    pub(super) scene: EscapeScene,
    sibling: Child,
    shared: PathBuf,
    /// Open and passed on to whatever is started.
    _inherited: fs::File,
    _datagram: UnixDatagram,
}

impl SceneKeeper {
    pub(super) fn build(folder: &Path) -> io::Result<Self> {
        let at = |name: &str| folder.join(name);
        let (outside, inside) = (at("outside"), at("inside"));
        for name in [
            "outside/empty",
            "outside/folder",
            "inside/.git/hooks",
            "inside/.countersign",
            "hidden",
            "home",
            "tmp",
        ] {
            fs::create_dir_all(at(name))?;
        }
        let names = cases().map(|case| case.name);
        for name in names.chain([PERMITTED]) {
            fs::write(outside.join(name), CONTENT)?;
        }
        let files = [
            "inside/.git/config",
            "inside/.countersign/rules.toml",
            "hidden/secret",
            "home/.bashrc",
        ];
        for name in files {
            fs::write(at(name), CONTENT)?;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("countersign-{name}");
        let shared = Path::new("/tmp").join(&name);
        fs::create_dir_all(&shared)?;
        fs::write(shared.join("file"), CONTENT)?;
        let heard = at("heard");
        fs::write(&heard, "")?;
        let sibling = Command::new("sleep")
            .arg("600")
            .env("ESCAPE_SECRET", "secret")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let inherited = fs::OpenOptions::new()
            .write(true)
            .open(outside.join("inherited"))?;
        let number = pass_on(&inherited)?;
        let datagram = outside.join("datagram.sock");
        let scene = EscapeScene {
            tmp_file: shared.join("file"),
            socket: outside.join("listener.sock"),
            tmp_socket: shared.join("listener.sock"),
            abstract_name: name,
            tcp_port: greet_tcp(TcpListener::bind("127.0.0.1:0")?)?,
            tcp6_port: TcpListener::bind("[::1]:0")
                .and_then(greet_tcp)
                .unwrap_or_default(),
            udp_port: note_udp(UdpSocket::bind("127.0.0.1:0")?, heard.clone())?,
            sibling: sibling.id(),
            inherited: Some(number),
            hidden: at("hidden"),
            home: at("home"),
            own_tmp: at("tmp"),
            datagram: datagram.clone(),
            heard,
            inside,
            outside,
        };
        greet_unix(UnixListener::bind(&scene.socket)?);
        greet_unix(UnixListener::bind(&scene.tmp_socket)?);
        let address = SocketAddr::from_abstract_name(scene.abstract_name.as_bytes())?;
        greet_unix(UnixListener::bind_addr(&address)?);
        Ok(Self {
            scene,
            sibling,
            shared,
            _inherited: inherited,
            _datagram: UnixDatagram::bind(datagram)?,
        })
    }
}

impl Drop for SceneKeeper {
    fn drop(&mut self) {
        // It may have ended; what is left in a shared place is the system's to clear.
        drop(self.sibling.kill());
        drop(self.sibling.wait());
        drop(fs::remove_dir_all(&self.shared));
    }
}

pub(super) fn pass_on(file: impl AsFd) -> io::Result<i32> {
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    Ok(file.as_fd().as_raw_fd())
}

/// Says a word to everyone, until the process ends.
fn greet_unix(listener: UnixListener) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Whoever has gone does not hear it.
            drop(stream.write_all(b"x"));
        }
    });
}

fn greet_tcp(listener: TcpListener) -> io::Result<u16> {
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            drop(stream.write_all(b"x"));
        }
    });
    Ok(port)
}

fn note_udp(socket: UdpSocket, heard: PathBuf) -> io::Result<u16> {
    let port = socket.local_addr()?.port();
    std::thread::spawn(move || {
        let mut word = [0; 16];
        while socket.recv(&mut word).is_ok() {
            drop(fs::write(&heard, "udp\n"));
        }
    });
    Ok(port)
}
