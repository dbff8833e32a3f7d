//! What is below a folder, for programs that walk it: the names that occur, and where links lead.
//!
//! Invariant: a name that is below the folder is among the names, or they say that there may be any.

use std::collections::{BTreeSet, HashSet};

use crate::facts::{EntryKind, FileFacts, FolderEntry};
use crate::path::{ResolvedPath, is_of_processes, resolve};
use crate::request::RequestPlace;
use crate::shell::FolderWalk;

/// The names below a folder, whatever their depth.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeNames {
    /// Each name once, in lower case.
    names: BTreeSet<String>,
    /// Whether there may be others.
    is_cut: bool,
}

impl TreeNames {
    /// Names that could not be known: there may be any.
    pub(crate) fn unknown() -> Self {
        Self {
            names: BTreeSet::new(),
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
pub(crate) struct FolderTree {
    pub(crate) names: TreeNames,
    /// Where the links below it lead, if the program follows them.
    pub(crate) links: Vec<ResolvedPath>,
    pub(crate) doubt: Option<&'static str>,
}

/// How many entries are looked at below one folder.
const TREE_ENTRIES_MAX: usize = 20_000;

/// Walks the folder at `root`, which is absolute, as a recursive program does.
pub(crate) fn walk_tree(
    root: &str,
    walk: FolderWalk,
    place: &RequestPlace,
    facts: &dyn FileFacts,
) -> FolderTree {
    let follow = walk == FolderWalk::Follow;
    let mut tree = FolderTree {
        names: TreeNames {
            names: BTreeSet::new(),
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
    let mut seen = HashSet::new();
    let mut left = TREE_ENTRIES_MAX;
    while let Some(folder) = folders.pop() {
        // A link to a folder above would be followed for ever.
        if !seen.insert(folder.clone()) {
            continue;
        }
        let Some(entries) = list_within(&folder, left, facts) else {
            // Not the names so far: a list that stops in the middle would let a deny miss the rest.
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
            if walk == FolderWalk::Visible && entry.name.starts_with('.') {
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
            // In lower case, because rules for such a tree ignore case: they only tighten.
            tree.names.names.insert(entry.name.to_lowercase());
        }
    }
    tree
}

/// Nothing where a folder cannot be listed, is a view of processes, or holds more than `left`.
fn list_within(folder: &str, left: usize, facts: &dyn FileFacts) -> Option<Vec<FolderEntry>> {
    let entries = facts.list_folder(folder);
    let entries = entries.filter(|_| !is_of_processes(folder))?;
    (entries.len() <= left).then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::tests::{files, place};

    #[test]
    fn a_walk_finds_names_and_follows_links_only_if_the_program_does() {
        let names = |tree: FolderTree| tree.names.names.into_iter().collect::<Vec<_>>();
        let tree = walk_tree("/p/src", FolderWalk::All, &place(), &files());
        assert!(tree.links.is_empty());
        assert_eq!(names(tree), ["deep", "l", "m.rs"]);
        let tree = walk_tree("/p/src", FolderWalk::Follow, &place(), &files());
        let links: Vec<&str> = tree.links.iter().map(ResolvedPath::real_path).collect();
        assert_eq!(links, ["/h/.ssh"]);
        assert_eq!(names(tree), ["deep", "id", "known", "l", "m.rs"]);
        let visible = walk_tree("/h", FolderWalk::Visible, &place(), &files());
        assert_eq!(names(visible), ["p"]);
    }

    #[test]
    fn a_folder_that_cannot_be_listed_may_hold_any_name() {
        let tree = walk_tree("/closed", FolderWalk::All, &place(), &files());
        assert_eq!(tree.names, TreeNames::unknown());
        assert!(tree.names.may_hold_name("anything"));
        assert!(!tree.names.holds("anything"));
    }
}
