//! What `doctor` finds of runners: the agents they hold, their sockets, what runs that are over left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::doctor::{DoctorCheck, ok, warn};
use super::orphans;
use crate::paths::HostPaths;

/// `with_host` says whether a host runs that cares for them.
pub(super) fn runners(paths: &HostPaths, with_host: bool) -> Vec<DoctorCheck> {
    let live: BTreeSet<PathBuf> = orphans::find(paths)
        .into_iter()
        .map(|(record, _)| record.folder)
        .collect();
    let over = folders(&paths.runners)
        .into_iter()
        .filter(|folder| !live.contains(folder))
        .count();
    let mut checks = vec![held(live.len(), with_host), sockets(paths)];
    checks.extend(left_over(over, with_host));
    checks
}

fn held(count: usize, with_host: bool) -> DoctorCheck {
    const WHAT: &str = "runners";
    let found = match count {
        0 => "no agent runs".to_owned(),
        1 => "1 agent runs; it survives a restart of the host".to_owned(),
        count => format!("{count} agents run; they survive a restart of the host"),
    };
    if count > 0 && !with_host {
        return warn(
            WHAT,
            orphans::orphans_text(count),
            "without a host their asks wait, and after some time they end",
        );
    }
    ok(WHAT, found)
}

/// Where a path is too long for a socket, a short folder stands in for it.
fn sockets(paths: &HostPaths) -> DoctorCheck {
    let listed: Vec<_> = paths
        .runner_sockets
        .iter()
        .map(|folder| format!("`{}`", folder.display()))
        .collect();
    ok("runner sockets", format!("in {}", listed.join(", then ")))
}

fn left_over(count: usize, with_host: bool) -> Option<DoctorCheck> {
    const WHAT: &str = "finished runs";
    match (count, with_host) {
        (0, _) => None,
        (count, true) => Some(warn(
            WHAT,
            format!("{count} left a folder behind"),
            "the next start of the host removes them",
        )),
        (count, false) => Some(ok(
            WHAT,
            format!("{count} left their exit report for the next host"),
        )),
    }
}

/// The folders in a folder; none if it is not there.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).into_iter().flatten();
    let entries = listed.filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    #[test]
    fn what_a_run_left_is_said_and_whose_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let paths = HostPaths::in_home(scratch.path(), paths::current_uid());
        paths.prepare().unwrap();
        let none = ok("runners", "no agent runs");
        assert_eq!(runners(&paths, true), [none, sockets(&paths)]);
        std::fs::create_dir(paths.runners.join("one")).unwrap();
        let left = runners(&paths, false).pop();
        let words = "1 left their exit report for the next host";
        assert_eq!(left, Some(ok("finished runs", words)));
    }
}
