//! The load: who asks, who answers, who reads, and how each ask must end.

use std::sync::Arc;

use countersign_core::Event;
use countersign_core::event::ApprovalOutcome;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::answerer::Answerer;
use super::asker::Asker;
use super::client::{Doorway, Line};
use super::ledger::Ledger;
use super::reader::{Reader, Readings};
use crate::random::Random;

pub(super) const ASKERS: u64 = 16;
pub(super) const ANSWERERS: u64 = 4;
const READERS: usize = 4;
/// Asks that nobody answers end after this long.
const TIMEOUT_MS: u64 = 150;

/// The end an ask must come to, known before it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Approved,
    Denied,
    /// Nobody answers it.
    Expired,
}

impl Fate {
    pub(super) fn resolution(self) -> &'static str {
        match self {
            Self::Approved => "approve",
            Self::Denied => "deny",
            Self::Expired => "expired",
        }
    }

    pub(super) fn opposite(self) -> &'static str {
        match self {
            Self::Approved => "deny",
            Self::Denied | Self::Expired => "approve",
        }
    }

    pub(super) fn outcome(self) -> ApprovalOutcome {
        match self {
            Self::Approved => ApprovalOutcome::Allowed,
            Self::Denied => ApprovalOutcome::Denied,
            Self::Expired => ApprovalOutcome::Expired,
        }
    }

    pub(super) fn state(self) -> &'static str {
        match self {
            Self::Approved => "allowed",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }
}

/// The `n`-th ask of a run: everything about it follows from the seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) n: u64,
    seed: u64,
    choice: u64,
}

impl Ask {
    pub(super) fn new(seed: u64, n: u64) -> Self {
        let choice = Random::new(seed ^ n.wrapping_mul(0x2545_f491_4f6c_dd1d)).next();
        Self { n, seed, choice }
    }

    pub(super) fn fate(&self) -> Fate {
        match self.choice % 16 {
            0 => Fate::Expired,
            1..=8 => Fate::Approved,
            _ => Fate::Denied,
        }
    }

    /// Most asks have a key, so that an ask whose reply was lost can be made again.
    pub(super) fn key(&self) -> Option<String> {
        let keyed = !(self.choice >> 8).is_multiple_of(4);
        keyed.then(|| format!("{:x}-{}", self.seed, self.n))
    }

    /// Whether its asker comes back for the answer it was told already.
    pub(super) fn is_told_again(&self) -> bool {
        (self.choice >> 16).is_multiple_of(4)
    }

    /// Whether an answerer tries to change its own answer.
    pub(super) fn is_disputed(&self) -> bool {
        (self.choice >> 24).is_multiple_of(4)
    }

    /// Two answerers answer each ask, with the same word.
    pub(super) fn is_answered_by(&self, answerer: u64) -> bool {
        let first = self.n % ANSWERERS;
        self.fate() != Fate::Expired && (first == answerer || (first + 1) % ANSWERERS == answerer)
    }

    pub(super) fn params(&self) -> Value {
        // A few asks are long, so that they take several pages of the database.
        let is_long = self.choice.is_multiple_of(17);
        let most = if is_long { 20_000 } else { 200 };
        let bulk = usize::try_from((self.choice >> 32) % most).unwrap_or_default();
        let mut params = json!({
            "action": format!("act {}", self.n),
            "details": { "n": self.n, "text": "x".repeat(bulk) },
            "system_level": true,
        });
        if let Some(key) = self.key() {
            params["idempotency_key"] = json!(key);
        }
        if self.fate() == Fate::Expired {
            params["timeout_ms"] = json!(TIMEOUT_MS);
        }
        params
    }
}

/// Tokens that outlive every host.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) asker: String,
    pub(super) answerer: String,
    pub(super) reader: String,
}

/// Everybody who keeps the host busy.
pub(super) struct Load {
    pub(super) ledger: Arc<Ledger>,
    pub(super) readings: Vec<Arc<Readings>>,
    askers: JoinSet<()>,
    others: JoinSet<()>,
    asking_ends: CancellationToken,
}

impl Load {
    /// Sets everybody to work as soon as a door opens.
    pub(super) fn begin(
        seed: u64,
        tokens: &Tokens,
        doorway: &watch::Receiver<Option<Doorway>>,
    ) -> Self {
        let ledger = Arc::new(Ledger::default());
        let asking_ends = CancellationToken::new();
        let mut askers = JoinSet::new();
        for first in 0..ASKERS {
            let line = Line::new(&tokens.asker, doorway, &ledger);
            askers.spawn(Asker::new(line, seed, first, asking_ends.clone()).run());
        }
        let mut others = JoinSet::new();
        for me in 0..ANSWERERS {
            let line = Line::new(&tokens.answerer, doorway, &ledger).subscribing(None);
            others.spawn(Answerer::new(line, seed, me).run());
        }
        let mut readings = Vec::new();
        for reader in 0..READERS {
            // The last one reads what is for the host alone, too.
            let all = (reader + 1 == READERS).then_some(Event::KINDS);
            let line = Line::new(&tokens.reader, doorway, &ledger).subscribing(all);
            let reader = Reader::new(line, all.is_some());
            readings.push(reader.readings.clone());
            others.spawn(reader.run());
        }
        Self {
            ledger,
            readings,
            askers,
            others,
            asking_ends,
        }
    }

    /// Lets every asker finish the ask it has open, and then ask no more.
    pub(super) async fn finish_asking(&mut self) {
        self.asking_ends.cancel();
        while self.askers.join_next().await.is_some() {}
    }

    /// Ends everybody else.
    pub(super) async fn end(mut self) {
        self.others.shutdown().await;
    }
}
