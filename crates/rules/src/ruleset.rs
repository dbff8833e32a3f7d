//! Sets of rules, arranged so that a verdict looks only at those that could matter.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use countersign_core::GrantId;
use countersign_core::event::{Effect, PartKind, RuleRef};

use crate::assess::{Assessment, PartBody, RequestPart};
use crate::glob::PathSegment;
use crate::language::{DepthScope, PathAnchor, PathPattern, Rule, RuleError, RulePattern};
use crate::locate::AccessedPath;
use crate::path::{ResolvedPath, below, clean};
use crate::request::RequestPlace;
use crate::shell::{AllowForm, DenyForm};
use crate::spawn;

/// Where a rule stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleOrigin {
    /// The file, or `grant`.
    pub source: Arc<str>,
    /// The line in it.
    pub line: Option<u32>,
    /// The grant it is.
    pub grant: Option<GrantId>,
}

impl RuleOrigin {
    /// A line of a file.
    pub fn file(source: impl Into<Arc<str>>, line: u32) -> Self {
        Self {
            source: source.into(),
            line: Some(line),
            grant: None,
        }
    }

    /// What a person lets an orchestrator settle.
    pub fn ceiling() -> Self {
        Self {
            source: "ceiling".into(),
            line: None,
            grant: None,
        }
    }

    /// A grant.
    pub fn grant(id: GrantId) -> Self {
        Self {
            source: "grant".into(),
            line: None,
            grant: Some(id),
        }
    }
}

/// A rule in a set.
#[derive(Clone, Debug)]
pub struct RuleEntry {
    /// The rule.
    pub rule: Rule,
    /// What it says.
    pub effect: Effect,
    /// Among the rules of one set that match, only those of the highest rank count; between equal
    /// ranks the strictest wins. Ours all have rank zero.
    pub rank: i64,
    /// Where it stands.
    pub origin: RuleOrigin,
    /// The only agents it is for: those an operator gave this name. Whoever judges leaves the
    /// others out, see [`RuleEntry::is_for`].
    pub agent: Option<Arc<str>>,
    /// Its author's words, shown with a verdict.
    pub reason: Option<Arc<str>>,
    /// Where it counts.
    pub area: RuleArea,
}

/// Where an allow counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleArea {
    /// Wherever its pattern matches.
    #[default]
    Anywhere,
    /// For what only reads, and only inside the folder that the agent works in.
    Folder,
    /// For files inside the folder that the agent works in, if that is a git worktree beside the
    /// repository's main one.
    Worktree,
    /// For commands, and the files that their redirections name, of an agent in a sandbox of level
    /// `full`.
    Sandbox,
}

impl RuleEntry {
    /// Reads a rule of rank zero.
    pub fn parse(effect: Effect, text: &str, origin: RuleOrigin) -> Result<Self, RuleError> {
        Ok(Self {
            rule: Rule::parse(effect, text)?,
            effect,
            rank: 0,
            origin,
            agent: None,
            reason: None,
            area: RuleArea::Anywhere,
        })
    }

    /// Whether it is for an agent to which an operator gave this name, or no name.
    pub fn is_for(&self, operator_name: Option<&str>) -> bool {
        self.agent.is_none() || self.agent.as_deref() == operator_name
    }

    /// How a verdict names it.
    pub fn to_ref(&self) -> RuleRef {
        RuleRef {
            rule: self.rule.text().to_owned(),
            effect: self.effect,
            source: self.origin.source.to_string(),
            line: self.origin.line,
            grant: self.origin.grant.clone(),
        }
    }
}

/// A place in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey(usize);

/// Rules that are judged together.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    entries: Vec<Option<RuleEntry>>,
    free: Vec<usize>,
    index: HashMap<LookupKey, Vec<usize>>,
}

/// What a rule can be found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LookupKey {
    /// Commands that begin with this word.
    Program(String),
    /// Commands that begin with these two words.
    Subcommand(String, String),
    /// Commands of any name.
    AnyProgram,
    /// Paths whose first name below an anchor is this.
    Below(PathAnchor, String),
    /// Paths with this name anywhere.
    Named(String),
    /// Any path.
    AnyPath,
    Fetch,
    Network,
    Server(String),
    AnyServer,
    /// Tools by name, and rules for whole tools.
    Tool,
}

impl RuleSet {
    /// Adds a rule.
    pub fn insert(&mut self, entry: RuleEntry) -> EntryKey {
        let key = key_of(&entry);
        // A place that became free is used again, so that grants which come and go do not grow the
        // list; the caller has forgotten the old key by then.
        let at = self.free.pop().unwrap_or(self.entries.len());
        if at == self.entries.len() {
            self.entries.push(Some(entry));
        } else {
            self.entries[at] = Some(entry);
        }
        self.index.entry(key).or_default().push(at);
        EntryKey(at)
    }

    /// Takes a rule out.
    pub fn remove(&mut self, key: EntryKey) -> Option<RuleEntry> {
        let entry = self.entries.get_mut(key.0)?.take()?;
        let found_by = key_of(&entry);
        if let Some(list) = self.index.get_mut(&found_by) {
            list.retain(|at| *at != key.0);
            if list.is_empty() {
                self.index.remove(&found_by);
            }
        }
        self.free.push(key.0);
        Some(entry)
    }

    /// All rules.
    pub fn entries(&self) -> impl Iterator<Item = &RuleEntry> {
        self.entries.iter().flatten()
    }

    /// Hands every rule that could speak of a part to `take`, some perhaps twice.
    pub(crate) fn for_candidates<'s>(
        &'s self,
        assessment: &Assessment,
        part: &RequestPart,
        mut take: impl FnMut(&'s RuleEntry),
    ) {
        let mut look = |key: &LookupKey| {
            for at in self.index.get(key).into_iter().flatten() {
                if let Some(Some(entry)) = self.entries.get(*at) {
                    take(entry);
                }
            }
        };
        look(&LookupKey::Tool);
        match &part.body {
            PartBody::Command {
                deny,
                touched,
                allow,
            } => {
                look(&LookupKey::AnyProgram);
                for key in command_keys(deny, allow) {
                    look(&key);
                }
                // What a wildcard or a walk reaches has no one name to look up, so every path rule
                // is tried.
                if touched
                    .iter()
                    .any(|touch| !matches!(touch.at, AccessedPath::Path(_)))
                {
                    self.all_paths(&mut look);
                } else {
                    let spots = touched.iter().filter_map(|touch| match &touch.at {
                        AccessedPath::Path(spot) => Some(spot),
                        AccessedPath::Glob(_)
                        | AccessedPath::Tree(..)
                        | AccessedPath::Copied(..) => None,
                    });
                    paths(spots, &assessment.place, &mut look);
                }
            }
            PartBody::Path(_) if part.below.is_some() => self.all_paths(&mut look),
            PartBody::Path(spots) => paths(spots.iter(), &assessment.place, &mut look),
            PartBody::Fetch(_) => look(&LookupKey::Fetch),
            PartBody::Network(_) => look(&LookupKey::Network),
            PartBody::Mcp { server, .. } => {
                look(&LookupKey::Server(server.clone()));
                look(&LookupKey::AnyServer);
            }
            PartBody::Spawn { .. } => {
                look(&LookupKey::Server(spawn::SERVER.to_owned()));
                look(&LookupKey::AnyServer);
            }
            PartBody::Nothing if part.kind == PartKind::Command => look(&LookupKey::AnyProgram),
            PartBody::Tool => {
                look(&LookupKey::AnyProgram);
                look(&LookupKey::AnyPath);
                look(&LookupKey::Fetch);
                look(&LookupKey::Network);
            }
            PartBody::Nothing => {}
        }
    }

    /// A path with wildcards, or a folder with all below it, may meet any rule for paths.
    fn all_paths(&self, look: &mut impl FnMut(&LookupKey)) {
        for key in self.index.keys() {
            if matches!(
                key,
                LookupKey::Below(..) | LookupKey::Named(_) | LookupKey::AnyPath
            ) {
                look(key);
            }
        }
    }
}

/// Every key under which a rule for one of these forms could lie: by their words, by the words of
/// their text, and by the first words after options.
fn command_keys(deny: &[DenyForm], allow: &[AllowForm]) -> HashSet<LookupKey> {
    let mut keys = HashSet::new();
    for form in deny {
        for (name, text) in [(form.name(), form.text()), (form.base(), form.base_text())] {
            add_keys(&mut keys, name, form.rest());
            let mut blanks = text.split(' ');
            let name = blanks.next().unwrap_or_default();
            let sub = blanks.next().map(str::to_owned);
            add_keys(&mut keys, name, sub.as_slice());
        }
    }
    for form in allow {
        if let Some((name, rest)) = form.words.split_first() {
            add_keys(&mut keys, name, rest);
        }
    }
    keys
}

/// A rule names the word after the program, or one that options stand before.
fn add_keys(keys: &mut HashSet<LookupKey>, name: &str, rest: &[String]) {
    keys.insert(LookupKey::Program(name.to_owned()));
    let mut behind_option = false;
    for word in rest {
        keys.insert(LookupKey::Subcommand(name.to_owned(), word.clone()));
        let is_option = word.starts_with('-');
        if !is_option && !behind_option {
            return;
        }
        behind_option = is_option;
    }
}

fn key_of(entry: &RuleEntry) -> LookupKey {
    match &entry.rule.pattern {
        RulePattern::Tool(_) => LookupKey::Tool,
        RulePattern::Shell(shell) => match (shell.first_word(), shell.second_word()) {
            (Some(name), Some(sub)) => LookupKey::Subcommand(name.to_owned(), sub.to_owned()),
            (Some(name), None) => LookupKey::Program(name.to_owned()),
            (None, _) => LookupKey::AnyProgram,
        },
        RulePattern::Read(None) | RulePattern::Edit(None, _) => LookupKey::AnyPath,
        RulePattern::Read(Some(path)) | RulePattern::Edit(Some(path), _) => path_key(path),
        RulePattern::Fetch(_) => LookupKey::Fetch,
        RulePattern::Network(_) => LookupKey::Network,
        RulePattern::Mcp { server, .. } => LookupKey::Server(server.clone()),
        RulePattern::Spawn(_) => LookupKey::Server(spawn::SERVER.to_owned()),
        RulePattern::AnyMcp(_) => LookupKey::AnyServer,
    }
}

fn path_key(path: &PathPattern) -> LookupKey {
    match (path.floats, path.goes_up(), path.segments.first()) {
        (DepthScope::Never, false, Some(PathSegment::Name(name))) => {
            LookupKey::Below(path.anchor, name.to_lowercase())
        }
        (DepthScope::Strict | DepthScope::Always, _, Some(PathSegment::Name(name))) => {
            LookupKey::Named(name.to_lowercase())
        }
        _ => LookupKey::AnyPath,
    }
}

/// Looks up every key under which a rule for one of these paths could lie.
fn paths<'s>(
    spots: impl Iterator<Item = &'s ResolvedPath>,
    place: &RequestPlace,
    look: &mut impl FnMut(&LookupKey),
) {
    let mut keys = vec![LookupKey::AnyPath];
    let anchors = [
        (PathAnchor::Root, "/"),
        (PathAnchor::Home, place.home.as_str()),
        (PathAnchor::Project, place.project.as_str()),
        (PathAnchor::Cwd, place.cwd.as_str()),
    ];
    // As rules read them: the asker may write its folder in any way.
    let anchors = anchors
        .into_iter()
        .filter(|(_, base)| !base.is_empty())
        .map(|(anchor, base)| (anchor, clean(base)));
    let anchors: Vec<_> = anchors.collect();
    for spot in spots {
        for path in spot.forms() {
            for (anchor, base) in &anchors {
                let first = below(path, base, true);
                if let Some(name) = first.and_then(|names| names.first().copied()) {
                    keys.push(LookupKey::Below(*anchor, name.to_lowercase()));
                }
            }
            let names = path.split('/').filter(|name| !name.is_empty());
            keys.extend(names.map(|name| LookupKey::Named(name.to_lowercase())));
        }
    }
    let mut seen = HashSet::with_capacity(keys.len());
    for key in &keys {
        if seen.insert(key) {
            look(key);
        }
    }
}
