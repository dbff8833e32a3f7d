//! One of our rule files over time.
//!
//! Invariant: denies and asks that were read once stay until the file itself says otherwise. A file
//! that breaks loses its allows and suspends everybody else's where it counts.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_rules::{
    Effect, Entry, FileKind, FileProblem, FileProblems, Others, RuleFile, RuleSet, anchor_rule,
    parse_file,
};

use super::chapter::{ChapterLayer, LayerAllows, Problem};
use super::disk::{Content, Watched};

/// A rule file, as it was last read and as it was last understood.
#[derive(Debug)]
pub(super) struct OwnFile {
    kind: FileKind,
    source: String,
    watched: Watched,
    good: Option<Good>,
    trouble: Option<Trouble>,
}

/// What was last understood.
#[derive(Debug)]
struct Good {
    rules: Arc<RuleSet>,
    /// Its denies and asks alone.
    strict: Arc<RuleSet>,
    digest: Arc<str>,
    others: Others,
    warnings: Vec<FileProblem>,
}

/// Why what was last understood is not what stands there now.
#[derive(Debug)]
struct Trouble {
    problems: Vec<FileProblem>,
    suspends: bool,
}

impl OwnFile {
    /// A file that has not been read.
    pub(super) fn new(kind: FileKind, path: PathBuf, within: Option<PathBuf>) -> Self {
        Self {
            kind,
            source: path.display().to_string(),
            watched: Watched::new(path, within),
            good: None,
            trouble: None,
        }
    }

    /// Looks again; says whether what counts is another than before.
    pub(super) fn refresh(&mut self) -> bool {
        if !self.watched.refresh() {
            return false;
        }
        match self.watched.content().clone() {
            Content::Absent => self.vanished(),
            Content::Unreadable(message) => self.broke(vec![FileProblem {
                line: None,
                message,
            }]),
            Content::Text { text, digest } => match parse_file(&text, &self.source, self.kind) {
                Ok(file) => {
                    self.good = Some(Good::of(file, digest));
                    self.trouble = None;
                }
                Err(FileProblems { problems, .. }) => self.broke(problems),
            },
        }
        true
    }

    fn broke(&mut self, problems: Vec<FileProblem>) {
        self.trouble = Some(Trouble {
            problems,
            suspends: true,
        });
    }

    /// A file that held denies or asks does not take them with it. The user's own is missed;
    /// one in a project may be gone because another branch was checked out.
    fn vanished(&mut self) {
        self.trouble = None;
        if !self.good.as_ref().is_some_and(Good::is_strict) {
            self.good = None;
            return;
        }
        let suspends = self.kind == FileKind::User;
        let message = if suspends {
            "it is gone; its denies and asks stay, and nothing is allowed by rule until it is back \
             (an empty file will do)"
        } else {
            "it is gone; its denies and asks stay until it is back or the host starts again"
        };
        self.trouble = Some(Trouble {
            problems: vec![FileProblem {
                line: None,
                message: message.into(),
            }],
            suspends,
        });
    }

    /// Whether it stands there, or stood there and left something.
    pub(super) fn matters(&self) -> bool {
        self.good.is_some() || self.trouble.is_some()
    }

    /// What is wrong, if it is not as it should be.
    pub(super) fn failure(&self) -> Option<FileProblems> {
        self.trouble.as_ref().map(|trouble| FileProblems {
            source: self.source.clone(),
            problems: trouble.problems.clone(),
        })
    }

    /// Why nothing is allowed by rule where this file counts.
    pub(super) fn suspended(&self) -> Option<String> {
        let trouble = self.trouble.as_ref().filter(|found| found.suspends)?;
        let problem = trouble.problems.first()?;
        let line = problem.line.map(|line| format!(":{line}"));
        Some(format!(
            "{}{} is broken: {}",
            self.source,
            line.unwrap_or_default(),
            problem.message
        ))
    }

    pub(super) fn others(&self) -> Others {
        // A file that broke still says whose rules are to be heeded: they can only tighten now.
        self.good
            .as_ref()
            .map(|good| good.others)
            .unwrap_or_default()
    }

    /// Its path and the digest of its content, if it would loosen something.
    pub(super) fn loosens(&self) -> Option<(String, String)> {
        let good = self.good.as_ref().filter(|_| self.trouble.is_none())?;
        let allows = good
            .rules
            .entries()
            .any(|entry| entry.effect == Effect::Allow);
        allows.then(|| (self.source.clone(), good.digest.to_string()))
    }

    /// What it adds to a chapter.
    pub(super) fn layer(&self, trusted: bool) -> Option<ChapterLayer> {
        if let Some(why) = self.suspended() {
            let rules = self.good.as_ref().map(|good| Arc::clone(&good.strict));
            return Some(ChapterLayer {
                rules: rules.unwrap_or_default(),
                allows: LayerAllows::Suspended(why),
            });
        }
        let good = self.good.as_ref()?;
        if self.trouble.is_some() {
            return self.strict_layer();
        }
        let allows = if trusted {
            LayerAllows::Count
        } else {
            LayerAllows::Untrusted
        };
        Some(ChapterLayer {
            rules: Arc::clone(&good.rules),
            allows,
        })
    }

    /// Its denies and asks alone, as they read in a project inside of the one at `root`.
    pub(super) fn outer_layer(&self, root: &str) -> Option<ChapterLayer> {
        let layer = self.strict_layer()?;
        let mut rules = RuleSet::default();
        for entry in layer.rules.entries() {
            rules.insert(anchor_rule(entry, root));
        }
        Some(ChapterLayer {
            rules: rules.into(),
            ..layer
        })
    }

    /// Its denies and asks alone, or that it is broken.
    fn strict_layer(&self) -> Option<ChapterLayer> {
        let rules = self.good.as_ref().map(|good| Arc::clone(&good.strict));
        let allows = match self.suspended() {
            Some(why) => LayerAllows::Suspended(why),
            None => LayerAllows::Count,
        };
        if rules.is_none() && allows == LayerAllows::Count {
            return None;
        }
        Some(ChapterLayer {
            rules: rules.unwrap_or_default(),
            allows,
        })
    }

    /// What a person should know about it.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let problem = |found: &FileProblem, suspends| Problem {
            file: self.source.clone(),
            line: found.line,
            message: found.message.clone(),
            suspends,
        };
        match (&self.trouble, &self.good) {
            (Some(trouble), _) => {
                let suspends = trouble.suspends;
                let found = trouble.problems.iter();
                found.map(|found| problem(found, suspends)).collect()
            }
            (None, Some(good)) => {
                let found = good.warnings.iter();
                found.map(|found| problem(found, false)).collect()
            }
            (None, None) => Vec::new(),
        }
    }
}

impl Good {
    fn of(file: RuleFile, digest: Arc<str>) -> Self {
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

fn tightens(entry: &Entry) -> bool {
    entry.effect != Effect::Allow
}
