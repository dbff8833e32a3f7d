//! A session: a process that starts hooks as Claude Code does, through a shell of their own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::host::{command, poll};

/// A shell that runs a script is a program like any other: the root of an agent.
const SCRIPT: &str = "while read -r line; do eval \"$line\"; done\n";

pub(crate) struct Session {
    child: Child,
    folder: TempDir,
    started: usize,
}

/// Something that a session has started.
pub(crate) struct Started(PathBuf);

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: String,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Session {
    pub(crate) fn start(home: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("session.sh");
        fs::write(&script, SCRIPT).unwrap();
        let mut shell = Command::new("sh");
        let child = with_home(&mut shell, home)
            .arg(script)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            child,
            folder,
            started: 0,
        }
    }

    /// Starts a hook with this event, and goes on.
    pub(crate) fn hook(&mut self, input: &Value) -> Started {
        self.hook_within(input, 60)
    }

    /// The same, where the caller waits for so many seconds.
    pub(crate) fn hook_within(&mut self, input: &Value, seconds: u64) -> Started {
        let words = format!("hook claude --timeout {seconds}");
        self.start_command(&words, &input.to_string())
    }

    /// Runs a hook to its end and gives what it said.
    pub(crate) fn said(&mut self, input: &Value) -> String {
        self.hook(input).said()
    }

    /// Starts our own command line.
    pub(crate) fn run(&mut self, words: &str) -> Ended {
        self.start_command(words, "").ended()
    }

    /// Has the session's own process run a line, and goes on.
    pub(crate) fn run_line(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn start_command(&mut self, words: &str, input: &str) -> Started {
        self.started += 1;
        let base = self.folder.path().join(self.started.to_string());
        fs::write(base.with_extension("in"), input).unwrap();
        let at = base.display();
        // The code is moved into its place, so that it is there as a whole or not at all.
        let shell = format!(
            "\"$BIN\" {words} <{at}.in >{at}.out 2>{at}.err & echo $! >{at}.pid; wait $!; \
             echo $? >{at}.tmp; mv {at}.tmp {at}.code"
        );
        let line = format!("sh -c '{shell}' &\n");
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        Started(base)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Started {
    pub(crate) fn ended(&self) -> Ended {
        let code = poll("a command to end", || self.read("code"));
        let read = |part| self.read(part).unwrap();
        Ended {
            code: code.trim().to_owned(),
            out: read("out"),
            err: read("err"),
        }
    }

    /// What it said, if it ended as a hook that decides should.
    pub(crate) fn said(&self) -> String {
        let ended = self.ended();
        assert_eq!(
            (ended.code.as_str(), ended.err.as_str()),
            ("0", ""),
            "{ended:?}"
        );
        ended.out
    }

    pub(crate) fn kill(&self) {
        let pid = poll("a pid", || self.read("pid")?.trim().parse().ok());
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    fn read(&self, part: &str) -> Option<String> {
        fs::read_to_string(self.0.with_extension(part)).ok()
    }
}

fn with_home<'a>(shell: &'a mut Command, home: &Path) -> &'a mut Command {
    let own = command(home);
    shell.env("BIN", own.get_program());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// What a person's own shell runs: it has no script and no words of another.
pub(crate) fn typed(home: &Path, line: &str) -> Ended {
    let mut shell = Command::new("sh");
    let mut child = with_home(&mut shell, home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("{line}\n");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let words = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended {
        code: output.status.code().unwrap().to_string(),
        out: words(output.stdout),
        err: words(output.stderr),
    }
}
