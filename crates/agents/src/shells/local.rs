//! Commands as processes of this machine.
//!
//! Invariants: each command leads a session of its own and has a tree of its own inside its agent's;
//! its output is read until its end or its release, however much it is, and kept within its bound;
//! nobody types anything; a key starts one command, ever.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_core::limits::{
    self, RELEASED_OUTPUT_BYTES_MAX, RELEASED_TERMINALS_KEPT, TERMINAL_WAIT_MS,
};
use countersign_sandbox::ConfinementPlan;
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::readable_output::ReadableOutput;
use super::{
    CommandSpec, ShellBackend, ShellError, ShellFuture, TerminalId, TerminalOutput, TerminalPiece,
    TerminalSummary,
};
use crate::adapter::ProcessExit;
use crate::child::ChildHandle;
use crate::process::{self, NetworkSetup, SandboxSetup, find_variable};
use crate::runner::{OpenHolder, SharedNetwork};
use crate::stream::FdReader;
use crate::tree::{ProcessTree, TreeError};

const CHUNK: usize = 32 * 1024;
pub(super) const NAME_PREFIX: &str = "term-";

/// Runs the commands of one agent.
#[derive(Debug)]
pub struct LocalShells {
    tree: ProcessTree,
    env: Vec<(OsString, OsString)>,
    /// What is enforced on every command.
    confinement: Option<ConfinementPlan>,
    /// The network of their agent.
    network: SharedNetwork,
    /// Who is told of their opens outside of its roots.
    opens: Option<Arc<OpenHolder>>,
    terminals: Mutex<TerminalTable>,
    /// The newest keys with what they gave. Held while a command is started.
    keys: Mutex<VecDeque<(u64, TerminalId)>>,
}

#[derive(Debug, Default)]
struct TerminalTable {
    /// How many there ever were: they are numbered from 1.
    made: u64,
    open: BTreeMap<u64, Arc<LocalTerminal>>,
    /// The newest that were released, for people to read.
    released: VecDeque<(u64, Arc<ReadableOutput>)>,
}

#[derive(Debug)]
struct LocalTerminal {
    tree: ProcessTree,
    child: Arc<ChildHandle>,
    readable: Arc<ReadableOutput>,
    released: CancellationToken,
}

impl LocalShells {
    /// Everything that is started belongs to `tree` and begins with `env`.
    pub fn new(tree: ProcessTree, env: Vec<(OsString, OsString)>) -> Self {
        Self {
            tree,
            env,
            confinement: None,
            network: SharedNetwork::default(),
            opens: None,
            terminals: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// Every command gets the view and the limits of its agent, in a sandbox of its own.
    pub(crate) fn confined_by(
        self,
        confinement: Option<ConfinementPlan>,
        network: SharedNetwork,
        opens: Option<Arc<OpenHolder>>,
    ) -> Self {
        Self {
            confinement,
            network,
            opens,
            ..self
        }
    }

    fn start_once(&self, mut spec: CommandSpec) -> Result<TerminalId, ShellError> {
        // Held until the command is started: a second call with the same key waits and gets the same terminal.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, id)) = keys.iter().find(|(key, _)| *key == spec.key) {
            return Ok(id.clone());
        }
        // Where a name comes twice the last counts.
        spec.env.splice(..0, self.env.iter().cloned());
        let id = self.start(&spec)?;
        // A host repeats only what it has not committed, which are its newest calls.
        if keys.len() >= limits::TERMINAL_KEYS_KEPT {
            keys.pop_front();
        }
        keys.push_back((spec.key, id.clone()));
        Ok(id)
    }

    fn sandbox(&self) -> Option<CommandSandbox<'_>> {
        let plan = self.confinement.as_ref()?;
        Some(CommandSandbox {
            plan,
            network: &self.network,
            opens: self.opens.as_ref(),
        })
    }

    fn start(&self, spec: &CommandSpec) -> Result<TerminalId, ShellError> {
        if !spec.cwd.is_absolute() {
            let reason = format!("`{}` is not an absolute path", spec.cwd.display());
            return Err(ShellError::NotPermitted(reason));
        }
        let number = self.number()?;
        let name = format!("{NAME_PREFIX}{number}");
        let terminal = self
            .tree
            .create_inside(&name)
            .map_err(|error| failed("start the command", error))
            .and_then(|tree| LocalTerminal::start(tree, spec, self.sandbox()))?;
        self.terminals().open.insert(number, Arc::new(terminal));
        Ok(TerminalId::new(name))
    }

    fn number(&self) -> Result<u64, ShellError> {
        let mut terminals = self.terminals();
        if terminals.open.len() >= limits::AGENT_TERMINALS_MAX {
            let reason = "too many terminals are open; release some".to_owned();
            return Err(ShellError::NotPermitted(reason));
        }
        terminals.made += 1;
        Ok(terminals.made)
    }

    fn find(&self, id: &TerminalId) -> Result<Arc<LocalTerminal>, ShellError> {
        let number = parse_name(id);
        let terminals = self.terminals();
        let found = number.and_then(|number| terminals.open.get(&number));
        found
            .cloned()
            .ok_or_else(|| ShellError::NotFound(id.clone()))
    }

    fn was_made(&self, id: &TerminalId) -> bool {
        let made = self.terminals().made;
        parse_name(id).is_some_and(|number| (1..=made).contains(&number))
    }

    fn terminals(&self) -> MutexGuard<'_, TerminalTable> {
        self.terminals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn end(&self, id: &TerminalId) -> Result<(), ShellError> {
        let terminal = match self.find(id) {
            Ok(terminal) => terminal,
            Err(_) if self.was_made(id) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Forgotten only once nothing of it runs; if killing fails, the terminal can be released again.
        terminal.kill().await?;
        terminal.released.cancel();
        if let Some(number) = parse_name(id) {
            self.terminals().release(number, &terminal);
        }
        Ok(())
    }

    fn find_readable(&self, id: &TerminalId) -> Result<Arc<ReadableOutput>, ShellError> {
        let number = parse_name(id);
        let found = number.and_then(|number| self.terminals().find_readable(number));
        found.ok_or_else(|| ShellError::NotFound(id.clone()))
    }
}

impl TerminalTable {
    fn release(&mut self, number: u64, terminal: &LocalTerminal) {
        if self.open.remove(&number).is_none() {
            return;
        }
        let readable = &terminal.readable;
        // Nobody writes any more: whatever held the output open was killed.
        readable.end(RELEASED_OUTPUT_BYTES_MAX);
        self.released.push_back((number, readable.clone()));
        if self.released.len() > RELEASED_TERMINALS_KEPT {
            self.released.pop_front();
        }
    }

    fn find_readable(&self, number: u64) -> Option<Arc<ReadableOutput>> {
        if let Some(terminal) = self.open.get(&number) {
            return Some(terminal.readable.clone());
        }
        let mut released = self.released.iter();
        let (_, readable) = released.find(|(found, _)| *found == number)?;
        Some(readable.clone())
    }

    /// All that can be read, oldest first.
    fn readable(&self) -> Vec<(u64, Arc<ReadableOutput>)> {
        let open = self.open.iter();
        let open = open.map(|(number, terminal)| (*number, terminal.readable.clone()));
        let mut all: Vec<_> = self.released.iter().cloned().chain(open).collect();
        all.sort_by_key(|(number, _)| *number);
        all
    }
}

impl ShellBackend for LocalShells {
    fn create(&self, spec: CommandSpec) -> ShellFuture<'_, TerminalId> {
        Box::pin(async move { self.start_once(spec) })
    }

    fn output<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, TerminalOutput> {
        Box::pin(async move { Ok(self.find(id)?.read()) })
    }

    fn wait_for_exit<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ProcessExit> {
        Box::pin(async move { Ok(self.find(id)?.wait().await) })
    }

    fn kill<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ()> {
        Box::pin(async move { self.find(id)?.kill().await })
    }

    fn release<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ()> {
        Box::pin(self.end(id))
    }

    fn list(&self) -> ShellFuture<'_, Vec<TerminalSummary>> {
        Box::pin(async {
            let all = self.terminals().readable();
            let rows = all
                .iter()
                .map(|(number, readable)| readable.summary(*number));
            Ok(rows.collect())
        })
    }

    fn read_from<'a>(
        &'a self,
        id: &'a TerminalId,
        after: u64,
        wait_ms: u64,
    ) -> ShellFuture<'a, TerminalPiece> {
        Box::pin(async move {
            let readable = self.find_readable(id)?;
            let limit = Duration::from_millis(wait_ms.min(TERMINAL_WAIT_MS));
            // When the time is over, the piece is empty, and the reader asks again.
            drop(tokio::time::timeout(limit, readable.wait_for_more(after)).await);
            Ok(readable.read_from(after))
        })
    }
}

fn parse_name(id: &TerminalId) -> Option<u64> {
    id.as_str().strip_prefix(NAME_PREFIX)?.parse().ok()
}

fn failed(what: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ShellError {
    ShellError::Failed {
        what: what.to_owned(),
        source: io::Error::other(source),
    }
}

/// What is enforced on a command.
#[derive(Clone, Copy, Debug)]
struct CommandSandbox<'a> {
    plan: &'a ConfinementPlan,
    network: &'a SharedNetwork,
    opens: Option<&'a Arc<OpenHolder>>,
}

impl CommandSandbox<'_> {
    fn setup(self) -> io::Result<SandboxSetup> {
        Ok(SandboxSetup {
            network: self.join_network()?,
            notices: process::attach(self.opens)?,
        })
    }

    fn join_network(self) -> io::Result<Option<NetworkSetup>> {
        if !self.plan.has_proxy() {
            return Ok(None);
        }
        let Some(made) = self.network.get() else {
            return Err(io::Error::other(
                "the network of the agent's sandbox is not there",
            ));
        };
        let user = made.user.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(Some(NetworkSetup::Join {
            network: Arc::new(made.network.try_clone()?),
            user: user.map(Arc::new),
        }))
    }
}

impl LocalTerminal {
    fn start(
        tree: ProcessTree,
        spec: &CommandSpec,
        confinement: Option<CommandSandbox<'_>>,
    ) -> Result<Self, ShellError> {
        let started = start(&tree, spec, confinement);
        let (child, source) = started.map_err(|source| ShellError::Failed {
            what: format!("run a command in `{}`", spec.cwd.display()),
            source,
        })?;
        let readable = Arc::new(ReadableOutput::new(spec));
        let released = CancellationToken::new();
        let reading = TerminalReader {
            source,
            readable: readable.clone(),
            buffer: vec![0; CHUNK],
            open: true,
        };
        let follow = reading.follow(child.clone());
        tree.tasks()
            .spawn(released.clone().run_until_cancelled_owned(follow));
        Ok(Self {
            tree,
            child,
            readable,
            released,
        })
    }

    fn read(&self) -> TerminalOutput {
        self.readable.read()
    }

    async fn wait(&self) -> ProcessExit {
        self.readable.wait_for_exit().await
    }

    /// Returns when nothing is left and how it ended is known.
    async fn kill(&self) -> Result<(), ShellError> {
        self.child.signal_group(Signal::KILL);
        let ended = self.tree.kill_all().await;
        ended.map_err(|error: TreeError| failed("end the command", error))?;
        self.wait().await;
        Ok(())
    }
}

fn start(
    tree: &ProcessTree,
    spec: &CommandSpec,
    confinement: Option<CommandSandbox<'_>>,
) -> io::Result<(Arc<ChildHandle>, FdReader)> {
    let (ours, theirs) = io::pipe()?;
    let source = FdReader::new(ours.into())?;
    // Dropped at the end of this function: a copy held by us would keep the output open for ever.
    let theirs = OwnedFd::from(theirs);
    let started = tree.spawn(&|| build(spec, confinement, &theirs))?;
    Ok((Arc::new(ChildHandle::watch(&started, tree.tasks())), source))
}

/// Both kinds of output go to one place, in the order they were written.
fn build(
    spec: &CommandSpec,
    confinement: Option<CommandSandbox<'_>>,
    theirs: &OwnedFd,
) -> io::Result<Command> {
    let args = ["-c", &spec.command].map(OsString::from);
    let shell = find_shell(spec);
    let plan = confinement.map(|confinement| confinement.plan);
    let mut command = process::command(plan, shell.as_os_str(), &args, || {
        confinement.map_or_else(|| Ok(SandboxSetup::default()), CommandSandbox::setup)
    })?;
    process::set_environment(&mut command, plan.is_some(), &spec.env);
    command
        .current_dir(&spec.cwd)
        .stdin(Stdio::null())
        .stdout(theirs.try_clone()?)
        .stderr(theirs.try_clone()?);
    Ok(command)
}

/// Rules read commands as bash does, so bash runs them where there is one.
pub(super) fn find_shell(spec: &CommandSpec) -> PathBuf {
    let path = find_variable(&spec.env, "PATH").unwrap_or_default();
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    // Before the agent's `PATH`, where an agent could put a `bash` of its own.
    [PathBuf::from("/bin"), PathBuf::from("/usr/bin")]
        .into_iter()
        .chain(folders)
        .map(|folder| folder.join("bash"))
        .find(|bash| is_runnable(bash))
        .unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

fn is_runnable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Takes what a command writes.
struct TerminalReader {
    source: FdReader,
    readable: Arc<ReadableOutput>,
    buffer: Vec<u8>,
    open: bool,
}

impl TerminalReader {
    /// Until the end of the output. What was left running may write after the exit.
    async fn follow(mut self, child: Arc<ChildHandle>) {
        let exit = loop {
            tokio::select! {
                exit = child.wait() => break exit,
                () = self.read(), if self.open => {}
            }
        };
        // Before the exit is told, so that whoever waits for it finds the output complete.
        self.read_rest().await;
        self.readable.note_exit(exit);
        while self.open {
            self.read().await;
        }
    }

    /// Something may hold the output open, so its end is not waited for long.
    async fn read_rest(&mut self) {
        let deadline = Instant::now() + Duration::from_millis(limits::TERMINAL_DRAIN_MS);
        while self.open {
            tokio::select! {
                () = self.read() => {}
                () = sleep_until(deadline) => return,
            }
        }
    }

    async fn read(&mut self) {
        let read = self.source.read(&mut self.buffer).await;
        let read = read.unwrap_or_default();
        self.readable.push(&self.buffer[..read]);
        self.open = read > 0;
    }
}
