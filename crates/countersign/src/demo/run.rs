//! `demo run`: the host, the agents and the screen, and all of it gone at the end.
//!
//! Invariant: this process never holds an agent's identity. The tokens go to children through
//! their environment, so that the person here can still decide.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use countersign_protocol::{CreateTokenParams, HostStatus, NewToken};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::script::Script;
use crate::cli::up;
use crate::client::{Address, Client, Endpoint};
use crate::exit::Exit;
use crate::failure::CliError;
use crate::nonce::nonce;
use crate::paths::{self, Paths};
use crate::{duration, output, watch};

/// How long an agent may take to end before it is killed.
const END_WITHIN: Duration = Duration::from_secs(3);
const END_POLL: Duration = Duration::from_millis(20);
const TOKEN_TTL: Duration = Duration::from_hours(12);

#[derive(Args)]
pub(crate) struct RunArgs {
    /// Use this folder and keep it, instead of a scratch folder that goes at the end
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Where the demo's host listens; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Everything the demo started. Dropping it ends the agents.
struct Demo {
    home: PathBuf,
    /// Whether the folder was made here, and goes at the end.
    scratch: bool,
    endpoint: Endpoint,
    agents: Vec<Child>,
}

pub(super) async fn run(args: RunArgs) -> Result<Exit, CliError> {
    let scratch = args.home.is_none();
    let home = match args.home {
        Some(home) => {
            std::path::absolute(&home).map_err(|source| CliError::io("no such folder", source))?
        }
        None => std::env::temp_dir().join(format!("countersign-demo-{}", &nonce()?[..12])),
    };
    make_folder(&home)?;
    let paths = Paths::in_home(&home, paths::current_uid());
    let endpoint = Endpoint {
        address: Address::Socket(paths.socket.clone()),
        token: None,
        agent_id: None,
    };
    let mut demo = Demo {
        home,
        scratch,
        endpoint,
        agents: Vec::new(),
    };
    let outcome = demo.live(&paths, args.listen).await;
    let ended = demo.end().await;
    outcome?;
    ended?;
    Ok(Exit::Ok)
}

impl Demo {
    async fn live(&mut self, paths: &Paths, listen: SocketAddr) -> Result<(), CliError> {
        paths.prepare()?;
        let words = ["--listen".to_owned(), listen.to_string()];
        let status = up::start_detached(paths, &words, Some(&self.home)).await?;
        let mut client = Client::connect(&self.endpoint).await?;
        for script in Script::ALL {
            let token = agent_token(&mut client, script).await?;
            self.agents
                .push(start_agent(&self.home, script, &token, &status)?);
        }
        drop(client);
        self.explain(&status);
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            let note = format!(
                "Three scripted agents; nothing they ask for is run. Elsewhere: export COUNTERSIGN_HOME={}",
                self.home.display()
            );
            watch::watch(&self.endpoint, &note).await?;
            return Ok(());
        }
        until_told().await
    }

    fn explain(&self, status: &HostStatus) {
        let home = self.home.display();
        output::say(format_args!(
            "A host and three scripted agents are running; nothing they ask for is ever run.\n\
             The host is at {}. In another terminal:\n\n  \
             export COUNTERSIGN_HOME={home}\n  \
             countersign inbox\n  countersign show ID\n  countersign approve ID\n  \
             countersign answer ID some words\n  countersign events --follow\n\n\
             Ctrl-C ends the demo{}.",
            up::web_address(status),
            if self.scratch {
                ", and the folder with it"
            } else {
                ""
            }
        ));
    }

    async fn end(mut self) -> Result<(), CliError> {
        for agent in &self.agents {
            if let Some(pid) = i32::try_from(agent.id()).ok().and_then(Pid::from_raw) {
                // An agent that ended by itself is not there to be told.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        for agent in &mut self.agents {
            let ended = tokio::time::timeout(END_WITHIN, async {
                while matches!(agent.try_wait(), Ok(None)) {
                    tokio::time::sleep(END_POLL).await;
                }
            });
            if ended.await.is_err() {
                agent.kill().ok();
                agent.wait().ok();
            }
        }
        match up::end_host(&self.endpoint).await {
            Err(CliError::NoHost { .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
        if self.scratch {
            std::fs::remove_dir_all(&self.home).map_err(|source| {
                CliError::io(
                    format!("could not remove `{}`", self.home.display()),
                    source,
                )
            })?;
        }
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            if matches!(agent.try_wait(), Ok(None)) {
                agent.kill().ok();
                agent.wait().ok();
            }
        }
    }
}

fn make_folder(home: &Path) -> Result<(), CliError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)
        .map_err(|source| {
            CliError::io(
                format!("could not make the folder `{}`", home.display()),
                source,
            )
        })
}

async fn agent_token(client: &mut Client, script: Script) -> Result<String, CliError> {
    let params = CreateTokenParams {
        role: "agent".into(),
        agent_id: Some(script.word().into()),
        name: Some(script.word().into()),
        ttl_ms: Some(duration::millis(TOKEN_TTL)),
    };
    let made: NewToken = client.call("host.create_token", &params).await?;
    Ok(made.token)
}

fn start_agent(
    home: &Path,
    script: Script,
    token: &str,
    status: &HostStatus,
) -> Result<Child, CliError> {
    let failed = |source| {
        CliError::io(
            format!("could not start the agent `{}`", script.word()),
            source,
        )
    };
    let open = || -> io::Result<File> {
        let path = home.join(format!("agent-{}.log", script.word()));
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
    };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["demo", "agent", script.word(), "--script", script.word()]);
    command
        .env("COUNTERSIGN_HOME", home)
        .env("COUNTERSIGN_TOKEN", token)
        .env_remove("COUNTERSIGN_URL");
    if let Some(listen) = &status.listen {
        let authority = listen
            .split("://")
            .last()
            .unwrap_or(listen)
            .trim_end_matches('/');
        command.env("COUNTERSIGN_URL", format!("ws://{authority}/"));
    }
    let (out, err) = (open().map_err(failed)?, open().map_err(failed)?);
    command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(failed)
}

async fn until_told() -> Result<(), CliError> {
    let failed = |source| CliError::io("could not listen for signals", source);
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    Ok(())
}
