//! The host: everything that `up` runs until it is told to end.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use countersign_core::{Caller, OWN_SERVER, Rejection, TokenId};
use countersign_daemon::{
    HostSettings, McpServer, NotifySettings, OwnTerminalSettings, Rulebook, RunnerSettings,
    SandboxSettings, Service, ServiceError,
};
use countersign_protocol::DecideConfirm;
use countersign_server::{Server, ServerOptions, WebOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::down;
use crate::config::HostConfig;
use crate::paths::HostPaths;
use crate::tui::proposals::ProposedFiles;
use crate::{output, rule_files};

pub(crate) struct HostOptions {
    pub(crate) paths: HostPaths,
    /// Where it listens for TCP; `None` for the Unix socket alone.
    pub(crate) listen: Option<SocketAddr>,
    /// Names besides loopback under which it may be reached.
    pub(crate) allow_hosts: Vec<String>,
    /// How long its agents go on without a host.
    pub(crate) agents_alone_ms: u64,
    /// Whether a token alone counts on TCP where the calling process cannot be named.
    pub(crate) unnamed_callers: bool,
    /// Which allows need a second act on a screen that answers.
    pub(crate) decide_confirm: DecideConfirm,
    /// How long orchestrators have to answer before people are asked as well.
    pub(crate) escalation_ms: u64,
    pub(crate) web: WebOptions,
    pub(crate) notify: NotifySettings,
    pub(crate) sandbox: SandboxSettings,
}

/// What the file says, or a test.
pub(crate) fn agents_alone_ms(config: &HostConfig) -> u64 {
    from_environment("COUNTERSIGN_RUNNER_PATIENCE_MS")
        .unwrap_or_else(|| config.agents.alone_minutes.as_ms())
}

/// What agents are confined with: what the file says, or a variable in its place.
pub(crate) fn sandbox_settings(paths: &HostPaths, config: &HostConfig) -> SandboxSettings {
    let mut settings = SandboxSettings::new("/proc/self/exe".into(), paths.runtime_dir.clone());
    settings.profiles.clone_from(&config.sandbox);
    let variable = std::env::var("COUNTERSIGN_SANDBOX").ok();
    let chosen = variable
        .filter(|name| !name.is_empty())
        .or_else(|| config.agents.sandbox.clone());
    if let Some(name) = chosen {
        settings.usual = name;
    }
    // Whole folders: a file that is replaced would show up again.
    settings.host_files = vec![
        paths.config_dir().to_owned(),
        paths.data_dir.clone(),
        paths.state_dir.clone(),
    ];
    settings
        .host_files
        .extend(config.notify.secret_files(paths.config_dir()));
    settings.runner_sockets.clone_from(&paths.runner_sockets);
    settings
        .runner_sockets
        .extend(paths.terminal_sockets.iter().cloned());
    settings
}

/// Runs until it is told to end; calls `ready` with the TCP address once every door is open.
pub(crate) async fn run(
    options: HostOptions,
    ready: impl FnOnce(Option<SocketAddr>),
) -> anyhow::Result<()> {
    let HostOptions {
        paths,
        listen,
        allow_hosts,
        agents_alone_ms,
        unnamed_callers,
        decide_confirm,
        escalation_ms,
        web,
        notify,
        sandbox,
    } = options;
    raise_file_limit();
    let mut settings = settings(&paths, agents_alone_ms)?;
    settings.escalation_ms = escalation_ms;
    settings.notify = notify;
    settings.terminals_folder = Some(paths.data_dir.join("terminals"));
    settings.own_terminals = Some(own_terminal_settings(&paths));
    settings.runners.sandbox = Some(sandbox);
    // The record before the doors: opening it takes its lock, so a second host fails here and leaves
    // the socket of the first one alone.
    let (service, mut stopped) = countersign_daemon::open(&paths.database, settings).await?;
    let ending = CancellationToken::new();
    let doors = ServerOptions {
        socket: paths.socket.clone(),
        listen,
        allow_hosts,
        database: paths.database.clone(),
        agents_alone_ms,
        unnamed_callers,
        web,
        decide_confirm,
        screen_files: Some(Arc::new(ProposedFiles::new(paths.config_dir()))),
    };
    let server = Server::open(doors, service.clone(), ending.clone()).await?;
    end_file_token(&service, &paths.runtime_dir).await?;
    tracing::info!(socket = %paths.socket.display(), address = ?server.address, "the host accepts connections");
    ready(server.address);
    let orderly = wait_for_shutdown(&ending, &mut stopped).await?;
    // The doors close first: a request that was accepted is still answered by a loop that runs.
    let agents_ended_by = server.wait_closed().await;
    let kept = end_or_count_agents(&service, agents_ended_by).await;
    service.stop().await;
    stopped.wait().await;
    if !orderly {
        anyhow::bail!(
            "the host's main loop ended unexpectedly; the record is complete, start the host again"
        )
    }
    if kept > 0 {
        output::print_message("the host has ended");
        output::print_message(down::kept_agents_text(kept, Some(agents_alone_ms)));
    }
    Ok(())
}

/// Earlier hosts left an operator's token in a file that every process of the user could read, agents too.
async fn end_file_token(service: &Service, folder: &Path) -> anyhow::Result<()> {
    let revoked = service.revoke_token(Caller::host(), TokenId::new("token-file"));
    match revoked.await {
        Ok(()) | Err(ServiceError::Rejected(Rejection::UnknownToken(_))) => {}
        Err(error) => return Err(error.into()),
    }
    for name in ["auth-token", "auth-token.new"] {
        // There is none, as a rule.
        drop(std::fs::remove_file(folder.join(name)));
    }
    Ok(())
}

/// Ends what was started after somebody wanted every agent to end; how many agents go on.
async fn end_or_count_agents(service: &Service, ended_by: Option<Caller>) -> usize {
    let live = match ended_by {
        Some(caller) => service.end_agents(&caller).await,
        None => service.live_agents(&Caller::host()).await,
    };
    live.map_or(0, |live| live.len())
}

/// As many open files as the system lets us have: finding out who calls needs some to spare,
/// however many connections there are.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Waits for a signal, for a caller that ends the host, or for the loop to fail.
async fn wait_for_shutdown(
    ending: &CancellationToken,
    stopped: &mut countersign_daemon::SupervisorExit,
) -> anyhow::Result<bool> {
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for signals")?;
    let orderly = tokio::select! {
        () = ending.cancelled() => true,
        _ = terminate.recv() => true,
        _ = interrupt.recv() => true,
        () = stopped.wait() => false,
    };
    // A signal ends the host as a call does: this tells the server to take nobody else.
    ending.cancel();
    Ok(orderly)
}

/// The files of this user and the usual times, or shorter ones where a test says so.
fn settings(paths: &HostPaths, agents_alone_ms: u64) -> anyhow::Result<HostSettings> {
    let mut settings = HostSettings::new(env!("CARGO_PKG_VERSION"));
    settings.rulebook = Rulebook::open(rule_files::rulebook_config(paths))?;
    settings.runners = RunnerSettings {
        folder: paths.runners.clone(),
        sockets: paths.runner_sockets.clone(),
        patience_ms: agents_alone_ms,
        tools: own_mcp_server(&paths.socket),
        ..RunnerSettings::default()
    };
    if let Some(ms) = from_environment("COUNTERSIGN_OWNER_GRACE_MS") {
        settings.owner_grace_ms = ms;
    }
    if let Some(ms) = from_environment("COUNTERSIGN_EXPIRY_HOLD_MS") {
        settings.expiry_hold_ms = ms;
    }
    Ok(settings)
}

fn own_terminal_settings(paths: &HostPaths) -> OwnTerminalSettings {
    let mut lock = paths.database.clone().into_os_string();
    lock.push(".lock");
    OwnTerminalSettings {
        command: countersign_agents::own_terminal::default_command(),
        folder: paths.own_terminals.clone(),
        sockets: paths.terminal_sockets.clone(),
        host_lock: Some(lock.into()),
    }
}

/// How an agent starts the server of our own tools. A path that is no text cannot be said to it.
fn own_mcp_server(socket: &Path) -> Option<McpServer> {
    let command = std::env::current_exe().ok();
    let command = command.and_then(|command| command.into_os_string().into_string().ok());
    // A program that was replaced while it runs is still found under its name.
    let command = command.map(|name| name.trim_end_matches(" (deleted)").to_owned());
    let socket = std::path::absolute(socket).ok();
    let socket = socket.and_then(|socket| socket.into_os_string().into_string().ok());
    let (Some(command), Some(socket)) = (command, socket) else {
        tracing::warn!("agents do not get the host's tools: its paths are not text");
        return None;
    };
    Some(McpServer {
        name: OWN_SERVER.to_owned(),
        command,
        args: ["mcp", "--socket", &socket].map(str::to_owned).to_vec(),
    })
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}
