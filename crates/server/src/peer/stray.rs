//! Processes that an agent which the host did not start has let go: their parents ended, so that descent
//! alone no longer shows where they come from.
//!
//! Nobody holds such a process the way a runner holds those of a managed agent. What is left to see is
//! what it was given at its start, and that it is in the session of a parent that it no longer has.
//! SECURITY.md says what this misses.

use std::fs;

use countersign_core::event::ProcessKey;

use super::{identify, read_stat};

/// In what Claude Code starts: the process that started it.
const PARENT_VARIABLE: &str = "CLAUDE_PID";

/// Where a process comes from, as far as it shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This agent's process started it.
    Root(ProcessKey),
    /// Some agent's may have.
    Doubtful,
    /// Nothing points to an agent.
    Elsewhere,
}

/// Looks where a caller comes from that descends from none of `roots`. `chain` begins with the caller
/// and goes up.
pub(crate) fn origin(chain: &[ProcessKey], roots: &[ProcessKey]) -> Origin {
    let given = chain.iter().find_map(|process| {
        let pid = given_parent(process.pid)?;
        let could = |root: &&ProcessKey| root.pid == pid && root.start_time <= process.start_time;
        roots.iter().find(could).copied()
    });
    if let Some(root) = given {
        return Origin::Root(root);
    }
    let mut living = roots.iter().filter(|root| lives(root));
    let doubtful = living.any(|root| {
        // Whatever is above this one is older than the agent and was not started by it.
        let head = chain
            .iter()
            .rfind(|process| process.start_time >= root.start_time);
        head.is_some_and(|head| was_taken_in(*head))
    });
    if doubtful {
        Origin::Doubtful
    } else {
        Origin::Elsewhere
    }
}

fn lives(process: &ProcessKey) -> bool {
    identify(process.pid).is_some_and(|id| id.start_time == process.start_time)
}

fn given_parent(pid: u32) -> Option<u32> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut pairs = environment.split(|byte| *byte == 0);
    let value = pairs.find_map(|pair| {
        let rest = pair.strip_prefix(PARENT_VARIABLE.as_bytes())?;
        rest.strip_prefix(b"=")
    })?;
    str::from_utf8(value).ok()?.parse().ok()
}

/// Whether whoever started the process has ended, so that another took it in: a process stays in the session of its
/// parent unless it leads one of its own, so a parent in another session did not start it. One that leads a
/// session is believed, and so is one whose session is led from outside our view of processes, which has the
/// number 0.
fn was_taken_in(process: ProcessKey) -> bool {
    let Some(stat) = read_stat(process.pid) else {
        return true;
    };
    if stat.session == 0 || stat.session == process.pid {
        return false;
    }
    read_stat(stat.parent).is_none_or(|parent| parent.session != stat.session)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::BufRead as _;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::peer::{ProcessId, ancestry};

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
        let key = |id: &ProcessId| ProcessKey {
            pid: id.pid,
            start_time: id.start_time,
        };
        ancestry(pid).processes.iter().map(key).collect()
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
        until(|| given_parent(child.0.id()) == Some(root.pid));
        until(|| given_parent(other.0.id()) == Some(1));
        assert_eq!(origin(&chain(child.0.id()), &[root]), Origin::Root(root));
        assert_eq!(origin(&chain(other.0.id()), &[root]), Origin::Elsewhere);
        let later = ProcessKey {
            start_time: root.start_time + 1_000_000,
            ..root
        };
        assert_eq!(origin(&chain(child.0.id()), &[later]), Origin::Elsewhere);
    }

    #[test]
    fn a_process_that_was_taken_in_is_doubtful_only_beside_an_agent() {
        let held = waiting(&mut Command::new("cat"));
        let root = chain(held.0.id())[0];
        // In a session that lost its leader, and in our own, which has not.
        for mut shell in [Command::new("setsid"), Command::new("env")] {
            let orphan = orphan(&mut shell);
            until(|| was_taken_in(chain(orphan)[0]));
            assert_eq!(origin(&chain(orphan), &[root]), Origin::Doubtful);
            assert_eq!(origin(&chain(orphan), &[]), Origin::Elsewhere);
            let pid = rustix::process::Pid::from_raw(orphan.try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        let own = chain(std::process::id());
        assert_eq!(origin(&own, &[root]), Origin::Elsewhere);
    }

    /// What a shell leaves behind.
    fn orphan(leader: &mut Command) -> u32 {
        leader.args(["sh", "-c", "sleep 60 & echo $!"]);
        leader.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = leader.spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufReader::new(out).read_line(&mut line).unwrap();
        child.wait().unwrap();
        line.trim().parse().unwrap()
    }
}
