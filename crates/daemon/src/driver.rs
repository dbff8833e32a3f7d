//! Drivers: one for each managed agent. A driver starts the agent's process, reads its output, and
//! performs the duties that the board has for it.
//!
//! Invariants: what is written to an agent follows from what was committed; nothing here decides; no
//! driver waits for a person; an agent that is slow, loud or silent costs only itself.

mod adoption;
mod agent_connection;
mod agent_loop;
mod client_requests;
mod confinement;
mod connection_state;
mod deliveries;
mod duty_performer;
mod environment;
mod launch;
mod output_reader;
mod request_description;
mod request_digest;
mod requested_file;
mod run;
mod runner_host;
#[cfg(test)]
mod test_support;
mod throttle;
mod transcript_buffer;

use std::sync::Arc;

use countersign_core::{AgentId, Duty, ManagedAgent};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::duty_board::{DutyBoard, DutyReceiver};
use crate::service::Service;

use adoption::RunnerConnection;
pub(crate) use adoption::{AdoptedAgents, find_runners};
use agent_loop::AgentLoop;
pub use confinement::{ConfinementRequest, SandboxSettings};
pub(crate) use launch::check_launch;
pub(crate) use runner_host::{ProcessRunners, RunnerHost};

/// The drivers of all managed agents.
#[derive(Clone)]
pub(crate) struct AgentDrivers {
    tasks: TaskTracker,
    shutdown: CancellationToken,
    runners: Arc<dyn RunnerHost>,
}

impl AgentDrivers {
    /// Drives the agents that an earlier host left, and every agent that appears on the board.
    pub(crate) fn start(
        service: &Service,
        board: Arc<DutyBoard>,
        runners: Arc<dyn RunnerHost>,
        adopted: Vec<AdoptedAgent>,
    ) -> Self {
        let drivers = Self {
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            runners,
        };
        // They have channels already, so the board does not report them as new agents below.
        for agent in adopted {
            let driving = drive_adopted(service.clone(), agent, drivers.clone());
            drivers.tasks.spawn(driving);
        }
        let own = drivers.clone();
        let service = service.clone();
        drivers.tasks.spawn(async move {
            loop {
                let new_agents = tokio::select! {
                    new_agents = board.new_agents() => new_agents,
                    () = own.shutdown.cancelled() => return,
                };
                for (agent, duties) in new_agents {
                    let driving = drive_agent(service.clone(), agent, duties, own.clone());
                    own.tasks.spawn(driving);
                }
            }
        });
        drivers
    }

    /// Lets go of every agent. Their runners keep them running.
    pub(crate) async fn end(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// An agent that an earlier host left, and its duties.
pub(crate) struct AdoptedAgent {
    pub(crate) agent: AgentId,
    pub(crate) name: String,
    pub(crate) managed: Arc<ManagedAgent>,
    pub(crate) duties: DutyReceiver,
    connected: RunnerConnection,
}

impl AdoptedAgents {
    /// Takes an agent out, to be driven with these duties.
    pub(crate) fn remove_agent(
        &mut self,
        agent: AgentId,
        name: String,
        managed: Arc<ManagedAgent>,
        duties: DutyReceiver,
    ) -> Option<AdoptedAgent> {
        let connected = self.0.remove(&agent)?;
        Some(AdoptedAgent {
            agent,
            name,
            managed,
            duties,
            connected,
        })
    }
}

/// Continues the run of an agent that an earlier host left, then drives it like any other.
async fn drive_adopted(service: Service, left: AdoptedAgent, drivers: AgentDrivers) {
    let AdoptedAgent {
        agent,
        name,
        managed,
        mut duties,
        connected,
    } = left;
    let span = tracing::info_span!("run", agent = %agent, run = managed.run);
    tracing::info!(parent: &span, offset = connected.offset, "agent adopted");
    let agent_loop = AgentLoop {
        service: &service,
        agent: &agent,
        name: &name,
        drivers: &drivers,
    };
    let running = agent_loop.run_to_end(&managed, connected, &mut duties);
    if running.instrument(span).await {
        drive_agent(service, agent, duties, drivers).await;
    }
}

/// Runs an agent whenever there is a duty to launch it.
async fn drive_agent(
    service: Service,
    agent: AgentId,
    mut duties: DutyReceiver,
    drivers: AgentDrivers,
) {
    loop {
        if let Some(wanted) = find_launch(&duties) {
            let agent_loop = AgentLoop {
                service: &service,
                agent: &agent,
                name: &wanted.name,
                drivers: &drivers,
            };
            let span = tracing::info_span!("run", agent = %agent, run = wanted.run);
            let running = agent_loop.launch_and_run(wanted.managed, wanted.run, &mut duties);
            if !running.instrument(span).await {
                return;
            }
        }
        tokio::select! {
            changed = duties.changed() => if changed.is_err() { return },
            () = drivers.shutdown.cancelled() => return,
        }
    }
}

/// The run that is to be started, or that was to be started and is to be ended already.
fn find_launch(duties: &DutyReceiver) -> Option<LaunchDuty> {
    duties.borrow().iter().find_map(|duty| match duty {
        Duty::Launch {
            run,
            profile,
            managed,
        } => Some(LaunchDuty {
            run: *run,
            name: profile.name.clone(),
            managed: Some(managed.clone()),
        }),
        Duty::Stop { run } => Some(LaunchDuty {
            run: *run,
            name: String::new(),
            managed: None,
        }),
        _ => None,
    })
}

/// A run to start; without an agent, the end of one that never began.
struct LaunchDuty {
    run: u32,
    name: String,
    managed: Option<Arc<ManagedAgent>>,
}
