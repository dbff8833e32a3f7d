//! An agent on the stage: its folders, and its processes as the kernel shows them.

use std::path::{Path, PathBuf};

pub(super) struct Actor {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) work: PathBuf,
    pub(super) home: PathBuf,
}

/// A process of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) line: String,
}

impl Actor {
    /// What runs with this agent's home.
    pub(super) fn all_processes(&self) -> Vec<Process> {
        let home = format!("HOME={}", self.home.display());
        let folders = std::fs::read_dir("/proc").unwrap().flatten();
        let found = folders.filter_map(|folder| {
            let pid = folder.file_name().to_str()?.parse().ok()?;
            let environ = std::fs::read(folder.path().join("environ")).ok()?;
            let mut variables = environ.split(|byte| *byte == 0);
            // What makes its sandbox has the variable under another name.
            variables.find(|variable| variable.ends_with(home.as_bytes()))?;
            let line = std::fs::read(folder.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let status = std::fs::read_to_string(folder.path().join("status")).ok()?;
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
            let parent = parent.trim().parse().ok()?;
            Some(Process { pid, parent, line })
        });
        found.collect()
    }

    /// The same by their command lines.
    pub(super) fn processes(&self) -> Vec<String> {
        let all = self.all_processes().into_iter();
        all.map(|process| process.line).collect()
    }

    /// Its own process, which its runner started.
    pub(super) fn child_of(&self, runner: u32) -> u32 {
        let processes = self.all_processes();
        let mut children = processes.iter().filter(|one| one.parent == runner);
        let child = children.next().map(|one| one.pid);
        child.unwrap_or_else(|| panic!("nothing below {runner}: {processes:?}"))
    }

    /// Whether a process of this agent has this in its command line.
    pub(super) fn runs(&self, words: &str) -> bool {
        self.processes().iter().any(|line| line.contains(words))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// The lines of a file that its commands add to.
    pub(super) fn lines_of(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// The runners of a host's home that live now, by their command lines.
pub(super) fn runners(home: &Path) -> Vec<String> {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = folders.filter_map(|folder| {
        let line = std::fs::read(folder.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    let home = home.to_string_lossy();
    let ours = |line: &String| line.contains(" runner --folder ") && line.contains(&*home);
    lines.filter(ours).collect()
}
