//! Other processes: signals, memory, environment, descriptors.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};

use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, kill_process, pidfd_open, pidfd_send_signal, prlimit,
};

use super::{EscapeCase, EscapeScene, case, stopped};
use crate::system_calls::{ProcessCall, call_process};

pub(super) const CASES: &[EscapeCase] = &[
    case("see_process", "see another process", |s| {
        fs::metadata(s.proc("stat")).map(drop)
    }),
    case("signal", "signal another process", |s| {
        Ok(kill_process(s.sibling_pid()?, Signal::CONT)?)
    }),
    case(
        "signal_handle",
        "signal another process by its handle",
        |s| {
            let handle = pidfd_open(s.sibling_pid()?, PidfdFlags::empty())?;
            Ok(pidfd_send_signal(handle, Signal::CONT)?)
        },
    ),
    case("ptrace", "trace another process", |s| {
        call_process(ProcessCall::Trace, s.sibling)
    }),
    case("read_memory", "read the memory of another process", |s| {
        call_process(ProcessCall::ReadMemory, s.sibling)
    }),
    case("compare", "compare with another process", |s| {
        call_process(ProcessCall::Compare, s.sibling)
    }),
    case("open_memory", "open /proc/PID/mem", |s| {
        OpenOptions::new().write(true).open(s.proc("mem")).map(drop)
    }),
    case("environment", "read /proc/PID/environ", |s| {
        let text = fs::read(s.proc("environ"))?;
        if text.is_empty() {
            Err(stopped("it is empty"))
        } else {
            Ok(())
        }
    }),
    case("descriptors", "open /proc/PID/fd/0", |s| {
        fs::File::open(s.proc("fd/0")).map(drop)
    }),
    case("memory_order", "write to /proc/PID/oom_score_adj", |s| {
        let path = s.proc("oom_score_adj");
        let now = fs::read_to_string(&path)?;
        OpenOptions::new()
            .write(true)
            .open(&path)?
            .write_all(now.as_bytes())
    }),
    case("limits", "read the limits of another process", |s| {
        // The call that sets them needs the same right.
        let limits = fs::read_to_string(s.proc("limits"))?;
        let unchanged = rustix::process::getrlimit(Resource::Core);
        prlimit(Some(s.sibling_pid()?), Resource::Core, unchanged)?;
        if limits.is_empty() {
            Err(stopped("it is empty"))
        } else {
            Ok(())
        }
    }),
    case("cgroup", "move to another cgroup", |_| {
        move_to_root_cgroup()
    }),
    case("privileges", "gain privileges from a program", |_| {
        let status = fs::read_to_string("/proc/self/status")?;
        let kept = status.lines().any(|line| line == "NoNewPrivs:\t1");
        if kept {
            Err(stopped("no new privileges"))
        } else {
            Ok(())
        }
    }),
];

impl EscapeScene {
    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.sibling)
    }

    fn sibling_pid(&self) -> io::Result<Pid> {
        let pid = i32::try_from(self.sibling).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| stopped("there is no process"))
    }
}

fn move_to_root_cgroup() -> io::Result<()> {
    let roots = [
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/unified/cgroup.procs",
    ];
    let opened = roots
        .iter()
        .find_map(|path| OpenOptions::new().write(true).open(path).ok());
    match opened {
        Some(mut procs) => procs.write_all(b"0"),
        None => Err(stopped("there is none that can be written")),
    }
}
