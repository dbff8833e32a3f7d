//! Crash points: places where a test ends the host as a power cut would, or has it stand still.
//!
//! `COUNTERSIGN_CRASH_AT=NAME:N` ends the process with SIGKILL at the N-th pass of a point, and
//! `NAME:N:MS` after it stood still there for MS milliseconds. In that time whatever was let out
//! before the point reaches its reader, so that an answer let out too early is seen by somebody.
//! `COUNTERSIGN_HOLD_AT=NAME:N:FILE` makes FILE at the N-th pass and stands still until somebody
//! removes it, so that a test ends others exactly there and sees how the host goes on.
//! Only builds with debug assertions read them; in a release every point is nothing.

#[cfg(not(debug_assertions))]
use countersign_core::CommittedEvent;

/// Every point, in the order in which a host passes them.
pub const CRASH_POINTS: [&str; 12] = [
    "host_started",
    "before_settling",
    "before_deciding",
    "batch_decided",
    "before_append",
    "during_append",
    "after_append",
    "before_replies",
    "after_reply",
    "before_releases",
    "after_release",
    "after_turn",
];

/// Every point in the life of a managed agent, in the order in which its host passes them.
pub const AGENT_CRASH_POINTS: [&str; 25] = [
    "tree_created",
    "launch_recorded",
    "process_started",
    "process_recorded",
    "agent_launched",
    "session_recorded",
    "prompt_written",
    "text_heard",
    "ask_heard",
    "ask_committing",
    "ask_committed",
    "ask_accepted",
    "ask_acknowledged",
    "decision_committing",
    "decision_committed",
    "answer_owed",
    "answer_sent",
    "answer_written",
    "answer_settled",
    "settlement_committing",
    "settlement_committed",
    "request_allowed",
    "request_done",
    "request_served",
    "run_over",
];

/// Every crash point in the life of a parent message, in the order in which its host passes them.
pub const PARENT_MESSAGE_CRASH_POINTS: [&str; 2] =
    ["parent_message_committing", "parent_message_committed"];

/// Every point in the life of a notification.
pub const NOTIFY_CRASH_POINTS: [&str; 2] = ["notify_committed", "notify_sent"];

#[cfg(not(debug_assertions))]
pub(crate) fn point(_name: &'static str) {}

#[cfg(not(debug_assertions))]
pub(crate) fn during(_name: &'static str) {}

#[cfg(not(debug_assertions))]
pub(crate) fn committing(_entries: &[CommittedEvent]) {}

#[cfg(not(debug_assertions))]
pub(crate) fn committed(_entries: &[CommittedEvent]) {}

#[cfg(debug_assertions)]
pub(crate) use armed::{committed, committing, during, point};

#[cfg(debug_assertions)]
mod armed {
    use std::path::{Path, PathBuf};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use countersign_core::{CommittedEvent, Event};
    use tokio::runtime::{Handle, RuntimeFlavor};

    /// What follows a point marked as [`during`] lasts about this long.
    const SPREAD_MICROS: u64 = 1_500;

    /// A host that nobody lets go on is of no use to any test.
    const HELD_MAX: Duration = Duration::from_mins(1);

    struct ArmedPoint {
        name: String,
        at: u64,
        then: PointAction,
        passes: AtomicU64,
    }

    enum PointAction {
        Die(Duration),
        Hold(PathBuf),
    }

    static CRASH: LazyLock<Option<ArmedPoint>> = LazyLock::new(|| {
        parse("COUNTERSIGN_CRASH_AT", |pause| {
            let pause = Duration::from_millis(pause.unwrap_or("0").parse().ok()?);
            Some(PointAction::Die(pause))
        })
    });

    static HOLD: LazyLock<Option<ArmedPoint>> = LazyLock::new(|| {
        parse("COUNTERSIGN_HOLD_AT", |file| {
            Some(PointAction::Hold(file?.into()))
        })
    });

    fn parse(
        variable: &str,
        then: impl FnOnce(Option<&str>) -> Option<PointAction>,
    ) -> Option<ArmedPoint> {
        let text = std::env::var(variable).ok()?;
        let mut parts = text.splitn(3, ':');
        Some(ArmedPoint {
            name: parts.next()?.to_owned(),
            at: parts.next()?.parse().ok()?,
            then: then(parts.next())?,
            passes: AtomicU64::new(0),
        })
    }

    /// Does what it was armed for, if this is the pass.
    pub(crate) fn point(name: &'static str) {
        for armed in find_due(name) {
            match &armed.then {
                PointAction::Die(pause) => {
                    std::thread::sleep(*pause);
                    die();
                }
                PointAction::Hold(file) => hold(file),
            }
        }
    }

    /// As [`point`], but a moment later, while what follows is under way.
    pub(crate) fn during(name: &'static str) {
        for armed in find_due(name) {
            let moment = Duration::from_micros(armed.at * 97 % SPREAD_MICROS);
            std::thread::spawn(move || {
                std::thread::sleep(moment);
                die();
            });
        }
    }

    /// The points just before these are committed.
    pub(crate) fn committing(entries: &[CommittedEvent]) {
        for name in entries.iter().filter_map(|entry| point_names(&entry.event)) {
            point(name.0);
        }
    }

    /// The points just after these were committed.
    pub(crate) fn committed(entries: &[CommittedEvent]) {
        for name in entries.iter().filter_map(|entry| point_names(&entry.event)) {
            point(name.1);
        }
    }

    fn point_names(event: &Event) -> Option<(&'static str, &'static str)> {
        match event {
            Event::ApprovalRequested(_) => Some(("ask_committing", "ask_committed")),
            Event::ApprovalResolved(_) => Some(("decision_committing", "decision_committed")),
            Event::MessageQueued(e) if e.message.parent_message.is_some() => {
                Some(("parent_message_committing", "parent_message_committed"))
            }
            Event::AnswerSettled(_) => Some(("settlement_committing", "settlement_committed")),
            _ => None,
        }
    }

    fn find_due(name: &'static str) -> impl Iterator<Item = &'static ArmedPoint> {
        let mut lists = [
            super::CRASH_POINTS.as_slice(),
            &super::AGENT_CRASH_POINTS,
            &super::PARENT_MESSAGE_CRASH_POINTS,
            &super::NOTIFY_CRASH_POINTS,
        ]
        .into_iter();
        let listed = lists.any(|points| points.contains(&name));
        debug_assert!(listed, "`{name}` is unlisted");
        let armed = [CRASH.as_ref(), HOLD.as_ref()].into_iter().flatten();
        armed.filter(move |armed| {
            armed.name == name && armed.passes.fetch_add(1, Ordering::Relaxed) + 1 == armed.at
        })
    }

    /// Stands still; whatever shares the thread goes on elsewhere.
    fn hold(file: &Path) {
        // Outside a runtime of several threads there is nobody to hand other tasks over to.
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        if flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread) {
            tokio::task::block_in_place(|| wait_for_removal(file));
        } else {
            wait_for_removal(file);
        }
    }

    fn wait_for_removal(file: &Path) {
        let begin = Instant::now();
        let made = std::fs::write(file, "");
        assert!(made.is_ok(), "`{}` cannot be made", file.display());
        while file.exists() {
            if begin.elapsed() > HELD_MAX {
                die();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn die() {
        // SIGKILL and not `exit`: nothing may run that a power cut would not let run, such as the
        // destructors that close the database.
        let this = rustix::process::getpid();
        let killed = rustix::process::kill_process(this, rustix::process::Signal::KILL);
        assert!(killed.is_ok(), "a process may always end itself");
    }
}
