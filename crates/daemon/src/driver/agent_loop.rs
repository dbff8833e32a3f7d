//! Keeping: one agent is run to its end, however often the link to it is lost.
//!
//! Invariant: the end of a run is on the record only when nothing of it is left.

use std::sync::Arc;
use std::time::Duration;

use countersign_agents::runner::{self, LinkEvent, RunnerRecord};
use countersign_core::event::{AgentReported, ProcessKey, RunEnd};
use countersign_core::limits::RECOVERY_MS;
use countersign_core::{AgentId, ManagedAgent, ManagedInput, RunEvent};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::crash;
use crate::duty_board::DutyReceiver;
use crate::service::Service;

use super::AgentDrivers;
use super::adoption::{self, RunnerConnection};
use super::launch::{self, LaunchFailure};
use super::run::{FinalOutput, Run, RunIdentity, failed_run};

/// Who keeps one agent running.
pub(super) struct AgentLoop<'a> {
    pub(super) service: &'a Service,
    pub(super) agent: &'a AgentId,
    pub(super) name: &'a str,
    pub(super) all: &'a AgentDrivers,
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
            let words = "it was ended before it began".to_owned();
            self.record_end(failed_run(run, RunEnd::Killed, words))
                .await;
            return true;
        };
        match launch::launch_agent(self.service, self.agent, self.name, &managed).await {
            Ok((connected, managed)) => self.run_to_end(&managed, connected, duties).await,
            Err(LaunchFailure(words)) => {
                self.record_end(failed_run(run, RunEnd::Failed, words))
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
        let mut managed = managed.clone();
        loop {
            let began = Instant::now();
            let line = connected.link.sender.clone();
            let who = RunIdentity {
                agent: self.agent,
                name: self.name,
                managed: &managed,
            };
            let over = match Run::perform(self.service, who, connected, duties, self.all).await {
                RunOutcome::HostEnds => return false,
                RunOutcome::Over(over) => *over,
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
                    Some(Err(over)) => over.with_final_output(*last),
                    None => return false,
                },
            };
            crash::point("run_over");
            if !over.is_clean {
                // Its end is on the record only when nothing of it is left.
                adoption::end_runner(&record, Some(runner), self.agent.as_str()).await;
            }
            let _link = self.record_end(over).await;
            line.bye().await;
            runner::remove_run_files(&record);
            return true;
        }
    }

    /// Reaches the runner again; how it ended if it is gone; nothing if the host ends.
    async fn reconnect(
        &self,
        record: &RunnerRecord,
        runner: ProcessKey,
        managed: &mut ManagedAgent,
    ) -> Option<Result<RunnerConnection, FinishedRun>> {
        loop {
            self.wait_for_store().await?;
            let run = managed.run;
            let reached =
                adoption::reconnect(self.service, self.agent, (record, runner), run).await;
            // What is committed now is what it goes on from.
            let known = self.service.read_agent(self.agent.clone()).await;
            match (reached, known) {
                (Ok(connected), Ok((agent, _))) => {
                    if let Some(now) = agent.managed.filter(|now| now.run == run) {
                        *managed = (*now).clone();
                    }
                    return Some(Ok(connected));
                }
                (Err(words), Ok(_)) => {
                    let words = format!("its runner ended: {words}");
                    return Some(Err(failed_run(run, RunEnd::Failed, words)));
                }
                (_, Err(error)) => {
                    tracing::warn!(agent = %self.agent, %error, "an agent could not be looked at");
                    self.pause().await?;
                }
            }
        }
    }

    /// Nothing if the host ends first.
    async fn wait_for_store(&self) -> Option<()> {
        while self.service.store_error().is_some() {
            self.pause().await?;
        }
        Some(())
    }

    /// A moment in which others may do something about it. Nothing if the host ends.
    async fn pause(&self) -> Option<()> {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(RECOVERY_MS)) => Some(()),
            () = self.all.shutdown.cancelled() => None,
        }
    }

    /// Says that a run is over until it is on the record, since one that is gone must not seem to
    /// live: what it had open would stay open.
    async fn record_end(&self, over: FinishedRun) -> Option<mpsc::Receiver<LinkEvent>> {
        let report = over
            .report
            .map(|report| RunEvent::Reported(Box::new(report)));
        for ran in report.into_iter().chain([over.exited]) {
            self.record(over.run, ran).await;
        }
        over.link
    }

    async fn record(&self, run: u32, ran: RunEvent) {
        loop {
            let said = ManagedInput::RunReported(self.agent.clone(), run, ran.clone());
            let Err(error) = self.service.submit_managed(said).await else {
                return;
            };
            tracing::warn!(agent = %self.agent, %error, "the end of an agent was not recorded");
            if self.pause().await.is_none() {
                // The next host finds that it is gone.
                return;
            }
        }
    }
}

/// Why a run is no longer driven.
pub(super) enum RunOutcome {
    /// It is over.
    Over(Box<FinishedRun>),
    /// The link is gone, or something could not be committed. What was heard and not committed is
    /// heard again, unless nobody is left to tell it.
    Lost(Box<FinalOutput>),
    /// The host ends; the agent goes on.
    HostEnds,
}

/// How a run ended.
pub(super) struct FinishedRun {
    pub(super) run: u32,
    /// Whether its runner said that nothing of it is left.
    pub(super) is_clean: bool,
    /// Held until its runner was told that all is recorded: the link lives as long as this.
    pub(super) link: Option<mpsc::Receiver<LinkEvent>>,
    pub(super) report: Option<AgentReported>,
    pub(super) exited: RunEvent,
}

impl FinishedRun {
    /// With what was heard last, since nobody will tell it again.
    fn with_final_output(mut self, last: FinalOutput) -> Self {
        if let RunEvent::Exited { entries: said, .. } = &mut self.exited {
            *said = last.said;
        }
        self.report = last.report;
        self
    }
}
