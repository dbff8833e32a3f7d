//! Starting an agent's process.
//!
//! Invariants: a process sees the environment it was given and its marks, nothing of ours; it leads
//! a session of its own; it is in its tree before it runs anything.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use countersign_sandbox::{ConfinementPlan, InheritedEntries, NetworkEntry};
use rustix::process::Signal;

use crate::child::ChildHandle;
use crate::runner::OpenHolder;
use crate::spawn_hooks;
use crate::stream::{FdReader, FdWriter};
use crate::tree::ProcessTree;

/// This program, as the process finds it that is to become another, even if its file was replaced.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";
pub(crate) const PROGRAM_NAME: &str = "countersign";

/// What to start.
#[derive(Debug)]
pub(crate) struct LaunchSpec<'a> {
    /// The program: a path, or a name that is looked for in the `PATH` of `env`.
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    /// Its whole environment, save the marks.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) tree: &'a ProcessTree,
    /// What is enforced on it.
    pub(crate) confinement: Option<ConfinementPlan>,
    /// Where the listener of its network is sent to, if it gets one.
    pub(crate) network: Option<Arc<OwnedFd>>,
    /// Who is told of its opens outside of its roots.
    pub(crate) opens: Option<Arc<OpenHolder>>,
}

/// The ends of a child's pipes that are ours.
#[derive(Debug)]
pub(crate) struct ChildPipes {
    pub(crate) stdin: FdWriter,
    pub(crate) stdout: FdReader,
    pub(crate) stderr: FdReader,
}

/// Why a program was not started. Says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such program.
    #[error(
        "there is no program `{}`; install it, put its folder on PATH, or give its whole path",
        program.display()
    )]
    NotFound { program: PathBuf },
    /// It may not be run.
    #[error("no permission to run `{}`; make it executable or choose another program", program.display())]
    NotPermitted { program: PathBuf },
    /// There is no such folder, or it may not be entered.
    #[error("cannot start `{}` in `{}`, which is not a folder that can be entered", program.display(), cwd.display())]
    BadFolder { program: PathBuf, cwd: PathBuf },
    /// Something else.
    #[error("could not start `{}` in `{}`", program.display(), cwd.display())]
    Failed {
        program: PathBuf,
        cwd: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Starts an agent. Has to be called inside a runtime.
pub(crate) fn launch(spec: &LaunchSpec<'_>) -> Result<(ChildPipes, Arc<ChildHandle>), LaunchError> {
    start(spec).map_err(|error| explain(spec, error))
}

fn start(spec: &LaunchSpec<'_>) -> io::Result<(ChildPipes, Arc<ChildHandle>)> {
    if let Some(plan) = &spec.confinement {
        create_tmp(plan)?;
    }
    let mut started = spec.tree.spawn(&|| build(spec))?;
    let child = Arc::new(ChildHandle::watch(&started, spec.tree.tasks()));
    // Without its pipes nobody could talk to it, and nobody else knows that it was started.
    let ends = take_ends(&mut started).inspect_err(|_| child.signal_group(Signal::KILL))?;
    Ok((ends, child))
}

fn build(spec: &LaunchSpec<'_>) -> io::Result<Command> {
    let mut command = command(spec.confinement.as_ref(), &spec.program, &spec.args, || {
        Ok(SandboxSetup {
            network: spec.network.clone().map(NetworkSetup::Make),
            notices: attach(spec.opens.as_ref())?,
        })
    })?;
    set_environment(&mut command, spec.confinement.is_some(), &spec.env);
    command
        .current_dir(&spec.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// The folder that the agent and its terminals see as that for temporary files.
fn create_tmp(plan: &ConfinementPlan) -> io::Result<()> {
    let Some(folder) = &plan.tmp else {
        return Ok(());
    };
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// How a confined program gets its network.
#[derive(Debug)]
pub(crate) enum NetworkSetup {
    /// It makes one, and sends the listener through this socket.
    Make(Arc<OwnedFd>),
    /// It joins the one that the agent made.
    Join {
        network: Arc<OwnedFd>,
        user: Option<Arc<OwnedFd>>,
    },
}

impl NetworkSetup {
    fn descriptors(self) -> Vec<Arc<OwnedFd>> {
        match self {
            Self::Make(socket) => vec![socket],
            Self::Join { network, user } => [network].into_iter().chain(user).collect(),
        }
    }

    fn entry(&self) -> NetworkEntry {
        match self {
            Self::Make(socket) => NetworkEntry::Make(socket.as_raw_fd()),
            Self::Join { network, user } => NetworkEntry::Join {
                network: network.as_raw_fd(),
                user: user.as_ref().map(AsRawFd::as_raw_fd),
            },
        }
    }
}

/// What a confined program is started with besides its plan.
#[derive(Debug, Default)]
pub(crate) struct SandboxSetup {
    pub(crate) network: Option<NetworkSetup>,
    /// Through which the listener for its opens is sent.
    pub(crate) notices: Option<Arc<OwnedFd>>,
}

impl SandboxSetup {
    fn entries(&self) -> InheritedEntries {
        InheritedEntries {
            network: self.network.as_ref().map(NetworkSetup::entry),
            notices: self.notices.as_ref().map(AsRawFd::as_raw_fd),
        }
    }

    fn apply(self, command: &mut Command) {
        let network = self.network.map(NetworkSetup::descriptors);
        let descriptors = network.into_iter().flatten().chain(self.notices);
        spawn_hooks::keep_open(command, descriptors.collect());
    }
}

/// A socket for the listener of one program, if anybody is told of its opens.
pub(crate) fn attach(opens: Option<&Arc<OpenHolder>>) -> io::Result<Option<Arc<OwnedFd>>> {
    let socket = opens.map(OpenHolder::attach).transpose()?;
    Ok(socket.map(Arc::new))
}

/// Gives a command of [`command`] its program's whole environment.
pub(crate) fn set_environment(
    command: &mut Command,
    is_confined: bool,
    env: &[(OsString, OsString)],
) {
    command.env_clear();
    for (name, value) in env {
        if is_confined {
            command.env(countersign_sandbox::withheld_name(name), value);
        } else {
            command.env(name, value);
        }
    }
}

/// A program with its arguments, run by this program in its own place if it is confined.
pub(crate) fn command(
    confinement: Option<&ConfinementPlan>,
    program: &OsStr,
    args: &[OsString],
    setup: impl FnOnce() -> io::Result<SandboxSetup>,
) -> io::Result<Command> {
    let Some(plan) = confinement else {
        let mut command = Command::new(program);
        command.args(args);
        return Ok(command);
    };
    let setup = setup()?;
    let mut command = Command::new(OWN_PROGRAM);
    command
        .arg0(PROGRAM_NAME)
        .args(countersign_sandbox::confined_command(
            plan,
            setup.entries(),
            program,
            args,
        )?);
    setup.apply(&mut command);
    Ok(command)
}

fn take_ends(started: &mut std::process::Child) -> io::Result<ChildPipes> {
    let (Some(stdin), Some(stdout), Some(stderr)) = (
        started.stdin.take(),
        started.stdout.take(),
        started.stderr.take(),
    ) else {
        return Err(io::Error::other("the pipes are missing"));
    };
    Ok(ChildPipes {
        stdin: FdWriter::new(OwnedFd::from(stdin))?,
        stdout: FdReader::new(OwnedFd::from(stdout))?,
        stderr: FdReader::new(OwnedFd::from(stderr))?,
    })
}

/// A missing folder and a missing program are the same error to the system.
fn explain(spec: &LaunchSpec<'_>, source: io::Error) -> LaunchError {
    let program = PathBuf::from(&spec.program);
    let cwd = spec.cwd.clone();
    if !can_enter(&cwd) {
        return LaunchError::BadFolder { program, cwd };
    }
    match source.kind() {
        io::ErrorKind::NotFound => LaunchError::NotFound { program },
        io::ErrorKind::PermissionDenied => LaunchError::NotPermitted { program },
        _ => LaunchError::Failed {
            program,
            cwd,
            source,
        },
    }
}

fn can_enter(folder: &Path) -> bool {
    folder.is_dir() && rustix::fs::access(folder, rustix::fs::Access::EXEC_OK).is_ok()
}

/// A variable's value in an environment that is given as a list; the last one counts.
pub(crate) fn find_variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let found = env.iter().rev().find(|(found, _)| found == name);
    found.map(|(_, value)| value.as_os_str())
}
