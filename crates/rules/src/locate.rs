//! Where the paths of a command are: followed through links, expanded, walked.
//!
//! Invariant: what could not be found out is doubt, and every place that was found is given, also the
//! folders that a shell lists for a wildcard.

use std::sync::Arc;

use crate::expand::expand;
use crate::facts::Facts;
use crate::glob::{Token, shell_tokens};
use crate::path::{Spot, clean, resolve};
use crate::request::Place;
use crate::shell::{Touched, Touches, Walk};
use crate::tree::{TreeNames, walk_tree};

/// A path that a command may touch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Touch {
    pub(crate) touches: Touches,
    pub(crate) at: At,
}

impl Touch {
    pub(crate) fn read(spot: Spot) -> Self {
        Self {
            touches: Touches::Reads,
            at: At::Spot(spot),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum At {
    Spot(Spot),
    /// Wildcards, one entry for each segment of the absolute path.
    Glob(Vec<Vec<Token>>),
    /// A folder with everything below it, where these names occur.
    Tree(Spot, Arc<TreeNames>),
    /// A folder into which files with these names are written.
    Copied(Spot, Arc<TreeNames>),
}

/// Finds paths, seen from one place.
#[derive(Clone, Copy)]
pub(crate) struct Locator<'r> {
    pub(crate) place: &'r Place,
    pub(crate) facts: &'r dyn Facts,
}

impl Locator<'_> {
    /// Every place that a path of a command may stand for.
    pub(crate) fn locate(&self, touched: &Touched, directories: Option<&[String]>) -> Located {
        let mut located = Located::default();
        for base in self.bases(touched, directories) {
            self.locate_from(touched, &base, &mut located);
        }
        located
    }

    /// The directories that a path may be counted from.
    fn bases(&self, touched: &Touched, directories: Option<&[String]>) -> Vec<String> {
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

    fn locate_from(&self, touched: &Touched, base: &str, located: &mut Located) {
        let mut spots = Vec::new();
        if touched.glob {
            let found = expand(&touched.path, base, self.place, self.facts);
            located.doubt = located.doubt.or(found.doubt);
            located.add_spots(Touches::Lists, found.listed);
            if touched.touches != Touches::Lists {
                located.add(touched.touches, At::Glob(self.glob(&touched.path, base)));
                spots = found.matches;
            }
        } else if let Ok(spot) = resolve(&touched.path, base, self.place, self.facts) {
            spots.push(spot);
        }
        if let Some((source, glob)) = &touched.copied_from {
            let names = Arc::new(self.names_below(source, *glob, base));
            for spot in &spots {
                // A link that is there already takes what is written through it.
                let tree = walk_tree(spot.real_path(), Walk::Follow, self.place, self.facts);
                located.doubt = located.doubt.or(tree.doubt);
                located.add_spots(touched.touches, tree.links);
                located.add(touched.touches, At::Copied(spot.clone(), names.clone()));
            }
            return;
        }
        if touched.walk != Walk::No {
            for spot in &spots {
                self.locate_tree(touched, spot, located);
            }
        }
        located.add_spots(touched.touches, spots);
    }

    fn locate_tree(&self, touched: &Touched, spot: &Spot, located: &mut Located) {
        let tree = walk_tree(spot.real_path(), touched.walk, self.place, self.facts);
        located.doubt = located.doubt.or(tree.doubt);
        located.add_spots(Touches::Reads, tree.links);
        located.add(
            touched.touches,
            At::Tree(spot.clone(), Arc::new(tree.names)),
        );
    }

    /// The names below what is copied.
    fn names_below(&self, source: &str, glob: bool, base: &str) -> TreeNames {
        match resolve(source, base, self.place, self.facts) {
            Ok(spot) if !glob => {
                walk_tree(spot.real_path(), Walk::All, self.place, self.facts).names
            }
            _ => TreeNames::unknown(),
        }
    }

    /// The segments of an absolute path with wildcards.
    fn glob(&self, pattern: &str, base: &str) -> Vec<Vec<Token>> {
        let (folder, rest) = match pattern.strip_prefix("~/") {
            Some(rest) => (self.place.home.as_str(), rest),
            None if pattern.starts_with('/') => ("", pattern),
            None => (base, pattern),
        };
        let folder = clean(folder);
        let plain = folder.split('/').filter(|name| !name.is_empty());
        let mut segments: Vec<Vec<Token>> = plain
            .map(|name| name.chars().map(Token::Char).collect())
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
pub(crate) struct Located {
    pub(crate) touches: Vec<Touch>,
    /// Why there may be others, if there may.
    pub(crate) doubt: Option<&'static str>,
}

impl Located {
    fn add(&mut self, touches: Touches, at: At) {
        self.touches.push(Touch { touches, at });
    }

    fn add_spots(&mut self, touches: Touches, spots: Vec<Spot>) {
        for spot in spots {
            self.add(touches, At::Spot(spot));
        }
    }
}
