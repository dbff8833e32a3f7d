//! Sets of rules, arranged so that a verdict looks only at those that could matter.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use countersign_core::GrantId;
use countersign_core::event::{Effect, PartKind, RuleRef};

use crate::assess::{Assessment, Body, Part};
use crate::glob::Segment;
use crate::language::{Anchor, Floats, PathPattern, Pattern, Rule, RuleError};
use crate::locate::At;
use crate::path::{Spot, below, clean};
use crate::request::Place;
use crate::shell::{AllowForm, DenyForm};
use crate::spawn;

/// Where a rule stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file, or `grant`.
    pub source: Arc<str>,
    /// The line in it.
    pub line: Option<u32>,
    /// The grant it is.
    pub grant: Option<GrantId>,
}

impl Origin {
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
pub struct Entry {
    /// The rule.
    pub rule: Rule,
    /// What it says.
    pub effect: Effect,
    /// Among the rules of one set that match, only those of the highest rank count; between equal
    /// ranks the strictest wins. Ours all have rank zero.
    pub rank: i64,
    /// Where it stands.
    pub origin: Origin,
    /// The only agents it is for: those an operator gave this name. Whoever judges leaves the
    /// others out, see [`Entry::is_for`].
    pub agent: Option<Arc<str>>,
    /// Its author's words, shown with a verdict.
    pub reason: Option<Arc<str>>,
}

impl Entry {
    /// Reads a rule of rank zero.
    pub fn parse(effect: Effect, text: &str, origin: Origin) -> Result<Self, RuleError> {
        Ok(Self {
            rule: Rule::parse(effect, text)?,
            effect,
            rank: 0,
            origin,
            agent: None,
            reason: None,
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
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    index: HashMap<Key, Vec<usize>>,
}

/// What a rule can be found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// Commands that begin with this word.
    Program(String),
    /// Commands that begin with these two words.
    Subcommand(String, String),
    /// Commands of any name.
    AnyProgram,
    /// Paths whose first name below an anchor is this.
    Below(Anchor, String),
    /// Paths with this name anywhere.
    Named(String),
    /// Any path.
    AnyPath,
    Fetch,
    Server(String),
    AnyServer,
    /// Tools by name, and rules for whole tools.
    Tool,
}

impl RuleSet {
    /// Adds a rule.
    pub fn insert(&mut self, entry: Entry) -> EntryKey {
        let key = key_of(&entry);
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
    pub fn remove(&mut self, key: EntryKey) -> Option<Entry> {
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
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    /// Hands every rule that could speak of a part to `take`, some perhaps twice.
    pub(crate) fn for_candidates<'s>(
        &'s self,
        assessment: &Assessment,
        part: &Part,
        mut take: impl FnMut(&'s Entry),
    ) {
        let mut look = |key: &Key| {
            for at in self.index.get(key).into_iter().flatten() {
                if let Some(Some(entry)) = self.entries.get(*at) {
                    take(entry);
                }
            }
        };
        look(&Key::Tool);
        match &part.body {
            Body::Command {
                deny,
                touched,
                allow,
            } => {
                look(&Key::AnyProgram);
                for key in command_keys(deny, allow) {
                    look(&key);
                }
                if touched.iter().any(|touch| !matches!(touch.at, At::Spot(_))) {
                    self.all_paths(&mut look);
                } else {
                    let spots = touched.iter().filter_map(|touch| match &touch.at {
                        At::Spot(spot) => Some(spot),
                        At::Glob(_) | At::Tree(..) | At::Copied(..) => None,
                    });
                    paths(spots, &assessment.place, &mut look);
                }
            }
            Body::Path(_) if part.below.is_some() => self.all_paths(&mut look),
            Body::Path(spots) => paths(spots.iter(), &assessment.place, &mut look),
            Body::Fetch(_) => look(&Key::Fetch),
            Body::Mcp { server, .. } => {
                look(&Key::Server(server.clone()));
                look(&Key::AnyServer);
            }
            Body::Spawn { .. } => {
                look(&Key::Server(spawn::SERVER.to_owned()));
                look(&Key::AnyServer);
            }
            Body::Nothing if part.kind == PartKind::Command => look(&Key::AnyProgram),
            Body::Tool => {
                look(&Key::AnyProgram);
                look(&Key::AnyPath);
                look(&Key::Fetch);
            }
            Body::Nothing => {}
        }
    }

    /// A path with wildcards, or a folder with all below it, may meet any rule for paths.
    fn all_paths(&self, look: &mut impl FnMut(&Key)) {
        for key in self.index.keys() {
            if matches!(key, Key::Below(..) | Key::Named(_) | Key::AnyPath) {
                look(key);
            }
        }
    }
}

/// Every key under which a rule for one of these forms could lie: by their words, by the words of
/// their text, and by the first words after options.
fn command_keys(deny: &[DenyForm], allow: &[AllowForm]) -> HashSet<Key> {
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
fn add_keys(keys: &mut HashSet<Key>, name: &str, rest: &[String]) {
    keys.insert(Key::Program(name.to_owned()));
    let mut behind_option = false;
    for word in rest {
        keys.insert(Key::Subcommand(name.to_owned(), word.clone()));
        let is_option = word.starts_with('-');
        if !is_option && !behind_option {
            return;
        }
        behind_option = is_option;
    }
}

fn key_of(entry: &Entry) -> Key {
    match &entry.rule.pattern {
        Pattern::Tool(_) => Key::Tool,
        Pattern::Shell(shell) => match (shell.first_word(), shell.second_word()) {
            (Some(name), Some(sub)) => Key::Subcommand(name.to_owned(), sub.to_owned()),
            (Some(name), None) => Key::Program(name.to_owned()),
            (None, _) => Key::AnyProgram,
        },
        Pattern::Read(None) | Pattern::Edit(None, _) => Key::AnyPath,
        Pattern::Read(Some(path)) | Pattern::Edit(Some(path), _) => path_key(path),
        Pattern::Fetch(_) => Key::Fetch,
        Pattern::Mcp { server, .. } => Key::Server(server.clone()),
        Pattern::Spawn(_) => Key::Server(spawn::SERVER.to_owned()),
        Pattern::AnyMcp(_) => Key::AnyServer,
    }
}

fn path_key(path: &PathPattern) -> Key {
    match (path.floats, path.goes_up(), path.segments.first()) {
        (Floats::Never, false, Some(Segment::Name(name))) => {
            Key::Below(path.anchor, name.to_lowercase())
        }
        (Floats::Strict | Floats::Always, _, Some(Segment::Name(name))) => {
            Key::Named(name.to_lowercase())
        }
        _ => Key::AnyPath,
    }
}

/// Looks up every key under which a rule for one of these paths could lie.
fn paths<'s>(spots: impl Iterator<Item = &'s Spot>, place: &Place, look: &mut impl FnMut(&Key)) {
    let mut keys = vec![Key::AnyPath];
    let anchors = [
        (Anchor::Root, "/"),
        (Anchor::Home, place.home.as_str()),
        (Anchor::Project, place.project.as_str()),
        (Anchor::Cwd, place.cwd.as_str()),
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
                    keys.push(Key::Below(*anchor, name.to_lowercase()));
                }
            }
            let names = path.split('/').filter(|name| !name.is_empty());
            keys.extend(names.map(|name| Key::Named(name.to_lowercase())));
        }
    }
    let mut seen = HashSet::with_capacity(keys.len());
    for key in &keys {
        if seen.insert(key) {
            look(key);
        }
    }
}
