//! Processes that an agent which the host did not start has let go: their parents ended, so that descent
//! alone no longer shows where they come from.
//!
//! Nobody holds such a process the way a runner holds those of a managed agent. What is left to see is
//! what it was given at its start, and a session whose leader is gone: shells of agents are such leaders
//! and do not live long. SECURITY.md says what this misses.

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
        head.is_some_and(|head| leader_is_gone(*head))
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

/// Whether the process that leads its session has ended, and whoever started it as well: a parent in the
/// same session is a parent, and not one that took an orphan in. A session led from outside our view of
/// processes has the number 0.
fn leader_is_gone(process: ProcessKey) -> bool {
    let Some(stat) = read_stat(process.pid) else {
        return true;
    };
    if read_stat(stat.parent).is_some_and(|parent| parent.session == stat.session) {
        return false;
    }
    let leader = identify(stat.session);
    // A younger process got the leader's number.
    let leads = leader.is_some_and(|leader| leader.start_time <= process.start_time);
    stat.session != 0 && !leads
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Child, Command, Stdio};

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
        let key = |id: &crate::peer::ProcessId| ProcessKey {
            pid: id.pid,
            start_time: id.start_time,
        };
        ancestry(pid).processes.iter().map(key).collect()
    }

    #[test]
    fn what_it_was_given_tells_where_it_comes_from() {
        let root = waiting(&mut Command::new("cat"));
        let root = chain(root.0.id())[0];
        let child = waiting(Command::new("cat").env(PARENT_VARIABLE, root.pid.to_string()));
        let other = waiting(Command::new("cat").env(PARENT_VARIABLE, "1"));
        // Until it runs its program, a process has what its parent has.
        while given_parent(child.0.id()) != Some(root.pid) {}
        while given_parent(other.0.id()) != Some(1) {}
        assert_eq!(origin(&chain(child.0.id()), &[root]), Origin::Root(root));
        assert_eq!(origin(&chain(other.0.id()), &[root]), Origin::Elsewhere);
        let later = ProcessKey {
            start_time: root.start_time + 1_000_000,
            ..root
        };
        assert_eq!(origin(&chain(child.0.id()), &[later]), Origin::Elsewhere);
    }

    #[test]
    fn a_session_without_its_leader_is_doubtful_only_beside_an_agent() {
        let root = waiting(&mut Command::new("cat"));
        let root = chain(root.0.id())[0];
        let mut leader = Command::new("setsid");
        leader.args(["sh", "-c", "sleep 60 & echo $!"]);
        let said = leader.stdin(Stdio::null()).output_of_first_line();
        let orphan: u32 = said.trim().parse().unwrap();
        while !leader_is_gone(chain(orphan)[0]) {}
        assert_eq!(origin(&chain(orphan), &[root]), Origin::Doubtful);
        assert_eq!(origin(&chain(orphan), &[]), Origin::Elsewhere);
        assert_eq!(
            origin(&chain(std::process::id()), &[root]),
            Origin::Elsewhere
        );
        let orphan = rustix::process::Pid::from_raw(orphan.try_into().unwrap()).unwrap();
        rustix::process::kill_process(orphan, rustix::process::Signal::KILL).unwrap();
    }

    trait FirstLine {
        fn output_of_first_line(&mut self) -> String;
    }

    impl FirstLine for Command {
        fn output_of_first_line(&mut self) -> String {
            use std::io::BufRead as _;
            let mut child = self.stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            let out = child.stdout.take().unwrap();
            std::io::BufReader::new(out).read_line(&mut line).unwrap();
            child.wait().unwrap();
            line
        }
    }
}
