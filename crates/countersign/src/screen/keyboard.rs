//! The keyboard: read by a thread of its own, so that each key carries the time it came in.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event};
use tokio::sync::mpsc;

/// Keys that wait to be judged; more are left to the terminal.
const WAITING: usize = 256;
/// How soon the thread notices that it is no longer needed.
const STOP_POLL: Duration = Duration::from_millis(100);

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
    }
}

fn read(sender: &mpsc::Sender<(Instant, Event)>, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Relaxed) {
        // With `read` alone the thread would stay in it after the loop ended, and take the first key
        // that is meant for the shell.
        match event::poll(STOP_POLL) {
            Ok(false) => {}
            Ok(true) => {
                let Ok(event) = event::read() else { return };
                if sender.blocking_send((Instant::now(), event)).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
