//! The rules of other tools: where their files are, and what they add to the rules of a directory.
//!
//! Invariant: what stands in a project loosens nothing until a person trusted exactly that content.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_core::limits::RULE_FOLDER_FILES_MAX;
use countersign_rules::{
    Effect, ForeignFile, ForeignPolicy, ForeignScope, ForeignSwitches, ForeignTool, LayerAllows,
    RuleEntry, RuleSet, read_foreign,
};

use super::RulebookConfig;
use super::dir_rules::{RuleFileProblem, RuleLayer};
use super::disk::{FileContent, WatchedFile};
use super::search_paths::{PolicyFile, SearchPaths};

/// Files that are watched before all of them are forgotten and read again.
const WATCHED_MAX: usize = 16 * RULE_FOLDER_FILES_MAX;

/// Policies that are kept before all of them are forgotten and read again.
const POLICIES_MAX: usize = 256;

/// What is told of one policy; more would not be read.
const PROBLEMS_MAX: usize = 100;

/// Every foreign file that was looked at.
#[derive(Debug)]
pub(super) struct ForeignFiles {
    search_paths: SearchPaths,
    files: BTreeMap<PathBuf, WatchedFile>,
    /// What was last understood of each file.
    last_good: BTreeMap<PathBuf, PolicySource>,
    /// What was read from exactly these contents.
    policies: HashMap<Vec<PolicySource>, Arc<ParsedPolicy>>,
}

/// What the rules of other tools add to the rules of a directory.
#[derive(Debug, Default)]
pub(super) struct PolicyLayers {
    pub(super) layers: Vec<RuleLayer>,
    pub(super) problems: Vec<RuleFileProblem>,
    pub(super) untrusted: Vec<(String, String)>,
}

/// One policy file of another tool, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PolicySource {
    tool: ForeignTool,
    path: String,
    scope: ForeignScope,
    text: Arc<str>,
    digest: Arc<str>,
}

/// What some texts say together, as layers need it.
#[derive(Debug)]
struct ParsedPolicy {
    ranked: Arc<RuleSet>,
    widened: Arc<RuleSet>,
    /// Denies and asks alone.
    strict: Arc<RuleSet>,
    /// The files that allow something.
    loosening: HashSet<String>,
    problems: Vec<RuleFileProblem>,
    broken: Option<String>,
}

impl ForeignFiles {
    /// Looks at nothing yet.
    pub(super) fn new(config: &RulebookConfig) -> Self {
        Self {
            search_paths: SearchPaths::new(config),
            files: BTreeMap::new(),
            last_good: BTreeMap::new(),
            policies: HashMap::new(),
        }
    }

    /// Looks at every file that counts for a project; says whether anything changed.
    pub(super) fn refresh(&mut self, others: ForeignSwitches, root: Option<&Path>) -> bool {
        // Agents name the folders, so nothing bounds how many files are met. Forgetting all of them
        // costs one more read of each, and what was last understood of a broken one.
        if self.files.len() > WATCHED_MAX {
            self.files.clear();
            self.last_good.clear();
        }
        let mut changed = false;
        for tool in ForeignTool::ALL
            .into_iter()
            .filter(|tool| others.has(*tool))
        {
            for found in self
                .search_paths
                .find_files(tool, root, &self.files)
                // The error is met again in `add_tool`, where it suspends what would be allowed.
                .unwrap_or_default()
            {
                let PolicyFile { path, within, .. } = found;
                let known = self.files.entry(path.clone());
                changed |= known
                    .or_insert_with(|| WatchedFile::new(path, within))
                    .refresh();
            }
        }
        changed
    }

    /// What the files, as they were last read, add for a project.
    pub(super) fn layers_for(
        &mut self,
        others: ForeignSwitches,
        root: Option<&Path>,
        trusted: &HashSet<(String, String)>,
    ) -> PolicyLayers {
        let mut additions = PolicyLayers::default();
        for tool in ForeignTool::ALL
            .into_iter()
            .filter(|tool| others.has(*tool))
        {
            self.add_tool(tool, root, trusted, &mut additions);
        }
        additions
    }

    fn add_tool(
        &mut self,
        tool: ForeignTool,
        root: Option<&Path>,
        trusted: &HashSet<(String, String)>,
        additions: &mut PolicyLayers,
    ) {
        let candidates = match self.search_paths.find_files(tool, root, &self.files) {
            Ok(candidates) => candidates,
            Err(why) => return additions.suspend(tool, why),
        };
        let (mut counting, mut strange) = (Vec::new(), Vec::new());
        for candidate in candidates {
            match self.load_source(tool, &candidate) {
                Ok(None) => {}
                Ok(Some(source)) => {
                    let ours = source.scope != ForeignScope::Project
                        || trusted.contains(&source.content());
                    let sources = if ours { &mut counting } else { &mut strange };
                    sources.push(source);
                }
                Err(why) => additions.suspend(tool, why),
            }
            // Beside what the file holds now: a file that broke may have lost a deny in the broken
            // part.
            additions
                .layers
                .extend(self.remembered_layer(&candidate.path));
        }
        // Two policies, read apart: ranks are compared within one policy only, so that no file
        // which nobody trusted outranks a deny of one that counts.
        let policy = self.parse_cached(tool, &counting);
        additions.add_policy(&policy, LayerAllows::Count);
        let policy = self.parse_cached(tool, &strange);
        let unknown = strange
            .iter()
            .filter(|source| policy.loosening.contains(&source.path));
        additions
            .untrusted
            .extend(unknown.map(PolicySource::content));
        additions.add_policy(&policy, LayerAllows::Untrusted);
    }

    /// The text of a file, if there is one. What can be understood is remembered.
    fn load_source(
        &mut self,
        tool: ForeignTool,
        candidate: &PolicyFile,
    ) -> Result<Option<PolicySource>, String> {
        let path = candidate.path.display().to_string();
        match self.files.get(&candidate.path).map(WatchedFile::content) {
            // Unlike with our own files, a deny goes with the file: its tool no longer has it
            // either.
            None | Some(FileContent::Absent) => {
                self.last_good.remove(&candidate.path);
                Ok(None)
            }
            Some(FileContent::Unreadable(why)) => Err(format!("{path}: {why}")),
            Some(FileContent::Text { text, digest }) => {
                let source = PolicySource {
                    tool,
                    path,
                    scope: candidate.scope,
                    text: Arc::clone(text),
                    digest: Arc::clone(digest),
                };
                if self
                    .parse_cached(tool, std::slice::from_ref(&source))
                    .broken
                    .is_none()
                {
                    self.last_good
                        .insert(candidate.path.clone(), source.clone());
                }
                Ok(Some(source))
            }
        }
    }

    /// The denies and asks that a file had before it broke.
    fn remembered_layer(&mut self, path: &Path) -> Option<RuleLayer> {
        let source = self.last_good.get(path)?.clone();
        let now = self.files.get(path).map(WatchedFile::content);
        if matches!(now, Some(FileContent::Text { digest, .. }) if *digest == source.digest) {
            return None;
        }
        let policy = self.parse_cached(source.tool, &[source]);
        Some(RuleLayer {
            rules: Arc::clone(&policy.strict),
            allows: LayerAllows::Count,
        })
    }

    /// What some texts say together.
    fn parse_cached(&mut self, tool: ForeignTool, sources: &[PolicySource]) -> Arc<ParsedPolicy> {
        if let Some(known) = self.policies.get(sources) {
            return Arc::clone(known);
        }
        if self.policies.len() >= POLICIES_MAX {
            self.policies.clear();
        }
        let policy = Arc::new(ParsedPolicy::from_foreign(&parse_sources(tool, sources)));
        self.policies.insert(sources.to_vec(), Arc::clone(&policy));
        policy
    }
}

/// What the user's own files of a tool, and an administrator's, say now. What stands in projects is
/// not looked at.
pub fn foreign_policy(config: &RulebookConfig, tool: ForeignTool) -> ForeignPolicy {
    let mut files = ForeignFiles::new(config);
    let mut unreadable = None;
    let candidates = files
        .search_paths
        .find_files(tool, None, &files.files)
        .unwrap_or_else(|why| {
            unreadable = Some(why);
            Vec::new()
        });
    let mut sources = Vec::new();
    for candidate in &candidates {
        let mut watched = WatchedFile::new(candidate.path.clone(), None);
        watched.refresh();
        files.files.insert(candidate.path.clone(), watched);
        match files.load_source(tool, candidate) {
            Ok(source) => sources.extend(source),
            Err(why) => unreadable = unreadable.or(Some(why)),
        }
    }
    let mut policy = parse_sources(tool, &sources);
    policy.broken = policy.broken.or(unreadable);
    policy
}

fn parse_sources(tool: ForeignTool, sources: &[PolicySource]) -> ForeignPolicy {
    let files: Vec<_> = sources
        .iter()
        .map(|source| ForeignFile {
            source: &source.path,
            scope: source.scope,
            text: &source.text,
        })
        .collect();
    read_foreign(tool, &files)
}

impl PolicySource {
    /// What a person trusts.
    fn content(&self) -> (String, String) {
        (self.path.clone(), self.digest.to_string())
    }
}

impl ParsedPolicy {
    fn from_foreign(read: &ForeignPolicy) -> Self {
        let (allows, strict): (Vec<&RuleEntry>, Vec<&RuleEntry>) = read
            .entries
            .iter()
            .partition(|entry| entry.effect == Effect::Allow);
        let dropped = read.dropped.iter().take(PROBLEMS_MAX);
        let dropped = dropped.map(|found| RuleFileProblem {
            file: found.source.to_string(),
            line: found.line,
            message: format!("`{}`: {}", found.text, found.reason),
            suspends: false,
        });
        let broken = read.broken.iter();
        let broken = broken.map(|why| suspension_problem(read.tool, why.clone()));
        Self {
            ranked: to_rule_set(&read.entries),
            widened: to_rule_set(&read.widened),
            strict: to_rule_set(strict.into_iter().chain(&read.widened)),
            loosening: allows
                .into_iter()
                .map(|entry| entry.origin.source.to_string())
                .collect(),
            problems: broken.chain(dropped).collect(),
            broken: read.broken.clone(),
        }
    }
}

/// That a policy was not understood.
fn suspension_problem(tool: &str, why: String) -> RuleFileProblem {
    RuleFileProblem {
        file: format!("rules of {tool}"),
        line: None,
        message: why,
        suspends: true,
    }
}

impl PolicyLayers {
    fn add_policy(&mut self, policy: &ParsedPolicy, allows: LayerAllows) {
        let suspended = policy.broken.clone().map(LayerAllows::Suspended);
        if suspended.is_some() || policy.ranked.entries().next().is_some() {
            self.layers.push(RuleLayer {
                rules: Arc::clone(&policy.ranked),
                allows: suspended.unwrap_or(allows),
            });
        }
        if policy.widened.entries().next().is_some() {
            self.layers.push(RuleLayer {
                rules: Arc::clone(&policy.widened),
                allows: LayerAllows::Count,
            });
        }
        self.problems.extend(policy.problems.iter().cloned());
    }

    /// Nothing is allowed, because a file could not be read at all.
    fn suspend(&mut self, tool: ForeignTool, why: String) {
        self.layers.push(RuleLayer {
            rules: Arc::default(),
            allows: LayerAllows::Suspended(why.clone()),
        });
        self.problems.push(suspension_problem(tool.as_str(), why));
    }
}

fn to_rule_set<'e>(entries: impl IntoIterator<Item = &'e RuleEntry>) -> Arc<RuleSet> {
    let mut rules = RuleSet::default();
    for entry in entries {
        rules.insert(entry.clone());
    }
    rules.into()
}
