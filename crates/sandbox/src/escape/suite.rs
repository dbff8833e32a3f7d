//! Running the suite: a scene, a sandbox, every attempt in a process of its own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use countersign_core::event::SandboxLevel;
use serde::{Deserialize, Serialize};

use super::held::PERMITTED;
use super::scene::{SceneKeeper, pass_on};
use super::{EscapeScene, cases};
use crate::confine::{
    InheritedEntries, attempt_all_arguments, attempt_arguments, confined_command,
};
use crate::open_listener::OpenListener;
use crate::plan::{ConfinementPlan, NetworkAccess};
use crate::write_boundary::WriteBoundary;

/// Longer than any attempt takes on a busy machine.
const ATTEMPT_TIME: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(1);
const JUDGEMENT_TIME: Duration = Duration::from_millis(10);
const SCENE_VARIABLE: &str = "COUNTERSIGN_ESCAPE_SCENE";

/// Why the suite could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("could not {what}")]
    System {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the scene cannot be read")]
    Scene(#[from] serde_json::Error),
    #[error("the sandbox was not entered: {0}")]
    NotEntered(String),
    #[error("there is no case `{0}`")]
    UnknownCase(String),
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> SuiteError {
    move |source| SuiteError::System { what, source }
}

/// What came of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscapeResult {
    pub name: String,
    pub stopped: bool,
    /// What stopped it, in the words of the system.
    pub reason: String,
}

/// What came of all attempts at one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscapeReport {
    pub level: SandboxLevel,
    pub results: Vec<EscapeResult>,
    /// Files outside that are not as they were, whatever the attempts said.
    pub changed: Vec<PathBuf>,
}

impl EscapeReport {
    pub fn escapes(&self) -> impl Iterator<Item = &EscapeResult> {
        self.results.iter().filter(|result| !result.stopped)
    }
}

/// Runs every case at a level. `folder` is empty and must not be one for temporary files; `helper` understands
/// `confine`.
pub fn run_suite(
    helper: &OsStr,
    bubblewrap: &Path,
    level: SandboxLevel,
    folder: &Path,
) -> Result<EscapeReport, SuiteError> {
    let folder = folder.canonicalize().map_err(failed("find the folder"))?;
    let keeper = SceneKeeper::build(&folder).map_err(failed("make the scene"))?;
    let scene = &keeper.scene;
    let before = describe_files(&scene.outside).map_err(failed("look at the scene"))?;
    let plan = plan(scene, bubblewrap, level);
    let attempts = attempt_all_arguments().map(OsString::from);
    let (arguments, judge) = if level == SandboxLevel::Open {
        (attempts.to_vec(), None)
    } else {
        let (judge, notices) = SuiteJudge::start(scene, &plan).map_err(failed("hear of opens"))?;
        let entries = InheritedEntries {
            network: None,
            notices: Some(notices),
        };
        let program = OsStr::new("/proc/self/exe");
        let arguments = confined_command(&plan, entries, program, &attempts)?;
        (arguments, Some(judge))
    };
    let output = Command::new(helper)
        .args(arguments)
        .env(SCENE_VARIABLE, serde_json::to_string(scene)?)
        .current_dir(&scene.inside)
        .stdin(Stdio::null())
        .output()
        .map_err(failed("start the sandbox"))?;
    drop(judge);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(SuiteError::NotEntered(said));
    }
    let after = describe_files(&scene.outside).map_err(failed("look at the scene"))?;
    Ok(EscapeReport {
        level,
        results: serde_json::from_slice(&output.stdout)?,
        changed: list_changes(&before, &after),
    })
}

/// Answers what is held in the place of a host: allows one file, and nothing else.
struct SuiteJudge {
    /// Where the sandbox sends its listener. Nothing comes once it is closed.
    theirs: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl SuiteJudge {
    /// With the number of the descriptor that the sandbox is started with.
    fn start(scene: &EscapeScene, plan: &ConfinementPlan) -> io::Result<(Self, i32)> {
        let (ours, theirs) = UnixStream::pair()?;
        let number = pass_on(&theirs)?;
        let boundary = Arc::new(WriteBoundary::new(plan));
        let permitted = scene.outside.join(PERMITTED);
        let thread = std::thread::spawn(move || {
            let Ok(listener) = OpenListener::receive(&ours.into(), boundary) else {
                return;
            };
            while let Ok(Some(call)) = listener.next_held() {
                if Path::new(call.path()) == permitted {
                    // Whoever changes something meanwhile has the time for it.
                    std::thread::sleep(JUDGEMENT_TIME);
                    call.allow();
                } else {
                    call.deny();
                }
            }
        });
        let judge = Self {
            theirs: Some(theirs),
            thread: Some(thread),
        };
        Ok((judge, number))
    }
}

impl Drop for SuiteJudge {
    fn drop(&mut self) {
        drop(self.theirs.take());
        if let Some(thread) = self.thread.take() {
            // It ends with the last process of the sandbox. A panic of it is an open that failed.
            drop(thread.join());
        }
    }
}

fn plan(scene: &EscapeScene, bubblewrap: &Path, level: SandboxLevel) -> ConfinementPlan {
    ConfinementPlan {
        profile: "check".to_owned(),
        level,
        bubblewrap: bubblewrap.to_owned(),
        read: vec!["/".into()],
        hide: vec![scene.hidden.clone()],
        write: vec![scene.inside.clone()],
        read_only: [".git", ".countersign"]
            .map(|name| scene.inside.join(name))
            .into(),
        sockets: Vec::new(),
        tmp: Some(scene.own_tmp.clone()),
        network: NetworkAccess::None,
        domains: Vec::new(),
        local_ports: Vec::new(),
        unasked: Vec::new(),
        hold_ms: 1000,
        processes: 4096,
    }
}

/// Inside: performs every attempt in a process of its own, and gives what came of them.
pub(crate) fn attempt_all() -> Result<Vec<EscapeResult>, SuiteError> {
    let attempts = cases().map(|case| {
        let result = attempt_apart(case.name).map_err(failed("start an attempt"))?;
        Ok(EscapeResult {
            name: case.name.to_owned(),
            stopped: result.is_err(),
            reason: result.err().unwrap_or_default(),
        })
    });
    attempts.collect()
}

/// An error with the reason if it was stopped.
fn attempt_apart(name: &str) -> io::Result<Result<(), String>> {
    let mut child = Command::new("/proc/self/exe")
        .args(attempt_arguments(name))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + ATTEMPT_TIME;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
        }
        std::thread::sleep(PAUSE);
    }
    let output = child.wait_with_output()?;
    let is_filtered = output.status.signal() == Some(libc::SIGSYS);
    // One that ended without a word may have done it before, so it counts as an escape.
    if output.status.code().is_none_or(|code| code == 0) && !is_filtered {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let reason = if said.is_empty() {
        output.status.to_string()
    } else {
        said
    };
    Ok(Err(reason))
}

/// Performs one attempt in this process: succeeds if it was not stopped.
pub(crate) fn attempt(name: &str) -> Result<io::Result<()>, SuiteError> {
    let scene = std::env::var(SCENE_VARIABLE).unwrap_or_default();
    let scene: EscapeScene = serde_json::from_str(&scene)?;
    let case = cases().find(|case| case.name == name);
    let case = case.ok_or_else(|| SuiteError::UnknownCase(name.to_owned()))?;
    Ok((case.attempt)(&scene))
}

type FileState = (u32, u64, i64, Vec<u8>);

/// Everything that an attempt could have changed.
fn describe_files(folder: &Path) -> io::Result<BTreeMap<PathBuf, FileState>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        let content = if found.is_file() {
            fs::read(&path)?
        } else {
            Vec::new()
        };
        let state = (found.mode(), found.nlink(), found.mtime(), content);
        files.insert(path, state);
    }
    Ok(files)
}

fn list_changes(
    before: &BTreeMap<PathBuf, FileState>,
    after: &BTreeMap<PathBuf, FileState>,
) -> Vec<PathBuf> {
    let mut paths: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    paths.sort();
    paths.dedup();
    paths.retain(|path| before.get(path) != after.get(path));
    paths
}
