//! The rules of other tools: where their files are, and what they add to a chapter.
//!
//! Invariant: what stands in a project loosens nothing until a person trusted exactly that content.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_core::limits::RULE_FOLDER_FILES_MAX;
use countersign_rules::{
    Effect, Entry, ForeignFile, ForeignPolicy, ForeignScope, ForeignTool, Others, RuleSet,
    read_foreign,
};

use super::RulebookConfig;
use super::chapter::{ChapterLayer, LayerAllows, Problem};
use super::disk::{Content, Watched};

/// Files that are watched before all of them are forgotten and read again.
const WATCHED_MAX: usize = 16 * RULE_FOLDER_FILES_MAX;

/// Every foreign file that was looked at.
#[derive(Debug)]
pub(super) struct ForeignFiles {
    home: PathBuf,
    managed_claude: PathBuf,
    files: BTreeMap<PathBuf, Watched>,
}

/// What the rules of others add to a chapter.
#[derive(Debug, Default)]
pub(super) struct Additions {
    pub(super) layers: Vec<ChapterLayer>,
    pub(super) problems: Vec<Problem>,
    pub(super) untrusted: Vec<(String, String)>,
}

/// A file that may stand somewhere, and whose it is.
struct Candidate {
    path: PathBuf,
    scope: ForeignScope,
    within: Option<PathBuf>,
}

/// A text that counts.
struct Page<'a> {
    path: String,
    scope: ForeignScope,
    text: &'a str,
    digest: &'a str,
}

impl ForeignFiles {
    /// Looks at nothing yet.
    pub(super) fn new(config: &RulebookConfig) -> Self {
        Self {
            home: config.home.clone(),
            managed_claude: config.managed_claude.clone(),
            files: BTreeMap::new(),
        }
    }

    /// Looks at every file that counts for a project; says whether anything changed.
    pub(super) fn refresh(&mut self, others: Others, root: Option<&Path>) -> bool {
        if self.files.len() > WATCHED_MAX {
            self.files.clear();
        }
        let mut changed = false;
        for tool in ForeignTool::ALL
            .into_iter()
            .filter(|tool| others.has(*tool))
        {
            for found in self.candidates(tool, root).unwrap_or_default() {
                let Candidate { path, within, .. } = found;
                let known = self.files.entry(path.clone());
                changed |= known
                    .or_insert_with(|| Watched::new(path, within))
                    .refresh();
            }
        }
        changed
    }

    /// What the files, as they were last read, add for a project.
    pub(super) fn additions(
        &self,
        others: Others,
        root: Option<&Path>,
        trusted: &HashSet<(String, String)>,
    ) -> Additions {
        let mut additions = Additions::default();
        for tool in ForeignTool::ALL
            .into_iter()
            .filter(|tool| others.has(*tool))
        {
            self.add(tool, root, trusted, &mut additions);
        }
        additions
    }

    fn add(
        &self,
        tool: ForeignTool,
        root: Option<&Path>,
        trusted: &HashSet<(String, String)>,
        additions: &mut Additions,
    ) {
        let (mut counting, mut strange) = (Vec::new(), Vec::new());
        let mut unreadable = None;
        let candidates = self.candidates(tool, root).unwrap_or_else(|why| {
            unreadable = Some(why);
            Vec::new()
        });
        for candidate in candidates {
            match self.page(&candidate) {
                Ok(None) => {}
                Ok(Some(page)) => {
                    let content = (page.path.clone(), page.digest.to_owned());
                    let ours = page.scope != ForeignScope::Project || trusted.contains(&content);
                    let pages = if ours { &mut counting } else { &mut strange };
                    pages.push(page);
                }
                Err(why) => unreadable = unreadable.or(Some(why)),
            }
        }
        let mut policy = read(tool, &counting);
        policy.broken = policy.broken.or(unreadable);
        additions.take(&policy, LayerAllows::Count);
        if strange.is_empty() {
            return;
        }
        let policy = read(tool, &strange);
        let loosens = |page: &&Page<'_>| {
            let mut allows = policy.entries.iter();
            allows.any(|e| e.effect == Effect::Allow && *e.origin.source == *page.path)
        };
        let unknown = strange.iter().filter(loosens);
        let contents = unknown.map(|page| (page.path.clone(), page.digest.to_owned()));
        additions.untrusted.extend(contents);
        additions.take(&policy, LayerAllows::Untrusted);
    }

    /// The text of a file, if there is one.
    fn page(&self, candidate: &Candidate) -> Result<Option<Page<'_>>, String> {
        let path = candidate.path.display().to_string();
        match self.files.get(&candidate.path).map(Watched::content) {
            None | Some(Content::Absent) => Ok(None),
            Some(Content::Unreadable(why)) => Err(format!("{path}: {why}")),
            Some(Content::Text { text, digest }) => Ok(Some(Page {
                path,
                scope: candidate.scope,
                text,
                digest,
            })),
        }
    }

    /// Where a tool keeps its rules, widest first.
    fn candidates(&self, tool: ForeignTool, root: Option<&Path>) -> Result<Vec<Candidate>, String> {
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
                found.folder(ForeignScope::Managed, &more, "json", &self.files)?;
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
                    found.folder(ForeignScope::Managed, &folder, "rules", &self.files)?;
                }
                let folder = home.join(".codex/rules");
                found.folder(ForeignScope::User, &folder, "rules", &self.files)?;
                found.folder_in_project(".codex/rules", "rules", &self.files)?;
            }
            ForeignTool::Gemini => {
                if let Some(etc) = system {
                    let folder = etc.join("gemini-cli/policies");
                    found.folder(ForeignScope::Managed, &folder, "toml", &self.files)?;
                }
                let folder = home.join(".gemini/policies");
                found.folder(ForeignScope::User, &folder, "toml", &self.files)?;
                found.folder_in_project(".gemini/policies", "toml", &self.files)?;
            }
            ForeignTool::Goose => {
                let path = home.join(".config/goose/permission.yaml");
                found.file(ForeignScope::User, path);
            }
        }
        Ok(found.found)
    }
}

/// What the user's and the administrator's files of one tool say, whether they are switched on or
/// not. What stands in projects is left out: it is not theirs to say for other places.
pub fn foreign_policy(config: &RulebookConfig, tool: ForeignTool) -> ForeignPolicy {
    let mut files = ForeignFiles::new(config);
    let candidates = files.candidates(tool, None);
    let (candidates, mut unreadable) = match candidates {
        Ok(candidates) => (candidates, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    for found in &candidates {
        let mut watched = Watched::new(found.path.clone(), None);
        watched.refresh();
        files.files.insert(found.path.clone(), watched);
    }
    let mut pages = Vec::new();
    for candidate in &candidates {
        match files.page(candidate) {
            Ok(page) => pages.extend(page),
            Err(why) => unreadable = unreadable.or(Some(why)),
        }
    }
    let mut policy = read(tool, &pages);
    policy.broken = policy.broken.or(unreadable);
    policy
}

fn read(tool: ForeignTool, pages: &[Page<'_>]) -> ForeignPolicy {
    let files: Vec<_> = pages
        .iter()
        .map(|page| ForeignFile {
            source: &page.path,
            scope: page.scope,
            text: page.text,
        })
        .collect();
    read_foreign(tool, &files)
}

impl Additions {
    fn take(&mut self, policy: &ForeignPolicy, allows: LayerAllows) {
        let broken = policy
            .broken
            .as_ref()
            .map(|why| LayerAllows::Suspended(why.clone()));
        let suspends = broken.is_some();
        let layer = |entries: &[Entry], allows| ChapterLayer {
            rules: set(entries),
            allows,
        };
        if suspends || !policy.entries.is_empty() {
            let allows = broken.unwrap_or(allows);
            self.layers.push(layer(&policy.entries, allows));
        }
        if !policy.widened.is_empty() {
            self.layers.push(layer(&policy.widened, LayerAllows::Count));
        }
        self.problems
            .extend(policy.broken.iter().map(|why| Problem {
                file: format!("rules of {}", policy.tool),
                line: None,
                message: why.clone(),
                suspends: true,
            }));
        self.problems
            .extend(policy.dropped.iter().map(|found| Problem {
                file: found.source.to_string(),
                line: found.line,
                message: format!("`{}`: {}", found.text, found.reason),
                suspends: false,
            }));
    }
}

fn set(entries: &[Entry]) -> Arc<RuleSet> {
    let mut rules = RuleSet::default();
    for entry in entries {
        rules.insert(entry.clone());
    }
    rules.into()
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
    let before = known.keys().filter(|path| path.parent() == Some(folder));
    let mut paths: Vec<PathBuf> = before.cloned().collect();
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
