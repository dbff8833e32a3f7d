//! A host of its own for each test: the built binary in a scratch home, killed by its own id.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use countersign_testkit::doors::TestHost;
use rustix::process::Pid;
use tempfile::TempDir;

pub(crate) use countersign_testkit::doors::{PATIENCE, poll};

/// What a host says on stderr, in its home.
const LOG: &str = "stderr.log";

/// Where a host kills itself.
pub(crate) const CRASH_AT: &str = "COUNTERSIGN_CRASH_AT";

/// A running host.
pub(crate) struct Host {
    home: TempDir,
    environment: Vec<(&'static str, String)>,
    up: fn(&Path) -> Command,
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    token: OnceLock<String>,
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

    /// In a home that was prepared, with nothing of this process's environment but these variables, so
    /// that neither have the agents it runs.
    pub(crate) fn start_apart(home: TempDir, environment: &[(&'static str, &str)]) -> Self {
        let owned = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
        let environment = environment.iter().map(owned).collect();
        let up = command_apart(home.path());
        let mut host = Self::launched(home, environment, up);
        host.up = command_apart;
        host
    }

    /// With a bound on the size of its files, in blocks of 512 bytes: writes past it fail, as on a full disk.
    pub(crate) fn start_bounded(blocks: u32) -> Self {
        Self::start_after(&format!("trap '' XFSZ; ulimit -f {blocks}"))
    }

    /// With a bound on its open files, which it cannot raise.
    pub(crate) fn start_with_files(files: u32) -> Self {
        Self::start_after(&format!("ulimit -n {files}"))
    }

    /// From a shell that ran some commands first.
    fn start_after(commands: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut up = Command::new("sh");
        let script = format!("{commands}; exec \"$@\"");
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
            token: OnceLock::new(),
        }
    }

    /// Kills the host and starts another on the same record and address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Has another host take over from this one, as `up --replace` does.
    pub(crate) fn replace(&mut self) {
        let up = (self.up)(self.home.path());
        let words = ["up", "--replace", "--listen", &self.address];
        let (child, _) = launch_as(up, self.home.path(), &self.environment, &words);
        let ended = std::mem::replace(&mut self.child, child).wait().unwrap();
        assert!(ended.success(), "{ended}");
    }

    /// Waits until the host has killed itself, and starts another that will not.
    pub(crate) fn restart_after_crash(&mut self) {
        self.await_crash();
        self.start_disarmed();
    }

    /// Waits until the host has killed itself.
    pub(crate) fn await_crash(&mut self) {
        let ended = poll("the host to kill itself", || self.child.try_wait().unwrap());
        assert_eq!(ended.signal(), Some(9), "{ended}");
    }

    /// Starts another host after one that is gone; it will kill itself at this point.
    pub(crate) fn start_armed(&mut self, point: &str) {
        self.arm(point);
        self.start_again();
    }

    /// The same, where that is bound to happen, perhaps before the host is ready.
    pub(crate) fn crash_at(&mut self, point: &str) {
        self.arm(point);
        let up = (self.up)(self.home.path());
        let words = ["up", "--listen", &self.address];
        self.child = spawn(up, self.home.path(), &self.environment, &words);
        self.await_crash();
    }

    fn arm(&mut self, point: &str) {
        let point = (CRASH_AT, point.to_owned());
        self.environment.retain(|(name, _)| *name != CRASH_AT);
        self.environment.push(point);
    }

    /// Starts another host after one that is gone; it will neither kill itself nor stand still.
    pub(crate) fn start_disarmed(&mut self) {
        let armed = [CRASH_AT, "COUNTERSIGN_HOLD_AT"];
        self.environment.retain(|(name, _)| !armed.contains(name));
        self.start_again();
    }

    /// Kills the host, starts another and kills that one after so long, ready or not.
    pub(crate) fn restart_and_kill(&mut self, after: Duration) {
        self.kill();
        let up = (self.up)(self.home.path());
        let words = ["up", "--listen", &self.address];
        self.child = spawn(up, self.home.path(), &self.environment, &words);
        std::thread::sleep(after);
        self.kill();
    }

    /// Whether the host has not ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Starts another host on the same record and address, after one that is gone.
    pub(crate) fn start_again(&mut self) {
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

    /// A token for an operator called `script`, made with the command line as a person would, once for all hosts
    /// on this record.
    pub(crate) fn token(&self) -> String {
        let made = self.token.get_or_init(|| create_token(self.home()));
        made.clone()
    }

    /// The same in a file that whoever runs as this user can read.
    pub(crate) fn token_file(&self) -> PathBuf {
        let file = self.home().join("script-token");
        std::fs::write(&file, self.token()).unwrap();
        file
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

impl TestHost for Host {
    fn address(&self) -> &str {
        &self.address
    }

    fn home(&self) -> &Path {
        self.home()
    }

    fn token(&self) -> String {
        self.token()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Both fail only for a host that has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        // Agents outlive their host, but not their test.
        let runners = self.home().join("runners").read_dir();
        if runners.is_ok_and(|mut folders| folders.next().is_some()) {
            drop(command(self.home()).args(["down", "--all"]).output());
        }
        // Neither do terminals, of which a test that failed has closed none.
        let terminals = self.home().join("own-terminals").read_dir();
        for terminal in terminals.into_iter().flatten().flatten() {
            end_terminal(&terminal.path());
        }
    }
}

/// What runs in it ends with its runner.
fn end_terminal(folder: &Path) {
    let runner = std::fs::read(folder.join("runner")).unwrap_or_default();
    let runner: serde_json::Value = serde_json::from_slice(&runner).unwrap_or_default();
    let pid = runner["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok());
    let Some(pid) = pid.and_then(Pid::from_raw) else {
        return;
    };
    // Its number may be another's by now.
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let path = folder.as_os_str().as_encoded_bytes();
    if line.windows(path.len()).any(|part| part == path) {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
    }
}

fn create_token(home: &Path) -> String {
    let words = "token create --role operator --name script --expires 24h";
    let made = command(home).args(words.split(' ')).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    // The token alone is on stdout.
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// The binary, aimed at one home and at nothing of the user's own.
pub(crate) fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command
        .env("COUNTERSIGN_HOME", home)
        .env_remove("COUNTERSIGN_TOKEN")
        .env_remove("COUNTERSIGN_URL")
        .env_remove("COUNTERSIGN_LOG")
        .env("COUNTERSIGN_SANDBOX", usual_sandbox())
        .stdin(Stdio::null());
    command
}

/// The sandbox that a host gives to its agents by default.
pub(crate) const DEFAULT_SANDBOX: (&str, &str) = ("COUNTERSIGN_SANDBOX", "");

/// What the host itself defends is tested without a sandbox, unless a variable names another profile; nothing stands for
/// the default.
fn usual_sandbox() -> String {
    std::env::var("COUNTERSIGN_TEST_SANDBOX").unwrap_or_else(|_| "open".to_owned())
}

fn command_apart(home: &Path) -> Command {
    let mut command = command(home);
    command
        .env_clear()
        .env("COUNTERSIGN_HOME", home)
        .env("COUNTERSIGN_SANDBOX", usual_sandbox())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}

fn launch(
    up: Command,
    home: &Path,
    environment: &[(&'static str, String)],
    listen: &str,
) -> (Child, String) {
    launch_as(up, home, environment, &["up", "--listen", listen])
}

fn launch_as(
    up: Command,
    home: &Path,
    environment: &[(&'static str, String)],
    words: &[&str],
) -> (Child, String) {
    let mut child = spawn(up, home, environment, words);
    let address = poll("the host to be ready", || {
        let said = std::fs::read_to_string(home.join(LOG)).unwrap();
        assert_eq!(child.try_wait().unwrap(), None, "the host ended: {said}");
        let (_, rest) = said.split_once("the host is ready: http://")?;
        rest.split_once(',').map(|(address, _)| address.to_owned())
    });
    (child, address)
}

fn spawn(
    mut up: Command,
    home: &Path,
    environment: &[(&'static str, String)],
    words: &[&str],
) -> Child {
    let log = home.join(LOG);
    // A host that is being replaced still writes to its own file: this one is another.
    drop(std::fs::remove_file(&log));
    up.args(words)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap()
}
