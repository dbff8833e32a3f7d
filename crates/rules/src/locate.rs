//! Where the paths of a command are: followed through links, expanded, walked.
//!
//! Invariant: what could not be found out is doubt, and every place that was found is given, also the
//! folders that a shell lists for a wildcard.

use std::sync::Arc;

use crate::expand::expand;
use crate::facts::FileFacts;
use crate::folder_tree::{TreeNames, walk_tree};
use crate::glob::{GlobToken, shell_tokens};
use crate::path::{ResolvedPath, clean, resolve};
use crate::request::RequestPlace;
use crate::shell::{FileUse, FolderWalk, PathArgument};

/// A path that a command may touch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathAccess {
    pub(crate) touches: FileUse,
    pub(crate) at: AccessedPath,
}

impl PathAccess {
    pub(crate) fn read(spot: ResolvedPath) -> Self {
        Self {
            touches: FileUse::Reads,
            at: AccessedPath::Path(spot),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AccessedPath {
    Path(ResolvedPath),
    /// Wildcards, one entry for each segment of the absolute path.
    Glob(Vec<Vec<GlobToken>>),
    /// A folder with everything below it, where these names occur.
    Tree(ResolvedPath, Arc<TreeNames>),
    /// A folder into which files with these names are written.
    Copied(ResolvedPath, Arc<TreeNames>),
}

/// Finds paths, seen from one place.
#[derive(Clone, Copy)]
pub(crate) struct PathLocator<'r> {
    pub(crate) place: &'r RequestPlace,
    pub(crate) facts: &'r dyn FileFacts,
}

impl PathLocator<'_> {
    /// Every place that a path of a command may stand for.
    pub(crate) fn locate(
        &self,
        touched: &PathArgument,
        directories: Option<&[String]>,
    ) -> LocatedPaths {
        let mut located = LocatedPaths::default();
        for base in self.bases(touched, directories) {
            self.locate_from(touched, &base, &mut located);
        }
        located
    }

    /// The directories that a path may be counted from.
    fn bases(&self, touched: &PathArgument, directories: Option<&[String]>) -> Vec<String> {
        let nowhere = [String::new()];
        let mut bases = directories.unwrap_or(&nowhere).to_vec();
        for folder in &touched.folders {
            let below: Vec<String> = bases
                .iter()
                .filter_map(|base| resolve(folder, base, self.place, self.facts).ok())
                .flat_map(|spot| spot.forms().map(str::to_owned).collect::<Vec<_>>())
                .collect();
            bases.extend(below);
            bases.dedup();
        }
        bases
    }

    fn locate_from(&self, touched: &PathArgument, base: &str, located: &mut LocatedPaths) {
        let mut spots = Vec::new();
        if touched.glob {
            let found = expand(&touched.path, base, self.place, self.facts);
            located.doubt = located.doubt.or(found.doubt);
            located.add_spots(FileUse::Lists, found.listed);
            // The pattern as well as its matches: a file that fits it may be made before the
            // command runs.
            if touched.touches != FileUse::Lists {
                located.add(
                    touched.touches,
                    AccessedPath::Glob(self.glob(&touched.path, base)),
                );
                spots = found.matches;
            }
        } else if let Ok(spot) = resolve(&touched.path, base, self.place, self.facts) {
            // An error is not lost: the assessment resolves the same paths and makes it a doubt.
            spots.push(spot);
        }
        if let Some((source, glob)) = &touched.copied_from {
            let names = Arc::new(self.names_below(source, *glob, base));
            for spot in &spots {
                // A link that is there already takes what is written through it.
                let tree = walk_tree(spot.real_path(), FolderWalk::Follow, self.place, self.facts);
                located.doubt = located.doubt.or(tree.doubt);
                located.add_spots(touched.touches, tree.links);
                located.add(
                    touched.touches,
                    AccessedPath::Copied(spot.clone(), names.clone()),
                );
            }
            return;
        }
        if touched.walk != FolderWalk::No {
            for spot in &spots {
                self.locate_tree(touched, spot, located);
            }
        }
        located.add_spots(touched.touches, spots);
    }

    fn locate_tree(&self, touched: &PathArgument, spot: &ResolvedPath, located: &mut LocatedPaths) {
        let tree = walk_tree(spot.real_path(), touched.walk, self.place, self.facts);
        located.doubt = located.doubt.or(tree.doubt);
        located.add_spots(FileUse::Reads, tree.links);
        located.add(
            touched.touches,
            AccessedPath::Tree(spot.clone(), Arc::new(tree.names)),
        );
    }

    /// The names below what is copied.
    fn names_below(&self, source: &str, glob: bool, base: &str) -> TreeNames {
        match resolve(source, base, self.place, self.facts) {
            Ok(spot) if !glob => {
                walk_tree(spot.real_path(), FolderWalk::All, self.place, self.facts).names
            }
            // A wildcard stands for several folders, and which they are may change until it runs.
            _ => TreeNames::unknown(),
        }
    }

    /// The segments of an absolute path with wildcards.
    fn glob(&self, pattern: &str, base: &str) -> Vec<Vec<GlobToken>> {
        let (folder, rest) = match pattern.strip_prefix("~/") {
            Some(rest) => (self.place.home.as_str(), rest),
            None if pattern.starts_with('/') => ("", pattern),
            None => (base, pattern),
        };
        let folder = clean(folder);
        let plain = folder.split('/').filter(|name| !name.is_empty());
        let mut segments: Vec<Vec<GlobToken>> = plain
            .map(|name| name.chars().map(GlobToken::Char).collect())
            .collect();
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    segments.pop();
                }
                name => segments.push(shell_tokens(name)),
            }
        }
        segments
    }
}

/// Where the paths of a command are.
#[derive(Default)]
pub(crate) struct LocatedPaths {
    pub(crate) touches: Vec<PathAccess>,
    /// Why there may be others, if there may.
    pub(crate) doubt: Option<&'static str>,
}

impl LocatedPaths {
    fn add(&mut self, touches: FileUse, at: AccessedPath) {
        self.touches.push(PathAccess { touches, at });
    }

    fn add_spots(&mut self, touches: FileUse, spots: Vec<ResolvedPath>) {
        for spot in spots {
            self.add(touches, AccessedPath::Path(spot));
        }
    }
}
