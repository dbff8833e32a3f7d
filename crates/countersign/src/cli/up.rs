//! `up`: the host's beginning.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use countersign_core::limits::HANDOVER_MS;
use countersign_daemon::NotifySettings;
use countersign_server::WebOptions;
use tracing_subscriber::EnvFilter;

use super::replace::{self, ReplacedHost};
use super::{CommonArgs, detach, rules, shutdown};
use crate::config::{HostConfig, ListenSetting, NotifyPlaces};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::host::{self, HostOptions};
use crate::output;
use crate::paths::HostPaths;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign up
  countersign up --detach
  COUNTERSIGN_HOME=/tmp/try countersign up --detach --listen 127.0.0.1:9100
  countersign up --allow-host desk.example.ts.net   # reached through a tunnel
  countersign up --replace --detach                 # after an upgrade: agents keep running

Ctrl-C stops the host like `countersign down`: its agents keep running. With --replace the new host
listens on the address of the old one by default; give --allow-host again.

Defaults come from config.toml: `listen`, `allow_hosts`, and `alone_minutes` under `[agents]`, which
is how long agents run without a host.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of its own on the line"
)]
pub(crate) struct UpArgs {
    /// Run in the background; return as soon as the host is ready
    #[arg(long)]
    detach: bool,
    /// Replace the running host; its agents keep running and clients reconnect
    #[arg(long)]
    replace: bool,
    /// Address for TCP, loopback only [default: 127.0.0.1:7766]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "no_listen")]
    listen: Option<ListenSetting>,
    /// Do not listen on TCP, only on the Unix socket
    #[arg(long)]
    no_listen: bool,
    /// Accept this host name, for tunnels; repeatable
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Serve the web page from this folder instead of the built-in one, while developing it
    #[arg(long, value_name = "DIR")]
    web_dir: Option<PathBuf>,
    /// Format of the log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Run as the child that `--detach` starts
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
}

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One readable line for each event
    Text,
    /// One JSON object for each event
    Json,
}

/// Where notifications go, with the secrets that they need.
fn notify_settings(config: &HostConfig, paths: &HostPaths) -> Result<NotifySettings, CliError> {
    config.notify.settings(NotifyPlaces {
        config_dir: paths.config_dir().to_owned(),
        key_file: paths.notify_keys.clone(),
        public_url: config.web.public_url().map(ToString::to_string),
    })
}

impl UpArgs {
    /// The same words for the child.
    fn child_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        match self.listen {
            Some(ListenSetting::At(address)) => {
                arguments.extend(["--listen".into(), address.to_string()]);
            }
            Some(ListenSetting::None) => arguments.push("--no-listen".into()),
            None if self.no_listen => arguments.push("--no-listen".into()),
            None => {}
        }
        for name in &self.allow_host {
            arguments.extend(["--allow-host".into(), name.clone()]);
        }
        if let Some(folder) = &self.web_dir {
            arguments.extend(["--web-dir".into(), absolute(folder).display().to_string()]);
        }
        if self.log_format == LogFormat::Json {
            arguments.extend(["--log-format".into(), "json".into()]);
        }
        arguments
    }

    /// What the line and the file together say.
    pub(super) fn options(&self, paths: &HostPaths) -> Result<HostOptions, CliError> {
        let config = HostConfig::load(&paths.config)?;
        let listen = match self.listen {
            Some(ListenSetting::At(address)) => Some(address),
            Some(ListenSetting::None) => None,
            None if self.no_listen => None,
            None => config.listen(),
        };
        let names = config.allow_hosts.iter().chain(&self.allow_host);
        Ok(HostOptions {
            paths: paths.clone(),
            listen,
            allow_hosts: names.cloned().collect(),
            agents_alone_ms: host::agents_alone_ms(&config),
            unnamed_callers: config.server.unnamed_callers,
            decide_confirm: config.decide.confirm,
            escalation_ms: config.questions.to_person_seconds.as_ms(),
            web: self.web_options(&config)?,
            notify: notify_settings(&config, paths)?,
            sandbox: host::sandbox_settings(paths, &config),
        })
    }

    fn web_options(&self, config: &HostConfig) -> Result<WebOptions, CliError> {
        if let Some(folder) = &self.web_dir
            && !folder.is_dir()
        {
            let message = format!("`{}` is not a folder", folder.display());
            return Err(CliError::failed(message).with_hint("build the web page with `make web`"));
        }
        Ok(WebOptions {
            folder: self.web_dir.as_deref().map(absolute),
            public_url: config.web.public_url().cloned(),
            session_ms: config.web.session_ms(),
        })
    }

    /// Listens where the host before did, unless something else was said.
    pub(super) fn keep_address(
        &mut self,
        paths: &HostPaths,
        address: Option<SocketAddr>,
    ) -> Result<(), CliError> {
        // An address in the file was chosen by somebody. Only the default gives way to the one in use.
        let said = self.listen.is_some() || self.no_listen;
        if !said && HostConfig::load(&paths.config)?.listen.is_none() {
            self.listen = Some(address.map_or(ListenSetting::None, ListenSetting::At));
        }
        Ok(())
    }
}

/// The child runs in another folder, where a relative path would mean another one.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

pub(super) async fn up(common: &CommonArgs, mut args: UpArgs) -> Result<CliExit, CliError> {
    if args.detached {
        // Fails only for the leader of a group, which then has a session to itself anyway.
        let _ = rustix::process::setsid();
    }
    let paths = HostPaths::from_environment()?;
    paths.prepare()?;
    if !args.detached {
        if !args.replace {
            refuse_second(&paths).await?;
        }
        // Before the old host ends: nobody serves while a person thinks.
        rules::init::offer(common).await?;
    }
    let replaced = if args.replace {
        replace::replace_host(&paths, &mut args).await?
    } else {
        None
    };
    refuse_second(&paths).await?;
    if args.detach {
        start_in_background(&args, &paths, replaced).await
    } else {
        run_in_foreground(&args, &paths, replaced).await
    }
}

async fn start_in_background(
    args: &UpArgs,
    paths: &HostPaths,
    replaced: Option<ReplacedHost>,
) -> Result<CliExit, CliError> {
    // The child runs in another folder, where a relative path would mean another home.
    let home = std::env::var_os("COUNTERSIGN_HOME")
        .is_some()
        .then(|| paths.data_dir.clone());
    let started = detach::start_detached(paths, &args.child_arguments(), home.as_deref()).await;
    let status = started.inspect_err(|_| replace::print_way_back(replaced.as_ref()))?;
    output::print(&format!("{}\n", detach::web_address(&status)))?;
    output::print_message(format_args!(
        "the host is ready (pid {}); stop it with `countersign down`",
        status.pid
    ));
    Ok(CliExit::Ok)
}

async fn run_in_foreground(
    args: &UpArgs,
    paths: &HostPaths,
    replaced: Option<ReplacedHost>,
) -> Result<CliExit, CliError> {
    start_log(args.log_format);
    // If this host never serves, whoever replaced another one has none now, and is told the way back.
    let started = Cell::new(false);
    let running = host::run(args.options(paths)?, |address| {
        started.set(true);
        let socket = paths.socket.display();
        match address {
            _ if args.detached => report_ready(),
            Some(address) => output::print_message(format_args!(
                "the host is ready: http://{address}, socket {socket}"
            )),
            None => output::print_message(format_args!("the host is ready: socket {socket}")),
        }
    });
    let ran = running.await;
    if ran.is_err() && !started.get() {
        replace::print_way_back(replaced.as_ref());
    }
    ran.map_err(|error| CliError::Host(error.into()))?;
    Ok(CliExit::Ok)
}

/// Refuses to be the second host. A host that was killed leaves its socket for a moment to what it was
/// just starting.
async fn refuse_second(paths: &HostPaths) -> Result<(), CliError> {
    let deadline = Instant::now() + Duration::from_millis(HANDOVER_MS);
    while let Ok(connected) = UnixStream::connect(&paths.socket) {
        if is_served(&connected) || Instant::now() > deadline {
            return Err(second_host(paths));
        }
        tokio::time::sleep(shutdown::GONE_POLL).await;
    }
    Ok(())
}

/// Whether whoever listens is still there.
#[cfg(target_os = "linux")]
fn is_served(connected: &UnixStream) -> bool {
    // A child that inherited the socket keeps it open, but the kernel still names the process that
    // listened.
    let listens = rustix::net::sockopt::socket_peercred(connected);
    listens.is_ok_and(|listens| rustix::process::test_kill_process(listens.pid).is_ok())
}

/// Nobody says here who listens, so whoever accepts counts as a host.
#[cfg(not(target_os = "linux"))]
fn is_served(_connected: &UnixStream) -> bool {
    true
}

fn second_host(paths: &HostPaths) -> CliError {
    CliError::failed(format!(
        "a host is already running at `{}`",
        paths.socket.display()
    ))
    .with_hint(
        "see it with `countersign status`, replace it with `countersign up --replace`, or stop \
             it with `countersign down`",
    )
}

fn start_log(format: LogFormat) {
    let filter =
        EnvFilter::try_from_env("COUNTERSIGN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(filter);
    // A second subscriber in one process would be a test's; the first one stays.
    match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).try_init().ok(),
        LogFormat::Json => log.json().flatten_event(true).try_init().ok(),
    };
}

/// Says `ready` on the pipe to the parent, and lets go of it.
fn report_ready() {
    let mut out = io::stdout().lock();
    out.write_all(b"ready\n").and_then(|()| out.flush()).ok();
    // The parent is about to end, and whatever is printed later would meet a closed pipe.
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_is_told_what_the_parent_was() {
        let args = UpArgs {
            detach: true,
            replace: true,
            listen: Some("127.0.0.1:9100".parse().unwrap()),
            no_listen: false,
            allow_host: vec!["desk".into()],
            web_dir: Some("/srv/page".into()),
            detached: false,
            log_format: LogFormat::Json,
        };
        assert_eq!(
            args.child_arguments(),
            [
                "--listen",
                "127.0.0.1:9100",
                "--allow-host",
                "desk",
                "--web-dir",
                "/srv/page",
                "--log-format",
                "json"
            ]
        );
    }

    #[test]
    fn the_line_wins_over_the_file_and_names_add_up() {
        let scratch = tempfile::tempdir().unwrap();
        let paths = HostPaths::in_home(scratch.path(), 0);
        std::fs::write(
            &paths.config,
            "listen = \"127.0.0.1:8000\"\nallow_hosts = [\"a\"]\n",
        )
        .unwrap();
        let args = UpArgs {
            detach: false,
            replace: false,
            listen: None,
            no_listen: true,
            allow_host: vec!["b".into()],
            web_dir: None,
            detached: false,
            log_format: LogFormat::Text,
        };
        let options = args.options(&paths).unwrap();
        assert_eq!(
            (options.listen, options.allow_hosts),
            (None, vec!["a".to_owned(), "b".to_owned()])
        );
    }
}
