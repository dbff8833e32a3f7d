//! All rule files known so far, and the chapters made from them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_core::limits::{RULE_FILES_KEPT, RULE_PLACES_KEPT, RULE_PROBLEMS_MAX};
use countersign_rules::{FileKind, Floor, Place};

use super::RulebookConfig;
use super::chapter::{Chapter, ChapterLayer, LayerAllows, Problem};
use super::disk::is_absent;
use super::foreign::ForeignFiles;
use super::own_file::OwnFile;
use super::project::{PROJECT_FILE, Project};

/// How long a chapter is given out before its files are looked at again.
const CHAPTER_FRESH: Duration = Duration::from_millis(200);

/// The files and chapters. One lock guards it; it is held for a few calls to the file system.
#[derive(Debug)]
pub(super) struct Shelf {
    config: RulebookConfig,
    floor: Arc<Floor>,
    user: OwnFile,
    projects: HashMap<PathBuf, OwnFile>,
    foreign: ForeignFiles,
    trusted: HashSet<(String, String)>,
    chapters: HashMap<String, Kept>,
    /// Rises whenever what counts changed anywhere.
    revision: u64,
}

/// A chapter, and what it was made from.
#[derive(Debug)]
struct Kept {
    chapter: Arc<Chapter>,
    /// What is to be said about the rules of others here.
    problems: Vec<Problem>,
    project: Option<Project>,
    revision: u64,
    looked: Instant,
}

impl Shelf {
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
            chapters: HashMap::new(),
            revision: 0,
        }
    }

    /// The user's file, looked at now.
    pub(super) fn user(&mut self) -> &OwnFile {
        self.refresh_user();
        &self.user
    }

    /// Rises whenever what counts changed anywhere.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// What holds in a working directory. An empty one is not known.
    pub(super) fn chapter(&mut self, cwd: &str) -> Arc<Chapter> {
        if let Some(kept) = self.chapters.get(cwd) {
            let fresh = kept.looked.elapsed() < CHAPTER_FRESH;
            if fresh && kept.revision == self.revision {
                return Arc::clone(&kept.chapter);
            }
        }
        self.look(cwd)
    }

    /// Looks at the files of every place known so far.
    pub(super) fn look_everywhere(&mut self) {
        self.refresh_user();
        let places: Vec<_> = self.chapters.keys().cloned().collect();
        for cwd in places {
            self.look(&cwd);
        }
    }

    /// Says which contents a person trusted.
    pub(super) fn set_trusted(&mut self, trusted: HashSet<(String, String)>) {
        if self.trusted != trusted {
            self.trusted = trusted;
            self.revision += 1;
        }
    }

    /// What a person should know, by file and line.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let projects = self.projects.values();
        let files = std::iter::once(&self.user).chain(projects);
        let mut problems: Vec<_> = files.flat_map(OwnFile::problems).collect();
        let foreign = self.chapters.values().flat_map(|kept| &kept.problems);
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

    /// What holds where there are no files at all.
    pub(super) fn unfiled(mut self, cwd: &str) -> Chapter {
        self.assemble(cwd, None).0
    }

    fn look(&mut self, cwd: &str) -> Arc<Chapter> {
        self.refresh_user();
        let project = self.find_project(cwd);
        self.refresh_projects(project.as_ref());
        let root = project.as_ref().map(|project| project.root.as_path());
        if self.foreign.refresh(self.user.others(), root) {
            self.revision += 1;
        }
        let looked = Instant::now();
        if let Some(kept) = self.chapters.get_mut(cwd) {
            kept.looked = looked;
            let same_project = kept.project == project;
            if same_project && kept.revision == self.revision {
                return Arc::clone(&kept.chapter);
            }
            if !same_project {
                self.revision += 1;
            }
        }
        let (chapter, problems) = self.assemble(cwd, project.as_ref());
        let chapter = Arc::new(chapter);
        self.make_room();
        self.forget_files(project.as_ref());
        let kept = Kept {
            chapter: Arc::clone(&chapter),
            problems,
            project,
            revision: self.revision,
            looked,
        };
        self.chapters.insert(cwd.to_owned(), kept);
        chapter
    }

    fn refresh_user(&mut self) {
        if self.user.refresh() {
            self.revision += 1;
        }
    }

    fn find_project(&self, cwd: &str) -> Option<Project> {
        let has_rules = |folder: &Path| {
            let file = folder.join(PROJECT_FILE);
            if file == self.config.user_file {
                return false;
            }
            self.projects.contains_key(folder) || !is_absent(&file)
        };
        let cwd = Path::new(cwd);
        cwd.is_absolute().then(|| Project::find(cwd, has_rules))?
    }

    fn refresh_projects(&mut self, project: Option<&Project>) {
        let Some(project) = project else {
            return;
        };
        for root in std::iter::once(&project.root).chain(&project.outer) {
            let file = root.join(PROJECT_FILE);
            if file == self.config.user_file {
                continue;
            }
            let held = self.projects.entry(root.clone());
            let held =
                held.or_insert_with(|| OwnFile::new(FileKind::Project, file, Some(root.clone())));
            let changed = held.refresh();
            if !held.matters() {
                self.projects.remove(root);
            }
            if changed {
                self.revision += 1;
            }
        }
    }

    fn assemble(&mut self, cwd: &str, project: Option<&Project>) -> (Chapter, Vec<Problem>) {
        let mut layers: Vec<ChapterLayer> = self.user.layer(true).into_iter().collect();
        let mut untrusted = Vec::new();
        if let Some(project) = project {
            if let Some(file) = self.projects.get(&project.root) {
                let loosens = file.loosens();
                let unknown = loosens.filter(|content| !self.trusted.contains(content));
                layers.extend(file.layer(unknown.is_none()));
                untrusted.extend(unknown);
            }
            let outer = project.outer.iter();
            layers.extend(outer.filter_map(|root| self.outer_layer(root)));
        }
        let root = project.map(|project| project.root.as_path());
        let others = self.user.others();
        let additions = self.foreign.additions(others, root, &self.trusted);
        layers.extend(additions.layers);
        untrusted.extend(additions.untrusted);
        let chapter = Chapter {
            place: self.place(cwd, project),
            project: project.and_then(|project| text(&project.identity)),
            suspended: layers.iter().find_map(suspended),
            layers,
            floor: Arc::clone(&self.floor),
            untrusted,
        };
        (chapter, additions.problems)
    }

    /// The denies and asks of a project further out.
    fn outer_layer(&self, root: &Path) -> Option<ChapterLayer> {
        self.projects
            .get(root)?
            .outer_layer(&root.to_string_lossy())
    }

    fn place(&self, cwd: &str, project: Option<&Project>) -> Place {
        let cwd = if cwd.starts_with('/') { cwd } else { "" };
        let root = project.and_then(|project| text(&project.root));
        Place {
            cwd: cwd.to_owned(),
            // A folder that belongs to no project is one.
            project: root.unwrap_or_else(|| cwd.to_owned()),
            home: self.config.home.to_string_lossy().into_owned(),
            ignores_case: cfg!(target_os = "macos"),
        }
    }

    /// Forgets the place that was looked at longest ago, if there are too many.
    fn make_room(&mut self) {
        if self.chapters.len() < RULE_PLACES_KEPT {
            return;
        }
        let oldest = self.chapters.iter().min_by_key(|(_, kept)| kept.looked);
        if let Some(cwd) = oldest.map(|(cwd, _)| cwd.clone()) {
            self.chapters.remove(&cwd);
        }
    }

    /// Forgets files that count for none of the places, if there are too many. They are read again
    /// when somebody asks there; those that left something behind are the last to go.
    fn forget_files(&mut self, asked: Option<&Project>) {
        let surplus = self.projects.len().saturating_sub(RULE_FILES_KEPT);
        if surplus == 0 {
            return;
        }
        let places = self.chapters.values();
        let projects = places.filter_map(|kept| kept.project.as_ref()).chain(asked);
        let used: HashSet<&PathBuf> = projects
            .flat_map(|project| std::iter::once(&project.root).chain(&project.outer))
            .collect();
        let unused = self
            .projects
            .iter()
            .filter(|(root, _)| !used.contains(root));
        let mut unused: Vec<(bool, PathBuf)> = unused
            .map(|(root, file)| (file.failure().is_some(), root.clone()))
            .collect();
        unused.sort();
        for (_, root) in unused.into_iter().take(surplus) {
            self.projects.remove(&root);
        }
    }
}

/// Why a layer suspends every allow, if it does.
fn suspended(layer: &ChapterLayer) -> Option<String> {
    match &layer.allows {
        LayerAllows::Suspended(why) => Some(why.clone()),
        LayerAllows::Count | LayerAllows::Untrusted => None,
    }
}

/// The host's own files, by the names they were given and by their real ones.
fn floor(host_paths: &[PathBuf]) -> Floor {
    let mut paths: Vec<String> = host_paths
        .iter()
        .flat_map(|path| [Some(path.clone()), real(path)])
        .flatten()
        .filter_map(|path| text(&path))
        .collect();
    paths.sort();
    paths.dedup();
    Floor { host_paths: paths }
}

/// The real path, also of a file that is yet to be made.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })
}

fn text(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}
