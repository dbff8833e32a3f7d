//! The agent loop: launches an agent and runs it to its end, however often the link to its runner is
//! lost.
//!
//! Invariant: the end of a run is on the record only when nothing of it is left.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use countersign_agents::runner::{LinkEvent, RunnerRecord};
use countersign_core::event::{ProcessKey, RunEnd};
use countersign_core::limits::RECOVERY_MS;
use countersign_core::{AgentId, Input, ManagedAgent, RunEvent};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::crash;
use crate::duty_board::DutyReceiver;
use crate::service::Service;

use super::AgentDrivers;
use super::adoption::{self, RunnerConnection};
use super::launch::{AgentLaunch, LaunchFailure};
use super::output_reader::FinalOutput;
use super::run::{ReaderExit, Run, RunIdentity, RunKey, failed_run};

/// See the module.
pub(super) struct AgentLoop<'a> {
    pub(super) service: &'a Service,
    pub(super) agent: &'a AgentId,
    pub(super) name: &'a str,
    pub(super) drivers: &'a AgentDrivers,
}

impl AgentLoop<'_> {
    /// Starts an agent and runs it to its end. False if the host ends.
    pub(super) async fn launch_and_run(
        &self,
        wanted: Option<Arc<ManagedAgent>>,
        run: u32,
        duties: &mut DutyReceiver,
    ) -> bool {
        let Some(managed) = wanted else {
            let message = "it was ended before it started".to_owned();
            self.record_end(failed_run(run, RunEnd::Killed, message))
                .await;
            return true;
        };
        let launch = AgentLaunch {
            service: self.service,
            runners: &*self.drivers.runners,
            agent: self.agent,
            name: self.name,
        };
        match launch.launch(&managed).await {
            Ok((connected, managed)) => {
                tracing::info!(runner = connected.runner.pid, "agent launched");
                self.run_to_end(&managed, connected, duties).await
            }
            Err(LaunchFailure(message)) => {
                self.record_end(failed_run(run, RunEnd::Failed, message))
                    .await;
                true
            }
        }
    }

    /// Runs an agent to its end, however often the link to it is lost. False if the host ends.
    pub(super) async fn run_to_end(
        &self,
        managed: &ManagedAgent,
        mut connected: RunnerConnection,
        duties: &mut DutyReceiver,
    ) -> bool {
        let (record, runner) = (connected.record.clone(), connected.runner);
        // Its own copy: after a reconnect the run continues from what was committed by then.
        let mut managed = managed.clone();
        loop {
            let began = Instant::now();
            let link = connected.link.sender.clone();
            let identity = RunIdentity {
                agent: self.agent,
                name: self.name,
                managed: &managed,
            };
            let shutdown = &self.drivers.shutdown;
            let performed = Run::perform(self.service, identity, connected, duties, shutdown).await;
            let finished = match performed {
                RunOutcome::HostEnds => return false,
                RunOutcome::Over(finished) => *finished,
                // A link that is lost again and again must not keep the host busy.
                RunOutcome::Lost(_)
                    if began.elapsed() < Duration::from_millis(RECOVERY_MS)
                        && self.pause().await.is_none() =>
                {
                    return false;
                }
                RunOutcome::Lost(last) => match self.reconnect(&record, runner, &mut managed).await
                {
                    Some(Ok(again)) => {
                        connected = again;
                        continue;
                    }
                    Some(Err(finished)) => {
                        let last = self.drop_if_committed(last.output).await;
                        finished.with_final_output(last)
                    }
                    None => return false,
                },
            };
            crash::point("run_over");
            let runners = &*self.drivers.runners;
            if !finished.is_clean {
                // Before the end is recorded: what is recorded as ended must not run any more.
                adoption::end_runner(runners, &record, runner, self.agent.as_str()).await;
            }
            let _link = self.record_end(finished).await;
            // After the end is recorded: until then the runner is the only one who knows it.
            link.bye().await;
            runners.remove_files(&record);
            return true;
        }
    }

    /// Connects to the runner again, or says how the run ended if the runner is gone. Gives nothing if
    /// the host ends.
    async fn reconnect(
        &self,
        record: &RunnerRecord,
        runner: ProcessKey,
        managed: &mut ManagedAgent,
    ) -> Option<Result<RunnerConnection, FinishedRun>> {
        loop {
            // A run is also lost when nothing can be committed, and then a new link would be lost
            // again.
            self.wait_for_store().await?;
            let key = RunKey {
                agent: self.agent.clone(),
                number: managed.run,
            };
            let runners = &*self.drivers.runners;
            let reached = adoption::reconnect(self.service, runners, &key, record, runner).await;
            // The run continues from what is committed now, which may be more than this task knows.
            let known = self.service.read_agent(self.agent.clone()).await;
            match (reached, known) {
                (Ok(connected), Ok((agent, _))) => {
                    if let Some(now) = agent.managed.filter(|now| now.run == key.number) {
                        *managed = (*now).clone();
                    }
                    return Some(Ok(connected));
                }
                (Err(reason), Ok(_)) => {
                    let message = format!("its runner ended: {reason}");
                    return Some(Err(failed_run(key.number, RunEnd::Failed, message)));
                }
                (_, Err(error)) => {
                    tracing::warn!(agent = %self.agent, %error, "agent could not be loaded");
                    self.pause().await?;
                }
            }
        }
    }

    /// Waits until something can be committed. Gives nothing if the host ends first.
    async fn wait_for_store(&self) -> Option<()> {
        while self.service.store_error().is_some() {
            self.pause().await?;
        }
        Some(())
    }

    /// Waits a moment before the next try. Gives nothing if the host ends.
    async fn pause(&self) -> Option<()> {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(RECOVERY_MS)) => Some(()),
            () = self.drivers.shutdown.cancelled() => None,
        }
    }

    /// The output that a reader could not commit, without that of a commit which counts all the same:
    /// a commit that seemed to fail may be on the record, and then its checkpoint is.
    async fn drop_if_committed(&self, mut last: FinalOutput) -> FinalOutput {
        let checkpoint = self.service.find_checkpoint(self.agent.clone()).await;
        let checkpoint = checkpoint.ok().flatten();
        if checkpoint.is_some_and(|checkpoint| checkpoint.offset > last.committed) {
            last.events.clear();
        }
        last
    }

    /// Records that a run is over, and tries until it succeeds: what a run has open stays open as long
    /// as the run seems to live.
    async fn record_end(&self, finished: FinishedRun) -> Option<mpsc::Receiver<LinkEvent>> {
        if let RunEvent::Exited { end, message, .. } = &finished.exited {
            tracing::info!(agent = %self.agent, run = finished.run, outcome = ?end, message, "agent ended");
        }
        let key = RunKey {
            agent: self.agent.clone(),
            number: finished.run,
        };
        // One commit: the end takes the checkpoint away, and nothing of the output may be on the
        // record while it can still be read again. The end is last, because an input about a run that
        // is over is dropped, and an answer that is owed then is settled as unknown.
        let mut inputs = finished.unsent;
        let events = finished.events.into_iter().chain([finished.exited]);
        inputs.extend(events.map(|event| key.input(event)));
        while let Err(error) = self.service.record_inputs(inputs.clone()).await {
            tracing::warn!(agent = %self.agent, %error, "the end of an agent was not recorded");
            if self.pause().await.is_none() {
                // The next host finds that it is gone.
                break;
            }
        }
        finished.link
    }
}

/// Why a run is no longer driven.
pub(super) enum RunOutcome {
    /// It is over.
    Over(Box<FinishedRun>),
    /// The link is gone, or something could not be committed. Output that was not committed is read
    /// again, unless the runner is gone too.
    Lost(Box<ReaderExit>),
    /// The host ends; the agent goes on.
    HostEnds,
}

/// How a run ended.
pub(super) struct FinishedRun {
    pub(super) run: u32,
    /// Whether its runner said that nothing of it is left.
    pub(super) is_clean: bool,
    /// Held until its runner was told that the end is recorded: the link lives as long as this.
    pub(super) link: Option<mpsc::Receiver<LinkEvent>>,
    /// What became of answers, where that is not committed yet.
    pub(super) unsent: Vec<Input>,
    /// Output that was read and not committed.
    pub(super) events: Vec<RunEvent>,
    pub(super) exited: RunEvent,
}

impl FinishedRun {
    /// Adds the output that was read and not committed, since no runner can repeat it.
    fn with_final_output(mut self, last: FinalOutput) -> Self {
        if let RunEvent::Exited { entries, .. } = &mut self.exited {
            *entries = last.entries;
        }
        self.events = last.events;
        self
    }
}
