//! Confinement: whether something only reads, and only inside the folder that its agent works in.
//!
//! Rules in a file's table `[folder]` cover a command only if nothing here speaks against it.
//! Invariant: what is not known to stay inside counts as outside.

use crate::facts::FileFacts;
use crate::git_repository::GitRepository;
use crate::glob::GlobToken;
use crate::locate::{AccessedPath, PathAccess};
use crate::path::{ResolvedPath, below, clean, is_standard_stream, resolve};
use crate::request::RequestPlace;
use crate::shell::{self, CommandFacts, FileUse};

/// The folder of an agent, under its name and where that leads.
pub(crate) struct AgentFolder<'p> {
    place: &'p RequestPlace,
    facts: &'p dyn FileFacts,
    /// Its path without `.` and `..`, and its real path. Empty if it is not known.
    paths: Vec<String>,
}

impl<'p> AgentFolder<'p> {
    pub(crate) fn new(place: &'p RequestPlace, facts: &'p dyn FileFacts) -> Self {
        let paths = match resolve(&place.cwd, "", place, facts) {
            Ok(found) => vec![found.lexical.clone(), found.real_path().to_owned()],
            Err(_) => Vec::new(),
        };
        Self {
            place,
            facts,
            paths,
        }
    }

    fn holds(&self, path: &str) -> bool {
        let mut folders = self.paths.iter();
        folders.any(|folder| below(path, folder, false).is_some())
    }

    /// Whether a path is inside under each of its names.
    fn holds_all(&self, spot: &ResolvedPath) -> bool {
        spot.forms()
            .all(|path| self.holds(path) || is_standard_stream(path))
    }

    /// Whether a path with wildcards begins with the folder.
    fn holds_glob(&self, segments: &[Vec<GlobToken>]) -> bool {
        self.paths.iter().any(|folder| {
            let names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
            names.len() <= segments.len()
                && names.iter().zip(segments).all(|(name, tokens)| {
                    let plain = name.chars().map(GlobToken::Char);
                    plain.eq(tokens.iter().cloned())
                })
        })
    }

    /// Why files are not all inside.
    pub(crate) fn doubt_of_paths(&self, spots: &[ResolvedPath]) -> Option<String> {
        let outside = spots.iter().find(|spot| !self.holds_all(spot));
        match outside {
            Some(spot) => Some(is_outside(&spot.lexical)),
            None => spots.is_empty().then(|| "the file is not known".to_owned()),
        }
    }

    /// Why a command may do more than read inside.
    pub(crate) fn doubt_of_command(
        &self,
        command: &CommandFacts,
        touched: &[PathAccess],
        directories: Option<&[String]>,
    ) -> Option<String> {
        let Some(directories) = directories.filter(|directories| !directories.is_empty()) else {
            return Some("the directory it would run in is not known".to_owned());
        };
        if let Some(outside) = directories.iter().find(|path| !self.holds(&clean(path))) {
            return Some(is_outside(outside));
        }
        if let Some(doubt) = touched
            .iter()
            .find_map(|access| self.doubt_of_access(access))
        {
            return Some(doubt);
        }
        if command.program == "git" {
            self.doubt_of_git(command)
        } else if shell::only_reads(command) {
            None
        } else {
            Some(format!("`{}` is not known to only read", command.program))
        }
    }

    fn doubt_of_access(&self, access: &PathAccess) -> Option<String> {
        let (is_inside, name) = match &access.at {
            // The links that a walk follows are accesses of their own.
            AccessedPath::Path(spot) | AccessedPath::Tree(spot, _) => {
                (self.holds_all(spot), spot.lexical.as_str())
            }
            AccessedPath::Glob(segments) => (self.holds_glob(segments), "its wildcard"),
            AccessedPath::Copied(spot, _) => (false, spot.lexical.as_str()),
        };
        if !is_inside {
            return Some(is_outside(name));
        }
        let only_reads = matches!(access.touches, FileUse::Reads | FileUse::Lists);
        (!only_reads).then(|| format!("it may do more than read `{name}`"))
    }

    fn doubt_of_git(&self, command: &CommandFacts) -> Option<String> {
        let words = command.allow.first().map_or(&[][..], |form| &form.words);
        if let Some(doubt) = shell::doubt_of_git_reading(words.get(1..).unwrap_or_default()) {
            return Some(doubt);
        }
        let Some(folder) = self.paths.last() else {
            return Some("the folder the agent works in is not known".to_owned());
        };
        match GitRepository::at(folder, self.place, self.facts) {
            Ok(repository) => repository.find_program(folder, self.place, self.facts),
            Err(reason) => Some(reason.to_owned()),
        }
    }

    /// Why the folder is no worktree beside the main one of its repository.
    pub(crate) fn doubt_of_worktree(&self) -> Option<String> {
        let folder = self.paths.last();
        let found =
            folder.and_then(|folder| GitRepository::at(folder, self.place, self.facts).ok());
        let is_worktree = found.is_some_and(|repository| repository.is_linked_worktree);
        (!is_worktree).then(|| "the agent does not work in a git worktree of its own".to_owned())
    }
}

fn is_outside(path: &str) -> String {
    format!("`{path}` is outside the folder the agent works in")
}
