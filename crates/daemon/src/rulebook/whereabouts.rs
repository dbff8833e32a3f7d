//! Where other tools keep their rules.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use countersign_core::limits::RULE_FOLDER_FILES_MAX;
use countersign_rules::{ForeignScope, ForeignTool};

use super::RulebookConfig;
use super::disk::Watched;

/// The folders in which to look.
#[derive(Debug)]
pub(super) struct Whereabouts {
    home: PathBuf,
    managed_claude: PathBuf,
}

/// A file that may stand somewhere, and whose it is.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) scope: ForeignScope,
    /// The folder it must not lead out of.
    pub(super) within: Option<PathBuf>,
}

impl Whereabouts {
    pub(super) fn new(config: &RulebookConfig) -> Self {
        Self {
            home: config.home.clone(),
            managed_claude: config.managed_claude.clone(),
        }
    }

    /// Where a tool keeps its rules, widest first.
    /// `known` are files that were there before, so that one that is gone is noticed.
    pub(super) fn find(
        &self,
        tool: ForeignTool,
        root: Option<&Path>,
        known: &BTreeMap<PathBuf, Watched>,
    ) -> Result<Vec<Candidate>, String> {
        let mut found = Candidates {
            root,
            found: Vec::new(),
        };
        let home = &self.home;
        let system = self.managed_claude.parent().and_then(Path::parent);
        match tool {
            ForeignTool::Claude => {
                let more = self.managed_claude.with_extension("d");
                found.file(ForeignScope::Managed, self.managed_claude.clone());
                found.folder(ForeignScope::Managed, &more, "json", known)?;
                found.file(ForeignScope::User, home.join(".claude/settings.json"));
                found.in_project(&[".claude/settings.json", ".claude/settings.local.json"]);
            }
            ForeignTool::Opencode => {
                for name in ["config.json", "opencode.json", "opencode.jsonc"] {
                    let path = home.join(".config/opencode").join(name);
                    found.file(ForeignScope::User, path);
                }
                found.in_project(&["opencode.json", "opencode.jsonc"]);
                found.in_project(&[".opencode/opencode.json", ".opencode/opencode.jsonc"]);
            }
            ForeignTool::Codex => {
                if let Some(etc) = system {
                    let folder = etc.join("codex/rules");
                    found.folder(ForeignScope::Managed, &folder, "rules", known)?;
                }
                let folder = home.join(".codex/rules");
                found.folder(ForeignScope::User, &folder, "rules", known)?;
                found.folder_in_project(".codex/rules", "rules", known)?;
            }
            ForeignTool::Gemini => {
                if let Some(etc) = system {
                    let folder = etc.join("gemini-cli/policies");
                    found.folder(ForeignScope::Managed, &folder, "toml", known)?;
                }
                let folder = home.join(".gemini/policies");
                found.folder(ForeignScope::User, &folder, "toml", known)?;
                found.folder_in_project(".gemini/policies", "toml", known)?;
            }
            ForeignTool::Goose => {
                let path = home.join(".config/goose/permission.yaml");
                found.file(ForeignScope::User, path);
            }
        }
        Ok(found.found)
    }
}

/// A list of files that may stand somewhere.
struct Candidates<'a> {
    root: Option<&'a Path>,
    found: Vec<Candidate>,
}

impl Candidates<'_> {
    /// A file that was named before keeps the reach it had.
    fn add(&mut self, path: PathBuf, scope: ForeignScope, within: Option<PathBuf>) {
        if self.found.iter().all(|found| found.path != path) {
            self.found.push(Candidate {
                path,
                scope,
                within,
            });
        }
    }

    fn file(&mut self, scope: ForeignScope, path: PathBuf) {
        self.add(path, scope, None);
    }

    fn in_project(&mut self, names: &[&str]) {
        let Some(root) = self.root.map(Path::to_owned) else {
            return;
        };
        for name in names {
            self.add(root.join(name), ForeignScope::Project, Some(root.clone()));
        }
    }

    fn folder(
        &mut self,
        scope: ForeignScope,
        folder: &Path,
        ending: &str,
        known: &BTreeMap<PathBuf, Watched>,
    ) -> Result<(), String> {
        for path in list(folder, ending, known)? {
            self.add(path, scope, None);
        }
        Ok(())
    }

    fn folder_in_project(
        &mut self,
        name: &str,
        ending: &str,
        known: &BTreeMap<PathBuf, Watched>,
    ) -> Result<(), String> {
        let Some(root) = self.root.map(Path::to_owned) else {
            return Ok(());
        };
        for path in list(&root.join(name), ending, known)? {
            self.add(path, ForeignScope::Project, Some(root.clone()));
        }
        Ok(())
    }
}

/// The files in a folder with this ending, and those that were there.
fn list(
    folder: &Path,
    ending: &str,
    known: &BTreeMap<PathBuf, Watched>,
) -> Result<Vec<PathBuf>, String> {
    let after_it = (Bound::Excluded(folder), Bound::Unbounded);
    let below = known.range::<Path, _>(after_it).map(|(path, _)| path);
    let mut paths: Vec<PathBuf> = below
        .take_while(|path| path.starts_with(folder))
        .filter(|path| path.parent() == Some(folder))
        .cloned()
        .collect();
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    match std::fs::read_dir(folder) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) => {}
        Err(error) => return Err(failed(error)),
        Ok(entries) => {
            for entry in entries {
                let path = entry.map_err(failed)?.path();
                if path.extension().is_some_and(|found| found == ending) {
                    paths.push(path);
                }
                if paths.len() > 2 * RULE_FOLDER_FILES_MAX {
                    return Err(format!("{}: there are too many files", folder.display()));
                }
            }
        }
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}
