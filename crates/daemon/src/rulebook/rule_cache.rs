//! The cache of rule files, and of the rules of each working directory made from them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_core::limits::{RULE_FILES_KEPT, RULE_PLACES_KEPT, RULE_PROBLEMS_MAX};
use countersign_rules::{FileKind, Floor, LayerAllows, RequestPlace};

use super::RulebookConfig;
use super::dir_rules::{DirRules, RuleFileProblem, RuleLayer};
use super::disk::is_absent;
use super::foreign::ForeignFiles;
use super::own_file::OwnFile;
use super::project::{PROJECT_FILE, ProjectRoot};

/// How long the rules of a directory are given out before its files are checked again.
const RULES_FRESH: Duration = Duration::from_millis(200);

/// The files and the rules of each directory. One lock guards it; it is held for a few calls to the file system.
#[derive(Debug)]
pub(super) struct RuleCache {
    config: RulebookConfig,
    floor: Arc<Floor>,
    user: OwnFile,
    projects: HashMap<PathBuf, OwnFile>,
    foreign: ForeignFiles,
    trusted: HashSet<(String, String)>,
    dirs: HashMap<String, CachedRules>,
    /// Rises whenever the rules of any directory changed.
    revision: u64,
}

/// The rules of a directory, and what they were made from.
#[derive(Debug)]
struct CachedRules {
    rules: Arc<DirRules>,
    /// Problems with the rules of other tools here.
    problems: Vec<RuleFileProblem>,
    project: Option<ProjectRoot>,
    revision: u64,
    checked_at: Instant,
}

impl RuleCache {
    /// Reads nothing yet.
    pub(super) fn new(config: RulebookConfig) -> Self {
        let user = OwnFile::new(FileKind::User, config.user_file.clone(), None);
        let floor = Arc::new(floor(&config.host_paths));
        let foreign = ForeignFiles::new(&config);
        Self {
            config,
            floor,
            user,
            projects: HashMap::new(),
            foreign,
            trusted: HashSet::new(),
            dirs: HashMap::new(),
            revision: 0,
        }
    }

    /// The user's file, looked at now.
    pub(super) fn user(&mut self) -> &OwnFile {
        self.refresh_user();
        &self.user
    }

    /// Rises whenever the rules of any directory changed.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The rules of a working directory; an empty path stands for an unknown one.
    pub(super) fn rules_for(&mut self, cwd: &str) -> Arc<DirRules> {
        if let Some(cached) = self.dirs.get(cwd) {
            // Both: time, because files change without anybody saying so; and the revision, because
            // another directory's check may just have found that a shared file changed.
            let fresh = cached.checked_at.elapsed() < RULES_FRESH;
            if fresh && cached.revision == self.revision {
                return Arc::clone(&cached.rules);
            }
        }
        self.refresh_dir(cwd)
    }

    /// Looks at the files of every place known so far.
    pub(super) fn refresh_all(&mut self) {
        self.refresh_user();
        let places: Vec<_> = self.dirs.keys().cloned().collect();
        for cwd in places {
            self.refresh_dir(&cwd);
        }
    }

    /// Says which contents a person trusted.
    pub(super) fn set_trusted(&mut self, trusted: HashSet<(String, String)>) {
        // Only if it changed: every new revision has all open asks judged again.
        if self.trusted != trusted {
            self.trusted = trusted;
            self.revision += 1;
        }
    }

    /// What a person should know, by file and line.
    pub(super) fn problems(&self) -> Vec<RuleFileProblem> {
        let projects = self.projects.values();
        let files = std::iter::once(&self.user).chain(projects);
        let mut problems: Vec<_> = files.flat_map(OwnFile::problems).collect();
        let foreign = self.dirs.values().flat_map(|cached| &cached.problems);
        problems.extend(foreign.cloned());
        problems.sort();
        problems.dedup();
        if problems.len() > RULE_PROBLEMS_MAX {
            // What suspends is told first.
            problems.sort_by_key(|problem| !problem.suspends);
            problems.truncate(RULE_PROBLEMS_MAX);
        }
        problems
    }

    /// The rules where there are no files at all.
    pub(super) fn without_files(mut self, cwd: &str) -> DirRules {
        self.assemble_rules(cwd, None).0
    }

    fn refresh_dir(&mut self, cwd: &str) -> Arc<DirRules> {
        // The user's file first: it says which other tools' files are read at all.
        self.refresh_user();
        let project = self.find_project(cwd);
        self.refresh_projects(project.as_ref());
        let root = project.as_ref().map(|project| project.root.as_path());
        if self.foreign.refresh(self.user.foreign_tools(), root) {
            self.revision += 1;
        }
        // Taken after the files were read, which can wait for a disk: else what was just read would
        // already count as old.
        let looked = Instant::now();
        if let Some(cached) = self.dirs.get_mut(cwd) {
            cached.checked_at = looked;
            let same_project = cached.project == project;
            if same_project && cached.revision == self.revision {
                return Arc::clone(&cached.rules);
            }
            // A folder that became a project, or stopped being one, changes rules without any file.
            if !same_project {
                self.revision += 1;
            }
        }
        let (rules, problems) = self.assemble_rules(cwd, project.as_ref());
        let rules = Arc::new(rules);
        self.evict_oldest_dir();
        self.evict_unused_files(project.as_ref());
        let cached = CachedRules {
            rules: Arc::clone(&rules),
            problems,
            project,
            revision: self.revision,
            checked_at: looked,
        };
        self.dirs.insert(cwd.to_owned(), cached);
        rules
    }

    fn refresh_user(&mut self) {
        if self.user.refresh() {
            self.revision += 1;
        }
    }

    fn find_project(&self, cwd: &str) -> Option<ProjectRoot> {
        let cwd = Path::new(cwd);
        cwd.is_absolute()
            .then(|| ProjectRoot::find(cwd, |folder| self.has_rules(folder)))?
    }

    fn has_rules(&self, folder: &Path) -> bool {
        let file = folder.join(PROJECT_FILE);
        // The user's own file may be at this very path below the home. It counts everywhere, and
        // must not make a project of the whole home.
        if file == self.config.user_file {
            return false;
        }
        // A file that was removed still counts here: its denies hold until the host restarts.
        self.projects.contains_key(folder) || !is_absent(&file)
    }

    fn refresh_projects(&mut self, project: Option<&ProjectRoot>) {
        let Some(project) = project else {
            return;
        };
        for root in std::iter::once(&project.root).chain(&project.outer) {
            let path = root.join(PROJECT_FILE);
            if path == self.config.user_file {
                continue;
            }
            let file = self.projects.entry(root.clone());
            let file =
                file.or_insert_with(|| OwnFile::new(FileKind::Project, path, Some(root.clone())));
            let changed = file.refresh();
            // Agents name folders, and most have no rules: an entry for each would grow without
            // bound.
            if !file.has_effect() {
                self.projects.remove(root);
            }
            if changed {
                self.revision += 1;
            }
        }
    }

    fn assemble_rules(
        &mut self,
        cwd: &str,
        project: Option<&ProjectRoot>,
    ) -> (DirRules, Vec<RuleFileProblem>) {
        let mut layers: Vec<RuleLayer> = self.user.layer(true).into_iter().collect();
        let mut untrusted = Vec::new();
        if let Some(project) = project {
            if let Some(file) = self.projects.get(&project.root) {
                let untrusted_content = file.untrusted_content();
                let unknown = untrusted_content.filter(|content| !self.trusted.contains(content));
                layers.extend(file.layer(unknown.is_none()));
                untrusted.extend(unknown);
            }
            // Without their allows: whoever trusted a file further out trusted it for its own
            // project.
            let outer = project.outer.iter();
            layers.extend(outer.filter_map(|root| self.outer_layer(root)));
        }
        let root = project.map(|project| project.root.as_path());
        let others = self.user.foreign_tools();
        let additions = self.foreign.layers_for(others, root, &self.trusted);
        layers.extend(additions.layers);
        untrusted.extend(additions.untrusted);
        let rules = DirRules {
            place: self.place(cwd, project),
            project: project.and_then(|project| to_text(&project.identity)),
            suspended: layers.iter().find_map(suspension_of),
            layers,
            floor: Arc::clone(&self.floor),
            untrusted,
        };
        (rules, additions.problems)
    }

    /// The denies and asks of a project further out.
    fn outer_layer(&self, root: &Path) -> Option<RuleLayer> {
        self.projects
            .get(root)?
            .outer_layer(&root.to_string_lossy())
    }

    fn place(&self, cwd: &str, project: Option<&ProjectRoot>) -> RequestPlace {
        let cwd = if cwd.starts_with('/') { cwd } else { "" };
        let root = project.and_then(|project| to_text(&project.root));
        RequestPlace {
            cwd: cwd.to_owned(),
            // A folder that belongs to no project is one.
            project: root.unwrap_or_else(|| cwd.to_owned()),
            home: self.config.home.to_string_lossy().into_owned(),
            ignores_case: cfg!(target_os = "macos"),
            in_sandbox: false,
        }
    }

    /// Forgets the place that was looked at longest ago, if there are too many.
    fn evict_oldest_dir(&mut self) {
        if self.dirs.len() < RULE_PLACES_KEPT {
            return;
        }
        let oldest = self.dirs.iter().min_by_key(|(_, cached)| cached.checked_at);
        if let Some(cwd) = oldest.map(|(cwd, _)| cwd.clone()) {
            self.dirs.remove(&cwd);
        }
    }

    /// Forgets files that count for none of the places, if there are too many. They are read again
    /// when somebody asks there; those that left something behind are the last to go.
    fn evict_unused_files(&mut self, asked: Option<&ProjectRoot>) {
        let surplus = self.projects.len().saturating_sub(RULE_FILES_KEPT);
        if surplus == 0 {
            return;
        }
        let places = self.dirs.values();
        let projects = places
            .filter_map(|cached| cached.project.as_ref())
            .chain(asked);
        let used: HashSet<&PathBuf> = projects
            .flat_map(|project| std::iter::once(&project.root).chain(&project.outer))
            .collect();
        let unused = self
            .projects
            .iter()
            .filter(|(root, _)| !used.contains(root));
        let mut unused: Vec<(bool, PathBuf)> = unused
            .map(|(root, file)| (file.problems_now().is_some(), root.clone()))
            .collect();
        unused.sort();
        for (_, root) in unused.into_iter().take(surplus) {
            self.projects.remove(&root);
        }
    }
}

/// Why a layer suspends every allow, if it does.
fn suspension_of(layer: &RuleLayer) -> Option<String> {
    match &layer.allows {
        LayerAllows::Suspended(why) => Some(why.clone()),
        LayerAllows::Count | LayerAllows::Untrusted => None,
    }
}

/// The host's own files, by the names they were given and by their real ones.
fn floor(host_paths: &[PathBuf]) -> Floor {
    let mut paths: Vec<String> = host_paths
        .iter()
        .flat_map(|path| [Some(path.clone()), real_path(path)])
        .flatten()
        .filter_map(|path| to_text(&path))
        .collect();
    paths.sort();
    paths.dedup();
    Floor { host_paths: paths }
}

/// The real path, also of a file that is yet to be made.
fn real_path(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })
}

fn to_text(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}
