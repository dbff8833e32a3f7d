//! Runners as the driver uses them: started, reached, ended and cleared away.

use std::io;
use std::pin::Pin;

use countersign_agents::runner::{
    self, ExitReport, Link, LinkError, RunnerRecord, RunnerStartError, RunnerStartSpec,
};
use countersign_agents::{ProcessTree, TreeError, TreeRecord};
use countersign_core::event::ProcessKey;

use crate::service::RunnerSettings;

/// What a runner host gives once the world answered.
pub(crate) type RunnerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Everything that launching and adopting do to the processes and files of runners. The tests of the
/// driver have one without processes.
pub(crate) trait RunnerHost: Send + Sync {
    /// Makes what will hold the processes of one run together.
    fn create_tree(&self, run: &str) -> Result<HeldTree, TreeError>;

    /// Starts a runner and waits until it can be reached. One that cannot be reached is ended.
    fn start<'a>(
        &'a self,
        record: &'a RunnerRecord,
    ) -> RunnerFuture<'a, Result<ProcessKey, RunnerStartError>>;

    /// Connects to a runner that lives. `offset` is how much of the output is committed, `open` the
    /// lines up to there that may still be answered.
    fn connect<'a>(
        &'a self,
        record: &'a RunnerRecord,
        runner: ProcessKey,
        offset: u64,
        open: Vec<u64>,
    ) -> RunnerFuture<'a, Result<Link, LinkError>>;

    /// What a runner left that ended without a host.
    fn read_exit_report(&self, record: &RunnerRecord) -> io::Result<Option<ExitReport>>;

    /// Ends a runner and everything its agent started, and returns how many processes that were.
    fn end<'a>(
        &'a self,
        record: &'a RunnerRecord,
        runner: ProcessKey,
    ) -> RunnerFuture<'a, Result<usize, TreeError>>;

    /// Removes the files of a run that is over.
    fn remove_files(&self, record: &RunnerRecord);

    /// Whether the record is a copy of another host's, which runs the agent.
    fn belongs_to_another_host(&self, record: &RunnerRecord) -> bool;

    /// Runners that live, whether or not the record knows them.
    fn find_orphans(&self) -> Vec<(RunnerRecord, ProcessKey)>;

    /// Removes the files of all runs but these.
    fn clear_orphans(&self, kept: &[&RunnerRecord]);
}

/// A tree without processes, which is removed with its last owner.
pub(crate) struct HeldTree {
    pub(crate) record: TreeRecord,
    pub(crate) _tree: Option<ProcessTree>,
}

/// Runners as processes of this machine.
pub(crate) struct ProcessRunners(pub(crate) RunnerSettings);

impl RunnerHost for ProcessRunners {
    fn create_tree(&self, run: &str) -> Result<HeldTree, TreeError> {
        let tree = ProcessTree::create(run, &host_key())?;
        Ok(HeldTree {
            record: tree.record(),
            _tree: Some(tree),
        })
    }

    fn start<'a>(
        &'a self,
        record: &'a RunnerRecord,
    ) -> RunnerFuture<'a, Result<ProcessKey, RunnerStartError>> {
        let spec = RunnerStartSpec {
            command: self.0.command.clone(),
            record: record.clone(),
        };
        Box::pin(async move { Ok(runner::start(&spec).await?.key()) })
    }

    fn connect<'a>(
        &'a self,
        record: &'a RunnerRecord,
        runner: ProcessKey,
        offset: u64,
        open: Vec<u64>,
    ) -> RunnerFuture<'a, Result<Link, LinkError>> {
        Box::pin(runner::connect(record, runner, offset, open))
    }

    fn read_exit_report(&self, record: &RunnerRecord) -> io::Result<Option<ExitReport>> {
        runner::read_exit_report(&record.folder)
    }

    fn end<'a>(
        &'a self,
        record: &'a RunnerRecord,
        runner: ProcessKey,
    ) -> RunnerFuture<'a, Result<usize, TreeError>> {
        Box::pin(runner::end_orphan(record, Some(runner)))
    }

    fn remove_files(&self, record: &RunnerRecord) {
        runner::remove_run_files(record);
    }

    fn belongs_to_another_host(&self, record: &RunnerRecord) -> bool {
        runner::belongs_to_another_host(record, &self.0.folder)
    }

    fn find_orphans(&self) -> Vec<(RunnerRecord, ProcessKey)> {
        runner::find_orphans(&self.0.folder)
    }

    fn clear_orphans(&self, kept: &[&RunnerRecord]) {
        runner::clear_orphans(&self.0.folder, &self.0.sockets, kept);
    }
}

/// Names the owner of the trees for people who look at what holds agents.
fn host_key() -> String {
    format!("uid-{}", rustix::process::getuid().as_raw())
}
