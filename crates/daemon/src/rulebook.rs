//! The rulebook: rule files found, read, watched and put together for each working directory.
//!
//! Invariants: a file that breaks never takes a deny or an ask with it, and nothing is allowed by
//! rule where it counts until it is mended; what stands in a repository tightens at once and
//! loosens only after a person trusted exactly that content.

mod chapter;
mod disk;
mod foreign;
mod own_file;
mod project;
mod shelf;
mod whereabouts;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use countersign_rules::{Facts, FileProblems};
use tokio::sync::watch;

pub use chapter::{Chapter, ChapterLayer, LayerAllows, ListedRule, Problem};
use disk::Disk;
pub use foreign::foreign_policy;
use shelf::Shelf;

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
    shelf: Option<Mutex<Shelf>>,
    nothing: Arc<Chapter>,
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
        let mut shelf = Shelf::new(config);
        if let Some(problems) = shelf.user().failure() {
            return Err(RulebookError::Rules(problems));
        }
        // So that what is wrong with the user's other files is known before anybody asks.
        shelf.chapter("");
        let (alive, ended) = sync_channel(1);
        let book = Arc::new(Self::new(Some(shelf), alive));
        let weak = Arc::downgrade(&book);
        std::thread::Builder::new()
            .name("rulebook".into())
            .spawn(move || poll(&weak, &ended))
            .map_err(RulebookError::Watch)?;
        Ok(book)
    }

    fn new(shelf: Option<Shelf>, alive: SyncSender<()>) -> Self {
        let nothing = Shelf::new(RulebookConfig::default()).unfiled("");
        let revision = shelf.as_ref().map_or(0, Shelf::revision);
        Self {
            shelf: shelf.map(Mutex::new),
            nothing: Arc::new(nothing),
            changes: watch::Sender::new(revision),
            _alive: alive,
        }
    }

    /// What the files say about a working directory. Blocks for a few calls to the file system,
    /// and a little longer while a file is being written.
    pub fn chapter(&self, cwd: Option<&str>) -> Arc<Chapter> {
        // No folder has a longer name, and looking for one would take long.
        let possible = |cwd: &&str| cwd.len() <= CWD_BYTES_MAX && !cwd.contains('\0');
        let cwd = cwd.filter(|cwd| cwd.starts_with('/')).filter(possible);
        let cwd = cwd.unwrap_or_default();
        match self.shelf() {
            Some(mut shelf) => {
                let chapter = shelf.chapter(cwd);
                self.announce(&shelf);
                chapter
            }
            None if cwd.is_empty() => Arc::clone(&self.nothing),
            None => Arc::new(Shelf::new(RulebookConfig::default()).unfiled(cwd)),
        }
    }

    /// The file system as it is.
    pub fn facts(&self) -> &(dyn Facts + Send + Sync) {
        &Disk
    }

    /// Rises when the rules changed anywhere.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What a person should know about the files, by file and line.
    pub fn problems(&self) -> Vec<Problem> {
        self.shelf()
            .map(|shelf| shelf.problems())
            .unwrap_or_default()
    }

    /// Says which contents a person trusted: path and digest, nothing else.
    pub fn set_trusted(&self, trusted: HashSet<(String, String)>) {
        if let Some(mut shelf) = self.shelf() {
            shelf.set_trusted(trusted);
            self.announce(&shelf);
        }
    }

    /// The rules of a place one by one, each with whether it counts now.
    pub fn listed(&self, cwd: Option<&str>) -> Vec<ListedRule> {
        self.chapter(cwd).listed()
    }

    /// Looks at every file known so far, now.
    pub fn refresh(&self) {
        if let Some(mut shelf) = self.shelf() {
            shelf.look_everywhere();
            self.announce(&shelf);
        }
    }

    fn shelf(&self) -> Option<MutexGuard<'_, Shelf>> {
        let shelf = self.shelf.as_ref()?;
        // Whoever panicked left files at worst half looked at; they are looked at again.
        Some(shelf.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn announce(&self, shelf: &Shelf) {
        let revision = shelf.revision();
        self.changes.send_if_modified(|known| {
            let rose = *known < revision;
            *known = revision;
            rose
        });
    }
}

/// Looks at the files now and then, until the rulebook is gone.
fn poll(book: &Weak<Rulebook>, ended: &Receiver<()>) {
    while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
        let Some(book) = book.upgrade() else {
            return;
        };
        book.refresh();
    }
}
