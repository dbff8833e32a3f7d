//! The program of a terminal, its pseudo-terminal, what it writes and what waits for it.
//!
//! Invariants: typed bytes reach it in the order in which they were taken; what waits for it has a bound.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_core::limits::{
    OWN_TERMINAL_HANG_UP_MS, OWN_TERMINAL_INPUT_QUEUED, OWN_TERMINAL_OUTPUT_BYTES,
    OWN_TERMINAL_WRITE_WAIT_MS, TERMINAL_DRAIN_MS, TERMINAL_WAIT_MS,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::wire::ProgramLaunch;
use super::{OwnTerminalStatus, TerminalSize};
use crate::child::ChildHandle;
use crate::shells::{CommandSpec, ReadableOutput, TerminalPiece};
use crate::stream::{FdReader, FdWriter};
use crate::tree::{ProcessTree, TreeError};

const READ_CHUNK: usize = 32 * 1024;
/// What the kernel takes of typed text at once.
const WRITE_CHUNK: usize = 4 * 1024;
/// How long is waited for a program that does not read, before what was typed is tried again.
const WRITE_PAUSE_MIN: Duration = Duration::from_millis(1);
const WRITE_PAUSE_MAX: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct TerminalProgram {
    id: String,
    tree: ProcessTree,
    child: ChildHandle,
    /// The end of the pseudo-terminal that screens have.
    screen_end: OwnedFd,
    size: Mutex<TerminalSize>,
    output: ReadableOutput,
    input: Mutex<VecDeque<u8>>,
    typed: Notify,
    room: Notify,
}

impl TerminalProgram {
    /// Starts it. Has to be called on the first thread.
    pub(super) fn start(
        id: &str,
        command: &str,
        tree: ProcessTree,
        launch: &ProgramLaunch,
    ) -> io::Result<Arc<Self>> {
        let (screen_end, program_end) = open_terminal(launch.size)?;
        let reader = FdReader::new(screen_end.try_clone()?)?;
        let writer = FdWriter::new(screen_end.try_clone()?)?;
        let started = tree.spawn(&|| build(launch, &program_end))?;
        // Otherwise the output would not end while we hold it.
        drop(program_end);
        let program = Arc::new(Self {
            id: id.to_owned(),
            child: ChildHandle::watch(&started, tree.tasks()),
            tree,
            screen_end,
            size: Mutex::new(launch.size),
            output: ReadableOutput::new(&CommandSpec {
                key: 0,
                command: command.to_owned(),
                cwd: launch.cwd.clone(),
                env: Vec::new(),
                output_bytes_max: OWN_TERMINAL_OUTPUT_BYTES,
            }),
            input: Mutex::default(),
            typed: Notify::new(),
            room: Notify::new(),
        });
        let tasks = program.tree.tasks();
        tasks.spawn(program.clone().follow(reader));
        tasks.spawn(program.clone().write_typed(writer));
        Ok(program)
    }

    /// Until nobody has the terminal open: jobs that the program left may write after its end.
    async fn follow(self: Arc<Self>, reader: FdReader) {
        let mut buffer = vec![0; READ_CHUNK];
        let mut is_open = true;
        let exit = loop {
            tokio::select! {
                exit = self.child.wait() => break exit,
                () = self.read(&reader, &mut buffer, &mut is_open), if is_open => {}
            }
        };
        let deadline = Instant::now() + Duration::from_millis(TERMINAL_DRAIN_MS);
        while is_open {
            tokio::select! {
                () = self.read(&reader, &mut buffer, &mut is_open) => {}
                () = sleep_until(deadline) => break,
            }
        }
        // A job in the background can keep the terminal open for hours. The end of the program is
        // reported without it.
        self.output.note_exit(exit);
        while is_open {
            self.read(&reader, &mut buffer, &mut is_open).await;
        }
    }

    async fn read(&self, reader: &FdReader, buffer: &mut [u8], is_open: &mut bool) {
        // When the last program lets go of the terminal, reading it is an error on Linux.
        let read = reader.read(buffer).await.unwrap_or_default();
        self.output.push(&buffer[..read]);
        *is_open = read > 0;
    }

    async fn write_typed(self: Arc<Self>, writer: FdWriter) {
        loop {
            let chunk: Vec<u8> = {
                let mut input = self.input();
                let length = input.len().min(WRITE_CHUNK);
                input.drain(..length).collect()
            };
            if chunk.is_empty() {
                // `notify_one` leaves a permit, so text that arrives between the look and this wait
                // is not missed.
                self.typed.notified().await;
                continue;
            }
            self.room.notify_waiters();
            if write_patiently(&writer, &chunk).await.is_err() {
                return;
            }
        }
    }

    /// Takes what was typed, as far as there is room soon; how much that was.
    pub(super) async fn write(&self, bytes: &[u8]) -> usize {
        let deadline = Instant::now() + Duration::from_millis(OWN_TERMINAL_WRITE_WAIT_MS);
        let mut taken = 0;
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // Before the look: room that is made after it is not missed.
            room.as_mut().enable();
            taken += self.take_typed(&bytes[taken..]);
            if taken == bytes.len() {
                return taken;
            }
            tokio::select! {
                () = room => {}
                () = sleep_until(deadline) => return taken,
            }
        }
    }

    fn take_typed(&self, bytes: &[u8]) -> usize {
        let mut input = self.input();
        let room = OWN_TERMINAL_INPUT_QUEUED.saturating_sub(input.len());
        let taken = room.min(bytes.len());
        input.extend(&bytes[..taken]);
        drop(input);
        self.typed.notify_one();
        taken
    }

    pub(super) async fn read_from(&self, after: u64, wait_ms: u64) -> TerminalPiece {
        let limit = Duration::from_millis(wait_ms.min(TERMINAL_WAIT_MS));
        // When the time is over the piece is empty, and the reader asks again.
        drop(timeout(limit, self.output.wait_for_more(after)).await);
        self.output.read_from(after)
    }

    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        set_size(&self.screen_end, size)?;
        *self.size.lock().unwrap_or_else(PoisonError::into_inner) = size;
        Ok(())
    }

    pub(super) fn status(&self) -> OwnTerminalStatus {
        let mut summary = self.output.summary(0);
        summary.id.clone_from(&self.id);
        OwnTerminalStatus {
            summary,
            size: *self.size.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    pub(super) async fn wait_for_exit(&self) {
        self.output.wait_for_exit().await;
    }

    /// As a window that is closed: a hang-up, some time to save, then everything is killed.
    pub(super) async fn end(&self) -> Result<(), TreeError> {
        self.child.signal_group(Signal::HUP);
        // A stopped process receives the hang-up only when it is continued.
        self.child.signal_group(Signal::CONT);
        // An interactive shell runs each job in a group of its own, which the signal to the shell's
        // group does not reach.
        if let Ok(group) = rustix::termios::tcgetpgrp(&self.screen_end) {
            // It may have ended meanwhile.
            kill_process_group(group, Signal::HUP).ok();
            kill_process_group(group, Signal::CONT).ok();
        }
        let limit = Duration::from_millis(OWN_TERMINAL_HANG_UP_MS);
        drop(timeout(limit, self.child.wait()).await);
        self.tree.kill_all().await
    }

    fn input(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes all of it, however long the program does not read.
///
/// A pseudo-terminal without room is reported as writable all the same, so that waiting for that would never wait.
async fn write_patiently(writer: &FdWriter, mut bytes: &[u8]) -> io::Result<()> {
    let mut pause = WRITE_PAUSE_MIN;
    while !bytes.is_empty() {
        let written = writer.try_write(bytes)?;
        bytes = &bytes[written..];
        if written > 0 {
            pause = WRITE_PAUSE_MIN;
        } else {
            sleep(pause).await;
            pause = (pause * 2).min(WRITE_PAUSE_MAX);
        }
    }
    Ok(())
}

/// Both ends of a new pseudo-terminal: the one of screens, and the one of programs.
fn open_terminal(size: TerminalSize) -> io::Result<(OwnedFd, OwnedFd)> {
    let screen_end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    // `openpt` has the flag for this on some systems only.
    rustix::io::fcntl_setfd(&screen_end, rustix::io::FdFlags::CLOEXEC)?;
    grantpt(&screen_end)?;
    unlockpt(&screen_end)?;
    set_size(&screen_end, size)?;
    let mut modes = tcgetattr(&screen_end)?;
    // So that the backspace key takes a character and not a byte.
    modes.input_modes.insert(InputModes::IUTF8);
    tcsetattr(&screen_end, OptionalActions::Now, &modes)?;
    let name = ptsname(&screen_end, Vec::new())?;
    // The runner leads a session: without `NOCTTY` the terminal would become its own and not the program's.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program_end = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    Ok((screen_end, program_end))
}

fn set_size(terminal: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}

fn build(launch: &ProgramLaunch, program_end: &OwnedFd) -> io::Result<Command> {
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(program_end.try_clone()?)
        .stdout(program_end.try_clone()?)
        .stderr(program_end.try_clone()?);
    Ok(command)
}
