//! What one part of a command leaves behind for the others: after it has linked, moved, copied or
//! unpacked something, a path may lead elsewhere than it does now.

use crate::glob::{GlobToken, PathSegment, path_meets};
use crate::locate::AccessedPath;
use crate::path::below;

/// Whether parts of a command may run side by side: in a pipe or in the background.
pub(crate) fn runs_at_once(command: &str) -> bool {
    // By the text alone, quotes and all: a `&` in a string only makes the order less certain.
    command.replace("&&", "").contains('&') || command.replace("||", "").contains('|')
}

/// Where other files may be once a part of a command has run.
#[derive(Clone, Debug)]
pub(crate) enum ReplacedPath {
    /// At this path and below it.
    At(String),
    /// Below this folder, which itself stays what it is.
    Below(String),
}

impl ReplacedPath {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::At(path) | Self::Below(path) => path,
        }
    }

    /// Whether `other` may now be something else.
    pub(crate) fn holds(&self, other: &str) -> bool {
        let names = below(other, self.path(), true);
        names.is_some_and(|names| matches!(self, Self::At(_)) || !names.is_empty())
    }

    pub(crate) fn meets(&self, at: &AccessedPath) -> bool {
        match at {
            AccessedPath::Path(spot) => spot.forms().any(|path| self.holds(path)),
            AccessedPath::Tree(spot, _) | AccessedPath::Copied(spot, _) => {
                // A walk of a folder also reaches what was replaced below it.
                spot.forms()
                    .any(|path| self.holds(path) || below(self.path(), path, true).is_some())
            }
            AccessedPath::Glob(globs) => could_pass_through(globs, self.path()),
        }
    }
}

/// Whether a path with wildcards could be `path` or lie below it.
fn could_pass_through(globs: &[Vec<GlobToken>], path: &str) -> bool {
    let names: Vec<PathSegment> = path
        .split('/')
        .filter(|name| !name.is_empty())
        .map(|name| PathSegment::Name(name.to_owned()))
        .collect();
    globs
        .get(..names.len())
        .is_some_and(|head| path_meets(&names, head, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_unpacked_into_stays_what_it_is() {
        let at = ReplacedPath::At("/p/z".to_owned());
        let below = ReplacedPath::Below("/p".to_owned());
        assert_eq!(
            ["/p", "/p/z", "/p/z/a", "/p/zz"].map(|path| (at.holds(path), below.holds(path))),
            [(false, false), (true, true), (true, true), (false, true)]
        );
    }

    #[test]
    fn only_pipes_and_jobs_run_side_by_side() {
        for command in ["a | b", "a & b", "a |& b"] {
            assert!(runs_at_once(command), "{command}");
        }
        for command in ["a && b", "a; b", "a || b"] {
            assert!(!runs_at_once(command), "{command}");
        }
    }
}
