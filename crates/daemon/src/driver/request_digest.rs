//! What an allowed ask stands for, to the byte: digests of commands to run and files to write.
//!
//! Invariant: two requests have the same digest only if the same would happen.

use std::path::{Component, Path, PathBuf};

use countersign_agents::adapter::{BoundAction, RunRequest};
use countersign_core::hex;
use sha2::{Digest as _, Sha256};

/// The digest of what an allowed ask stands for; `folder` is where the agent works.
pub(super) fn digest(bound: &BoundAction, folder: &Path) -> String {
    match bound {
        BoundAction::Run(run) => digest_run(run, folder),
        BoundAction::Write { path, content, old } => digest_write(path, content, old.as_deref()),
    }
}

/// The digest of a command.
pub(super) fn digest_run(run: &RunRequest, folder: &Path) -> String {
    let cwd = run.cwd.as_deref().unwrap_or(folder);
    let cwd = normalize_path(&folder.join(cwd));
    let mut parts = vec!["run".to_owned(), run.command.clone(), shown(&cwd)];
    for (name, value) in &run.env {
        parts.extend([name.clone(), value.clone()]);
    }
    hash(&parts)
}

/// The digest of a file's whole content, and of what it takes the place of if that counts.
pub(super) fn digest_write(path: &Path, content: &str, old: Option<&str>) -> String {
    let mut parts = vec![
        "write".to_owned(),
        shown(&normalize_path(path)),
        content.to_owned(),
    ];
    parts.extend(old.map(str::to_owned));
    hash(&parts)
}

fn hash(parts: &[String]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // Without the length `a` + `bc` and `ab` + `c` would be the same request.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize())
}

/// The path without `.` and doubled slashes. One with `..` stays as it is: where it leads depends on
/// links.
fn normalize_path(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, cwd: Option<&str>, env: &[(&str, &str)]) -> RunRequest {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        RunRequest {
            command: command.to_owned(),
            cwd: cwd.map(PathBuf::from),
            env: env.iter().map(owned).collect(),
        }
    }

    #[test]
    fn same_request_has_the_same_digest_however_its_folder_is_named() {
        let folder = Path::new("/srv/app");
        let plain = digest_run(&run("ls", None, &[]), folder);
        for cwd in ["/srv/app", "/srv//app/", "/srv/./app", "."] {
            assert_eq!(
                digest_run(&run("ls", Some(cwd), &[]), folder),
                plain,
                "{cwd}"
            );
        }
    }

    #[test]
    fn every_difference_shows() {
        let folder = Path::new("/srv/app");
        let all = [
            digest_run(&run("ls", None, &[]), folder),
            digest_run(&run("ls ", None, &[]), folder),
            digest_run(&run("ls", Some("/srv"), &[]), folder),
            digest_run(&run("ls", Some("/srv/app/x/.."), &[]), folder),
            digest_run(&run("ls", None, &[("A", "b")]), folder),
            digest_run(&run("ls", None, &[("Ab", "")]), folder),
            digest_run(&run("ls", None, &[("A", "b"), ("C", "")]), folder),
            digest_write(Path::new("/srv/app"), "ls", None),
            digest_write(Path::new("/srv/app"), "ls\n", None),
            digest_write(Path::new("/srv/app"), "ls", Some("")),
            digest_write(Path::new("/srv/app"), "", Some("ls")),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "{index}");
        }
    }
}
