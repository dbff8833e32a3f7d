//! What may change: a Landlock ruleset. At level `landlock` also what may be read.

use std::path::{Path, PathBuf};

use countersign_core::event::SandboxLevel;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use crate::plan::ConfinementPlan;

/// The first version in which nothing that changes a file's content is left out.
const OLDEST: ABI = ABI::V3;
/// The newest whose rights were tried.
const NEWEST: ABI = ABI::V6;

/// What every program may write to, besides what its plan says.
const DEVICES: [&str; 2] = ["/dev", "/proc"];
/// The same where the sandbox has neither of its own.
const HARMLESS_DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
const OWN_PROCESS: &str = "/proc/self";
const SHARED_MEMORY: &str = "/dev/shm";
const TMP_FOLDERS: [&str; 2] = ["/tmp", "/var/tmp"];

/// Why files could not be protected.
#[derive(Debug, thiserror::Error)]
pub enum FileRulesError {
    #[error("the kernel refused the rules for files")]
    Refused(#[from] RulesetError),
    #[error("the kernel does not enforce rules for files; it needs Landlock (Linux 6.2 or newer)")]
    NotEnforced,
}

/// Restricts this thread and all it will start.
pub(crate) fn enforce(plan: &ConfinementPlan) -> Result<(), FileRulesError> {
    let all = AccessFs::from_all(NEWEST);
    let device = BitFlags::from(AccessFs::WriteFile) | AccessFs::IoctlDev;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(OLDEST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(
            readable(plan),
            AccessFs::from_read(NEWEST),
        ))?
        .add_rules(path_beneath_rules(devices(plan.level), device))?
        .add_rules(path_beneath_rules([SHARED_MEMORY], all))?
        .add_rules(path_beneath_rules(&plan.write, all))?
        .add_rules(path_beneath_rules(
            plan.tmp.iter().flat_map(|_| TMP_FOLDERS),
            all,
        ))?;
    match ruleset.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err(FileRulesError::NotEnforced),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

fn devices(level: SandboxLevel) -> Vec<&'static str> {
    if level == SandboxLevel::Full {
        return DEVICES.to_vec();
    }
    HARMLESS_DEVICES.into_iter().chain([OWN_PROCESS]).collect()
}

/// At level `full` what is hidden is not there. Otherwise only the rest is named.
fn readable(plan: &ConfinementPlan) -> Vec<PathBuf> {
    let mut roots = plan.read.clone();
    roots.extend(plan.sockets.iter().cloned());
    if plan.level == SandboxLevel::Full {
        // Mounted by the sandbox itself.
        roots.extend(["/proc", "/dev", "/run"].map(PathBuf::from));
        return roots;
    }
    let hidden: Vec<_> = plan
        .hide
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let mut visible = Vec::new();
    for root in &roots {
        add_visible(root, &hidden, &mut visible);
    }
    visible
}

/// Rules hold for everything below a folder, so a folder with something hidden in it is taken apart.
fn add_visible(path: &Path, hidden: &[PathBuf], visible: &mut Vec<PathBuf>) {
    if hidden.iter().any(|hidden| path.starts_with(hidden)) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        visible.push(path.to_owned());
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries {
        // A link is judged by where it leads.
        if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            add_visible(&entry.path(), hidden, visible);
        }
    }
}
