//! The attacker: a process of an agent's that plays every trick with the descriptor of its connection, and a process
//! that is nobody's, to which it can hand one. Both are this test binary again.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::descriptors::Connected;

const PLAN: &str = "COUNTERSIGN_TEST_ATTACK_PLAN";
const RELAY: &str = "COUNTERSIGN_TEST_ATTACK_RELAY";
const HAND_BACK: &str = "COUNTERSIGN_TEST_ATTACK_HAND_BACK";

/// Long enough for the host to look while a descriptor is out of sight.
const OUT_OF_SIGHT: Duration = Duration::from_millis(500);

/// What is done with the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Trick {
    /// Nothing: one process connects, sends and reads.
    None,
    /// Parked while the host looks at the request.
    ParkedAfterRequest,
    /// Parked while the host looks at the connection.
    ParkedBeforeRequest,
    /// Held by a child as well.
    TwoHolders,
    /// Held by a child alone, which inherited it, while the host looks.
    Inherited,
    /// Opened and used by a process that ends while it is parked.
    HolderExits,
    /// Held by a process of another user alone, while the host looks.
    OtherUserHolds,
    /// Opened and used by a process of another user.
    OtherUserConnects,
    /// Handed to a process that is nobody's, which sends and reads.
    HandedBeforeRequest,
    /// Handed to a process that is nobody's, which reads.
    HandedAfterRequest,
    /// Handed to a process that is nobody's as fast as can be, which sends and reads.
    HandedAtOnce,
}

impl Trick {
    pub(super) const ALL: [Self; 11] = [
        Self::None,
        Self::ParkedAfterRequest,
        Self::ParkedBeforeRequest,
        Self::TwoHolders,
        Self::Inherited,
        Self::HolderExits,
        Self::OtherUserHolds,
        Self::OtherUserConnects,
        Self::HandedBeforeRequest,
        Self::HandedAfterRequest,
        Self::HandedAtOnce,
    ];

    pub(super) fn needs_root(self) -> bool {
        matches!(self, Self::OtherUserHolds | Self::OtherUserConnects)
    }
}

/// One attack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attack {
    pub(super) name: String,
    pub(super) trick: Trick,
    /// `IP:PORT` or `unix:PATH`.
    pub(super) address: String,
    /// All that is sent.
    pub(super) request: Vec<u8>,
}

/// What an attacker does, and where it leaves what came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) attacks: Vec<Attack>,
    pub(super) relay: PathBuf,
    pub(super) answers: PathBuf,
}

/// A shell line that runs the attacker.
pub(super) fn line(plan: &Path) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "{PLAN}={} {} --exact attacks::attacker::plays_an_attacker >/dev/null 2>&1",
        plan.display(),
        program.display()
    )
}

/// Not a test of its own: the attacker, idle unless it was started as one.
#[test]
fn plays_an_attacker() {
    let Some(plan) = std::env::var_os(PLAN) else {
        return;
    };
    let plan: Plan = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
    let relay = plan.relay.as_path();
    let answers: Vec<(String, String)> = std::thread::scope(|scope| {
        let start = |attack| scope.spawn(move || (attack_name(attack), play(attack, relay)));
        let threads: Vec<_> = plan.attacks.iter().map(start).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.collect()
    });
    let unfinished = plan.answers.with_extension("tmp");
    std::fs::write(&unfinished, serde_json::to_vec(&answers).unwrap()).unwrap();
    std::fs::rename(unfinished, plan.answers).unwrap();
}

fn attack_name(attack: &Attack) -> String {
    attack.name.clone()
}

fn play(attack: &Attack, relay: &Path) -> String {
    let request = attack.request.as_slice();
    match attack.trick {
        Trick::HolderExits => return take_from_child(attack, this_program()),
        Trick::OtherUserConnects => return take_from_child(attack, as_nobody()),
        _ => {}
    }
    let connection = Connected::open(&attack.address);
    match attack.trick {
        Trick::ParkedBeforeRequest => {
            let parked = connection.park();
            std::thread::sleep(OUT_OF_SIGHT);
            let connection = parked.take_back();
            connection.write(request);
            connection.read()
        }
        Trick::ParkedAfterRequest => {
            connection.write(request);
            read_out_of_sight(connection)
        }
        Trick::TwoHolders => {
            let holder = Holder::start(Command::new("sleep"), connection.copy());
            connection.write(request);
            let answer = connection.read();
            drop(holder);
            answer
        }
        Trick::Inherited => {
            let holder = Holder::start(Command::new("sleep"), connection.copy());
            connection.write(request);
            let answer = read_out_of_sight(connection);
            drop(holder);
            answer
        }
        Trick::OtherUserHolds => {
            let mut sleep = as_nobody();
            sleep.arg("sleep");
            let holder = Holder::start(sleep, connection.copy());
            connection.write(request);
            let answer = read_out_of_sight(connection);
            drop(holder);
            answer
        }
        Trick::HandedBeforeRequest => {
            connection.wait_until_served(&attack.address);
            hand_to_relay(connection, relay, request)
        }
        Trick::HandedAtOnce => hand_to_relay(connection, relay, request),
        Trick::HandedAfterRequest => {
            connection.wait_until_served(&attack.address);
            connection.write(request);
            hand_to_relay(connection, relay, b"")
        }
        _ => {
            connection.write(request);
            connection.read()
        }
    }
}

fn read_out_of_sight(connection: Connected) -> String {
    let parked = connection.park();
    std::thread::sleep(OUT_OF_SIGHT);
    parked.take_back().read()
}

/// A process with the descriptor as its standard input.
struct Holder(Child);

impl Holder {
    fn start(mut command: Command, descriptor: OwnedFd) -> Self {
        Self(command.arg("30").stdin(descriptor).spawn().unwrap())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command
}

fn this_program() -> Command {
    Command::new("env")
}

/// A child connects, sends, hands its descriptor back and ends; it is taken when nobody has held it for a while.
fn take_from_child(attack: &Attack, mut command: Command) -> String {
    let (near, far) = UnixStream::pair().unwrap();
    let order = serde_json::to_string(&(&attack.address, &attack.request)).unwrap();
    let mut child = command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "attacks::attacker::plays_a_short_life"])
        .env(HAND_BACK, order)
        .env_remove(PLAN)
        .stdin(Stdio::from(OwnedFd::from(far)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ended = child.wait().unwrap();
    if !ended.success() {
        return format!("the child could not connect: {ended}");
    }
    std::thread::sleep(OUT_OF_SIGHT);
    Connected::take_from(&near).read()
}

/// Not a test of its own: a process that opens a connection for another and ends.
#[test]
fn plays_a_short_life() {
    let Ok(order) = std::env::var(HAND_BACK) else {
        return;
    };
    let (address, request): (String, Vec<u8>) = serde_json::from_str(&order).unwrap();
    let connection = Connected::open(&address);
    connection.write(&request);
    let back = rustix::stdio::stdin();
    let back = UnixStream::from(back.try_clone_to_owned().unwrap());
    connection.hand_to(&back);
}

/// A process that takes connections and uses them for whoever hands them over.
pub(super) struct Relay(Child);

impl Relay {
    pub(super) fn start(socket: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "attacks::attacker::plays_a_relay"])
            .env(RELAY, socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        crate::host::poll("the relay to listen", || {
            UnixStream::connect(socket).ok().map(drop)
        });
        Self(child)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn hand_to_relay(connection: Connected, relay: &Path, request: &[u8]) -> String {
    let mut relay = UnixStream::connect(relay).unwrap();
    connection.hand_to(&relay);
    relay.write_all(request).unwrap();
    relay.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    relay.read_to_string(&mut answer).unwrap();
    answer
}

/// Not a test of its own: the process that is nobody's.
#[test]
fn plays_a_relay() {
    let Some(socket) = std::env::var_os(RELAY) else {
        return;
    };
    let listener = UnixListener::bind(socket).unwrap();
    for client in listener.incoming() {
        std::thread::spawn(move || serve_relay(client.unwrap()));
    }
}

fn serve_relay(mut client: UnixStream) {
    // Whoever only looks whether we listen hands nothing over.
    let connection = Connected::take_from(&client);
    let mut request = Vec::new();
    client.read_to_end(&mut request).unwrap();
    connection.write(&request);
    // The attacker may have gone.
    drop(client.write_all(connection.read().as_bytes()));
}
