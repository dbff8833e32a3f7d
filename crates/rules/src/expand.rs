//! Wildcards of a shell, expanded against the file system as it is.
//!
//! Invariant: an expansion that carries no doubt holds every path that bash could name with the
//! same word and the same files. It may hold more: what is between `[` and `]` counts as any text.

use crate::facts::{EntryKind, Facts, FolderEntry};
use crate::glob::{Token, name_fits, shell_tokens};
use crate::path::{Spot, is_magic, resolve};
use crate::request::Place;
use crate::shell::Walk;

/// A word that names more paths than this is doubt.
const MATCHES_MAX: usize = 512;
/// How many folders are listed for one word.
const FOLDERS_MAX: usize = 256;

/// What a word with wildcards may name.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    /// Every path it may name.
    pub(crate) matches: Vec<Spot>,
    /// The folders whose entries the shell reads to find them.
    pub(crate) listed: Vec<Spot>,
    /// Why there may be more, if there may.
    pub(crate) doubt: Option<&'static str>,
}

/// One name of a path with wildcards.
enum Segment {
    Name(String),
    Wild(Vec<Token>),
}

/// Expands `pattern`, in which a quoted wildcard stands behind a backslash, from the folder `base`.
pub(crate) fn expand(pattern: &str, base: &str, place: &Place, facts: &dyn Facts) -> Expansion {
    let mut expander = Expander {
        place,
        facts,
        found: Expansion::default(),
    };
    match start(pattern, base, place) {
        Some((folder, rest)) => expander.run(&folder, rest),
        None => expander.doubts("the wildcard begins in a folder that is not known"),
    }
    expander.found
}

/// The folder that the names of `pattern` are counted from, and those names.
fn start<'p>(pattern: &'p str, base: &str, place: &Place) -> Option<(String, &'p str)> {
    if let Some(rest) = pattern.strip_prefix('/') {
        return Some((String::new(), rest));
    }
    let (folder, rest) = match pattern.strip_prefix('~') {
        Some(rest) => (place.home.as_str(), rest.strip_prefix('/')?),
        None => (base, pattern),
    };
    (!folder.is_empty()).then(|| (folder.to_owned(), rest))
}

struct Expander<'f> {
    place: &'f Place,
    facts: &'f dyn Facts,
    found: Expansion,
}

impl Expander<'_> {
    fn doubts(&mut self, reason: &'static str) {
        self.found.doubt.get_or_insert(reason);
    }

    fn run(&mut self, folder: &str, names: &str) {
        let mut paths = vec![folder.to_owned()];
        let mut wild = false;
        for name in names.split('/').filter(|name| !name.is_empty()) {
            paths = match segment(name) {
                Segment::Name(name) if wild => self.with_name(&paths, &name),
                Segment::Name(name) => vec![format!("{}/{name}", paths[0])],
                Segment::Wild(tokens) => {
                    wild = true;
                    self.with_matches(&paths, &tokens)
                }
            };
            if paths.len() > MATCHES_MAX {
                self.doubts("the wildcard names too many files");
                paths.truncate(MATCHES_MAX);
            }
            if paths.is_empty() {
                break;
            }
        }
        let is_option = |path: &String| {
            let word = path.get(folder.len() + 1..).unwrap_or_default();
            word.starts_with(['-', '@', '+'])
        };
        if names.starts_with(['*', '?', '[']) && paths.iter().any(is_option) {
            self.doubts("the wildcard names a file that looks like an option");
        }
        // Without a match the shell hands the word over as it is.
        paths.push(format!("{folder}/{}", unescaped(names)));
        for path in paths {
            self.take(&path);
        }
    }

    fn take(&mut self, path: &str) {
        match resolve(path, "", self.place, self.facts) {
            Ok(spot) => self.found.matches.push(spot),
            Err(doubt) => self.doubts(doubt.as_str()),
        }
    }

    /// The paths that go on with a plain name: those that exist.
    fn with_name(&mut self, folders: &[String], name: &str) -> Vec<String> {
        let mut paths = Vec::new();
        for folder in folders {
            let there = matches!(name, "." | "..")
                || self
                    .entries(folder)
                    .is_none_or(|entries| entries.iter().any(|entry| self.is_same(entry, name)));
            if there {
                paths.push(format!("{folder}/{name}"));
            }
        }
        paths
    }

    fn is_same(&self, entry: &FolderEntry, name: &str) -> bool {
        entry.name == name
            || self.place.ignores_case && entry.name.to_lowercase() == name.to_lowercase()
    }

    fn with_matches(&mut self, folders: &[String], tokens: &[Token]) -> Vec<String> {
        let mut paths = Vec::new();
        for folder in folders {
            let Some(entries) = self.list(folder) else {
                self.doubts("the folder of a wildcard cannot be listed");
                continue;
            };
            let names = entries.iter().map(|entry| entry.name.as_str());
            // Older shells let `.*` name these two as well.
            let names = names.chain([".", ".."]);
            let fitting = names.filter(|name| name_fits(tokens, name, self.place.ignores_case));
            paths.extend(fitting.map(|name| format!("{folder}/{name}")));
        }
        paths
    }

    /// Lists a folder on behalf of a wildcard, which shows its names to whoever runs the command.
    fn list(&mut self, folder: &str) -> Option<Vec<FolderEntry>> {
        if self.found.listed.len() >= FOLDERS_MAX {
            return None;
        }
        let spot = self.spot(folder)?;
        let entries = self.facts.list_folder(spot.real_path());
        self.found.listed.push(spot);
        entries
    }

    fn entries(&mut self, folder: &str) -> Option<Vec<FolderEntry>> {
        let spot = self.spot(folder)?;
        self.facts.list_folder(spot.real_path())
    }

    /// Nothing where the path means something else in every process.
    fn spot(&self, folder: &str) -> Option<Spot> {
        let folder = if folder.is_empty() { "/" } else { folder };
        let spot = resolve(folder, "", self.place, self.facts).ok()?;
        let is_process = |path: &str| path == "/proc" || path.starts_with("/proc/");
        let is_known = !spot.forms().any(|path| is_process(path) || is_magic(path));
        is_known.then_some(spot)
    }
}

fn segment(name: &str) -> Segment {
    let tokens = shell_tokens(name);
    let plain: Option<String> = tokens.iter().map(Token::as_char).collect();
    plain.map_or(Segment::Wild(tokens), Segment::Name)
}

/// The word as a program gets it where nothing fits.
fn unescaped(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        text.push(if c == '\\' {
            chars.next().unwrap_or('\\')
        } else {
            c
        });
    }
    text
}

/// The names below a folder, whatever their depth.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeNames {
    /// Each name once, in lower case.
    names: std::collections::BTreeSet<String>,
    /// Whether there may be others.
    is_cut: bool,
}

impl TreeNames {
    /// Names that could not be known: there may be any.
    pub(crate) fn unknown() -> Self {
        Self {
            names: std::collections::BTreeSet::new(),
            is_cut: true,
        }
    }

    /// Whether a name that fits may be among them.
    pub(crate) fn may_hold(&self, mut fits: impl FnMut(&str) -> bool) -> bool {
        self.is_cut || self.names.iter().any(|name| fits(name))
    }

    /// Whether this name, in lower case, is among them for certain.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether this name, in lower case, may be among them.
    pub(crate) fn may_hold_name(&self, name: &str) -> bool {
        self.is_cut || self.names.contains(name)
    }
}

/// What a program finds that walks a folder.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) names: TreeNames,
    /// Where the links below it lead, if the program follows them.
    pub(crate) links: Vec<Spot>,
    pub(crate) doubt: Option<&'static str>,
}

/// How many entries are looked at below one folder.
const TREE_ENTRIES_MAX: usize = 20_000;

/// Walks the folder at `root`, which is absolute, as a recursive program does.
pub(crate) fn walk_tree(root: &str, walk: Walk, place: &Place, facts: &dyn Facts) -> Tree {
    let follow = walk == Walk::Follow;
    let mut tree = Tree {
        names: TreeNames {
            names: std::collections::BTreeSet::new(),
            is_cut: false,
        },
        links: Vec::new(),
        doubt: None,
    };
    let Ok(spot) = resolve(root, "", place, facts) else {
        tree.names = TreeNames::unknown();
        return tree;
    };
    let mut folders = vec![spot.real_path().to_owned()];
    let mut seen = std::collections::HashSet::new();
    let mut left = TREE_ENTRIES_MAX;
    while let Some(folder) = folders.pop() {
        if !seen.insert(folder.clone()) {
            continue;
        }
        let Some(entries) = list_within(&folder, left, facts) else {
            tree.names = TreeNames::unknown();
            if is_of_processes(&folder) {
                tree.doubt = Some("it walks what other processes hold");
            } else if follow {
                tree.doubt = Some("it follows links below a folder that is too large to look at");
            }
            return tree;
        };
        left -= entries.len();
        for entry in entries {
            if walk == Walk::Visible && entry.name.starts_with('.') {
                continue;
            }
            let path = format!("{}/{}", folder.trim_end_matches('/'), entry.name);
            match entry.kind {
                EntryKind::Folder => folders.push(path),
                EntryKind::Link if follow => match resolve(&path, "", place, facts) {
                    Ok(spot) => {
                        folders.push(spot.real_path().to_owned());
                        tree.links.push(spot);
                    }
                    Err(doubt) => tree.doubt = Some(doubt.as_str()),
                },
                EntryKind::Link | EntryKind::File => {}
            }
            tree.names.names.insert(entry.name.to_lowercase());
        }
    }
    tree
}

/// Nothing where a folder cannot be listed, is a view of processes, or holds more than `left`.
fn list_within(folder: &str, left: usize, facts: &dyn Facts) -> Option<Vec<FolderEntry>> {
    let entries = facts.list_folder(folder);
    let entries = entries.filter(|_| !is_of_processes(folder))?;
    (entries.len() <= left).then_some(entries)
}

fn is_of_processes(folder: &str) -> bool {
    folder == "/proc" || folder.starts_with("/proc/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders with their entries, and links with their targets.
    struct Files {
        folders: Vec<(&'static str, Vec<&'static str>)>,
        links: Vec<(&'static str, &'static str)>,
    }

    impl Facts for Files {
        fn read_link(&self, path: &str) -> Option<String> {
            let found = self.links.iter().find(|(link, _)| *link == path)?;
            Some(found.1.to_owned())
        }

        fn list_folder(&self, path: &str) -> Option<Vec<FolderEntry>> {
            if path == "/closed" {
                return None;
            }
            let found = self.folders.iter().find(|(folder, _)| *folder == path);
            let names = found.map_or(&[][..], |(_, names)| names);
            let entry = |name: &&str| {
                let path = format!("{}/{name}", path.trim_end_matches('/'));
                let kind = match &path {
                    path if self.links.iter().any(|(link, _)| link == path) => EntryKind::Link,
                    path if self.folders.iter().any(|(own, _)| own == path) => EntryKind::Folder,
                    _ => EntryKind::File,
                };
                FolderEntry {
                    name: (*name).to_owned(),
                    kind,
                }
            };
            Some(names.iter().map(entry).collect())
        }
    }

    fn files() -> Files {
        Files {
            folders: vec![
                ("/", vec!["h", "p", "proc", "closed"]),
                ("/h", vec![".ssh", "p"]),
                ("/h/.ssh", vec!["id", "known"]),
                ("/p", vec![".git", "k1", "src", "a.rs", "b.rs", "[x]"]),
                ("/p/.git", vec!["config"]),
                ("/p/src", vec!["m.rs", "deep"]),
                ("/p/src/deep", vec!["l"]),
            ],
            links: vec![("/p/k1", "/h/.ssh"), ("/p/src/deep/l", "/h/.ssh")],
        }
    }

    fn place() -> Place {
        Place {
            cwd: "/p".into(),
            project: "/p".into(),
            home: "/h".into(),
            ignores_case: false,
        }
    }

    /// Where each match leads, without the word itself.
    fn matches(pattern: &str) -> Vec<String> {
        let mut found = expand(pattern, "/p", &place(), &files()).matches;
        found.pop();
        let real = found.iter().map(|spot| spot.real_path().to_owned());
        real.collect()
    }

    #[test]
    fn every_match_is_followed_through_links() {
        assert_eq!(matches("*.rs"), ["/p/a.rs", "/p/b.rs"]);
        assert_eq!(matches("k*/id"), ["/h/.ssh/id"]);
        assert_eq!(matches("k?/*"), ["/h/.ssh/id", "/h/.ssh/known"]);
        assert_eq!(matches("~/.s*/i?"), ["/h/.ssh/id"]);
        assert_eq!(matches("/[p]/.gi?/config"), ["/p/.git/config"]);
        assert_eq!(matches("s*/../.git/c*"), ["/p/.git/config"]);
        assert_eq!(matches("*/nothing"), Vec::<String>::new());
        assert_eq!(matches("*it/config"), Vec::<String>::new());
        assert_eq!(matches("\\[x\\]*"), ["/p/[x]"]);
    }

    #[test]
    fn a_word_that_fits_nothing_is_handed_over_as_it_is() {
        let found = expand("no*/x\\*", "/p", &place(), &files());
        let paths: Vec<&str> = found.matches.iter().map(Spot::real_path).collect();
        assert_eq!((paths, found.doubt), (vec!["/p/no*/x*"], None));
    }

    #[test]
    fn what_cannot_be_listed_is_doubt() {
        let doubt = |pattern: &str| expand(pattern, "/p", &place(), &files()).doubt.is_some();
        for pattern in ["/closed/*", "/proc/*/environ", "/p*/self/environ", "~x/*"] {
            assert!(doubt(pattern), "{pattern}");
        }
        assert!(expand("*", "", &place(), &files()).doubt.is_some());
        assert!(!doubt("src/*"));
    }

    #[test]
    fn a_walk_finds_names_and_follows_links_only_if_the_program_does() {
        let names = |tree: Tree| tree.names.names.into_iter().collect::<Vec<_>>();
        let tree = walk_tree("/p/src", Walk::All, &place(), &files());
        assert!(tree.links.is_empty());
        assert_eq!(names(tree), ["deep", "l", "m.rs"]);
        let tree = walk_tree("/p/src", Walk::Follow, &place(), &files());
        let links: Vec<&str> = tree.links.iter().map(Spot::real_path).collect();
        assert_eq!(links, ["/h/.ssh"]);
        assert_eq!(names(tree), ["deep", "id", "known", "l", "m.rs"]);
        let visible = walk_tree("/h", Walk::Visible, &place(), &files());
        assert_eq!(names(visible), ["p"]);
    }

    #[test]
    fn a_folder_that_cannot_be_listed_may_hold_any_name() {
        let tree = walk_tree("/closed", Walk::All, &place(), &files());
        assert_eq!(tree.names, TreeNames::unknown());
        assert!(tree.names.may_hold_name("anything"));
        assert!(!tree.names.holds("anything"));
    }
}
