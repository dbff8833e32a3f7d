//! Crash points: places where a test ends the host as a power cut would.
//!
//! `COUNTERSIGN_CRASH_AT=NAME:N` ends the process with SIGKILL at the N-th pass of a point, and
//! `NAME:N:MS` after it stood still there for MS milliseconds. In that time whatever was let out
//! before the point reaches its reader, so that an answer let out too early is seen by somebody.
//! Only builds with debug assertions read it; in a release every point is nothing.

/// Every point, in the order in which a host passes them.
pub const CRASH_POINTS: [&str; 11] = [
    "host_started",
    "before_settling",
    "before_deciding",
    "before_append",
    "during_append",
    "after_append",
    "before_replies",
    "after_reply",
    "before_releases",
    "after_release",
    "after_turn",
];

/// Every point in the life of a managed agent, in the order in which its attendant passes them.
pub const AGENT_CRASH_POINTS: [&str; 18] = [
    "tree_created",
    "launch_recorded",
    "process_started",
    "process_recorded",
    "agent_launched",
    "session_recorded",
    "prompt_written",
    "ask_heard",
    "ask_accepted",
    "ask_acknowledged",
    "answer_owed",
    "answer_sent",
    "answer_written",
    "answer_settled",
    "wish_allowed",
    "wish_fulfilled",
    "wish_served",
    "run_over",
];

#[cfg(not(debug_assertions))]
pub(crate) fn point(_name: &'static str) {}

#[cfg(not(debug_assertions))]
pub(crate) fn during(_name: &'static str) {}

#[cfg(debug_assertions)]
pub(crate) use armed::{during, point};

#[cfg(debug_assertions)]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// What follows a point marked as [`during`] lasts about this long.
    const SPREAD_MICROS: u64 = 1_500;

    struct Armed {
        name: String,
        at: u64,
        pause: Duration,
        passes: AtomicU64,
    }

    static ARMED: LazyLock<Option<Armed>> =
        LazyLock::new(|| parse(&std::env::var("COUNTERSIGN_CRASH_AT").ok()?));

    fn parse(text: &str) -> Option<Armed> {
        let mut parts = text.split(':');
        Some(Armed {
            name: parts.next()?.to_owned(),
            at: parts.next()?.parse().ok()?,
            pause: Duration::from_millis(parts.next().unwrap_or("0").parse().ok()?),
            passes: AtomicU64::new(0),
        })
    }

    /// Ends the process if this is the pass it was armed for.
    pub(crate) fn point(name: &'static str) {
        if let Some(armed) = find_due(name) {
            std::thread::sleep(armed.pause);
            die();
        }
    }

    /// As [`point`], but a moment later, while what follows is under way.
    pub(crate) fn during(name: &'static str) {
        if let Some(armed) = find_due(name) {
            let moment = Duration::from_micros(armed.at * 97 % SPREAD_MICROS);
            std::thread::spawn(move || {
                std::thread::sleep(moment);
                die();
            });
        }
    }

    fn find_due(name: &'static str) -> Option<&'static Armed> {
        let listed =
            super::CRASH_POINTS.contains(&name) || super::AGENT_CRASH_POINTS.contains(&name);
        debug_assert!(listed, "`{name}` is unlisted");
        let armed = ARMED.as_ref().filter(|armed| armed.name == name)?;
        let passed = armed.passes.fetch_add(1, Ordering::Relaxed) + 1;
        (passed == armed.at).then_some(armed)
    }

    fn die() {
        let this = rustix::process::getpid();
        let killed = rustix::process::kill_process(this, rustix::process::Signal::KILL);
        assert!(killed.is_ok(), "a process may always end itself");
    }
}
