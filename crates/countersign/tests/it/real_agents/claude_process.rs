//! Claude Code as a process that the host did not start, and what the host says of its sessions.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::host::poll;
use crate::wire::Wire;

/// One process of Claude Code.
pub(crate) struct ClaudeProcess {
    child: Child,
    out: PathBuf,
}

impl ClaudeProcess {
    /// Starts it in a process group of its own, as a terminal would. What it prints goes to `out`.
    pub(crate) fn start(mut claude: Command, folder: &Path, out: PathBuf) -> Self {
        let child = claude
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&out).unwrap())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { child, out }
    }

    /// Its last words.
    pub(crate) fn ended(&mut self) -> String {
        poll("claude to end", || self.child.try_wait().unwrap());
        fs::read_to_string(&self.out).unwrap()
    }

    pub(crate) fn interrupt(&self) {
        kill_process_group(Pid::from_child(&self.child), Signal::INT).unwrap();
    }
}

impl Drop for ClaudeProcess {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// All asks, oldest first: what was asked and what became of it.
pub(crate) async fn asks(wire: &mut Wire) -> Vec<(String, String)> {
    let rows = wire.ok("host.approvals", json!({ "limit": 100 })).await;
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = rows.as_array().unwrap().iter().rev();
    let shown = rows.map(|row| (word(&row["input"]["command"]), word(&row["state"])));
    shown.collect()
}

pub(crate) async fn agents(wire: &mut Wire) -> Vec<Value> {
    let rows = wire.ok("host.agents", json!({})).await;
    serde_json::from_value(rows).unwrap()
}
