//! One run of an agent: from its start to its end, whatever ends it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_agents::acp::Acp;
use countersign_agents::adapter::{
    Adapter, Answer, Exit, Happening, Heard, Order, OrderError, RequestId, Serves, Start,
};
use countersign_agents::{LocalShells, PipeWriter, Process, Roots, ShellBackend, Written};
use countersign_core::event::{RunEnd, TranscriptEntry};
use countersign_core::limits::{AGENT_START_MS, AGENT_STOP_MS};
use countersign_core::{
    AgentId, ApprovalId, Caller, Input, Managed, Principal, PrincipalKey, Ran, Role,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::board::Owed;
use crate::service::Service;

use super::launching::{Failure, Launched, launch_agent};
use super::serving::Pending;
use super::telling::{Next, Told};
use super::{Attendants, Over, Wanted};

/// What the two sides of a run share: one hears, the other tells.
pub(super) struct Run {
    pub(super) service: Service,
    pub(super) agent: AgentId,
    pub(super) caller: Caller,
    pub(super) number: u32,
    pub(super) folder: PathBuf,
    pub(super) roots: Roots,
    pub(super) env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
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
    line: Mutex<Line>,
}

/// The one connection to the agent. Whoever orders or hears also writes, so that the order of what is
/// decided is the order in the pipe.
struct Line {
    adapter: Box<dyn Adapter>,
    writer: PipeWriter,
    /// Requests of the agent that wait for the loop's word. An agent may use an id again, so only the
    /// ask that was made for this very request may answer it.
    open: HashMap<RequestId, OpenRequest>,
}

/// A request that waits.
struct OpenRequest {
    ask: ApprovalId,
    /// What is to be done for the agent, unless it only waits for an answer.
    wish: Option<Pending>,
}

impl Run {
    /// Runs an agent to its end.
    pub(super) async fn perform(
        service: &Service,
        agent: &AgentId,
        wanted: Wanted,
        owed: &mut Owed,
        all: &Attendants,
    ) -> Over {
        let (number, name, managed) = match wanted {
            Wanted::Launch { run, name, managed } => (run, name, managed),
            Wanted::Nothing { run } => {
                let words = "it was ended before it began";
                return ended(run, Vec::new(), RunEnd::Killed, words.to_owned());
            }
        };
        match launch_agent(service, agent, &name, (number, &managed)).await {
            Ok(launched) => {
                let run = (number, managed.as_ref());
                Self::with(service, agent, (&name, run), launched, owed, all).await
            }
            Err(Failure(words)) => ended(number, Vec::new(), RunEnd::Failed, words),
        }
    }

    async fn with(
        service: &Service,
        agent: &AgentId,
        (name, (number, managed)): (&str, (u32, &Managed)),
        launched: Launched,
        owed: &mut Owed,
        all: &Attendants,
    ) -> Over {
        let Launched {
            pipe,
            process,
            tree,
            folder,
            env,
        } = launched;
        let run = Arc::new(Self {
            service: service.clone(),
            agent: agent.clone(),
            caller: agent_caller(agent, name),
            number,
            roots: Roots::resolve([folder.clone()]),
            env,
            ask_timeout_ms: managed.options.ask_timeout_ms,
            shells: Arc::new(LocalShells::new(tree.clone())),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
            ready: watch::Sender::new(false),
            useless: watch::Sender::new(None),
            told: Mutex::default(),
            line: Mutex::new(Line {
                adapter: Box::new(Acp::new()),
                writer: pipe.writer,
                open: HashMap::new(),
            }),
            folder,
        });
        let mut hearing = run.tasks.spawn(run.clone().hear_all(pipe.events));
        // What cannot be said shows as a session that never opens.
        drop(run.order(Order::Start(run.start(managed))));
        let why = run
            .attend_until_over(&mut hearing, managed, owed, all)
            .await;
        let over = run.finish(why, hearing, &process).await;
        // The process may have left others that outlive it.
        if let Err(error) = tree.kill_all().await {
            tracing::error!(agent = %run.agent, %error, "processes of an agent may still run");
        }
        over
    }

    fn start(&self, managed: &Managed) -> Start {
        let options = &managed.options;
        Start {
            cwd: self.folder.clone(),
            session: managed.session.clone().filter(|_| managed.resumable),
            mode: options.mode.clone(),
            model: options.model.clone(),
            system_prompt: options.system_prompt.clone(),
            allowed_tools: options.allowed_tools.clone(),
            disallowed_tools: options.disallowed_tools.clone(),
            serves: Serves {
                files: true,
                terminals: true,
            },
            mcp_servers: Vec::new(),
        }
    }

    async fn attend_until_over(
        self: &Arc<Self>,
        hearing: &mut tokio::task::JoinHandle<Last>,
        managed: &Managed,
        owed: &mut Owed,
        all: &Attendants,
    ) -> Why {
        let mut told = Told::from(managed);
        let mut ready = self.ready.subscribe();
        let mut useless = self.useless.subscribe();
        let late = tokio::time::sleep(Duration::from_millis(AGENT_START_MS));
        tokio::pin!(late);
        loop {
            if self.tell(&mut told, owed) == Next::Stop {
                return Why::Killed;
            }
            tokio::select! {
                last = &mut *hearing => return Why::Exited(last.unwrap_or_default()),
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

    async fn finish(
        &self,
        why: Why,
        hearing: tokio::task::JoinHandle<Last>,
        process: &Process,
    ) -> Over {
        self.over.cancel();
        let (last, end, words) = match why {
            Why::Exited(last) => {
                let (end, words) = meaning(&last);
                (last, end, words)
            }
            why => {
                let grace = Duration::from_millis(AGENT_STOP_MS);
                if let Err(error) = process.stop(grace).await {
                    tracing::error!(agent = %self.agent, %error, "processes of an agent may still run");
                }
                let last = hearing.await.unwrap_or_default();
                let (end, words) = why.words();
                let words = with_log(words, end, &last);
                (last, end, words)
            }
        };
        self.settle_told().await;
        self.tasks.close();
        self.tasks.wait().await;
        ended(self.number, last.said, end, words)
    }

    /// Carries out an order: its lines are on their way, in order, when this returns.
    pub(super) fn order(&self, order: Order) -> Result<Vec<Written>, OrderError> {
        self.line().order(order)
    }

    /// What a line of the agent means. What has to be said at once is on its way; an answer to what the
    /// line replaces or takes back no longer is.
    pub(super) fn hear(&self, heard: &[u8]) -> Heard {
        let mut line = self.line();
        let mut heard = line.adapter.hear(heard);
        for request in heard.happenings.iter().filter_map(replaced) {
            line.open.remove(request);
        }
        for bytes in std::mem::take(&mut heard.lines) {
            // An agent that is gone shows as that.
            drop(line.writer.write(bytes));
        }
        heard
    }

    /// Keeps a request until it is known how the ask for it ends.
    pub(super) fn keep(&self, request: RequestId, ask: ApprovalId, wish: Option<Pending>) {
        self.line().open.insert(request, OpenRequest { ask, wish });
    }

    /// How many wishes are kept.
    pub(super) fn wishes_kept(&self) -> usize {
        let line = self.line();
        line.open
            .values()
            .filter(|open| open.wish.is_some())
            .count()
    }

    /// Takes a wish out again, if it is the one that this ask is about.
    pub(super) fn take_wish(&self, request: &RequestId, ask: &ApprovalId) -> Option<Pending> {
        let mut line = self.line();
        let open = line.open.get_mut(request).filter(|open| open.ask == *ask)?;
        let wish = open.wish.take()?;
        line.open.remove(request);
        Some(wish)
    }

    /// Answers a request, if it is the one that this ask is about.
    pub(super) fn answer_request(
        &self,
        request: RequestId,
        ask: &ApprovalId,
        answer: Answer,
    ) -> Result<Vec<Written>, OrderError> {
        let mut line = self.line();
        let open = line.open.get(&request);
        if open.is_none_or(|open| open.ask != *ask) {
            return Err(OrderError::NotWaiting);
        }
        line.open.remove(&request);
        line.order(Order::Answer { request, answer })
    }

    /// Nothing comes of the wishes that are kept.
    pub(super) fn drop_wishes(&self) -> Vec<RequestId> {
        let mut line = self.line();
        let wishes = line.open.extract_if(|_, open| open.wish.is_some());
        wishes.map(|(request, _)| request).collect()
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn order(&mut self, order: Order) -> Result<Vec<Written>, OrderError> {
        let lines = self.adapter.order(order)?;
        Ok(lines
            .into_iter()
            .map(|bytes| self.writer.write(bytes))
            .collect())
    }
}

/// The request that something makes anew or takes back: what was asked for it before is over.
fn replaced(happening: &Happening) -> Option<&RequestId> {
    match happening {
        Happening::Asked(ask) => Some(&ask.request),
        Happening::Wanted { request, .. } | Happening::Withdrawn { request } => Some(request),
        _ => None,
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
    pub(super) said: Vec<TranscriptEntry>,
    pub(super) exit: Exit,
    pub(super) in_turn: bool,
    /// The end of what it wrote for its log.
    pub(super) log: String,
}

/// Why a run ends.
enum Why {
    Exited(Last),
    Killed,
    Useless(String),
    HostEnds,
}

impl Why {
    fn words(self) -> (RunEnd, String) {
        match self {
            Self::Killed => (RunEnd::Killed, "it was ended".to_owned()),
            Self::Useless(words) => (RunEnd::Failed, words),
            Self::HostEnds => (RunEnd::HostEnded, "the host ended".to_owned()),
            Self::Exited(last) => meaning(&last),
        }
    }
}

fn too_late() -> String {
    format!(
        "it did not open a session within {} s",
        AGENT_START_MS / 1000
    )
}

/// An end between turns with a good code is a good end.
fn meaning(last: &Last) -> (RunEnd, String) {
    let how = match (&last.exit.signal, last.exit.code) {
        (Some(signal), _) => format!("its process was ended by {signal}"),
        (None, Some(code)) => format!("its process ended with code {code}"),
        (None, None) => "its process ended".to_owned(),
    };
    let end = if last.exit.code == Some(0) && !last.in_turn {
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

fn ended(run: u32, said: Vec<TranscriptEntry>, end: RunEnd, message: String) -> Over {
    let exited = Ran::Exited { said, end, message };
    Over { run, exited }
}
