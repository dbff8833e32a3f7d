//! One run of an agent: from its start, or from where an earlier host left it, to its end, whatever
//! ends it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_agents::adapter::{Exit, Heard, Order, Start};
use countersign_agents::runner::{LinkEvent, RunnerShells};
use countersign_agents::{Roots, ShellBackend};
use countersign_core::event::{AgentReported, RunEnd, TranscriptEntry};
use countersign_core::limits::{AGENT_START_MS, AGENT_STOP_MS, TREE_KILL_MS};
use countersign_core::{
    AgentId, Caller, Input, Life, Managed, Principal, PrincipalKey, Ran, Role, Seq,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::board::Owed;
use crate::service::Service;

use super::Attendants;
use super::adopting::Connected;
use super::keeping::{Ended, Over};
use super::talk::{Sent, Talk};
use super::telling::Next;

/// What the two sides of a run share: one hears, the other tells.
pub(super) struct Run {
    pub(super) service: Service,
    pub(super) agent: AgentId,
    pub(super) caller: Caller,
    pub(super) number: u32,
    pub(super) folder: PathBuf,
    pub(super) roots: Roots,
    pub(super) ask_timeout_ms: Option<u64>,
    pub(super) shells: Arc<dyn ShellBackend>,
    pub(super) tasks: TaskTracker,
    pub(super) over: CancellationToken,
    /// Whether its session is open.
    pub(super) ready: watch::Sender<bool>,
    /// Why it is of no use, once it is.
    pub(super) useless: watch::Sender<Option<String>>,
    /// Answers that were told; they ride on a later commit.
    pub(super) told: Mutex<Vec<Input>>,
    /// Answers that are on their way or were told; each is followed once.
    pub(super) followed: Mutex<HashSet<Seq>>,
    talk: Mutex<Talk>,
}

/// Who is run, as the host knows it when it begins or goes on.
pub(super) struct Who<'a> {
    pub(super) agent: &'a AgentId,
    pub(super) name: &'a str,
    pub(super) managed: &'a Managed,
}

impl Run {
    /// Runs an agent to its end, or until nobody can say any more what becomes of it.
    pub(super) async fn perform(
        service: &Service,
        who: Who<'_>,
        connected: Connected,
        owed: &mut Owed,
        all: &Attendants,
    ) -> Ended {
        let managed = who.managed;
        let protocol = connected.record.protocol;
        let start = super::launching::start_of(service, managed, &connected.record);
        let kept = connected.kept.unwrap_or_else(|| super::kept::Kept {
            told: managed.into(),
            ..super::kept::Kept::default()
        });
        let talk = match Talk::new(connected.link.line.clone(), protocol, kept, connected.heard) {
            Ok(talk) => talk,
            Err(error) => {
                return Ended::Over(Box::new(ended(
                    managed.run,
                    RunEnd::Failed,
                    error.to_string(),
                )));
            }
        };
        let folder = super::launching::folder_of(managed);
        let run = Arc::new(Self {
            service: service.clone(),
            agent: who.agent.clone(),
            caller: agent_caller(who.agent, who.name),
            number: managed.run,
            roots: Roots::resolve([folder.clone()]),
            folder,
            ask_timeout_ms: managed.options.ask_timeout_ms,
            shells: Arc::new(RunnerShells::new(connected.link.line)),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
            ready: watch::Sender::new(matches!(managed.life, Life::Ready | Life::Stopping)),
            useless: watch::Sender::new(None),
            told: Mutex::default(),
            followed: Mutex::default(),
            talk: Mutex::new(talk),
        });
        let heard = (connected.link.log, connected.heard, managed.turn.is_some());
        run.go_on(managed, start, owed).await;
        run.attend(connected.link.events, heard, owed, all).await
    }

    /// Says what is to be said before anything is heard: what comes may be the answer to it.
    async fn go_on(self: &Arc<Self>, managed: &Managed, start: Start, owed: &mut Owed) {
        if managed.life == Life::Requested || managed.life == Life::Launched {
            // What cannot be said shows as a session that never opens.
            let sent = self.talk().order(Order::Start(start));
            self.follow(sent.ok().flatten());
        }
        self.take_up(managed).await;
        self.tell(owed);
    }

    async fn attend(
        self: &Arc<Self>,
        events: mpsc::Receiver<LinkEvent>,
        heard: (String, u64, bool),
        owed: &mut Owed,
        all: &Attendants,
    ) -> Ended {
        let mut hearing = self.tasks.spawn(self.clone().hear_all(events, heard));
        let why = self.attend_until_over(&mut hearing, owed, all).await;
        let ended = self.finish(why, hearing).await;
        self.over.cancel();
        self.settle_told().await;
        self.tasks.close();
        self.tasks.wait().await;
        ended
    }

    async fn attend_until_over(
        self: &Arc<Self>,
        hearing: &mut JoinHandle<Last>,
        owed: &mut Owed,
        all: &Attendants,
    ) -> Why {
        let mut ready = self.ready.subscribe();
        let mut useless = self.useless.subscribe();
        let late = tokio::time::sleep(Duration::from_millis(AGENT_START_MS));
        tokio::pin!(late);
        loop {
            if self.tell(owed) == Next::Stop {
                return Why::Killed;
            }
            tokio::select! {
                last = &mut *hearing => return Why::Heard(Box::new(last.unwrap_or_default())),
                changed = owed.changed() => if changed.is_err() { return Why::HostEnds },
                Ok(words) = useless.wait_for(Option::is_some) => {
                    return Why::Useless(words.clone().unwrap_or_default());
                }
                // Its duties changed with it, or will soon.
                Ok(()) = ready.changed() => {}
                () = &mut late, if !*self.ready.borrow() => return Why::Useless(too_late()),
                () = all.ending.cancelled() => return Why::HostEnds,
            }
        }
    }

    async fn finish(&self, why: Why, hearing: JoinHandle<Last>) -> Ended {
        let (end, words) = match why {
            Why::Heard(last) => return self.heard_to_the_end(*last, None),
            Why::HostEnds => {
                // The agent goes on; what was not committed is told to the next host.
                hearing.abort();
                return Ended::HostEnds;
            }
            Why::Killed => (RunEnd::Killed, "it was ended".to_owned()),
            Why::Useless(words) => (RunEnd::Failed, words),
        };
        let grace = Duration::from_millis(AGENT_STOP_MS);
        self.talk().stop(grace);
        let abort = hearing.abort_handle();
        let patience = 2 * grace + Duration::from_millis(2 * TREE_KILL_MS);
        let Ok(last) = tokio::time::timeout(patience, hearing).await else {
            abort.abort();
            return Ended::Over(Box::new(ended(self.number, end, words)));
        };
        self.heard_to_the_end(last.unwrap_or_default(), Some((end, words)))
    }

    fn heard_to_the_end(&self, last: Last, wanted: Option<(RunEnd, String)>) -> Ended {
        let (end, words) = match (wanted, &last.ended) {
            (Some((end, words)), _) => (end, with_log(words, end, &last)),
            (None, Some((exit, why))) => meaning(exit, why.as_deref(), &last),
            (None, None) => return Ended::Lost(Box::new(last)),
        };
        Ended::Over(Box::new(Over {
            run: self.number,
            is_clean: last.ended.is_some(),
            link: last.link,
            report: last.report,
            exited: Ran::Exited {
                said: last.said,
                end,
                message: words,
            },
        }))
    }

    /// What a line of the agent means. What has to be said at once is on its way.
    pub(super) fn hear(self: &Arc<Self>, line: &[u8], number: u64) -> Heard {
        let (heard, sent) = self.talk().hear(line, number);
        self.follow(sent);
        heard
    }

    /// Notes when lines are in the pipe.
    pub(super) fn follow(self: &Arc<Self>, sent: Option<Sent>) {
        let Some(sent) = sent else { return };
        let run = self.clone();
        self.tasks.spawn(async move {
            if let Ok(outcome) = sent.outcome(None).await {
                run.talk().confirm(&outcome.names);
            }
        });
    }

    /// A line that cannot be read was heard all the same.
    pub(super) fn skip_to(&self, number: u64) {
        self.talk().skip_to(number);
    }

    pub(super) fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an agent itself asks.
fn agent_caller(agent: &AgentId, name: &str) -> Caller {
    let principal = Principal {
        role: Role::Agent(agent.clone()),
        name: name.into(),
        key: PrincipalKey::new(format!("agent:{agent}")),
    };
    Caller {
        principal: Arc::new(principal),
        client: None,
    }
}

/// What the hearing side had when it ended.
#[derive(Default)]
pub(super) struct Last {
    pub(super) report: Option<AgentReported>,
    pub(super) said: Vec<TranscriptEntry>,
    /// How the process ended, and why its runner ended it; nothing if the link was lost.
    pub(super) ended: Option<(Exit, Option<String>)>,
    pub(super) in_turn: bool,
    /// The end of what it wrote for its log.
    pub(super) log: String,
    /// The link lives as long as this.
    pub(super) link: Option<mpsc::Receiver<LinkEvent>>,
}

/// Why a run is attended no longer.
enum Why {
    Heard(Box<Last>),
    Killed,
    Useless(String),
    HostEnds,
}

fn too_late() -> String {
    format!(
        "it did not open a session within {} s",
        AGENT_START_MS / 1000
    )
}

/// An end between turns with a good code is a good end.
fn meaning(exit: &Exit, why: Option<&str>, last: &Last) -> (RunEnd, String) {
    let how = match (why, &exit.signal, exit.code) {
        (Some(why), ..) => format!("it was ended: {why}"),
        (None, Some(signal), _) => format!("its process was ended by {signal}"),
        (None, None, Some(code)) => format!("its process ended with code {code}"),
        (None, None, None) => "its process ended".to_owned(),
    };
    let end = if why.is_some() {
        RunEnd::HostEnded
    } else if exit.code == Some(0) && !last.in_turn {
        RunEnd::Done
    } else {
        RunEnd::Failed
    };
    let how = if last.in_turn {
        format!("{how} in the middle of a turn")
    } else {
        how
    };
    let words = with_log(how, end, last);
    (end, words)
}

/// What failed is explained by what it wrote last, if anything does.
fn with_log(words: String, end: RunEnd, last: &Last) -> String {
    let log = last.log.trim();
    if end == RunEnd::Failed && !log.is_empty() {
        format!("{words}: {log}")
    } else {
        words
    }
}

pub(super) fn ended(run: u32, end: RunEnd, message: String) -> Over {
    Over {
        run,
        is_clean: false,
        link: None,
        report: None,
        exited: Ran::Exited {
            said: Vec::new(),
            end,
            message,
        },
    }
}
