//! What the terminals of ended runs wrote last, in one file for each agent.
//!
//! Invariants: a file is there whole or not at all, only its owner may read it, and the oldest goes
//! when there are too many. Losing one costs nothing but the output: no decision depends on it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use countersign_agents::KeptTerminals;
use countersign_core::limits::ENDED_TERMINALS_AGENTS_MAX;
use countersign_core::{AgentId, Seq};

const UNFINISHED: &str = "unfinished";

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct EndedTerminals {
    /// Where they are; `None` if nothing is kept.
    folder: Option<PathBuf>,
    /// Held by whoever changes files.
    writing: Mutex<()>,
}

/// The file of one agent, named by the agent and by how far the record was when its run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TerminalFile {
    path: PathBuf,
    agent: String,
    ended: Seq,
}

impl EndedTerminals {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            writing: Mutex::default(),
        }
    }

    /// Keeps the terminals of an agent's last run in the place of those of an earlier one.
    pub(crate) fn save(
        &self,
        agent: &AgentId,
        ended: Seq,
        terminals: &KeptTerminals,
    ) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        check_name(agent)?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut earlier = list(folder)?;
        if !terminals.is_empty() {
            let path = folder.join(format!("{agent}.{}", ended.0));
            write(folder, &path, terminals)?;
            earlier.retain(|file| file.path != path);
        }
        // After the new one is there: a crash in between leaves both, and the newest is read.
        for file in surplus(earlier, agent) {
            fs::remove_file(file.path)?;
        }
        Ok(())
    }

    /// The terminals of the last run of an agent.
    pub(crate) fn load(&self, agent: &AgentId) -> io::Result<KeptTerminals> {
        let Some(folder) = &self.folder else {
            return Ok(KeptTerminals::default());
        };
        let mut files = list(folder)?;
        files.retain(|file| file.agent == agent.as_str());
        let Some(newest) = files.pop() else {
            return Ok(KeptTerminals::default());
        };
        Ok(serde_json::from_slice(&fs::read(newest.path)?)?)
    }

    /// Forgets the terminals of runs that ended before this event.
    pub(crate) fn prune(&self, before: Seq) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for file in list(folder)? {
            if file.ended < before {
                fs::remove_file(file.path)?;
            }
        }
        Ok(())
    }
}

/// A name that stays in the folder, whatever somebody called an agent.
fn check_name(agent: &AgentId) -> io::Result<()> {
    let name = agent.as_str();
    let is_plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_plain && !name.is_empty() {
        return Ok(());
    }
    let reason = "the id of the agent cannot be the name of a file";
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

/// All files, those of the runs that ended first before the others.
fn list(folder: &Path) -> io::Result<Vec<TerminalFile>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        files.extend(parse_name(path));
    }
    files.sort_by_key(|file| file.ended);
    Ok(files)
}

fn parse_name(path: PathBuf) -> Option<TerminalFile> {
    let (agent, ended) = path.file_name()?.to_str()?.rsplit_once('.')?;
    let (agent, ended) = (agent.to_owned(), Seq(ended.parse().ok()?));
    Some(TerminalFile { path, agent, ended })
}

/// What goes when an agent gets a new file: its earlier ones, and the oldest of too many.
fn surplus(files: Vec<TerminalFile>, agent: &AgentId) -> Vec<TerminalFile> {
    let (mut gone, others): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|file| file.agent == agent.as_str());
    let too_many = (others.len() + 1).saturating_sub(ENDED_TERMINALS_AGENTS_MAX);
    gone.extend(others.into_iter().take(too_many));
    gone
}

fn write(folder: &Path, path: &Path, terminals: &KeptTerminals) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let unfinished = folder.join(UNFINISHED);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(&serde_json::to_vec(terminals)?)?;
    // Before the rename: a file under its final name is whole.
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn terminals(output: &str) -> KeptTerminals {
        let data = match output {
            "one" => "b25l",
            "two" => "dHdv",
            other => panic!("{other}"),
        };
        let summary = serde_json::json!({
            "id": "term-1", "command": "ls", "cwd": "/", "started_ms": 1, "ended_ms": 2,
            "exit": null, "bytes": 3, "first_offset": 0,
        });
        let text = serde_json::json!([{ "summary": summary, "output": data }]);
        serde_json::from_value(text).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let files = list(folder).unwrap();
        let names = files
            .iter()
            .map(|file| format!("{}.{}", file.agent, file.ended.0));
        names.collect()
    }

    #[test]
    fn the_last_run_counts_and_an_empty_one_leaves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("terminals");
        let kept = EndedTerminals::new(Some(folder.clone()));
        let agent = AgentId::new("agent-1");
        assert_eq!(kept.load(&agent).unwrap(), KeptTerminals::default());
        kept.save(&agent, Seq(5), &terminals("one")).unwrap();
        kept.save(&agent, Seq(9), &terminals("two")).unwrap();
        assert_eq!(kept.load(&agent).unwrap(), terminals("two"));
        assert_eq!(names(&folder), ["agent-1.9"]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("agent-1.9")), 0o600);
        kept.save(&agent, Seq(12), &KeptTerminals::default())
            .unwrap();
        assert_eq!(kept.load(&agent).unwrap(), KeptTerminals::default());
    }

    #[test]
    fn the_oldest_of_too_many_goes_and_pruning_takes_what_ended_before() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = EndedTerminals::new(Some(scratch.path().to_owned()));
        let count = u64::try_from(ENDED_TERMINALS_AGENTS_MAX).unwrap();
        for number in 0..=count {
            let agent = AgentId::new(format!("agent-{number}"));
            kept.save(&agent, Seq(number), &terminals("one")).unwrap();
        }
        let all = names(scratch.path());
        assert_eq!(
            (all.len(), all[0].as_str()),
            (ENDED_TERMINALS_AGENTS_MAX, "agent-1.1")
        );
        kept.prune(Seq(count)).unwrap();
        assert_eq!(names(scratch.path()), [format!("agent-{count}.{count}")]);
    }

    #[test]
    fn an_id_that_leads_out_of_the_folder_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = EndedTerminals::new(Some(scratch.path().join("terminals")));
        for id in ["", "..", "../x", "a/b", "a.b"] {
            let refused = kept.save(&AgentId::new(id), Seq(1), &terminals("one"));
            assert_eq!(
                refused.unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{id}"
            );
        }
    }
}
