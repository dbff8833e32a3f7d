//! `acp`: agents of the host in an editor. The editor starts this and speaks the Agent Client Protocol on
//! standard input and output; behind it are calls and events of the host wire.
//!
//! Invariants: what the protocol means is decided by `agents::editor`, which has no I/O; here lines are
//! carried, calls are made and agents are followed. A host that is killed or replaced is found again, and
//! the editor does not notice. When the editor ends, this ends, and the agents live on.

mod arguments;
mod ask_rows;
mod editor_calls;
mod events;
mod feed;
mod host_calls;
mod stdio;
mod terminals;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use countersign_agents::EditorAbilities;
use countersign_agents::editor::{
    CallId, EditorConnection, EditorHostCall, EditorLine, EditorOutput, EditorSettings, HostReply,
    SessionFact, TerminalViewer,
};
use countersign_core::limits::{EDITOR_CALLS_QUEUED, EDITOR_FACTS_MAX, EDITOR_LINES_MAX};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cli::CommonArgs;
use crate::client::HostEndpoint;
use crate::config::HostConfig;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::paths::HostPaths;
use crate::random_id::random_id;

pub(crate) use arguments::{AcpArgs, arguments};
use editor_calls::EditorCallFeed;
use feed::SessionFeed;
use host_calls::{HostCallOutcome, HostCalls, QueuedCall};
use stdio::{StdioLine, WrittenLine};

/// Serves one editor until its input ends.
pub(crate) async fn acp(common: &CommonArgs, args: AcpArgs) -> Result<CliExit, CliError> {
    if io::stdin().is_terminal() {
        // On stderr: stdout carries the protocol and nothing else.
        output::print_message("this command speaks ACP on stdin and stdout; editors start it");
    }
    let config = HostConfig::load(&HostPaths::from_environment()?.config)?.editor;
    let endpoint = common.endpoint()?;
    let lines = stdio::read_lines().map_err(|source| CliError::io("could not start", source))?;
    let (to_editor, written) =
        stdio::write_lines().map_err(|source| CliError::io("could not start", source))?;
    let tasks = TaskTracker::new();
    let editor_id = random_id()?;
    let (outcome_sender, outcomes) = mpsc::channel(EDITOR_CALLS_QUEUED);
    let spec = args.into_spec(&config)?;
    // Shared: a host that one of them met may be away when the other makes its first call.
    let has_met_host = Arc::new(AtomicBool::new(false));
    let start_calls = |outcomes| {
        HostCalls::start(
            &tasks,
            endpoint.clone(),
            spec.clone(),
            editor_id.clone(),
            has_met_host.clone(),
            outcomes,
        )
    };
    let starts = start_calls(outcome_sender.clone());
    let calls = start_calls(outcome_sender);
    let (facts_sender, facts) = mpsc::channel(EDITOR_FACTS_MAX);
    let mut server = EditorServer {
        machine: EditorConnection::new(EditorSettings {
            viewer: viewer(),
            ..config.settings()
        }),
        began: Instant::now(),
        endpoint,
        calls,
        queued_calls: VecDeque::new(),
        starts,
        queued_starts: VecDeque::new(),
        editor_id,
        to_editor,
        queued_lines: VecDeque::new(),
        feeds: BTreeMap::new(),
        facts: facts_sender,
        tasks,
    };
    server.run(lines, written, outcomes, facts).await;
    Ok(CliExit::Ok)
}

/// This program, as an editor starts it to show a terminal. It has to find the same host.
fn viewer() -> Option<TerminalViewer> {
    let program = std::env::current_exe().ok()?;
    let variables = ["COUNTERSIGN_HOME", "COUNTERSIGN_URL"];
    let env = variables
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    Some(TerminalViewer {
        command: program.to_str()?.to_owned(),
        args: vec!["terminal".to_owned()],
        env: env.collect(),
    })
}

/// One followed agent.
struct FollowedSession {
    stop: CancellationToken,
    /// How far its events were read.
    cursor: Arc<AtomicU64>,
}

struct EditorServer {
    machine: EditorConnection,
    began: Instant,
    endpoint: HostEndpoint,
    calls: mpsc::Sender<QueuedCall>,
    queued_calls: VecDeque<QueuedCall>,
    /// Where agents are started: a person may have to agree first, and other calls must not wait for that.
    starts: mpsc::Sender<QueuedCall>,
    queued_starts: VecDeque<QueuedCall>,
    /// What this process calls itself.
    editor_id: String,
    to_editor: mpsc::Sender<EditorLine>,
    queued_lines: VecDeque<EditorLine>,
    feeds: BTreeMap<String, FollowedSession>,
    facts: mpsc::Sender<(String, SessionFact)>,
    tasks: TaskTracker,
}

impl EditorServer {
    async fn run(
        &mut self,
        mut lines: mpsc::Receiver<StdioLine>,
        mut written: mpsc::Receiver<WrittenLine>,
        mut outcomes: mpsc::Receiver<HostCallOutcome>,
        mut facts: mpsc::Receiver<(String, SessionFact)>,
    ) {
        loop {
            // An editor that does not read must not fill the memory: what agents say waits with the host.
            // Its own lines are always read, so that neither side waits for the other for ever.
            let has_room = self.queued_lines.len() < EDITOR_LINES_MAX;
            let done = tokio::select! {
                biased;
                // First, so that an answer is never taken for one that came before its request.
                Some(line) = written.recv() => match line {
                    WrittenLine::Timed(request) => {
                        self.machine.note_written(request, self.now_ms());
                        EditorOutput::default()
                    }
                    WrittenLine::Closed => return,
                },
                line = lines.recv() => match line {
                    Some(StdioLine::Whole(line)) => self.machine.handle_line(&line, self.now_ms()),
                    Some(StdioLine::TooLong) => self.machine.refuse_long_line(),
                    None => return,
                },
                Ok(permit) = self.to_editor.reserve(), if !self.queued_lines.is_empty() => {
                    if let Some(line) = self.queued_lines.pop_front() {
                        permit.send(line);
                    }
                    EditorOutput::default()
                }
                Ok(permit) = self.calls.reserve(), if !self.queued_calls.is_empty() => {
                    if let Some(call) = self.queued_calls.pop_front() {
                        permit.send(call);
                    }
                    EditorOutput::default()
                }
                Ok(permit) = self.starts.reserve(), if !self.queued_starts.is_empty() => {
                    if let Some(call) = self.queued_starts.pop_front() {
                        permit.send(call);
                    }
                    EditorOutput::default()
                }
                Some(outcome) = outcomes.recv() => {
                    self.machine.handle_reply(outcome.id, outcome.reply)
                }
                Some((session, fact)) = facts.recv(), if has_room => {
                    self.machine.handle_fact(&session, fact)
                }
            };
            self.perform(done);
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn perform(&mut self, mut output: EditorOutput) {
        self.queued_lines.extend(output.lines.drain(..));
        for (id, call) in output.calls {
            match call {
                EditorHostCall::Follow {
                    session,
                    replay,
                    terminals,
                    serves,
                } => {
                    self.follow(session, replay, terminals, serves);
                    self.finish(id);
                }
                EditorHostCall::Unfollow { session } => {
                    self.unfollow(&session);
                    self.finish(id);
                }
                call @ EditorHostCall::StartAgent { .. } => {
                    let after = 0;
                    self.queued_starts.push_back(QueuedCall { id, call, after });
                }
                call => {
                    let after = self.cursor_of(&call);
                    self.queued_calls.push_back(QueuedCall { id, call, after });
                }
            }
        }
    }

    /// A call that is made here.
    fn finish(&mut self, id: CallId) {
        let more = self.machine.handle_reply(id, Ok(HostReply::Done));
        self.queued_lines.extend(more.lines);
    }

    fn follow(&mut self, session: String, replay: bool, terminals: bool, serves: EditorAbilities) {
        let cursor = Arc::new(AtomicU64::new(0));
        let stop = CancellationToken::new();
        let feed = SessionFeed::new(
            self.endpoint.clone(),
            session.clone(),
            replay,
            self.facts.clone(),
            cursor.clone(),
        );
        let feed = if terminals {
            feed.with_terminals()
        } else {
            feed
        };
        let is_announced = self.serve_calls(&session, serves, &stop);
        let follow = async {
            // So the editor is asked for the first file already that the agent reads. Nothing is ever sent here.
            is_announced.await.ok();
            feed.run().await;
        };
        self.tasks
            .spawn(stop.clone().run_until_cancelled_owned(follow));
        let followed = FollowedSession { stop, cursor };
        if let Some(earlier) = self.feeds.insert(session, followed) {
            earlier.stop.cancel();
        }
    }

    /// Has the editor do what the host wants of it. The channel closes when the host knows of the editor, or at once if
    /// the editor does nothing.
    fn serve_calls(
        &self,
        session: &str,
        serves: EditorAbilities,
        stop: &CancellationToken,
    ) -> oneshot::Receiver<()> {
        let (announced, is_announced) = oneshot::channel();
        if serves == EditorAbilities::default() {
            return is_announced;
        }
        let calls = EditorCallFeed {
            endpoint: self.endpoint.clone(),
            session: session.to_owned(),
            editor_id: self.editor_id.clone(),
            serves,
            facts: self.facts.clone(),
            announced: Some(announced),
        };
        self.tasks
            .spawn(stop.clone().run_until_cancelled_owned(calls.run()));
        is_announced
    }

    fn unfollow(&mut self, session: &str) {
        if let Some(followed) = self.feeds.remove(session) {
            followed.stop.cancel();
        }
    }

    /// Up to where the agent that a call is about was seen.
    fn cursor_of(&self, call: &EditorHostCall) -> u64 {
        let EditorHostCall::SendMessage { session, .. } = call else {
            return 0;
        };
        let followed = self.feeds.get(session);
        followed.map_or(0, |followed| followed.cursor.load(Ordering::Relaxed))
    }
}
