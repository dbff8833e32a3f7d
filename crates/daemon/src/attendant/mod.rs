//! Attendants: one for each managed agent. They start its process, hear what it says, and perform
//! what the board says is owed to it.
//!
//! Invariants: whatever is written to an agent was committed before; nothing here decides; no
//! attendant waits for a person; an agent that is slow, loud or silent costs only itself.

mod binding;
mod environment;
mod found;
mod hearing;
mod launching;
mod pace;
mod run;
mod serving;
mod story;
mod telling;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use countersign_agents::TreeRecord;
use countersign_core::limits::RECOVERY_MS;
use countersign_core::{Agent, AgentId, Duty, ManagedInput, Ran, Snapshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::board::{Board, Owed};
use crate::crash;
use crate::service::{RunnerSettings, Service};

/// Everybody who attends to an agent.
#[derive(Clone)]
pub(crate) struct Attendants {
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl Attendants {
    /// Attends to whatever appears on the board.
    pub(crate) fn begin(service: Service, board: Arc<Board>, adopted: Adopted) -> Self {
        // Nobody was adopted, so everybody on the board is new.
        drop(adopted);
        let attendants = Self {
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
        };
        let own = attendants.clone();
        attendants.tasks.spawn(async move {
            loop {
                let arrivals = tokio::select! {
                    arrivals = board.arrivals() => arrivals,
                    () = own.ending.cancelled() => return,
                };
                for (agent, owed) in arrivals {
                    let attending = attend(service.clone(), agent, owed, own.clone());
                    own.tasks.spawn(attending);
                }
            }
        });
        attendants
    }

    /// Ends every agent and everything that came of it.
    pub(crate) async fn end(&self) {
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Runs an agent whenever it is to be run.
async fn attend(service: Service, agent: AgentId, mut owed: Owed, all: Attendants) {
    loop {
        if let Some(launch) = launch_in(&owed) {
            let over = run::Run::perform(&service, &agent, launch, &mut owed, &all).await;
            crash::point("run_over");
            record_end(&service, &agent, over, &all).await;
        }
        tokio::select! {
            changed = owed.changed() => if changed.is_err() { return },
            () = all.ending.cancelled() => return,
        }
    }
}

/// Says that a run is over until it is on the record, since one that is gone must not seem to live: what
/// it had open would stay open.
async fn record_end(service: &Service, agent: &AgentId, over: Over, all: &Attendants) {
    loop {
        let said = ManagedInput::Ran(agent.clone(), over.run, over.exited.clone());
        let Err(error) = service.want(said).await else {
            return;
        };
        tracing::warn!(agent = %agent, %error, "the end of an agent was not recorded");
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(RECOVERY_MS)) => {}
            // The next host finds that it is gone.
            () = all.ending.cancelled() => return,
        }
    }
}

/// What is to be started, or was to be and is already to be ended again.
fn launch_in(owed: &Owed) -> Option<Wanted> {
    owed.borrow().iter().find_map(|duty| match duty {
        Duty::Launch {
            run,
            profile,
            managed,
        } => Some(Wanted::Launch {
            run: *run,
            name: profile.name.clone(),
            managed: managed.clone(),
        }),
        Duty::Stop { run } => Some(Wanted::Nothing { run: *run }),
        _ => None,
    })
}

/// What an attendant finds when nothing runs.
enum Wanted {
    /// A run.
    Launch {
        run: u32,
        name: String,
        managed: Arc<countersign_core::Managed>,
    },
    /// The end of a run that never began.
    Nothing { run: u32 },
}

/// How a run ended.
struct Over {
    run: u32,
    exited: Ran,
}

/// Agents that outlived an earlier host.
pub(crate) struct Adopted {
    agents: BTreeSet<AgentId>,
}

impl Adopted {
    pub(crate) fn agents(&self) -> BTreeSet<AgentId> {
        self.agents.clone()
    }
}

/// Finds the agents that outlived an earlier host, and takes the bookmarks to go on from.
pub(crate) async fn find_runners(snapshot: &mut Snapshot, _runners: &RunnerSettings) -> Adopted {
    snapshot.bookmarks.clear();
    sweep(snapshot).await;
    let agents = BTreeSet::new();
    Adopted { agents }
}

/// Ends the processes that an earlier host left, before anybody is told that they are gone.
async fn sweep(snapshot: &Snapshot) {
    for agent in &snapshot.agents {
        if let Some((record, root)) = left_by(agent) {
            match record.sweep(root).await {
                Ok(0) => {}
                Ok(ended) => {
                    tracing::warn!(agent = %agent.id(), ended, "ended what an earlier host left");
                }
                Err(error) => {
                    tracing::error!(agent = %agent.id(), %error, "processes of an agent may still run");
                }
            }
        }
    }
}

fn left_by(agent: &Agent) -> Option<(TreeRecord, Option<countersign_core::event::ProcessKey>)> {
    let managed = agent.managed.as_ref().filter(|managed| managed.is_live())?;
    let record = serde_json::from_str(managed.tree.text()).ok()?;
    Some((record, managed.process))
}
