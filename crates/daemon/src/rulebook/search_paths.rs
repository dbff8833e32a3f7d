//! Where other tools keep their rules.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use countersign_core::limits::RULE_FOLDER_FILES_MAX;
use countersign_rules::{ForeignScope, ForeignTool};

use super::RulebookConfig;
use super::disk::WatchedFile;

/// The folders in which to look.
#[derive(Debug)]
pub(super) struct SearchPaths {
    home: PathBuf,
    managed_claude: PathBuf,
}

/// A file that may stand somewhere, and whose it is.
pub(super) struct PolicyFile {
    pub(super) path: PathBuf,
    pub(super) scope: ForeignScope,
    /// The folder it must not lead out of.
    pub(super) within: Option<PathBuf>,
}

impl SearchPaths {
    pub(super) fn new(config: &RulebookConfig) -> Self {
        Self {
            home: config.home.clone(),
            managed_claude: config.managed_claude.clone(),
        }
    }

    /// Where a tool keeps its rules, widest first.
    /// `known` are files that were there before, so that one that is gone is noticed.
    pub(super) fn find_files(
        &self,
        tool: ForeignTool,
        root: Option<&Path>,
        known: &BTreeMap<PathBuf, WatchedFile>,
    ) -> Result<Vec<PolicyFile>, String> {
        let mut found = PolicyFileList {
            root,
            found: Vec::new(),
        };
        let home = &self.home;
        // `/etc` on Linux. Derived rather than fixed, so that a rulebook with other paths, such as
        // a test's, reads nothing of this machine.
        let system = self.managed_claude.parent().and_then(Path::parent);
        match tool {
            ForeignTool::Claude => {
                let more = self.managed_claude.with_extension("d");
                found.add_file(ForeignScope::Managed, self.managed_claude.clone());
                found.add_folder(ForeignScope::Managed, &more, "json", known)?;
                found.add_file(ForeignScope::User, home.join(".claude/settings.json"));
                found.add_in_project(&[".claude/settings.json", ".claude/settings.local.json"]);
            }
            ForeignTool::Opencode => {
                for name in ["config.json", "opencode.json", "opencode.jsonc"] {
                    let path = home.join(".config/opencode").join(name);
                    found.add_file(ForeignScope::User, path);
                }
                found.add_in_project(&["opencode.json", "opencode.jsonc"]);
                found.add_in_project(&[".opencode/opencode.json", ".opencode/opencode.jsonc"]);
            }
            ForeignTool::Codex => {
                if let Some(etc) = system {
                    let folder = etc.join("codex/rules");
                    found.add_folder(ForeignScope::Managed, &folder, "rules", known)?;
                }
                let folder = home.join(".codex/rules");
                found.add_folder(ForeignScope::User, &folder, "rules", known)?;
                found.add_folder_in_project(".codex/rules", "rules", known)?;
            }
            ForeignTool::Gemini => {
                if let Some(etc) = system {
                    let folder = etc.join("gemini-cli/policies");
                    found.add_folder(ForeignScope::Managed, &folder, "toml", known)?;
                }
                let folder = home.join(".gemini/policies");
                found.add_folder(ForeignScope::User, &folder, "toml", known)?;
                found.add_folder_in_project(".gemini/policies", "toml", known)?;
            }
            ForeignTool::Goose => {
                let path = home.join(".config/goose/permission.yaml");
                found.add_file(ForeignScope::User, path);
            }
        }
        Ok(found.found)
    }
}

/// A list of files that may stand somewhere.
struct PolicyFileList<'a> {
    root: Option<&'a Path>,
    found: Vec<PolicyFile>,
}

impl PolicyFileList<'_> {
    /// A file that was named before keeps the reach it had.
    fn add(&mut self, path: PathBuf, scope: ForeignScope, within: Option<PathBuf>) {
        if self.found.iter().all(|found| found.path != path) {
            self.found.push(PolicyFile {
                path,
                scope,
                within,
            });
        }
    }

    fn add_file(&mut self, scope: ForeignScope, path: PathBuf) {
        self.add(path, scope, None);
    }

    fn add_in_project(&mut self, names: &[&str]) {
        let Some(root) = self.root.map(Path::to_owned) else {
            return;
        };
        for name in names {
            self.add(root.join(name), ForeignScope::Project, Some(root.clone()));
        }
    }

    fn add_folder(
        &mut self,
        scope: ForeignScope,
        folder: &Path,
        ending: &str,
        known: &BTreeMap<PathBuf, WatchedFile>,
    ) -> Result<(), String> {
        for path in list_folder(folder, ending, known)? {
            self.add(path, scope, None);
        }
        Ok(())
    }

    fn add_folder_in_project(
        &mut self,
        name: &str,
        ending: &str,
        known: &BTreeMap<PathBuf, WatchedFile>,
    ) -> Result<(), String> {
        let Some(root) = self.root.map(Path::to_owned) else {
            return Ok(());
        };
        for path in list_folder(&root.join(name), ending, known)? {
            self.add(path, ForeignScope::Project, Some(root.clone()));
        }
        Ok(())
    }
}

/// The files in a folder with this ending, and those that were there.
fn list_folder(
    folder: &Path,
    ending: &str,
    known: &BTreeMap<PathBuf, WatchedFile>,
) -> Result<Vec<PathBuf>, String> {
    let after_it = (Bound::Excluded(folder), Bound::Unbounded);
    let below = known.range::<Path, _>(after_it).map(|(path, _)| path);
    let mut paths: Vec<PathBuf> = below
        .take_while(|path| path.starts_with(folder))
        .filter(|path| path.parent() == Some(folder))
        .cloned()
        .collect();
    add_entries(&mut paths, folder, ending)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    // The order of `read_dir` is the file system's, and which of two rules counts must not depend
    // on it.
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn add_entries(paths: &mut Vec<PathBuf>, folder: &Path, ending: &str) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // Any other error may hide a deny, and suspends what would be allowed.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) {
            paths.push(path);
        }
        // Twice, because those that were known before are in the list as well.
        if paths.len() > 2 * RULE_FOLDER_FILES_MAX {
            return Err(io::Error::other("there are too many files"));
        }
    }
    Ok(())
}
