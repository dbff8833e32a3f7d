//! Reaching a runner, and making sure that it is the right one.
//!
//! Invariant: nothing is said to a process that is not the runner.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::Link;
use super::link_reader::{self, SocketReader};
use crate::procfs;
use crate::runner::frame::{read_frame, write_frame};
use crate::runner::wire::{ToHost, ToRunner, VERSION, VERSION_OLDEST};
use crate::runner::{RunnerRecord, RunnerShells};

const READ_BUFFER: usize = 64 * 1024;
const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Why there is no link to a runner.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The process is not there.
    #[error("the agent's runner has ended")]
    Gone,
    /// It does not serve this host.
    #[error("the agent's runner refused this host: {0}")]
    Refused(String),
    /// It lives and could not be reached.
    #[error("the agent's runner could not be reached")]
    Failed(#[source] io::Error),
}

/// Connects to a runner that lives, trying its sockets again and again for a while. `heard` is how much
/// of what the agent said is committed, `open` the lines up to there that still may be answered.
pub async fn connect(
    record: &RunnerRecord,
    runner: ProcessKey,
    heard: u64,
    open: Vec<u64>,
) -> Result<Link, LinkError> {
    let hello = ToRunner::Hello {
        oldest: VERSION_OLDEST,
        newest: VERSION,
        heard,
        open,
    };
    let deadline = Instant::now() + Duration::from_millis(limits::LINK_CONNECT_MS);
    let mut pause = PAUSE_FIRST;
    loop {
        let tried = try_sockets(record, runner, &hello, deadline).await?;
        match tried {
            Ok(greeted) => return Ok(greeted.into_link(heard)),
            Err(error) if Instant::now() + pause >= deadline => {
                return Err(LinkError::Failed(error));
            }
            Err(_) => sleep(pause).await,
        }
        pause = PAUSE_MAX.min(pause * 2);
    }
}

/// A runner that said hello.
#[derive(Debug)]
pub(super) struct GreetedRunner {
    version: u32,
    stream: UnixStreamHalves,
    agent: Option<ProcessKey>,
    log: String,
}

type UnixStreamHalves = (SocketReader, tokio::net::unix::OwnedWriteHalf);

impl GreetedRunner {
    fn into_link(self, heard: u64) -> Link {
        let (reader, writer) = self.stream;
        let (events, outbox) = link_reader::begin(reader, writer, heard);
        Link {
            events,
            shells: Arc::new(RunnerShells::live(outbox.clone(), self.version)),
            sender: outbox,
            agent: self.agent,
            log: self.log,
        }
    }
}

/// One round. The inner error is worth another.
async fn try_sockets(
    record: &RunnerRecord,
    runner: ProcessKey,
    hello: &ToRunner,
    deadline: Instant,
) -> Result<io::Result<GreetedRunner>, LinkError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no socket");
    for socket in &record.sockets {
        match timeout_at(deadline, greet_runner(socket, runner, hello)).await {
            Ok(Ok(greeted)) => return Ok(Ok(greeted)),
            Ok(Err(GreetError::Refused(why))) => return Err(LinkError::Refused(why)),
            // That nothing is there says less than what else was tried.
            Ok(Err(GreetError::Failed(error))) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(Err(GreetError::Failed(error))) => last = error,
            Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "it does not answer"),
        }
    }
    // Asked last: a runner may end while its sockets are tried.
    if procfs::is_alive(runner) {
        Ok(Err(last))
    } else {
        Err(LinkError::Gone)
    }
}

#[derive(Debug)]
pub(super) enum GreetError {
    Refused(String),
    Failed(io::Error),
}

impl From<io::Error> for GreetError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

pub(super) async fn greet_runner(
    socket: &Path,
    runner: ProcessKey,
    hello: &ToRunner,
) -> Result<GreetedRunner, GreetError> {
    let stream = UnixStream::connect(socket).await?;
    check_peer(&stream, runner)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(READ_BUFFER, reader);
    write_frame(&mut writer, hello, &[]).await?;
    let (answer, _) = read_frame(&mut reader)
        .await?
        .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    match answer {
        ToHost::Hello {
            version,
            agent,
            log,
        } if (VERSION_OLDEST..=VERSION).contains(&version) => Ok(GreetedRunner {
            version,
            stream: (reader, writer),
            agent,
            log,
        }),
        ToHost::Hello { version, .. } => Err(GreetError::Refused(format!(
            "it speaks version {version} of the link"
        ))),
        ToHost::Refused { why } => Err(GreetError::Refused(why)),
        _ => Err(invalid("it does not greet").into()),
    }
}

/// The kernel says who listens there; the start time says that the number was not reused.
fn check_peer(stream: &UnixStream, runner: ProcessKey) -> io::Result<()> {
    let pid = stream.peer_cred()?.pid();
    let listens = pid.and_then(|pid| u32::try_from(pid).ok());
    if listens == Some(runner.pid) && procfs::key_of(runner.pid) == runner {
        Ok(())
    } else {
        Err(invalid("another process listens in its place"))
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
