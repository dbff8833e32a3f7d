//! What a runner knows: the agent's output, what is to be written to it, and the current host.
//!
//! Nothing here waits. Whoever waits for a change holds one of the [`Notify`]s.
//!
//! Invariants: there is one host at a time, and only it is sent anything; writes are answered in their
//! order, each to the host that sent it; [`ToHost::Exited`] is sent after all output of the agent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::agent::LaunchedAgent;
use super::backlog::{BacklogBounds, OutputBacklog};
use super::frame::encode;
use super::holds::{HeldRequests, HeldTarget};
use super::used_ids::UsedIds;
use super::wire::{ToHost, VERSION, VERSION_OLDEST};
use super::write_queue::WriteQueue;
use crate::adapter::ProcessExit;

/// What one frame holds of what the agent said.
const OUTPUT_CHUNK: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct RunnerState {
    pub(super) backlog: OutputBacklog,
    pub(super) writes: WriteQueue,
    pub(super) claimed: UsedIds,
    /// What waits for a host's word.
    pub(super) holds: HeldRequests,
    /// What a launch came to.
    pub(super) launched: Option<Result<ProcessKey, String>>,
    pub(super) agent: Option<Arc<LaunchedAgent>>,
    /// Nothing is started any more.
    pub(super) stopped: bool,
    /// The runner ends and takes no host in any more.
    pub(super) ending: bool,
    pub(super) exited: Option<(ProcessExit, Option<String>)>,
    pub(super) log: String,
    pub(super) hostless_since: Instant,
    /// There may be room for more of what the agent says.
    pub(super) room: Arc<Notify>,
    /// The host has gone.
    pub(super) host_lost: Arc<Notify>,
    host: Option<ConnectedHost>,
    hosts: u64,
    /// Why no host can continue from here, if none can.
    broken: Option<String>,
}

/// The host of the moment, from its own side.
#[derive(Clone, Debug)]
pub(super) struct HostHandle {
    pub(super) number: u64,
    /// There may be something to send.
    pub(super) wake: Arc<Notify>,
    /// Another host came, or this one is of no more use.
    pub(super) over: CancellationToken,
    /// Calls it may have under way.
    pub(super) calls: Arc<Semaphore>,
    /// Held for an answer that is long, until it is on its way.
    pub(super) long: Arc<Semaphore>,
}

#[derive(Debug)]
struct ConnectedHost {
    joined: HostHandle,
    version: u32,
    frames: VecDeque<QueuedFrame>,
    /// How much of what the agent said is on its way.
    sent: u64,
    told_exit: bool,
    /// Pieces of the log that it did not get.
    left_out: u64,
    /// It is left as soon as it was told so.
    refused: bool,
}

#[derive(Debug)]
struct QueuedFrame {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

/// What a host's connection does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendStep {
    Send(Vec<u8>),
    Wait,
    Leave,
}

/// What a host says first.
#[derive(Debug)]
pub(super) struct HostHello {
    pub(super) oldest: u32,
    pub(super) newest: u32,
    pub(super) heard: u64,
    pub(super) open: Vec<u64>,
}

impl RunnerState {
    pub(super) fn new(spill: std::path::PathBuf) -> Self {
        let bounds = BacklogBounds {
            memory: limits::RUNNER_BYTES_HELD,
            file: limits::RUNNER_SPILL_BYTES_MAX,
        };
        Self {
            backlog: OutputBacklog::new(spill, bounds),
            writes: WriteQueue::default(),
            claimed: UsedIds::default(),
            holds: HeldRequests::default(),
            launched: None,
            agent: None,
            stopped: false,
            ending: false,
            exited: None,
            log: String::new(),
            hostless_since: Instant::now(),
            room: Arc::default(),
            host_lost: Arc::default(),
            host: None,
            hosts: 0,
            broken: None,
        }
    }

    /// Takes a host in, in the place of any other. Refuses one that cannot continue from here.
    pub(super) fn welcome(&mut self, greeting: &HostHello) -> Result<HostHandle, String> {
        let version = choose_version(greeting)?;
        if self.ending {
            return Err("the runner is ending".to_owned());
        }
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        // Checked before the current host is dropped: a caller that is refused must not displace
        // it.
        let kept = self.backlog.from()..=self.backlog.end();
        if !kept.contains(&greeting.heard) {
            return Err(format!(
                "the host heard up to {}, and what is kept begins at {} and ends at {}",
                greeting.heard,
                kept.start(),
                kept.end()
            ));
        }
        // The newest host wins: the one before may be stopped or cut off, and would never say so.
        self.drop_host();
        self.hosts += 1;
        let joined = HostHandle {
            number: self.hosts,
            wake: Arc::default(),
            over: CancellationToken::new(),
            calls: Arc::new(Semaphore::new(limits::RUNNER_CALLS_MAX)),
            long: Arc::new(Semaphore::new(1)),
        };
        self.host = Some(ConnectedHost {
            joined: joined.clone(),
            version,
            frames: VecDeque::new(),
            sent: greeting.heard,
            told_exit: false,
            left_out: 0,
            refused: false,
        });
        self.release_committed(greeting.heard, &greeting.open);
        let hello = ToHost::Hello {
            version,
            agent: self.launched.clone().and_then(Result::ok),
            log: self.log.clone(),
        };
        self.send_to(joined.number, &hello, &[], None);
        // Again for each host, because the one before may have gone without an answer.
        for (hold, target) in self.holds.list() {
            self.send_hold(hold, target);
        }
        Ok(joined)
    }

    /// Drops the current host, if there is one.
    pub(super) fn drop_host(&mut self) {
        if let Some(host) = self.host.take() {
            host.joined.over.cancel();
        }
        self.hostless_since = Instant::now();
        self.host_lost.notify_one();
        // A slow host held the agent back. Without one, output is taken up to the bound of the file.
        self.room.notify_one();
    }

    /// A connection ended; nothing if another host came meanwhile.
    pub(super) fn disconnect(&mut self, number: u64) {
        if self.is_host(number) {
            self.drop_host();
        }
    }

    pub(super) fn has_host(&self) -> bool {
        self.host.is_some()
    }

    pub(super) fn is_host(&self, number: u64) -> bool {
        let host = self.host.as_ref();
        host.is_some_and(|host| host.joined.number == number)
    }

    /// Queues a message for that host, if it still is the host.
    pub(super) fn send_to(
        &mut self,
        number: u64,
        head: &ToHost,
        body: &[u8],
        room: Option<OwnedSemaphorePermit>,
    ) {
        let Some(host) = self
            .host
            .as_mut()
            .filter(|host| host.joined.number == number)
        else {
            return;
        };
        match encode(head, body) {
            Ok(bytes) if host.frames.len() < limits::RUNNER_FRAMES_QUEUED => {
                host.frames.push_back(QueuedFrame { bytes, _room: room });
                host.joined.wake.notify_one();
            }
            // A host that does not read is dropped rather than waited for: the agent must not stop with it.
            _ => self.drop_host(),
        }
    }

    /// The host of the moment is told.
    pub(super) fn send_to_current(&mut self, head: &ToHost) {
        if let Some(number) = self.host.as_ref().map(|host| host.joined.number) {
            self.send_to(number, head, &[], None);
        }
    }

    /// Tells the host of something that waits. One that does not know of such things leaves it waiting.
    pub(super) fn send_hold(&mut self, hold: u64, target: HeldTarget) {
        let host = self.host.as_ref();
        if host.is_some_and(|host| host.version >= target.first_version()) {
            self.send_to_current(&ToHost::Held { hold, target });
        }
    }

    /// The host did what it may not: it is told why, and then dropped.
    pub(super) fn refuse(&mut self, number: u64, why: String) {
        // Queued before the host is marked: a marked one is left once its queue is empty.
        self.send_to(number, &ToHost::Refused { why }, &[], None);
        if let Some(host) = self
            .host
            .as_mut()
            .filter(|host| host.joined.number == number)
        {
            host.refused = true;
        }
    }

    /// What that host is sent next.
    pub(super) fn next(&mut self, number: u64) -> io::Result<SendStep> {
        let Some(host) = self
            .host
            .as_mut()
            .filter(|host| host.joined.number == number)
        else {
            return Ok(SendStep::Leave);
        };
        // Answers before output, of which there may be megabytes.
        if let Some(frame) = host.frames.pop_front() {
            return Ok(SendStep::Send(frame.bytes));
        }
        if host.refused {
            return Ok(SendStep::Leave);
        }
        if host.left_out > 0 {
            let text = format!("({} pieces of the log are left out here)", host.left_out);
            host.left_out = 0;
            return encode(&ToHost::Log { text }, &[]).map(SendStep::Send);
        }
        if host.sent < self.backlog.end() {
            let body = match self.backlog.read_from(host.sent, OUTPUT_CHUNK) {
                Ok(body) => body,
                Err(error) => return self.break_link(&error),
            };
            let output = ToHost::Output { at: host.sent };
            host.sent += body.len() as u64;
            self.room.notify_one();
            return encode(&output, &body).map(SendStep::Send);
        }
        match &self.exited {
            // Only here, where no output is left to send.
            Some((exit, why)) if !host.told_exit => {
                host.told_exit = true;
                let (exit, why) = (exit.clone(), why.clone());
                encode(&ToHost::Exited { exit, why }, &[]).map(SendStep::Send)
            }
            _ => Ok(SendStep::Wait),
        }
    }

    /// What the agent said is not there any more: no host can continue from here.
    fn break_link(&mut self, error: &io::Error) -> io::Result<SendStep> {
        let why = format!("the output of the agent cannot be read back: {error}");
        self.broken = Some(why.clone());
        if let Some(host) = &mut self.host {
            host.refused = true;
        }
        encode(&ToHost::Refused { why }, &[]).map(SendStep::Send)
    }

    /// Appends output of the agent.
    pub(super) fn append_output(&mut self, bytes: &[u8]) {
        self.backlog.append(bytes);
        self.wake_host();
    }

    /// How much more of the agent may be read. A host that does not take what is sent holds the
    /// agent back sooner; one that takes it may need the rest of a long line to commit anything.
    pub(super) fn room(&self) -> u64 {
        let end = self.backlog.end();
        let slow = self.host.as_ref().is_some_and(|host| host.sent < end);
        let bytes_max = if slow {
            (limits::AGENT_LINE_BYTES_MAX + limits::RUNNER_BYTES_HELD) as u64
        } else {
            limits::RUNNER_SPILL_BYTES_MAX
        };
        self.backlog.room(bytes_max)
    }

    /// The agent wrote something for its log.
    pub(super) fn append_log(&mut self, text: String) {
        // Kept without a host as well: it explains how the agent ended.
        keep_tail(&mut self.log, &text);
        let Some(host) = &mut self.host else {
            return;
        };
        if host.frames.len() >= limits::RUNNER_LOG_QUEUED {
            // Of all that a host is sent, only the log may have gaps.
            host.left_out += 1;
            return;
        }
        self.send_to_current(&ToHost::Log { text });
    }

    /// The host committed everything up to there. It cannot have committed what it was not sent.
    pub(super) fn host_committed(
        &mut self,
        number: u64,
        through: u64,
        open: &[u64],
    ) -> Result<(), String> {
        let host = self
            .host
            .as_ref()
            .filter(|host| host.joined.number == number);
        match host {
            Some(host) if host.sent < through => {
                Err("the host committed what it was not sent".to_owned())
            }
            Some(_) => {
                self.release_committed(through, open);
                Ok(())
            }
            // Another host came meanwhile, and its hello said what is committed.
            None => Ok(()),
        }
    }

    fn release_committed(&mut self, through: u64, open: &[u64]) {
        // The host has these bytes on its record now, so neither they nor the ids they used are needed.
        self.backlog.release(through);
        self.writes.forget(through, open);
        self.claimed.forget(through, open);
        self.room.notify_one();
    }

    /// Everything the agent said is known, and it is over.
    pub(super) fn set_exited(&mut self, exit: ProcessExit, why: Option<String>) {
        self.exited = Some((exit, why));
        self.wake_host();
    }

    fn wake_host(&self) {
        if let Some(host) = &self.host {
            host.joined.wake.notify_one();
        }
    }
}

fn choose_version(greeting: &HostHello) -> Result<u32, String> {
    let version = greeting.newest.min(VERSION);
    if version < greeting.oldest.max(VERSION_OLDEST) {
        return Err(format!(
            "the host speaks versions {} to {} of the link, and the runner {VERSION_OLDEST} to {VERSION}",
            greeting.oldest, greeting.newest
        ));
    }
    Ok(version)
}

fn keep_tail(log: &mut String, text: &str) {
    log.push_str(text);
    log.push('\n');
    countersign_core::truncate_to_tail(log, limits::AGENT_LOG_BYTES_KEPT);
}
