//! `up` and `down`: the host's beginning and end.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use countersign_core::limits::HANDOVER_MS;
use countersign_protocol::HostStatus;
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;

use super::Common;
use crate::client::{Address, Client, Endpoint};
use crate::config::{Config, Listen};
use crate::exit::Exit;
use crate::failure::CliError;
use crate::host::{self, HostOptions};
use crate::output;
use crate::paths::Paths;

/// How long an ending host may take: its own deadline for connections, and the last flush.
const GONE_WITHIN: Duration = Duration::from_secs(20);
const GONE_POLL: Duration = Duration::from_millis(20);
/// A log larger than this is put aside when a host starts.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much of a failed host's log is shown.
const TAIL_BYTES_MAX: u64 = 8 * 1024;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign up
  countersign up --detach
  COUNTERSIGN_HOME=/tmp/try countersign up --detach --listen 127.0.0.1:9100
  countersign up --allow-host desk.example.ts.net   # reached through a tunnel

What is not given here is read from config.toml: `listen` and `allow_hosts`.")]
pub(crate) struct UpArgs {
    /// Return as soon as the host is ready, and leave it running
    #[arg(long)]
    detach: bool,
    /// Where to listen for TCP; loopback only [default: 127.0.0.1:7766]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "no_listen")]
    listen: Option<Listen>,
    /// No TCP: the Unix socket alone
    #[arg(long)]
    no_listen: bool,
    /// A name under which a tunnel reaches the host; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Run as the child that `--detach` starts
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
}

impl UpArgs {
    /// The same words for the child.
    fn for_child(&self) -> Vec<String> {
        let mut words = Vec::new();
        match self.listen {
            Some(Listen::At(address)) => words.extend(["--listen".into(), address.to_string()]),
            Some(Listen::None) => words.push("--no-listen".into()),
            None if self.no_listen => words.push("--no-listen".into()),
            None => {}
        }
        for name in &self.allow_host {
            words.extend(["--allow-host".into(), name.clone()]);
        }
        words
    }

    fn options(self, paths: Paths) -> Result<HostOptions, CliError> {
        let config = Config::load(&paths.config)?;
        let listen = match self.listen {
            Some(Listen::At(address)) => Some(address),
            Some(Listen::None) => None,
            None if self.no_listen => None,
            None => config.listen(),
        };
        let allow_hosts = config
            .allow_hosts
            .into_iter()
            .chain(self.allow_host)
            .collect();
        Ok(HostOptions {
            paths,
            listen,
            allow_hosts,
        })
    }
}

pub(super) async fn up(args: UpArgs) -> Result<Exit, CliError> {
    if args.detached {
        // Fails only for the leader of a group, which then has a session to itself anyway.
        let _ = rustix::process::setsid();
    }
    let paths = Paths::from_environment()?;
    paths.prepare()?;
    refuse_second(&paths).await?;
    if args.detach {
        let home = std::env::var_os("COUNTERSIGN_HOME")
            .is_some()
            .then(|| paths.data_dir.clone());
        let status = start_detached(&paths, &args.for_child(), home.as_deref()).await?;
        output::put(&format!("{}\n", web_address(&status)))?;
        output::say(format_args!(
            "the host is ready (pid {}); end it with `countersign down`",
            status.pid
        ));
        return Ok(Exit::Ok);
    }
    start_log();
    let detached = args.detached;
    let options = args.options(paths)?;
    let socket = options.paths.socket.clone();
    let ready = move |address: Option<std::net::SocketAddr>| match address {
        _ if detached => tell_parent(),
        Some(address) => output::say(format_args!(
            "the host is ready: http://{address}, socket {}",
            socket.display()
        )),
        None => output::say(format_args!(
            "the host is ready: socket {}",
            socket.display()
        )),
    };
    host::run(options, ready)
        .await
        .map_err(|error| CliError::Host(error.into()))?;
    Ok(Exit::Ok)
}

/// Refuses to be the second host. A host that was killed leaves its socket for a moment to what it was
/// just starting.
async fn refuse_second(paths: &Paths) -> Result<(), CliError> {
    let deadline = Instant::now() + Duration::from_millis(HANDOVER_MS);
    while let Ok(connected) = UnixStream::connect(&paths.socket) {
        if is_served(&connected) || Instant::now() > deadline {
            return Err(second_host(paths));
        }
        tokio::time::sleep(GONE_POLL).await;
    }
    Ok(())
}

/// Whether whoever listens is still there.
fn is_served(connected: &UnixStream) -> bool {
    let listens = rustix::net::sockopt::socket_peercred(connected);
    listens.is_ok_and(|listens| rustix::process::test_kill_process(listens.pid).is_ok())
}

fn second_host(paths: &Paths) -> CliError {
    CliError::Failed {
        what: format!("a host is already running at `{}`", paths.socket.display()),
        hint: Some(
            "look at it with `countersign status`, or end it with `countersign down`".into(),
        ),
    }
}

fn start_log() {
    let filter =
        EnvFilter::try_from_env("COUNTERSIGN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A second subscriber in one process would be a test's; the first one stays.
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_env_filter(filter)
        .try_init()
        .ok();
}

/// Says `ready` on the pipe to the parent, and lets go of it.
fn tell_parent() {
    let mut out = io::stdout().lock();
    out.write_all(b"ready\n").and_then(|()| out.flush()).ok();
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// Starts a host in a session of its own and waits until it is ready.
pub(crate) async fn start_detached(
    paths: &Paths,
    words: &[String],
    home: Option<&Path>,
) -> Result<HostStatus, CliError> {
    let failed = |source| CliError::io("could not start the host", source);
    let (log, begin) = open_log(&paths.log)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command
        .args(["up", "--detached"])
        .args(words)
        .current_dir(&paths.data_dir);
    command
        .env_remove("COUNTERSIGN_TOKEN")
        .env_remove("COUNTERSIGN_URL");
    if let Some(home) = home {
        command.env("COUNTERSIGN_HOME", home);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(pipe) = child.stdout.take() {
        io::BufReader::new(pipe)
            .read_line(&mut line)
            .map_err(failed)?;
    }
    if line.trim() != "ready" {
        let ended = child.wait().map_err(failed)?;
        let what = format!(
            "the host did not start ({ended})\n{}",
            log_since(&paths.log, begin).trim_end()
        );
        return Err(CliError::Failed {
            what,
            hint: Some("see what is in the way with `countersign doctor`".into()),
        });
    }
    let endpoint = Endpoint {
        address: Address::Socket(paths.socket.clone()),
        token: None,
        agent_id: None,
    };
    Ok(Client::connect(&endpoint)
        .await?
        .call("host.status", &json!({}))
        .await?)
}

/// The log for appending, and where it ends now.
fn open_log(path: &Path) -> Result<(File, u64), CliError> {
    let failed = |source| {
        CliError::io(
            format!("could not open the log `{}`", path.display()),
            source,
        )
    };
    if path
        .metadata()
        .is_ok_and(|found| found.len() > LOG_BYTES_MAX)
    {
        std::fs::rename(path, path.with_extension("log.old")).map_err(failed)?;
    }
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    let begin = file.metadata().map_err(failed)?.len();
    Ok((file, begin))
}

fn log_since(path: &Path, begin: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(
            begin.max(end.saturating_sub(TAIL_BYTES_MAX)),
        ))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

/// What a person opens, or the socket where there is no TCP.
pub(crate) fn web_address(status: &HostStatus) -> String {
    match &status.listen {
        Some(listen) if listen.contains("://") => listen.clone(),
        Some(listen) => format!("http://{listen}"),
        None => status.socket.clone(),
    }
}

pub(super) async fn down(common: &Common) -> Result<Exit, CliError> {
    end_host(&common.endpoint()?).await?;
    output::say("the host is gone");
    Ok(Exit::Ok)
}

/// Tells the host to end, and waits until it did.
pub(crate) async fn end_host(endpoint: &Endpoint) -> Result<(), CliError> {
    let mut client = Client::connect(endpoint).await?;
    let status: HostStatus = client.call("host.status", &json!({})).await?;
    let told: Result<Value, _> = client.call("host.shutdown", &json!({})).await;
    match told {
        Err(error) if !error.is_connection() => return Err(error.into()),
        _ => drop(client),
    }
    let waited = tokio::time::timeout(GONE_WITHIN, async {
        while !is_gone(endpoint, status.pid).await {
            tokio::time::sleep(GONE_POLL).await;
        }
    });
    waited.await.map_err(|_| CliError::Failed {
        what: format!(
            "the host (pid {}) was told to end and is still there",
            status.pid
        ),
        hint: Some("its log says why; see `countersign doctor` for where it is".into()),
    })
}

async fn is_gone(endpoint: &Endpoint, pid: u32) -> bool {
    match endpoint.address {
        Address::Socket(_) => !is_running(pid),
        Address::Tcp { .. } => matches!(
            Client::connect(endpoint).await,
            Err(CliError::NoHost { .. })
        ),
    }
}

/// Whether a process still does anything: one that only waits to be collected does not.
fn is_running(pid: u32) -> bool {
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.trim_start().chars().next());
        return !matches!(state, Some('Z' | 'X'));
    }
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_is_told_what_the_parent_was() {
        let args = UpArgs {
            detach: true,
            listen: Some("127.0.0.1:9100".parse().unwrap()),
            no_listen: false,
            allow_host: vec!["desk".into()],
            detached: false,
        };
        assert_eq!(
            args.for_child(),
            ["--listen", "127.0.0.1:9100", "--allow-host", "desk"]
        );
    }

    #[test]
    fn the_line_wins_over_the_file_and_names_add_up() {
        let scratch = tempfile::tempdir().unwrap();
        let paths = Paths::in_home(scratch.path(), 0);
        std::fs::write(
            &paths.config,
            "listen = \"127.0.0.1:8000\"\nallow_hosts = [\"a\"]\n",
        )
        .unwrap();
        let args = UpArgs {
            detach: false,
            listen: None,
            no_listen: true,
            allow_host: vec!["b".into()],
            detached: false,
        };
        let options = args.options(paths).unwrap();
        assert_eq!(
            (options.listen, options.allow_hosts),
            (None, vec!["a".to_owned(), "b".to_owned()])
        );
    }

    #[test]
    fn only_what_a_start_added_to_the_log_is_shown() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("host.log");
        std::fs::write(&path, "old\n").unwrap();
        let (mut log, begin) = open_log(&path).unwrap();
        log.write_all(b"error: new\n").unwrap();
        assert_eq!(log_since(&path, begin), "error: new\n");
    }

    #[test]
    fn this_process_is_running() {
        assert!(is_running(std::process::id()));
        assert!(!is_running(u32::MAX));
    }
}
