//! The rulebook: which rule files count where.
//!
//! This one has no files: nothing but grants and the floor decides.

use std::collections::HashSet;
use std::sync::Arc;

use countersign_rules::{Facts, Floor, NoFacts, Place, RuleSet};
use tokio::sync::watch;

/// All rule files, by the places they count for.
#[derive(Debug)]
pub struct Rulebook {
    changes: watch::Sender<u64>,
}

/// The rules that count in one working directory.
#[derive(Debug)]
pub struct Chapter {
    /// The working directory and what paths in rules start from.
    pub place: Place,
    /// What stands for the project in a grant's scope: one name for all worktrees of a repository.
    pub project: Option<String>,
    /// Sources of rules.
    pub layers: Vec<ChapterLayer>,
    /// What no rule lifts.
    pub floor: Arc<Floor>,
    /// Why nothing is allowed by rule here, if nothing is.
    pub suspended: Option<String>,
}

/// One source of rules.
#[derive(Debug)]
pub struct ChapterLayer {
    /// Its rules.
    pub rules: RuleSet,
    /// Whether its allows count.
    pub allows: LayerAllows,
}

/// Whether the allows of a source count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerAllows {
    /// They do.
    Count,
    /// Nobody has trusted them.
    Untrusted,
    /// A file is broken: nothing is allowed by rule.
    Suspended(String),
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line in it.
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// Whether nothing is allowed by rule where the file counts.
    pub suspends: bool,
}

impl Rulebook {
    /// No files at all.
    pub fn empty() -> Arc<Self> {
        Arc::new(Self {
            changes: watch::Sender::new(0),
        })
    }

    /// What counts in a working directory.
    pub fn chapter(&self, cwd: Option<&str>) -> Arc<Chapter> {
        let cwd = cwd.unwrap_or_default().to_owned();
        Arc::new(Chapter {
            project: None,
            place: Place {
                project: cwd.clone(),
                cwd,
                home: String::new(),
                ignores_case: false,
            },
            layers: Vec::new(),
            floor: Arc::default(),
            suspended: None,
        })
    }

    /// The file system.
    pub fn facts(&self) -> &(dyn Facts + Send + Sync) {
        &NoFacts
    }

    /// Rises when any file's rules changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What is wrong with files.
    pub fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }

    /// Which files are trusted, each with the digest of the content that is.
    pub fn set_trusted(&self, _trusted: HashSet<(String, String)>) {
        self.changes.send_modify(|changes| *changes += 1);
    }
}
