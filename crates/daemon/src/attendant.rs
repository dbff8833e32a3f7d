//! Attendants: one for each managed agent. They start its process, hear what it says, and perform
//! what the board says is owed to it.
//!
//! Invariants: whatever is written to an agent was committed before; nothing here decides; no
//! attendant waits for a person; an agent that is slow, loud or silent costs only itself.

mod adopting;
mod asking;
mod binding;
mod environment;
mod found;
mod hearing;
mod keeping;
mod kept;
mod launching;
mod pace;
mod run;
mod serving;
mod story;
mod talk;
mod telling;
mod wishing;

use std::sync::Arc;

use countersign_core::{AgentId, Duty, Managed};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::board::{Board, Owed};
use crate::service::Service;

use adopting::Connected;
pub(crate) use adopting::{Adopted, find_runners};
use keeping::Keeper;

/// Everybody who attends to an agent.
#[derive(Clone)]
pub(crate) struct Attendants {
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl Attendants {
    /// Attends to those who were left by an earlier host, and to whatever appears on the board.
    pub(crate) fn begin(service: &Service, board: Arc<Board>, left: Vec<TakenUp>) -> Self {
        let attendants = Self {
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
        };
        for one in left {
            let attending = go_on(service.clone(), one, attendants.clone());
            attendants.tasks.spawn(attending);
        }
        let own = attendants.clone();
        let service = service.clone();
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

    /// Lets go of every agent: their runners go on with them.
    pub(crate) async fn end(&self) {
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// An agent that an earlier host left, and what is owed to it now.
pub(crate) struct TakenUp {
    pub(crate) agent: AgentId,
    pub(crate) name: String,
    pub(crate) managed: Arc<Managed>,
    pub(crate) owed: Owed,
    connected: Connected,
}

impl Adopted {
    /// Puts an agent together with what is owed to it.
    pub(crate) fn take_up(
        &mut self,
        agent: AgentId,
        (name, managed): (String, Arc<Managed>),
        owed: Owed,
    ) -> Option<TakenUp> {
        let connected = self.0.remove(&agent)?;
        Some(TakenUp {
            agent,
            name,
            managed,
            owed,
            connected,
        })
    }
}

/// Goes on with an agent that an earlier host left, then attends to it as to any other.
async fn go_on(service: Service, left: TakenUp, all: Attendants) {
    let TakenUp {
        agent,
        name,
        managed,
        mut owed,
        connected,
    } = left;
    tracing::info!(agent = %agent, heard = connected.heard, "goes on with an agent");
    let keeper = Keeper {
        service: &service,
        agent: &agent,
        name: &name,
        all: &all,
    };
    if keeper.run_to_the_end(&managed, connected, &mut owed).await {
        attend(service, agent, owed, all).await;
    }
}

/// Runs an agent whenever it is to be run.
async fn attend(service: Service, agent: AgentId, mut owed: Owed, all: Attendants) {
    loop {
        if let Some(wanted) = launch_in(&owed) {
            let keeper = Keeper {
                service: &service,
                agent: &agent,
                name: &wanted.name,
                all: &all,
            };
            if !keeper.perform(wanted.managed, wanted.run, &mut owed).await {
                return;
            }
        }
        tokio::select! {
            changed = owed.changed() => if changed.is_err() { return },
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
        } => Some(Wanted {
            run: *run,
            name: profile.name.clone(),
            managed: Some(managed.clone()),
        }),
        Duty::Stop { run } => Some(Wanted {
            run: *run,
            name: String::new(),
            managed: None,
        }),
        _ => None,
    })
}

/// What an attendant finds when nothing runs: a run, or the end of one that never began.
struct Wanted {
    run: u32,
    name: String,
    managed: Option<Arc<Managed>>,
}
