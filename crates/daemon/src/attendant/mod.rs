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
use std::time::Duration;

use countersign_agents::runner::{self, LinkEvent, RunnerRecord};
use countersign_core::event::{AgentReported, ProcessKey, RunEnd};
use countersign_core::limits::RECOVERY_MS;
use countersign_core::{AgentId, Duty, Managed, ManagedInput, Ran};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::board::{Board, Owed};
use crate::crash;
use crate::service::Service;

use adopting::Connected;
pub(crate) use adopting::{Adopted, find_runners};
use launching::Failure;
use run::{Run, Who, ended};

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

/// Who keeps one agent running.
struct Keeper<'a> {
    service: &'a Service,
    agent: &'a AgentId,
    name: &'a str,
    all: &'a Attendants,
}

impl Keeper<'_> {
    /// Starts an agent and runs it to its end. False if the host ends.
    async fn perform(&self, wanted: Option<Arc<Managed>>, run: u32, owed: &mut Owed) -> bool {
        let Some(managed) = wanted else {
            let words = "it was ended before it began".to_owned();
            self.record_end(ended(run, RunEnd::Killed, words)).await;
            return true;
        };
        match launching::launch_agent(self.service, self.agent, self.name, &managed).await {
            Ok((connected, managed)) => self.run_to_the_end(&managed, connected, owed).await,
            Err(Failure(words)) => {
                self.record_end(ended(run, RunEnd::Failed, words)).await;
                true
            }
        }
    }

    /// Runs an agent to its end, however often the link to it is lost. False if the host ends.
    async fn run_to_the_end(
        &self,
        managed: &Managed,
        mut connected: Connected,
        owed: &mut Owed,
    ) -> bool {
        let (record, runner) = (connected.record.clone(), connected.runner);
        let mut managed = managed.clone();
        loop {
            let begun = Instant::now();
            let line = connected.link.line.clone();
            let who = Who {
                agent: self.agent,
                name: self.name,
                managed: &managed,
            };
            let over = match Run::perform(self.service, who, connected, owed, self.all).await {
                Ended::HostEnds => return false,
                Ended::Over(over) => over,
                Ended::Lost => {
                    self.rest_after(begun).await;
                    match self.reach_again(&record, runner, &mut managed).await {
                        Some(Ok(again)) => {
                            connected = again;
                            continue;
                        }
                        Some(Err(over)) => over,
                        None => return false,
                    }
                }
            };
            crash::point("run_over");
            if !over.is_clean {
                // Its end is on the record only when nothing of it is left.
                adopting::end(&record, Some(runner), self.agent.as_str()).await;
            }
            let _link = self.record_end(over).await;
            line.bye().await;
            runner::clear(&record);
            return true;
        }
    }

    /// A link that is lost again and again must not keep everybody busy.
    async fn rest_after(&self, begun: Instant) {
        let rest = Duration::from_millis(RECOVERY_MS).saturating_sub(begun.elapsed());
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = self.all.ending.cancelled() => {}
        }
    }

    /// Reaches the runner again; how it ended if it is gone; nothing if the host ends.
    async fn reach_again(
        &self,
        record: &RunnerRecord,
        runner: ProcessKey,
        managed: &mut Managed,
    ) -> Option<Result<Connected, Over>> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(RECOVERY_MS)),
                    if self.service.store_trouble().is_some() => {}
                () = self.all.ending.cancelled() => return None,
                () = std::future::ready(()), if self.service.store_trouble().is_none() => {}
            }
            if self.service.store_trouble().is_some() {
                continue;
            }
            let run = managed.run;
            let reached =
                adopting::reach_again(self.service, self.agent, (record, runner), run).await;
            let again = match reached {
                Ok(connected) => connected,
                Err(words) => {
                    let words = format!("its runner ended: {words}");
                    return Some(Err(ended(run, RunEnd::Failed, words)));
                }
            };
            // What is committed now is what it goes on from.
            match self.service.load_agent(self.agent.clone()).await {
                Ok((agent, _)) => {
                    if let Some(now) = agent.managed.filter(|now| now.run == run) {
                        *managed = (*now).clone();
                    }
                    return Some(Ok(again));
                }
                Err(error) => {
                    tracing::warn!(agent = %self.agent, %error, "an agent could not be looked at");
                    tokio::time::sleep(Duration::from_millis(RECOVERY_MS)).await;
                }
            }
        }
    }

    /// Says that a run is over until it is on the record, since one that is gone must not seem to
    /// live: what it had open would stay open.
    async fn record_end(&self, over: Over) -> Option<mpsc::Receiver<LinkEvent>> {
        let report = over.report.map(|report| Ran::Reported(Box::new(report)));
        for ran in report.into_iter().chain([over.exited]) {
            self.record(over.run, ran).await;
        }
        over.link
    }

    async fn record(&self, run: u32, ran: Ran) {
        loop {
            let said = ManagedInput::Ran(self.agent.clone(), run, ran.clone());
            let Err(error) = self.service.want(said).await else {
                return;
            };
            tracing::warn!(agent = %self.agent, %error, "the end of an agent was not recorded");
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(RECOVERY_MS)) => {}
                // The next host finds that it is gone.
                () = self.all.ending.cancelled() => return,
            }
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

/// Why a run is no longer attended.
enum Ended {
    /// It is over.
    Over(Over),
    /// The link is gone, or something could not be committed.
    Lost,
    /// The host ends; the agent goes on.
    HostEnds,
}

/// How a run ended.
struct Over {
    run: u32,
    /// Whether its runner said that nothing of it is left.
    is_clean: bool,
    /// Held until its runner was told that all is recorded: the link lives as long as this.
    link: Option<mpsc::Receiver<LinkEvent>>,
    report: Option<AgentReported>,
    exited: Ran,
}
