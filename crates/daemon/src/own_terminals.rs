//! The terminals of people that this host runs or adopted.
//!
//! Invariants: a terminal is listed from the moment it runs until it is closed; how many there are has a bound.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_agents::own_terminal::OwnTerminal;
use countersign_core::Rejection;
use countersign_core::limits::OWN_TERMINALS_MAX;
use tokio_util::sync::CancellationToken;

/// How people's own terminals are started and found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTerminalSettings {
    /// The program that runs one; its own arguments follow.
    pub command: Vec<OsString>,
    /// The folder of all of them. The next host must find it.
    pub folder: PathBuf,
    /// Folders for their sockets, the best first.
    pub sockets: Vec<PathBuf>,
    /// The file that this host has locked.
    pub host_lock: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct OwnTerminals {
    /// Nothing is opened without them.
    pub(crate) settings: Option<OwnTerminalSettings>,
    table: Mutex<TerminalRegistry>,
    /// Ends what watches them; the terminals stay.
    pub(crate) ending: CancellationToken,
}

#[derive(Debug, Default)]
struct TerminalRegistry {
    open: BTreeMap<String, RegisteredTerminal>,
    /// Terminals that are being started.
    starting: usize,
    /// How many there ever were here: they are listed in this order.
    made: u64,
}

/// A terminal that people can reach.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredTerminal {
    pub(crate) terminal: OwnTerminal,
    order: u64,
    /// Held while something is typed, so that two writes do not mix.
    pub(crate) typing: Arc<tokio::sync::Mutex<()>>,
}

/// A place for one more terminal, free again when it is dropped.
pub(crate) struct TerminalPlace<'a>(&'a OwnTerminals);

impl Drop for TerminalPlace<'_> {
    fn drop(&mut self) {
        self.0.registry().starting -= 1;
    }
}

impl OwnTerminals {
    pub(crate) fn new(settings: Option<OwnTerminalSettings>) -> Self {
        Self {
            settings,
            table: Mutex::default(),
            ending: CancellationToken::new(),
        }
    }

    pub(crate) fn reserve(&self) -> Result<TerminalPlace<'_>, Rejection> {
        let mut registry = self.registry();
        if registry.open.len() + registry.starting >= OWN_TERMINALS_MAX {
            return Err(Rejection::TooMany {
                what: "terminals; close some",
                limit: OWN_TERMINALS_MAX,
            });
        }
        registry.starting += 1;
        Ok(TerminalPlace(self))
    }

    pub(crate) fn add(&self, terminal: OwnTerminal) {
        let mut registry = self.registry();
        registry.made += 1;
        let order = registry.made;
        let id = terminal.record.id.clone();
        let registered = RegisteredTerminal {
            terminal,
            order,
            typing: Arc::default(),
        };
        registry.open.insert(id, registered);
    }

    pub(crate) fn remove(&self, id: &str) {
        self.registry().open.remove(id);
    }

    pub(crate) fn find(&self, id: &str) -> Result<RegisteredTerminal, Rejection> {
        let found = self.registry().open.get(id).cloned();
        found.ok_or_else(|| Rejection::UnreadableTerminal {
            terminal: id.to_owned(),
            why: "there is no such terminal, or it was closed".to_owned(),
        })
    }

    /// The oldest first.
    pub(crate) fn all(&self) -> Vec<RegisteredTerminal> {
        let mut all: Vec<_> = self.registry().open.values().cloned().collect();
        all.sort_by_key(|registered| registered.order);
        all
    }

    fn registry(&self) -> MutexGuard<'_, TerminalRegistry> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
