//! The keyboard: read by a thread of its own, so that each key carries the time it came in.
//!
//! The thread sleeps until there is something to read. Whoever needs it to end sends this process the signal for a
//! window of another size, which ends the wait and means nothing else.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;

/// Keys that wait to be judged; more are left to the terminal.
const WAITING: usize = 256;
/// How long the thread sleeps at most: as good as for ever, so that a screen on which nothing happens costs nothing.
const SLEEP_MAX: Duration = Duration::from_hours(1);
/// How often a thread that is to end is woken until it has ended.
const STOP_AGAIN: Duration = Duration::from_millis(5);

/// Dropping it ends the reading, so that the terminal is another's again.
pub(crate) struct KeyboardReader {
    typed: mpsc::Receiver<(Instant, Event)>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeyboardReader {
    pub(crate) fn open() -> io::Result<Self> {
        let (sender, typed) = mpsc::channel(WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("keyboard".into())
            .spawn(move || read(&sender, &stopped))?;
        Ok(Self {
            typed,
            stop,
            thread: Some(thread),
        })
    }

    /// The next key, and when it came in; `None` once the terminal is gone.
    pub(crate) async fn next(&mut self) -> Option<(Instant, Event)> {
        self.typed.recv().await
    }

    /// Ends the reading and waits for that, so that another program gets every key from now on.
    pub(crate) fn close(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that waits for room in the queue would never end.
        self.typed.close();
        if let Some(thread) = self.thread.take() {
            // More than once: a signal that comes just before the thread goes to sleep wakes nobody.
            while !thread.is_finished() {
                wake_reader();
                std::thread::sleep(STOP_AGAIN);
            }
            thread.join().ok();
        }
    }

    /// What was typed and not yet taken, all at once.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Event> {
        std::iter::from_fn(|| self.typed.try_recv().ok().map(|(_, event)| event))
    }
}

impl Drop for KeyboardReader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        wake_reader();
    }
}

/// Ends the wait for a key.
fn wake_reader() {
    kill_process(getpid(), Signal::WINCH).ok();
}

fn read(sender: &mpsc::Sender<(Instant, Event)>, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Relaxed) {
        // With `read` alone the thread would stay in it after the loop ended, and take the first key
        // that is meant for the shell.
        match event::poll(SLEEP_MAX) {
            Ok(false) => {}
            Ok(true) => {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(event) = event::read() else { return };
                if sender.blocking_send((Instant::now(), event)).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
