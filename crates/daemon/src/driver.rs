//! Drivers: one for each managed agent. They start its process, hear what it says, and perform
//! what the board says is owed to it.
//!
//! Invariants: whatever is written to an agent was committed before; nothing here decides; no
//! driver waits for a person; an agent that is slow, loud or silent costs only itself.

mod adoption;
mod agent_connection;
mod agent_loop;
mod client_requests;
mod connection_state;
mod environment;
mod launch;
mod output_reader;
mod perform;
mod permission_asks;
mod request_description;
mod request_digest;
mod requested_file;
mod run;
mod throttle;
mod transcript_buffer;

use std::sync::Arc;

use countersign_core::{AgentId, Duty, ManagedAgent};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::duty_board::{DutyBoard, DutyReceiver};
use crate::service::Service;

use adoption::RunnerConnection;
pub(crate) use adoption::{AdoptedAgents, find_runners};
use agent_loop::AgentLoop;

/// The drivers of all managed agents.
#[derive(Clone)]
pub(crate) struct AgentDrivers {
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl AgentDrivers {
    /// Attends to those who were left by an earlier host, and to whatever appears on the board.
    pub(crate) fn start(service: &Service, board: Arc<DutyBoard>, left: Vec<AdoptedAgent>) -> Self {
        let drivers = Self {
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        };
        for one in left {
            let driving = drive_adopted(service.clone(), one, drivers.clone());
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

    /// Lets go of every agent: their runners go on with them.
    pub(crate) async fn end(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// An agent that an earlier host left, and what is owed to it now.
pub(crate) struct AdoptedAgent {
    pub(crate) agent: AgentId,
    pub(crate) name: String,
    pub(crate) managed: Arc<ManagedAgent>,
    pub(crate) duties: DutyReceiver,
    connected: RunnerConnection,
}

impl AdoptedAgents {
    /// Puts an agent together with what is owed to it.
    pub(crate) fn remove_agent(
        &mut self,
        agent: AgentId,
        (name, managed): (String, Arc<ManagedAgent>),
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

/// Goes on with an agent that an earlier host left, then attends to it as to any other.
async fn drive_adopted(service: Service, left: AdoptedAgent, all: AgentDrivers) {
    let AdoptedAgent {
        agent,
        name,
        managed,
        mut duties,
        connected,
    } = left;
    tracing::info!(agent = %agent, heard = connected.offset, "goes on with an agent");
    let agent_loop = AgentLoop {
        service: &service,
        agent: &agent,
        name: &name,
        all: &all,
    };
    if agent_loop
        .run_to_end(&managed, connected, &mut duties)
        .await
    {
        drive_agent(service, agent, duties, all).await;
    }
}

/// Runs an agent whenever it is to be run.
async fn drive_agent(
    service: Service,
    agent: AgentId,
    mut duties: DutyReceiver,
    all: AgentDrivers,
) {
    loop {
        if let Some(wanted) = find_launch(&duties) {
            let agent_loop = AgentLoop {
                service: &service,
                agent: &agent,
                name: &wanted.name,
                all: &all,
            };
            if !agent_loop
                .launch_and_run(wanted.managed, wanted.run, &mut duties)
                .await
            {
                return;
            }
        }
        tokio::select! {
            changed = duties.changed() => if changed.is_err() { return },
            () = all.shutdown.cancelled() => return,
        }
    }
}

/// What is to be started, or was to be and is already to be ended again.
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

/// What a driver finds when nothing runs: a run, or the end of one that never began.
struct LaunchDuty {
    run: u32,
    name: String,
    managed: Option<Arc<ManagedAgent>>,
}
