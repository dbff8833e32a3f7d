//! A host of its own for each test: the built binary in a scratch home, killed by its own id.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tempfile::TempDir;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running host.
pub(crate) struct Host {
    home: TempDir,
    environment: Vec<(&'static str, String)>,
    up: fn(&Path) -> Command,
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Host {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With variables that shorten the host's own times.
    pub(crate) fn start_with(environment: &[(&'static str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), environment)
    }

    /// In a home that was prepared.
    pub(crate) fn start_in(home: TempDir, environment: &[(&'static str, &str)]) -> Self {
        let environment: Vec<_> = environment
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        let up = command(home.path());
        Self::launched(home, environment, up)
    }

    /// In a home that was prepared, with nothing of this process's environment, so that neither have
    /// the agents it runs.
    pub(crate) fn start_apart(home: TempDir) -> Self {
        let up = command_apart(home.path());
        let mut host = Self::launched(home, Vec::new(), up);
        host.up = command_apart;
        host
    }

    /// With a bound on the size of its files, in blocks of 512 bytes: writes past it fail, as on a full disk.
    pub(crate) fn start_bounded(blocks: u32) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut up = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let binary = command(home.path());
        up.args(["-c", &script, "sh"]).arg(binary.get_program());
        for (name, value) in binary.get_envs() {
            match value {
                Some(value) => up.env(name, value),
                None => up.env_remove(name),
            };
        }
        Self::launched(home, Vec::new(), up)
    }

    fn launched(home: TempDir, environment: Vec<(&'static str, String)>, up: Command) -> Self {
        let (child, address) = launch(up, home.path(), &environment, "127.0.0.1:0");
        Self {
            home,
            environment,
            up: command,
            child,
            address,
        }
    }

    /// Kills the host and starts another on the same record and address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Waits until the host has killed itself, and starts another that will not.
    pub(crate) fn restart_after_crash(&mut self) {
        let ended = poll("the host to kill itself", || self.child.try_wait().unwrap());
        assert_eq!(ended.signal(), Some(9), "{ended}");
        self.start_disarmed();
    }

    /// Starts another host after one that is gone; it will not kill itself.
    pub(crate) fn start_disarmed(&mut self) {
        self.environment
            .retain(|(name, _)| *name != "COUNTERSIGN_CRASH_AT");
        self.start_again();
    }

    /// Kills the host, starts another and kills that one after so long, ready or not.
    pub(crate) fn restart_and_kill(&mut self, after: Duration) {
        self.kill();
        let mut up = (self.up)(self.home.path());
        self.child = up
            .args(["up", "--listen", &self.address])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(after);
        self.kill();
    }

    /// Starts another host in the place of this one, which ends by itself.
    pub(crate) fn replace(&mut self) {
        let mut up = (self.up)(self.home.path());
        up.args(["up", "--replace", "--listen", &self.address]);
        let (child, _) = await_ready(up, self.home.path(), &self.environment);
        let mut before = std::mem::replace(&mut self.child, child);
        let ended = before.wait().unwrap();
        assert!(ended.success(), "{ended}");
    }

    /// Whether the host has not ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn start_again(&mut self) {
        let up = (self.up)(self.home.path());
        let (child, _) = launch(up, self.home.path(), &self.environment, &self.address);
        self.child = child;
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the host as a person would, so that its record is whole in one file.
    pub(crate) fn stop(&mut self) {
        let ended = command(self.home()).arg("down").output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        self.child.wait().unwrap();
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home().join("run/host.sock")
    }

    /// The operator's token in its file.
    pub(crate) fn token(&self) -> String {
        let text = std::fs::read_to_string(self.home().join("run/auth-token")).unwrap();
        text.trim().to_owned()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes * 1024
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Both fail only for a host that has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The binary, aimed at one home and at nothing of the user's own.
pub(crate) fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command
        .env("COUNTERSIGN_HOME", home)
        .env_remove("COUNTERSIGN_TOKEN")
        .env_remove("COUNTERSIGN_URL")
        .env_remove("COUNTERSIGN_LOG")
        .stdin(Stdio::null());
    command
}

fn command_apart(home: &Path) -> Command {
    let mut command = command(home);
    command
        .env_clear()
        .env("COUNTERSIGN_HOME", home)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}

fn launch(
    mut up: Command,
    home: &Path,
    environment: &[(&'static str, String)],
    listen: &str,
) -> (Child, String) {
    up.args(["up", "--listen", listen]);
    await_ready(up, home, environment)
}

fn await_ready(
    mut up: Command,
    home: &Path,
    environment: &[(&'static str, String)],
) -> (Child, String) {
    let log = home.join("stderr.log");
    let mut child = up
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let address = poll("the host to be ready", || {
        let said = std::fs::read_to_string(&log).unwrap();
        assert_eq!(child.try_wait().unwrap(), None, "the host ended: {said}");
        let (_, rest) = said.split_once("the host is ready: http://")?;
        rest.split_once(',').map(|(address, _)| address.to_owned())
    });
    (child, address)
}

/// Looks again and again until there is something to see, within bounds.
pub(crate) fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begin.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
