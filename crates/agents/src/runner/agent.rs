//! The agent's process: its output is heard, its input written, and its end seen to.
//!
//! Invariants: hearing never waits for writing, nor writing for hearing; when the agent is said to
//! be over nothing of its tree is left and all it said is known.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_core::{error_chain, limits};
use countersign_sandbox::ConfinementPlan;
use rustix::process::Signal;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::proxy::NetworkProxy;
use super::wire::LaunchRequest;
use super::{OpenHolder, Runner, SharedNetwork};
use crate::child::ChildHandle;
use crate::lines::LogSplitter;
use crate::process::{self, LaunchSpec};
use crate::shells::LocalShells;
use crate::stream::{FdReader, FdWriter};

const STDOUT_CHUNK: usize = 64 * 1024;
const STDERR_CHUNK: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct LaunchedAgent {
    child: Arc<ChildHandle>,
    pub(super) shells: LocalShells,
    /// Its input is closed once what waits is written.
    closing: CancellationToken,
}

impl LaunchedAgent {
    /// Starts the agent. Fails with a message for a person.
    pub(super) fn launch(runner: &Arc<Runner>, launch: LaunchRequest) -> Result<Arc<Self>, String> {
        let mut spec = LaunchSpec {
            program: launch.program,
            args: launch.args,
            cwd: launch.cwd,
            env: launch.env,
            tree: &runner.tree,
            network: None,
            opens: None,
            confinement: launch.confinement.map(|plan| *plan),
        };
        let proxy = prepare_network(&mut spec).map_err(|error| error.to_string())?;
        let gone = CancellationToken::new();
        let plan = spec.confinement.as_ref();
        let hold = Duration::from_millis(plan.map_or(0, |plan| plan.hold_ms));
        spec.opens = plan.and_then(|plan| OpenHolder::new(runner, plan, gone.clone()));
        let (ends, child) = process::launch(&spec).map_err(|error| error_chain(&error))?;
        // Ours of the child's end: while it is open, nobody hears that the child did not send anything.
        spec.network = None;
        let network = SharedNetwork::default();
        let plan = spec.confinement.as_ref();
        let domains = plan.map(|plan| plan.domains.clone());
        let local_ports = plan.map(|plan| plan.local_ports.clone());
        let agent = Arc::new(Self {
            child,
            shells: LocalShells::new(runner.tree.clone(), spec.env).confined_by(
                spec.confinement,
                network.clone(),
                spec.opens,
            ),
            closing: CancellationToken::new(),
        });
        let tasks = runner.tree.tasks();
        let quiet = CancellationToken::new();
        let closing = agent.closing.clone();
        tasks.spawn(write_queued(
            runner.clone(),
            ends.stdin,
            closing,
            gone.clone(),
        ));
        if let Some(from) = proxy {
            let proxy = NetworkProxy {
                runner: runner.clone(),
                domains: domains.unwrap_or_default(),
                local_ports: local_ports.unwrap_or_default(),
                hold,
                network,
            };
            tasks.spawn(proxy.run(from, gone.clone()));
        }
        let hearing = tasks.spawn(read_output(runner.clone(), ends.stdout, quiet.clone()));
        let logging = tasks.spawn(read_log(runner.clone(), ends.stderr, quiet.clone()));
        let (runner, child) = (runner.clone(), agent.child.clone());
        tasks.spawn(async move {
            let exit = child.wait().await;
            // The order matters: writing ends, then every process that could still write output, then
            // reading. Only then is all output known, and only then may the exit be told.
            gone.cancel();
            // What it left would hold its output open, and may not outlive it.
            let ended = runner.tree.kill_all().await;
            quiet.cancel();
            drop(hearing.await);
            drop(logging.await);
            let why = ended.err().map(|error| error_chain(&error));
            runner.state().set_exited(exit, why);
            runner.agent_over.cancel();
        });
        Ok(agent)
    }

    pub(super) fn key(&self) -> ProcessKey {
        self.child.key()
    }

    /// Its input is closed, then it is asked to go, then it is killed, with `grace` before each next
    /// step.
    pub(super) async fn stop(&self, grace: Duration) {
        // The input first: most agents end by themselves then, and keep their session.
        self.closing.cancel();
        for signal in [Signal::TERM, Signal::KILL] {
            if timeout(grace, self.child.wait()).await.is_ok() {
                return;
            }
            self.child.signal_group(signal);
        }
    }
}

/// Where the listener of the agent's network will come from, if it gets one.
fn prepare_network(spec: &mut LaunchSpec<'_>) -> io::Result<Option<OwnedFd>> {
    if !spec
        .confinement
        .as_ref()
        .is_some_and(ConfinementPlan::has_proxy)
    {
        return Ok(None);
    }
    let (ours, theirs) = UnixStream::pair()?;
    spec.network = Some(Arc::new(theirs.into()));
    Ok(Some(ours.into()))
}

async fn write_queued(
    runner: Arc<Runner>,
    stdin: FdWriter,
    closing: CancellationToken,
    gone: CancellationToken,
) {
    let more = runner.state().writes.more.clone();
    loop {
        let Some(item) = runner.next_write() else {
            // Only once the queue is empty: what was queued before the stop still reaches the
            // agent.
            if closing.is_cancelled() {
                break;
            }
            tokio::select! {
                () = more.notified() => continue,
                () = closing.cancelled() => continue,
                () = gone.cancelled() => break,
            }
        };
        // Whoever inherited the pipe may hold it open without reading.
        let whole = tokio::select! {
            written = stdin.write_all(&item.bytes) => written.is_ok(),
            () = gone.cancelled() => false,
        };
        runner.confirm_write(item, whole);
        if !whole {
            break;
        }
    }
    // Closed first: an agent that ends when its input ends can do so while hosts get their answers.
    drop(stdin);
    runner.end_writes();
}

async fn read_output(runner: Arc<Runner>, stdout: FdReader, quiet: CancellationToken) {
    let mut buffer = vec![0; STDOUT_CHUNK];
    let hearing = async {
        loop {
            // Without room the agent's pipe fills up, and the agent waits: that is the back pressure.
            let room = runner.wait_for_room().await.min(buffer.len());
            match stdout.read(&mut buffer[..room]).await {
                Ok(read) if read > 0 => runner.state().append_output(&buffer[..read]),
                _ => return,
            }
        }
    };
    if quiet.run_until_cancelled(hearing).await.is_some() {
        return;
    }
    // What is in the pipe already is no more than a pipe holds, whatever the room is.
    drain(&stdout, &mut buffer, |bytes| {
        runner.state().append_output(bytes);
    });
}

async fn read_log(runner: Arc<Runner>, stderr: FdReader, quiet: CancellationToken) {
    let mut cutter = LogSplitter::new(limits::AGENT_LOG_LINE_BYTES_MAX);
    let mut buffer = vec![0; STDERR_CHUNK];
    let hearing = async {
        while let Ok(read) = stderr.read(&mut buffer).await {
            if read == 0 {
                return;
            }
            log(&runner, &mut cutter, &buffer[..read]);
        }
    };
    if quiet.run_until_cancelled(hearing).await.is_none() {
        drain(&stderr, &mut buffer, |bytes| {
            log(&runner, &mut cutter, bytes);
        });
    }
    if let Some(text) = cutter.finish() {
        runner.state().append_log(text);
    }
}

fn log(runner: &Runner, cutter: &mut LogSplitter, mut bytes: &[u8]) {
    while let Some(text) = cutter.next_piece(&mut bytes) {
        runner.state().append_log(text);
    }
}

fn drain(source: &FdReader, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
    let mut drained = 0;
    // Bounded, because a process that escaped the tree could go on writing into the pipe.
    while drained < limits::AGENT_DRAIN_BYTES_MAX {
        let read = source.read_now(buffer);
        if read == 0 {
            return;
        }
        take(&buffer[..read]);
        drained += read;
    }
}
