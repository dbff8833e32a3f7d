//! Wildcards of a shell, expanded against the file system as it is.
//!
//! Invariant: an expansion that carries no doubt holds every path that bash could name with the
//! same word and the same files. It may hold more: what is between `[` and `]` counts as any text.

use crate::facts::{FileFacts, FolderEntry};
use crate::glob::{GlobToken, name_fits, shell_tokens};
use crate::path::{ResolvedPath, is_magic, is_of_processes, resolve};
use crate::request::RequestPlace;

/// A word that names more paths than this is doubt.
const MATCHES_MAX: usize = 512;
/// How many folders are listed for one word.
const FOLDERS_MAX: usize = 256;

/// What a word with wildcards may name.
#[derive(Debug, Default)]
pub(crate) struct GlobExpansion {
    /// Every path it may name.
    pub(crate) matches: Vec<ResolvedPath>,
    /// The folders whose entries the shell reads to find them.
    pub(crate) listed: Vec<ResolvedPath>,
    /// Why there may be more, if there may.
    pub(crate) doubt: Option<&'static str>,
}

/// One name of a path with wildcards.
enum GlobSegment {
    Name(String),
    Wild(Vec<GlobToken>),
}

/// Expands `pattern`, in which a quoted wildcard stands behind a backslash, from the folder `base`.
pub(crate) fn expand(
    pattern: &str,
    base: &str,
    place: &RequestPlace,
    facts: &dyn FileFacts,
) -> GlobExpansion {
    let mut expander = GlobExpander {
        place,
        facts,
        found: GlobExpansion::default(),
    };
    match start_folder(pattern, base, place) {
        Some((folder, rest)) => expander.run(&folder, rest),
        None => expander.doubts("the wildcard begins in a folder that is not known"),
    }
    expander.found
}

/// The folder that the names of `pattern` are counted from, and those names.
fn start_folder<'p>(
    pattern: &'p str,
    base: &str,
    place: &RequestPlace,
) -> Option<(String, &'p str)> {
    if let Some(rest) = pattern.strip_prefix('/') {
        return Some((String::new(), rest));
    }
    let (folder, rest) = match pattern.strip_prefix('~') {
        Some(rest) => (place.home.as_str(), rest.strip_prefix('/')?),
        None => (base, pattern),
    };
    (!folder.is_empty()).then(|| (folder.to_owned(), rest))
}

struct GlobExpander<'f> {
    place: &'f RequestPlace,
    facts: &'f dyn FileFacts,
    found: GlobExpansion,
}

impl GlobExpander<'_> {
    fn doubts(&mut self, reason: &'static str) {
        self.found.doubt.get_or_insert(reason);
    }

    fn run(&mut self, folder: &str, names: &str) {
        let mut paths = vec![folder.to_owned()];
        let mut wild = false;
        for name in names.split('/').filter(|name| !name.is_empty()) {
            paths = match segment(name) {
                GlobSegment::Name(name) if wild => self.with_name(&paths, &name),
                // Up to the first wildcard there is one path, and the shell does not look whether
                // it is there.
                GlobSegment::Name(name) => vec![format!("{}/{name}", paths[0])],
                GlobSegment::Wild(tokens) => {
                    wild = true;
                    self.with_matches(&paths, &tokens)
                }
            };
            // Cut and doubted, not dropped: the first matches are still held against denies.
            if paths.len() > MATCHES_MAX {
                self.doubts("the wildcard names too many files");
                paths.truncate(MATCHES_MAX);
            }
            if paths.is_empty() {
                break;
            }
        }
        let names_option = paths.iter().any(|path| {
            let word = path.get(folder.len() + 1..).unwrap_or_default();
            word.starts_with(['-', '@', '+'])
        });
        // Only where the wildcard begins the word can a match begin with a dash.
        if names.starts_with(['*', '?', '[']) && names_option {
            self.doubts("the wildcard names a file that looks like an option");
        }
        // Without a match the shell hands the word over as it is.
        paths.push(format!("{folder}/{}", unescaped(names)));
        for path in paths {
            self.add_match(&path);
        }
    }

    fn add_match(&mut self, path: &str) {
        match resolve(path, "", self.place, self.facts) {
            Ok(spot) => self.found.matches.push(spot),
            Err(doubt) => self.doubts(doubt.as_str()),
        }
    }

    /// The paths that go on with a plain name: those that exist.
    fn with_name(&mut self, folders: &[String], name: &str) -> Vec<String> {
        let mut paths = Vec::new();
        for folder in folders {
            // A folder that cannot be listed may hold the name.
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

    fn with_matches(&mut self, folders: &[String], tokens: &[GlobToken]) -> Vec<String> {
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
        // The caller doubts a folder that was not listed.
        if self.found.listed.len() >= FOLDERS_MAX {
            return None;
        }
        let spot = self.resolve_folder(folder)?;
        let entries = self.facts.list_folder(spot.real_path());
        self.found.listed.push(spot);
        entries
    }

    fn entries(&mut self, folder: &str) -> Option<Vec<FolderEntry>> {
        let spot = self.resolve_folder(folder)?;
        self.facts.list_folder(spot.real_path())
    }

    /// Nothing where the path means something else in every process.
    fn resolve_folder(&self, folder: &str) -> Option<ResolvedPath> {
        let folder = if folder.is_empty() { "/" } else { folder };
        let spot = resolve(folder, "", self.place, self.facts).ok()?;
        let is_known = !spot
            .forms()
            .any(|path| is_of_processes(path) || is_magic(path));
        is_known.then_some(spot)
    }
}

fn segment(name: &str) -> GlobSegment {
    let tokens = shell_tokens(name);
    let plain: Option<String> = tokens.iter().map(GlobToken::as_char).collect();
    plain.map_or(GlobSegment::Wild(tokens), GlobSegment::Name)
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::facts::EntryKind;

    /// Folders with their entries, and links with their targets.
    pub(crate) struct Files {
        folders: Vec<(&'static str, Vec<&'static str>)>,
        links: Vec<(&'static str, &'static str)>,
    }

    impl FileFacts for Files {
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

    pub(crate) fn files() -> Files {
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

    pub(crate) fn place() -> RequestPlace {
        RequestPlace {
            cwd: "/p".into(),
            project: "/p".into(),
            home: "/h".into(),
            ignores_case: false,
            in_sandbox: false,
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
        let paths: Vec<&str> = found.matches.iter().map(ResolvedPath::real_path).collect();
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
}
