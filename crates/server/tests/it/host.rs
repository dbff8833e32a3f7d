//! A host of its own for each test: a server on a temporary record, in a thread of this process.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use countersign_daemon::{HostSettings, Rulebook, RulebookConfig};
use countersign_protocol::DecideConfirm;
use countersign_server::{Server, ServerOptions, WebOptions};
use countersign_testkit::doors::TestHost;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// What a test may change before a host opens.
type Change = fn(&mut HostSettings, &mut ServerOptions);

/// A running host.
pub(crate) struct Host {
    home: TempDir,
    change: Change,
    running: RunningHost,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    token: OnceLock<String>,
    log: LogBuffer,
}

struct RunningHost {
    shutdown: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    pub(crate) fn start() -> Self {
        Self::start_with(|_, _| {})
    }

    /// With other times or options than the usual ones.
    pub(crate) fn start_with(change: Change) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), change)
    }

    /// With a `rules.toml`.
    pub(crate) fn start_with_rules(rules: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("rules.toml"), rules).unwrap();
        Self::start_in(home, |_, _| {})
    }

    fn start_in(home: TempDir, change: Change) -> Self {
        raise_file_limit();
        // The server trusts only a folder that is its user's alone.
        let run = home.path().join("run");
        std::fs::DirBuilder::new().mode(0o700).create(run).unwrap();
        let log = LogBuffer::default();
        let (running, address) = launch(home.path(), "127.0.0.1:0", change, log.clone());
        Self {
            home,
            change,
            running,
            address,
            token: OnceLock::new(),
            log,
        }
    }

    /// Ends the host and starts another on the same record and address.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let home = self.home.path();
        let (running, _) = launch(home, &self.address, self.change, self.log.clone());
        self.running = running;
    }

    /// Ends the host and waits until its files are closed.
    pub(crate) fn stop(&mut self) {
        self.running.shutdown.cancel();
        self.running.thread.take().unwrap().join().unwrap();
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home().join("run/host.sock")
    }

    /// A token for an operator called `script`, made over the Unix socket as the command line does, once for all
    /// hosts on this record.
    pub(crate) fn token(&self) -> String {
        let made = self.token.get_or_init(|| create_token(&self.socket()));
        made.clone()
    }

    /// The lines that the host has logged so far.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        let bytes = self.log.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(str::to_owned).collect()
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
        // Nobody waits for the thread: what a connection of the test holds up would hold up the test.
        self.running.shutdown.cancel();
    }
}

fn launch(home: &Path, listen: &str, change: Change, log: LogBuffer) -> (RunningHost, String) {
    let mut settings = HostSettings::new(env!("CARGO_PKG_VERSION"));
    settings.rulebook = Rulebook::open(RulebookConfig {
        user_file: home.join("rules.toml"),
        home: home.to_owned(),
        host_paths: vec![home.join("own")],
        ..RulebookConfig::default()
    })
    .unwrap();
    let mut options = ServerOptions {
        socket: home.join("run/host.sock"),
        listen: Some(listen.parse().unwrap()),
        allow_hosts: Vec::new(),
        database: home.join("countersign.db"),
        agents_alone_ms: countersign_core::limits::RUNNER_PATIENCE_MS,
        unnamed_callers: false,
        web: WebOptions::default(),
        decide_confirm: DecideConfirm::Always,
        screen_files: None,
    };
    change(&mut settings, &mut options);
    let shutdown = CancellationToken::new();
    let told = shutdown.clone();
    let (sender, ready) = sync_channel(1);
    let thread = std::thread::spawn(move || {
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_env_filter("info,requests=debug")
            .with_writer(move || log.clone())
            .finish();
        // The runtime has no other thread, so that what its tasks log comes here.
        let _logs = tracing::subscriber::set_default(subscriber);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(serve(options, settings, told, sender));
    });
    let address = ready.recv().unwrap();
    let thread = Some(thread);
    (RunningHost { shutdown, thread }, address)
}

async fn serve(
    options: ServerOptions,
    settings: HostSettings,
    shutdown: CancellationToken,
    ready: std::sync::mpsc::SyncSender<String>,
) {
    let database = options.database.clone();
    let (service, mut stopped) = countersign_daemon::open(&database, settings).await.unwrap();
    let server = Server::open(options, service.clone(), shutdown)
        .await
        .unwrap();
    ready.send(server.address.unwrap().to_string()).unwrap();
    server.wait_closed().await;
    service.stop().await;
    stopped.wait().await;
}

fn create_token(socket: &Path) -> String {
    let body = json!({ "role": "operator", "name": "script", "ttl_ms": 86_400_000 }).to_string();
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    let head = format!(
        "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let made: Value = serde_json::from_str(body).expect(&response);
    made["token"].as_str().expect(&response).to_owned()
}

/// As many open files as the system lets us have, as a host does for itself.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

/// Where the log of a host goes.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
