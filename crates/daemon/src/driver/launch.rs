//! Launches an agent: makes its worktree, starts its runner and has the runner start the agent.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use countersign_agents::adapter::SessionSpec;
use countersign_agents::catalog::{self, ResolvedAgent};
use countersign_agents::runner::RunnerRecord;
use countersign_agents::{LaunchError, TreeRecord, protocols, worktree};
use countersign_core::event::{AgentSandbox, ProcessKey, SpawnOptions};
use countersign_core::{AgentId, Json, ManagedAgent, ManagedInput, RunEvent};
use countersign_sandbox::ConfinementPlan;

use crate::crash;
use crate::ids::random_hex;
use crate::reply::ServiceError;
use crate::service::Service;

use super::adoption::{self, RunnerConnection};
use super::confinement::{ConfinementRequest, SandboxSettings};
use super::environment;
use super::runner_host::RunnerHost;

/// Why an agent was not started, for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LaunchFailure(pub(super) String);

impl From<ServiceError> for LaunchFailure {
    fn from(error: ServiceError) -> Self {
        Self(error.to_string())
    }
}

fn launch_failure(error: &(dyn std::error::Error + 'static)) -> LaunchFailure {
    LaunchFailure(countersign_core::error_chain(error))
}

/// Which agent is launched, and with what.
pub(super) struct AgentLaunch<'a> {
    pub(super) service: &'a Service,
    pub(super) runners: &'a dyn RunnerHost,
    pub(super) agent: &'a AgentId,
    pub(super) name: &'a str,
}

/// What a runner starts.
struct AgentProcessSpec {
    command: Vec<String>,
    folder: PathBuf,
    env: Vec<(OsString, OsString)>,
    confinement: Option<ConfinementPlan>,
}

impl AgentLaunch<'_> {
    /// Starts an agent in a runner of its own. Each thing that would have to be cleared away after a
    /// crash is committed before it exists: the runner's record before the runner, its process before
    /// the agent.
    pub(super) async fn launch(
        &self,
        managed: &ManagedAgent,
    ) -> Result<(RunnerConnection, ManagedAgent), LaunchFailure> {
        let mut managed = managed.clone();
        let inside = self.service.check_child_folder(&managed.options).await;
        inside.map_err(LaunchFailure)?;
        self.create_worktree(&mut managed).await?;
        let env = environment::build_environment(
            std::env::vars_os(),
            &managed.options.env,
            self.service.secrets_of(self.agent),
        );
        let mut command = find_command(&managed.options, &env)?;
        let run = format!("{}-{}", self.agent, managed.run);
        // Held until the agent is in it: an empty tree is removed with its last owner.
        let tree = self
            .runners
            .create_tree(&run)
            .map_err(|error| launch_failure(&error))?;
        crash::point("tree_created");
        let record = self.build_record(&run, &tree.record, &managed.options);
        let session = session_spec(self.service, &managed, &record);
        command.extend(protocols::arguments(record.protocol, &session));
        let (sandbox, confinement) = self.confine(&managed, &record, &command, &env).await?;
        if confinement.is_some() {
            command.extend(confined_arguments(&managed.options));
        }
        let process = AgentProcessSpec {
            command,
            folder: work_folder(&managed),
            env,
            confinement,
        };
        let started = LaunchedRun {
            run: managed.run,
            record: &record,
            sandbox,
        };
        let runner = self.start_runner(&started).await?;
        match self.launch_in_runner(&started, runner, process).await {
            Ok(connected) => Ok((connected, managed)),
            Err(error) => {
                adoption::end_runner(self.runners, &record, runner, self.agent.as_str()).await;
                self.runners.remove_files(&record);
                Err(error)
            }
        }
    }

    async fn report(&self, run: u32, event: RunEvent) -> Result<(), LaunchFailure> {
        let report = ManagedInput::RunReported(self.agent.clone(), run, event);
        self.service.submit_managed(report).await?;
        Ok(())
    }

    /// Makes the worktree if the agent is to have one and has none.
    async fn create_worktree(&self, managed: &mut ManagedAgent) -> Result<(), LaunchFailure> {
        let (None, Some(wanted)) = (&managed.worktree, &managed.options.worktree) else {
            return Ok(());
        };
        let cwd = Path::new(&managed.options.cwd);
        let created = worktree::create(cwd, self.name, wanted.branch.as_deref())
            .await
            .map_err(|error| launch_failure(&error))?;
        managed.worktree = Some(created.clone());
        self.report(managed.run, RunEvent::WorktreeCreated(created))
            .await
    }

    fn build_record(&self, run: &str, tree: &TreeRecord, options: &SpawnOptions) -> RunnerRecord {
        let settings = self.service.runners();
        let name = random_hex::<8>();
        RunnerRecord {
            tree: tree.clone(),
            folder: settings.folder.join(format!("{run}-{name}")),
            sockets: settings
                .sockets
                .iter()
                .map(|folder| folder.join(format!("{name}.sock")))
                .collect(),
            patience_ms: settings.patience_ms,
            protocol: protocols::find_protocol(options),
        }
    }

    /// The sandbox that the agent gets, with the plan for it. On a blocking thread: programs are started to find
    /// out what the machine can enforce.
    async fn confine(
        &self,
        managed: &ManagedAgent,
        record: &RunnerRecord,
        command: &[String],
        env: &[(OsString, OsString)],
    ) -> Result<(AgentSandbox, Option<ConfinementPlan>), LaunchFailure> {
        let settings = self.service.runners().sandbox.clone();
        let request = ConfinementRequest {
            options: managed.options.clone(),
            folder: match &managed.worktree {
                Some(worktree) => PathBuf::from(&worktree.path),
                None => work_folder(managed),
            },
            worktree: managed.worktree.clone(),
            runner_folder: record.folder.clone(),
            command: command.to_vec(),
            env: env.to_vec(),
            host_program: self
                .service
                .runners()
                .tools
                .as_ref()
                .map(|t| PathBuf::from(&t.command)),
        };
        let planning =
            tokio::task::spawn_blocking(move || request.plan_and_prepare(settings.as_ref()));
        let planned = planning.await.map_err(|error| launch_failure(&error))?;
        planned.map_err(LaunchFailure)
    }

    async fn start_runner(&self, started: &LaunchedRun<'_>) -> Result<ProcessKey, LaunchFailure> {
        let record = started.record;
        // A host that is killed after this finds the runner by its record and ends it.
        self.report(started.run, started.event(None)?).await?;
        crash::point("launch_recorded");
        match self.runners.start(record).await {
            Ok(runner) => {
                crash::point("process_started");
                Ok(runner)
            }
            Err(error) => {
                self.runners.remove_files(record);
                Err(launch_failure(&error))
            }
        }
    }

    async fn launch_in_runner(
        &self,
        started: &LaunchedRun<'_>,
        runner: ProcessKey,
        process: AgentProcessSpec,
    ) -> Result<RunnerConnection, LaunchFailure> {
        let record = started.record;
        // The agent runs nothing before it is committed whose processes they are: whoever descends
        // from the runner is this agent to every door.
        self.report(started.run, started.event(Some(runner))?)
            .await?;
        crash::point("process_recorded");
        let link = self
            .runners
            .connect(record, runner, 0, Vec::new())
            .await
            .map_err(|error| launch_failure(&error))?;
        let (program, args) = process.command.split_first().ok_or_else(no_command)?;
        let args = args.iter().map(OsString::from).collect();
        link.sender
            .launch(
                program.into(),
                args,
                process.folder,
                process.env,
                process.confinement,
            )
            .await
            .map_err(|error| launch_failure(&error))?;
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

/// What is recorded of a run before it has a process, and once it has one.
struct LaunchedRun<'a> {
    run: u32,
    record: &'a RunnerRecord,
    sandbox: AgentSandbox,
}

impl LaunchedRun<'_> {
    fn event(&self, process: Option<ProcessKey>) -> Result<RunEvent, LaunchFailure> {
        let runner = Json::from_value(self.record).map_err(|error| launch_failure(&error))?;
        Ok(RunEvent::Launched {
            process,
            runner,
            sandbox: Some(self.sandbox.clone()),
        })
    }
}

/// The folder that an agent works in.
pub(super) fn work_folder(managed: &ManagedAgent) -> PathBuf {
    let cwd = Path::new(&managed.options.cwd);
    match &managed.worktree {
        Some(made) => worktree::folder(made, cwd),
        None => cwd.to_owned(),
    }
}

/// How the session of a run is opened: the same for the host that starts it and for one that continues it.
pub(super) fn session_spec(
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
        given_servers: options.mcp_servers.clone(),
    }
}

fn no_command() -> LaunchFailure {
    LaunchFailure("there is no command to start".to_owned())
}

/// Refuses a start that is known to fail before anything is recorded or started.
pub(crate) async fn check_launch(
    options: &SpawnOptions,
    secrets: Vec<(String, String)>,
    sandbox: Option<SandboxSettings>,
) -> Result<(), String> {
    let wanted = options.clone();
    // On a blocking thread: a folder can lie on a mount that does not answer, and programs are started to find out
    // what the machine can enforce.
    let checking = tokio::task::spawn_blocking(move || {
        check_files(&wanted, secrets)?;
        sandbox.map_or(Ok(()), |settings| settings.check(&wanted))
    });
    let checked = checking.await;
    checked.unwrap_or_else(|error| Err(error.to_string()))?;
    if options.worktree.is_some() {
        let checked = worktree::check_repository(Path::new(&options.cwd)).await;
        checked.map_err(|error| countersign_core::error_chain(&error))?;
    }
    Ok(())
}

fn check_files(options: &SpawnOptions, secrets: Vec<(String, String)>) -> Result<(), String> {
    let env = environment::build_environment(std::env::vars_os(), &options.env, secrets);
    let command = find_command(options, &env).map_err(|LaunchFailure(message)| message)?;
    let cwd = PathBuf::from(&options.cwd);
    let program = PathBuf::from(command.first().map_or("", String::as_str));
    if !cwd.is_dir() {
        return Err(LaunchError::BadFolder { program, cwd }.to_string());
    }
    if !is_present(&program, &cwd, &env) {
        return Err(LaunchError::NotFound { program }.to_string());
    }
    Ok(())
}

/// Whether the system would find a program of that name, started in `cwd` with this environment.
fn is_present(program: &Path, cwd: &Path, env: &[(OsString, OsString)]) -> bool {
    if program.components().count() > 1 {
        return cwd.join(program).exists();
    }
    let path = env.iter().find(|(name, _)| name == "PATH");
    // Without a PATH the system has one of its own, which is not known here.
    path.is_none_or(|(_, path)| {
        std::env::split_paths(path).any(|folder| cwd.join(folder).join(program).exists())
    })
}

/// What a known agent is told if it is confined. A command that was given is started as it is.
fn confined_arguments(options: &SpawnOptions) -> impl Iterator<Item = String> {
    let known = options.agent.as_deref().and_then(catalog::find);
    let known = known.filter(|_| options.command.is_empty());
    let arguments = known
        .map(|known| known.confined_arguments)
        .unwrap_or_default();
    arguments.iter().map(|&argument| argument.to_owned())
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
