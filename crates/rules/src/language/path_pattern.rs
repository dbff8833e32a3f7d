//! Patterns of paths: `//etc/**`, `~/.ssh/**`, `/src/**` from the project, `*.env` at any depth.

use super::RuleError;
use crate::folder_tree::TreeNames;
use crate::glob::{GlobToken, PathSegment, path_matches, path_meets};
use crate::path::{below, clean};
use crate::request::RequestPlace;

/// What a rule says of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    pub(crate) anchor: PathAnchor,
    /// Steps up from the anchor before the segments begin.
    up: usize,
    pub(crate) segments: Vec<PathSegment>,
    /// Whether a deny or ask means any depth below the anchor.
    pub(crate) floats: DepthScope,
}

/// Where a path pattern begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathAnchor {
    Root,
    Home,
    Project,
    Cwd,
}

/// Whether a pattern counts at any depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DepthScope {
    Never,
    /// For denies and asks alone.
    Strict,
    Always,
}

impl PathPattern {
    pub(crate) fn parse(spec: &str) -> Result<Self, RuleError> {
        let spec = spec.trim();
        let (anchor, rest) = if let Some(rest) = spec.strip_prefix("//") {
            (PathAnchor::Root, rest)
        } else if spec == "~" {
            (PathAnchor::Home, "")
        } else if let Some(rest) = spec.strip_prefix("~/") {
            (PathAnchor::Home, rest)
        } else if spec.starts_with('~') {
            return Err(RuleError::OtherHome);
        } else if let Some(rest) = spec.strip_prefix('/') {
            (PathAnchor::Project, rest)
        } else {
            (PathAnchor::Cwd, spec)
        };
        let names: Vec<&str> = rest
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
            .collect();
        let up = names.iter().take_while(|name| **name == "..").count();
        let mut segments: Vec<PathSegment> = names[up..]
            .iter()
            .map(|name| PathSegment::parse(name))
            .collect();
        // As in `.gitignore`, `build/` means the folder with all that is in it.
        if rest.ends_with('/') {
            segments.push(PathSegment::Any);
        }
        let floats = match (anchor, spec.starts_with("./"), up, segments.as_slice()) {
            (PathAnchor::Cwd, false, 0, [single]) if *single != PathSegment::Any => {
                DepthScope::Always
            }
            (PathAnchor::Cwd, false, 0, [first, PathSegment::Any])
                if *first != PathSegment::Any =>
            {
                DepthScope::Strict
            }
            _ => DepthScope::Never,
        };
        Ok(Self {
            anchor,
            up,
            segments,
            floats,
        })
    }

    /// Whether it begins above its anchor.
    pub(crate) fn goes_up(&self) -> bool {
        self.up > 0
    }

    /// The folder the segments are counted from.
    pub(crate) fn base(&self, place: &RequestPlace) -> Option<String> {
        let base = match self.anchor {
            PathAnchor::Root => "/",
            PathAnchor::Home => place.home.as_str(),
            PathAnchor::Project => place.project.as_str(),
            PathAnchor::Cwd => place.cwd.as_str(),
        };
        // A place without a home or directory: no path is known to lie below it.
        if base.is_empty() {
            return None;
        }
        Some(clean(&format!("{base}{}", "/..".repeat(self.up))))
    }

    /// Whether an allow covers exactly this path. A folder is covered with all below it only
    /// where its pattern says so; `whole` says that the folder itself may be meant too.
    pub(crate) fn allows(&self, path: &str, place: &RequestPlace, whole: bool) -> bool {
        let Some(base) = self.base(place) else {
            return false;
        };
        let Some(names) = below(path, &base, false) else {
            return false;
        };
        let names = match self.floats {
            DepthScope::Always => &names[names.len().saturating_sub(1)..],
            DepthScope::Never | DepthScope::Strict => &names,
        };
        let last_is_any = self.segments.last() == Some(&PathSegment::Any);
        let enough = whole || !last_is_any || names.len() >= self.segments.len();
        // Case counts even where the file system ignores it: an allow matches less, never more.
        enough && path_matches(&self.segments, names, false)
    }

    /// Whether a deny or ask covers this path: it, or a folder it lies in, fits.
    pub(crate) fn covers(&self, path: &str, place: &RequestPlace) -> bool {
        let Some(base) = self.base(place) else {
            return false;
        };
        let Some(names) = below(path, &base, place.ignores_case) else {
            return false;
        };
        let last_start = match self.floats {
            DepthScope::Never => 0,
            DepthScope::Strict | DepthScope::Always => names.len(),
        };
        (0..=last_start).any(|start| {
            (start..=names.len())
                .any(|end| path_matches(&self.segments, &names[start..end], place.ignores_case))
        })
    }

    /// Its segments from the root on, as a deny or ask reads them.
    fn anchored(&self, place: &RequestPlace) -> Option<Vec<PathSegment>> {
        let base = self.base(place)?;
        let mut anchored: Vec<PathSegment> = base
            .split('/')
            .filter(|name| !name.is_empty())
            .map(|name| PathSegment::Name(name.to_owned()))
            .collect();
        if self.floats != DepthScope::Never {
            anchored.push(PathSegment::Any);
        }
        anchored.extend(self.segments.iter().cloned());
        Some(anchored)
    }

    /// Whether a deny or ask could cover something below the folder `root`, where only `names`
    /// occur.
    pub(crate) fn could_cover_below(
        &self,
        root: &str,
        names: &TreeNames,
        place: &RequestPlace,
    ) -> bool {
        let Some(anchored) = self.anchored(place) else {
            return false;
        };
        let above: Vec<&str> = root.split('/').filter(|name| !name.is_empty()).collect();
        // However many segments the root itself takes up, the others must be found below it.
        (0..=anchored.len()).any(|taken| {
            path_matches(&anchored[..taken], &above, place.ignores_case)
                && anchored[taken..].iter().all(|segment| match segment {
                    PathSegment::Any => true,
                    PathSegment::Name(own) => names.may_hold_name(&own.to_lowercase()),
                    PathSegment::Glob(_) => names.may_hold(|name| segment.matches(name, true)),
                })
        })
    }

    /// Whether a deny or ask could cover what a path with wildcards stands for.
    pub(crate) fn could_cover(&self, globs: &[Vec<GlobToken>], place: &RequestPlace) -> bool {
        let Some(mut anchored) = self.anchored(place) else {
            return false;
        };
        if anchored.last() == Some(&PathSegment::Any) {
            // A name that stands for the folder itself shows no more than its name.
            anchored.insert(anchored.len() - 1, PathSegment::Glob(vec![GlobToken::Many]));
        }
        // A folder that fits covers what is below it, and a wildcard may stand for that folder.
        (0..=globs.len()).any(|end| path_meets(&anchored, &globs[..end], place.ignores_case))
    }
}
