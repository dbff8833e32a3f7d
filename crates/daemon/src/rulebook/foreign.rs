//! The rules of other tools: where their files are, and what they add to a chapter.
//!
//! Invariant: what stands in a project loosens nothing until a person trusted exactly that content.

use std::collections::{BTreeMap, HashMap, HashSet};
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
use super::whereabouts::{Candidate, Whereabouts};

/// Files that are watched before all of them are forgotten and read again.
const WATCHED_MAX: usize = 16 * RULE_FOLDER_FILES_MAX;

/// Policies that are kept before all of them are forgotten and read again.
const POLICIES_MAX: usize = 256;

/// What is told of one policy; more would not be read.
const PROBLEMS_MAX: usize = 100;

/// Every foreign file that was looked at.
#[derive(Debug)]
pub(super) struct ForeignFiles {
    whereabouts: Whereabouts,
    files: BTreeMap<PathBuf, Watched>,
    /// What was last understood of each file.
    good: BTreeMap<PathBuf, Page>,
    /// What was read from exactly these contents.
    policies: HashMap<Vec<Page>, Arc<Policy>>,
}

/// What the rules of others add to a chapter.
#[derive(Debug, Default)]
pub(super) struct Additions {
    pub(super) layers: Vec<ChapterLayer>,
    pub(super) problems: Vec<Problem>,
    pub(super) untrusted: Vec<(String, String)>,
}

/// A text that counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Page {
    tool: ForeignTool,
    path: String,
    scope: ForeignScope,
    text: Arc<str>,
    digest: Arc<str>,
}

/// What some texts say together, ready for chapters.
#[derive(Debug)]
struct Policy {
    ranked: Arc<RuleSet>,
    widened: Arc<RuleSet>,
    /// Denies and asks alone.
    strict: Arc<RuleSet>,
    /// The files that allow something.
    loosening: HashSet<String>,
    problems: Vec<Problem>,
    broken: Option<String>,
}

impl ForeignFiles {
    /// Looks at nothing yet.
    pub(super) fn new(config: &RulebookConfig) -> Self {
        Self {
            whereabouts: Whereabouts::new(config),
            files: BTreeMap::new(),
            good: BTreeMap::new(),
            policies: HashMap::new(),
        }
    }

    /// Looks at every file that counts for a project; says whether anything changed.
    pub(super) fn refresh(&mut self, others: Others, root: Option<&Path>) -> bool {
        if self.files.len() > WATCHED_MAX {
            self.files.clear();
            self.good.clear();
        }
        let mut changed = false;
        for tool in ForeignTool::ALL
            .into_iter()
            .filter(|tool| others.has(*tool))
        {
            for found in self
                .whereabouts
                .find(tool, root, &self.files)
                .unwrap_or_default()
            {
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
        &mut self,
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
        &mut self,
        tool: ForeignTool,
        root: Option<&Path>,
        trusted: &HashSet<(String, String)>,
        additions: &mut Additions,
    ) {
        let candidates = match self.whereabouts.find(tool, root, &self.files) {
            Ok(candidates) => candidates,
            Err(why) => return additions.suspend(tool, why),
        };
        let (mut counting, mut strange) = (Vec::new(), Vec::new());
        for candidate in candidates {
            match self.page(tool, &candidate) {
                Ok(None) => {}
                Ok(Some(page)) => {
                    let ours =
                        page.scope != ForeignScope::Project || trusted.contains(&page.content());
                    let pages = if ours { &mut counting } else { &mut strange };
                    pages.push(page);
                }
                Err(why) => additions.suspend(tool, why),
            }
            additions.layers.extend(self.remembered(&candidate.path));
        }
        let policy = self.policy(tool, &counting);
        additions.take(&policy, LayerAllows::Count);
        let policy = self.policy(tool, &strange);
        let unknown = strange
            .iter()
            .filter(|page| policy.loosening.contains(&page.path));
        additions.untrusted.extend(unknown.map(Page::content));
        additions.take(&policy, LayerAllows::Untrusted);
    }

    /// The text of a file, if there is one. What can be understood is remembered.
    fn page(&mut self, tool: ForeignTool, candidate: &Candidate) -> Result<Option<Page>, String> {
        let path = candidate.path.display().to_string();
        match self.files.get(&candidate.path).map(Watched::content) {
            None | Some(Content::Absent) => {
                self.good.remove(&candidate.path);
                Ok(None)
            }
            Some(Content::Unreadable(why)) => Err(format!("{path}: {why}")),
            Some(Content::Text { text, digest }) => {
                let page = Page {
                    tool,
                    path,
                    scope: candidate.scope,
                    text: Arc::clone(text),
                    digest: Arc::clone(digest),
                };
                if self
                    .policy(tool, std::slice::from_ref(&page))
                    .broken
                    .is_none()
                {
                    self.good.insert(candidate.path.clone(), page.clone());
                }
                Ok(Some(page))
            }
        }
    }

    /// The denies and asks that a file had before it broke.
    fn remembered(&mut self, path: &Path) -> Option<ChapterLayer> {
        let page = self.good.get(path)?.clone();
        let now = self.files.get(path).map(Watched::content);
        if matches!(now, Some(Content::Text { digest, .. }) if *digest == page.digest) {
            return None;
        }
        let policy = self.policy(page.tool, &[page]);
        Some(ChapterLayer {
            rules: Arc::clone(&policy.strict),
            allows: LayerAllows::Count,
        })
    }

    /// What some texts say together.
    fn policy(&mut self, tool: ForeignTool, pages: &[Page]) -> Arc<Policy> {
        if let Some(known) = self.policies.get(pages) {
            return Arc::clone(known);
        }
        if self.policies.len() >= POLICIES_MAX {
            self.policies.clear();
        }
        let policy = Arc::new(Policy::of(&read(tool, pages)));
        self.policies.insert(pages.to_vec(), Arc::clone(&policy));
        policy
    }
}

/// What the user's own files of a tool, and an administrator's, say now. What stands in projects is
/// not looked at.
pub fn foreign_policy(config: &RulebookConfig, tool: ForeignTool) -> ForeignPolicy {
    let mut files = ForeignFiles::new(config);
    let mut unreadable = None;
    let candidates = files
        .whereabouts
        .find(tool, None, &files.files)
        .unwrap_or_else(|why| {
            unreadable = Some(why);
            Vec::new()
        });
    let mut pages = Vec::new();
    for candidate in &candidates {
        let mut watched = Watched::new(candidate.path.clone(), None);
        watched.refresh();
        files.files.insert(candidate.path.clone(), watched);
        match files.page(tool, candidate) {
            Ok(page) => pages.extend(page),
            Err(why) => unreadable = unreadable.or(Some(why)),
        }
    }
    let mut policy = read(tool, &pages);
    policy.broken = policy.broken.or(unreadable);
    policy
}

fn read(tool: ForeignTool, pages: &[Page]) -> ForeignPolicy {
    let files: Vec<_> = pages
        .iter()
        .map(|page| ForeignFile {
            source: &page.path,
            scope: page.scope,
            text: &page.text,
        })
        .collect();
    read_foreign(tool, &files)
}

impl Page {
    /// What a person trusts.
    fn content(&self) -> (String, String) {
        (self.path.clone(), self.digest.to_string())
    }
}

impl Policy {
    fn of(read: &ForeignPolicy) -> Self {
        let is_allow = |entry: &&Entry| entry.effect == Effect::Allow;
        let strict = read.entries.iter().filter(|entry| !is_allow(entry));
        let allows = read.entries.iter().filter(is_allow);
        let dropped = read.dropped.iter().take(PROBLEMS_MAX);
        let dropped = dropped.map(|found| Problem {
            file: found.source.to_string(),
            line: found.line,
            message: format!("`{}`: {}", found.text, found.reason),
            suspends: false,
        });
        let broken = read.broken.iter();
        let broken = broken.map(|why| suspension(read.tool, why.clone()));
        Self {
            ranked: set(&read.entries),
            widened: set(&read.widened),
            strict: set(strict.chain(&read.widened)),
            loosening: allows
                .map(|entry| entry.origin.source.to_string())
                .collect(),
            problems: broken.chain(dropped).collect(),
            broken: read.broken.clone(),
        }
    }
}

/// That a policy was not understood.
fn suspension(tool: &str, why: String) -> Problem {
    Problem {
        file: format!("rules of {tool}"),
        line: None,
        message: why,
        suspends: true,
    }
}

impl Additions {
    fn take(&mut self, policy: &Policy, allows: LayerAllows) {
        let suspended = policy.broken.clone().map(LayerAllows::Suspended);
        if suspended.is_some() || policy.ranked.entries().next().is_some() {
            self.layers.push(ChapterLayer {
                rules: Arc::clone(&policy.ranked),
                allows: suspended.unwrap_or(allows),
            });
        }
        if policy.widened.entries().next().is_some() {
            self.layers.push(ChapterLayer {
                rules: Arc::clone(&policy.widened),
                allows: LayerAllows::Count,
            });
        }
        self.problems.extend(policy.problems.iter().cloned());
    }

    /// Nothing is allowed, because a file could not be read at all.
    fn suspend(&mut self, tool: ForeignTool, why: String) {
        self.layers.push(ChapterLayer {
            rules: Arc::default(),
            allows: LayerAllows::Suspended(why.clone()),
        });
        self.problems.push(suspension(tool.as_str(), why));
    }
}

fn set<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Arc<RuleSet> {
    let mut rules = RuleSet::default();
    for entry in entries {
        rules.insert(entry.clone());
    }
    rules.into()
}
