//! The rulebook: rule files found, read, watched and put together for each working directory.
//!
//! Invariants: a file that breaks never takes a deny or an ask with it, and nothing is allowed by
//! rule where it counts until it is mended; what stands in a repository tightens at once and
//! loosens only after a person trusted exactly that content.

mod dir_rules;
mod disk;
mod foreign;
mod own_file;
mod project;
mod rule_cache;
mod search_paths;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use countersign_rules::{FileFacts, FileProblems};
use tokio::sync::watch;

pub use dir_rules::{DirRules, ListedRule, RuleFileProblem, RuleLayer, UntrustedRuleFile};
use disk::DiskFileFacts;
pub use foreign::foreign_policy;
use rule_cache::RuleCache;

/// The longest path that the system takes.
const CWD_BYTES_MAX: usize = 4096;

/// How often the files are looked at when nobody asks.
const POLL: Duration = Duration::from_secs(1);

/// Where rule files are, and what the host's own files are.
#[derive(Clone, Debug, Default)]
pub struct RulebookConfig {
    /// The user's `rules.toml`.
    pub user_file: PathBuf,
    /// The user's home.
    pub home: PathBuf,
    /// The host's database, sockets, tokens and configuration.
    pub host_paths: Vec<PathBuf>,
    /// The settings of Claude Code that an administrator made.
    pub managed_claude: PathBuf,
}

/// Why the rulebook could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RulebookError {
    /// The user's file has problems; without its denies nothing is safe.
    #[error("the rules were not understood\n{0}")]
    Rules(FileProblems),
    /// The files cannot be watched.
    #[error("could not watch the rule files")]
    Watch(#[source] std::io::Error),
}

/// Every rule file that counts somewhere.
#[derive(Debug)]
pub struct Rulebook {
    cache: Option<Mutex<RuleCache>>,
    empty_rules: Arc<DirRules>,
    changes: watch::Sender<u64>,
    /// The poll ends when this is dropped.
    _alive: SyncSender<()>,
}

impl Rulebook {
    /// One without files, for a host that has none.
    pub fn empty() -> Arc<Self> {
        let (alive, _) = sync_channel(1);
        Arc::new(Self::new(None, alive))
    }

    /// Reads the user's file and begins to watch. A file that is not there is fine; one that is
    /// not understood is refused.
    pub fn open(config: RulebookConfig) -> Result<Arc<Self>, RulebookError> {
        let mut cache = RuleCache::new(config);
        if let Some(problems) = cache.user().problems_now() {
            return Err(RulebookError::Rules(problems));
        }
        // So that what is wrong with the user's other files is known before anybody asks.
        cache.rules_for("");
        let (alive, ended) = sync_channel(1);
        let book = Arc::new(Self::new(Some(cache), alive));
        // Weak, or the thread would keep the rulebook alive and never end.
        let weak = Arc::downgrade(&book);
        std::thread::Builder::new()
            .name("rulebook".into())
            .spawn(move || poll_files(&weak, &ended))
            .map_err(RulebookError::Watch)?;
        Ok(book)
    }

    fn new(cache: Option<RuleCache>, alive: SyncSender<()>) -> Self {
        let nothing = RuleCache::new(RulebookConfig::default()).without_files("");
        let revision = cache.as_ref().map_or(0, RuleCache::revision);
        Self {
            cache: cache.map(Mutex::new),
            empty_rules: Arc::new(nothing),
            changes: watch::Sender::new(revision),
            _alive: alive,
        }
    }

    /// What the files say about a working directory. Blocks for a few calls to the file system,
    /// and a little longer while a file is being written.
    pub fn rules_for(&self, cwd: Option<&str>) -> Arc<DirRules> {
        // No folder has a longer name, and looking for one would take long.
        let cwd = cwd
            .filter(|cwd| cwd.starts_with('/') && cwd.len() <= CWD_BYTES_MAX && !cwd.contains('\0'))
            .unwrap_or_default();
        match self.lock_cache() {
            Some(mut cache) => {
                let rules = cache.rules_for(cwd);
                self.publish_revision(&cache);
                rules
            }
            None if cwd.is_empty() => Arc::clone(&self.empty_rules),
            None => Arc::new(RuleCache::new(RulebookConfig::default()).without_files(cwd)),
        }
    }

    /// The file system as it is.
    pub fn facts(&self) -> &(dyn FileFacts + Send + Sync) {
        &DiskFileFacts
    }

    /// Rises when the rules changed anywhere.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What a person should know about the files, by file and line.
    pub fn problems(&self) -> Vec<RuleFileProblem> {
        self.lock_cache()
            .map(|cache| cache.problems())
            .unwrap_or_default()
    }

    /// Says which contents a person trusted: path and digest, nothing else.
    pub fn set_trusted(&self, trusted: HashSet<(String, String)>) {
        if let Some(mut cache) = self.lock_cache() {
            cache.set_trusted(trusted);
            self.publish_revision(&cache);
        }
    }

    /// The files of a place whose allows do not count yet, each with its text. One that changed since
    /// it was last looked at is left out.
    pub fn untrusted_files(&self, cwd: Option<&str>) -> Vec<UntrustedRuleFile> {
        let rules = self.rules_for(cwd);
        let files = rules.untrusted.iter().filter_map(|(file, digest)| {
            let text = disk::read_unchanged(Path::new(file), digest)?;
            Some(UntrustedRuleFile {
                file: file.clone(),
                digest: digest.clone(),
                text,
            })
        });
        files.collect()
    }

    /// The rules of a place one by one, each with whether it counts now.
    pub fn list_rules(&self, cwd: Option<&str>) -> Vec<ListedRule> {
        self.rules_for(cwd).list_rules()
    }

    /// Looks at every file known so far, now.
    pub fn refresh(&self) {
        if let Some(mut cache) = self.lock_cache() {
            cache.refresh_all();
            self.publish_revision(&cache);
        }
    }

    fn lock_cache(&self) -> Option<MutexGuard<'_, RuleCache>> {
        let cache = self.cache.as_ref()?;
        // Whoever panicked left files at worst half looked at; they are looked at again.
        Some(cache.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn publish_revision(&self, cache: &RuleCache) {
        let revision = cache.revision();
        self.changes.send_if_modified(|known| {
            // Whoever waits judges all open asks again, so a revision that is known wakes nobody.
            let rose = *known < revision;
            *known = revision;
            rose
        });
    }
}

/// Looks at the files now and then, until the rulebook is gone.
fn poll_files(book: &Weak<Rulebook>, ended: &Receiver<()>) {
    while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
        let Some(book) = book.upgrade() else {
            return;
        };
        book.refresh();
    }
}
