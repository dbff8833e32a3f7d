//! Launching: from what was asked for to a runner that started the agent.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use countersign_agents::adapter::SessionSpec;
use countersign_agents::catalog::{self, ResolvedAgent};
use countersign_agents::runner::{self, RunnerRecord, RunnerStartSpec};
use countersign_agents::{ProcessTree, protocols, worktree};
use countersign_core::event::{ProcessKey, Protocol, SpawnOptions};
use countersign_core::{AgentId, Json, ManagedAgent, ManagedInput, RunEvent};

use crate::crash;
use crate::ids::random_hex;
use crate::reply::ServiceError;
use crate::service::Service;

use super::adoption::{self, RunnerConnection};
use super::environment;

/// Why an agent was not started, in words for a person.
pub(super) struct LaunchFailure(pub(super) String);

impl From<ServiceError> for LaunchFailure {
    fn from(error: ServiceError) -> Self {
        Self(error.to_string())
    }
}

fn launch_failure(error: &(dyn std::error::Error + 'static)) -> LaunchFailure {
    LaunchFailure(countersign_core::error_chain(error))
}

/// Starts an agent in a runner of its own. What would have to be cleared away after a crash is
/// committed before it is there, and whose processes they are before the agent runs anything.
pub(super) async fn launch_agent(
    service: &Service,
    agent: &AgentId,
    name: &str,
    managed: &ManagedAgent,
) -> Result<(RunnerConnection, ManagedAgent), LaunchFailure> {
    let launch = AgentLaunch {
        service,
        agent,
        run: managed.run,
    };
    let mut managed = managed.clone();
    launch.create_worktree(&mut managed, name).await?;
    let env = environment::build_environment(
        std::env::vars_os(),
        &managed.options.env,
        service.secrets_of(agent),
    );
    let command = find_command(&managed.options, &env)?;
    let id = format!("{agent}-{}", managed.run);
    // Held until the agent is in it: an empty one is cleared away with its last owner.
    let tree = ProcessTree::create(&id, &host_key()).map_err(|error| launch_failure(&error))?;
    crash::point("tree_created");
    let record = launch.build_record(&tree, protocols::find_protocol(&managed.options));
    let said = protocols::arguments(record.protocol, &session_start(service, &managed, &record));
    let command = command.into_iter().chain(said).collect();
    let runner = launch.start_runner(&record).await?;
    match launch
        .launch_in_runner(&record, runner, command, (work_folder(&managed), env))
        .await
    {
        Ok(connected) => Ok((connected, managed)),
        Err(error) => {
            adoption::end_runner(&record, Some(runner), agent.as_str()).await;
            runner::remove_run_files(&record);
            Err(error)
        }
    }
}

/// One launch.
struct AgentLaunch<'a> {
    service: &'a Service,
    agent: &'a AgentId,
    run: u32,
}

impl AgentLaunch<'_> {
    async fn report(&self, ran: RunEvent) -> Result<(), LaunchFailure> {
        let said = ManagedInput::RunReported(self.agent.clone(), self.run, ran);
        self.service.submit_managed(said).await?;
        Ok(())
    }

    /// Makes the worktree if it is to have one and has none.
    async fn create_worktree(
        &self,
        managed: &mut ManagedAgent,
        name: &str,
    ) -> Result<(), LaunchFailure> {
        let (None, Some(wish)) = (&managed.worktree, &managed.options.worktree) else {
            return Ok(());
        };
        let cwd = Path::new(&managed.options.cwd);
        let made = worktree::create(cwd, name, wish.branch.as_deref());
        let made = made.await.map_err(|error| launch_failure(&error))?;
        managed.worktree = Some(made.clone());
        self.report(RunEvent::WorktreeCreated(made)).await
    }

    fn build_record(&self, tree: &ProcessTree, protocol: Protocol) -> RunnerRecord {
        let settings = self.service.runners();
        let name = random_hex::<8>();
        let sockets = settings.sockets.iter();
        let sockets = sockets.map(|folder| folder.join(format!("{name}.sock")));
        RunnerRecord {
            tree: tree.record(),
            folder: settings
                .folder
                .join(format!("{}-{}-{name}", self.agent, self.run)),
            sockets: sockets.collect(),
            patience_ms: settings.patience_ms,
            protocol,
        }
    }

    /// The record is committed before its runner is there.
    async fn start_runner(&self, record: &RunnerRecord) -> Result<ProcessKey, LaunchFailure> {
        self.report(launched(None, record)?).await?;
        crash::point("launch_recorded");
        let spec = RunnerStartSpec {
            command: self.service.runners().command.clone(),
            record: record.clone(),
        };
        let started = match runner::start(&spec).await {
            Ok(started) => started.key(),
            Err(error) => {
                runner::remove_run_files(record);
                return Err(launch_failure(&error));
            }
        };
        crash::point("process_started");
        Ok(started)
    }

    /// The agent runs nothing before it is committed whose processes they are.
    async fn launch_in_runner(
        &self,
        record: &RunnerRecord,
        runner: ProcessKey,
        command: Vec<String>,
        (folder, env): (PathBuf, Vec<(OsString, OsString)>),
    ) -> Result<RunnerConnection, LaunchFailure> {
        self.report(launched(Some(runner), record)?).await?;
        crash::point("process_recorded");
        let link = runner::connect(record, runner, 0, Vec::new()).await;
        let link = link.map_err(|error| launch_failure(&error))?;
        let (program, args) = command.split_first().ok_or_else(no_command)?;
        let args = args.iter().map(OsString::from).collect();
        let begun = link.sender.launch(program.into(), args, folder, env).await;
        begun.map_err(|error| launch_failure(&error))?;
        crash::point("agent_launched");
        Ok(RunnerConnection {
            link,
            offset: 0,
            state: None,
            record: record.clone(),
            runner,
        })
    }
}

fn launched(process: Option<ProcessKey>, record: &RunnerRecord) -> Result<RunEvent, LaunchFailure> {
    let tree = Json::from_value(record).map_err(|error| launch_failure(&error))?;
    Ok(RunEvent::Launched {
        process,
        runner: tree,
    })
}

/// The folder that an agent works in.
pub(super) fn work_folder(managed: &ManagedAgent) -> PathBuf {
    let cwd = Path::new(&managed.options.cwd);
    match &managed.worktree {
        Some(made) => worktree::folder(made, cwd),
        None => cwd.to_owned(),
    }
}

/// How the session of a run is opened: the same for whoever starts it and whoever goes on with it.
pub(super) fn session_start(
    service: &Service,
    managed: &ManagedAgent,
    record: &RunnerRecord,
) -> SessionSpec {
    let options = &managed.options;
    let opened = protocols::session_to_open(record.protocol, managed);
    SessionSpec {
        cwd: work_folder(managed),
        session: opened.session,
        fork: opened.fork,
        // The folder's name belongs to this run alone and was committed before the agent started, so
        // a host that resumes the run arrives at the same id.
        new_session: protocols::new_session_id(record.protocol, &record.folder.to_string_lossy()),
        mode: options.mode.clone(),
        model: options.model.clone(),
        system_prompt: options.system_prompt.clone(),
        allowed_tools: options.allowed_tools.clone(),
        disallowed_tools: options.disallowed_tools.clone(),
        mcp_servers: service.runners().tools.iter().cloned().collect(),
    }
}

/// Whose agents these are, for people who look at what holds them.
fn host_key() -> String {
    format!("uid-{}", rustix::process::getuid().as_raw())
}

fn no_command() -> LaunchFailure {
    LaunchFailure("there is no command to start".to_owned())
}

/// The command that was given, or the one the catalog finds where the agent's own programs are. A
/// person's word for it is in the host's environment, which agents do not see.
fn find_command(
    options: &SpawnOptions,
    env: &[(OsString, OsString)],
) -> Result<Vec<String>, LaunchFailure> {
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
    match catalog::resolve(entry, &catalog::AgentSearchPaths::for_agent(entry, find)) {
        ResolvedAgent::Found { command } => Ok(command),
        ResolvedAgent::Missing { advice } => {
            let name = entry.name;
            Err(LaunchFailure(format!(
                "`{name}` is not installed: {advice}"
            )))
        }
    }
}
