//! Enforcing a plan on this process, and then running a program in its place.
//!
//! At level `full` this happens in two stages: the outer one has bubblewrap make the view of files and run
//! the same program again inside, which is the second stage.
//!
//! Invariant: nothing that an agent chose acts before the plan is enforced. Its variables reach neither
//! stage nor bubblewrap under their own names, because the loader would run what `LD_PRELOAD` names.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use crate::plan::ConfinementPlan;

/// The command of this program that confines.
const OUTER_COMMAND: &str = "confine";
const INSIDE: &str = "--inside";
const PROBE: &str = "--probe";
const ATTEMPT: &str = "--attempt";
const ATTEMPT_ALL: &str = "--attempt-all";
const NETWORK: &str = "--network";
const NOTICES: &str = "--notices";
const SEPARATOR: &str = "--";

/// Stands before the names of a program's variables until the plan is enforced.
const WITHHELD: &str = "COUNTERSIGN_WITHHELD_";

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("`countersign confine` is started by a runner, with a plan and a program")]
    Arguments,
    #[error("the sandbox plan cannot be read")]
    Plan(#[from] serde_json::Error),
    #[error("could not {what}")]
    System {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    FileRules(#[from] crate::file_rules::FileRulesError),
    #[error("could not run `{}`: {source}", program.display())]
    Program { program: PathBuf, source: io::Error },
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Suite(#[from] crate::escape::SuiteError),
    #[error("{0}")]
    Stopped(io::Error),
    #[error("this system has no sandbox")]
    Unsupported,
}

impl ConfineError {
    fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// What `countersign confine` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfineStage {
    /// Nothing: whoever asks wants to know whether it gets this far.
    Probe,
    /// Everything, or one thing, that must not work in a sandbox.
    AttemptAll,
    Attempt(String),
    /// The whole plan.
    Outer(ConfinedProgram),
    /// What is left to do inside the view that bubblewrap made.
    Inside(ConfinedProgram),
}

/// Which network a program enters, by descriptors that it is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkEntry {
    /// One of its own, whose listener is sent through this socket.
    Make(i32),
    /// One that was made before.
    Join { network: i32, user: Option<i32> },
}

impl NetworkEntry {
    fn to_argument(self) -> String {
        match self {
            Self::Make(socket) => format!("make:{socket}"),
            Self::Join {
                network,
                user: None,
            } => format!("join:{network}"),
            Self::Join {
                network,
                user: Some(user),
            } => format!("join:{network},{user}"),
        }
    }

    fn read(argument: &str) -> Option<Self> {
        let (word, numbers) = argument.split_once(':')?;
        match (word, numbers.split_once(',')) {
            ("make", None) => numbers.parse().ok().map(Self::Make),
            ("join", None) => Some(Self::Join {
                network: numbers.parse().ok()?,
                user: None,
            }),
            ("join", Some((network, user))) => Some(Self::Join {
                network: network.parse().ok()?,
                user: Some(user.parse().ok()?),
            }),
            _ => None,
        }
    }
}

/// What a program is started with besides its plan, by descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InheritedEntries {
    pub network: Option<NetworkEntry>,
    /// The socket through which the listener for its opens is sent; without one nobody is asked about opens.
    pub notices: Option<i32>,
}

impl InheritedEntries {
    fn to_arguments(self) -> Vec<OsString> {
        let network = self.network.map(|entry| (NETWORK, entry.to_argument()));
        let notices = self.notices.map(|socket| (NOTICES, socket.to_string()));
        let pairs = network.into_iter().chain(notices);
        pairs
            .flat_map(|(option, value)| [option.into(), value.into()])
            .collect()
    }
}

/// A program, and the plan that is enforced on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinedProgram {
    plan: String,
    entries: InheritedEntries,
    program: OsString,
    args: Vec<OsString>,
}

impl ConfineStage {
    /// Reads the arguments after the name of this program; `None` if they are another command's.
    pub fn read_arguments(
        mut given: impl Iterator<Item = OsString>,
    ) -> Option<Result<Self, ConfineError>> {
        if given.next()? != OUTER_COMMAND {
            return None;
        }
        let stage = Self::read_stage(&mut given);
        Some(stage.ok_or(ConfineError::Arguments))
    }

    fn read_stage(given: &mut dyn Iterator<Item = OsString>) -> Option<Self> {
        let first = given.next()?;
        if first == PROBE {
            return Some(Self::Probe);
        }
        if first == ATTEMPT_ALL {
            return Some(Self::AttemptAll);
        }
        if first == ATTEMPT {
            return given.next()?.into_string().ok().map(Self::Attempt);
        }
        let mut first = first;
        let is_inside = first == INSIDE;
        if is_inside {
            first = given.next()?;
        }
        let mut entries = InheritedEntries::default();
        if first == NETWORK {
            entries.network = Some(NetworkEntry::read(given.next()?.to_str()?)?);
            first = given.next()?;
        }
        if first == NOTICES {
            entries.notices = Some(given.next()?.to_str()?.parse().ok()?);
            first = given.next()?;
        }
        let plan = first;
        let plan = plan.into_string().ok()?;
        if given.next()? != SEPARATOR {
            return None;
        }
        let program = ConfinedProgram {
            plan,
            entries,
            program: given.next()?,
            args: given.collect(),
        };
        Some(if is_inside {
            Self::Inside(program)
        } else {
            Self::Outer(program)
        })
    }
}

/// The arguments with which this program confines another.
pub fn confined_command(
    plan: &ConfinementPlan,
    entries: InheritedEntries,
    program: &OsStr,
    args: &[OsString],
) -> Result<Vec<OsString>, serde_json::Error> {
    let plan = serde_json::to_string(plan)?;
    let mut command: Vec<OsString> = vec![OUTER_COMMAND.into()];
    command.extend(entries.to_arguments());
    command.extend([plan.into(), SEPARATOR.into()]);
    command.push(program.to_owned());
    command.extend(args.iter().cloned());
    Ok(command)
}

/// The name under which a program's variable is given to [`confined_command`].
pub fn withheld_name(name: &OsStr) -> OsString {
    let mut withheld = OsString::from(WITHHELD);
    withheld.push(name);
    withheld
}

/// The name that a program's variable has when it runs, if it was withheld.
#[cfg(target_os = "linux")]
fn released_name(name: &OsStr) -> Option<&OsStr> {
    use std::os::unix::ffi::OsStrExt as _;

    let released = name.as_bytes().strip_prefix(WITHHELD.as_bytes())?;
    Some(OsStr::from_bytes(released))
}

/// The arguments with which this program does nothing, to be confined in a try.
pub(crate) fn probe_arguments() -> [&'static str; 2] {
    [OUTER_COMMAND, PROBE]
}

/// The arguments with which this program tries to leave a sandbox.
pub(crate) fn attempt_all_arguments() -> [&'static str; 2] {
    [OUTER_COMMAND, ATTEMPT_ALL]
}

pub(crate) fn attempt_arguments(case: &str) -> [&str; 3] {
    [OUTER_COMMAND, ATTEMPT, case]
}

/// Performs a stage. Returns only if it was a probe, or if the program was not run.
pub fn confine(stage: ConfineStage) -> Result<(), ConfineError> {
    match stage {
        ConfineStage::Probe => Ok(()),
        ConfineStage::AttemptAll => print_attempts(),
        ConfineStage::Attempt(case) => attempt(&case),
        ConfineStage::Outer(program) => Err(enter(program)),
        ConfineStage::Inside(program) => Err(finish(&program)),
    }
}

#[cfg(not(target_os = "linux"))]
fn print_attempts() -> Result<(), ConfineError> {
    Err(ConfineError::Unsupported)
}

#[cfg(not(target_os = "linux"))]
fn attempt(_case: &str) -> Result<(), ConfineError> {
    Err(ConfineError::Unsupported)
}

#[cfg(target_os = "linux")]
fn print_attempts() -> Result<(), ConfineError> {
    let results = crate::escape::attempt_all()?;
    serde_json::to_writer(io::stdout().lock(), &results)?;
    Ok(())
}

/// Fails if the attempt was stopped.
#[cfg(target_os = "linux")]
fn attempt(case: &str) -> Result<(), ConfineError> {
    crate::escape::attempt(case)?.map_err(ConfineError::Stopped)
}

#[cfg(not(target_os = "linux"))]
fn enter(_program: ConfinedProgram) -> ConfineError {
    ConfineError::Unsupported
}

#[cfg(not(target_os = "linux"))]
fn finish(_program: &ConfinedProgram) -> ConfineError {
    ConfineError::Unsupported
}

#[cfg(target_os = "linux")]
use linux::{enter, finish};

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd as _, IntoRawFd as _};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use countersign_core::event::SandboxLevel;
    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::{
        ConfineError, ConfinedProgram, ConfinementPlan, INSIDE, InheritedEntries, NetworkEntry,
        OUTER_COMMAND, PathBuf, SEPARATOR, io, released_name,
    };
    use crate::network::NetworkNamespaces;
    use crate::plan::NetworkAccess;
    use crate::syscall_filter::{self, FilterOptions};
    use crate::{
        bubblewrap, descriptor_passing, file_rules, mounts, network, syscall_notices, system_calls,
    };

    pub(super) fn enter(program: ConfinedProgram) -> ConfineError {
        match read_plan(&program) {
            Ok(plan) if plan.level == SandboxLevel::Full => enter_view(&plan, program),
            Ok(_) => finish(&program),
            Err(error) => error.into(),
        }
    }

    fn read_plan(program: &ConfinedProgram) -> serde_json::Result<ConfinementPlan> {
        let mut plan = serde_json::from_str(&program.plan)?;
        mounts::drop_misled(&mut plan, &mounts::MachineDisk);
        Ok(plan)
    }

    /// Has bubblewrap make the view and run this program again inside it.
    fn enter_view(plan: &ConfinementPlan, program: ConfinedProgram) -> ConfineError {
        match view_command(plan, program) {
            Ok(mut command) => ConfineError::Program {
                program: plan.bubblewrap.clone(),
                source: command.exec(),
            },
            Err(error) => error,
        }
    }

    /// Before the view is made: inside it nothing may leave a namespace any more.
    fn enter_network(
        plan: &ConfinementPlan,
        entry: Option<NetworkEntry>,
    ) -> Result<bool, ConfineError> {
        let Some(entry) = entry.filter(|_| plan.has_proxy()) else {
            return Ok(false);
        };
        let entered = match entry {
            NetworkEntry::Make(socket) => system_calls::take_descriptor(socket)
                .and_then(|socket| network::make(&socket, &plan.local_ports)),
            NetworkEntry::Join { network, user } => {
                take_namespaces(network, user).and_then(|namespaces| network::join(&namespaces))
            }
        };
        entered.map_err(ConfineError::system("enter the network of the sandbox"))?;
        Ok(true)
    }

    fn take_namespaces(network: i32, user: Option<i32>) -> io::Result<NetworkNamespaces> {
        Ok(NetworkNamespaces {
            network: system_calls::take_descriptor(network)?,
            user: user.map(system_calls::take_descriptor).transpose()?,
        })
    }

    fn view_command(
        plan: &ConfinementPlan,
        program: ConfinedProgram,
    ) -> Result<Command, ConfineError> {
        // By its descriptor: the file of this program may have been replaced, or be hidden inside.
        let own = std::fs::File::open("/proc/self/exe")
            .map_err(ConfineError::system("open this program"))?;
        fcntl_setfd(&own, FdFlags::empty())
            .map_err(|error| ConfineError::system("pass this program on")(error.into()))?;
        let cwd = std::env::current_dir().map_err(ConfineError::system("find the folder"))?;
        // The agent is told to end and may take its time; bubblewrap would end at once, and the agent with it.
        system_calls::set_termination(false);
        let has_network = enter_network(plan, program.entries.network)?;
        let disk = mounts::MachineDisk;
        let mounts = mounts::list_mounts(plan, &disk);
        // The network is entered already. The other socket stays open until the filter is made, inside.
        let inside = InheritedEntries {
            network: None,
            ..program.entries
        };
        let mut command = Command::new(&plan.bubblewrap);
        command
            .args(bubblewrap::arguments(plan, &mounts, &cwd, has_network))
            // Open until bubblewrap has run it.
            .arg(format!("/proc/self/fd/{}", own.into_raw_fd()))
            .args([OUTER_COMMAND, INSIDE])
            .args(inside.to_arguments())
            .args([&program.plan, SEPARATOR])
            .arg(program.program)
            .args(program.args);
        Ok(command)
    }

    /// Enforces what holds for this process itself, and runs the program in its place.
    pub(super) fn finish(program: &ConfinedProgram) -> ConfineError {
        match prepare(program) {
            Ok(mut command) => ConfineError::Program {
                program: PathBuf::from(&program.program),
                source: command.exec(),
            },
            Err(error) => error,
        }
    }

    fn prepare(program: &ConfinedProgram) -> Result<Command, ConfineError> {
        let plan = read_plan(program)?;
        // Nothing but the standard streams reaches the program.
        system_calls::close_on_exec(3).map_err(ConfineError::system("close what was inherited"))?;
        limit_processes(plan.processes).map_err(ConfineError::system("limit processes"))?;
        // Before the next two steps: without it the kernel accepts neither Landlock rules nor a
        // filter from a process that has no privileges.
        rustix::thread::set_no_new_privs(true)
            .map_err(|error| ConfineError::system("give up privileges")(error.into()))?;
        file_rules::enforce(&plan)?;
        // At level `full` there is a network namespace instead.
        let has_sockets = plan.network == NetworkAccess::Open || plan.level == SandboxLevel::Full;
        filter_calls(has_sockets, program.entries.notices)
            .map_err(ConfineError::system("filter system calls"))?;
        system_calls::set_termination(true);
        let mut command = Command::new(&program.program);
        command.args(&program.args);
        release_variables(&mut command);
        if plan.has_proxy() {
            command.envs(network::proxy_environment());
        }
        // Another folder for temporary files would not be there.
        if plan.level == SandboxLevel::Full && plan.tmp.is_some() {
            command.env("TMPDIR", "/tmp");
        }
        Ok(command)
    }

    /// Gives the program its variables, now that they can do no harm.
    fn release_variables(command: &mut Command) {
        for (name, value) in std::env::vars_os() {
            let Some(own) = released_name(&name) else {
                continue;
            };
            command.env_remove(&name);
            // What is set already counts: the marks by which the processes of an agent are found, and
            // the folder that bubblewrap entered.
            if std::env::var_os(own).is_none() {
                command.env(own, value);
            }
        }
    }

    /// From here on this process makes only calls that the filter lets through, whether or not anybody listens.
    fn filter_calls(network: bool, notices: Option<i32>) -> io::Result<()> {
        let mut filter = syscall_filter::build(FilterOptions {
            network,
            notices: notices.is_some(),
        });
        let Some(socket) = notices else {
            return system_calls::install_filter(&mut filter);
        };
        let socket = system_calls::take_descriptor(socket)?;
        let listener = syscall_notices::install_filter(&mut filter)?;
        descriptor_passing::send(&socket, &[listener.as_fd()])
    }

    fn limit_processes(processes: u64) -> io::Result<()> {
        let limit = getrlimit(Resource::Nproc);
        // A stricter limit of the user stays, and raising the hard limit would need a privilege.
        let lower =
            |found: Option<u64>| Some(found.map_or(processes, |found| found.min(processes)));
        let limit = Rlimit {
            current: lower(limit.current),
            maximum: lower(limit.maximum),
        };
        Ok(setrlimit(Resource::Nproc, limit)?)
    }
}
