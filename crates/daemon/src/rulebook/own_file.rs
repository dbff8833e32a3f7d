//! One of our rule files over time.
//!
//! Invariant: denies and asks that were read once stay until the file itself says otherwise. A file
//! that breaks loses its allows and suspends everybody else's where it counts.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_rules::{
    Effect, FileKind, FileProblem, FileProblems, ForeignSwitches, LayerAllows, RuleEntry, RuleFile,
    RuleSet, anchor_rule, parse_file,
};

use super::dir_rules::{RuleFileProblem, RuleLayer};
use super::disk::{FileContent, WatchedFile};

/// A rule file, as it was last read and as it was last understood.
#[derive(Debug)]
pub(super) struct OwnFile {
    kind: FileKind,
    source: String,
    watched: WatchedFile,
    parsed: Option<ParsedRules>,
    failure: Option<RuleFileFailure>,
}

/// The rules as they were last read without a problem.
#[derive(Debug)]
struct ParsedRules {
    rules: Arc<RuleSet>,
    /// Its denies and asks alone.
    strict: Arc<RuleSet>,
    digest: Arc<str>,
    others: ForeignSwitches,
    warnings: Vec<FileProblem>,
}

/// Why the rules that were read last are not what the file holds now.
#[derive(Debug)]
struct RuleFileFailure {
    problems: Vec<FileProblem>,
    suspends: bool,
}

impl OwnFile {
    /// A file that has not been read.
    pub(super) fn new(kind: FileKind, path: PathBuf, within: Option<PathBuf>) -> Self {
        Self {
            kind,
            source: path.display().to_string(),
            watched: WatchedFile::new(path, within),
            parsed: None,
            failure: None,
        }
    }

    /// Checks the file again; says whether the rules that count changed.
    pub(super) fn refresh(&mut self) -> bool {
        if !self.watched.refresh() {
            return false;
        }
        match self.watched.content().clone() {
            FileContent::Absent => self.note_removed(),
            // A file that breaks leaves `parsed` as it was: its denies still count.
            FileContent::Unreadable(message) => self.note_broken(vec![FileProblem {
                line: None,
                message,
            }]),
            FileContent::Text { text, digest } => {
                match parse_file(&text, &self.source, self.kind) {
                    Ok(file) => {
                        self.parsed = Some(ParsedRules::from_file(file, digest));
                        self.failure = None;
                    }
                    Err(FileProblems { problems, .. }) => self.note_broken(problems),
                }
            }
        }
        true
    }

    fn note_broken(&mut self, problems: Vec<FileProblem>) {
        self.failure = Some(RuleFileFailure {
            problems,
            suspends: true,
        });
    }

    /// A file that held denies or asks does not take them with it. The user's own is missed;
    /// one in a project may be gone because another branch was checked out.
    fn note_removed(&mut self) {
        self.failure = None;
        if !self.parsed.as_ref().is_some_and(ParsedRules::is_strict) {
            self.parsed = None;
            return;
        }
        let suspends = self.kind == FileKind::User;
        let message = if suspends {
            "missing: its denies still hold, no rule allows anything. Restore it, or create an empty one"
        } else {
            "missing: its denies and asks still hold until it is restored or the host restarts"
        };
        self.failure = Some(RuleFileFailure {
            problems: vec![FileProblem {
                line: None,
                message: message.into(),
            }],
            suspends,
        });
    }

    /// Whether the file exists, or existed and left rules that still count.
    pub(super) fn has_effect(&self) -> bool {
        self.parsed.is_some() || self.failure.is_some()
    }

    /// What is wrong with the file, if anything is.
    pub(super) fn problems_now(&self) -> Option<FileProblems> {
        self.failure.as_ref().map(|trouble| FileProblems {
            source: self.source.clone(),
            problems: trouble.problems.clone(),
        })
    }

    /// Why nothing is allowed by rule where this file counts.
    pub(super) fn suspension(&self) -> Option<String> {
        let trouble = self.failure.as_ref().filter(|found| found.suspends)?;
        let problem = trouble.problems.first()?;
        let line = problem.line.map(|line| format!(":{line}"));
        Some(format!(
            "{}{} is broken: {}",
            self.source,
            line.unwrap_or_default(),
            problem.message
        ))
    }

    pub(super) fn foreign_tools(&self) -> ForeignSwitches {
        // A file that broke still says whose rules are to be heeded: they can only tighten now.
        self.parsed
            .as_ref()
            .map(|good| good.others)
            .unwrap_or_default()
    }

    /// Its path and the digest of its content, if it would loosen something.
    pub(super) fn untrusted_content(&self) -> Option<(String, String)> {
        // What a broken file would loosen does not count, so nobody is asked to trust it.
        let good = self.parsed.as_ref().filter(|_| self.failure.is_none())?;
        let allows = good
            .rules
            .entries()
            .any(|entry| entry.effect == Effect::Allow);
        allows.then(|| (self.source.clone(), good.digest.to_string()))
    }

    /// The layer that it adds to the rules of a directory.
    pub(super) fn layer(&self, trusted: bool) -> Option<RuleLayer> {
        if let Some(why) = self.suspension() {
            let rules = self.parsed.as_ref().map(|good| Arc::clone(&good.strict));
            return Some(RuleLayer {
                rules: rules.unwrap_or_default(),
                allows: LayerAllows::Suspended(why),
            });
        }
        let good = self.parsed.as_ref()?;
        // A project's file that was removed: what it allowed is not allowed any more.
        if self.failure.is_some() {
            return self.strict_layer();
        }
        let allows = if trusted {
            LayerAllows::Count
        } else {
            LayerAllows::Untrusted
        };
        Some(RuleLayer {
            rules: Arc::clone(&good.rules),
            allows,
        })
    }

    /// Its denies and asks alone, as they read in a project inside of the one at `root`.
    pub(super) fn outer_layer(&self, root: &str) -> Option<RuleLayer> {
        let layer = self.strict_layer()?;
        let mut rules = RuleSet::default();
        for entry in layer.rules.entries() {
            rules.insert(anchor_rule(entry, root));
        }
        Some(RuleLayer {
            rules: rules.into(),
            ..layer
        })
    }

    /// Its denies and asks alone, or that it is broken.
    fn strict_layer(&self) -> Option<RuleLayer> {
        let rules = self.parsed.as_ref().map(|good| Arc::clone(&good.strict));
        let allows = match self.suspension() {
            Some(why) => LayerAllows::Suspended(why),
            None => LayerAllows::Count,
        };
        if rules.is_none() && allows == LayerAllows::Count {
            return None;
        }
        Some(RuleLayer {
            rules: rules.unwrap_or_default(),
            allows,
        })
    }

    /// What a person should know about it.
    pub(super) fn problems(&self) -> Vec<RuleFileProblem> {
        let (problems, suspends) = match (&self.failure, &self.parsed) {
            (Some(failure), _) => (failure.problems.as_slice(), failure.suspends),
            (None, Some(parsed)) => (parsed.warnings.as_slice(), false),
            (None, None) => return Vec::new(),
        };
        problems
            .iter()
            .map(|found| RuleFileProblem {
                file: self.source.clone(),
                line: found.line,
                message: found.message.clone(),
                suspends,
            })
            .collect()
    }
}

impl ParsedRules {
    fn from_file(file: RuleFile, digest: Arc<str>) -> Self {
        let mut rules = RuleSet::default();
        let mut strict = RuleSet::default();
        for entry in file.entries {
            if tightens(&entry) {
                strict.insert(entry.clone());
            }
            rules.insert(entry);
        }
        Self {
            rules: rules.into(),
            strict: strict.into(),
            digest,
            others: file.others,
            warnings: file.warnings,
        }
    }

    fn is_strict(&self) -> bool {
        self.strict.entries().next().is_some()
    }
}

fn tightens(entry: &RuleEntry) -> bool {
    entry.effect != Effect::Allow
}
