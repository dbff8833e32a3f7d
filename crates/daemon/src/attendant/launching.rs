//! Launching: from what was asked for to a process with a pipe.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use countersign_agents::catalog::{self, Resolved};
use countersign_agents::{LaunchSpec, Pipe, Process, Tree, launch, worktree};
use countersign_core::event::SpawnOptions;
use countersign_core::{AgentId, Json, Managed, ManagedInput, Ran};

use crate::crash;
use crate::reply::ServiceError;
use crate::service::Service;
use crate::supervisor::chain;

use super::environment;

/// A process that was started, and where.
pub(super) struct Launched {
    pub(super) pipe: Pipe,
    pub(super) process: Process,
    pub(super) tree: Tree,
    pub(super) folder: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
}

/// Why there is none, in words for a person.
pub(super) struct Failure(pub(super) String);

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self(error.to_string())
    }
}

fn failure(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure(chain(error))
}

/// Starts an agent's process. What would have to be cleared away after a crash is committed before it
/// is there.
pub(super) async fn launch_agent(
    service: &Service,
    agent: &AgentId,
    name: &str,
    (run, managed): (u32, &Managed),
) -> Result<Launched, Failure> {
    let say = |ran| service.want(ManagedInput::Ran(agent.clone(), run, ran));
    let folder = match place(managed, name).await? {
        Place::There(folder) => folder,
        Place::Made(made, folder) => {
            say(Ran::Placed(made)).await?;
            folder
        }
    };
    let env = environment::of_agent(
        std::env::vars_os(),
        &managed.options.env,
        service.secrets_of(agent),
    );
    let command = command_of(&managed.options, &env)?;
    let id = format!("{agent}-{run}");
    let tree = Tree::create(&id, &host_key()).map_err(|error| failure(&error))?;
    crash::point("tree_created");
    let record = Json::from_value(&tree.record()).map_err(|error| failure(&error))?;
    let launched = |process| Ran::Launched {
        process,
        tree: record.clone(),
    };
    say(launched(None)).await?;
    crash::point("launch_recorded");
    let (program, args) = command.split_first().ok_or_else(no_command)?;
    let spec = LaunchSpec {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: folder.clone(),
        env: env.clone(),
        tree: &tree,
    };
    let (pipe, process) = launch(&spec).map_err(|error| failure(&error))?;
    crash::point("process_started");
    let recorded = say(launched(Some(process.key()))).await;
    crash::point("process_recorded");
    if let Err(error) = recorded {
        // It may not run if nobody knows that it does.
        drop(tree.kill_all().await);
        return Err(error.into());
    }
    Ok(Launched {
        pipe,
        process,
        tree,
        folder,
        env,
    })
}

enum Place {
    There(PathBuf),
    Made(countersign_core::event::Worktree, PathBuf),
}

/// The folder to work in; its worktree is made if it is to have one and has none.
async fn place(managed: &Managed, name: &str) -> Result<Place, Failure> {
    let cwd = Path::new(&managed.options.cwd);
    match (&managed.worktree, &managed.options.worktree) {
        (Some(worktree), _) => Ok(Place::There(worktree::folder(worktree, cwd))),
        (None, None) => Ok(Place::There(cwd.to_owned())),
        (None, Some(wish)) => {
            let made = worktree::create(cwd, name, wish.branch.as_deref());
            let made = made.await.map_err(|error| failure(&error))?;
            let folder = worktree::folder(&made, cwd);
            Ok(Place::Made(made, folder))
        }
    }
}

/// Whose agents these are, for people who look at what holds them.
fn host_key() -> String {
    format!("uid-{}", rustix::process::getuid().as_raw())
}

fn no_command() -> Failure {
    Failure("there is no command to start".to_owned())
}

/// The command that was given, or the one the catalog finds where the agent's own programs are. A
/// person's word for it is in the host's environment, which agents do not see.
fn command_of(
    options: &SpawnOptions,
    env: &[(OsString, OsString)],
) -> Result<Vec<String>, Failure> {
    if !options.command.is_empty() {
        return Ok(options.command.clone());
    }
    let entry = options.agent.as_deref().and_then(catalog::find);
    let entry = entry.ok_or_else(no_command)?;
    let own = |name: &str| {
        let found = env.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.clone())
    };
    let find = |name: &str| own(name).or_else(|| std::env::var_os(name));
    match catalog::resolve(entry, &catalog::Environment::of(entry, find)) {
        Resolved::Found { command } => Ok(command),
        Resolved::Missing { advice } => {
            let name = entry.name;
            Err(Failure(format!("`{name}` is not installed: {advice}")))
        }
    }
}
