//! Orphans of agents that the host did not start: their parents ended, so that descent alone no
//! longer shows where they come from.
//!
//! A runner and a cgroup hold the processes of a managed agent together; here there is neither.
//! What is left is the environment an orphan was started with, and that it is in the session of a
//! parent that it no longer has. SECURITY.md says what this misses.

use countersign_core::event::ProcessKey;
use countersign_daemon::procfs::{self, ProcessStat, read_stat};

/// Claude Code sets it in everything it starts, to its own process number.
const PARENT_VARIABLE: &str = "CLAUDE_PID";

/// Where a process comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OrphanOrigin {
    /// This agent's process started it.
    Root(ProcessKey),
    /// An agent's process may have started it.
    Doubtful,
    /// Nothing points to an agent.
    Elsewhere,
}

/// Finds the origin of a caller that descends from none of `roots`. `chain` is the caller and its
/// ancestors.
pub(crate) fn find_origin(chain: &[ProcessKey], roots: &[ProcessKey]) -> OrphanOrigin {
    let given = chain.iter().find_map(|process| {
        let pid = read_claude_parent(process.pid)?;
        // The variable outlives the process that it names. A root that is younger than the caller
        // did not start it, but got the number of the process that did.
        roots
            .iter()
            .find(|root| root.pid == pid && root.start_time <= process.start_time)
            .copied()
    });
    if let Some(root) = given {
        return OrphanOrigin::Root(root);
    }
    // Doubt lasts only while an agent lives. Otherwise one that ended long ago would keep every
    // background job of the user from calling.
    let mut living = roots.iter().filter(|root| procfs::exists(**root));
    let doubtful = living.any(|root| {
        // The oldest process of the chain that the agent could have started: all above it are older
        // than the agent.
        let head = chain
            .iter()
            .rfind(|process| process.start_time >= root.start_time);
        head.is_some_and(|head| is_orphan(*head))
    });
    if doubtful {
        OrphanOrigin::Doubtful
    } else {
        OrphanOrigin::Elsewhere
    }
}

fn read_claude_parent(pid: u32) -> Option<u32> {
    procfs::find_variable(pid, PARENT_VARIABLE)?.parse().ok()
}

/// The process that adopts orphans, of a machine or of a container.
const INIT: u32 = 1;

/// Whether the parent that started the process has ended. True if that cannot be read.
fn is_orphan(process: ProcessKey) -> bool {
    read_stat(process.pid).is_none_or(|stat| has_lost_parent(process.pid, &stat, read_stat))
}

/// Whether another process than its own parent is above the process now.
fn has_lost_parent(
    pid: u32,
    stat: &ProcessStat,
    read: impl Fn(u32) -> Option<ProcessStat>,
) -> bool {
    // The leader of a session has none in common with its parent, so nothing can be compared, and
    // terminals and services are started like this all the time: SECURITY.md says what that leaves
    // open. A parent with the number 0 is outside this pid namespace and cannot be read.
    if stat.session == pid || stat.parent == 0 {
        return false;
    }
    let Some(parent) = read(stat.parent) else {
        return true;
    };
    // A process is in the session of the parent that started it, so one in another session adopted
    // it. In a container init is often in that same session, and a direct child of it may be
    // either.
    if stat.parent == INIT || parent.session != stat.session {
        return true;
    }
    // Other programs adopt orphans too (child subreapers), within one session. A shell starts all
    // processes of a job itself, so the leader of its group has the same parent unless the process
    // was adopted.
    let in_own_group = stat.group == pid || stat.group == parent.group;
    let leader = read(stat.group).filter(|_| !in_own_group);
    leader.is_some_and(|leader| leader.parent != stat.parent)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::peer::ancestry;

    struct Waiting(Child);

    impl Drop for Waiting {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    fn waiting(command: &mut Command) -> Waiting {
        Waiting(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    fn chain(pid: u32) -> Vec<ProcessKey> {
        ancestry(pid).processes
    }

    fn until(is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_it_was_given_tells_where_it_comes_from() {
        let root = waiting(&mut Command::new("cat"));
        let root = chain(root.0.id())[0];
        let child = waiting(Command::new("cat").env(PARENT_VARIABLE, root.pid.to_string()));
        let other = waiting(Command::new("cat").env(PARENT_VARIABLE, "1"));
        // Until it runs its program, a process has what its parent has.
        until(|| read_claude_parent(child.0.id()) == Some(root.pid));
        until(|| read_claude_parent(other.0.id()) == Some(1));
        assert_eq!(
            find_origin(&chain(child.0.id()), &[root]),
            OrphanOrigin::Root(root)
        );
        assert_eq!(
            find_origin(&chain(other.0.id()), &[root]),
            OrphanOrigin::Elsewhere
        );
        let later = ProcessKey {
            start_time: root.start_time + 1_000_000,
            ..root
        };
        assert_eq!(
            find_origin(&chain(child.0.id()), &[later]),
            OrphanOrigin::Elsewhere
        );
    }

    #[test]
    fn a_process_that_was_taken_in_is_doubtful_only_beside_an_agent() {
        let held = waiting(&mut Command::new("cat"));
        let root = chain(held.0.id())[0];
        // In a session that lost its leader, and in one that has not.
        for after in ["", "exec cat"] {
            let (_leader, orphan) = orphan(after);
            until(|| is_orphan(chain(orphan)[0]));
            assert_eq!(find_origin(&chain(orphan), &[root]), OrphanOrigin::Doubtful);
            assert_eq!(find_origin(&chain(orphan), &[]), OrphanOrigin::Elsewhere);
            let pid = rustix::process::Pid::from_raw(orphan.try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        let own = chain(std::process::id());
        assert_eq!(find_origin(&own, &[root]), OrphanOrigin::Elsewhere);
    }

    /// What a shell leaves behind, in a session whose leader goes on with `after`.
    fn orphan(after: &str) -> (Waiting, u32) {
        let line = format!("(sleep 60 >/dev/null & echo $!); {after}");
        let mut leader = Command::new("setsid");
        let mut leader = waiting(leader.args(["sh", "-c", &line]).stdout(Stdio::piped()));
        let mut line = String::new();
        let out = leader.0.stdout.take().unwrap();
        std::io::BufReader::new(out).read_line(&mut line).unwrap();
        if after.is_empty() {
            leader.0.wait().unwrap();
        }
        (leader, line.trim().parse().unwrap())
    }

    #[test]
    fn a_lost_parent_shows_in_session_group_and_init() {
        let stat = |parent, group, session| ProcessStat {
            zombie: false,
            parent,
            group,
            session,
            start_time: 1,
        };
        // A shell that leads a session, the leader of a job of it, and a job of the same group
        // elsewhere.
        let read = |pid| match pid {
            1 => Some(stat(0, 0, 0)),
            10 => Some(stat(1, 10, 10)),
            20 => Some(stat(10, 20, 10)),
            30 => Some(stat(20, 20, 10)),
            _ => None,
        };
        let lost = |stat| has_lost_parent(40, &stat, read);
        assert!(!lost(stat(10, 40, 10)), "a job of its own");
        assert!(!lost(stat(10, 20, 10)), "in a job of its shell");
        assert!(!lost(stat(10, 10, 10)), "in the group of its shell");
        assert!(!lost(stat(10, 99, 10)), "in a job whose leader ended");
        assert!(!lost(stat(1, 40, 40)), "leads a session");
        assert!(!lost(stat(0, 0, 0)), "started from outside");
        assert!(lost(stat(1, 0, 0)), "in the session of init");
        assert!(lost(stat(1, 20, 10)), "taken in by init");
        assert!(lost(stat(99, 20, 10)), "the parent ended meanwhile");
        assert!(lost(stat(10, 30, 10)), "in a group from elsewhere");
    }
}
