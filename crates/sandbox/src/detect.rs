//! What this machine can enforce, found out by enforcing it on a program that does nothing.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use countersign_core::event::SandboxLevel;

use crate::confine::{InheritedEntries, confined_command, probe_arguments};
use crate::plan::{ConfinementPlan, NetworkAccess};

/// Longer than any machine needs that can start programs at all.
const PROBE_TIME: Duration = Duration::from_secs(10);
const PROBE_TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(2);
/// As much of what a probe says as a person reads.
const REASON_BYTES_MAX: u64 = 400;

/// What can be enforced, and what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSupport {
    pub level: SandboxLevel,
    /// Where bubblewrap is.
    pub bubblewrap: Option<PathBuf>,
    /// Why it is not more, and what to do.
    pub missing: Option<MissingLayer>,
}

/// A layer that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLayer {
    pub what: String,
    pub advice: String,
}

/// Finds out what can be enforced. `helper` is a program that understands `confine`, `path` the folders in which
/// bubblewrap is looked for.
pub fn detect(helper: &OsStr, path: Option<&OsStr>) -> SandboxSupport {
    let bubblewrap = find_bubblewrap(path);
    let full = match &bubblewrap {
        Some(program) => probe_again(helper, &probe_plan(SandboxLevel::Full, program)),
        None => Err("bubblewrap is not installed".to_owned()),
    };
    let (level, missing) = match full {
        Ok(()) => (SandboxLevel::Full, None),
        Err(reason) => detect_less(helper, bubblewrap.as_deref(), &reason),
    };
    SandboxSupport {
        level,
        bubblewrap,
        missing,
    }
}

fn detect_less(
    helper: &OsStr,
    bubblewrap: Option<&Path>,
    reason: &str,
) -> (SandboxLevel, Option<MissingLayer>) {
    let plan = probe_plan(SandboxLevel::Landlock, Path::new(""));
    match probe(helper, &plan) {
        Ok(()) => {
            let advice = match bubblewrap {
                None => "install the package `bubblewrap`",
                Some(_) => {
                    "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, \
                     `sysctl user.max_user_namespaces=15000` and, on Ubuntu, an AppArmor profile for bwrap"
                }
            };
            let missing = MissingLayer {
                what: reason.to_owned(),
                advice: advice.to_owned(),
            };
            (SandboxLevel::Landlock, Some(missing))
        }
        Err(reason) => {
            let missing = MissingLayer {
                what: reason,
                advice:
                    "use a kernel with Landlock (Linux 6.2 or newer) and the package `bubblewrap`"
                        .to_owned(),
            };
            (SandboxLevel::Open, Some(missing))
        }
    }
}

/// Folders that are not absolute do not count: an agent could put a program there.
fn find_bubblewrap(path: Option<&OsStr>) -> Option<PathBuf> {
    let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute());
    let mut programs = folders.map(|folder| folder.join("bwrap"));
    programs.find(|program| {
        let found = program.metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

fn probe_plan(level: SandboxLevel, bubblewrap: &Path) -> ConfinementPlan {
    ConfinementPlan {
        profile: "probe".to_owned(),
        level,
        bubblewrap: bubblewrap.to_owned(),
        read: vec!["/".into()],
        hide: Vec::new(),
        write: Vec::new(),
        read_only: Vec::new(),
        sockets: Vec::new(),
        tmp: None,
        network: NetworkAccess::None,
        domains: Vec::new(),
        local_ports: Vec::new(),
        unasked: Vec::new(),
        hold_ms: 0,
        processes: 4096,
    }
}

/// A socket that is to be covered may be removed before bubblewrap gets to it, and then it fails. That says nothing
/// of the machine.
fn probe_again(helper: &OsStr, plan: &ConfinementPlan) -> Result<(), String> {
    let mut tries = 1;
    loop {
        match probe(helper, plan) {
            Err(_) if tries < PROBE_TRIES => tries += 1,
            probed => return probed,
        }
    }
}

fn probe(helper: &OsStr, plan: &ConfinementPlan) -> Result<(), String> {
    let args: Vec<OsString> = probe_arguments().map(OsString::from).to_vec();
    let args = confined_command(
        plan,
        InheritedEntries::default(),
        OsStr::new("/proc/self/exe"),
        &args,
    )
    .map_err(|error| error.to_string())?;
    let mut child = Command::new(helper)
        .args(args)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PROBE_TIME;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Ok(None) => {
                // It is reaped right after.
                drop(child.kill());
                drop(child.wait());
                return Err("it took too long".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut reason = String::new();
    if let Some(stderr) = child.stderr.take() {
        drop(stderr.take(REASON_BYTES_MAX).read_to_string(&mut reason));
    }
    Err(reason.trim().replace('\n', "; "))
}
